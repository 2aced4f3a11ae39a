#!/usr/bin/env python3
"""PyG over pyg-lib. See worker.py.

PyG's samplers use one thread and keep the interpreter's lock: what it does on several cores is loader processes. Only
pyg-lib's typed sampler has threads, one for the relations into each type.
"""
import warnings

warnings.filterwarnings("ignore")

import numpy as np  # noqa: E402
import pyg_lib  # noqa: E402
import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402
import torch_geometric  # noqa: E402
from torch_geometric.data import Data, HeteroData  # noqa: E402
from torch_geometric.loader import NeighborLoader  # noqa: E402
from torch_geometric.nn import GATConv, HeteroConv, SAGEConv  # noqa: E402
from torch_geometric.utils import trim_to_layer  # noqa: E402

from worker import (  # noqa: E402
    Batches,
    Typed,
    check_hops,
    check_rows,
    check_typed,
    drained,
    hops_of_new_nodes,
    load,
    measured,
    seeds_of,
    serve,
    trained,
    trained_typed,
)


class Operator(torch.utils.data.Dataset):
    """Batches by the operator below the loader, for loader processes."""

    def __init__(self, sample):
        self.sample = sample

    def __len__(self):
        return 1 << 20

    def __getitem__(self, number):
        return self.sample(number)


def sampled(request, batches, sample, count):
    """The operator's batches, in this process or in loader processes."""
    if request["workers"] == 0:
        return measured(request, lambda number: count(sample(request, batches[number])))
    operator = Operator(lambda number: sample(request, batches[number]))
    loader = torch.utils.data.DataLoader(operator, batch_size=None, num_workers=request["workers"])
    return drained(request, lambda: iter(loader), count, request["workers"])


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
        rows, columns, nodes, *_ = pyg_lib.sampler.neighbor_sample(self.indptr, self.indices, seeds, request["fanouts"],
                                                                   csc=True)
        return nodes, rows, columns

    def sampling(self, request):
        batches = Batches(self.seeds, request["batch_size"])

        return sampled(request, batches, self.sample, lambda of: {"edges": len(of[1]), "input_nodes": len(of[0])})

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


class TypedPyg:
    def __init__(self, arguments):
        self.arguments, self.typed = arguments, Typed(arguments)
        self.seeds = torch.from_numpy(self.typed.seeds())
        self.lists = {relation: [torch.from_numpy(array) for array in self.typed.lists(relation, np.int64)]
                      for relation in self.typed.relations}
        if arguments.section != "typed-sampling":
            self.rows, self.data = self.typed.rows(), HeteroData()
            for kind, count in self.typed.nodes.items():
                self.data[kind].num_nodes = count
            for kind, rows in self.rows.items():
                self.data[kind].x = torch.from_numpy(rows)
            self.data[self.typed.target].y = torch.from_numpy(self.typed.label())
            for relation, (indptr, indices) in self.lists.items():
                destinations = torch.repeat_interleave(torch.arange(len(indptr) - 1), indptr.diff())
                self.data[relation].edge_index = torch.stack([indices, destinations])

    def sample(self, request, seeds):
        """Nodes by type, and of the edges of each relation sources and destinations."""
        sources, destinations, nodes, *_ = pyg_lib.sampler.hetero_neighbor_sample(
            {relation: lists[0] for relation, lists in self.lists.items()},
            {relation: lists[1] for relation, lists in self.lists.items()}, {self.typed.target: seeds},
            dict.fromkeys(self.typed.relations, request["fanouts"]), csc=True)
        return nodes, sources, destinations

    def sampling(self, request):
        def count(of):
            return {"edges": sum(map(len, of[1].values())), "input_nodes": sum(map(len, of[0].values()))}

        return sampled(request, Batches(self.seeds, request["batch_size"]), self.sample, count)

    def loader(self, request, shuffle=False):
        return NeighborLoader(self.data, num_neighbors=request["fanouts"], input_nodes=(self.typed.target, self.seeds),
                              batch_size=request["batch_size"], shuffle=shuffle, drop_last=True, is_sorted=True,
                              num_workers=request["workers"])

    def count(self, batch):
        rows = [batch[kind].x for kind in self.rows]
        return {"edges": sum(of.size(1) for of in batch.edge_index_dict.values()), "input_nodes": batch.num_nodes,
                "bytes": sum(of.numel() * of.element_size() for of in rows)}

    def check(self, request):
        seeds = Batches(self.seeds, request["batch_size"])[2]
        if self.arguments.section == "typed-sampling":
            nodes, sources, destinations = self.sample(request, seeds)
        else:
            for number, batch in enumerate(self.loader(request)):
                if number == 2:
                    break
            nodes = {kind: batch[kind].n_id for kind in self.typed.nodes}
            sources, destinations = ({relation: batch[relation].edge_index[end] for relation in self.typed.relations}
                                     for end in (0, 1))
            for kind in self.rows:
                check_rows(self.arguments, nodes[kind], batch[kind].x, f"nodes/{kind}/feat")
        edges = {relation: (sources[relation].numpy(), destinations[relation].numpy()) for relation in self.typed.relations}
        nodes = {kind: nodes[kind].numpy() for kind in self.typed.nodes}
        hops = hops_of_new_nodes(self.typed, request["fanouts"], len(seeds), nodes, edges)
        return check_typed(self.typed, seeds, request["fanouts"], hops, "new")


    def training(self, request):
        """`HeteroConv` of `SAGEConv`, or of `GATConv` and a last map. Each layer computes what the later ones read
        (`trim_to_layer`), and the last one rows of the target alone."""
        torch.manual_seed(request["seed"])
        typed, hidden, count = self.typed, request["hidden"], len(request["fanouts"])
        classes, attends = int(self.data[typed.target].y.max()) + 1, request["model"] == "rgat"
        widths, layers = {kind: self.rows[kind].shape[1] if kind in self.rows else hidden for kind in typed.nodes}, []
        for number, relations in enumerate(typed.relations_of_layers(count)):
            width = hidden if attends or number + 1 < count else classes
            heads = request["heads"]
            layers.append(HeteroConv({
                of: GATConv((widths[of[0]], widths[of[2]]), width // heads, heads, add_self_loops=False) if attends
                else SAGEConv((widths[of[0]], widths[of[2]]), width) for of in relations}, aggr="sum"))
            widths = dict.fromkeys(widths, width)
        layers = torch.nn.ModuleList([*layers, *[torch.nn.Linear(hidden, classes)] * attends])

        def step(batch, embedded):
            x = {kind: batch[kind].x if kind in self.rows else embedded(kind, batch[kind].n_id) for kind in typed.nodes}
            edges = batch.edge_index_dict
            for number, layer in enumerate(layers[:count]):
                x, edges, _ = trim_to_layer(number, batch.num_sampled_nodes_dict, batch.num_sampled_edges_dict, x, edges)
                x = layer(x, {of: edges[of] for of in map(tuple, layer.convs.keys())})
                if number + 1 < count:
                    x = {kind: F.leaky_relu(rows) if attends else rows.relu() for kind, rows in x.items()}
            out = x[typed.target][: batch[typed.target].batch_size]
            return F.cross_entropy(layers[count](out) if attends else out, batch[typed.target].y[: len(out)])

        return trained_typed(request, typed, layers, self.loader(request, shuffle=True), step)


def make(arguments):
    torch.set_num_threads(arguments.threads)
    assert torch_geometric.typing.WITH_PYG_LIB, "sampling would be torch-sparse's"
    versions = {"torch_geometric": torch_geometric.__version__, "torch": torch.__version__, "pyg_lib": pyg_lib.__version__}
    if arguments.section.startswith("typed"):
        pyg = TypedPyg(arguments)
        return {
            "check": pyg.check,
            "sampling": pyg.sampling,
            "loading": lambda request: drained(request, lambda: pyg.loader(request), pyg.count, request["workers"]),
            "training": pyg.training,
        }, versions
    pyg = Pyg(arguments)
    return {
        "check": pyg.check,
        "sampling": pyg.sampling,
        "loading": lambda request: drained(request, lambda: pyg.loader(request), pyg.count, request["workers"]),
        "training": pyg.training,
    }, versions


if __name__ == "__main__":
    serve(make)
