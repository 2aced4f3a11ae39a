"""What PyG makes of sampled neighbourhoods: the subgraph that their nodes induce, and one tree for each seed."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import torch
from torch_geometric.sampler import HeteroSamplerOutput, SamplerOutput

__all__ = ["Induced", "Relation", "forest", "typed_forest"]


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
    # Of one node type and one relation, which have no names.
    edges = (None, None, None)
    typed = [
        HeteroSamplerOutput(
            node={None: tree.node},
            row={edges: tree.row},
            col={edges: tree.col},
            edge={edges: tree.edge},
            num_sampled_nodes={None: tree.num_sampled_nodes},
            num_sampled_edges={edges: tree.num_sampled_edges},
        )
        for tree in trees
    ]
    joined: Any = typed_forest(typed)
    out = SamplerOutput(
        node=joined.node[None],
        row=joined.row[edges],
        col=joined.col[edges],
        edge=joined.edge[edges],
        batch=joined.batch[None],
        num_sampled_nodes=joined.num_sampled_nodes[None],
        num_sampled_edges=joined.num_sampled_edges[edges],
    )
    out.metadata = (None, None, None)
    return out


def typed_forest(trees: list[HeteroSamplerOutput]) -> HeteroSamplerOutput:
    """As `forest`, for each node type and relation."""
    first: Any = trees[0]
    out = HeteroSamplerOutput({}, {}, {}, {}, batch={}, num_sampled_nodes={}, num_sampled_edges={})
    # By type, where each node has gone from its place in the row of trees, and where each tree begins there.
    moved: dict[Any, torch.Tensor] = {}
    begins: dict[Any, torch.Tensor] = {}
    for of in first.node:
        counts = torch.tensor([tree.num_sampled_nodes[of] for tree in trees])
        order, sizes = _hop_by_hop(counts), counts.sum(1)
        moved[of], begins[of] = torch.empty_like(order), sizes.cumsum(0) - sizes
        moved[of][order] = torch.arange(order.numel())
        out.node[of] = torch.cat([tree.node[of] for tree in trees])[order]
        out.batch[of] = torch.repeat_interleave(torch.arange(len(trees)), sizes)[order]
        out.num_sampled_nodes[of] = counts.sum(0).tolist()
    for names in first.row:
        counts = torch.tensor([tree.num_sampled_edges[names] for tree in trees])
        order, sizes = _hop_by_hop(counts), counts.sum(1)
        for end, found in ((0, "row"), (2, "col")):
            places = torch.cat([getattr(tree, found)[names] for tree in trees])
            places = places + torch.repeat_interleave(begins[names[end]], sizes)
            getattr(out, found)[names] = moved[names[end]][places][order]
        out.edge[names] = torch.cat([tree.edge[names] for tree in trees])[order]
        out.num_sampled_edges[names] = counts.sum(0).tolist()
    return out


def _hop_by_hop(counts: torch.Tensor) -> torch.Tensor:
    """What stands tree by tree, in each tree hop by hop, as positions in the order of hops. counts: [trees, hops]."""
    hops = torch.arange(counts.size(1)).expand_as(counts)
    return torch.repeat_interleave(hops.reshape(-1), counts.reshape(-1)).sort(stable=True).indices
