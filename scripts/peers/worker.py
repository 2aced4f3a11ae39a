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


def seeds_of(arguments, dtype=np.int64):
    """The training nodes in an order that is the same for every peer."""
    return np.random.RandomState(0).permutation(load(arguments, "train_idx")).astype(dtype, copy=False)


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


def check_rows(arguments, nodes, rows):
    """Raises unless these are the features of these nodes."""
    features = np.load(os.path.join(arguments.graph, "feat.npy"), mmap_mode="r")
    assert np.array_equal(features[np.asarray(nodes)], np.asarray(rows)), "rows are not those of the input nodes"
