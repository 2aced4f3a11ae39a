"""The kinds of sampler that draw nodes for all destinations of a hop together, and weigh the edges.

Each function returns the weights of the entries of every list: None for an entry that is not picked. Weights are floats
that a float32 holds.
"""

from floats import float32
from words import bounded64, exponential, words_of


def whole(lists):
    """Every entry, and the mean."""
    return [[float32(1.0 / float(len(entries))) for _ in entries] for entries in lists]


def importance(degree):
    """What a list of `degree` entries adds to each of them."""
    return max(2**32 // degree**2, 1)


def weigh_ladies(lists, fanout, stream_of):
    """LADIES; `stream_of` is the stream of a node."""
    sums = {}
    for entries in lists:
        for node in entries:
            sums[node] = min(sums.get(node, 0) + importance(len(entries)), 2**53 - 1)
    if fanout == -1 or len(sums) <= fanout:
        return whole(lists)
    keyed = []
    for place, (node, of_node) in enumerate(sums.items()):
        keyed.append((float(exponential(next(words_of(stream_of(node))))) / float(of_node), place, node))
    drawn = {node for _, _, node in sorted(keyed)[:fanout]}
    weights = []
    for entries in lists:
        total = 0.0
        for node in entries:
            if node in drawn:
                total += 1.0 / float(sums[node])
        weights.append(
            [float32((1.0 / float(sums[node])) / total) if node in drawn else None for node in entries]
        )
    return weights


def importance_of_nodes(graph_lists):
    """What the lists of the whole graph add to each node."""
    sums = [0] * len(graph_lists)
    for entries in graph_lists:
        for node in entries:
            sums[node] += importance(len(entries))
    return sums


def draws_of(sums, original, draws, stream_of):
    """The node that each draw selects, by sums in the order of original ids, and its distance from the sum before."""
    if sum(sums) == 0:
        return
    order = sorted(range(len(sums)), key=lambda node: original[node])
    for draw in range(draws):
        left, place = bounded64(words_of(stream_of(draw)), sum(sums)), 0
        while left >= sums[order[place]]:
            left -= sums[order[place]]
            place += 1
        yield order[place], left


def weigh_fastgcn(graph_lists, original, lists, fanout, stream_of):
    """FastGCN; `graph_lists` are those of all nodes, `stream_of` is the stream of a draw."""
    if fanout == -1:
        return whole(lists)
    sums, counts = importance_of_nodes(graph_lists), {}
    for node, _ in draws_of(sums, original, fanout, stream_of):
        counts[node] = counts.get(node, 0) + 1
    weight = lambda node, degree: float32(
        float(counts[node]) * float(sum(sums)) / (float(fanout) * float(sums[node]) * float(degree))
    )
    return [[weight(node, len(entries)) if node in counts else None for node in entries] for entries in lists]


def weigh_saint_node(graph_lists, original, seeds, lists, fanout, stream_of):
    """GraphSAINT over nodes; `stream_of` is the stream of a draw at the seeds."""
    if fanout == -1:
        return whole(lists)
    sums = importance_of_nodes(graph_lists)
    drawn = {node: sums[node] for node, _ in draws_of(sums, original, fanout, stream_of)}
    return weigh_members(seeds, lists, drawn, sum(sums), fanout)


def weigh_saint_edge(graph_lists, original, seeds, lists, fanout, stream_of):
    """GraphSAINT over edges."""
    if fanout == -1:
        return whole(lists)
    of_end = lambda node: max(2**32 // max(len(graph_lists[node]), 1), 1)
    edges = lambda node: [(other, of_end(node) + of_end(other)) for other in graph_lists[node]]
    of_lists, parts = [0] * len(graph_lists), [0] * len(graph_lists)
    for node in range(len(graph_lists)):
        for other, more in edges(node):
            of_lists[node] += more
            for end in {node, other}:
                parts[end] += more
    drawn = {}
    for node, left in draws_of(of_lists, original, fanout, stream_of):
        drawn[node] = parts[node]
        for other, more in edges(node):
            if left < more:
                drawn[other] = parts[other]
                break
            left -= more
    return weigh_members(seeds, lists, drawn, sum(of_lists), fanout)


def weigh_members(seeds, lists, drawn, total, draws):
    """The entries that name a seed or a node that was drawn; `drawn` has how much of `total` draws each."""
    shares = {node: 1.0 / at_least_once(float(part) / float(total), draws) for node, part in drawn.items()}
    shares.update({seed: 1.0 for seed in seeds})
    weights = []
    for entries in lists:
        of_list = 0.0
        for node in entries:
            if node in shares:
                of_list += shares[node]
        weights.append([float32(shares[node] / of_list) if node in shares else None for node in entries])
    return weights


def at_least_once(power, draws):
    """The chance in `draws` draws of an event with the chance `power` in each."""
    chance = 0.0
    while draws > 0:
        if draws % 2 == 1:
            chance = (chance + power) - chance * power
        power = (power + power) - power * power
        draws //= 2
    return chance
