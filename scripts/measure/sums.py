#!/usr/bin/env python3
"""Measures the sums of a first layer compared with torch's embedding_bag, on the same lists of the same batches.

    PYTHON scripts/measure/sums.py [--program target/release/uvatrain] [--graph DIR] [--rounds 3] [--threads 1]
                                   [--dgl-python PYTHON] [--out docs/results/sums.json]

GraphSAGE's first layer begins with two things of each destination: the mean of its sampled neighbours' rows, and its own
row. Each is made in these ways from the same table:

- host       `uvatrain bench aggregate`: sums while it reads the table
- gathered   `uvatrain bench aggregate`: all rows of the batch gathered, then sums of the gathered rows
- bag        torch.nn.functional.embedding_bag(mode="mean") straight on the table, and index_select of the own rows
- bag float  the same on a float32 copy of the rows of the batch, whose conversion counts; for half-precision tables
- dgl        with --dgl-python (`scripts/peers/environment.sh dgl` prints it), float32: the batch's rows fetched, and
             update_all(copy_u, mean) on a block that was made before; the own rows are the first of them

Element types are float32 and float16, each on graphs of a million nodes that are generated for it, or that of --graph.
Lists and rows are compared with the table before anything is timed. Rounds are interleaved. Medians count, of the batches
and then of the rounds. PYTHON has torch and this checkout's module (scripts/check/python.sh says how).
"""
import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts/measure"))
from watched import machine  # noqa: E402

# No more than an epoch of the citation graph has.
BATCHES = 10
# Fanouts, outermost hop last, and seeds a batch.
SHAPES = [([10], 1000), ([10, 10], 1000), ([15, 10, 5], 1000)]
KINDS = ["powerlaw", "citation"]


def ours(program, data, fanouts, batch, threads):
    """`bench aggregate` of the first batches: milliseconds a batch in both ways."""
    ended = subprocess.run(
        [program, "bench", "aggregate", data, "--fanouts", ",".join(map(str, fanouts)), "--batch-size", str(batch),
         "--gather-threads", str(threads), "--batches", str(BATCHES), "--json"], stdout=subprocess.PIPE, text=True)
    if ended.returncode != 0:
        sys.exit(f"{program} bench aggregate ended with {ended.returncode}")
    found = json.loads(ended.stdout)
    return found["times"]["host_ms"], found["times"]["off_ms"], found["per_batch"]


def lists(data, fanouts, batch):
    """Table ids of the lists and of the destinations of the first batches' outermost blocks."""
    import uvatrain

    found = []
    for one in uvatrain.Loader(data, fanouts=fanouts, batch_size=batch, seed=0):
        # Copies: the slot is given back before the next batch.
        block, nodes = one.blocks[-1], one.input_nodes.long().clone()
        indptr, indices = block.indptr.long().clone(), block.indices.long().clone()
        found.append((nodes[indices], indptr, nodes[: block.num_dst].clone(), nodes, indices, one.x.clone()))
        if len(found) == BATCHES:
            return found
    return found


DGL = """
import os, statistics, sys, time
os.environ["DGLBACKEND"] = "pytorch"
import numpy, torch, dgl, dgl.function as fn
table, lists, count, threads = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
torch.set_num_threads(threads)
table, batches = torch.from_numpy(numpy.load(table)), []
for number in range(count):
    indptr, indices, nodes = (torch.from_numpy(numpy.load(f"{lists}/{number}.{name}.npy")) for name in ("indptr", "indices", "nodes"))
    batches.append((dgl.create_block(("csc", (indptr, indices, [])), len(nodes), len(indptr) - 1), nodes))
taken = []
for turn in range(2):
    for block, nodes in batches:
        start = time.perf_counter()
        with block.local_scope():
            block.srcdata["x"] = table.index_select(0, nodes)
            block.update_all(fn.copy_u("x", "m"), fn.mean("m", "y"))
        if turn:
            taken.append((time.perf_counter() - start) * 1e3)
print(statistics.median(taken))
"""


def dgls(python, data, batches, threads):
    """Median milliseconds of a batch by DGL."""
    import numpy

    with tempfile.TemporaryDirectory() as folder:
        for number, (_, indptr, _, nodes, indices, _) in enumerate(batches):
            for name, array in (("indptr", indptr), ("indices", indices), ("nodes", nodes)):
                numpy.save(f"{folder}/{number}.{name}.npy", array.numpy())
        command = [python, "-c", DGL, data / "feat.npy", folder, len(batches), threads]
        return float(subprocess.run(list(map(str, command)), stdout=subprocess.PIPE, check=True).stdout)


def table_of(data):
    """The feature table in memory, as torch has it. bfloat16 lies in the file as uint16."""
    import numpy
    import torch

    rows = numpy.load(data / "feat.npy")
    return torch.from_numpy(rows).view(torch.bfloat16) if rows.dtype == numpy.uint16 else torch.from_numpy(rows)


def timed(work, batches):
    """Median milliseconds of a batch, after a pass over all of them."""
    for one in batches:
        work(*one)
    taken = []
    for one in batches:
        start = time.perf_counter()
        work(*one)
        taken.append((time.perf_counter() - start) * 1e3)
    return statistics.median(taken)


def measure(program, data, rounds, threads, dgl):
    import torch
    from torch.nn.functional import embedding_bag

    torch.set_num_threads(threads)
    table, cells = table_of(data), []

    def bag(entries, indptr, own, *_):
        return embedding_bag(entries, table, indptr[:-1], mode="mean"), table.index_select(0, own)

    def bag_float(_entries, indptr, own, nodes, indices, _x):
        rows = table.index_select(0, nodes).float()
        return embedding_bag(indices, rows, indptr[:-1], mode="mean"), rows[: len(own)]

    for fanouts, batch in SHAPES:
        batches = lists(data, fanouts, batch)
        entries, indptr, own, nodes, indices, x = batches[0]
        # The lists are those of our batches: their rows are the table's, and the sums those of the rows that we gathered.
        assert torch.equal(x.to(table.dtype), table[nodes]), "rows of the batch are not those of the table"
        wanted = embedding_bag(indices, x.double(), indptr[:-1], mode="mean")
        worst = (bag(*batches[0])[0].double() - wanted).abs().max().item()
        found = {name: [] for name in ("host", "gathered", "bag", "bag_float", "dgl")}
        for _ in range(rounds):
            host, gathered, counts = ours(program, data, fanouts, batch, threads)
            found["host"].append(host)
            found["gathered"].append(gathered)
            found["bag"].append(timed(bag, batches))
            if table.dtype != torch.float32:
                found["bag_float"].append(timed(bag_float, batches))
            elif dgl:
                found["dgl"].append(dgls(dgl, data, batches, threads))
        medians = {name: round(statistics.median(of), 4) for name, of in found.items() if of}
        torchs = min(value for name, value in medians.items() if name.startswith("bag"))
        cells.append({
            "data": data.name, "type": str(table.dtype).removeprefix("torch."), "fanouts": fanouts,
            "sources_a_destination": round(counts["sources"] / counts["destinations"], 2),
            "entries_a_source": round(counts["entries"] / counts["sources"], 2),
            "milliseconds": medians, "rounds": found, "largest_difference_of_torch": worst,
            "over_gathered": round(medians["gathered"] / medians["host"], 2),
            "over_torch": round(torchs / medians["host"], 2),
            "over_dgl": round(medians["dgl"] / medians["host"], 2) if "dgl" in medians else None,
        })
        cell = cells[-1]
        print(f"{data.name:18} {','.join(map(str, fanouts)):9} S/D {cell['sources_a_destination']:5.1f}  E/S "
              f"{cell['entries_a_source']:5.2f}  " + "  ".join(f"{name} {value:8.3f}" for name, value in medians.items())
              + f"  ms; {cell['over_gathered']:.2f} × gathered, {cell['over_torch']:.2f} × torch"
              + (f", {cell['over_dgl']:.2f} × dgl" if dgl and cell["over_dgl"] else ""), flush=True)
    return cells


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--program", type=Path, default=ROOT / "target/release/uvatrain")
    arguments.add_argument("--graph", type=Path)
    arguments.add_argument("--rounds", type=int, default=3)
    arguments.add_argument("--threads", type=int, default=1)
    arguments.add_argument("--dgl-python", type=Path)
    arguments.add_argument("--types", nargs="+", default=["f32", "f16"])
    arguments.add_argument("--out", type=Path)
    chosen = arguments.parse_args()
    cells = []
    with tempfile.TemporaryDirectory() as temporary:
        graphs = [chosen.graph] if chosen.graph else []
        for kind in KINDS if not chosen.graph else []:
            for element in chosen.types:
                graphs.append(Path(temporary) / f"{kind}-{element}")
                # Papers of a citation graph are divided by their years.
                share = ["--train-share", "0.1"] if kind != "citation" else []
                subprocess.run([chosen.program, "generate", graphs[-1], "--kind", kind, "--nodes", "1000000", "--feat-dim",
                                "100", "--feat-dtype", element, *share], check=True, stdout=subprocess.DEVNULL)
        for data in graphs:
            cells += measure(chosen.program, data, chosen.rounds, chosen.threads, chosen.dgl_python)
    if chosen.out:
        chosen.out.write_text(json.dumps({"machine": machine(), "threads": chosen.threads, "cells": cells}, indent=1) + "\n")


if __name__ == "__main__":
    main()
