#!/usr/bin/env python3
"""Measures the caches on this machine and writes the raw figures that docs/reference/results.md shows.

    scripts/measure/caches.py [--work DIR] [--out docs/results/caches.json] [--quick]

- hit rates of every policy on three graph shapes and on the real graphs that scripts/setup/datasets.sh has unpacked
- bytes of rows that cross the link in an epoch, with and without
- the allocator's division of a budget, and eleven others, for two fanouts and two row sizes
- the cost of planning a graph of 100 million edges: seconds and an epoch's, memory and the adjacency's
- picks that stay for several batches: hit rates and accuracy

Graphs are generated into DIR (about 8 GB; kept, so that a second run does not generate them again). Hit rates are counted,
not timed: they are the same on every machine. `--quick` makes everything a hundredth of the size, to try the script.
Needs only Python and a release build. About half an hour on two cores.
"""
import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts/measure"))
from watched import machine  # noqa: E402

POLICIES = "degree,presample,analytic,random,optimal,fifo"


class Bench:
    def __init__(self, binary, work, quick):
        self.binary, self.work, self.quick = binary, work, quick

    def run(self, *arguments):
        """What the program prints with --json, the seconds, and the most memory of its own that it had (bytes): pages of
        mapped files, which the system takes back whenever it likes, are not counted."""
        command = [str(self.binary), *map(str, arguments)]
        print("  " + " ".join(command), file=sys.stderr)
        since = time.monotonic()
        with tempfile.TemporaryFile() as errors:
            child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors)
            peak = [0]
            watcher = threading.Thread(target=self.watch, args=(child, peak), daemon=True)
            watcher.start()
            output = child.stdout.read()
            status = child.wait()
            if status != 0:
                errors.seek(0)
                sys.exit(f"{' '.join(command)}\nended with {status}:\n{errors.read().decode()}")
        text = output.decode()
        return (json.loads(text) if text.strip() else None), time.monotonic() - since, peak[0]

    @staticmethod
    def watch(child, peak):
        """Looks every twentieth of a second: what it misses is shorter than that."""
        while child.poll() is None:
            try:
                lines = Path(f"/proc/{child.pid}/status").read_text().splitlines()
            except OSError:
                return
            sizes = dict(line.split(":", 1) for line in lines if line.startswith(("RssAnon", "RssShmem")))
            peak[0] = max(peak[0], sum(int(size.split()[0]) * 1024 for size in sizes.values()))
            time.sleep(0.05)

    def graph(self, name, *options):
        path = self.work / name
        if not path.exists():
            self.run("generate", path, *options)
        return path

    def scaled(self, number):
        return max(number // 100, 2000) if self.quick else number


def hit_rates(bench, path, *options):
    report, _, _ = bench.run("bench", "cache", path, "--policy", POLICIES, "--json", *options)
    return report


def shapes(bench):
    """The three shapes, at a tenth to a hundredth of the published graphs' sizes."""
    nodes = str(bench.scaled(1_000_000))
    made = {
        "citation (papers100M)": ("citation", "--kind", "citation", "--nodes", nodes, "--avg-degree", "14"),
        "power law (twitter)": ("powerlaw", "--kind", "powerlaw", "--nodes", nodes, "--avg-degree", "35",
                                "--train-share", "0.01"),
        "web (uk-2006)": ("web", "--kind", "web", "--nodes", nodes, "--avg-degree", "35", "--train-share", "0.01"),
    }
    return {
        shape: hit_rates(bench, bench.graph(name, *options, "--feat-dim", "128"), "--fanouts", "15,10,5",
                         "--batch-size", "1000")
        for shape, (name, *options) in made.items()
    }


def real(bench):
    folder = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "uvatrain" / "datasets"
    found = {}
    for path in sorted(folder.glob("*/indptr.npy")):
        found[path.parent.name] = hit_rates(bench, path.parent, "--fanouts", "10,5", "--batch-size", "256")
    return found


def allocations(bench):
    """Two fanouts times two row sizes, on the two shapes; and a budget of a tenth of rows and lists together."""
    settings = []
    for kind in ("citation", "powerlaw"):
        for dim in (128, 256):
            nodes = bench.scaled(1_000_000)
            share = () if kind == "citation" else ("--train-share", "0.05")
            graph = bench.graph(f"{kind}-{dim}", "--kind", kind, "--nodes", nodes, "--avg-degree", "20",
                                "--feat-dim", dim, *share)
            for fanouts in ("2,2,2", "15,10,5"):
                budget = nodes * (dim * 4 + 20 * 4 + 8) // 10
                report, _, _ = bench.run("bench", "cache", graph, "--fanouts", fanouts, "--batch-size", "1000",
                                         "--policy", "presample", "--size", "10", "--epochs", "5",
                                         "--gpu-cache", budget, "--json")
                settings.append({"kind": kind, "feature_dim": dim, "fanouts": fanouts, **report["allocation"]})
    return settings


def planning(bench):
    nodes = bench.scaled(5_000_000)
    graph = bench.graph("plan-100m", "--kind", "powerlaw", "--nodes", nodes, "--avg-degree", "20", "--feat-dim", "16")
    adjacency = sum((graph / f"{name}.npy").stat().st_size for name in ("indptr", "indices"))
    counted = hit_rates_of_one_epoch(bench, graph)
    budget = nodes * 16 * 4 // 5
    plan, seconds, peak = bench.run("plan", graph, "--gpu-cache", budget, "--fanouts", "15,10,5", "--batch-size",
                                    "1000", "--device", "cpu", "--json")
    return {
        "nodes": nodes, "edges": counted["edges"], "adjacency_bytes": adjacency,
        "epoch_sampling_s": counted["epoch_seconds"], "plan_s": seconds, "plan_profile": plan["profile"],
        "epochs_of_sampling": seconds / counted["epoch_seconds"],
        "peak_own_bytes": peak, "adjacencies_of_memory": peak / adjacency,
        "timed_sampling": plan["timed_sampling"], "timed_gathering": plan["timed_gathering"], "notes": plan["notes"],
    }


def hit_rates_of_one_epoch(bench, graph):
    report, _, _ = bench.run("bench", "cache", graph, "--fanouts", "15,10,5", "--batch-size", "1000", "--policy",
                             "random", "--size", "10", "--epochs", "1", "--json")
    return report


def dependency(bench):
    """Hit rates and accuracy when picks stay for κ batches: a cache of the rows read last, three seeds."""
    nodes = bench.scaled(200_000)
    graph = bench.graph("demo", "--nodes", nodes, "--avg-degree", "20", "--feat-dim", "100", "--classes", "12")
    rows = []
    for kappa in (1, 4, 16, 64, 256):
        report, _, _ = bench.run("bench", "cache", graph, "--fanouts", "10,5", "--batch-size", "1024", "--policy",
                                 "presample,fifo", "--size", "5,10,20", "--epochs", "3", "--batch-dependency", kappa,
                                 "--json")
        accuracies = []
        for seed in (0, 1, 2):
            end, _, _ = bench.run("train", graph, "--fanouts", "10,5", "--epochs", "3", "--seed", seed, "--device",
                                  "cpu", "--batch-dependency", kappa, "--json")
            accuracies.append(end["test_accuracy"])
        rows.append({"kappa": kappa, "test_accuracy": accuracies, "policies": report["policies"]})
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--binary", default=ROOT / "target/release/uvatrain", type=Path)
    parser.add_argument("--work", default=ROOT / "data/caches", type=Path)
    parser.add_argument("--out", default=ROOT / "docs/results/caches.json", type=Path)
    parser.add_argument("--quick", action="store_true", help="a hundredth of the size")
    parser.add_argument("--only", choices=["shapes", "real", "allocations", "planning", "dependency"])
    arguments = parser.parse_args()
    arguments.work.mkdir(parents=True, exist_ok=True)
    bench = Bench(arguments.binary, arguments.work, arguments.quick)
    parts = dict(shapes=shapes, real=real, allocations=allocations, planning=planning, dependency=dependency)
    results = json.loads(arguments.out.read_text()) if arguments.only and arguments.out.exists() else {}
    results["machine"] = machine()
    results["about"] = "Made by scripts/measure/caches.py; docs/reference/results.md shows it."
    for name, part in parts.items():
        if arguments.only in (None, name):
            print(name, file=sys.stderr)
            results[name] = part(bench)
            text = json.dumps(results, indent=1)
            # Short arrays of numbers on one line: the file is for people too.
            text = re.sub(r"\[\s+([-\d.e,\s]+?)\s+\]", lambda m: "[" + re.sub(r"\s+", " ", m.group(1)) + "]", text)
            arguments.out.write_text(text + "\n")


if __name__ == "__main__":
    main()
