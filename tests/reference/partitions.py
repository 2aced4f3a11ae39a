"""A second implementation of docs/spec/partitioning.md, in plain Python: one obvious loop for each rule.

A graph is a dictionary: `lists`, the in-list of each node, and `train`, the training nodes in the order of the file.
All ids are original ids. Fractions are exact.
"""

from fractions import Fraction

from words import words_of


def key_order(seed, count, number=0):
    """All nodes by their random keys, which are others for each number."""
    keyed = []
    for node in range(count):
        words = words_of(
            dict(seed=seed, node=node, purpose="proximity", layer=2, batch=number, epoch=0, split="train")
        )
        low, high = next(words), next(words)
        keyed.append((high << 32 | low, node))
    return [node for _, node in sorted(keyed)]


def both_directions(graph):
    """The neighbours of each node: its list, then the nodes whose lists have it, once for each entry."""
    neighbours = [list(entries) for entries in graph["lists"]]
    for node, entries in enumerate(graph["lists"]):
        for entry in entries:
            neighbours[entry].append(node)
    return neighbours


# --- bgl ------------------------------------------------------------------------------------------------------


def grow_blocks(graph, order, sources, most_nodes, most_train):
    """The block of each node."""
    neighbours, train = both_directions(graph), set(graph["train"])
    block_of = [None] * len(neighbours)
    members = []
    growing = []  # pairs of block and frontier
    waiting = list(order)
    while True:
        while len(growing) < sources and waiting:
            node = waiting.pop(0)
            if block_of[node] is None:
                block_of[node] = len(members)
                growing.append((len(members), [node]))
                members.append([node])
        if not growing:
            return block_of
        following = []
        for block, frontier in growing:
            claimed = []
            for node in frontier:
                for neighbour in neighbours[node]:
                    full = sum(member in train for member in members[block]) >= most_train
                    if len(members[block]) >= most_nodes or block_of[neighbour] is not None:
                        continue
                    if neighbour in train and full:
                        continue
                    block_of[neighbour] = block
                    members[block].append(neighbour)
                    claimed.append(neighbour)
            if claimed and len(members[block]) < most_nodes:
                following.append((block, claimed))
        growing = following


def sizes_of(graph, of, count):
    """Nodes and training nodes of each block or part."""
    train = set(graph["train"])
    nodes, trains = [0] * count, [0] * count
    for node, block in enumerate(of):
        nodes[block] += 1
        trains[block] += node in train
    return nodes, trains


def edges_between(graph, of):
    """Entries of lists between two blocks, of either direction: a dictionary for each block."""
    edges = [dict() for _ in range(max(of) + 1)]
    for node, entries in enumerate(graph["lists"]):
        for entry in entries:
            a, b = of[node], of[entry]
            if a != b:
                edges[a][b] = edges[a].get(b, 0) + 1
                edges[b][a] = edges[b].get(a, 0) + 1
    return edges


def merge_blocks(graph, of, most_nodes, most_train):
    """The merged block of each node."""
    count = max(of) + 1
    (nodes, trains), edges = sizes_of(graph, of, count), edges_between(graph, of)
    by_size = sorted(range(count), key=lambda block: (-nodes[block], block))
    large = set(by_size[: -(-count // 10)])
    merged = {block: [block] for block in range(count)}

    def total(block, sizes):
        return sum(sizes[member] for member in merged[block])

    def fits(small, into, times):
        return (
            total(into, nodes) + nodes[small] <= times * most_nodes
            and total(into, trains) + trains[small] <= times * most_train
        )

    last = None
    for small in range(count):
        if small in large:
            continue
        candidates = [(-edges[small][other], other) for other in edges[small] if other in large]
        candidates = [other for _, other in sorted(candidates) if fits(small, other, 2)]
        if candidates:
            into = candidates[0]
        elif last is not None and fits(small, last, 1):
            into = last
        else:
            last = small
            continue
        merged[into].append(small)
        del merged[small]
    numbers = {}
    for number, group in enumerate(sorted(merged.values(), key=min)):
        for member in group:
            numbers[member] = number
    return [numbers[block] for block in of]


def assign_blocks(graph, of, parts, count, order=None):
    """The part of each node. Blocks come in the order, or else the largest first."""
    blocks = max(of) + 1
    (nodes, trains), edges = sizes_of(graph, of, blocks), edges_between(graph, of)
    mean_nodes, mean_train = Fraction(len(of), parts), Fraction(len(graph["train"]), parts)
    part_of = {}
    part_nodes, part_train = [0] * parts, [0] * parts
    largest_first = sorted(range(blocks), key=lambda block: (-trains[block], -nodes[block], block))
    for block in largest_first if order is None else order:
        within_two = set(edges[block]) | {far for near in edges[block] for far in edges[near]}
        within_two.discard(block)
        scores = []
        for part in range(parts):
            if count == "edges":
                connection = sum(n for other, n in edges[block].items() if part_of.get(other) == part)
            else:
                connection = sum(part_of.get(other) == part for other in within_two)
            scores.append(
                connection
                * max(0, 1 - part_train[part] / mean_train)
                * max(0, 1 - part_nodes[part] / mean_nodes)
            )
        if max(scores) > 0:
            part = scores.index(max(scores))
        else:
            loads = [max(t / mean_train, n / mean_nodes) for t, n in zip(part_train, part_nodes)]
            part = loads.index(min(loads))
        part_of[block] = part
        part_nodes[part] += nodes[block]
        part_train[part] += trains[block]
    return [part_of[block] for block in of]


# --- The others -----------------------------------------------------------------------------------------------


def ldg(graph, parts):
    """Nodes one after the other, each to the part with most of its neighbours."""
    neighbours = both_directions(graph)
    mean = Fraction(len(neighbours), parts)
    of, sizes = [], [0] * parts
    for node in range(len(neighbours)):
        found = [0] * parts
        for neighbour in neighbours[node]:
            if neighbour < node:
                found[of[neighbour]] += 1
        score = lambda part: found[part] * max(0, 1 - sizes[part] / mean)
        part = min(range(parts), key=lambda part: (-score(part), sizes[part], part))
        of.append(part)
        sizes[part] += 1
    return of


def closure(graph, node, hops):
    """All nodes within some in-hops of a node, itself included."""
    found, frontier = {node}, {node}
    for _ in range(hops):
        frontier = {entry for near in frontier for entry in graph["lists"][near]} - found
        found |= frontier
    return found


def pagraph(graph, train, parts, hops):
    """Training nodes one after the other, each to the part that has most of its closure."""
    count = len(graph["lists"])
    mean = Fraction(len(train), parts)
    most, longer = -(-len(train) // parts), len(train) % parts
    of = [None] * count
    trains, closures = [set() for _ in range(parts)], [set() for _ in range(parts)]
    for node in train:
        near = closure(graph, node, hops)

        def has_room(part):
            if longer == 0 or len(trains[part]) < most - 1:
                return len(trains[part]) < most
            return len(trains[part]) == most - 1 and sum(len(other) == most for other in trains) < longer

        def score(part):
            return (len(near & trains[part]) + 1) * (mean - len(trains[part])) / (len(closures[part]) + 1)

        part = min(filter(has_room, range(parts)), key=lambda part: (-score(part), len(trains[part]), part))
        of[node] = part
        trains[part].add(node)
        closures[part] |= near
    sizes = [len(nodes) for nodes in trains]
    for node in range(count):
        if of[node] is None:
            holders = [part for part in range(parts) if node in closures[part]] or list(range(parts))
            of[node] = min(holders, key=lambda part: (sizes[part], part))
            sizes[of[node]] += 1
    return of


def by_range(count, parts):
    """Consecutive ids."""
    return [node * parts // count for node in range(count)]


def by_chance(order, parts):
    """The same of places in the random order."""
    of = [None] * len(order)
    for place, node in enumerate(order):
        of[node] = place * parts // len(order)
    return of


# --- Refinement -----------------------------------------------------------------------------------------------


def weighted(graph):
    """The graph without directions: of each node the others next to it, with the edges to each, and its nodes and training
    nodes, which are itself."""
    train = set(graph["train"])
    edges = edges_between(graph, range(len(graph["lists"])))
    return edges, [(1, int(node in train)) for node in range(len(edges))]


def refine(graph, order, of, parts, passes):
    """Label propagation with limits; the part of each node."""
    return refine_weighted(*weighted(graph), order, of, parts, passes)


def refine_weighted(edges, sizes, order, of, parts, passes):
    """The same where a node stands for several."""
    of = list(of)
    nodes, trains = [0] * parts, [0] * parts
    for node, part in enumerate(of):
        nodes[part] += sizes[node][0]
        trains[part] += sizes[node][1]
    most_nodes = max(21 * sum(nodes) // (20 * parts), -(-sum(nodes) // parts))
    most_train = max(21 * sum(trains) // (20 * parts), -(-sum(trains) // parts))

    def has_room(part, node):
        own_nodes, own_train = sizes[node]
        return nodes[part] + own_nodes <= most_nodes and (
            own_train == 0 or trains[part] + own_train <= most_train
        )

    def is_over(part, node):
        return nodes[part] > most_nodes or (sizes[node][1] > 0 and trains[part] > most_train)

    size = -(-len(order) // 64)
    for _ in range(passes):
        moved = 0
        for begin in range(0, len(order), size):
            wishes = []
            for node in order[begin : begin + size]:
                own = of[node]
                found = [0] * parts
                for neighbour, count in edges[node].items():
                    found[of[neighbour]] += count
                with_room = [part for part in range(parts) if part != own and has_room(part, node)]
                near = [part for part in with_room if found[part] > 0]
                best = min(near, key=lambda part: (-found[part], part), default=None)
                if best is not None and found[best] > found[own]:
                    wishes.append((node, best, True))
                elif is_over(own, node):
                    having = trains if sizes[node][1] > 0 else nodes
                    emptiest = min(with_room, key=lambda part: (having[part], part), default=None)
                    to = best if best is not None else emptiest
                    if to is not None:
                        wishes.append((node, to, False))
            for node, to, gains in wishes:
                own = of[node]
                if has_room(to, node) and (gains or is_over(own, node)):
                    of[node] = to
                    nodes[own] -= sizes[node][0]
                    nodes[to] += sizes[node][0]
                    trains[own] -= sizes[node][1]
                    trains[to] += sizes[node][1]
                    moved += 1
        if moved * 1000 < len(order):
            break
    return of


# --- multilevel -----------------------------------------------------------------------------------------------


def clusters(edges, sizes, order, most_nodes, most_train, within):
    """The cluster of each node, numbered by the first of its nodes in the order."""
    count = len(edges)
    of = list(range(count))
    members = [{node} for node in range(count)]

    def has_room(cluster, node):
        nodes = sum(sizes[member][0] for member in members[cluster])
        train = sum(sizes[member][1] for member in members[cluster])
        own_nodes, own_train = sizes[node]
        return nodes + own_nodes <= most_nodes and (own_train == 0 or train + own_train <= most_train)

    group = -(-count // 64)
    for _ in range(5):
        moved = 0
        for begin in range(0, count, group):
            wishes = []
            for node in order[begin : begin + group]:
                found = {}
                for other, n in edges[node].items():
                    if within is None or within[other] == within[node]:
                        found[of[other]] = found.get(of[other], 0) + n
                to_own = found.pop(of[node], 0)
                better = [c for c, n in found.items() if n > to_own and has_room(c, node)]
                if better:
                    wishes.append((node, min(better, key=lambda cluster: (-found[cluster], cluster))))
            for node, to in wishes:
                if members[to] and has_room(to, node):
                    members[of[node]].remove(node)
                    members[to].add(node)
                    of[node] = to
                    moved += 1
        if moved * 20 < count:
            break
    numbers = {}
    for node in order:
        numbers.setdefault(of[node], len(numbers))
    return [numbers[cluster] for cluster in of]


def contracted(edges, sizes, of):
    """The graph of clusters."""
    count = max(of) + 1
    between, sums = [dict() for _ in range(count)], [(0, 0)] * count
    for node, cluster in enumerate(of):
        sums[cluster] = tuple(a + b for a, b in zip(sums[cluster], sizes[node]))
        for other, n in edges[node].items():
            if of[other] != cluster:
                between[cluster][of[other]] = between[cluster].get(of[other], 0) + n
    return between, sums


def multilevel(graph, order, parts, seed):
    """The part of each node."""
    count = len(graph["lists"])
    most = [max(1, all_ // (16 * parts)) for all_ in (count, len(graph["train"]))]

    def coarsen(gradual, within):
        """The graph of each level, and the clusters that the next one is of."""
        levels, clustered = [weighted(graph)], []
        while True:
            edges, sizes = levels[-1]
            by = order if len(levels) == 1 else range(len(edges))
            grown = 8 ** len(levels) if gradual else count
            of = clusters(edges, sizes, list(by), min(most[0], grown), min(most[1], grown), within)
            few = grown >= most[0] and (max(of) + 1) * 20 > len(edges) * 19
            if few and clustered:
                return levels, clustered
            clustered.append(of)
            levels.append(contracted(edges, sizes, of))
            if within is not None:
                within = [within[of.index(cluster)] for cluster in range(max(of) + 1)]
            if few or max(of) + 1 <= 64 * parts:
                return levels, clustered

    def back(levels, clustered, of):
        for level in reversed(range(len(levels))):
            edges, sizes = levels[level]
            by = order if level == 0 else list(range(len(edges)))
            of = refine_weighted(edges, sizes, by, of, parts, 10)
            if level > 0:
                of = [of[cluster] for cluster in clustered[level - 1]]
        return of

    def divided(gradual):
        """The parts of the nodes, by both starts."""
        levels, clustered = coarsen(gradual, None)
        edges, sizes = levels[-1]
        of_nodes = list(range(count))
        for of in clustered:
            of_nodes = [of[cluster] for cluster in of_nodes]

        def assigned(by):
            part_of = assign_blocks(graph, of_nodes, parts, "edges", by)
            return [part_of[of_nodes.index(cluster)] for cluster in range(len(edges))]

        def cost(of):
            over = False
            for kind in (0, 1):
                having = [0] * parts
                for cluster, part in enumerate(of):
                    having[part] += sizes[cluster][kind]
                over = over or max(having) > max(21 * sum(having) // (20 * parts), -(-sum(having) // parts))
            between = (n for cluster, near in enumerate(edges) for other, n in near.items() if of[cluster] != of[other])
            return over, sum(between)

        starts = [assigned(None)]
        tries = min(16, sum(map(len, graph["lists"])) // max(1, sum(map(len, edges))))
        if tries > 0:
            by = [key_order(seed, len(edges), number) for number in range(1, tries + 1)]
            tried = [refine_weighted(edges, sizes, range(len(edges)), assigned(one), parts, 10) for one in by]
            starts.append(min(tried, key=cost))
        return [back(levels, clustered, of) for of in starts]

    def cut(of):
        return sum(of[node] != of[entry] for node, entries in enumerate(graph["lists"]) for entry in entries)

    best = min(divided(True) + divided(False), key=cut)
    levels, clustered = coarsen(True, best)
    for of in clustered:
        best = [best[of.index(cluster)] for cluster in range(max(of) + 1)]
    return back(levels, clustered, best)


# --- Vectors --------------------------------------------------------------------------------------------------


def planted_graph(seed, count, groups, degree, train_every, isolated=0):
    """A graph with groups of ids modulo `groups`, from random words; the last nodes have no edges."""
    lists = []
    for node in range(count):
        words = words_of(
            dict(seed=seed, node=node, purpose="neighbors", layer=0, batch=0, epoch=0, split="train")
        )
        entries = []
        if node < count - isolated:
            for _ in range(next(words) % (2 * degree)):
                entry = next(words) % (count - isolated)
                if next(words) % 4 > 0:
                    entry = min(entry - entry % groups + node % groups, count - isolated - 1)
                entries.append(entry)
        lists.append(entries)
    # Not ascending, as splits need not be.
    train = [node * 7 % count for node in range(count) if (node * 7 % count) % train_every == 0]
    return dict(lists=lists, train=sorted(set(train), key=train.index))


def partition_vector(graph, seed, parts, hops, sources, most_nodes, passes):
    """Every stage on one graph."""
    count = len(graph["lists"])
    most_train = max(1, len(graph["train"]) // (8 * parts))
    order = key_order(seed, count)
    blocks = grow_blocks(graph, order, sources, most_nodes, most_train)
    merged = merge_blocks(graph, blocks, most_nodes, most_train)
    made = dict(
        bgl_edges=assign_blocks(graph, merged, parts, "edges"),
        bgl_blocks=assign_blocks(graph, merged, parts, "blocks"),
        ldg=ldg(graph, parts),
        range=by_range(count, parts),
        random=by_chance(order, parts),
    )
    return dict(
        indptr=[sum(map(len, graph["lists"][:node])) for node in range(count + 1)],
        indices=[entry for entries in graph["lists"] for entry in entries],
        train=graph["train"],
        options=dict(seed=seed, parts=parts, hops=hops, sources=sources, block_nodes=most_nodes, refine=passes),
        order=order,
        blocks=blocks,
        merged=merged,
        **made,
        multilevel=multilevel(graph, order, parts, seed),
        pagraph=pagraph(graph, graph["train"], parts, hops),
        pagraph_shuffled=pagraph(graph, sorted(graph["train"], key=order.index), parts, hops),
        refined={name: refine(graph, order, of, parts, passes) for name, of in made.items()},
    )


def partition_vectors():
    """Graphs of several shapes: with empty lists, one part, training nodes in one place, all nodes training."""
    crowded = planted_graph(11, 150, 3, 2, 4)
    crowded["train"] = [node for node in range(60)]
    return [
        partition_vector(planted_graph(5, 50, 2, 2, 3, isolated=6), 0, 2, 1, 4, 8, 3),
        partition_vector(crowded, 7, 3, 2, 8, 12, 4),
        partition_vector(planted_graph(3, 200, 4, 3, 1), 0xFEDCBA9876543210, 7, 2, 64, 6, 10),
        partition_vector(planted_graph(9, 60, 1, 1, 2), 1, 1, 3, 3, 10, 2),
        # Enough nodes for clusters on several levels.
        partition_vector(planted_graph(21, 500, 4, 3, 3), 5, 2, 2, 16, 30, 5),
        # Enough edges that random orders of the last level are tried, and one of them is the best start.
        partition_vector(planted_graph(2, 120, 6, 8, 3), 2, 2, 1, 8, 12, 3),
    ]
