#!/usr/bin/env python3
"""Shows that a generated graph's classes are in its edges too: GraphSAGE compared with an MLP on the features alone.

    scripts/measure/planted.py [--data data/demo] [--out docs/results/planted.json]

The MLP is the same network, trained in the same way on the same nodes of the same graph with every edge taken away:
without neighbours a GraphSAGE layer is a plain layer on a node's own row. Needs only Python.
"""
import argparse
import json
import os
import statistics
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
OPTIONS = "--model sage --hidden 128 --batch-size 1024 --epochs 12 --patience 3"


def npy(path, descr, shape, data):
    header = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}"
    header += " " * (-(10 + len(header) + 1) % 64) + "\n"
    path.write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + data)


def without_edges(data, out):
    """The same dataset, its edges left out; the other files are links to the original's."""
    out.mkdir()
    for file in data.iterdir():
        if file.suffix in (".npy", ".json") and not file.name.startswith(".") and file.stem not in ("indptr", "indices"):
            os.symlink(file.resolve(), out / file.name)
    with open(data / "label.npy", "rb") as labels:
        head = labels.read(256)
    nodes = int(head.split(b"'shape': (")[1].split(b",")[0])
    npy(out / "indptr.npy", "<i8", (nodes + 1,), bytes(8 * (nodes + 1)))
    npy(out / "indices.npy", "<i4", (0,), b"")


def accuracies(binary, data, fanouts, seeds):
    found = []
    for seed in range(seeds):
        command = [binary, "train", data, "--fanouts", fanouts, "--seed", str(seed), "--json", *OPTIONS.split()]
        ended = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        if ended.returncode != 0:
            sys.exit(f"{' '.join(map(str, command))}\nended with {ended.returncode}:\n{ended.stderr}")
        found.append(100 * json.loads(ended.stdout)["test_accuracy"])
    return found


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--data", type=Path, default=ROOT / "data/demo")
    arguments.add_argument("--binary", type=Path, default=ROOT / "target/release/uvatrain")
    arguments.add_argument("--fanouts", default="10,5")
    arguments.add_argument("--seeds", type=int, default=3)
    arguments.add_argument("--out", type=Path)
    chosen = arguments.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        bare = Path(folder) / "without-edges"
        without_edges(chosen.data, bare)
        result = {
            "options": f"{OPTIONS} --fanouts {chosen.fanouts}",
            "graphsage": accuracies(chosen.binary, chosen.data, chosen.fanouts, chosen.seeds),
            "mlp": accuracies(chosen.binary, bare, chosen.fanouts, chosen.seeds),
        }
    sage, mlp = statistics.mean(result["graphsage"]), statistics.mean(result["mlp"])
    result["points_between"] = round(sage - mlp, 2)
    print(f"GraphSAGE {sage:.2f} %, MLP on the features alone {mlp:.2f} %: {sage - mlp:.2f} points between them")
    if chosen.out:
        chosen.out.parent.mkdir(parents=True, exist_ok=True)
        chosen.out.write_text(json.dumps(result, indent=1) + "\n")
    if sage - mlp < 10:
        sys.exit("the features alone carry the classes: less than 10 points between them")


if __name__ == "__main__":
    main()
