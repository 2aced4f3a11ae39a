#!/usr/bin/env python3
"""uvatrain's Loader in a loop of Python, over a typed graph. See worker.py; `uvatrain bench` measures the rest."""
import numpy as np
import torch
import uvatrain

from worker import Typed, check_rows, check_typed, drained, serve


class Loop:
    def __init__(self, arguments):
        self.arguments, self.typed = arguments, Typed(arguments)
        self.kinds = list(self.typed.rows())

    def loader(self, request, expand):
        return uvatrain.Loader(self.arguments.graph, fanouts=request["fanouts"], batch_size=request["batch_size"], expand=expand,
                               drop_last=True, samplers=request["samplers"], seed=request["seed"])

    def count(self, batch):
        rows = [batch[kind].x for kind in self.kinds]
        edges = [block[relation].indices for block in batch.blocks for relation in self.typed.relations]
        return {"edges": sum(map(len, edges)), "input_nodes": sum(batch[kind].num_nodes for kind in self.typed.nodes),
                "bytes": sum(of.numel() * of.element_size() for of in rows)}

    def loading(self, request):
        with self.loader(request, request["expand"]) as loader:
            return drained(request, lambda: loader, self.count, 0)

    def check(self, request):
        """Of what hops expand makes no difference to where its edges are from, so that blocks of all nodes are compared."""
        with self.loader({"seed": 0, **request}, "all") as loader:
            batch = next(iter(loader))
            nodes = {kind: batch[kind].n_id.numpy() for kind in self.typed.nodes}
            hops = []
            for block in batch.blocks:
                destinations, of_relation = {}, {}
                for relation in self.typed.relations:
                    one = block[relation]
                    destinations[relation[2]] = nodes[relation[2]][: one.num_dst]
                    places = np.repeat(np.arange(one.num_dst), np.diff(one.indptr.numpy()))
                    of_relation[relation] = (nodes[relation[0]][one.indices.numpy()], places)
                hops.append((destinations, of_relation))
            for kind in self.kinds:
                check_rows(self.arguments, nodes[kind], batch[kind].x, f"nodes/{kind}/feat")
            return check_typed(self.typed, batch[self.typed.target].seeds, request["fanouts"], hops, "all")


def make(arguments):
    torch.set_num_threads(arguments.threads)
    loop = Loop(arguments)
    return {"check": loop.check, "loading": loop.loading}, {"uvatrain": uvatrain.__version__}


if __name__ == "__main__":
    serve(make)
