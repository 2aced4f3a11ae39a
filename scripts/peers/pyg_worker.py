#!/usr/bin/env python3
"""PyG over torch-sparse. See worker.py.

PyG's samplers use one thread and keep the interpreter's lock: what it does on several cores is loader processes.
"""
import os
import warnings

warnings.filterwarnings("ignore")

import numpy as np  # noqa: E402
import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402
import torch_geometric  # noqa: E402
import torch_sparse  # noqa: E402
from torch_geometric.data import Data  # noqa: E402
from torch_geometric.loader import NeighborLoader  # noqa: E402
from torch_geometric.nn import SAGEConv  # noqa: E402

from worker import Batches, check_hops, check_rows, drained, load, measured, seeds_of, serve, trained  # noqa: E402


class Operator(torch.utils.data.Dataset):
    """Batches by the operator below the loader, for loader processes."""

    def __init__(self, sample):
        self.sample = sample

    def __len__(self):
        return 1 << 20

    def __getitem__(self, number):
        return self.sample(number)


class Pyg:
    def __init__(self, arguments):
        self.arguments = arguments
        self.seeds = torch.from_numpy(seeds_of(arguments))
        indptr, indices = load(arguments, "indptr"), load(arguments, "indices", np.int64)
        if arguments.section == "sampling":
            self.indptr, self.indices = torch.from_numpy(indptr), torch.from_numpy(indices)
            return
        edges = np.empty((2, len(indices)), np.int64)
        edges[0], edges[1] = indices, np.repeat(np.arange(len(indptr) - 1), np.diff(indptr))
        self.data = Data(x=torch.from_numpy(load(arguments, "feat")), y=torch.from_numpy(load(arguments, "label")),
                         edge_index=torch.from_numpy(edges))

    def sample(self, request, seeds):
        """Nodes, and of the edges sources and destinations."""
        nodes, rows, columns, _ = torch.ops.torch_sparse.neighbor_sample(self.indptr, self.indices, seeds,
                                                                        request["fanouts"], False, True)
        return nodes, rows, columns

    def sampling(self, request):
        batches = Batches(self.seeds, request["batch_size"])

        def count(sampled):
            return {"edges": len(sampled[1]), "input_nodes": len(sampled[0])}

        if request["workers"] == 0:
            return measured(request, lambda number: count(self.sample(request, batches[number])))
        operator = Operator(lambda number: self.sample(request, batches[number]))
        loader = torch.utils.data.DataLoader(operator, batch_size=None, num_workers=request["workers"])
        return drained(request, lambda: iter(loader), count, request["workers"])

    def loader(self, request, shuffle=False):
        return NeighborLoader(self.data, num_neighbors=request["fanouts"], input_nodes=self.seeds,
                              batch_size=request["batch_size"], shuffle=shuffle, drop_last=True, is_sorted=True,
                              num_workers=request["workers"])

    def count(self, batch):
        return {"edges": batch.edge_index.size(1), "input_nodes": len(batch.x),
                "bytes": batch.x.numel() * batch.x.element_size()}

    def check(self, request):
        if self.arguments.section == "sampling":
            nodes, sources, destinations = self.sample(request, Batches(self.seeds, request["batch_size"])[2])
            seeds = request["batch_size"]
        else:
            for number, batch in enumerate(self.loader(request)):
                if number == 2:
                    break
            (sources, destinations), nodes, seeds = batch.edge_index, batch.n_id, batch.batch_size
            check_rows(self.arguments, nodes, batch.x)
        # It has one list of edges, and expands a node in the hop after that in which it was found.
        hops, begin, end = [], 0, seeds
        for _ in request["fanouts"]:
            of_hop = (destinations >= begin) & (destinations < end)
            found = max(end, int(sources[of_hop].max()) + 1)
            hops.append((nodes[:found], sources[of_hop], destinations[of_hop]))
            begin, end = end, found
        assert end == len(nodes), "nodes that no hop has found"
        return check_hops(self.arguments, request["fanouts"], hops)

    def training(self, request):
        torch.manual_seed(request["seed"])
        widths = [self.data.x.size(1)] + [request["hidden"]] * (len(request["fanouts"]) - 1)
        widths.append(int(self.data.y.max()) + 1)
        layers = torch.nn.ModuleList([SAGEConv(*ends) for ends in zip(widths, widths[1:])])
        optimizer = torch.optim.Adam(layers.parameters(), request["rate"])

        def step(batch):
            x = batch.x
            for number, layer in enumerate(layers):
                x = layer(x, batch.edge_index)
                if number + 1 < len(layers):
                    x = x.relu()
            loss = F.cross_entropy(x[: batch.batch_size], batch.y[: batch.batch_size])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            return loss.item()

        return trained(request, self.loader(request, shuffle=True), step)


def make(arguments):
    torch.set_num_threads(arguments.threads)
    pyg = Pyg(arguments)
    assert arguments.section == "sampling" or not torch_geometric.typing.WITH_PYG_LIB, "sampling would be pyg-lib's"
    return {
        "check": pyg.check,
        "sampling": pyg.sampling,
        "loading": lambda request: drained(request, lambda: pyg.loader(request), pyg.count, request["workers"]),
        "training": pyg.training,
    }, {"torch_geometric": torch_geometric.__version__, "torch_sparse": torch_sparse.__version__,
        "torch": torch.__version__}


if __name__ == "__main__":
    serve(make)
