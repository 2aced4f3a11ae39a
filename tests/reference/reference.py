#!/usr/bin/env python3
"""A second implementation of uvatrain's reproducible batches, in plain Python.

It follows docs/spec/reproducible-batches.md and shares nothing with the Rust code: no arrays, no tricks, one obvious
loop for each sentence of that document. words.py has the random words, together.py the kinds of sampler that draw
for all destinations of a hop together, partitions.py the methods of docs/spec/partitioning.md, typed.py typed graphs,
and trees.py disjoint trees. It makes docs/test-vectors.json, which the Rust tests compare with, except for the parts
that typed.py and trees.py make.

    python3 tests/reference/reference.py --write docs/test-vectors.json
    python3 tests/reference/reference.py --check docs/test-vectors.json

Needs Python 3.9 or later and nothing else.
"""

import argparse
import json
import math
import os
import sys

from floats import bits_of, float32, weight_of
from orders import in_turns, sequence
from partitions import partition_vectors
from together import weigh_fastgcn, weigh_ladies, weigh_saint_edge, weigh_saint_node
from words import (
    MASK32,
    MASK64,
    bounded,
    bounded64,
    counter_of,
    exponential,
    mix,
    philox4x32,
    under,
    word_at,
    words_of,
)

# --- Seeds ----------------------------------------------------------------------------------------------------


def seed_order(seed, split, count, epoch):
    """Positions of a split's index file in the order in which an epoch visits them."""
    if split != "train":
        return list(range(count))
    keyed = []
    for position in range(count):
        words = words_of(
            dict(seed=seed, node=position, purpose="seed_shuffle", layer=0, batch=0, epoch=epoch, split=split)
        )
        low, high = next(words), next(words)
        keyed.append((high << 32 | low, position))
    return [position for _, position in sorted(keyed)]


def hop_order(seed, count):
    """Places of train_idx.npy in the order of a hop set's training rows."""
    keyed = []
    for place in range(count):
        words = words_of(dict(seed=seed, node=place, purpose="hop_rows", layer=0, batch=0, epoch=0, split="train"))
        low, high = next(words), next(words)
        keyed.append((high << 32 | low, place))
    return [place for _, place in sorted(keyed)]


def chunk_order(seed, count, chunk, epoch):
    """Training rows of a hop set in the order in which an epoch visits them: chunk by chunk."""
    chunks = seed_order(seed, "train", -(-count // chunk), epoch)
    return [row for which in chunks for row in range(which * chunk, min((which + 1) * chunk, count))]


def seed_orders_vector(graph, train, edges, seed, count, segment, epochs):
    """Sequences over a graph, and epochs that follow them alternately and in segments of the first."""
    sequences = [sequence(graph, train, edges == "both", seed, number) for number in range(count)]
    return dict(
        graph=graph,
        train=train,
        edges=edges,
        seed=seed,
        segment=segment,
        sequences=sequences,
        epochs=[
            dict(
                epoch=epoch,
                in_turns=in_turns(sequences, seed, epoch),
                segments=[sequences[0][place] for place in chunk_order(seed, len(train), segment, epoch)],
            )
            for epoch in epochs
        ],
    )


def sparse_lists():
    """40 nodes with none to two neighbours each, in several components."""
    words = words_of(stream(seed=11, node=2, purpose="subgraphs"))
    return [[bounded(words, 40) for _ in range(bounded(words, 3))] for _ in range(40)]


def seed_orders_vectors():
    sparse = csc(sparse_lists(), "int32")
    moved, new_id = reordered(sparse_lists())
    train = [(7 * node + 3) % 40 for node in range(40) if node % 3 != 1]
    # The reordered graph's training nodes are the same ones, under its own ids: so are the orders.
    again = [new_id[node] for node in train]
    several = [5, 0, 5, 29, 7, 5]
    return [
        seed_orders_vector(sparse, train, "both", 3, 3, 4, [0, 1, 9]),
        seed_orders_vector(moved, again, "both", 3, 3, 4, [0]),
        seed_orders_vector(moved, again, "in", 3, 2, 1, [2]),
        seed_orders_vector(csc(multigraph_lists(), "int64"), several, "both", 0xFEDCBA9876543210, 2, 4, [2**30 - 1]),
    ]


# --- Picks ----------------------------------------------------------------------------------------------------


def pick(words, degree, fanout, replace):
    """Positions picked in a list of `degree` entries."""
    if fanout == -1 or degree == 0:
        return list(range(degree))
    if replace:
        return [bounded(words, degree) for _ in range(fanout)]
    if degree <= fanout:
        return list(range(degree))
    picks = []
    for j in range(degree - fanout, degree):
        t = bounded(words, j + 1)
        picks.append(j if t in picks else t)
    return picks


def pick_labor(variates, fanout):
    """Positions picked in a list whose entries have these variates."""
    if fanout == -1 or len(variates) <= fanout:
        return list(range(len(variates)))
    smallest = sorted((variate, position) for position, variate in enumerate(variates))[:fanout]
    return sorted(position for _, position in smallest)


def pick_weighted(stream, weights, fanout, replace, relation=0):
    """Positions picked in a list of the relation, whose entries have these weights."""
    there = [position for position, weight in enumerate(weights) if weight > 0]
    if fanout == -1 or not there:
        return there
    if replace:
        e = math.frexp(max(weights))[1] - 1
        integers = [math.floor(weight * 2.0 ** (31 - e)) if weight > 0 else 0 for weight in weights]
        words, picks = words_of(under(stream, relation)), []
        for _ in range(fanout):
            drawn, position = bounded64(words, sum(integers)), 0
            while drawn >= integers[position]:
                drawn -= integers[position]
                position += 1
            picks.append(position)
        return picks
    if len(there) <= fanout:
        return there
    keys = [(float(exponential(word_at(stream, position, relation))) / weights[position], position) for position in there]
    return sorted(position for _, position in sorted(keys)[:fanout])


def walk(graph, words, start, fanout, walks):
    """The nodes that walks from a node visit most, and their shares of the visits."""
    visits = {}
    for _ in range(walks["count"]):
        at = start
        for step in range(walks["length"]):
            if step > 0 and walks["stop"] > 0 and bounded(words, 100) < walks["stop"]:
                break
            neighbors = list_of(graph, at)
            if not neighbors:
                break
            at = neighbors[bounded(words, len(neighbors))]
            visits[at] = visits.get(at, 0) + 1
    visits.pop(start, None)
    # A stable sort: of equals those that were visited first.
    taken = sorted(visits.items(), key=lambda visit: -visit[1])[:fanout]
    total = sum(count for _, count in taken)
    return [(node, float32(float(count) / float(total))) for node, count in taken]


# Personalised PageRank: the mass that begins at a destination, and the least for each entry that a node passes on.
PPR_ALL = 1 << 40
PPR_LEAST = PPR_ALL >> 10


def ppr(graph, start, fanout):
    """The nodes of highest personalised PageRank, and their shares of what the picks have."""
    # In the order of first arrival.
    waits, stays = {start: PPR_ALL}, {start: 0}
    queue, queued = [start], {start}
    # The loop goes over what it appends too.
    for node in queue:
        queued.discard(node)
        mass, waits[node] = waits[node], 0
        neighbors = list_of(graph, node)
        share = (mass - mass // 4) // max(1, len(neighbors))
        stays[node] += mass - share * len(neighbors)
        for neighbor in neighbors:
            waits[neighbor] = waits.get(neighbor, 0) + share
            stays.setdefault(neighbor, 0)
            if waits[neighbor] >= PPR_LEAST * max(1, len(list_of(graph, neighbor))) and neighbor not in queued:
                queued.add(neighbor)
                queue.append(neighbor)
    scores = [(node, 4 * stays[node] + waits[node]) for node in waits if node != start]
    # A stable sort: of equals those that were reached first.
    taken = sorted(scores, key=lambda scored: -scored[1])[:fanout]
    total = sum(score for _, score in taken)
    return [(node, float32(float(score) / float(total))) for node, score in taken]


# Kinds whose picks are found around a destination, and need not be in its list.
FOUND = ("walk", "ppr")

# Kinds that draw for all destinations of a hop together.
TOGETHER = ("ladies", "fastgcn", "saint-node", "saint-edge")

DEFAULT_WALKS = dict(count=10, length=4, stop=25)


# --- Batches --------------------------------------------------------------------------------------------------


def batch_of_picks(batch, node, kappa):
    """The batch in the key of the picks, which change every kappa batches."""
    return (batch + mix(node) % kappa) // kappa


def sample(graph, options, split, epoch, batch, seeds):
    """One batch: node ids (of the dataset in its stored order), and a block for each hop."""
    original = graph["orig_id"] or list(range(len(graph["indptr"]) - 1))
    kind = options.get("kind", "neighbor")
    nodes = list(seeds)
    blocks = []
    for layer, fanout in enumerate(options["fanouts"]):
        destinations = list(nodes)
        indptr, indices, edge_ids, weights = [0], [], [], []
        expanded = 0
        if options.get("expand") == "new" and blocks:
            before = blocks[-1]
            expanded = before["destinations"]
            indptr, indices = list(before["indptr"]), list(before["indices"])
            edge_ids = list(before.get("edge_ids", []))
            weights = [weight_of(bits) for bits in before.get("weight_bits", [])]

        def stream_named(name, purpose):
            kept = batch_of_picks(batch, name, options.get("batch_dependency", 1))
            names = dict(seed=options["seed"], node=name, purpose=purpose)
            return dict(names, layer=layer, batch=kept, epoch=epoch, split=split)

        def stream_of(node, purpose):
            return stream_named(original[node], purpose)

        weighed = None
        if kind in TOGETHER:
            lists = [list_of(graph, destination) for destination in destinations]
            if kind == "ladies":
                weighed = weigh_ladies(lists, fanout, lambda node: stream_of(node, "weights"))
            else:
                every = [list_of(graph, node) for node in range(len(graph["indptr"]) - 1)]
                if kind == "fastgcn":
                    of_draw = lambda draw: stream_named(draw, "weights")
                    weighed = weigh_fastgcn(every, original, lists, fanout, of_draw)
                else:
                    weigh = weigh_saint_node if kind == "saint-node" else weigh_saint_edge
                    of_draw = lambda draw: dict(stream_named(draw, "subgraphs"), layer=0)
                    weighed = weigh(every, original, list(seeds), lists, fanout, of_draw)
        for number, destination in enumerate(destinations[expanded:]):
            begin, end = graph["indptr"][destination], graph["indptr"][destination + 1]
            neighbors = list_of(graph, destination)
            if kind in FOUND:
                if kind == "walk":
                    walks = options.get("walks", DEFAULT_WALKS)
                    found = walk(graph, words_of(stream_of(destination, "walks")), destination, fanout, walks)
                else:
                    found = ppr(graph, destination, fanout)
                for node, weight in found:
                    if node not in nodes:
                        nodes.append(node)
                    indices.append(nodes.index(node))
                    weights.append(weight)
                indptr.append(len(indices))
                continue
            if kind == "labor":
                firsts = [words_of(stream_of(neighbor, "neighbors")) for neighbor in neighbors]
                picks = pick_labor([next(words) | next(words) << 32 for words in firsts], fanout)
            elif kind == "weighted":
                heavy = [weight_of(bits) for bits in graph["weight_bits"][begin:end]]
                picks = pick_weighted(stream_of(destination, "weights"), heavy, fanout, options["replace"])
            elif kind in TOGETHER:
                picks = [position for position, weight in enumerate(weighed[number]) if weight is not None]
                weights += [weighed[number][position] for position in picks]
            else:
                words = words_of(stream_of(destination, "neighbors"))
                picks = pick(words, len(neighbors), fanout, options["replace"])
            for position in picks:
                edge_ids.append(begin + position)
                neighbor = neighbors[position]
                if neighbor not in nodes:
                    nodes.append(neighbor)
                indices.append(nodes.index(neighbor))
            indptr.append(len(indices))
        block = dict(destinations=len(destinations), sources=len(nodes), indptr=indptr, indices=indices)
        if kind in (*TOGETHER, *FOUND):
            block["weight_bits"] = [bits_of(weight) for weight in weights]
        blocks.append(dict(block, edge_ids=edge_ids) if options.get("edge_ids") else block)
    return dict(
        split=split,
        epoch=epoch,
        batch=batch,
        seeds=len(seeds),
        nodes=nodes,
        blocks=blocks,
        hash=format(batch_hash([original[node] for node in nodes], len(seeds), blocks), "016x"),
    )


def list_of(graph, node):
    """The neighbours of a node, in order."""
    return graph["indices"][graph["indptr"][node] : graph["indptr"][node + 1]]


# --- Hash -----------------------------------------------------------------------------------------------------


def hash_array(tag, values):
    return sum(mix(mix((tag << 56) + i) ^ value) for i, value in enumerate(values))


def batch_hash(original_ids, seeds, blocks):
    total = hash_array(0, original_ids[:seeds]) + hash_array(1, original_ids)
    for layer, block in enumerate(blocks):
        total += hash_array(16 + 2 * layer, block["indptr"]) + hash_array(17 + 2 * layer, block["indices"])
        total += hash_array(128 + layer, block.get("weight_bits", []))
    return total & MASK64


# --- The graphs -----------------------------------------------------------------------------------------------


def csc(lists, dtype, orig_id=None):
    indptr, indices = [0], []
    for neighbors in lists:
        indices += neighbors
        indptr.append(len(indices))
    return dict(indptr=indptr, indices=indices, indices_dtype=dtype, orig_id=orig_id)


def directed_lists():
    """48 nodes: 40 is isolated, 0 a hub that all others point at; 5 and 17 have no in-neighbours, the rest 1 to 12."""
    words = words_of(dict(seed=2024, node=0, purpose="subgraphs", layer=0, batch=0, epoch=0, split="train"))
    lists = []
    for node in range(48):
        if node in (5, 17, 40):
            neighbors = []
        elif node == 0:
            neighbors = [other for other in range(48) if other not in (node, 40)]
        else:
            others = [other for other in range(48) if other not in (node, 40)]
            neighbors = [others.pop(bounded(words, len(others))) for _ in range(1 + bounded(words, 12))]
        lists.append(neighbors)
    return lists


def reordered(lists):
    """The same graph under other ids: new id i is the node that was (i * 29 + 11) mod 48. Lists keep their order."""
    count = len(lists)
    orig_id = [(i * 29 + 11) % count for i in range(count)]
    new_id = {old: new for new, old in enumerate(orig_id)}
    return csc([[new_id[neighbor] for neighbor in lists[old]] for old in orig_id], "int32", orig_id), new_id


def multigraph_lists():
    """30 nodes with repeated edges and self-loops; node 29 has 200 entries in its list."""
    words = words_of(dict(seed=7, node=1, purpose="subgraphs", layer=0, batch=0, epoch=0, split="train"))
    lists = [[bounded(words, 30) for _ in range(bounded(words, 9))] for _ in range(29)]
    lists.append([bounded(words, 30) for _ in range(200)])
    return lists


def with_weights(graph, seed):
    """The graph with a weight on each edge: most between 1/16 and 16, some 0, and some very light or very heavy. They depend
    on the names of both ends and on the place in the list, so a reordered graph has the same."""
    original = graph["orig_id"] or list(range(len(graph["indptr"]) - 1))
    bits = []
    for node, (begin, end) in enumerate(zip(graph["indptr"], graph["indptr"][1:])):
        for place, neighbor in enumerate(graph["indices"][begin:end]):
            name = original[node] << 20 | place << 8 | original[neighbor]
            words = words_of(stream(seed=seed, node=name, purpose="subgraphs"))
            choice, mantissa = bounded(words, 12), bounded(words, 2**23)
            exponent = {0: None, 1: 127 - 60, 2: 127 + 60}.get(choice, 127 - 4 + bounded(words, 8))
            bits.append(0 if exponent is None else exponent << 23 | mantissa)
    return dict(graph, weight_bits=bits)


def graph_vector(name, graph, options, splits, batch_size, epochs):
    """A graph with the batches that some epochs have on it."""
    orders, batches = [], []
    for epoch in epochs:
        for split, index in splits.items():
            order = seed_order(options["seed"], split, len(index), epoch)
            orders.append(dict(split=split, epoch=epoch, positions=order))
            for batch, begin in enumerate(range(0, len(order), batch_size)):
                seeds = [index[position] for position in order[begin : begin + batch_size]]
                batches.append(sample(graph, options, split, epoch, batch, seeds))
    return dict(
        name=name, **graph, options=options, batch_size=batch_size, splits=splits, orders=orders, batches=batches
    )


def graph_vectors():
    directed = directed_lists()
    options = dict(fanouts=[4, 3], replace=False, seed=0x1234567890ABCDEF)
    splits = dict(train=[0, 3, 5, 8, 13, 21, 34, 46, 2, 40, 33], valid=[0, 7, 17, 9], test=[1, 47, 25])
    plain = graph_vector("directed, a hub, an isolated node", csc(directed, "int32"), options, splits, 4, [0, 1, 900])

    moved, new_id = reordered(directed)
    moved_splits = {split: [new_id[node] for node in index] for split, index in splits.items()}
    again = graph_vector("the same, reordered", moved, options, moved_splits, 4, [0, 1, 900])
    # What reordering promises: original ids give the same results.
    for before, after in zip(plain["batches"], again["batches"]):
        assert before["hash"] == after["hash"] and before["blocks"] == after["blocks"]
        assert before["nodes"] == [moved["orig_id"][node] for node in after["nodes"]]

    multi = graph_vector(
        "a multigraph with int64 ids, with replacement",
        csc(multigraph_lists(), "int64"),
        dict(fanouts=[3, -1, 2], replace=True, seed=42),
        dict(train=[29, 0, 1, 2, 3, 4, 5], valid=[28, 29], test=[10]),
        3,
        [0, 5],
    )
    kept = graph_vector(
        "the reordered one, picks kept for three batches",
        moved,
        dict(options, batch_dependency=3),
        dict(train=moved_splits["train"]),
        2,
        [0],
    )
    expanded_once = graph_vector(
        "the reordered one, only new nodes expanded",
        moved,
        dict(options, fanouts=[4, 3, 2], expand="new"),
        dict(train=moved_splits["train"]),
        4,
        [0],
    )
    train = dict(train=moved_splits["train"])
    kinds = [
        ("LABOR", dict(options, kind="labor", edge_ids=True)),
        ("LABOR, picks kept for three batches", dict(options, kind="labor", batch_dependency=3)),
        ("LABOR, only new nodes expanded", dict(options, kind="labor", fanouts=[4, 3, 2], expand="new")),
    ]
    labor = [graph_vector(f"the reordered one, {name}", moved, asked, train, 4, [0]) for name, asked in kinds]
    # As above, and so for edges that have weights.
    unmoved = graph_vector("", csc(directed, "int32"), kinds[0][1], dict(train=splits["train"]), 4, [0])
    assert [b["hash"] for b in unmoved["batches"]] == [b["hash"] for b in labor[0]["batches"]]

    heavy = with_weights(moved, 77)
    kinds = [
        ("by weight", dict(options, kind="weighted")),
        ("by weight with replacement", dict(options, kind="weighted", replace=True)),
        (
            "by weight, only new nodes expanded, edge ids",
            dict(options, kind="weighted", fanouts=[4, -1, 2], expand="new", edge_ids=True),
        ),
    ]
    weighted = [graph_vector(f"the reordered one, {name}", heavy, asked, train, 4, [0]) for name, asked in kinds]
    unmoved = with_weights(csc(directed, "int32"), 77)
    for (_, asked), vector in zip(kinds, weighted):
        unmoved_vector = graph_vector("", unmoved, asked, dict(train=splits["train"]), 4, [0])
        assert [b["hash"] for b in unmoved_vector["batches"]] == [b["hash"] for b in vector["batches"]]
    repeated = [
        graph_vector(
            f"the multigraph, {kind}",
            with_weights(csc(multigraph_lists(), "int64"), 3),
            dict(fanouts=[3, 12], replace=False, seed=42, kind=kind),
            dict(train=[29, 0, 1, 2, 3, 4, 5]),
            3,
            [5],
        )
        for kind in ("labor", "weighted")
    ]
    together = vectors_together(directed, splits, moved, train, options)
    walked = vectors_of_walks(directed, splits, moved, train, options)
    # More draws than most lists have entries.
    drawn = dict(options, replace=True, fanouts=[15, 2, 20], expand="new", edge_ids=True)
    replaced = graph_vector("the reordered one, with replacement, only new nodes expanded", moved, drawn, train, 4, [0])
    unmoved = graph_vector("", csc(directed, "int32"), drawn, dict(train=splits["train"]), 4, [0])
    assert [b["hash"] for b in unmoved["batches"]] == [b["hash"] for b in replaced["batches"]]
    ranked = vectors_of_ppr(directed, splits, moved, train, options)
    firsts = [plain, again, multi, kept, expanded_once, *labor, *weighted, *repeated]
    return [*firsts, *together, *walked, replaced, *ranked, *vectors_of_repeated_seeds(moved, moved_splits, options)]


def vectors_of_repeated_seeds(moved, splits, options):
    """Nodes that were given more than once, some of them in one batch."""
    train = splits["train"]
    given = dict(train=[*train[:4], train[0], train[2], *train[2:6]])
    cases = [
        (dict(options, edge_ids=True), moved),
        (dict(options, expand="new"), moved),
        (dict(options, kind="labor"), moved),
        (dict(options, kind="weighted"), with_weights(moved, 77)),
        (dict(options, kind="ladies"), moved),
        (dict(options, kind="saint-node", fanouts=[12, 12]), moved),
        (dict(options, kind="walk"), moved),
    ]
    name = "the reordered one, {}, seeds that repeat"
    return [graph_vector(name.format(of.get("kind", "neighbor")), graph, of, given, 6, [0]) for of, graph in cases]


def vectors_of_ppr(directed, splits, moved, train, options):
    """Personalised PageRank on the directed graph, reordered, and on the multigraph."""
    asked = dict(options, kind="ppr")
    first = graph_vector("the reordered one, personalised PageRank", moved, asked, train, 4, [0, 1])
    unmoved = graph_vector("", csc(directed, "int32"), asked, dict(train=splits["train"]), 4, [0, 1])
    assert [b["hash"] for b in unmoved["batches"]] == [b["hash"] for b in first["batches"]]
    new = dict(asked, expand="new", fanouts=[4, 3, 2])
    multi = dict(fanouts=[3, 40], replace=False, seed=42, kind="ppr")
    lists = csc(multigraph_lists(), "int64")
    return [
        first,
        graph_vector("the reordered one, personalised PageRank, only new nodes", moved, new, train, 2, [0]),
        graph_vector("the multigraph, personalised PageRank", lists, multi, dict(train=[29, 0, 1, 2, 3, 4, 5]), 3, [5]),
    ]


def vectors_of_walks(directed, splits, moved, train, options):
    """Walks on the directed graph, reordered, and on the multigraph."""
    asked = dict(options, kind="walk")
    first = graph_vector("the reordered one, walks", moved, asked, train, 4, [0, 1])
    unmoved = graph_vector("", csc(directed, "int32"), asked, dict(train=splits["train"]), 4, [0, 1])
    assert [b["hash"] for b in unmoved["batches"]] == [b["hash"] for b in first["batches"]]
    kept = dict(asked, expand="new", fanouts=[4, 3, 2], batch_dependency=3, walks=dict(count=7, length=3, stop=0))
    multi = dict(fanouts=[3, 12], replace=False, seed=42, kind="walk", walks=dict(count=40, length=6, stop=60))
    lists = csc(multigraph_lists(), "int64")
    return [
        first,
        graph_vector("the reordered one, walks kept for three batches, only new nodes", moved, kept, train, 2, [0]),
        graph_vector("the multigraph, walks", lists, multi, dict(train=[29, 0, 1, 2, 3, 4, 5]), 3, [5]),
    ]


def vectors_together(directed, splits, moved, train, options):
    """The kinds that draw for all destinations together: the directed graph, reordered, and the multigraph."""
    vectors = []
    for kind in TOGETHER:
        one = kind in ("saint-node", "saint-edge")
        asked = dict(options, kind=kind, fanouts=[9, 9, 9] if one else [6, 9, 40])
        vector = graph_vector(f"the reordered one, {kind}", moved, dict(asked, edge_ids=True), train, 4, [0, 1])
        unmoved = graph_vector("", csc(directed, "int32"), asked, dict(train=splits["train"]), 4, [0, 1])
        assert [b["hash"] for b in unmoved["batches"]] == [b["hash"] for b in vector["batches"]]
        kept = dict(asked, batch_dependency=3, fanouts=[7, 7] if one else [-1, 7])
        multi = dict(fanouts=[12, 12] if one else [3, 12], replace=False, seed=42, kind=kind)
        vectors += [
            vector,
            graph_vector(f"the reordered one, {kind}, draws kept for three batches", moved, kept, train, 2, [0]),
            graph_vector(
                f"the multigraph, {kind}",
                csc(multigraph_lists(), "int64"),
                multi,
                dict(train=[29, 0, 1, 2, 3, 4, 5]),
                3,
                [5],
            ),
        ]
    return vectors


# --- The file -------------------------------------------------------------------------------------------------


def stream(**fields):
    base = dict(seed=0, node=0, purpose="neighbors", layer=0, batch=0, epoch=0, split="train")
    return {**base, **fields}


def draws_vector(which, bounds, draw=bounded):
    words = words_of(which)
    return dict(stream=which, bounds=bounds, values=[draw(words, n) for n in bounds])


def picks_vector(which, degree, fanout, replace):
    picks = pick(words_of(which), degree, fanout, replace)
    return dict(stream=which, degree=degree, fanout=fanout, replace=replace, positions=picks)


def vectors():
    first = lambda which, count: [word for word, _ in zip(words_of(which), range(count))]
    streams = [
        stream(),
        stream(seed=MASK64),
        stream(seed=0x0123456789ABCDEF, node=17, layer=1, batch=4, epoch=3),
        stream(seed=1, node=2**40 - 1, purpose="weights", layer=31, batch=MASK32, epoch=2**30 - 1, split="test"),
        stream(seed=1, node=2**32, purpose="walks", split="valid"),
        stream(seed=1, node=5, purpose="seed_shuffle", epoch=2),
        stream(seed=1, node=5, purpose="subgraphs"),
        stream(seed=1, node=5, purpose="negatives"),
    ]
    rejecting = 3 * 2**30 + 1
    return dict(
        about="Test vectors of docs/spec/reproducible-batches.md, made by tests/reference/reference.py. Integers; hashes in hex.",
        philox=[
            dict(key=key, counter=counter, words=philox4x32(key, counter))
            for key, counter in [
                ([0, 0], [0, 0, 0, 0]),
                ([MASK32, MASK32], [MASK32] * 4),
                ([0xA4093822, 0x299F31D0], [0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344]),
            ]
        ],
        streams=[
            dict(stream=which, counters=[counter_of(which, 0), counter_of(which, 1)], words=first(which, 10))
            for which in streams
        ],
        bounded=[
            draws_vector(stream(seed=9, node=1), [1, 2, 3, 10, 100, 1000, 10**6, 10**9, MASK32] * 2),
            # One word in four is rejected, and consumed.
            draws_vector(stream(seed=9, node=2), [rejecting] * 16 + [6] * 4),
        ],
        bounded_wide=[
            draws_vector(stream(seed=9, node=3), [1, 2, 10, 10**9, 2**32, 10**15, MASK64] * 2, bounded64),
            # Nearly every other pair of words is rejected.
            draws_vector(stream(seed=9, node=4), [2**63 + 1] * 16, bounded64),
        ],
        exponentials=[
            dict(word=word, exponential=exponential(word))
            for word in [0, 1, 2, 3, 2**16 - 1, 2**31 - 1, 2**31, 0x9E3779B9, 0xFFFF0000, MASK32 - 1, MASK32]
        ],
        words_at=[
            dict(stream=which, position=position, word=word_at(which, position))
            for which in [stream(seed=3, node=7, purpose="weights", layer=1)]
            for position in [0, 1, 6, 2**18 - 1, 2**18, 2**18 + 5, 7 * 2**18 + 130]
        ],
        shuffles=[
            dict(seed=seed, split="train", epoch=epoch, count=count, positions=seed_order(seed, "train", count, epoch))
            for seed, epoch, count in [(0, 0, 10), (0, 1, 10), (0xFEDCBA9876543210, 12, 100)]
        ],
        hop_orders=[
            dict(seed=seed, count=count, places=hop_order(seed, count))
            for seed, count in [(0, 10), (1, 10), (0xFEDCBA9876543210, 100)]
        ],
        chunk_orders=[
            dict(seed=seed, epoch=epoch, count=count, chunk=chunk, rows=chunk_order(seed, count, chunk, epoch))
            for seed, epoch, count, chunk in [(0, 0, 10, 1), (0, 1, 10, 4), (3, 2, 12, 4), (0xFEDCBA9876543210, 12, 103, 10)]
        ],
        seed_orders=seed_orders_vectors(),
        picks=[
            picks_vector(stream(seed=5, node=node), degree, fanout, replace)
            for node, (degree, fanout, replace) in enumerate(
                [
                    (0, 3, False),
                    (3, 3, False),
                    (3, 5, True),
                    (12, -1, False),
                    (2, 1, False),
                    (4, 3, False),
                    (64, 15, False),
                    (65, 15, False),
                    (100, 99, False),
                    (50_000, 25, False),
                    (65_536, 15, False),
                    (1_000_000, 15, False),
                    (2**31 + 1, 15, False),
                    (50_000, 10, True),
                    (4, 3, True),
                    (2**31 + 1, 15, True),
                    (3, 3, True),
                    (1, 4, True),
                    (0, 4, True),
                    (5, 40, True),
                    (12, -1, True),
                ]
            )
        ],
        graphs=graph_vectors(),
        partitions=partition_vectors(),
    )


def render(value, depth=0):
    """JSON with one array of numbers a line: short, and a difference still shows where it is."""
    scalar = lambda v: not isinstance(v, (dict, list))
    flat = lambda v: scalar(v) or (isinstance(v, list) and all(map(scalar, v)))
    pad, end = "\n" + " " * (depth + 1), "\n" + " " * depth
    if isinstance(value, dict):
        if all(flat(v) for v in value.values()) and len(json.dumps(value)) < 110:
            return json.dumps(value)
        return "{" + ",".join(f"{pad}{json.dumps(k)}: {render(v, depth + 1)}" for k, v in value.items()) + end + "}"
    if isinstance(value, list) and not flat(value):
        return "[" + ",".join(pad + render(v, depth + 1) for v in value) + end + "]"
    return json.dumps(value, separators=(",", ":")) if isinstance(value, list) else json.dumps(value)


def differences(ours, theirs, path=""):
    """Where two values differ, as lines to print."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        for key in sorted(ours.keys() | theirs.keys()):
            yield from differences(ours.get(key), theirs.get(key), f"{path}/{key}")
    elif isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        for i, (a, b) in enumerate(zip(ours, theirs)):
            yield from differences(a, b, f"{path}/{i}")
    elif ours != theirs or type(ours) is not type(theirs):
        yield f"{path}: the reference says {ours!r}, the file {theirs!r}"


def write_or_check(description, make, also=lambda stored: None):
    """The command line of a script that makes some keys of the file of test vectors, and keeps the others. `also` is
    what --check calls with the file's content after it."""
    parser = argparse.ArgumentParser(description=description)
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--write", metavar="FILE", help="write the test vectors")
    which.add_argument("--check", metavar="FILE", help="compare a file of test vectors; exit 1 where it differs")
    arguments = parser.parse_args()
    path = arguments.write or arguments.check
    made, stored = make(), {}
    if arguments.check or os.path.exists(path):
        with open(path, encoding="utf-8") as file:
            stored = json.load(file)
    if arguments.write:
        with open(path, "w", encoding="utf-8") as file:
            file.write(render({**stored, **made}) + "\n")
        return 0
    found = list(differences(made, {key: value for key, value in stored.items() if key in made}))
    for line in found[:20]:
        print(line, file=sys.stderr)
    print(f"{path}: {'every value agrees' if not found else f'{len(found)} differences'}")
    also(stored)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(write_or_check(__doc__.splitlines()[0], vectors))
