"""Batches of typed graphs as PyG's `HeteroData`."""

from __future__ import annotations

from typing import Any

from ..errors import Unavailable
from ..loader.typed_batch import TypedBatch

__all__ = ["to_hetero"]


def to_hetero(batch: TypedBatch) -> Any:
    """The batch as `torch_geometric.data.HeteroData`, see `TypedBatch.to_pyg`."""
    try:
        from torch_geometric.data import HeteroData
    except ImportError as error:
        raise Unavailable(f"batch.to_pyg() needs torch-geometric: pip install torch-geometric ({error})") from None
    if batch._core.expand != "new":
        raise ValueError(
            'to_pyg() requires Loader(..., expand="new"): a HeteroData has one set of neighbours a node; with '
            'expand="all" take batch.blocks'
        )
    node_types, edge_types = batch.metadata()
    data = HeteroData()
    for number, name in enumerate(node_types):
        nodes, store = batch[name], data[name]
        x = nodes.x
        if x is not None:
            store.x = x
        store.n_id = nodes.n_id
        store.num_nodes = nodes.num_nodes
        store.num_sampled_nodes = nodes.num_sampled_nodes
        if name in batch._metadata.seed_types:
            labels = nodes.y
            if labels is not None:
                store.y = labels
            if batch._core.has("input_id", number):
                store.input_id = nodes.input_id
            store.batch_size = nodes.num_seeds
    for number, names in enumerate(edge_types):
        edges, store = batch[names], data[names]
        store.edge_index = edges.edge_index
        if batch._core.has("edge_ids", number):
            store.e_id = edges.e_id
        if batch._core.has("edge_attr", number):
            store.edge_attr = edges.edge_attr
        store.num_sampled_edges = edges.num_sampled_edges
    return data
