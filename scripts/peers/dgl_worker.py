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
from worker import (  # noqa: E402
    Batches,
    Typed,
    check_hops,
    check_rows,
    check_typed,
    drained,
    load,
    measured,
    seeds_of,
    serve,
    trained,
    trained_typed,
)


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


class TypedDgl:
    def __init__(self, arguments):
        self.arguments, self.typed = arguments, Typed(arguments)
        width = np.dtype(arguments.ids)
        edges = {}
        for relation in self.typed.relations:
            indptr, indices = map(torch.from_numpy, self.typed.lists(relation, width))
            edges[relation] = ("csc", (indptr, indices, torch.empty(0, dtype=indices.dtype)))
        self.graph = dgl.heterograph(edges, self.typed.nodes)
        self.seeds = torch.from_numpy(self.typed.seeds(width))
        self.fused = arguments.ids == "int64"
        if arguments.section != "typed-sampling":
            self.rows = self.typed.rows()
            for kind, rows in self.rows.items():
                self.graph.nodes[kind].data["feat"] = torch.from_numpy(rows)
            self.graph.nodes[self.typed.target].data["label"] = torch.from_numpy(self.typed.label())

    def sampler(self, request, **options):
        return dgl.dataloading.NeighborSampler(request["fanouts"][::-1], fused=self.fused, **options)

    def sampling(self, request):
        sampler, batches = self.sampler(request), Batches(self.seeds, request["batch_size"])

        def step(number):
            nodes, _, blocks = sampler.sample_blocks(self.graph, {self.typed.target: batches[number]})
            return {"edges": sum(block.num_edges() for block in blocks), "input_nodes": sum(map(len, nodes.values()))}

        return measured(request, step)

    def loader(self, request, shuffle=False):
        sampler = self.sampler(request, prefetch_node_feats={kind: ["feat"] for kind in self.rows},
                               prefetch_labels={self.typed.target: ["label"]})
        return dgl.dataloading.DataLoader(self.graph, {self.typed.target: self.seeds}, sampler, shuffle=shuffle,
                                          batch_size=request["batch_size"], drop_last=True, num_workers=request["workers"])

    def count(self, batch):
        rows = [batch[2][0].srcnodes[kind].data["feat"] for kind in self.rows]
        return {"edges": sum(block.num_edges() for block in batch[2]), "input_nodes": sum(map(len, batch[0].values())),
                "bytes": sum(of.numel() * of.element_size() for of in rows)}

    def check(self, request):
        sampler, batches = self.sampler(request), Batches(self.seeds, request["batch_size"])
        for number in range(3):
            _, _, blocks = sampler.sample_blocks(self.graph, {self.typed.target: batches[number]})
        hops = []
        for block in reversed(blocks):
            of_relation = {}
            for relation in self.typed.relations:
                sources, destinations = block.edges(etype=relation)
                of_relation[relation] = (block.srcnodes[relation[0]].data[dgl.NID][sources.long()], destinations)
            hops.append(({kind: block.dstnodes[kind].data[dgl.NID] for kind in self.typed.nodes}, of_relation))
        found = check_typed(self.typed, batches[2], request["fanouts"], hops, "all")
        if self.arguments.section == "typed-loading":
            for number, (nodes, _, blocks) in enumerate(self.loader(request)):
                if number == 2:
                    break
            for kind in self.rows:
                check_rows(self.arguments, nodes[kind], blocks[0].srcnodes[kind].data["feat"], f"nodes/{kind}/feat")
        return found


    def training(self, request):
        """`HeteroGraphConv` of `SAGEConv`, or of `GATConv` and a last map, for what the target's rows depend on."""
        from dgl.nn import GATConv, HeteroGraphConv, SAGEConv

        torch.manual_seed(request["seed"])
        typed, hidden, count = self.typed, request["hidden"], len(request["fanouts"])
        classes, attends, heads = int(typed.label().max()) + 1, request["model"] == "rgat", request["heads"]
        widths, layers = {kind: self.rows[kind].shape[1] if kind in self.rows else hidden for kind in typed.nodes}, []
        made = []
        for number, relations in enumerate(typed.relations_of_layers(count)):
            width = hidden if attends or number + 1 < count else classes
            made.append({of[2] for of in relations})
            layers.append(HeteroGraphConv({
                of: GATConv((widths[of[0]], widths[of[2]]), width // heads, heads, allow_zero_in_degree=True) if attends
                else SAGEConv((widths[of[0]], widths[of[2]]), width, "mean") for of in relations}, aggregate="sum"))
            widths = dict.fromkeys(widths, width)
        layers = torch.nn.ModuleList([*layers, *[torch.nn.Linear(hidden, classes)] * attends])

        def step(batch, embedded):
            nodes, _, blocks = batch
            x = {kind: blocks[0].srcnodes[kind].data["feat"] if kind in self.rows else embedded(kind, nodes[kind])
                 for kind in typed.nodes}
            for number, (layer, block) in enumerate(zip(layers, blocks)):
                own = {kind: x[kind][: block.num_dst_nodes(kind)] for kind in made[number]}
                x = layer(block, (x, own))
                if attends:
                    x = {kind: rows.flatten(1) for kind, rows in x.items()}
                if number + 1 < count:
                    x = {kind: F.leaky_relu(rows) if attends else rows.relu() for kind, rows in x.items()}
            out = x[typed.target]
            label = blocks[-1].dstnodes[typed.target].data["label"]
            return F.cross_entropy(layers[count](out) if attends else out, label)

        return trained_typed(request, typed, layers, self.loader(request, shuffle=True), step)


class TypedGraphBolt:
    """Its form has all types' nodes in one range of ids, and each node's entries by relation."""

    def __init__(self, arguments):
        import dgl.graphbolt

        self.arguments, self.typed, self.bolt = arguments, Typed(arguments), dgl.graphbolt
        width = np.dtype(arguments.ids)
        offsets = np.cumsum([0, *self.typed.nodes.values()])
        self.first = dict(zip(self.typed.nodes, offsets))
        # Relations in this order, so that a stable sort by destination leaves a node's entries by relation.
        sources, destinations, kinds = [], [], []
        for number, relation in enumerate(self.typed.relations):
            indptr, indices = self.typed.lists(relation)
            sources.append(indices.astype(width) + width.type(self.first[relation[0]]))
            destinations.append(np.repeat(np.arange(len(indptr) - 1) + self.first[relation[2]], np.diff(indptr)))
            kinds.append(np.full(len(indices), number, np.uint8))
        destinations = np.concatenate(destinations)
        order = np.argsort(destinations, kind="stable")
        indptr = np.concatenate([[0], np.cumsum(np.bincount(destinations, minlength=offsets[-1]))])
        names = [":".join(relation) for relation in self.typed.relations]
        self.graph = self.bolt.fused_csc_sampling_graph(
            torch.from_numpy(indptr), torch.from_numpy(np.concatenate(sources)[order]),
            node_type_offset=torch.from_numpy(offsets), type_per_edge=torch.from_numpy(np.concatenate(kinds)[order]),
            node_type_to_id={kind: number for number, kind in enumerate(self.typed.nodes)},
            edge_type_to_id={name: number for number, name in enumerate(names)})
        self.seeds = torch.from_numpy(self.typed.seeds(width))

    def hops(self, request, seeds):
        """The operators below its loader: from the seeds outward, the nodes so far, before and after, and what was sampled."""
        from dgl.graphbolt.internal import unique_and_compact_csc_formats

        nodes = {self.typed.target: seeds}
        for fanout in request["fanouts"]:
            fanouts = torch.full((len(self.typed.relations),), fanout)
            sampled = self.graph.sample_neighbors(nodes, fanouts).sampled_csc
            before = nodes
            nodes, compacted = unique_and_compact_csc_formats(sampled, before)
            yield before, nodes, compacted

    def sampling(self, request):
        batches = Batches(self.seeds, request["batch_size"])

        def step(number):
            edges, nodes = 0, {}
            for _, nodes, compacted in self.hops(request, batches[number]):
                edges += sum(len(of.indices) for of in compacted.values())
            return {"edges": edges, "input_nodes": sum(map(len, nodes.values()))}

        return measured(request, step)

    def check(self, request):
        seeds, hops = Batches(self.seeds, request["batch_size"])[2], []
        for before, nodes, compacted in self.hops(request, seeds):
            of_relation = {}
            for relation in self.typed.relations:
                of = compacted[":".join(relation)]
                picks = of.indptr.diff()
                of_relation[relation] = (nodes[relation[0]][of.indices.long()],
                                         torch.repeat_interleave(torch.arange(len(picks)), picks))
            hops.append((before, of_relation))
        return check_typed(self.typed, seeds, request["fanouts"], hops, "all")


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
    if arguments.section.startswith("typed"):
        library = {"dgl": TypedDgl, "graphbolt": TypedGraphBolt}[arguments.library](arguments)
    else:
        library = {"dgl": Dgl, "graphbolt": GraphBolt}[arguments.library](arguments)
    return {
        "check": library.check,
        "sampling": library.sampling,
        "loading": lambda request: drained(request, lambda: library.loader(request), library.count, request["workers"]),
        "training": getattr(library, "training", None) or training(library),
    }, versions


if __name__ == "__main__":
    serve(make)
