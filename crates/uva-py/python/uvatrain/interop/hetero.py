"""Typed datasets from PyG's `HeteroData`, and as one."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from .._arrays import as_int64
from ..datasets.typed_dataset import EdgeType, TypedDataset, write_typed_dataset
from ..errors import warn
from .from_pyg import adjacency, labels_of

__all__ = ["SharedRows", "edge_attributes", "from_hetero", "node_attributes", "to_pyg", "valid_names"]

# Names that PyG's datasets give splits.
_SPLITS = {
    "train_idx": ("train_mask", "train_idx"),
    "valid_idx": ("val_mask", "valid_mask", "val_idx", "valid_idx"),
    "test_idx": ("test_mask", "test_idx"),
}
_MOST_BYTES = 64


def from_hetero(
    data: Any,
    path: str | os.PathLike[str],
    *,
    rename: Mapping[str, str] | None,
    target: str | None,
    overwrite: bool,
    meta: dict[str, Any],
) -> TypedDataset:
    """Writes a `HeteroData`, for `from_pyg`."""
    rename = dict(rename or {})
    nodes = {}
    for name in data.node_types:
        store = data[name]
        place = f'data["{name}"]'
        tensors = {key: value for key, value in store.items() if hasattr(value, "shape")}
        if not tensors and store.get("num_nodes") is None:
            raise ValueError(f"{place} has neither tensors nor num_nodes: set {place}.num_nodes")
        count = int(store.num_nodes)
        splits = {key: _split(place, store, names, count) for key, names in _SPLITS.items()}
        read = {"x", "y", "time", "num_nodes", *(name for names in _SPLITS.values() for name in names)}
        nodes[_renamed("node type", name, rename)] = {
            "num_nodes": count,
            "features": store.get("x"),
            "labels": labels_of(f"{place}.y", store.get("y"), count),
            "time": store.get("time"),
            **splits,
            **_own(place, tensors, read, count, "nodes"),
        }
    edges = {}
    for source, name, destination in data.edge_types:
        ends = [_renamed("node type", end, rename) for end in (source, destination)]
        edges[ends[0], _renamed("relation", name, rename), ends[1]] = _edges(data, (source, name, destination))
    if target is None:
        # The seeds of a script are of the only type with a training split.
        trained = [name for name, arrays in nodes.items() if arrays.get("train_idx") is not None]
        target = trained[0] if len(trained) == 1 else None
    else:
        target = rename.get(target, target)
    return write_typed_dataset(path, nodes, edges, target, json.dumps(meta), overwrite, edge_ids=True)


def _edges(data: Any, key: tuple[str, str, str]) -> dict[str, Any]:
    store, place = data[key], f"data[{key!r}]"
    if store.get("edge_index") is not None:
        arrays = {"edge_index": store.edge_index}
        count = store.edge_index.size(1)
    else:
        indptr, indices, weight, _ = adjacency(store, int(data[key[2]].num_nodes))
        arrays = {"indptr": indptr, "indices": indices, "weight": weight}
        count = len(indices)
    if store.get("edge_weight") is not None:
        arrays["weight"] = store.edge_weight.float()
    rows = store.get("edge_attr")
    arrays["features"] = None if rows is None else rows.reshape(count, -1)
    arrays["time"] = store.get("time")
    arrays["edge_type"] = store.get("edge_type")
    tensors = {name: value for name, value in store.items() if hasattr(value, "shape")}
    read = {"edge_index", "adj_t", "edge_weight", "edge_attr", "time", "edge_type"}
    return {**arrays, **_own(place, tensors, read, count, "edges")}


def _own(place: str, tensors: dict[str, Any], read: set[str], rows: int, of: str) -> dict[str, Any]:
    """The other tensors with a row for each node or edge; a warning about each that is not kept."""
    kept = {}
    for name, value in tensors.items():
        if name in read:
            continue
        shape = list(getattr(value, "shape", ()))
        named = re.fullmatch(r"\w[\w-]*", name) is not None
        if named and len(shape) in (1, 2) and shape[0] == rows and 0 not in shape[1:]:
            kept[name] = value
        else:
            warn(f"{place}.{name} is skipped: it is {shape}, not a row for each of {rows} {of}")
    return kept


def _split(place: str, store: Any, names: tuple[str, ...], count: int) -> Any:
    for name in names:
        value = store.get(name)
        if value is None:
            continue
        if name.endswith("mask") and list(value.shape) != [count]:
            raise ValueError(f"{place}.{name} is {list(value.shape)}: a mask is bool [{count}]")
        return as_int64(f"{place}.{name}", value)
    return None


def _renamed(what: str, name: str, rename: dict[str, str]) -> str:
    """The name in the dataset. ValueError, with a name that is valid, for one that is not."""
    new = rename.get(name, name)
    if _valid(new) == new:
        return new
    raise ValueError(
        f'{what} "{new}": a name has letters, digits, _ and -, begins and ends with a letter or digit, holds no "__", '
        f'and has at most {_MOST_BYTES} bytes; rename={{"{name}": "{_valid(new)}"}}'
    )


def _valid(name: str) -> str:
    """The name, or one like it that a dataset may have."""
    if re.fullmatch(r"[^\W_]([\w-]*[^\W_])?", name) and "__" not in name and len(name.encode()) <= _MOST_BYTES:
        return name
    valid = re.sub(r"__+", "_", re.sub(r"[^\w-]+", "-", name)).strip("_-").encode()[:_MOST_BYTES]
    return valid.decode(errors="ignore").strip("_-") or "other"


def valid_names(names: Iterable[str]) -> dict[str, str]:
    """For each of the names the name that a dataset may have for it, all different."""
    made: dict[str, str] = {}
    for name in dict.fromkeys(names):
        valid, number = _valid(name), 1
        while valid in made.values():
            number += 1
            valid = f"{_valid(name)[:14]}-{number}"
        made[name] = valid
    return made


def to_pyg(dataset: TypedDataset) -> Any:
    """The dataset as a `HeteroData`, for `TypedDataset.to_pyg`."""
    import torch
    from torch_geometric.data import HeteroData

    data = HeteroData()
    for node_type, count in dataset.num_nodes.items():
        data[node_type].num_nodes = count
        data[node_type].update(node_attributes(dataset, node_type))
    for edge_type, (attributes, shared) in edge_attributes(dataset).items():
        lists = dataset.edges(edge_type)
        degrees = lists["indptr"].diff()
        owners = torch.repeat_interleave(torch.arange(len(degrees)), degrees)
        data[edge_type].edge_index = torch.stack([lists["indices"].long(), owners])
        data[edge_type].update(attributes)
        if shared is not None:
            data[edge_type].edge_attr = shared.rows[shared.edge_id]
    return data


def node_attributes(dataset: TypedDataset, node_type: str) -> dict[str, Any]:
    """The arrays of a node type by the names that PyG's datasets give them."""
    names = {"features": "x", "labels": "y", "valid_idx": "val_idx"}
    return {names.get(name, name): array for name, array in dataset.nodes(node_type).items()}


class SharedRows(NamedTuple):
    """Features of edges in a table whose rows are found by `edge_id`."""

    rows: Any
    edge_id: Any


def edge_attributes(dataset: TypedDataset) -> dict[EdgeType, tuple[dict[str, Any], SharedRows | None]]:
    """The arrays of each relation, a row for each edge, by PyG's names; and its `edge_attr` where that is another table."""
    entries = {tuple(entry["type"]): entry for entry in dataset.meta.get("edges", [])}
    names = {"features": "edge_attr", "weight": "edge_weight", "edge_id": "e_id"}
    made = {}
    for edge_type in dataset.edge_types:
        arrays, entry, shared = dataset.edges(edge_type), entries.get(edge_type, {}), None
        owner = tuple(entry["feat_of"]) if "feat_of" in entry else edge_type
        if owner != edge_type or entry.get("feat_rows") == "edge_id":
            rows = dataset.edges((owner[0], owner[1], owner[2])).get("features")
            shared = None if rows is None else SharedRows(rows, arrays["edge_id"])
            arrays.pop("features", None)
        kept = {name: array for name, array in arrays.items() if name not in ("indptr", "indices")}
        made[edge_type] = {names.get(name, name): array for name, array in kept.items()}, shared
    return made
