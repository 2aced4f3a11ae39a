"""Batches of typed graphs, as docs/spec/reproducible-batches.md defines them, with the words and picks of one type."""

from floats import weight_of
from reference import batch_of_picks, pick, pick_labor, pick_weighted
from words import MASK64, mix, under, words_of

# --- Graphs ---------------------------------------------------------------------------------------------------


def typed_graph(name, nodes, edges):
    """A graph of node types, each (name, number of nodes), and relations, each (source, relation, destination, lists):
    the lists of the destination's nodes, with ids of the source in them."""
    relations = []
    for source, relation, destination, lists in edges:
        indptr, indices = [0], []
        for neighbors in lists:
            indices += neighbors
            indptr.append(len(indices))
        relations.append(dict(type=[source, relation, destination], indptr=indptr, indices=indices))
    types = [dict(type=of, num=num, orig_id=None) for of, num in nodes]
    return dict(name=name, nodes=types, edges=relations)


def ends(graph, relation):
    """The numbers of a relation's source and destination type."""
    types = [of["type"] for of in graph["nodes"]]
    source, _, destination = graph["edges"][relation]["type"]
    return types.index(source), types.index(destination)


def original_of(graph, of):
    """The original id of each node of a type."""
    return graph["nodes"][of]["orig_id"] or list(range(graph["nodes"][of]["num"]))


def bounds_of(graph, relation, node):
    """Where the list of a node in a relation begins and ends."""
    return graph["edges"][relation]["indptr"][node], graph["edges"][relation]["indptr"][node + 1]


# --- Seeds ----------------------------------------------------------------------------------------------------


def seeds_of_batch(split, positions):
    """The seeds of each type, in the order of the positions; `split` has the index file of each type."""
    concatenated = [(of, node) for of, index in enumerate(split) for node in index]
    drawn = [concatenated[position] for position in positions]
    return [[node for its, node in drawn if its == of] for of in range(len(split))]


# --- Picks ----------------------------------------------------------------------------------------------------


def picks_of_relation(graph, options, stream_of, relation, node, fanout, bounds=None):
    """Positions picked in the list of a node in a relation, or in the part of it between `bounds`."""
    source, destination = ends(graph, relation)
    edges = graph["edges"][relation]
    begin, end = bounds or bounds_of(graph, relation, node)
    kind, replace = options.get("kind", "neighbor"), options["replace"]
    own = original_of(graph, destination)[node]
    if kind == "labor":
        variates = []
        for neighbor in edges["indices"][begin:end]:
            words = words_of(under(stream_of(original_of(graph, source)[neighbor], "neighbors"), source))
            variates.append(next(words) | next(words) << 32)
        return pick_labor(variates, fanout)
    if kind == "weighted" and "weight_bits" in edges:
        weights = [weight_of(bits) for bits in edges["weight_bits"][begin:end]]
        return pick_weighted(stream_of(own, "weights"), weights, fanout, replace, relation)
    return pick(words_of(under(stream_of(own, "neighbors"), relation)), end - begin, fanout, replace)


def picks_of_node(graph, options, stream_of, of, node, fanout):
    """Positions picked in the lists of a node in all relations into its type, by relation: one draw in one list."""
    into = [relation for relation in range(len(graph["edges"])) if ends(graph, relation)[1] == of]
    entries = []
    for relation in into:
        begin, end = bounds_of(graph, relation, node)
        entries += [(relation, position) for position in range(end - begin)]
    words = words_of(under(stream_of(original_of(graph, of)[node], "neighbors"), into[0]))
    drawn = [entries[place] for place in pick(words, len(entries), fanout, options["replace"])]
    return {relation: [position for its, position in drawn if its == relation] for relation in into}


# --- Batches --------------------------------------------------------------------------------------------------


def sample_typed(graph, options, split, epoch, batch, seeds):
    """One batch: ids of each type's nodes (of the dataset in its stored order), how many there are of each type before
    the first hop and after each, and the blocks of each hop, one for each relation."""
    nodes = [list(of_type) for of_type in seeds]
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
            for node in destinations[destination][expanded:]:
                if options.get("fanout_per") == "node":
                    drawn = picks_of_node(graph, options, stream_of, destination, node, fanouts[destination])
                    picks = drawn[relation]
                else:
                    picks = picks_of_relation(graph, options, stream_of, relation, node, fanouts[relation])
                begin, _ = bounds_of(graph, relation, node)
                for position in picks:
                    neighbor = edges["indices"][begin + position]
                    if neighbor not in nodes[source]:
                        nodes[source].append(neighbor)
                    indices.append(nodes[source].index(neighbor))
                    edge_ids.append(begin + position)
                indptr.append(len(indices))
            of_layer.append(dict(indptr=indptr, indices=indices, edge_ids=edge_ids))
        counts.append([len(of_type) for of_type in nodes])
        blocks.append(of_layer)
    code = typed_hash(graph, seeds, nodes, blocks)
    names = dict(split=split, epoch=epoch, batch=batch)
    return dict(names, num_nodes=counts, nodes=nodes, blocks=blocks, hash=format(code, "016x"))


# --- Hash -----------------------------------------------------------------------------------------------------


def hash_scoped(tag, scope, values):
    return sum(mix(mix((tag << 56) + (scope << 32) + i) ^ value) for i, value in enumerate(values))


def typed_hash(graph, seeds, nodes, blocks):
    total = 0
    for of, of_type in enumerate(nodes):
        original = [original_of(graph, of)[node] for node in of_type]
        total += hash_scoped(0, of, original[: len(seeds[of])]) + hash_scoped(1, of, original)
    for layer, of_layer in enumerate(blocks):
        for relation, block in enumerate(of_layer):
            total += hash_scoped(16 + 2 * layer, relation, block["indptr"])
            total += hash_scoped(17 + 2 * layer, relation, block["indices"])
    return total & MASK64
