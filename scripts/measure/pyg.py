#!/usr/bin/env python3
"""Measures PyG's GraphSAGE with PyG's NeighborLoader and with uvatrain's loaders, and writes docs/results/pyg.json.

    PYTHON scripts/measure/pyg.py --graph DIR [--program uvatrain] [--rounds 3] [--out docs/results/pyg.json] [--quick]

Two layers, hidden 128, fanouts 10,10, batches of 1000, Adam, on a graph of .npy files (indptr, indices, feat, label,
train_idx); its test nodes are those of test_idx.npy, or all that don't train. For every loader: seconds of an epoch, of
these waiting for the loader, the same batches again with none to wait for (they lie ready in memory), and the test
accuracy at the end.

- PyG's NeighborLoader with 0, 1, 2, … worker processes
- uvatrain.Loader and to_pyg(): threads of the same process; with and without layers that trim
- uvatrain run and attach(): processes of their own
- PyG's NeighborLoader over uvatrain's stores and sampler

PYTHON has torch, torch-geometric, torch-sparse (which PyG's NeighborLoader needs; PyPI has its source only) and this
checkout's module. Every cell is a process of its own, rounds are interleaved and every other one runs backwards, and how
busy the machine was with other work is written down. OpenMP's threads wait passively on both sides.
"""
import argparse
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts/measure"))
from host import cpu_seconds  # noqa: E402
from watched import machine  # noqa: E402

FANOUTS, BATCH, HIDDEN = [10, 10], 1000, 128


# --- One cell, in a process of its own -----------------------------------------------------------------------------


def neighbor_loader(cell, data):
    """PyG's own, over tensors in memory."""
    import torch
    from torch_geometric.data import Data
    from torch_geometric.loader import NeighborLoader

    indptr, indices, feat, label, train = (torch.from_numpy(data(name)) for name in
                                           ("indptr", "indices", "feat", "label", "train_idx"))
    target = torch.repeat_interleave(torch.arange(len(indptr) - 1), indptr.diff())
    graph = Data(x=feat, y=label, edge_index=torch.stack([indices.long(), target]))
    loader = NeighborLoader(graph, num_neighbors=FANOUTS, input_nodes=train, batch_size=BATCH, shuffle=True,
                            num_workers=cell["workers"], is_sorted=True, persistent_workers=cell["workers"] > 0)
    return lambda epoch: iter(loader), lambda: None


def stores(cell, data):
    """PyG's own over our tables and sampler."""
    import torch
    import uvatrain.pyg
    from torch_geometric.loader import NeighborLoader

    dataset = uvatrain.Dataset(cell["graph"])
    loader = NeighborLoader((uvatrain.pyg.FeatureStore(dataset), uvatrain.pyg.GraphStore(dataset)),
                            num_neighbors=FANOUTS, input_nodes=torch.from_numpy(data("train_idx")),
                            neighbor_sampler=uvatrain.pyg.NeighborSampler(dataset, FANOUTS), batch_size=BATCH,
                            shuffle=True, num_workers=cell["workers"], persistent_workers=cell["workers"] > 0)
    return lambda epoch: iter(loader), lambda: None


def ours(cell, _):
    """Threads of this process, or the processes of `uvatrain run`."""
    import uvatrain

    if cell["loader"] == "uvatrain run":
        loader = uvatrain.attach()
    else:
        loader = uvatrain.Loader(cell["graph"], fanouts=FANOUTS, batch_size=BATCH, expand="new", seed=cell["seed"],
                                 samplers=cell["samplers"])

    def epoch(number):
        loader.set_epoch(number)
        return (batch.to_pyg() for batch in loader)

    return epoch, loader.close


def child(cell):
    """Trains, and prints the figures as JSON after a mark."""
    import warnings

    warnings.filterwarnings("ignore")
    import numpy as np
    import torch
    import torch.nn.functional as F
    import torch_geometric
    from torch_geometric.nn import GraphSAGE

    torch.set_num_threads(cell["threads"])
    torch.manual_seed(cell["seed"])

    def data(name):
        return np.load(f"{cell['graph']}/{name}.npy")

    source = {"NeighborLoader": neighbor_loader, "NeighborLoader over our stores": stores}.get(cell["loader"], ours)
    epoch_of, close = source(cell, data)
    model = GraphSAGE(data("feat").shape[1], HIDDEN, num_layers=2, out_channels=int(data("label").max()) + 1)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)

    def step(batch):
        sampled = {}
        if cell["trim"]:
            sampled = {"num_sampled_nodes_per_hop": batch.num_sampled_nodes,
                       "num_sampled_edges_per_hop": batch.num_sampled_edges}
        out = model(batch.x, batch.edge_index, **sampled)[: batch.batch_size]
        loss = F.cross_entropy(out, batch.y[: batch.batch_size])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.item()

    def timed(batches):
        """Seconds of an epoch, and of waiting for batches within it."""
        begin, waited, count, nodes, edges, loss = time.perf_counter(), 0.0, 0, 0, 0, 0.0
        iteration = None
        while True:
            since = time.perf_counter()
            iteration = iter(batches()) if iteration is None else iteration
            batch = next(iteration, None)
            waited += time.perf_counter() - since
            if batch is None:
                break
            count, nodes, edges = count + 1, nodes + batch.x.size(0), edges + batch.edge_index.size(1)
            loss += step(batch)
        return {"seconds": time.perf_counter() - begin, "waited": waited, "batches": count, "nodes": nodes,
                "edges": edges, "loss": loss / count}

    # The first holds the start of everything.
    epochs = [timed(lambda number=number: epoch_of(number)) for number in range(1 + cell["epochs"])]

    model.eval()
    with torch.no_grad():
        indptr = torch.from_numpy(data("indptr"))
        target = torch.repeat_interleave(torch.arange(len(indptr) - 1), indptr.diff())
        edge_index = torch.stack([torch.from_numpy(data("indices")).long(), target])
        right = model(torch.from_numpy(data("feat")), edge_index).argmax(1) == torch.from_numpy(data("label"))
        accuracy = right[torch.from_numpy(data("test_idx"))].float().mean().item()
    model.train()

    # The same batches, without waiting and without other processes at work.
    ready = []
    for batch in epoch_of(cell["epochs"]):
        ready.append(batch.clone())
    close()
    del batch
    alone = [timed(lambda: ready)["seconds"] for _ in range(2)]
    print("RESULT " + json.dumps({
        "first_epoch": epochs[0], "epochs": epochs[1:], "alone": alone, "accuracy": accuracy,
        "versions": {"torch": torch.__version__, "torch_geometric": torch_geometric.__version__},
    }), flush=True)


# --- All cells, in rounds ------------------------------------------------------------------------------------------


def prepare(source, folder):
    """The dataset: the graph's files, and test nodes where it has none."""
    import numpy as np

    folder.mkdir(parents=True, exist_ok=True)
    for name in ("indptr", "indices", "feat", "label", "train_idx"):
        if not (folder / f"{name}.npy").exists():
            shutil.copyfile(source / f"{name}.npy", folder / f"{name}.npy")
    label, train = np.load(folder / "label.npy", mmap_mode="r"), np.load(folder / "train_idx.npy")
    if (source / "test_idx.npy").exists():
        shutil.copyfile(source / "test_idx.npy", folder / "test_idx.npy")
    else:
        np.save(folder / "test_idx.npy", np.setdiff1d(np.arange(len(label)), train))
    np.save(folder / "valid_idx.npy", np.zeros(0, np.int64))
    (folder / "meta.json").write_text(json.dumps({"name": source.name}))
    return folder


def run(cell, arguments):
    """One cell in a process of its own, and how busy the machine was with other work meanwhile."""
    command = [sys.executable, __file__, "--child", json.dumps(cell)]
    if cell["loader"] == "uvatrain run":
        command = [str(arguments.program), "run", cell["graph"], "--fanouts", ",".join(map(str, FANOUTS)),
                   "--batch-size", str(BATCH), "--expand", "new", "--seed", str(cell["seed"]), "--samplers",
                   str(cell["samplers"]), "--device", "cpu", "--", *command]
    environment = {**os.environ, "OMP_WAIT_POLICY": "passive"}
    before, children, since = cpu_seconds(), os.times(), time.monotonic()
    ended = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
    after, seconds = os.times(), time.monotonic() - since
    found = re.search(r"^RESULT (.*)$", ended.stdout, re.MULTILINE)
    if ended.returncode != 0 or not found:
        sys.exit(f"{' '.join(command)}\nended with {ended.returncode}:\n{ended.stderr}")
    own = after.children_user + after.children_system - children.children_user - children.children_system
    return {**json.loads(found[1]), "foreign_load": round(max(0.0, cpu_seconds() - before - own) / seconds, 3)}


def cells(arguments, graph):
    """What is compared."""
    made = []

    def add(loader, trim=False, workers=0, samplers=1):
        for threads in arguments.threads:
            name = loader + (f", {workers} workers" if "Neighbor" in loader else ", trimmed" if trim else "")
            made.append({"name": f"{name}, {threads} threads", "loader": loader, "graph": str(graph), "trim": trim,
                         "workers": workers, "samplers": samplers, "threads": threads, "epochs": arguments.epochs})

    for workers in arguments.workers:
        add("NeighborLoader", workers=workers)
    add("uvatrain.Loader")
    add("uvatrain.Loader", trim=True)
    if arguments.program:
        add("uvatrain run", trim=True)
    for workers in arguments.workers[:2]:
        add("NeighborLoader over our stores", workers=workers)
    return [cell for cell in made if not arguments.only or arguments.only in cell["name"]]


def summary(rounds):
    """The medians of a cell."""
    epochs = [epoch for one in rounds for epoch in one["epochs"]]
    alone = [seconds for one in rounds for seconds in one["alone"]]
    seconds, waited = (statistics.median(epoch[name] for epoch in epochs) for name in ("seconds", "waited"))
    return {
        "epoch_s": seconds, "waited_s": waited, "compute_alone_s": statistics.median(alone),
        "epoch_over_compute_alone": seconds / statistics.median(alone),
        "accuracy": statistics.mean(one["accuracy"] for one in rounds),
        "accuracies": [one["accuracy"] for one in rounds],
        "foreign_load": max(one["foreign_load"] for one in rounds),
    }


def main():
    if sys.argv[1:2] == ["--child"]:
        return child(json.loads(sys.argv[2]))
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    shared = Path(os.environ.get("UVATRAIN_SHARED", ROOT.parent / "shared"))
    parser.add_argument("--graph", type=Path, required=True,
                        help=f"made by {shared.name}/peers/gen_graph.py --preset small --out DIR")
    parser.add_argument("--program", type=Path, help="the command line; without it, no `uvatrain run`")
    parser.add_argument("--work", type=Path, default=ROOT / "data/pyg")
    parser.add_argument("--workers", type=lambda text: [int(one) for one in text.split(",")], default=[0, 1, 2, 3])
    parser.add_argument("--threads", type=lambda text: [int(one) for one in text.split(",")], default=[1, 2])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--only", help="cells with this in their name")
    parser.add_argument("--quick", action="store_true", help="one round of one epoch, to try the script")
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.rounds = arguments.epochs = 1
    graph = prepare(arguments.graph, arguments.work / arguments.graph.name)
    compared = cells(arguments, graph)
    rounds = {cell["name"]: [] for cell in compared}
    for number in range(arguments.rounds):
        for cell in compared if number % 2 == 0 else reversed(compared):
            one = run({**cell, "seed": number}, arguments)
            rounds[cell["name"]].append(one)
            epochs = one["epochs"]
            print(f"round {number}  {cell['name']:<48} epoch {statistics.median(e['seconds'] for e in epochs):7.3f} s  "
                  f"waited {statistics.median(e['waited'] for e in epochs):7.3f} s  alone "
                  f"{statistics.median(one['alone']):7.3f} s  accuracy {one['accuracy']:.4f}  foreign load "
                  f"{one['foreign_load']:.2f}", flush=True)
    found = {name: {**summary(of), "rounds": of} for name, of in rounds.items()}
    theirs = {name: one for name, one in found.items() if name.startswith("NeighborLoader, ")}
    reach = {}
    if theirs:
        best = min(theirs, key=lambda name: theirs[name]["epoch_s"])
        reach = {"neighbor_loader_at_its_best": best, "ours": {}}
        for name, one in found.items():
            if name.startswith("uvatrain"):
                reach["ours"][name] = {
                    "times_less_waiting": theirs[best]["waited_s"] / one["waited_s"],
                    "times_less_waiting_than_the_least": min(o["waited_s"] for o in theirs.values()) / one["waited_s"],
                    "epoch_over_compute_alone": one["epoch_over_compute_alone"],
                    "epochs_in_one_of_theirs": theirs[best]["epoch_s"] / one["epoch_s"],
                    "accuracy_difference": one["accuracy"] - theirs[best]["accuracy"],
                }
    print(json.dumps(reach, indent=1))
    if arguments.out:
        report = {"about": "Made by scripts/measure/pyg.py; docs/reference/results.md shows it.", "machine": machine(),
                  "graph": {"name": arguments.graph.name, "fanouts": FANOUTS, "batch_size": BATCH,
                            "hidden": HIDDEN, "epochs": arguments.epochs}, "reach": reach, "cells": found}
        text = json.dumps(report, indent=1)
        text = re.sub(r"\{\s+(\"seconds\"[^{}]+?)\s+\}", lambda m: "{" + re.sub(r"\s+", " ", m[1]) + "}", text)
        arguments.out.parent.mkdir(parents=True, exist_ok=True)
        arguments.out.write_text(text + "\n")


if __name__ == "__main__":
    main()
