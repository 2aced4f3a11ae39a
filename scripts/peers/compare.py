#!/usr/bin/env python3
"""Measures uvatrain compared with DGL, GraphBolt, PyG, numpy and torch, and writes docs/results/peers.json.

    scripts/peers/compare.sh [options]      gets the peers, builds, makes the graphs, and then runs this
    scripts/peers/compare.py --check FILE   works figures and ratios out again from a file's rounds, compares them with
                                            what FILE says, and prints the tables; measures nothing

Four sections: neighbour sampling alone, the gather of feature rows alone, both end to end (loading), and GraphSAGE
epochs (training). A cell is a section on a graph on a number of cores, to which every process is pinned. Within a cell the
peers' processes stay, and every round measures each contender for a few seconds, every other round in reverse order, so
that a slow minute falls on all of them. What other processes used of the machine is measured with each; what was
disturbed is measured again, for some rounds, and marked where that does not help. Before the rounds every runtime shows
one batch that is compared with the graph: what is timed is the same work.
"""
import argparse
import json
import os
import re
import shutil
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path[:0] = [str(ROOT / "scripts/measure"), str(ROOT / "scripts/peers")]
from host import cpu_seconds  # noqa: E402
from watched import machine  # noqa: E402
from report import FOREIGN, SECTIONS, figure, markdown, ratios, summarise  # noqa: E402
from runtimes import Failed, Program, Worker  # noqa: E402

ABOUT = "Made by scripts/peers/compare.sh; docs/reference/results.md shows it."
HUGE = {"THP_MEM_ALLOC_ENABLE": "1"}
# Rows of a gather are as many bytes as the input nodes of a batch on the larger graph.
GATHER_BYTES = 40_000_000

# Seconds are of one contender in one round; an epoch that has begun is finished.
FULL = {"rounds": 4, "retries": 2, "seconds": 2.0, "training_rounds": 2, "training_seconds": 25, "epochs": 3,
        "cells": {"sampling": ["small", "medium"], "gather": ["small", "medium"], "loading": ["small", "medium"],
                  "training": ["small"]}}
QUICK = {"rounds": 2, "retries": 1, "seconds": 0.7, "training_rounds": 1, "training_seconds": 1, "epochs": 1,
         "cells": {"sampling": ["medium"], "gather": ["medium"], "loading": ["medium"], "training": ["small"]}}


def contenders(section, cores, quick):
    """Who takes part. `worker` names the process (contenders of one share it): script, options, variables."""
    dgl64 = ("dgl_worker.py", ("--library", "dgl", "--ids", "int64"))
    dgl32 = ("dgl_worker.py", ("--library", "dgl", "--ids", "int32"))
    bolt32 = ("dgl_worker.py", ("--library", "graphbolt", "--ids", "int32"))
    bolt64 = ("dgl_worker.py", ("--library", "graphbolt", "--ids", "int64"))
    pyg = ("pyg_worker.py", ())
    arrays = ("arrays_worker.py", ())
    found = []

    def add(runtime, way="", worker=None, variables=None, operation=section, **request):
        name = f"{runtime}, {way}" if way else runtime
        found.append({"name": name, "runtime": runtime, "way": way, "worker": worker and (*worker, variables or {}),
                      "request": {"operation": operation, **request}})

    both_sizes_of_pages = (("", {}), ("huge pages", HUGE))
    several = cores > 1
    if section == "sampling":
        add("uvatrain")
        add("DGL", "int64, fused" if several else "int64", dgl64)
        add("DGL", "int32", dgl32)
        add("GraphBolt", "int32", bolt32)
        if not quick:
            add("GraphBolt", "int64", bolt64)
        add("PyG", "", pyg, workers=0)
        if several:
            add("PyG", f"{cores} loader processes", pyg, workers=cores)
    elif section == "gather":
        add("uvatrain", bytes=GATHER_BYTES)
        add("memcpy", "", arrays, operation="memcpy")
        add("numpy", "take(out=)", arrays, operation="take")
        add("torch", "index_select(out=)", arrays, operation="index_select_out")
        for way, variables in both_sizes_of_pages:
            add("torch, fresh output", way, arrays, variables, "index_select")
            add("GraphBolt", way, bolt32, variables, "graphbolt")
            add("DGL", way, bolt32, variables, "dgl")
    elif section == "loading":
        add("uvatrain", f"{cores} samplers" if several else "", samplers=cores, gather_threads=1)
        if several:
            add("uvatrain", "1 sampler", samplers=1, gather_threads=1)
        add("uvatrain", f"{cores} workers of whole batches" if several else "whole batches", samplers=cores, prepare="whole")
        for way, variables in both_sizes_of_pages:
            for workers in (0, cores) if several else (0,):
                more = [way] * bool(way) + [f"{workers} loader processes"] * (workers > 0)
                add("DGL", ", ".join(["int64", *more]), dgl64, variables, workers=workers)
                if not several and not quick:
                    add("DGL", ", ".join(["int32", *more]), dgl32, variables, workers=workers)
                add("GraphBolt", ", ".join(more), bolt32, variables, workers=workers)
                add("PyG", ", ".join(more), pyg, variables, workers=workers)
    else:
        for threads in range(1, cores + 1):
            add("uvatrain", f"{threads} training thread{'s' * (threads > 1)}" if several else "", train_threads=threads)
        for workers in (0, 1) if several else (0,):
            way = "1 loader process" * workers
            add("DGL", way, dgl64, workers=workers)
            add("GraphBolt", way, bolt32, workers=workers)
            add("PyG", way, pyg, workers=workers)
    return found


def in_order(contenders, number):
    """The order of a round: every other one is reversed."""
    return list(contenders) if number % 2 == 0 else list(reversed(contenders))


def measure_rounds(contenders, rounds, retries, measure, say=lambda *_: None):
    """Measures every contender in every round by `measure(contender, round)`, which returns a record with `foreign_load` or
    raises Failed; then again those of which not half of the rounds were undisturbed, `retries` times at most."""
    for number in range(rounds + retries):
        wanted = contenders
        if number >= rounds:
            wanted = [one for one in contenders
                      if 2 * sum(of["foreign_load"] < FOREIGN for of in one["rounds"]) < rounds]
        for contender in in_order(wanted, number):
            if "failed" in contender:
                continue
            try:
                record = measure(contender, number)
            except Failed as failure:
                contender["failed"] = str(failure)
                say(number, contender, None)
                continue
            contender["rounds"].append({"round": number, **record})
            say(number, contender, record)


class Quiet:
    """Waits for other processes to leave the machine alone, all in all no longer than `limit` seconds."""

    def __init__(self, limit):
        self.left = limit

    def wait(self):
        since = time.monotonic()
        while self.left > 0 and time.monotonic() - since < 10:
            before, begin = cpu_seconds(), time.monotonic()
            time.sleep(0.2)
            took = time.monotonic() - begin
            if (cpu_seconds() - before) / took < FOREIGN:
                return
            self.left -= took


def watched(runtime, request):
    """A runtime's record, and how many cores' worth of work others did meanwhile."""

    def own():
        times = os.times()
        driver = times.user + times.system + times.children_user + times.children_system
        return driver + runtime.cpu_seconds()

    before, busy, since = own(), cpu_seconds(), time.monotonic()
    record = runtime.measure(request)
    foreign = cpu_seconds() - busy - (own() - before)
    return {**record, "foreign_load": round(max(0.0, foreign / (time.monotonic() - since)), 3)}


# --- Graphs --------------------------------------------------------------------------------------------------------


def npy_length(path):
    """The length of a .npy file's first axis."""
    with open(path, "rb") as file:
        return int(re.search(rb"'shape': \((\d+)", file.read(256))[1])


def prepare(source, folder):
    """A dataset of a graph's files, with nothing to validate and nothing to test: links where that can be. `source` is a
    dataset, or a folder of indptr.npy, indices.npy, feat.npy, label.npy and train_idx.npy or seeds.npy."""
    folder.mkdir(parents=True, exist_ok=True)
    train = "train_idx" if (source / "train_idx.npy").exists() else "seeds"
    for name, of in [*((name, name) for name in ("indptr", "indices", "feat", "label")), ("train_idx", train)]:
        path, target = source / f"{of}.npy", folder / f"{name}.npy"
        if not path.exists():
            sys.exit(f"peers: {path} is not there")
        there = target.stat() if target.exists() else None
        if there is None or (there.st_size, there.st_mtime_ns) != (path.stat().st_size, path.stat().st_mtime_ns):
            target.unlink(missing_ok=True)
            try:
                os.link(path, target)
            except OSError:
                shutil.copy2(path, target)
    for split in ("valid", "test"):
        header = "{'descr': '<i8', 'fortran_order': False, 'shape': (0,), }".ljust(117) + "\n"
        (folder / f"{split}_idx.npy").write_bytes(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode())
    meta = source / "meta.json"
    kept = json.loads(meta.read_text()) if meta.exists() else {}
    kept = {name: kept[name] for name in ("classes", "feat_dtype") if name in kept}
    (folder / "meta.json").write_text(json.dumps({"name": source.name, **kept}))
    return folder


# --- One cell ------------------------------------------------------------------------------------------------------


class Session:
    """What a run has got to know, and its options."""

    def __init__(self, arguments, plan):
        self.arguments, self.plan, self.quiet = arguments, plan, Quiet(arguments.wait)
        self.pythons = {"dgl_worker.py": arguments.dgl_python, "pyg_worker.py": arguments.pyg_python,
                        "arrays_worker.py": arguments.dgl_python or arguments.pyg_python}
        self.versions, self.checks = {}, []

    def taking_part(self, section, cores):
        def wanted(one):
            if one["runtime"] == "uvatrain":
                return True
            peer = {"GraphBolt": "graphbolt", "DGL": "dgl", "PyG": "pyg"}.get(one["runtime"], "arrays")
            return peer in self.arguments.peers and self.pythons[one["worker"][0]] is not None

        return [one for one in contenders(section, cores, self.arguments.quick) if wanted(one)]

    def cell(self, section, graph, cores):
        """Measures one cell."""
        path = self.arguments.work / graph
        pinned = sorted(os.sched_getaffinity(0))[:cores]
        training = section == "training"
        common = {"fanouts": [10, 10] if training else self.arguments.fanouts, "batch_size": self.arguments.batch_size,
                  "hidden": 128, "rate": 3e-3, "epochs": self.plan["epochs"], "workers": 0,
                  "seconds": self.plan["training_seconds" if training else "seconds"],
                  "epoch_batches": npy_length(path / "train_idx.npy") // self.arguments.batch_size}
        taking_part = self.taking_part(section, cores)
        runtimes = {}
        print(f"\n{section}, {graph}, cores: {cores}", file=sys.stderr)
        try:
            # All at once: loading a graph takes seconds, and nothing is timed yet.
            for one in taking_part:
                key = repr(one["worker"])
                if key not in runtimes and one["worker"] is None:
                    runtimes[key] = Program(self.arguments.uvatrain, path, pinned)
                elif key not in runtimes:
                    script, options, variables = one["worker"]
                    options = ("--graph", path, "--section", section, "--threads", cores, *options)
                    runtimes[key] = Worker(self.pythons[script], script, options, pinned, variables)
            for key, runtime in list(runtimes.items()):
                self.make_ready(key, runtime, section, graph, cores, common, taking_part)

            def measure(contender, number):
                self.quiet.wait()
                request = {**common, "seed": number, **contender["request"]}
                return watched(runtimes[repr(contender["worker"])], request)

            rounds = self.plan["training_rounds" if training else "rounds"]
            for one in taking_part:
                one.setdefault("rounds", [])
            measure_rounds(taking_part, rounds, self.plan["retries"], measure,
                           lambda *reported: say_round(section, *reported))
        finally:
            for runtime in runtimes.values():
                runtime.close()
        for one in taking_part:
            one.pop("worker"), one.pop("request")
        return summarise({"section": section, "graph": graph, "cores": cores, "fanouts": common["fanouts"],
                          "batch_size": common["batch_size"], "contenders": taking_part})

    def make_ready(self, key, runtime, section, graph, cores, common, taking_part):
        """Waits for a runtime, and has it show a batch; who fails in either takes no part."""
        of_it = [one for one in taking_part if repr(one["worker"]) == key]
        try:
            self.versions.update(runtime.ready())
            if section in ("sampling", "loading"):
                seen = runtime.measure({**common, "operation": "check", "batch_size": 100})
                self.checks.append({"section": section, "graph": graph, "cores": cores, "name": of_it[0]["name"], **seen})
        except Failed as failure:
            for one in of_it:
                one["failed"], one["rounds"] = str(failure), []
            print(f"  {of_it[0]['name']}: {failure}", file=sys.stderr)


def say_round(section, number, contender, record):
    if record is None:
        print(f"  round {number}  {contender['name']:<44} failed: {contender['failed']}", file=sys.stderr)
        return
    print(f"  round {number}  {contender['name']:<44} {figure(section, record):9.4g} {SECTIONS[section][0]}"
          f"   of {record['batches']} batches, others used {record['foreign_load']:.2f} cores", file=sys.stderr, flush=True)


# --- All of it -----------------------------------------------------------------------------------------------------


def text_of(results):
    text = json.dumps(results, indent=1)
    # Innermost objects and arrays take one line each, so that people can read the file.
    return re.sub(r"([\[{])\s+([^\[\]{}]*?)\s+([\]}])", lambda m: m[1] + re.sub(r"\s*\n\s*", " ", m[2]) + m[3], text) + "\n"


def check(path, pages):
    """Checks that a file's figures follow from its rounds, and that each page has its tables. Returns the differences and
    the tables."""
    results = json.loads(path.read_text())
    again = {**results, "cells": [summarise(json.loads(json.dumps(cell))) for cell in results["cells"]]}
    wrong = []
    for reported, found in zip(results["cells"], again["cells"]):
        if reported != found:
            wrong.append(f"{path}: {reported['section']}, {reported['graph']}, cores: {reported['cores']}: not what its rounds give")
    reported = [*markdown(again).splitlines(), "", *ratios(again)]
    for page in pages:
        lines = set(page.read_text().splitlines())
        wrong += [f"{page}: lacks the line {line}" for line in reported if line and line not in lines]
    return wrong, "\n".join(reported)


def names(text):
    return [name for name in text.split(",") if name]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", type=Path, metavar="FILE")
    parser.add_argument("--page", type=Path, action="append", default=[],
                        help="a page whose tables --check compares")
    parser.add_argument("--uvatrain", type=Path, default=ROOT / "target/release/uvatrain")
    parser.add_argument("--dgl-python", type=Path, help="the python that imports dgl")
    parser.add_argument("--pyg-python", type=Path, help="the python that imports torch_geometric and torch_sparse")
    parser.add_argument("--left-out", action="append", default=[], metavar="PEER=WHY")
    parser.add_argument("--graphs", type=Path, help="a folder with a folder a graph: small and medium")
    parser.add_argument("--work", type=Path, default=ROOT / "data/peers", help="where the datasets are put together")
    parser.add_argument("--quick", action="store_true", help="one graph a section, two short rounds: about 8 minutes")
    parser.add_argument("--only", type=names, default=list(SECTIONS), metavar="SECTION,…")
    parser.add_argument("--graph", type=names, metavar="NAME,…", help="[default: as the section needs]")
    parser.add_argument("--cores", type=lambda text: [int(one) for one in names(text)], metavar="N,…")
    parser.add_argument("--peers", type=names, default=["arrays", "dgl", "graphbolt", "pyg"], metavar="PEER,…")
    parser.add_argument("--fanouts", type=lambda text: [int(one) for one in names(text)], default=[15, 10, 5])
    parser.add_argument("--batch-size", type=int, default=1000)
    parser.add_argument("--rounds", type=int, help="of all sections but training")
    parser.add_argument("--seconds", type=float, help="of one contender in one round")
    parser.add_argument("--wait", type=float, default=240, help="seconds to wait, all in all, for a quiet machine")
    parser.add_argument("--append", action="store_true", help="leave the cells as they are that --out holds already")
    parser.add_argument("--out", type=Path, default=ROOT / "docs/results/peers.json")
    arguments = parser.parse_args()
    if arguments.check:
        wrong, tables = check(arguments.check, arguments.page)
        if wrong:
            sys.exit("\n".join(wrong))
        print(tables)
        return
    unknown = [section for section in arguments.only if section not in SECTIONS]
    if unknown:
        parser.error(f"--only {','.join(unknown)}: the sections are {', '.join(SECTIONS)}")
    plan = dict(QUICK if arguments.quick else FULL)
    for name in ("rounds", "seconds"):
        if getattr(arguments, name) is not None:
            plan[name] = getattr(arguments, name)
    have = len(os.sched_getaffinity(0))
    cores = arguments.cores or sorted({1, min(2, have)})
    if max(cores) > have:
        parser.error(f"--cores {max(cores)}: this process may use {have}")

    results = {"cells": [], "checks": [], "versions": {}, "graphs": {}}
    if arguments.append and arguments.out.exists():
        results = json.loads(arguments.out.read_text())
    done = {(cell["section"], cell["graph"], cell["cores"]) for cell in results["cells"]}
    wanted = [(section, graph, count) for section in arguments.only
              for graph in arguments.graph or plan["cells"][section] for count in cores]
    wanted = [cell for cell in wanted if cell not in done]
    for graph in sorted({graph for _, graph, _ in wanted}):
        folder = prepare(arguments.graphs / graph, arguments.work / graph)
        facts = Program(arguments.uvatrain, folder, os.sched_getaffinity(0))._run("info", folder)
        results["graphs"][graph] = {name: facts[name] for name in ("nodes", "edges") if name in facts}
    session = Session(arguments, plan)
    for cell in wanted:
        results["cells"].append(session.cell(*cell))
        order = {name: number for number, name in enumerate(SECTIONS)}
        results["cells"].sort(key=lambda one: (order[one["section"]], one["graph"] != "small", one["cores"]))
        results["checks"] += session.checks
        session.checks = []
        results["versions"].update(session.versions)
        results = {"about": ABOUT, "machine": machine(), "versions": results["versions"], "graphs": results["graphs"],
                   "parameters": {name: plan[name] for name in plan if name != "cells"} | {
                       "hidden": 128, "training_fanouts": [10, 10], "learning_rate": 3e-3, "gather_bytes": GATHER_BYTES,
                       "disturbed_from_cores": FOREIGN, "quick": arguments.quick},
                   "left_out": dict(one.split("=", 1) for one in arguments.left_out), "checks": results["checks"],
                   "cells": results["cells"]}
        arguments.out.parent.mkdir(parents=True, exist_ok=True)
        arguments.out.write_text(text_of(results))
    if results["cells"]:
        print(markdown(results))
        print("\n".join(["", *ratios(results)]))


if __name__ == "__main__":
    main()
