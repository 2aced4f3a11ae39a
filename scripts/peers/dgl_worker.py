#!/usr/bin/env python3
"""DGL (--library dgl) and its GraphBolt (--library graphbolt). See worker.py.

DGL's fused sampling, which it takes on several threads, corrupts the blocks of a graph with 32-bit ids from the second
batch on (2.1.0): such a graph is sampled unfused.
"""
import os

os.environ.setdefault("DGLBACKEND", "pytorch")

import dgl  # noqa: E402
import numpy as np  # noqa: E402
import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402

from arrays_worker import gathers, row_lists  # noqa: E402
from worker import Batches, check_hops, check_rows, drained, load, measured, seeds_of, serve, trained  # noqa: E402


def gather_operations(arguments):
    import dgl.graphbolt

    features = load(arguments, "feat")
    table = torch.from_numpy(features)
    lists = [torch.from_numpy(rows) for rows in row_lists(arguments, len(features))]
    feature = dgl.graphbolt.TorchBasedFeature(table)
    return {
        "graphbolt": gathers(features, lists, feature.read),
        "dgl": gathers(features, lists, lambda rows: dgl.backend.gather_row(table, rows)),
    }


class Dgl:
    def __init__(self, arguments):
        self.arguments = arguments
        width = np.dtype(arguments.ids)
        indptr, indices = (torch.from_numpy(load(arguments, name, width)) for name in ("indptr", "indices"))
        edges = torch.empty(0, dtype=indices.dtype)
        self.graph = dgl.graph(("csc", (indptr, indices, edges)), num_nodes=len(indptr) - 1)
        self.seeds = torch.from_numpy(seeds_of(arguments, width))
        self.fused = arguments.ids == "int64"
        if arguments.section in ("loading", "training"):
            self.graph.ndata["feat"] = torch.from_numpy(load(arguments, "feat"))
            self.graph.ndata["label"] = torch.from_numpy(load(arguments, "label"))

    def sampler(self, request, **options):
        return dgl.dataloading.NeighborSampler(request["fanouts"][::-1], fused=self.fused, **options)

    def sampling(self, request):
        sampler, batches = self.sampler(request), Batches(self.seeds, request["batch_size"])

        def step(number):
            nodes, _, blocks = sampler.sample_blocks(self.graph, batches[number])
            return {"edges": sum(block.num_edges() for block in blocks), "input_nodes": len(nodes)}

        return measured(request, step)

    def loader(self, request, shuffle=False):
        sampler = self.sampler(request, prefetch_node_feats=["feat"], prefetch_labels=["label"])
        return dgl.dataloading.DataLoader(self.graph, self.seeds, sampler, batch_size=request["batch_size"],
                                          shuffle=shuffle, drop_last=True, num_workers=request["workers"])

    def count(self, batch):
        rows = batch[2][0].srcdata["feat"]
        return {"edges": sum(block.num_edges() for block in batch[2]), "input_nodes": len(rows),
                "bytes": rows.numel() * rows.element_size()}

    def unpack(self, batch):
        return batch[2], batch[2][0].srcdata["feat"], batch[2][-1].dstdata["label"]

    def check(self, request):
        sampler, batches = self.sampler(request), Batches(self.seeds, request["batch_size"])
        # Not the first: the fused one is right in that whatever follows.
        for number in range(3):
            nodes, _, blocks = sampler.sample_blocks(self.graph, batches[number])
        # What a hop's sources are is the next one's destinations.
        hops = [(block.srcdata[dgl.NID], *block.edges()) for block in reversed(blocks)]
        found = check_hops(self.arguments, request["fanouts"], hops)
        if self.arguments.section != "sampling":
            for number, (nodes, _, blocks) in enumerate(self.loader(request)):
                if number == 2:
                    break
            check_rows(self.arguments, nodes, blocks[0].srcdata["feat"])
        return found


class GraphBolt:
    def __init__(self, arguments):
        import dgl.graphbolt

        self.arguments, self.bolt = arguments, dgl.graphbolt
        width = np.dtype(arguments.ids)
        # int64 offsets with int32 neighbours is its smallest form.
        indices = torch.from_numpy(load(arguments, "indices", width))
        self.graph = self.bolt.fused_csc_sampling_graph(torch.from_numpy(load(arguments, "indptr")), indices)
        self.seeds = torch.from_numpy(seeds_of(arguments, width))
        if arguments.section in ("loading", "training"):
            feature = self.bolt.TorchBasedFeature(torch.from_numpy(load(arguments, "feat")))
            self.store = self.bolt.BasicFeatureStore({("node", None, "feat"): feature})
            self.label = torch.from_numpy(load(arguments, "label"))

    def hops(self, request, seeds):
        """The operators below its loader: from the seeds outward, what was sampled and the nodes of the next hop."""
        from dgl.graphbolt.internal import unique_and_compact_csc_formats

        for fanout in request["fanouts"]:
            sampled = self.graph.sample_neighbors(seeds, torch.tensor([fanout])).sampled_csc
            seeds, compacted = unique_and_compact_csc_formats(sampled, seeds)
            yield seeds, compacted

    def sampling(self, request):
        batches = Batches(self.seeds, request["batch_size"])

        def step(number):
            edges, nodes = 0, ()
            for nodes, compacted in self.hops(request, batches[number]):
                edges += len(compacted.indices)
            return {"edges": edges, "input_nodes": len(nodes)}

        return measured(request, step)

    def loader(self, request, shuffle=False):
        items = self.bolt.ItemSet((self.seeds, self.label[self.seeds.long()]), names=("seed_nodes", "labels"))
        pipe = self.bolt.ItemSampler(items, batch_size=request["batch_size"], shuffle=shuffle, drop_last=True)
        pipe = pipe.sample_neighbor(self.graph, request["fanouts"][::-1])
        pipe = pipe.fetch_feature(self.store, node_feature_keys=["feat"])
        return self.bolt.DataLoader(pipe, num_workers=request["workers"])

    def count(self, batch):
        rows = batch.node_features["feat"]
        return {"edges": sum(len(one.sampled_csc.indices) for one in batch.sampled_subgraphs),
                "input_nodes": len(rows), "bytes": rows.numel() * rows.element_size()}

    def unpack(self, batch):
        return batch.blocks, batch.node_features["feat"], batch.labels

    def check(self, request):
        batches = Batches(self.seeds, request["batch_size"])
        hops = []
        for nodes, compacted in self.hops(request, batches[2]):
            picks = compacted.indptr.diff()
            hops.append((nodes, compacted.indices, torch.repeat_interleave(torch.arange(len(picks)), picks)))
        found = check_hops(self.arguments, request["fanouts"], hops)
        if self.arguments.section != "sampling":
            for number, batch in enumerate(self.loader(request)):
                if number == 2:
                    break
            check_rows(self.arguments, batch.input_nodes, batch.node_features["feat"])
        return found


def training(library):
    from dgl.nn import SAGEConv

    def operation(request):
        torch.manual_seed(request["seed"])
        features, classes = np.load(os.path.join(library.arguments.graph, "feat.npy"), mmap_mode="r").shape[1], (
            int(np.load(os.path.join(library.arguments.graph, "label.npy")).max()) + 1)
        widths = [features] + [request["hidden"]] * (len(request["fanouts"]) - 1) + [classes]
        layers = torch.nn.ModuleList([SAGEConv(*ends, "mean") for ends in zip(widths, widths[1:])])
        optimizer = torch.optim.Adam(layers.parameters(), request["rate"])

        def step(batch):
            blocks, x, label = library.unpack(batch)
            for number, (layer, block) in enumerate(zip(layers, blocks)):
                x = layer(block, x)
                if number + 1 < len(layers):
                    x = x.relu()
            loss = F.cross_entropy(x, label)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            return loss.item()

        return trained(request, library.loader(request, shuffle=True), step)

    return operation


def make(arguments):
    torch.set_num_threads(arguments.threads)
    versions = {"dgl": dgl.__version__, "torch": torch.__version__}
    if arguments.section == "gather":
        return gather_operations(arguments), versions
    library = {"dgl": Dgl, "graphbolt": GraphBolt}[arguments.library](arguments)
    return {
        "check": library.check,
        "sampling": library.sampling,
        "loading": lambda request: drained(request, lambda: library.loader(request), library.count, request["workers"]),
        "training": training(library),
    }, versions


if __name__ == "__main__":
    serve(make)
