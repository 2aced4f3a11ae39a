"""Graphs of several types of nodes and edges: datasets as PyG's data, and other data as temporary datasets."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch_geometric import data as pyg_data
from torch_geometric.data.remote_backend_utils import num_nodes as nodes_of_stores

from ..datasets.typed_dataset import EdgeType, TypedDataset, write_typed_dataset
from ..interop.from_pyg import adjacency
from ..interop.hetero import SharedRows, edge_attributes, node_attributes, valid_names
from ..interop.in_memory import kept_for, written_for
from .graph import is_table

__all__ = ["attributes_of", "of_hetero_data", "of_stores"]

#: What of a node type are lists of seeds, and no attributes of nodes.
_OF_SPLITS = [f"{split}_{what}" for split in ("train", "val", "valid", "test") for what in ("idx", "time")]


def attributes_of(dataset: TypedDataset) -> tuple[pyg_data.HeteroData, dict[EdgeType, SharedRows]]:
    """The attributes of a dataset's nodes and edges, which view its files, and those in tables that `edge_id` looks up.

    Edges stay in the dataset: each `edge_index` says how many there are, and takes no memory.
    """
    data, shared = pyg_data.HeteroData(), {}
    for name, count in dataset.num_nodes.items():
        data[name].num_nodes = count
        arrays = node_attributes(dataset, name)
        data[name].update({key: array for key, array in arrays.items() if key not in _OF_SPLITS})
    for names, (attributes, table) in edge_attributes(dataset).items():
        data[names].edge_index = torch.zeros((2, 1), dtype=torch.int64).expand(2, dataset.num_edges[names])
        data[names].update(attributes)
        if table is not None:
            shared[names] = table
    return data, shared


def of_hetero_data(data: pyg_data.HeteroData, weight_attr: str | None) -> tuple[dict[str, int], TypedDataset]:
    """The numbers of nodes by type, and a dataset with the edges, their weights, and each `x` that it can hold."""
    num_nodes = _num_nodes(data)
    features = {name: data[name].x for name, count in num_nodes.items() if is_table(data[name].get("x"), count)}
    tensors: dict[Any, Any] = {("x", name): x for name, x in features.items()}
    for names in data.edge_types:
        of = {key: data[names].get(key) for key in ("edge_index", "adj_t", *filter(None, [weight_attr]))}
        tensors.update(((key, names), tensor) for key, tensor in of.items() if tensor is not None)
    if weight_attr is not None and not any(key == weight_attr for key, _ in tensors):
        raise ValueError(f"weight_attr={weight_attr!r}: no edges in data have this attribute")

    def edges() -> dict[EdgeType, dict[str, Any]]:
        return {names: _edges(data[names], num_nodes[names[2]], weight_attr) for names in data.edge_types}

    dataset: TypedDataset = kept_for(
        tensors, lambda: _written(num_nodes, features, edges), "NeighborLoader", weight_attr, *num_nodes.items()
    )
    return num_nodes, dataset


def of_stores(features: Any, edges: Any) -> tuple[dict[str, int], list[EdgeType], TypedDataset]:
    """The numbers of nodes by type, the relations, and a dataset with their edges, of a feature store and a graph store."""
    edge_types = list(dict.fromkeys(attr.edge_type for attr in edges.get_all_edge_attrs()))
    groups = [attr.group_name for attr in features.get_all_tensor_attrs() if isinstance(attr.group_name, str)]
    node_types = dict.fromkeys([*groups, *(end for names in edge_types for end in (names[0], names[2]))])
    num_nodes = {name: int(nodes_of_stores(features, edges, name)) for name in node_types}
    sources, ends, order = edges.csc()

    def lists() -> dict[EdgeType, dict[str, Any]]:
        made = {}
        for names in edge_types:
            indptr = ends[names]
            # A store may omit the last nodes, which have no edges.
            missing = num_nodes[names[2]] + 1 - indptr.numel()
            indptr = torch.cat([indptr, indptr[-1:].expand(missing)])
            made[names] = {"indptr": indptr, "indices": sources[names], "edge_id": order[names]}
        return made

    return num_nodes, edge_types, _written(num_nodes, {}, lists)


def _num_nodes(data: pyg_data.HeteroData) -> dict[str, int]:
    if not data.edge_types:
        raise ValueError("data is a HeteroData without edges: there are no neighbours to sample")
    counts = {}
    for name in dict.fromkeys([*data.node_types, *(end for of in data.edge_types for end in (of[0], of[2]))]):
        count = data[name].num_nodes if name in data.node_types else None
        if count is None:
            raise ValueError(f'data["{name}"] has neither tensors nor num_nodes: set data["{name}"].num_nodes')
        counts[name] = int(count)
    return counts


def _edges(store: Any, destinations: int, weight_attr: str | None) -> dict[str, Any]:
    made: dict[str, Any] = {"edge_index": store.get("edge_index")}
    if made["edge_index"] is None:
        made["indptr"], made["indices"], _, _ = adjacency(store, destinations)
    if weight_attr is not None and store.get(weight_attr) is not None:
        made["weight"] = torch.as_tensor(store[weight_attr]).float()
    return made


def _written(
    num_nodes: dict[str, int], features: dict[str, Any], edges: Callable[[], dict[EdgeType, dict[str, Any]]]
) -> TypedDataset:
    """A temporary dataset whose names are those of the graph, or others that a dataset may have."""

    def write(path: str) -> TypedDataset:
        lists = edges()
        types, relations = valid_names(num_nodes), valid_names(names[1] for names in lists)
        nodes: dict[str, dict[str, Any]] = {types[name]: {"num_nodes": count} for name, count in num_nodes.items()}
        for name, x in features.items():
            nodes[types[name]]["features"] = x
        named = {(types[names[0]], relations[names[1]], types[names[2]]): of for names, of in lists.items()}
        return write_typed_dataset(path, nodes, named, None, "{}", False, edge_ids=True)

    return written_for("NeighborLoader", write)
