#!/usr/bin/env python3
"""Measures uvatrain compared with DGL, GraphBolt, PyG over pyg-lib, Kumo, numpy and torch, and writes docs/results/peers.json.

    scripts/peers/compare.sh [options]      gets the peers, builds, makes the graphs, and then runs this
    scripts/peers/compare.py --check FILE   works figures and ratios out again from a file's rounds, compares them with
                                            what FILE says, and prints the tables; measures nothing

Sections: neighbour sampling alone, the gather of feature rows alone, both end to end (loading), and GraphSAGE epochs
(training); of a typed graph typed-sampling, typed-loading with rows of three types, and epochs of R-SAGE and R-GAT with
trained rows of the fourth type (typed-rsage, typed-rgat); formats, which samples one graph as format 1 and as format 2
with one relation. A cell is a section on a graph with its fanouts on a number of
cores, to which every process is pinned. Within a cell the peers' processes stay, and every round measures each
contender for a few seconds, every other round in reverse order, so that a slow minute falls on all of them. What other
processes used of the machine is measured with each; what was disturbed is measured again, for some rounds, and marked
where that does not help. Before the rounds every runtime shows one batch that is compared with the graph: what is timed
is the same work.
"""
import argparse
import json
import os
import re
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path[:0] = [str(ROOT / "scripts/measure"), str(ROOT / "scripts/peers")]
from host import cpu_seconds  # noqa: E402
from watched import machine  # noqa: E402
from graphs import npy_shape, prepare, with_types  # noqa: E402
from report import FOREIGN, SECTIONS, TRAINING, figure, markdown, ratios, summarise, title  # noqa: E402
from runtimes import Failed, Program, Worker  # noqa: E402

ABOUT = "Made by scripts/peers/compare.sh; docs/reference/results.md shows it."
HUGE = {"THP_MEM_ALLOC_ENABLE": "1"}
# Rows of a gather are as many bytes as the input nodes of a batch on the larger graph.
GATHER_BYTES = 40_000_000

# Seconds are of one contender in one round; an epoch that has begun is finished.
FULL = {"rounds": 4, "retries": 2, "seconds": 2.0, "training_rounds": 2, "training_seconds": 25, "epochs": 3,
        "typed_fanouts": [[10, 10], [25, 20]],
        "cells": {"sampling": ["small", "medium"], "gather": ["small", "medium"], "loading": ["small", "medium"],
                  "training": ["small"], "typed-sampling": ["mag"], "typed-loading": ["mag"], "typed-rsage": ["mag"],
                  "typed-rgat": ["mag"], "formats": ["small"]}}
QUICK = {"rounds": 2, "retries": 1, "seconds": 0.7, "training_rounds": 1, "training_seconds": 1, "epochs": 1,
         "typed_fanouts": [[10, 10]],
         "cells": {"sampling": ["medium"], "gather": ["medium"], "loading": ["medium"], "training": ["small"],
                   "typed-sampling": ["mag"], "typed-loading": ["mag"], "typed-rsage": ["mag"], "typed-rgat": ["mag"],
                   "formats": ["small"]}}
# Whose python runs a runtime's worker; all but these are of `arrays`.
PEERS = {"DGL": "dgl", "GraphBolt": "graphbolt", "pyg-lib": "pyg-lib", "Kumo": "kumo", "uvatrain": "uvatrain"}


def contenders(section, cores, quick):
    """Who takes part. `worker` names the process (contenders of one share it): script, options, variables."""
    dgl64 = ("dgl_worker.py", ("--library", "dgl", "--ids", "int64"))
    dgl32 = ("dgl_worker.py", ("--library", "dgl", "--ids", "int32"))
    bolt32 = ("dgl_worker.py", ("--library", "graphbolt", "--ids", "int32"))
    bolt64 = ("dgl_worker.py", ("--library", "graphbolt", "--ids", "int64"))
    pyg_lib = ("pyg_worker.py", ())
    arrays = ("arrays_worker.py", ())
    found = []

    def add(runtime, way="", worker=None, variables=None, operation=section, **request):
        name = f"{runtime}, {way}" if way else runtime
        found.append({"name": name, "runtime": runtime, "way": way, "worker": worker and (*worker, variables or {}),
                      "request": {"operation": operation, **request}})
        if section in ("typed-loading", "typed-rsage", "typed-rgat"):
            # Whose lists a hop reads: what peers do, and uvatrain as is wanted.
            found[-1]["expand"] = request.get("expand", "all" if runtime in ("DGL", "GraphBolt") else "new")

    both_sizes_of_pages = (("", {}), ("huge pages", HUGE))
    several = cores > 1
    if section == "sampling":
        add("uvatrain")
        add("DGL", "int64, fused" if several else "int64", dgl64)
        add("DGL", "int32", dgl32)
        add("GraphBolt", "int32", bolt32)
        if not quick:
            add("GraphBolt", "int64", bolt64)
        for workers in (0, cores) if several else (0,):
            way = f"{workers} loader processes" if workers else ""
            add("pyg-lib", way, pyg_lib, workers=workers)
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
                add("pyg-lib", ", ".join(more), pyg_lib, variables, workers=workers)
    elif section == "typed-sampling":
        add("uvatrain", operation="sampling")
        add("DGL", "int64, fused" if several else "int64", dgl64, operation="sampling")
        add("DGL", "int32", dgl32, operation="sampling")
        add("GraphBolt", "int32", bolt32, operation="sampling")
        if not quick:
            add("GraphBolt", "int64", bolt64, operation="sampling")
        for workers in (0, cores) if several else (0,):
            way = f"{workers} loader processes" if workers else ""
            add("pyg-lib", way, pyg_lib, operation="sampling", workers=workers)
        add("Kumo", "", ("kumo_worker.py", ()), operation="sampling")
    elif section == "typed-loading":
        for expand, way in (("all", ""), ("new", "new nodes")):
            more = [way] * bool(way)
            add("uvatrain", ", ".join([f"{cores} samplers"] * several + more), operation="loading", samplers=cores,
                gather_threads=1, expand=expand)
            add("uvatrain", ", ".join(["whole batches", *more]), operation="loading", samplers=cores, prepare="whole",
                expand=expand)
            add("uvatrain", ", ".join(["Python", *more]), ("uvatrain_worker.py", ()), operation="loading", samplers=cores,
                expand=expand)
        for way, variables in both_sizes_of_pages:
            for workers in (0, cores) if several else (0,):
                more = [way] * bool(way) + [f"{workers} loader processes"] * (workers > 0)
                add("DGL", ", ".join(["int64", *more]), dgl64, variables, "loading", workers=workers)
                if not quick:
                    add("DGL", ", ".join(["int32", *more]), dgl32, variables, "loading", workers=workers)
                add("pyg-lib", ", ".join(more), pyg_lib, variables, "loading", workers=workers)
    elif section in ("typed-rsage", "typed-rgat"):
        model = section.removeprefix("typed-")
        for expand, way in (("all", ""), ("new", "new nodes")):
            for threads in range(1, cores + 1):
                more = [f"{threads} training thread{'s' * (threads > 1)}"] * several + [way] * bool(way)
                add("uvatrain", ", ".join(more), operation="training", train_threads=threads, model=model, expand=expand)
        for workers in (0, 1) if several else (0,):
            way = "1 loader process" * workers
            add("DGL", way, dgl64, operation="training", workers=workers, model=model)
            add("pyg-lib", way, pyg_lib, operation="training", workers=workers, model=model)
    elif section == "formats":
        add("format 1", operation="sampling")
        add("uvatrain", "format 2", operation="sampling", graph="-typed")
    else:
        for threads in range(1, cores + 1):
            add("uvatrain", f"{threads} training thread{'s' * (threads > 1)}" if several else "", train_threads=threads)
        for workers in (0, 1) if several else (0,):
            way = "1 loader process" * workers
            add("DGL", way, dgl64, workers=workers)
            add("GraphBolt", way, bolt32, workers=workers)
            add("pyg-lib", way, pyg_lib, workers=workers)
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


# --- One cell ------------------------------------------------------------------------------------------------------


class Session:
    """What a run has got to know, and its options."""

    def __init__(self, arguments, plan):
        self.arguments, self.plan, self.quiet = arguments, plan, Quiet(arguments.wait)
        self.pythons = {"dgl": arguments.dgl_python, "graphbolt": arguments.dgl_python,
                        "pyg-lib": arguments.pyg_lib_python, "kumo": arguments.kumo_python,
                        "arrays": arguments.dgl_python or arguments.pyg_lib_python, "uvatrain": arguments.uvatrain_python}
        self.versions, self.checks = {}, []

    def taking_part(self, section, cores):
        def wanted(one):
            if one["worker"] is None:
                return True
            peer = PEERS.get(one["runtime"], "arrays")
            return peer in [*self.arguments.peers, "uvatrain"] and self.pythons[peer] is not None

        return [one for one in contenders(section, cores, self.arguments.quick) if wanted(one)]

    def cell(self, section, graph, cores, fanouts):
        """Measures one cell."""
        path = self.arguments.work / graph
        pinned = sorted(os.sched_getaffinity(0))[:cores]
        training = section in TRAINING
        batch_size = self.arguments.batch_size or (1024 if section.startswith("typed") else 1000)
        common = {"fanouts": fanouts, "batch_size": batch_size, "hidden": 128, "heads": 4, "rate": 3e-3, "epochs": self.plan["epochs"],
                  "workers": 0, "seconds": self.plan["training_seconds" if training else "seconds"],
                  "epoch_batches": npy_shape(next(path.rglob("train_idx.npy")))[0] // batch_size}
        taking_part = self.taking_part(section, cores)
        runtimes = {}
        print(f"\n{section}, {title({'section': section, 'graph': graph, 'fanouts': fanouts})}, cores: {cores}", file=sys.stderr)

        def key_of(one):
            return repr((one["runtime"], one["worker"], *(one["request"].get(name) for name in ("graph", "expand"))))

        try:
            # All at once: loading a graph takes seconds, and nothing is timed yet.
            for one in taking_part:
                key = key_of(one)
                if key not in runtimes and one["worker"] is None:
                    other = path.with_name(path.name + one["request"].get("graph", ""))
                    runtimes[key] = Program(self.arguments.uvatrain, other, pinned)
                elif key not in runtimes:
                    script, options, variables = one["worker"]
                    options = ("--graph", path, "--section", section, "--threads", cores, *options)
                    python = self.pythons[PEERS.get(one["runtime"], "arrays")]
                    runtimes[key] = Worker(python, script, options, pinned, variables)
            for key, runtime in list(runtimes.items()):
                of_it = [one for one in taking_part if key_of(one) == key]
                self.make_ready(of_it, runtime, section, graph, cores, common)

            def measure(contender, number):
                self.quiet.wait()
                request = {**common, "seed": number, **contender["request"]}
                return watched(runtimes[key_of(contender)], request)

            rounds = self.plan["training_rounds" if training else "rounds"]
            if section == "formats":
                # Two contenders alone, which are within a few hundredths.
                rounds *= 3
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

    def make_ready(self, of_it, runtime, section, graph, cores, common):
        """Waits for a runtime, and has it show a batch; who fails in either takes no part."""
        try:
            self.versions.update(runtime.ready())
            if section != "gather" and section not in TRAINING:
                seen = runtime.measure({**common, **of_it[0]["request"], "operation": "check", "batch_size": 100})
                # Fanouts where the section has several.
                more = {"fanouts": common["fanouts"]} if section.startswith("typed") else {}
                of_cell = {"section": section, "graph": graph, "cores": cores, **more}
                self.checks.append({**of_cell, "name": of_it[0]["name"], **seen})
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


def fanouts_of(section, arguments, plan):
    """The fanouts of a section's cells."""
    if section in TRAINING:
        return [[10, 10]]
    if arguments.fanouts:
        return [arguments.fanouts]
    return {"typed-sampling": plan["typed_fanouts"], "typed-loading": plan["typed_fanouts"][:1]}.get(section, [[15, 10, 5]])


def names(text):
    return [name for name in text.split(",") if name]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", type=Path, metavar="FILE")
    parser.add_argument("--page", type=Path, action="append", default=[],
                        help="a page whose tables --check compares")
    parser.add_argument("--uvatrain", type=Path, default=ROOT / "target/release/uvatrain")
    parser.add_argument("--dgl-python", type=Path, help="the python that imports dgl")
    parser.add_argument("--pyg-lib-python", type=Path, help="the python that imports torch_geometric and pyg_lib")
    parser.add_argument("--uvatrain-python", type=Path, help="a python that imports uvatrain: its loader takes part as well")
    parser.add_argument("--kumo-python", type=Path, help="the python that imports kumo_relational_engine")
    parser.add_argument("--left-out", action="append", default=[], metavar="PEER=WHY")
    parser.add_argument("--graphs", type=Path, help="a folder with a folder a graph: small, medium and mag")
    parser.add_argument("--work", type=Path, default=ROOT / "data/peers", help="where the datasets are put together")
    parser.add_argument("--quick", action="store_true", help="one graph a section, two short rounds: about 8 minutes")
    parser.add_argument("--only", type=names, default=list(SECTIONS), metavar="SECTION,…")
    parser.add_argument("--graph", type=names, metavar="NAME,…", help="[default: as the section needs]")
    parser.add_argument("--cores", type=lambda text: [int(one) for one in names(text)], metavar="N,…")
    parser.add_argument("--peers", type=names, default=["arrays", *PEERS.values()], metavar="PEER,…",
                        help="[default: all]")
    parser.add_argument("--fanouts", type=lambda text: [int(one) for one in names(text)],
                        help="[default: 15,10,5; of typed-sampling 10,10 and 25,20; of typed-loading 10,10]")
    parser.add_argument("--batch-size", type=int, help="[default: 1000; of typed sections 1024]")
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
    done = [(cell["section"], cell["graph"], cell["cores"], cell["fanouts"]) for cell in results["cells"]]
    wanted = [(section, graph, count, fanouts) for section in arguments.only
              for graph in arguments.graph or plan["cells"][section] for fanouts in fanouts_of(section, arguments, plan)
              for count in cores]
    wanted = [cell for cell in wanted if cell not in done]
    for graph in sorted({cell[1] for cell in wanted}):
        folder = prepare(arguments.graphs / graph, arguments.work / graph)
        if ("formats", graph) in {cell[:2] for cell in wanted}:
            with_types(folder, folder.with_name(f"{graph}-typed"))
        facts = Program(arguments.uvatrain, folder, os.sched_getaffinity(0))._run("info", folder)
        results["graphs"][graph] = {name: facts[name] for name in ("nodes", "edges") if name in facts}
    session = Session(arguments, plan)
    for cell in wanted:
        results["cells"].append(session.cell(*cell))
        order = {name: number for number, name in enumerate(SECTIONS)}
        results["cells"].sort(key=lambda one: (order[one["section"]], one["graph"] != "small", one["fanouts"], one["cores"]))
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
