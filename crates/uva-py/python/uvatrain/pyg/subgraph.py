"""What PyG makes of sampled neighbourhoods: the subgraph that their nodes induce, and one tree for each seed."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import torch
from torch_geometric.sampler import SamplerOutput

from ..datasets import Dataset

__all__ = ["Induced", "forest"]


class Induced:
    """All edges of a dataset between the nodes of a batch.

    It keeps 4 bytes a node of the dataset for each thread that uses it: the position of each node in the batch.
    """

    def __init__(self, dataset: Dataset) -> None:
        self._indptr = np.asarray(dataset.indptr)
        self._indices = np.asarray(dataset.indices)
        self._of_thread = threading.local()

    def __call__(self, out: SamplerOutput) -> SamplerOutput:
        """The nodes of `out` with every edge between them, in the order of their targets.

        A node that stands twice has its edges at both places; as a source it is the first of them.
        """
        nodes = out.node.numpy()
        first = self._indptr[nodes]
        degrees = self._indptr[nodes + 1] - first
        # Where each node's list begins among all of them.
        begins = np.cumsum(degrees) - degrees
        edges = np.repeat(first - begins, degrees) + np.arange(degrees.sum())
        targets = np.repeat(np.arange(len(nodes)), degrees)
        places = self._places()
        # Of equal ids numpy keeps the last assignment: the node's first place.
        places[nodes[::-1]] = np.arange(len(nodes), dtype=places.dtype)[::-1]
        sources = places[self._indices[edges]]
        places[nodes] = -1
        kept = sources >= 0
        made = SamplerOutput(
            node=out.node,
            row=torch.from_numpy(sources[kept].astype(np.int64)),
            col=torch.from_numpy(targets[kept]),
            edge=torch.from_numpy(edges[kept]),
            batch=out.batch,
        )
        made.metadata = out.metadata
        return made

    def _places(self) -> Any:
        """int32 [nodes of the dataset], -1 for those that are in no batch."""
        places = getattr(self._of_thread, "places", None)
        if places is None:
            places = self._of_thread.places = np.full(len(self._indptr) - 1, -1, np.int32)
        return places


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
