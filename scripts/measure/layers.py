#!/usr/bin/env python3
"""Measures an ordinary PyG script unchanged, with our loader, and with our loader and layers.

    PYTHON scripts/measure/layers.py [--layer SAGEConv] [--rounds 5] [--out layers.json] [--quick]

Two layers, fanouts 10,5, batches of 1024 with `trim_to_layer`, Adam, on a random graph of 200,000 nodes with 100
features. The three scripts differ in at most two lines, their imports:

- torch_geometric.loader.NeighborLoader and torch_geometric.nn
- uvatrain.pyg.NeighborLoader and torch_geometric.nn
- uvatrain.pyg.NeighborLoader and uvatrain.nn

They see the same seeds in the same order, and each loader draws its own neighbours; nodes and edges of an epoch are
printed. Epochs of the three alternate in one process, forwards and backwards, after one that does not count. The share of
the loader is the time for which the first script's loop waits for it. The bound is the gain of its epoch from a loader
that takes no time. Busy machines are noisy: compare the least with the median.

PYTHON has torch, torch-geometric, this checkout's module, and torch-sparse or pyg-lib for PyG's NeighborLoader
(scripts/peers/environment.sh pyg). Without a sampler for PyG's loader, `--peer stores` takes uvatrain.pyg's for it.
"""
import argparse
import json
import os
import statistics
import sys
import time
from pathlib import Path

# Threads that wait for work spin otherwise, and take the cores from the samplers.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts/measure"))

import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402
import torch_geometric  # noqa: E402
import torch_geometric.loader  # noqa: E402
import torch_geometric.nn  # noqa: E402
import torch_geometric.typing  # noqa: E402
from torch_geometric.data import Data  # noqa: E402
from torch_geometric.utils import trim_to_layer  # noqa: E402

import uvatrain.nn  # noqa: E402
import uvatrain.pyg  # noqa: E402
from watched import machine  # noqa: E402

CLASSES = 47
PYG, LOADER, LAYERS = "PyG", "uvatrain.pyg.NeighborLoader", "uvatrain.pyg.NeighborLoader + uvatrain.nn"


class Model(torch.nn.Module):
    """As in PyG's examples."""

    def __init__(self, conv, features, hidden):
        super().__init__()
        heads = {"heads": 4} if conv.__name__ == "GATConv" else {}
        width = hidden // heads.get("heads", 1)
        self.convs = torch.nn.ModuleList([conv(features, width, **heads), conv(hidden, CLASSES)])

    def forward(self, batch):
        x, edge_index = batch.x, batch.edge_index
        for layer, conv in enumerate(self.convs):
            x, edge_index, _ = trim_to_layer(layer, batch.num_sampled_nodes, batch.num_sampled_edges, x, edge_index)
            x = conv(x, edge_index)
            if layer == 0:
                x = x.relu()
        return x[: batch.batch_size]


def graph(arguments):
    """Random edges, of which a tenth go to one node in a hundred."""
    generator = torch.Generator().manual_seed(1)
    nodes, edges = arguments.nodes, arguments.nodes * arguments.degree
    source, target = torch.randint(nodes, (2, edges), generator=generator)
    hubs = edges // 10
    target[:hubs] = torch.randint(nodes // 100, (hubs,), generator=generator)
    x = torch.randn(nodes, arguments.features, generator=generator)
    y = torch.randint(CLASSES, (nodes,), generator=generator)
    return Data(x=x, y=y, edge_index=torch.stack([source, target]))


def tell_hops(batch, hops):
    """The arguments of `trim_to_layer`, for a batch without the numbers of nodes and edges sampled by hop: PyG's over torch-sparse.

    Its nodes are in the order in which they were found, and its edges in that of the nodes they lead to.
    """
    nodes, edges, (source, target) = [batch.batch_size], [], batch.edge_index
    for _ in range(hops):
        upto = int(torch.searchsorted(target, sum(nodes)))
        edges.append(upto - sum(edges))
        found = int(source[:upto].max()) + 1 if upto else 0
        nodes.append(max(found - sum(nodes), 0))
    assert (sum(nodes), sum(edges)) == (batch.num_nodes, batch.num_edges) and bool((target.diff() >= 0).all())
    batch.num_sampled_nodes, batch.num_sampled_edges = nodes, edges


def epoch(loader, model, optimizer):
    """Seconds of an epoch, how many of them the loop waited, and what it saw."""
    begin, waited, nodes, edges, losses = time.perf_counter(), 0.0, 0, 0, []
    steps = iter(loader)
    while True:
        since = time.perf_counter()
        batch = next(steps, None)
        waited += time.perf_counter() - since
        if batch is None:
            break
        if "num_sampled_nodes" not in batch:
            # Not counted: over pyg-lib the loader would know it.
            since = time.perf_counter()
            tell_hops(batch, len(model.convs))
            begin += time.perf_counter() - since
        nodes, edges = nodes + batch.num_nodes, edges + batch.num_edges
        loss = F.cross_entropy(model(batch), batch.y[: batch.batch_size])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return {"seconds": time.perf_counter() - begin, "waited": waited, "nodes": nodes, "edges": edges,
            "loss": statistics.mean(losses)}


def peer(data, arguments, options):
    """PyG's own loader."""
    if arguments.peer == "stores":
        dataset = uvatrain.pyg.NeighborLoader(data, arguments.fanouts, batch_size=1)._graph.dataset
        options = {**options, "neighbor_sampler": uvatrain.pyg.NeighborSampler(dataset, arguments.fanouts)}
    return torch_geometric.loader.NeighborLoader(data, arguments.fanouts, num_workers=arguments.workers,
                                                 persistent_workers=arguments.workers > 0, **options)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--layer", choices=["SAGEConv", "GCNConv", "GATConv"], default="SAGEConv")
    parser.add_argument("--fanouts", type=lambda text: [int(one) for one in text.split(",")], default=[10, 5])
    parser.add_argument("--nodes", type=int, default=200_000)
    parser.add_argument("--degree", type=int, default=20)
    parser.add_argument("--features", type=int, default=100)
    parser.add_argument("--hidden", type=int, default=128)
    parser.add_argument("--batch-size", type=int, default=1024)
    parser.add_argument("--train", type=int, default=40_000, help="nodes to train on")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--workers", type=int, default=0, help="of PyG's loader")
    parser.add_argument("--peer", choices=["own", "stores"], default="own", help="who samples for PyG's loader")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="one round of a tenth, to try the script")
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.rounds, arguments.train = 1, arguments.train // 10
    typing = torch_geometric.typing
    if arguments.peer == "own" and not (typing.WITH_PYG_LIB or typing.WITH_TORCH_SPARSE):
        sys.exit("PyG's NeighborLoader needs torch-sparse: scripts/peers/environment.sh pyg, or --peer stores")
    torch.set_num_threads(arguments.threads)

    data = graph(arguments)
    seeds = torch.randperm(arguments.nodes, generator=torch.Generator().manual_seed(2))[: arguments.train]
    options = {"input_nodes": seeds, "batch_size": arguments.batch_size}
    ours = uvatrain.pyg.NeighborLoader(data, arguments.fanouts, **options)
    scripts = {}
    for name, loader, layers in (
        (PYG, peer(data, arguments, options), torch_geometric.nn),
        (LOADER, ours, torch_geometric.nn),
        (LAYERS, ours, uvatrain.nn),
    ):
        torch.manual_seed(0)
        model = Model(getattr(layers, arguments.layer), arguments.features, arguments.hidden)
        scripts[name] = loader, model, torch.optim.Adam(model.parameters(), lr=3e-3)

    epochs = {name: [] for name in scripts}
    for number in range(1 + arguments.rounds):
        for name in list(scripts)[:: 1 if number % 2 else -1]:
            found = epoch(*scripts[name])
            if number > 0:
                epochs[name].append(found)
            print(f"round {number}  {name:<44} {found['seconds']:7.3f} s  waited {found['waited']:6.3f} s  "
                  f"{found['nodes']:>9} nodes  {found['edges']:>9} edges  loss {found['loss']:.4f}", flush=True)

    report = {}
    for way, pick in (("median", statistics.median), ("least", min)):
        took = {name: pick(one["seconds"] for one in of) for name, of in epochs.items()}
        share = pick(one["waited"] / one["seconds"] for one in epochs[PYG])
        bound = 1 / (1 - share)
        report[way] = {
            "epoch_s": took,
            "share_of_pygs_loader": share,
            "bound_of_the_loader_alone": bound,
            "times_as_fast_with_our_loader": took[PYG] / took[LOADER],
            "of_the_bound": took[PYG] / took[LOADER] / bound,
            "times_as_fast_with_our_layers_too": took[PYG] / took[LAYERS],
        }
    print(json.dumps(report, indent=1))
    if arguments.out:
        about = {"about": "Made by scripts/measure/layers.py; docs/guide/nn.md quotes it.", "machine": machine()}
        conditions = {name: value for name, value in vars(arguments).items() if name not in ("out", "quick")}
        versions = {"torch": torch.__version__, "torch_geometric": torch_geometric.__version__}
        arguments.out.parent.mkdir(parents=True, exist_ok=True)
        whole = {**about, **versions, "conditions": conditions, **report, "epochs": epochs}
        arguments.out.write_text(json.dumps(whole, indent=1) + "\n")


if __name__ == "__main__":
    main()
