#!/usr/bin/env python3
"""The neighbour sampler of Kumo's relational engine. See worker.py.

It gives each seed a tree of its own, so that a node stands once in each tree that reaches it.
"""
import importlib.metadata

import numpy as np
from kumo_relational_engine.relationallib import NeighborSampler

from worker import TREE_BITS, Batches, Typed, check_typed, hops_of_new_nodes, measured, serve


class Kumo:
    def __init__(self, arguments):
        self.typed = Typed(arguments)
        self.seeds = self.typed.seeds()
        self.names = {"__".join(relation): relation for relation in self.typed.relations}
        # The sampler has pointers into the arrays, and does not keep them.
        self.lists = {name: self.typed.lists(relation, np.int64) for name, relation in self.names.items()}
        self.sampler = NeighborSampler(list(self.typed.nodes), self.typed.relations,
                                       {name: of[0] for name, of in self.lists.items()},
                                       {name: of[1] for name, of in self.lists.items()}, {}, 1)

    def sample(self, request, seeds):
        """Sources and destinations of the edges by relation, and nodes and their trees by type."""
        return self.sampler.sample(dict.fromkeys(self.names, request["fanouts"]), {}, self.typed.target, seeds,
                                   np.zeros(len(seeds), np.int64))[:4]

    def sampling(self, request):
        batches = Batches(self.seeds, request["batch_size"])

        def step(number):
            sources, _, nodes, _ = self.sample(request, batches[number])
            return {"edges": sum(map(len, sources.values())), "input_nodes": sum(map(len, nodes.values()))}

        return measured(request, step)

    def check(self, request):
        seeds = Batches(self.seeds, request["batch_size"])[2]
        sources, destinations, nodes, trees = self.sample(request, seeds)
        nodes = {kind: trees[kind] << TREE_BITS | nodes[kind] for kind in self.typed.nodes}
        edges = {relation: (sources[name], destinations[name]) for name, relation in self.names.items()}
        hops = hops_of_new_nodes(self.typed, request["fanouts"], len(seeds), nodes, edges)
        roots = np.arange(len(seeds)) << TREE_BITS | seeds
        return check_typed(self.typed, roots, request["fanouts"], hops, "new")


def make(arguments):
    kumo = Kumo(arguments)
    return {"check": kumo.check, "sampling": kumo.sampling}, {
        name: importlib.metadata.version(name) for name in ("kumo-relational-engine", "numpy")}


if __name__ == "__main__":
    serve(make)
