"""Properties of typed batches that hold however they are made. Each check fails with an AssertionError."""

import random
from collections import Counter
from itertools import combinations, product

from floats import weight_of
from typed_sampler import bounds_of, ends, sample_typed, typed_graph

# --- Batches of random graphs ---------------------------------------------------------------------------------


def random_graph(draw):
    """A graph of one to four node types, some empty, and one to six relations, some with weights."""
    sizes = [draw.choice([0, 1, 3, 6, 10]) for _ in range(draw.randrange(4))] + [draw.randrange(2, 9)]
    names = [f"t{of}" for of in range(len(sizes))]
    edges = []
    for relation in range(draw.randrange(1, 7)):
        source, destination = draw.randrange(len(sizes)), draw.randrange(len(sizes))
        longest = draw.choice([0, 2, 7]) if sizes[source] else 0
        lengths = [draw.randint(0, longest) for _ in range(sizes[destination])]
        lists = [[draw.randrange(sizes[source]) for _ in range(length)] for length in lengths]
        edges.append((names[source], f"r{relation}", names[destination], lists))
    graph = typed_graph("random", list(zip(names, sizes)), edges)
    for of in graph["edges"]:
        if draw.randrange(2):
            # 1.0, 0.5 and 0.
            of["weight_bits"] = [draw.choice([0x3F800000, 0x3F000000, 0]) for _ in of["indices"]]
    return graph


def random_options(draw, graph):
    kind = draw.choice(["neighbor", "labor", "weighted"])
    fanout_per = draw.choice(["relation", "node"]) if kind == "neighbor" else "relation"
    width = len(graph["nodes"] if fanout_per == "node" else graph["edges"])
    return dict(
        kind=kind,
        fanout_per=fanout_per,
        fanouts=[[draw.choice([-1, 0, 1, 2, 5]) for _ in range(width)] for _ in range(draw.randint(1, 3))],
        replace=kind != "labor" and draw.randrange(2) == 1,
        expand=draw.choice(["all", "new"]),
        batch_dependency=draw.choice([1, 3]),
        seed=draw.getrandbits(64),
    )


def check_batch(graph, options, seeds, batch):
    """One batch is valid for its seeds and options: entries of the lists, as many as there should be, and local ids in
    the order of the first visit."""
    nodes, counts = batch["nodes"], batch["num_nodes"]
    assert counts[0] == [len(of_type) for of_type in seeds] and counts[-1] == [len(of_type) for of_type in nodes]
    for of_type, seeds_of in zip(nodes, seeds):
        found = of_type[len(seeds_of) :]
        assert of_type[: len(seeds_of)] == seeds_of and len(set(found)) == len(found)
        assert not set(found) & set(seeds_of)
    for layer, fanouts in enumerate(options["fanouts"]):
        visited, expanded = list(counts[layer]), [0] * len(nodes)
        if options["expand"] == "new" and layer > 0:
            expanded = counts[layer - 1]
        by_node = Counter()
        for relation, block in enumerate(batch["blocks"][layer]):
            source, destination = ends(graph, relation)
            indptr, indices, edge_ids = block["indptr"], block["indices"], block["edge_ids"]
            assert len(indptr) == counts[layer][destination] + 1
            assert indptr[0] == 0 and indptr == sorted(indptr) and indptr[-1] == len(indices) == len(edge_ids)
            if options["expand"] == "new" and layer > 0:
                before = batch["blocks"][layer - 1][relation]
                assert indptr[: len(before["indptr"])] == before["indptr"]
                kept = len(before["indices"])
                assert indices[:kept] == before["indices"] and edge_ids[:kept] == before["edge_ids"]
                assert indptr[expanded[destination]] == kept
            for row in range(expanded[destination], counts[layer][destination]):
                node, picked = nodes[destination][row], edge_ids[indptr[row] : indptr[row + 1]]
                by_node[destination, row] += len(picked)
                check_picks(graph, options, relation, node, picked, fanouts)
                for local, edge_id in zip(indices[indptr[row] : indptr[row + 1]], picked):
                    assert nodes[source][local] == graph["edges"][relation]["indices"][edge_id]
                    assert nodes[source].index(nodes[source][local]) == local <= visited[source]
                    visited[source] = max(visited[source], local + 1)
        assert visited == counts[layer + 1]
        if options["fanout_per"] == "node":
            for of, of_type in enumerate(nodes):
                for row in range(expanded[of], counts[layer][of]):
                    into = [relation for relation in range(len(graph["edges"])) if ends(graph, relation)[1] == of]
                    bounds = [bounds_of(graph, relation, of_type[row]) for relation in into]
                    degree = sum(end - begin for begin, end in bounds)
                    assert by_node[of, row] == expected_picks(degree, fanouts[of], options["replace"])


def expected_picks(degree, fanout, replace):
    if fanout == -1 or degree == 0:
        return degree
    return fanout if replace else min(fanout, degree)


def check_picks(graph, options, relation, node, picked, fanouts):
    """The picks of a node are entries of its list, once each without replacement, and as many as the fanout says."""
    begin, end = bounds_of(graph, relation, node)
    there = list(range(begin, end))
    if options["kind"] == "weighted" and "weight_bits" in graph["edges"][relation]:
        there = [edge for edge in there if weight_of(graph["edges"][relation]["weight_bits"][edge]) > 0]
    assert set(picked) <= set(there)
    if not options["replace"]:
        assert len(set(picked)) == len(picked)
    if options["fanout_per"] == "relation":
        assert len(picked) == expected_picks(len(there), fanouts[relation], options["replace"])
        if len(picked) == len(there) and not options["replace"]:
            assert picked == there


def check_random_graphs(count):
    draw = random.Random(1)
    for number in range(count):
        graph = random_graph(draw)
        options = random_options(draw, graph)
        counts = [draw.randrange(4) if of["num"] else 0 for of in graph["nodes"]]
        seeds = [[draw.randrange(of["num"]) for _ in range(count)] for of, count in zip(graph["nodes"], counts)]
        batch = sample_typed(graph, options, "train", number, 5, seeds)
        check_batch(graph, options, seeds, batch)
        check_further_relation(graph, options, number, seeds, batch)


def check_further_relation(graph, options, epoch, seeds, batch):
    """A relation with fanout 0 after the others changes neither nodes nor the blocks of others."""
    if options["fanout_per"] == "node":
        return
    source, destination = graph["nodes"][-1], graph["nodes"][0]
    further = typed_graph("", [], [("", "", "", [[0]] * destination["num"])])["edges"][0]
    more = dict(graph, edges=[*graph["edges"], dict(further, type=[source["type"], "further", destination["type"]])])
    fanouts = [[*layer, 0] for layer in options["fanouts"]]
    again = sample_typed(more, dict(options, fanouts=fanouts), "train", epoch, 5, seeds)
    assert again["nodes"] == batch["nodes"]
    assert [of_layer[:-1] for of_layer in again["blocks"]] == batch["blocks"]
    assert not any(of_layer[-1]["indices"] for of_layer in again["blocks"])


# --- Distributions --------------------------------------------------------------------------------------------


def check_even(counts, cells, what, shares=None):
    """χ² over the cells is below the value that one of a thousand even counts exceeds (Wilson and Hilferty)."""
    total, freedom = sum(counts.values()), len(cells) - 1
    assert set(counts) <= set(cells), what
    expected = [total * share for share in shares or [1 / len(cells)] * len(cells)]
    statistic = sum((counts[cell] - mean) ** 2 / mean for cell, mean in zip(cells, expected))
    highest = freedom * (1 - 2 / (9 * freedom) + 3.09 * (2 / (9 * freedom)) ** 0.5) ** 3
    assert statistic < highest, f"{what}: χ² {statistic:.1f}, {freedom} degrees of freedom, at most {highest:.1f}"


def picks_at_first_hop(graph, options, batches):
    """The sorted edge ids of each relation in each of some batches around node 0 of type 0."""
    seeds = [[0]] + [[] for _ in graph["nodes"][1:]]
    for epoch in range(batches):
        batch = sample_typed(graph, dict(options, replace=False, seed=99), "train", epoch, 0, seeds)
        yield [tuple(sorted(block["edge_ids"])) for block in batch["blocks"][0]]


def check_distributions(batches):
    """Pairs of entries are even in every relation, and relations do not depend on each other."""
    of_five = [list(range(5))]
    nodes, pairs = [("a", 1), ("b", 5), ("c", 5)], list(combinations(range(5), 2))
    sources = ["b", "b", "c"]
    graph = typed_graph("", nodes, [(source, f"r{i}", "a", of_five) for i, source in enumerate(sources)])
    for kind in ("neighbor", "labor"):
        made = list(picks_at_first_hop(graph, dict(kind=kind, fanouts=[[2, 2, 2]]), batches))
        for relation in range(3):
            check_even(Counter(picks[relation] for picks in made), pairs, f"{kind}, relation {relation}")
        for one, other in [(0, 2), (1, 2), (0, 1)]:
            # Relations from one type share the variates of the neighbours.
            if (kind, other) == ("labor", 1):
                assert all(picks[one] == picks[other] for picks in made)
            else:
                joint = Counter((picks[one], picks[other]) for picks in made)
                check_even(joint, list(product(pairs, pairs)), f"{kind}, relations {one} and {other}")

    lists = [[list(range(length))] for length in (2, 1, 2)]
    graph = typed_graph("", nodes, [(source, f"r{i}", "a", of) for i, (source, of) in enumerate(zip(sources, lists))])
    entries = [(0, 0), (0, 1), (1, 0), (2, 0), (2, 1)]
    made = picks_at_first_hop(graph, dict(fanouts=[[2, 0, 0]], fanout_per="node"), batches)
    drawn = Counter(tuple((r, edge) for r, picks in enumerate(of) for edge in picks) for of in made)
    check_even(drawn, list(combinations(entries, 2)), "fanouts by node")

    graph = typed_graph("", nodes, [(source, f"r{i}", "a", of_five) for i, source in enumerate(sources)])
    for edges in graph["edges"][1:]:
        # 4.0, 2.0, 1.0, 0.5 and 0.5.
        edges["weight_bits"] = [0x40800000, 0x40000000, 0x3F800000, 0x3F000000, 0x3F000000]
    made = list(picks_at_first_hop(graph, dict(kind="weighted", fanouts=[[1, 1, 1]]), batches))
    shares = [0.5, 0.25, 0.125, 0.0625, 0.0625]
    singles = [(edge,) for edge in range(5)]
    check_even(Counter(picks[0] for picks in made), singles, "weighted, relation 0")
    for relation in (1, 2):
        check_even(Counter(picks[relation] for picks in made), singles, f"weighted, relation {relation}", shares)
    joint = [first * second for first, second in product(shares, shares)]
    check_even(Counter((of[1], of[2]) for of in made), list(product(singles, singles)), "weighted, both", joint)


# --- Graphs without types -------------------------------------------------------------------------------------


def check_one_type(stored):
    """Batches of graphs without types are those of one node type and one relation."""
    compared = 0
    for case in stored["graphs"]:
        if case["options"].get("kind", "neighbor") not in ("neighbor", "labor", "weighted"):
            continue
        count = len(case["indptr"]) - 1
        edges = {name: case[name] for name in ("indptr", "indices", "weight_bits") if name in case}
        nodes = [dict(type="node", num=count, orig_id=case["orig_id"])]
        graph = dict(nodes=nodes, edges=[dict(edges, type=["node", "to", "node"])])
        options = dict(case["options"], fanouts=[[fanout] for fanout in case["options"]["fanouts"]])
        for batch in case["batches"]:
            seeds = [batch["nodes"][: batch["seeds"]]]
            again = sample_typed(graph, options, batch["split"], batch["epoch"], batch["batch"], seeds)
            assert (again["nodes"], again["hash"]) == ([batch["nodes"]], batch["hash"]), case["name"]
            compared += 1
    assert compared > 0
    return compared


def check_all(stored):
    """All checks; `stored` is the content of the file of test vectors."""
    check_random_graphs(250)
    check_distributions(1000)
    compared = check_one_type(stored)
    print(f"random typed graphs have valid batches, picks are even, and {compared} batches without types agree")
