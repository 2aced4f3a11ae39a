"""What the peers' workers share. A worker holds one graph and one configuration of a library in a process of its own,
and answers requests of compare.py, a line of JSON each: how long the batches took, one by one.

A worker's file calls `serve` with a function that makes its operations, by name: functions of a request that give back
what `measured`, `drained` or `trained` return. The request's `seconds` bound each.
"""
import argparse
import gc
import json
import os
import sys
import time
import traceback

import numpy as np

# Of a worker's first batches none counts: buffers, threads and loader processes start with them.
WARM_BATCHES = 2


def serve(make):
    """Answers requests until stdin ends. `make(arguments)` returns operations by name, and versions by library."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--graph", required=True)
    parser.add_argument("--section", required=True)
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--library", default="")
    parser.add_argument("--ids", choices=["int32", "int64"], default="int64")
    arguments = parser.parse_args()
    # Answers have stdout to themselves: what a library prints goes to stderr.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    def say(what):
        print(json.dumps(what), file=answers, flush=True)

    operations, versions = make(arguments)
    # A full collection takes 100 ms with these libraries loaded and would fall on some batch.
    gc.collect()
    gc.freeze()
    say({"ready": True, "versions": versions})
    for line in sys.stdin:
        request = json.loads(line)
        try:
            say(operations[request["operation"]](request))
        except Exception:  # noqa: BLE001: the driver gets the error, and continues with the others
            say({"error": traceback.format_exc(limit=3)[-800:]})
        gc.collect()


def load(arguments, name, dtype=None):
    """An array of the graph, in memory of this process."""
    array = np.load(os.path.join(arguments.graph, name + ".npy"))
    return array if dtype is None else array.astype(dtype, copy=False)


def seeds_of(arguments, dtype=np.int64, split="train_idx"):
    """The training nodes in an order that is the same for every peer."""
    return np.random.RandomState(0).permutation(load(arguments, split)).astype(dtype, copy=False)


class Typed:
    """A graph whose nodes and edges have types: its metadata and where its arrays are."""

    def __init__(self, arguments):
        self.arguments = arguments
        with open(os.path.join(arguments.graph, "meta.json")) as file:
            meta = json.load(file)
        self.nodes = {one["type"]: one["num"] for one in meta["nodes"]}
        self.relations = [tuple(one["type"]) for one in meta["edges"]]
        self.target = meta["target"]

    def lists(self, relation, dtype=None):
        """For each node of the relation's destination type where its list begins, and the lists."""
        folder = f"edges/{'__'.join(relation)}"
        return load(self.arguments, f"{folder}/indptr", dtype), load(self.arguments, f"{folder}/indices", dtype)

    def seeds(self, dtype=np.int64):
        return seeds_of(self.arguments, dtype, f"nodes/{self.target}/train_idx")

    def label(self):
        return load(self.arguments, f"nodes/{self.target}/label")

    def rows(self):
        """Feature rows of the types that have them."""
        return {kind: load(self.arguments, f"nodes/{kind}/feat") for kind in self.nodes
                if os.path.exists(os.path.join(self.arguments.graph, f"nodes/{kind}/feat.npy"))}


    def relations_of_layers(self, layers):
        """The relations on which the target's rows depend, by layer, the first layer first."""
        found, read = [], {self.target}
        for _ in range(layers):
            found.insert(0, [of for of in self.relations if of[2] in read])
            read |= {of[0] for of in found[0]}
        return found


class Batches:
    """Seeds in batches, going round when they end; an epoch's last, shorter batch is left out."""

    def __init__(self, seeds, size):
        self.seeds, self.size, self.count = seeds, min(size, len(seeds)), max(1, len(seeds) // size)

    def __getitem__(self, number):
        begin = number % self.count * self.size
        return self.seeds[begin : begin + self.size]


def measured(request, step):
    """Calls step(number), which returns counts of a batch, for about the requested time."""
    begin = time.perf_counter()
    number = 0
    while number < WARM_BATCHES and (number == 0 or time.perf_counter() - begin < request["seconds"]):
        step(number)
        number += 1
    times, counts = [], []
    begin = time.perf_counter()
    while not times or time.perf_counter() - begin < request["seconds"]:
        since = time.perf_counter()
        count = step(number)
        times.append(time.perf_counter() - since)
        counts.append(count)
        number += 1
    return record(times, counts)


def drained(request, make_iterator, count, workers):
    """The same for a loader, going round: a batch's time is that from the one before it."""

    def batches():
        while True:
            yield from make_iterator()

    iterator = batches()
    times, counts, warm = [], [], WARM_BATCHES + 2 * workers
    begin = time.perf_counter()
    for number, batch in enumerate(iterator):
        if number < warm:
            counted = count(batch)
            since = begin = time.perf_counter()
            continue
        counted = count(batch)
        now = time.perf_counter()
        times.append(now - since)
        counts.append(counted)
        since = now
        # Loader processes hand over in bursts: some more batches than one burst.
        if now - begin > request["seconds"] and len(times) > 2 * workers:
            break
    # Ends loader processes, which would continue otherwise.
    iterator.close()
    return record(times, counts)


def record(times, counts):
    total = {name: sum(count[name] for count in counts) for name in counts[0]}
    return {"batches": len(times), "seconds": sum(times), "batch_ms": spread([1e3 * time for time in times]), **total}


def spread(values):
    return {"min": min(values), "median": float(np.median(values)), "max": max(values)}


def trained(request, loader, step):
    """Whole epochs, the first of which holds the start of everything and does not count."""
    epochs = []
    begin = time.perf_counter()
    while len(epochs) < 2 or (len(epochs) <= request["epochs"] and time.perf_counter() - begin < request["seconds"]):
        since, losses = time.perf_counter(), [step(batch) for batch in loader]
        epochs.append({"seconds": time.perf_counter() - since, "loss": float(np.mean(losses)), "batches": len(losses)})
    return epochs_record(epochs)


def trained_typed(request, typed, layers, loader, step):
    """The same for a typed graph. `layers` hold the parameters; step(batch, embedded) returns the loss of a batch, of which
    embedded(type, nodes) has the trained rows of a type without features."""
    import torch

    tables = {kind: torch.nn.Embedding(count, request["hidden"], sparse=True) for kind, count in typed.nodes.items()
              if kind not in typed.rows()}
    for table in tables.values():
        torch.nn.init.xavier_uniform_(table.weight)
    optimizers = [torch.optim.Adam(layers.parameters(), request["rate"]),
                  torch.optim.SparseAdam([table.weight for table in tables.values()], request["rate"])]

    def all_of_it(batch):
        loss = step(batch, lambda kind, nodes: tables[kind](nodes.long()))
        for optimizer in optimizers:
            optimizer.zero_grad()
        loss.backward()
        for optimizer in optimizers:
            optimizer.step()
        return loss.item()

    return trained(request, loader, all_of_it)


def epochs_record(epochs):
    counted = [epoch["seconds"] for epoch in epochs[1:]]
    return {"batches": sum(epoch["batches"] for epoch in epochs[1:]), "seconds": sum(counted),
            "epoch_s": spread(counted), "losses": [epoch["loss"] for epoch in epochs]}


# --- Whether it is the same work -----------------------------------------------------------------------------------


def check_hops(arguments, fanouts, hops):
    """Raises unless these are blocks as ours are, from the seeds outward: each a triple of the nodes that are aggregated
    (global ids), the local ids of its edges' sources, and those of their destinations. Returns the counts of what was checked."""
    indptr = np.load(os.path.join(arguments.graph, "indptr.npy"), mmap_mode="r")
    indices = np.load(os.path.join(arguments.graph, "indices.npy"), mmap_mode="r")
    edges = 0
    for fanout, (nodes, sources, destinations) in zip(fanouts, hops, strict=True):
        nodes, sources, destinations = (np.asarray(array) for array in (nodes, sources, destinations))
        assert len(np.unique(nodes)) == len(nodes), "a node stands twice in a block"
        assert len(sources) == len(destinations) > 0, "a block without edges"
        assert 0 <= sources.min() and sources.max() < len(nodes), "a source's local id is out of range"
        assert 0 <= destinations.min() and destinations.max() < len(nodes), "a destination's local id is out of range"
        order = np.argsort(destinations, kind="stable")
        targets, begins = np.unique(destinations[order], return_index=True)
        for target, picks in zip(targets, np.split(nodes[sources[order]], begins[1:])):
            node = nodes[target]
            neighbours = indices[indptr[node] : indptr[node + 1]]
            assert len(picks) == min(fanout, len(neighbours)), (
                f"{len(picks)} picks of {len(neighbours)} neighbours with fanout {fanout}")
            assert len(np.unique(picks)) == len(picks), "a neighbour is picked twice"
            assert np.isin(picks, neighbours).all(), "an edge that the graph has not got"
        edges += len(sources)
    return {"hops": len(hops), "edges": edges, "input_nodes": len(hops[-1][0])}


# Where each seed has a tree of its own, a node's id has the tree's number above these bits.
TREE_BITS = 32


def check_typed(graph, seeds, fanouts, hops, expand):
    """Raises unless these are the hops of a typed batch, from the seeds outward: of each the nodes that have picks, by type,
    and for each relation the sources of its edges and the places of their destinations among those nodes. Nodes are global
    ids. `expand` says whose lists a hop reads: those of `all` nodes so far, or of those `new` in the hop before."""
    own = (1 << TREE_BITS) - 1
    found = {kind: np.asarray(seeds if kind == graph.target else [], np.int64) for kind in graph.nodes}
    expected, edges = dict(found), 0
    for fanout, (destinations, of_relation) in zip(fanouts, hops, strict=True):
        sources_of = {kind: [found[kind]] for kind in graph.nodes}
        for kind in graph.nodes:
            nodes = np.asarray(destinations.get(kind, []), np.int64)
            assert len(np.unique(nodes)) == len(nodes), f"a node of type {kind} has picks twice in a hop"
            assert np.array_equal(np.sort(nodes), np.sort(expected[kind])), f"a hop picks for other nodes of type {kind}"
        for relation in graph.relations:
            (indptr, indices), nodes = graph.lists(relation), np.asarray(destinations.get(relation[2], []), np.int64)
            sources, places = (np.asarray(array, np.int64) for array in of_relation.get(relation, ([], [])))
            begins, lengths = indptr[nodes & own], indptr[(nodes & own) + 1] - indptr[nodes & own]
            picks = np.bincount(places, minlength=len(nodes))
            assert np.array_equal(picks, np.minimum(lengths, fanout)), f"{relation}: not as many picks as the fanout says"
            assert np.array_equal(sources >> TREE_BITS, nodes[places] >> TREE_BITS), f"{relation}: an edge between trees"
            # A list may name a neighbour several times, and so may its picks.
            entries = np.arange(lengths.sum()) + np.repeat(begins - np.cumsum(lengths) + lengths, lengths)
            there, allowed = np.unique(np.repeat(np.arange(len(nodes)), lengths) << TREE_BITS | indices[entries],
                                       return_counts=True)
            picked, times = np.unique(places << TREE_BITS | sources & own, return_counts=True)
            at = np.searchsorted(there, picked)
            known = at.max(initial=-1) < len(there) and np.array_equal(there[at], picked)
            assert known, f"{relation}: an edge that the graph has not got"
            assert (times <= allowed[at]).all(), f"{relation}: a neighbour is picked twice"
            sources_of[relation[0]].append(sources)
            edges += len(sources)
        # A node stands once among all that are found.
        now = {kind: np.unique(np.concatenate(arrays)) for kind, arrays in sources_of.items()}
        expected = now if expand == "all" else {kind: np.setdiff1d(now[kind], found[kind]) for kind in now}
        found = now
    assert edges > 0, "a batch without edges"
    return {"hops": len(hops), "edges": edges, "input_nodes": sum(map(len, found.values()))}


def hops_of_new_nodes(graph, fanouts, seeds, nodes, edges):
    """Hops as check_typed takes them, of what samplers give that draw for new nodes alone: the nodes of each type in the order
    in which they were found, and each relation's sources and destinations as places among them."""
    begins, ends = dict.fromkeys(graph.nodes, 0), {kind: seeds if kind == graph.target else 0 for kind in graph.nodes}
    hops = []
    for _ in fanouts:
        of_hop, after = {}, dict(ends)
        for relation, (sources, destinations) in edges.items():
            begin, end = begins[relation[2]], ends[relation[2]]
            chosen = (destinations >= begin) & (destinations < end)
            after[relation[0]] = max(after[relation[0]], int(sources[chosen].max(initial=-1)) + 1)
            of_hop[relation] = (nodes[relation[0]][sources[chosen]], destinations[chosen] - begin)
        hops.append(({kind: nodes[kind][begins[kind] : ends[kind]] for kind in graph.nodes}, of_hop))
        begins, ends = ends, after
    assert all(ends[kind] == len(nodes[kind]) for kind in graph.nodes), "nodes that no hop has found"
    assert sum(len(sources) for hop in hops for sources, _ in hop[1].values()) == sum(len(of[0]) for of in edges.values()), (
        "edges of no hop")
    return hops


def check_rows(arguments, nodes, rows, name="feat"):
    """Raises unless these are the features of these nodes."""
    features = np.load(os.path.join(arguments.graph, name + ".npy"), mmap_mode="r")
    assert np.array_equal(features[np.asarray(nodes)], np.asarray(rows)), "rows are not those of the input nodes"
