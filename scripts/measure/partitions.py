#!/usr/bin/env python3
"""Counts the lists and rows that parts made by each method read from each other, and writes the raw figures that docs/guide/scaling.md quotes.

    scripts/measure/partitions.py [--work DIR] [--out docs/results/partitions.json] [--quick] [--only GRAPH]

Four parts of the real graphs that scripts/setup/datasets.sh has unpacked and of three generated shapes, which are made in
DIR (about 0.5 GB, kept). Everything is counted and nothing timed, so the figures are the same on every machine.
`--quick` makes the generated graphs a hundredth
of the size. Needs only Python and a build. About ten minutes on two cores.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PARTS = 4

# How each method is called.
METHODS = {
    "random": ["--method", "random"],
    "auto": [],
    "range": ["--method", "range"],
    "ldg": ["--method", "ldg", "--refine", "0"],
    "bgl, blocks": ["--method", "bgl", "--count", "blocks", "--refine", "0"],
    "bgl": ["--method", "bgl", "--refine", "0"],
    "range+refine": ["--method", "range", "--refine", "10"],
    "ldg+refine": ["--method", "ldg"],
    "bgl+refine": ["--method", "bgl"],
    "pagraph": ["--method", "pagraph"],
    "multilevel": ["--method", "multilevel"],
}

# Fanouts and batch size of the counted batches; for a shape, the options that generate it.
GRAPHS = {
    "oewn": ("10,5", 256, None),
    "cnr2000_web": ("10,5", 256, None),
    "citation": ("15,10,5", 1000, ["--kind", "citation", "--avg-degree", "14"]),
    "web": ("10,5", 1000, ["--kind", "web", "--avg-degree", "20"]),
    "powerlaw": ("10,5", 1000, ["--kind", "powerlaw", "--avg-degree", "20", "--train-share", "0.01"]),
}


def call(binary, *arguments):
    """What the program prints with --json."""
    command = [str(binary), *map(str, arguments), "--json"]
    print("  " + " ".join(command), file=sys.stderr)
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True)
    return json.loads(done.stdout)


def graph_of(arguments, name, options):
    """The folder of a dataset; `None` of a real graph that is not unpacked."""
    if options is None:
        folder = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "uvatrain/datasets" / name
        return folder if folder.is_dir() else None
    folder = arguments.work / name
    if not folder.exists():
        nodes = 10_000 if arguments.quick else 1_000_000
        command = [arguments.binary, "generate", folder, "--nodes", str(nodes), "--feat-dim", "1", *options]
        subprocess.run(command, check=True)
    return folder


def counted(arguments, graph, fanouts, batch_size):
    """Each method, and what its parts come to."""
    for name, options in METHODS.items():
        out = arguments.work / "map"
        shutil.rmtree(out, ignore_errors=True)
        made = call(arguments.binary, "partition", graph, out, "--parts", PARTS, *options)
        visits = call(arguments.binary, "bench", "partition", graph, "--map", out, "--fanouts", fanouts,
                      "--batch-size", batch_size)  # fmt: skip
        yield name, {
            "made_by": made["method"],
            "remote_lists": visits["remote_list_visits"] / visits["list_visits"],
            "remote_rows": visits["remote_rows"] / visits["rows"],
            "requests_per_batch": visits["requests_per_batch"],
            "balance": visits["balance"],
            "edge_cut": made["edge_cut"],
        }
        shutil.rmtree(out)


def write(path, results):
    text = json.dumps(results, indent=1)
    # A balance on one line.
    text = re.sub(r"\{\s+(\"nodes\"[^{}]+?)\s+\}", lambda m: "{" + re.sub(r"\s+", " ", m.group(1)) + "}", text)
    path.write_text(text + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--binary", default=ROOT / "target/release/uvatrain", type=Path)
    parser.add_argument("--work", default=ROOT / "data/partitions", type=Path)
    parser.add_argument("--out", default=ROOT / "docs/results/partitions.json", type=Path)
    parser.add_argument("--quick", action="store_true", help="generated graphs of a hundredth of the size")
    parser.add_argument("--only", choices=GRAPHS)
    arguments = parser.parse_args()
    arguments.binary = arguments.binary.resolve()
    arguments.work.mkdir(parents=True, exist_ok=True)
    results = {"about": f"Made by scripts/measure/partitions.py: {PARTS} parts; docs/guide/scaling.md quotes it."}
    if arguments.out.exists():
        results |= json.loads(arguments.out.read_text())
    for name, (fanouts, batch_size, options) in GRAPHS.items():
        graph = graph_of(arguments, name, options) if arguments.only in (None, name) else None
        if graph is None:
            continue
        print(name, file=sys.stderr)
        methods = {}
        results[name] = {"fanouts": fanouts, "batch_size": batch_size, "methods": methods}
        for method, figures in counted(arguments, graph, fanouts, batch_size):
            methods[method] = figures
            write(arguments.out, results)
        of = {method: figures["remote_lists"] for method, figures in methods.items()}
        results[name]["auto_of_random"] = of["auto"] / of["random"]
        write(arguments.out, results)


if __name__ == "__main__":
    main()
