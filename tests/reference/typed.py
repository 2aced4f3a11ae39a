#!/usr/bin/env python3
"""A second implementation of the batches of typed graphs, in plain Python.

It follows the section "Typed graphs" of docs/spec/reproducible-batches.md. typed_sampler.py makes the batches, with the
words, keys and picks of reference.py, and typed_checks.py compares batches with properties that do not depend on how
they are made. It makes the part "typed" of docs/test-vectors.json.

    python3 tests/reference/typed.py --write docs/test-vectors.json
    python3 tests/reference/typed.py --check docs/test-vectors.json

Needs Python 3.9 or later and nothing else.
"""

import sys

from reference import sample, seed_order, stream, write_or_check
from typed_checks import check_all
from typed_sampler import original_of, sample_typed, seeds_of_batch, typed_graph
from words import bounded, word_at, words_of

# --- Graphs ---------------------------------------------------------------------------------------------------


def cut(indptr, indices):
    return [indices[begin:end] for begin, end in zip(indptr, indptr[1:])]


def library():
    """Papers, authors and topics: the example of the design."""
    return typed_graph(
        "library",
        [("paper", 6), ("author", 5), ("topic", 3)],
        [
            ("paper", "cites", "paper", cut([0, 2, 2, 2, 4, 4, 4], [1, 3, 4, 0])),
            ("author", "writes", "paper", cut([0, 4, 4, 5, 9, 9, 12], [3, 0, 1, 0, 4, 0, 1, 0, 4, 4, 1, 0])),
            ("topic", "covers", "paper", cut([0, 1, 4, 6, 8, 9, 10], [1, 2, 0, 2, 2, 2, 2, 1, 0, 0])),
            ("paper", "rev_writes", "author", cut([0, 2, 4, 8, 9, 11], [4, 3, 2, 4, 3, 1, 2, 1, 4, 2, 5])),
            ("paper", "rev_covers", "topic", cut([0, 5, 10, 15], [4, 3, 0, 0, 2, 5, 4, 5, 3, 2, 2, 1, 4, 0, 3])),
        ],
    )


def drawn_lists(number, destinations, sources, longest):
    """Lists of up to `longest` entries, of which the first node has the most; entries repeat."""
    words = words_of(stream(seed=2026, node=number, purpose="subgraphs"))
    lengths = [longest] + [bounded(words, longest) for _ in range(destinations - 1)]
    return [[bounded(words, sources) for _ in range(length)] for length in lengths]


def store():
    """Users, items, tags, and a type without nodes. Lists repeat entries, some users follow themselves, and no relation
    leads to tags."""
    return typed_graph(
        "store",
        [("user", 7), ("item", 8), ("tag", 4), ("shop", 0)],
        [
            ("tag", "marks", "item", drawn_lists(0, 8, 4, 4)),
            ("user", "buys", "item", drawn_lists(1, 8, 7, 9)),
            ("item", "bought_by", "user", drawn_lists(2, 7, 8, 6)),
            ("user", "follows", "user", drawn_lists(3, 7, 7, 8)),
            ("shop", "sells", "item", [[] for _ in range(8)]),
            ("item", "sold_by", "shop", []),
        ],
    )


def one_type(relations):
    """One node type and `relations` relations, whose lists have loops and repeated edges."""
    edges = [("node", f"to{relation}", "node", drawn_lists(8 + relation, 12, 12, 7)) for relation in range(relations)]
    return typed_graph("one type", [("node", 12)], edges)


def with_typed_weights(graph, weighted):
    """The graph with weights in the relations of these names: a few 0, the others from 1/8 to 15/8. They depend on the
    original id and the place in the list, so a reordered graph has the same."""
    edges = []
    for relation, of in enumerate(graph["edges"]):
        _, name, destination = of["type"]
        number = [its["type"] for its in graph["nodes"]].index(destination)
        if name in weighted:
            bits = []
            for node, (begin, end) in enumerate(zip(of["indptr"], of["indptr"][1:])):
                named = original_of(graph, number)[node] << 8 | relation
                words = words_of(stream(seed=2027, node=named, purpose="subgraphs"))
                for _ in range(end - begin):
                    exponent, mantissa = bounded(words, 5), bounded(words, 2**23)
                    bits.append(123 + exponent << 23 | mantissa if exponent else 0)
            of = dict(of, weight_bits=bits)
        edges.append(of)
    return dict(graph, edges=edges)


def reordered_types(graph):
    """The graph with other ids in every type. Lists keep their order. And the new ids by type and old id."""
    nodes, new_ids = [], []
    for of in graph["nodes"]:
        count = of["num"]
        orig_id = [(i * 29 + 11) % count for i in range(count)]
        nodes.append(dict(of, orig_id=orig_id))
        new_ids.append({old: new for new, old in enumerate(orig_id)})
        assert len(new_ids[-1]) == count
    types, edges = [of["type"] for of in nodes], []
    for of in graph["edges"]:
        source, name, destination = of["type"]
        lists, new_id = cut(of["indptr"], of["indices"]), new_ids[types.index(source)]
        moved = [[new_id[neighbor] for neighbor in lists[old]] for old in nodes[types.index(destination)]["orig_id"]]
        edges.append((source, name, destination, moved))
    moved = typed_graph(f"{graph['name']}, reordered", [(of["type"], of["num"]) for of in nodes], edges)
    return dict(moved, nodes=nodes), new_ids


# --- Vectors --------------------------------------------------------------------------------------------------


def per_relation(graph, lists, default=None):
    """Fanouts by layer and relation, of lists by the relation's name."""
    named = [lists.get(of["type"][1], default) for of in graph["edges"]]
    return [list(layer) for layer in zip(*named)]


def typed_case(name, number, graph, options, splits, batch_size, epochs):
    """The batches that some epochs have on a graph, which is number `number` of the file."""
    orders, batches = [], []
    for epoch in epochs:
        for split, index in splits.items():
            order = seed_order(options["seed"], split, sum(map(len, index)), epoch)
            orders.append(dict(split=split, epoch=epoch, positions=order))
            for batch, begin in enumerate(range(0, len(order), batch_size)):
                seeds = seeds_of_batch(index, order[begin : begin + batch_size])
                batches.append(sample_typed(graph, options, split, epoch, batch, seeds))
    if not options.get("edge_ids"):
        for block in (block for batch in batches for of_layer in batch["blocks"] for block in of_layer):
            del block["edge_ids"]
    return dict(
        name=name, graph=number, options=options, batch_size=batch_size, splits=splits, orders=orders, batches=batches
    )


# What the design's own program computed for the library.
DESIGNED = {
    "library": "d3f2c999ffbe79df ea826e7916c318ac c9c6db4a3d59d834 0a82bf75d2880047",
    "only new nodes": "891f33e978425d8a e22e9e218619d3ae f540558571b445cb 06a08dd16a648224",
    "fanouts by relation": "3db3ed61547a7efe 02eeec73041fffc4 33fd4208d5528d37 5c89181281978671",
    "fanouts by node": "36738f2c3f8c2406 5b42d375e8544dfd 8b672886f527862b 3287948d0b8b55eb",
    "seeds of two types": "c56ec9a7baf3c705 8ccf999d21fdc166 6c6d8d9984f460e9 0979bffbee4433de",
    "every type reordered": "d3f2c999ffbe79df ea826e7916c318ac c9c6db4a3d59d834 0a82bf75d2880047",
    "labor": "0f0a55939f653b82 d6ccde98a113cbe8 21836058522f18cb 99e312a4214bb7f1",
}


def cases_of_library(number, graph, moved, new_ids):
    papers = dict(train=[[0, 1, 2, 3, 4, 5], [], []])
    base = dict(fanouts=[[2] * 5, [1] * 5], replace=False, seed=42)
    twice = dict(base, fanouts=[[2] * 5, [2] * 5], expand="new")
    by_relation = per_relation(graph, dict(cites=[-1, 0], covers=[0, 1]), [2, 2])
    two_types = dict(twice, replace=True, expand="all", batch_dependency=3, seed=2**63 + 9)
    makings = {
        "library": (base, papers),
        "only new nodes": (twice, papers),
        "fanouts by relation": (dict(twice, fanouts=by_relation), papers),
        "fanouts by node": (dict(base, fanouts=[[3, 2, 3], [2, 1, 2]], fanout_per="node"), papers),
        "seeds of two types": (two_types, dict(train=[[5, 1, 1, 4], [], [2, 0]])),
        "every type reordered": (base, dict(train=[[new_ids[0][paper] for paper in range(6)], [], []])),
        "labor": (dict(twice, kind="labor", fanouts=[[1] * 5, [2] * 5]), papers),
    }
    cases = []
    for name, (options, splits) in makings.items():
        which = (number + 1, moved) if name == "every type reordered" else (number, graph)
        cases.append(typed_case(name, *which, options, splits, 4, [0, 1]))
        assert DESIGNED[name] == " ".join(batch["hash"] for batch in cases[-1]["batches"]), name
    return cases


def cases_of_store(number, graph, moved, new_ids):
    both = dict(train=[[4, 0, 6], [0, 5, 2], [], []])
    items = dict(train=[[], [0, 6, 3, 7], [1], []])
    repeated = dict(train=[[0, 2, 0], [0, 5, 0], [], []])
    base = dict(replace=False, seed=0xFEDCBA9876543210)
    two, three = dict(base, fanouts=[[2] * 6, [3] * 6]), dict(base, fanouts=[[2] * 6, [1] * 6, [3] * 6], expand="new")
    mixed = per_relation(graph, dict(marks=[0, -1], buys=[-1, 2], bought_by=[2, 0], follows=[3, 1]), [1, 1])
    new, weighted = dict(two, expand="new"), dict(two, kind="weighted", edge_ids=True)
    by_node = dict(new, replace=True, fanout_per="node", batch_dependency=2, fanouts=[[3, 5, 2, 1], [-1, 0, 1, 4]])
    valid = dict(valid=[[3], [1, 4], [], []])
    makings = {
        "fanouts 0 and -1, edge ids": (dict(base, fanouts=mixed, edge_ids=True), both, 4, 0),
        "labor, picks kept for three batches": (dict(two, kind="labor", batch_dependency=3), both, 3, 0),
        "by weight, and relations without weights": (dict(weighted, expand="new"), both, 6, 3),
        "by weight, with replacement": (dict(weighted, replace=True, batch_dependency=2), items, 3, 0),
        "with replacement, seeds that repeat": (dict(new, replace=True), repeated, 6, 0),
        "fanouts by node, with replacement": (by_node, both, 3, 1),
        "three layers, validation, the last epoch": (three, valid, 2, 2**30 - 1),
    }
    cases = [typed_case(name, number, graph, *of, [epoch]) for name, (*of, epoch) in makings.items()]
    moved_both = dict(train=[[new_ids[of][node] for node in index] for of, index in enumerate(both["train"])])
    for name, options in [("labor", dict(new, kind="labor")), ("by weight", dict(two, kind="weighted"))]:
        case = typed_case(f"every type reordered, {name}", number + 1, moved, options, moved_both, 6, [7])
        unmoved = typed_case("", number, graph, options, both, 6, [7])
        assert [batch["hash"] for batch in unmoved["batches"]] == [batch["hash"] for batch in case["batches"]]
        cases.append(case)
    return cases


def cases_of_one_type(number, one, two):
    """One relation, which is what graphs without types have, and two."""
    options = dict(replace=False, seed=7)
    train = [0, 3, 5, 8, 9, 11]
    single = dict(options, fanouts=[[3], [2]])
    alone = typed_case("one type, one relation", number, one, single, dict(train=[train]), 4, [0])
    graph = dict(one["edges"][0], orig_id=None)
    for batch in alone["batches"]:
        positions = alone["orders"][0]["positions"][4 * batch["batch"] :][:4]
        plain = sample(graph, dict(options, fanouts=[3, 2]), "train", 0, batch["batch"], [train[p] for p in positions])
        assert (plain["hash"], plain["nodes"]) == (batch["hash"], batch["nodes"][0])
    pair = dict(options, fanouts=[[3, 2], [2, -1]], edge_ids=True)
    return [alone, typed_case("one type, two relations", number + 1, two, pair, dict(train=[train]), 6, [0])]


def typed_vectors():
    books, goods = library(), with_typed_weights(store(), ("buys", "follows"))
    moved_books, new_books = reordered_types(books)
    moved_goods, new_goods = reordered_types(store())
    moved_goods = with_typed_weights(moved_goods, ("buys", "follows"))
    one, two = one_type(1), one_type(2)
    which = stream(seed=3, node=7, purpose="weights", layer=1)
    typed = dict(
        about="Typed graphs, made by tests/reference/typed.py.",
        words_at=dict(
            stream=which,
            places=[
                dict(relation=relation, position=position, word=word_at(which, position, relation))
                for relation, position in [(0, 2**18 + 5), (3, 5), (3, 2**18), (3, 2**18 + 5), (4095, 7 * 2**18 + 130)]
            ],
        ),
        graphs=[books, moved_books, goods, moved_goods, one, two],
        cases=[
            *cases_of_library(0, books, moved_books, new_books),
            *cases_of_store(2, goods, moved_goods, new_goods),
            *cases_of_one_type(4, one, two),
        ],
    )
    return dict(typed=typed)


if __name__ == "__main__":
    sys.exit(write_or_check(__doc__.splitlines()[0], typed_vectors, check_all))
