"""The kinds of sampler that draw the nodes of a layer for all of its destinations together, and weigh the edges.

Each function returns the weights of the entries of every list: None for an entry that is not picked. Weights are floats
that a float32 holds.
"""

import struct

from words import bounded64, exponential, words_of


def float32(value):
    """The float32 nearest to a float, ties to even, as a float."""
    return struct.unpack("<f", struct.pack("<f", value))[0]


def whole(lists):
    """Every entry, and the mean."""
    return [[float32(1.0 / float(len(entries))) for _ in entries] for entries in lists]


def importance(degree):
    """What a list of so many entries adds to each of them."""
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


def weigh_fastgcn(graph_lists, original, lists, fanout, stream_of):
    """FastGCN; `graph_lists` are those of all nodes, `stream_of` is the stream of a draw."""
    if fanout == -1:
        return whole(lists)
    sums = [0] * len(graph_lists)
    for entries in graph_lists:
        for node in entries:
            sums[node] += importance(len(entries))
    total = sum(sums)
    if total == 0:
        return [[] for _ in lists]
    order = sorted(range(len(sums)), key=lambda node: original[node])
    counts = {}
    for draw in range(fanout):
        left, place = bounded64(words_of(stream_of(draw)), total), 0
        while left >= sums[order[place]]:
            left -= sums[order[place]]
            place += 1
        counts[order[place]] = counts.get(order[place], 0) + 1
    weight = lambda node, degree: float32(
        float(counts[node]) * float(total) / (float(fanout) * float(sums[node]) * float(degree))
    )
    return [[weight(node, len(entries)) if node in counts else None for node in entries] for entries in lists]
