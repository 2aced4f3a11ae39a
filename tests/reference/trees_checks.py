"""Properties of batches of trees that hold however they are made. Each check fails with an AssertionError."""

import random

from typed_checks import random_graph
from typed_sampler import ends
from typed_trees import is_visible, sample_trees, time_of


def random_times(draw, graph):
    """The graph with times in some relations, and of some types, by which lists are sorted; or times of all edges."""
    extreme = [-(2**63), -(2**63) + 1, 2**63 - 2, 2**63 - 1]
    moment = lambda: draw.choice(extreme) if draw.randrange(9) == 0 else draw.randrange(-3, 9)
    for of in graph["nodes"]:
        if draw.randrange(2):
            of["time"] = [moment() for _ in range(of["num"])]
    for relation, of in enumerate(graph["edges"]):
        source = graph["nodes"][ends(graph, relation)[0]]
        for begin, end in zip(of["indptr"], of["indptr"][1:]):
            if "time" in source:
                of["indices"][begin:end] = sorted(of["indices"][begin:end], key=lambda node: source["time"][node])
            elif draw.randrange(4):
                of.setdefault("time", [0] * len(of["indices"]))
                of["time"][begin:end] = sorted(moment() for _ in range(end - begin))
    return graph


def check_trees(graph, options, seeds, seed_times, batch):
    """Every path of a tree stays in it, and sees only what its rule shows; a node is there once a tree, or once for each
    time in a decreasing one."""
    times = [time for of_type in seed_times for time in of_type]
    decreasing = options.get("time_rule") == "decreasing"
    named = [[(tree, node) for tree, node in zip(*of)] for of in zip(batch["trees"], batch["nodes"])]
    for of, of_type in enumerate(named):
        assert decreasing or len(set(of_type)) == len(of_type)
        assert [node for _, node in of_type[: len(seeds[of])]] == seeds[of]
    # The limits of a node: the seed's time, or the times of the entries that lead to it.
    limits = [[times[tree] if at < len(ids) else None for at, (tree, _) in enumerate(of_type)]
              for of_type, ids in zip(named, seeds)]  # fmt: skip
    for of_layer in batch["blocks"]:
        found = []
        for relation, block in enumerate(of_layer):
            source, destination = ends(graph, relation)
            for row, (begin, end) in enumerate(zip(block["indptr"], block["indptr"][1:])):
                tree, node = named[destination][row]
                for local, entry in zip(block["indices"][begin:end], block["edge_ids"][begin:end]):
                    assert named[source][local] == (tree, graph["edges"][relation]["indices"][entry])
                    time, limit = time_of(graph, relation, entry), limits[destination][row]
                    if "time_rule" in options:
                        assert is_visible(options, time, times[tree], limit)
                    found.append((source, local, limit if time is None else time))
        for source, local, limit in found:
            assert not decreasing or limits[source][local] in (None, limit)
            limits[source][local] = limit


def check_random_graphs(count):
    draw = random.Random(2)
    for number in range(count):
        graph = random_times(draw, random_graph(draw))
        options = dict(
            kind=draw.choice(["neighbor", "weighted"]),
            fanouts=[[draw.choice([-1, 0, 1, 2, 5]) for _ in graph["edges"]] for _ in range(draw.randint(1, 3))],
            expand=draw.choice(["all", "new"]),
            seed=draw.getrandbits(64),
            replace=False,
        )
        if draw.randrange(5):
            options["time_rule"] = draw.choice(["until-seed", "before-seed", "decreasing"])
            options["time_pick"] = draw.choice(["uniform", "last"])
            window = draw.choice([None, 0, 1, 4, 2**63 - 1])
            options = options if window is None else dict(options, time_window=window)
            options["replace"] = options["time_pick"] == "uniform" and draw.randrange(2) == 1
        counts = [draw.randrange(4) if of["num"] else 0 for of in graph["nodes"]]
        seeds = [[draw.randrange(of["num"]) for _ in range(count)] for of, count in zip(graph["nodes"], counts)]
        moments = [-(2**63), 2**63 - 1, *range(-4, 10)]
        seed_times = [[draw.choice(moments) for _ in of_type] for of_type in seeds]
        batch = sample_trees(graph, options, "train", number, 5, seeds, seed_times)
        check_trees(graph, options, seeds, seed_times, batch)


def check_all(_stored):
    """All checks."""
    check_random_graphs(400)
    print("random trees keep apart, and see what their rules show")
