#!/usr/bin/env python3
"""Counts cache hits of ranks that train on parts, and of ranks that divide the batches of the whole graph.

    PYTHON scripts/measure/part_caches.py [--binary target/release/uvatrain] [--parts 4] [--shares 5 10 20]
                                          [--out docs/results/part-caches.json]

Each rank has a cache of its own, and all of them together hold a share of the rows of the whole graph (PaGraph, Lin et al., SoCC
2020). A cache holds the rows that the rank's batches read most in two epochs. Printed are the rows that hit in the five epochs
after them, per cent of all that were read: on the whole graph, and on parts by `--method pagraph`, whole within two hops; and
the rows that a node of the graph has in the parts together. Everything is counted, so the figures are the same on every
machine. The graphs are those that scripts/setup/datasets.sh has unpacked. PYTHON has this checkout's module
(scripts/check/python.sh says how).
"""
import argparse
import json
import os
import subprocess
import tempfile
from pathlib import Path

import numpy as np
import uvatrain

ROOT = Path(__file__).resolve().parents[2]
COUNTED, JUDGED = 2, 5


def reads(data, nodes):
    """How often each row is read in the counted epochs, and in those after them."""
    found = []
    with uvatrain.Loader(data, fanouts=[10, 5], batch_size=256) as loader:
        for epochs in (COUNTED, JUDGED):
            counts = np.zeros(nodes, np.int64)
            for _ in range(epochs):
                for batch in loader:
                    # A batch has a node once.
                    counts[np.asarray(batch.input_nodes)] += 1
            found.append(counts)
    return found


def hits(counted, judged, rows):
    """Of the reads, those of the rows that were read most."""
    return int(judged[np.argsort(-counted, kind="stable")[:rows]].sum())


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--binary", type=Path, default=ROOT / "target/release/uvatrain")
    arguments.add_argument("--graphs", nargs="+", default=["oewn", "cnr2000_web"])
    arguments.add_argument("--parts", type=int, default=4)
    arguments.add_argument("--shares", type=float, nargs="+", default=[5, 10, 20], help="per cent of all rows, all caches together")
    arguments.add_argument("--out", type=Path)
    chosen = arguments.parse_args()
    datasets = Path(os.environ.get("UVATRAIN_CACHE", Path.home() / ".cache/uvatrain")) / "datasets"
    found = []
    for name in chosen.graphs:
        data = datasets / name
        nodes = uvatrain.Dataset(data).num_nodes
        whole = reads(data, nodes)
        with tempfile.TemporaryDirectory() as temporary:
            out = Path(temporary) / "parts"
            command = [chosen.binary, "partition", data, out, "--parts", str(chosen.parts), "--method", "pagraph", "--hops", "2"]
            subprocess.run([*command, "--layout", "closure"], check=True, stdout=subprocess.DEVNULL)
            sizes = json.loads((out / "partition.json").read_text())["written"]
            parts = [reads(out / part["dir"], part["nodes"]) for part in sizes]
        copies = sum(part["nodes"] for part in sizes) / nodes
        print(f"{name}: {chosen.parts} parts, {copies:.2f} copies of a node")
        for share in chosen.shares:
            rows = int(nodes * share / 100 / chosen.parts)
            on_whole = hits(*whole, rows) / whole[1].sum()
            on_parts = sum(hits(*part, rows) for part in parts) / sum(part[1].sum() for part in parts)
            found.append({"graph": name, "parts": chosen.parts, "copies": round(copies, 3), "share_percent": share,
                          "hit_rate_whole": round(on_whole, 4), "hit_rate_parts": round(on_parts, 4)})
            print(f"  {share:g} % of the rows in all caches: {100 * on_whole:.1f} % hit, on parts {100 * on_parts:.1f} %", flush=True)
    if chosen.out:
        chosen.out.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
