"""What PyG makes of sampled neighbourhoods: the subgraph that their nodes induce, and one tree for each seed."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import torch
from torch_geometric.sampler import SamplerOutput

__all__ = ["Induced", "Relation", "forest"]


class Relation(NamedTuple):
    """The edges of a relation by destination: the types of its ends, and its lists."""

    source: Any
    destination: Any
    indptr: Any
    indices: Any


class Induced:
    """All edges of a dataset between the nodes of a batch, relation by relation.

    It keeps 4 bytes a node of the dataset for each thread that uses it: the position of each node in the batch.
    """

    def __init__(self, relations: Mapping[Any, Relation], nodes: Mapping[Any, int]) -> None:
        self._relations = {
            key: of._replace(indptr=np.asarray(of.indptr), indices=np.asarray(of.indices)) for key, of in relations.items()
        }
        self._nodes = nodes
        self._of_thread = threading.local()

    def __call__(self, nodes: Mapping[Any, torch.Tensor]) -> dict[Any, tuple[torch.Tensor, torch.Tensor, torch.Tensor]]:
        """Of each relation the sources, the destinations and the places of the edges between `nodes`, which are ids by
        type. Edges are in the order of their destinations.

        A node that stands twice has its edges at both places; as a source it is the first of them.
        """
        places = self._places()
        ids = {of: tensor.numpy() for of, tensor in nodes.items()}
        for of, array in ids.items():
            # Of equal ids numpy keeps the last assignment: the node's first place.
            places[of][array[::-1]] = np.arange(len(array), dtype=np.int32)[::-1]
        made = {
            key: _between(ids[relation.destination], places[relation.source], relation)
            for key, relation in self._relations.items()
        }
        for of, array in ids.items():
            places[of][array] = -1
        return made

    def _places(self) -> Any:
        """By type int32 [nodes of the dataset], -1 for those that are in no batch."""
        places = getattr(self._of_thread, "places", None)
        if places is None:
            places = {of: np.full(count, -1, np.int32) for of, count in self._nodes.items()}
            self._of_thread.places = places
        return places


def _between(targets: Any, places: Any, relation: Relation) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """The edges of a relation from sources that have a place to the targets."""
    first = relation.indptr[targets]
    degrees = relation.indptr[targets + 1] - first
    # Where each node's list begins among all of them.
    begins = np.cumsum(degrees) - degrees
    edges = np.repeat(first - begins, degrees) + np.arange(degrees.sum())
    columns = np.repeat(np.arange(len(targets)), degrees)
    rows = places[relation.indices[edges]]
    kept = rows >= 0
    return torch.from_numpy(rows[kept].astype(np.int64)), torch.from_numpy(columns[kept]), torch.from_numpy(edges[kept])


def forest(trees: list[SamplerOutput]) -> SamplerOutput:
    """The trees as one graph without edges between them, hop by hop, and in a hop tree by tree.

    `batch` says of each node which tree it is in.
    """
    nodes, edges = _hop_by_hop(trees, "num_sampled_nodes"), _hop_by_hop(trees, "num_sampled_edges")
    sizes = torch.tensor([tree.node.numel() for tree in trees])
    # Where each node has gone from its place in the row of trees.
    moved = torch.empty_like(nodes)
    moved[nodes] = torch.arange(nodes.numel())
    begins = torch.repeat_interleave(
        sizes.cumsum(0) - sizes, torch.tensor([tree.row.numel() for tree in trees])
    )
    out = SamplerOutput(
        node=torch.cat([tree.node for tree in trees])[nodes],
        row=moved[torch.cat([tree.row for tree in trees]) + begins][edges],
        col=moved[torch.cat([tree.col for tree in trees]) + begins][edges],
        edge=torch.cat([tree.edge for tree in trees])[edges],
        batch=torch.repeat_interleave(torch.arange(len(trees)), sizes)[nodes],
        num_sampled_nodes=[sum(counts) for counts in zip(*(tree.num_sampled_nodes for tree in trees))],
        num_sampled_edges=[sum(counts) for counts in zip(*(tree.num_sampled_edges for tree in trees))],
    )
    out.metadata = (None, None, None)
    return out


def _hop_by_hop(trees: list[SamplerOutput], counts: str) -> torch.Tensor:
    """What stands tree by tree, in each tree hop by hop, as positions in the order of hops."""
    sizes = torch.tensor([getattr(tree, counts) for tree in trees])
    hops = torch.arange(sizes.size(1)).expand_as(sizes)
    return torch.repeat_interleave(hops.reshape(-1), sizes.reshape(-1)).sort(stable=True).indices
