#!/usr/bin/env python3
"""A second implementation of the batches of disjoint trees, in plain Python.

It follows the section "Trees and times" of docs/spec/reproducible-batches.md. typed_trees.py makes the batches. It makes
the part "trees" of docs/test-vectors.json.

    python3 tests/reference/trees.py --write docs/test-vectors.json
    python3 tests/reference/trees.py --check docs/test-vectors.json

Needs Python 3.9 or later and nothing else.
"""

import sys

from reference import seed_order, stream, write_or_check
from trees_checks import check_all
from typed import cut, drawn_lists, reordered_types, with_typed_weights
from typed_sampler import ends, original_of, seeds_of_batch, typed_graph
from typed_trees import sample_trees
from words import bounded, words_of

# --- Graphs ---------------------------------------------------------------------------------------------------


def with_edge_times(graph, timed):
    """The graph with times in the relations of these names, many of them equal. They depend on the original id and the
    place in the list, so a reordered graph has the same."""
    edges = []
    for relation, of in enumerate(graph["edges"]):
        if of["type"][1] in timed:
            times, (_, destination) = [], ends(graph, relation)
            for node, (begin, end) in enumerate(zip(of["indptr"], of["indptr"][1:])):
                named = original_of(graph, destination)[node] << 8 | relation
                words = words_of(stream(seed=2028, node=named, purpose="subgraphs"))
                times += sorted(bounded(words, 16) - 2 for _ in range(end - begin))
            of = dict(of, time=times)
        edges.append(of)
    return dict(graph, edges=edges)


def with_node_times(graph, times):
    """The graph with times of nodes, and with lists that ascend by the times of neighbors where these have some."""
    nodes = [dict(of, time=times[of["type"]]) if of["type"] in times else of for of in graph["nodes"]]
    edges = []
    for relation, of in enumerate(graph["edges"]):
        source = nodes[ends(graph, relation)[0]]
        if "time" in source and "time" not in of:
            lists = [sorted(one, key=lambda node: source["time"][node]) for one in cut(of["indptr"], of["indices"])]
            of = dict(of, indices=[node for one in lists for node in one])
        edges.append(of)
    return dict(graph, nodes=nodes, edges=edges)


def bare_market():
    return typed_graph(
        "market",
        [("user", 6), ("item", 7), ("shop", 3)],
        [
            ("user", "rates", "item", drawn_lists(20, 7, 6, 9)),
            ("item", "rated_by", "user", drawn_lists(21, 6, 7, 9)),
            ("user", "follows", "user", drawn_lists(22, 6, 6, 4)),
            ("shop", "sells", "item", drawn_lists(23, 7, 3, 5)),
        ],
    )


def timed_market(graph):
    timed = with_edge_times(graph, ("rates", "rated_by"))
    return with_typed_weights(timed, ("rated_by", "follows"))


def market():
    """Users, items and shops: times of edges in two relations, no times in the third, times of shops in the fourth, and
    weights in two."""
    return timed_market(with_node_times(bare_market(), dict(shop=[3, -1, 8])))


def notes():
    """Notes with times, which cite other notes."""
    graph = typed_graph("notes", [("note", 9)], [("note", "cites", "note", drawn_lists(24, 9, 9, 7))])
    return with_node_times(graph, dict(note=[4, 1, 9, 9, 0, 6, -5, 2, 7]))


# --- Vectors --------------------------------------------------------------------------------------------------


def tree_case(name, number, graph, options, splits, times, batch_size, epochs):
    """The batches that some epochs have on a graph, which is number `number` of the part."""
    orders, batches = [], []
    for epoch in epochs:
        for split, index in splits.items():
            order = seed_order(options["seed"], split, sum(map(len, index)), epoch)
            orders.append(dict(split=split, epoch=epoch, positions=order))
            for batch, begin in enumerate(range(0, len(order), batch_size)):
                positions = order[begin : begin + batch_size]
                seeds = seeds_of_batch(index, positions)
                of_seeds = seeds_of_batch(times[split], positions)
                batches.append(sample_trees(graph, options, split, epoch, batch, seeds, of_seeds))
    if not options.get("edge_ids"):
        for block in (block for batch in batches for of_layer in batch["blocks"] for block in of_layer):
            del block["edge_ids"]
    made = dict(splits=splits, times=times, orders=orders, batches=batches)
    return dict(name=name, graph=number, options=options, batch_size=batch_size, **made)


def cases_of_market(number, graph, moved, new_ids):
    items, at = dict(train=[[], [0, 2, 3, 5], []]), dict(train=[[], [4, 11, 7, 4], []])
    both, at_both = dict(train=[[1, 1], [0, 2, 3, 5], []]), dict(train=[[6, 12], [4, 11, 7, 4], []])
    users, at_users = dict(train=[[0, 1, 2, 3, 4], [], []]), dict(train=[[3, 6, 9, 12, 8], [], []])
    late = dict(train=[[], [2**63 - 1] * 4, []])
    base = dict(replace=False, seed=42)
    two = dict(base, fanouts=[[2] * 4, [2] * 4])
    new, until = dict(two, expand="new"), dict(time_rule="until-seed")
    last = dict(time_rule="before-seed", time_window=5, time_pick="last")
    decreasing = dict(time_rule="decreasing", time_window=9, replace=True, batch_dependency=2)
    three = dict(base, fanouts=[[2, 3, 1, -1], [1, 2, 0, 2], [2, 2, 1, 1]], seed=2**63 + 9)
    by_node = dict(new, fanouts=[[3, 3, 2], [2, -1, 1]], fanout_per="node", replace=True)
    makings = {
        "until the seed": (dict(new, **until), items, at),
        "before the seed, the latest, a window, a seed twice": (dict(new, **last), both, at_both),
        "until the seed, by weight": (dict(base, fanouts=[[2] * 4, [1] * 4], kind="weighted", **until), users, at_users),
        "by weight in a window, with replacement, edge ids": (
            dict(two, **dict(until, time_window=8, kind="weighted", replace=True, edge_ids=True)),
            users,
            at_users,
        ),
        "decreasing, three hops, a window, with replacement": (dict(three, **decreasing), both, at_both),
        "decreasing, only new nodes, edge ids": (
            dict(three, time_rule="decreasing", expand="new", edge_ids=True),
            both,
            at_both,
        ),
        "decreasing, the latest": (dict(two, time_rule="decreasing", time_pick="last"), users, at_users),
        "trees without times": (two, items, at),
        "until the last moment": (dict(two, **until), items, late),
        "trees without times, fanouts by node": (by_node, both, at_both),
    }
    cases = [tree_case(name, number, graph, *of, 4, [0, 1]) for name, of in makings.items()]
    moved_items = dict(train=[[], [new_ids[1][item] for item in items["train"][1]], []])
    moved_case = tree_case("until the seed, every type reordered", number + 1, moved, makings["until the seed"][0],
                           moved_items, at, 4, [0, 1])  # fmt: skip
    hashes = [batch["hash"] for batch in cases[0]["batches"]]
    assert hashes == [batch["hash"] for batch in moved_case["batches"]]
    # With every entry in the past, the picks are those without times, and only the hash has the times too.
    for free, limited in zip(*(cases[list(makings).index(name)]["batches"] for name in list(makings)[7:9])):
        assert dict(free, hash="") == dict(limited, hash="") and free["hash"] != limited["hash"]
    return [*cases, moved_case]


def tree_vectors():
    goods, papers = market(), notes()
    moved, new_ids = reordered_types(with_node_times(bare_market(), dict(shop=[3, -1, 8])))
    for of in moved["nodes"]:
        if "time" in of:
            of["time"] = [of["time"][old] for old in of["orig_id"]]
    moved = timed_market(moved)
    by_time = dict(replace=False, seed=42, fanouts=[[2], [2]], expand="new", time_rule="decreasing")
    of_notes = dict(train=[[0, 2, 5]]), dict(train=[[5, 9, 7]])
    cases = [
        *cases_of_market(0, goods, moved, new_ids),
        tree_case("times of nodes, decreasing", 2, papers, by_time, *of_notes, 4, [0, 1]),
        tree_case("times of nodes, a window", 2, papers, dict(by_time, time_rule="until-seed", time_window=4), *of_notes,
                  2, [0]),  # fmt: skip
    ]
    return dict(
        trees=dict(
            about="Disjoint trees, made by tests/reference/trees.py.", graphs=[goods, moved, papers], cases=cases
        )
    )


if __name__ == "__main__":
    sys.exit(write_or_check(__doc__.splitlines()[0], tree_vectors, check_all))
