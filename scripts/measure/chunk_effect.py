#!/usr/bin/env python3
"""Shows what the size of chunks does to accuracy, with rows in random order and with rows sorted by class.

    scripts/measure/chunk_effect.py [--graph oewn] [--binary target/release/uvatrain] [--seeds 3] [--out FILE]

Trains `sign` on a hop set with `--shuffle chunks`, for chunks of one row (the full shuffle), and of an eighth, a quarter,
half and all of a batch. The training nodes of the dataset are sorted by class first. One hop set is made with `--row-order
shuffled`, and one with `file`, where rows of a class stay together. The goal is for `shuffled`: every size within
0.5 points of the full shuffle. Accuracies do not depend on what else runs. Needs only Python and the graph, which
scripts/setup/datasets.sh unpacks.
"""
import argparse
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
from array import array
from pathlib import Path

from accuracy import cache, train

ROOT = Path(__file__).resolve().parents[2]
BATCH = 1024
CHUNKS = [1, BATCH // 8, BATCH // 4, BATCH // 2, BATCH]
OPTIONS = f"--hidden 256 --batch-size {BATCH} --lr 0.01 --dropout 0.5 --epochs 20 --shuffle chunks"
GOAL = 0.5


def values(file):
    """The elements of an `.npy` of int64 with one axis, and where they begin."""
    content = file.read_bytes()
    start = 10 + int.from_bytes(content[8:10], "little")
    if b"'<i8'" not in content[:start]:
        sys.exit(f"{file}: its elements are not int64")
    return array("q", content[start:]), content[:start]


def sorted_by_class(graph, folder):
    """A copy of the dataset whose training nodes are sorted by their label, by id within a class."""
    copy = folder / graph.name
    shutil.copytree(graph, copy)
    labels, _ = values(copy / "label.npy")
    nodes, header = values(copy / "train_idx.npy")
    nodes = array("q", sorted(nodes, key=lambda node: (labels[node], node)))
    (copy / "train_idx.npy").write_bytes(header + nodes.tobytes())
    return copy


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--graph", default="oewn")
    arguments.add_argument("--graphs", type=Path, default=cache() / "datasets")
    arguments.add_argument("--binary", type=Path, default=ROOT / "target/release/uvatrain")
    arguments.add_argument("--seeds", type=int, default=3)
    arguments.add_argument("--out", type=Path)
    chosen = arguments.parse_args()
    graph = chosen.graphs / chosen.graph
    if not graph.is_dir():
        sys.exit(f"{graph} is not there: run scripts/setup/datasets.sh, or give --graphs")

    found = {"graph": chosen.graph, "options": OPTIONS, "batch": BATCH, "rows": []}
    with tempfile.TemporaryDirectory(prefix="uvatrain-chunk-effect-") as temporary:
        folder = Path(temporary)
        data = sorted_by_class(graph, folder)
        print(f"{'row order':<10} {'chunk':>6} {'mean':>7} {'± std':>6}  seeds")
        for order in ("shuffled", "file"):
            hops = folder / order
            command = [chosen.binary, "propagate", data, hops, "--operator", "row", "--hops", "3", "--row-order", order]
            subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
            for chunk in CHUNKS:
                ends = [train(chosen.binary, hops, "sign", f"{OPTIONS} --chunk {chunk}", seed) for seed in range(chosen.seeds)]
                each = [100 * end["test_accuracy"] for end in ends]
                mean, spread = statistics.mean(each), statistics.stdev(each) if len(each) > 1 else 0.0
                print(f"{order:<10} {chunk:>6} {mean:7.2f} {spread:6.2f}  " + " ".join(f"{one:.2f}" for one in each), flush=True)
                found["rows"].append({"row_order": order, "chunk": chunk, "mean": round(mean, 3), "stdev": round(spread, 3),
                                      "values": [round(one, 3) for one in each]})
    if chosen.out:
        chosen.out.write_text(json.dumps(found, indent=1) + "\n")
    means = {(row["row_order"], row["chunk"]): row["mean"] for row in found["rows"]}
    short = [chunk for chunk in CHUNKS if means["shuffled", 1] - means["shuffled", chunk] > GOAL]
    if short:
        sys.exit(f"more than {GOAL} points below the full shuffle, in chunks of {', '.join(map(str, short))} rows")


if __name__ == "__main__":
    main()
