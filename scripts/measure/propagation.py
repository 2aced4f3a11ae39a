#!/usr/bin/env python3
"""Measures a hop of `uvatrain propagate` compared with sparse products of other libraries, and epochs of `sign` with `sage`.

    PYTHON scripts/measure/propagation.py [--binary target/release/uvatrain] [--dgl-python PYTHON] [--scale 0.5] [--threads 2]
                                          [--rounds 3] [--out docs/results/propagation.json]

The graph has the shape of ogbn-products, float32 features. Means over in-neighbours of all nodes are made by:

  uvatrain   `propagate --operator row`: half of what two further hops add to the time of one, writing included
  torch      torch.sparse.mm of a CSR tensor whose values are one over the degree
  scipy      scipy.sparse.csr_array @ dense, which has one thread
  dgl        update_all(copy_u, mean), DGL 2.1 over torch 2.2

Gigabytes count a row's bytes once for each edge. They are compared with `bench gather`, a gather of random rows of this size.
The sums of torch are compared with those that `propagate` wrote. The second part trains the same number of batches by
neighbours (sage, 15,10,5) and from the hop set (sign, three hops). Rounds are interleaved, and medians count. PYTHON has torch, numpy and scipy;
--dgl-python is what `scripts/peers/environment.sh dgl` prints. Nothing else should be running.
"""
import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy
import torch

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts/measure"))
from splits import shorten  # noqa: E402
from watched import machine  # noqa: E402

BATCH = 1024
DGL = """
import os, sys, time
os.environ["DGLBACKEND"] = "pytorch"
import numpy, torch, dgl, dgl.function as fn
data, threads = sys.argv[1], int(sys.argv[2])
torch.set_num_threads(threads)
def load(name): return torch.from_numpy(numpy.load(f"{data}/{name}.npy"))
graph = dgl.graph(("csc", (load("indptr").long(), load("indices").long(), [])))
graph.ndata["x"] = load("feat")
for _ in range(2):
    start = time.perf_counter()
    graph.update_all(fn.copy_u("x", "m"), fn.mean("m", "y"))
    taken = time.perf_counter() - start
print(taken)
"""


def run(*command):
    ended = subprocess.run(list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if ended.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}\nended with {ended.returncode}:\n{ended.stderr}")
    return ended.stdout


def epoch_seconds(binary, data, metrics, *options):
    """Seconds that a training epoch takes, of a run of three."""
    run(binary, "train", data, "--batch-size", BATCH, "--epochs", 3, "--metrics", metrics, *options)
    lines = [json.loads(line) for line in metrics.read_text().splitlines()]
    batches = sum(line["event"] == "batch" for line in lines) / 3
    return batches / lines[-1]["batches_per_second"], batches


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--binary", type=Path, default=ROOT / "target/release/uvatrain")
    arguments.add_argument("--dgl-python", type=Path)
    arguments.add_argument("--scale", type=float, default=0.5)
    arguments.add_argument("--threads", type=int, default=2)
    arguments.add_argument("--batches", type=int, default=30, help="training batches an epoch")
    arguments.add_argument("--rounds", type=int, default=3)
    arguments.add_argument("--out", type=Path)
    chosen = arguments.parse_args()
    torch.set_num_threads(chosen.threads)
    cells = {}

    def cell(name, value):
        cells.setdefault(name, []).append(value)
        print(f"{name:<30} {value:10.3f}", flush=True)

    with tempfile.TemporaryDirectory(prefix="uvatrain-propagation-") as temporary:
        folder = Path(temporary)
        data, metrics = folder / "data", folder / "metrics.jsonl"
        run(chosen.binary, "generate", data, "--preset", "products", "--scale", chosen.scale, "--feat-dtype", "f32")
        shorten(data / "train_idx.npy", chosen.batches * BATCH)
        for split in ("valid", "test"):
            shorten(data / f"{split}_idx.npy", 64)
        indptr, indices = (torch.from_numpy(numpy.load(data / f"{name}.npy")) for name in ("indptr", "indices"))
        features = torch.from_numpy(numpy.load(data / "feat.npy"))
        edges, row_bytes = len(indices), features.shape[1] * features.element_size()
        degrees = indptr.diff()
        values = torch.repeat_interleave(1 / degrees.clamp(min=1).float(), degrees)
        matrix = torch.sparse_csr_tensor(indptr.long(), indices.long(), values, (len(degrees), len(degrees)))
        import scipy.sparse

        theirs = scipy.sparse.csr_array((values.numpy(), indices.numpy(), indptr.numpy()), shape=(len(degrees),) * 2)

        def hops(number):
            out = folder / f"hops-{number}"
            run("rm", "-rf", out)
            return json.loads(run(chosen.binary, "propagate", data, out, "--operator", "row", "--hops", number, "--threads",
                                  chosen.threads, "--json"))["seconds"]

        for turn in range(chosen.rounds):
            first, third = hops(1), hops(3)
            cell("uvatrain, s a hop", (third - first) / 2)
            start = time.perf_counter()
            sums = matrix @ features
            cell("torch, s", time.perf_counter() - start)
            if turn == 0:
                written = torch.from_numpy(numpy.load(folder / "hops-1/row.1.npy"))
                nodes = torch.from_numpy(numpy.load(folder / "hops-1/node_idx.npy"))
                worst = (sums[nodes] - written).abs().max().item()
                if worst > 1e-4:
                    sys.exit(f"propagation: torch's sums are others, by {worst}")
            del sums
            start = time.perf_counter()
            theirs @ features.numpy()
            cell("scipy, s", time.perf_counter() - start)
            if chosen.dgl_python:
                cell("dgl, s", float(run(chosen.dgl_python, "-c", DGL, data, chosen.threads)))
            reported = json.loads(run(chosen.binary, "bench", "gather", data, "--threads", chosen.threads, "--json"))
            cell("bench gather, GB/s", reported["gb_per_second"])
        del matrix, theirs, features
        for _ in range(chosen.rounds):
            taken, batches = epoch_seconds(chosen.binary, data, metrics, "--model", "sage", "--fanouts", "15,10,5")
            cell(f"sage, s for {batches:.0f} batches", taken)
            taken, batches = epoch_seconds(chosen.binary, folder / "hops-3", metrics, "--model", "sign")
            cell(f"sign, s for {batches:.0f} batches", taken)
    medians = {name: statistics.median(values) for name, values in cells.items()}
    ours = edges * row_bytes / medians["uvatrain, s a hop"] / 1e9
    others = min(value for name, value in medians.items() if name in ("torch, s", "scipy, s", "dgl, s"))
    found = {"machine": machine(), "edges": edges, "row_bytes": row_bytes, "threads": chosen.threads, "cells": cells,
             "gb_per_second": round(ours, 2), "over_gather": round(ours / medians["bench gather, GB/s"], 3),
             "over_fastest_other": round(others / medians["uvatrain, s a hop"], 2)}
    print(f"{ours:.2f} GB/s, {found['over_gather']:.2f} of bench gather, {found['over_fastest_other']:.2f} × the fastest other")
    if chosen.out:
        chosen.out.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
