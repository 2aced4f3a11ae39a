"""Our sampler of typed graphs as PyG's loaders call one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch_geometric.sampler import BaseSampler, EdgeSamplerInput, HeteroSamplerOutput, NodeSamplerInput

from .sampler import refuse_induced_trees, subgraph_type_of
from .stores import ids_of
from .subgraph import Induced, Relation, typed_forest

if TYPE_CHECKING:
    from .hetero_graph import HeteroGraph

__all__ = ["HeteroSampler"]


class HeteroSampler(BaseSampler):
    """Neighbours of seed nodes of one type, picked as `NeighborSampler` picks them, in each relation.

    Each call makes a `uvatrain.Loader` of one batch, which takes longer than sampling it: a loop has a loader of its own.

    disjoint: sample a tree of its own for each seed, which is a batch of that loader.
    """

    def __init__(
        self,
        graph: HeteroGraph,
        fanouts: dict[str, list[int]],
        *,
        replace: bool,
        subgraph_type: Any,
        disjoint: bool = False,
    ) -> None:
        self.graph = graph
        self.fanouts = fanouts
        self.replace = bool(replace)
        self.subgraph_type = subgraph_type_of(subgraph_type)
        self.disjoint = bool(disjoint)
        refuse_induced_trees(self.disjoint, self.subgraph_type)
        self._induced: Induced | None = None
        if self.subgraph_type == "induced":
            lists = {names: graph.dataset.edges(of) for names, of in graph.relations.items()}
            relations = {
                names: Relation(names[0], names[2], of["indptr"], of["indices"]) for names, of in lists.items()
            }
            self._induced = Induced(relations, graph.num_nodes)

    def shaped(self, out: HeteroSamplerOutput) -> HeteroSamplerOutput:
        """The subgraph of the requested type, of picks whose edges are positions in the dataset's lists."""
        if self._induced is not None:
            edges, whole = self._induced(out.node), out
            row, col, edge = ({names: parts[part] for names, parts in edges.items()} for part in range(3))
            out = HeteroSamplerOutput(node=whole.node, row=row, col=col, edge=edge)
            out.metadata = whole.metadata
        for names, order in self.graph.order.items():
            out.edge[names] = order.index_select(0, out.edge[names])
        return out.to_bidirectional() if self.subgraph_type == "bidirectional" else out

    def sample_from_nodes(self, index: NodeSamplerInput, **kwargs: Any) -> HeteroSamplerOutput:
        """What PyG's loaders call. Seeds come first and in their order; a node given twice is there twice."""
        if index.time is not None:
            raise ValueError("input_time is not supported: neighbours are picked regardless of time")
        seeds = ids_of("seeds", index.node)
        options = self.graph.loader_options(index.input_type, self.fanouts, False)
        seed = int(torch.randint(2**63 - 1, ()))
        options.update(batch_size=1 if self.disjoint else seeds.numel(), replace=self.replace, prepare="whole", samplers=1)
        with self.graph.loader(seeds, seed, **options) as loader:
            trees = [self._tree(batch) for batch in loader]
        out = typed_forest(trees) if self.disjoint else trees[0]
        out.metadata = (index.input_id, index.time)
        return self.shaped(out)

    def _tree(self, batch: Any) -> HeteroSamplerOutput:
        out: HeteroSamplerOutput = self.graph.sampled(batch, False).out
        # The slot becomes another batch's.
        out.edge = {names: places if places is None else places.clone() for names, places in out.edge.items()}
        return out

    def sample_from_edges(self, index: EdgeSamplerInput, neg_sampling: Any = None) -> HeteroSamplerOutput:
        """Refused: seeds are nodes."""
        raise NotImplementedError(
            "edges as seeds (LinkNeighborLoader) are not supported: seeds are nodes (NeighborLoader)"
        )

    def __reduce__(self) -> Any:
        options = {"replace": self.replace, "subgraph_type": self.subgraph_type, "disjoint": self.disjoint}
        return _remake, (self.graph, self.fanouts, options)


def _remake(graph: HeteroGraph, fanouts: dict[str, list[int]], options: dict[str, Any]) -> HeteroSampler:
    return HeteroSampler(graph, fanouts, **options)
