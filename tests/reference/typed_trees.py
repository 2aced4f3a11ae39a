"""Batches of disjoint trees that see the graph at a time, as docs/spec/reproducible-batches.md defines them."""

from reference import batch_of_picks
from typed_sampler import bounds_of, ends, hash_scoped, original_of, picks_of_node, picks_of_relation, typed_hash
from words import MASK64

# --- Times ----------------------------------------------------------------------------------------------------


def time_of(graph, relation, entry):
    """The time of an entry of a relation: of its edge, else of its neighbor; None if there is neither."""
    edges = graph["edges"][relation]
    if "time" in edges:
        return edges["time"][entry]
    source = graph["nodes"][ends(graph, relation)[0]]
    return source["time"][edges["indices"][entry]] if "time" in source else None


def is_visible(options, time, seed_time, limit):
    """Whether an entry of this time is visible in a tree of this seed time, from a node of this limit."""
    if time is None:
        return True
    rule, window = options["time_rule"], options.get("time_window")
    first = time if window is None else seed_time - window
    if rule == "until-seed":
        return time <= seed_time and (window is None or first < time)
    if rule == "before-seed":
        return time < seed_time and first <= time
    assert rule == "decreasing"
    return time <= limit and (window is None or first < time)


def visible_range(graph, options, relation, node, fanout, seed_time, limit):
    """Where the visible entries of a list begin and end, of which only the latest remain if these are picked."""
    begin, end = bounds_of(graph, relation, node)
    if "time_rule" not in options:
        return begin, end
    times = [time_of(graph, relation, entry) for entry in range(begin, end)]
    if None in times:
        return begin, end
    assert times == sorted(times)
    seen = [begin + at for at, time in enumerate(times) if is_visible(options, time, seed_time, limit)]
    if options.get("time_pick") == "last" and fanout != -1:
        seen = seen[len(seen) - min(fanout, len(seen)) :]
    assert not seen or seen == list(range(seen[0], seen[-1] + 1))
    return (seen[0], seen[-1] + 1) if seen else (begin, begin)


# --- Batches --------------------------------------------------------------------------------------------------


def sample_trees(graph, options, split, epoch, batch, seeds, seed_times):
    """One batch of trees. A node of it is its tree, its id, and in decreasing trees the time that it is limited to."""
    decreasing = options.get("time_rule") == "decreasing"
    nodes, times_of_trees = [], []
    for ids, times in zip(seeds, seed_times):
        of_type = []
        for node, time in zip(ids, times):
            of_type.append((len(times_of_trees), node, time if decreasing else None))
            times_of_trees.append(time)
        nodes.append(of_type)
    counts, blocks = [[len(of_type) for of_type in nodes]], []
    for layer, fanouts in enumerate(options["fanouts"]):

        def stream_of(original, purpose):
            kept = batch_of_picks(batch, original, options.get("batch_dependency", 1))
            names = dict(seed=options["seed"], node=original, purpose=purpose)
            return dict(names, layer=layer, batch=kept, epoch=epoch, split=split)

        destinations = [list(of_type) for of_type in nodes]
        of_layer = []
        for relation, edges in enumerate(graph["edges"]):
            source, destination = ends(graph, relation)
            indptr, indices, edge_ids, expanded = [0], [], [], 0
            if options.get("expand") == "new" and layer > 0:
                before = blocks[layer - 1][relation]
                indptr, indices, edge_ids = (list(before[name]) for name in ("indptr", "indices", "edge_ids"))
                expanded = counts[layer - 1][destination]
            for tree, node, limit in destinations[destination][expanded:]:
                if options.get("fanout_per") == "node":
                    begin, _ = bounds_of(graph, relation, node)
                    picks = picks_of_node(graph, options, stream_of, destination, node, fanouts[destination])[relation]
                else:
                    fanout = fanouts[relation]
                    bounds = visible_range(graph, options, relation, node, fanout, times_of_trees[tree], limit)
                    begin, _ = bounds
                    picks = picks_of_relation(graph, options, stream_of, relation, node, fanout, bounds)
                for position in picks:
                    entry = begin + position
                    time = time_of(graph, relation, entry)
                    found = (tree, edges["indices"][entry], (limit if time is None else time) if decreasing else None)
                    if found not in nodes[source]:
                        nodes[source].append(found)
                    indices.append(nodes[source].index(found))
                    edge_ids.append(entry)
                indptr.append(len(indices))
            of_layer.append(dict(indptr=indptr, indices=indices, edge_ids=edge_ids))
        counts.append([len(of_type) for of_type in nodes])
        blocks.append(of_layer)
    ids = [[node for _, node, _ in of_type] for of_type in nodes]
    trees = [[tree for tree, _, _ in of_type] for of_type in nodes]
    code = typed_hash(graph, seeds, ids, blocks)
    for of in range(len(nodes)):
        code += hash_scoped(2, of, trees[of])
        if "time_rule" in options:
            code += hash_scoped(3, of, [time & MASK64 for time in seed_times[of]])
    names = dict(split=split, epoch=epoch, batch=batch)
    made = dict(num_nodes=counts, nodes=ids, trees=trees, blocks=blocks)
    return dict(names, **made, hash=format(code & MASK64, "016x"))
