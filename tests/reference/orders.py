"""Orders of training seeds that follow the graph, as docs/spec/reproducible-batches.md defines them."""

from words import bounded, words_of


def order_stream(seed, node, layer, batch, epoch):
    return words_of(
        dict(seed=seed, node=node, purpose="proximity", layer=layer, batch=batch, epoch=epoch, split="train")
    )


def lists_of(graph):
    """The list of each original id, with original ids in it."""
    original = graph["orig_id"] or list(range(len(graph["indptr"]) - 1))
    lists = [None] * len(original)
    for node, own in enumerate(original):
        begin, end = graph["indptr"][node], graph["indptr"][node + 1]
        lists[own] = [original[neighbor] for neighbor in graph["indices"][begin:end]]
    return lists


def sequence(graph, train, both, seed, number):
    """Positions of the training split, breadth first from roots that are drawn."""
    original = graph["orig_id"] or list(range(len(graph["indptr"]) - 1))
    lists = lists_of(graph)
    named_by = [[] for _ in lists]
    for node, neighbors in enumerate(lists):
        for neighbor in neighbors:
            named_by[neighbor].append(node)
    seeds = [original[node] for node in train]
    keyed = []
    for position in range(len(train)):
        words = order_stream(seed, position, 0, number, 0)
        low, high = next(words), next(words)
        keyed.append((high << 32 | low, position))
    visited, positions = set(), []
    for _, root in sorted(keyed):
        queue = [] if seeds[root] in visited else [seeds[root]]
        visited.update(queue)
        while queue:
            node = queue.pop(0)
            positions += [position for position, seed_node in enumerate(seeds) if seed_node == node]
            for neighbor in lists[node] + (named_by[node] if both else []):
                if neighbor not in visited:
                    visited.add(neighbor)
                    queue.append(neighbor)
    return positions


def in_turns(sequences, seed, epoch):
    """An epoch over sequences: each begins somewhere else, and they give a position each, alternately."""
    count = len(sequences[0])
    rotated = []
    for number, positions in enumerate(sequences):
        begin = bounded(order_stream(seed, number, 1, 0, epoch), count)
        rotated.append(positions[begin:] + positions[:begin])
    order = []
    while len(order) < count:
        given = next(position for position in rotated[len(order) % len(rotated)] if position not in order)
        order.append(given)
    return order
