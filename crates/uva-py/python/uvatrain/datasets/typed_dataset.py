"""Typed datasets: several types of nodes and edges, opened, and written from arrays."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

from .. import _core
from .._arrays import integer, lent, readable
from ..errors import warn
from .identity import Identity

__all__ = ["EdgeType", "TypedDataset", "write_typed_dataset"]

EdgeType = tuple[str, str, str]

# The arrays of a node type and of a relation, and the files that they are in.
_OF_NODES = {
    "features": "feat.npy",
    "labels": "label.npy",
    "train_idx": "train_idx.npy",
    "valid_idx": "valid_idx.npy",
    "test_idx": "test_idx.npy",
    "time": "time.npy",
    "train_time": "train_time.npy",
    "valid_time": "valid_time.npy",
    "test_time": "test_time.npy",
    "orig_id": "orig_id.npy",
}
_OF_EDGES = {
    "indptr": "indptr.npy",
    "indices": "indices.npy",
    "weight": "weight.npy",
    "time": "time.npy",
    "edge_type": "edge_type.npy",
    "edge_id": "edge_id.npy",
    "features": "feat.npy",
}


class TypedDataset(Identity):
    """A dataset with several types of nodes and edges, open and checked. It can be read only.

    Its arrays are tensors (numpy arrays where torch is not installed) that view the mapped files without a copy, as
    those of `Dataset`.

    path: the directory.
    verify: as for `Dataset`.
    """

    _core: _core.TypedDataset

    def __init__(self, path: str | os.PathLike[str], *, verify: str = "stamp") -> None:
        self._core = _core.TypedDataset(os.fspath(path), verify)
        self._arrays: dict[tuple[str, int, str], Any] = {}

    @property
    def target(self) -> str | None:
        """The type whose splits are seeds; None if there are several and meta.json names no target."""
        return self._core.target

    @property
    def node_types(self) -> list[str]:
        """The names of the node types, in the order of meta.json."""
        return [name for name, _, _ in self._core.node_types]

    @property
    def edge_types(self) -> list[EdgeType]:
        """Source, name and destination of each relation, in the order of meta.json."""
        return [(names[0], names[1], names[2]) for names, _ in self._core.edge_types]

    @property
    def num_nodes(self) -> dict[str, int]:
        """The number of nodes of each type."""
        return {name: nodes for name, nodes, _ in self._core.node_types}

    @property
    def num_classes(self) -> dict[str, int]:
        """The number of classes of each type; 0 where no node has a class."""
        return {name: classes for name, _, classes in self._core.node_types}

    @property
    def num_edges(self) -> dict[EdgeType, int]:
        """The number of edges of each relation."""
        return {(names[0], names[1], names[2]): edges for names, edges in self._core.edge_types}

    def nodes(self, node_type: str) -> dict[str, Any]:
        """The arrays of a node type, by the names that `write_dataset` takes; only those that there are.

        Arrays of the user's own have the names of their files without `.npy`.
        """
        number = self._number("node type", node_type, self.node_types)
        files = {name: file for name, file in _OF_NODES.items()}
        files.update({file.removesuffix(".npy"): file for file in self._core.other_arrays(number)})
        return self._found("nodes", number, files)

    def edges(self, edge_type: EdgeType) -> dict[str, Any]:
        """The arrays of a relation: `indptr` and `indices`, and those that there are of the others of `write_dataset`.

        `edge_id` has the row of each edge in the table that it was written from. With `feat_rows` or `feat_of` in
        meta.json, an edge has the row of features that its `edge_id` names.
        """
        return self._found("edges", self._number("relation", edge_type, self.edge_types), dict(_OF_EDGES))

    def to_pyg(self) -> Any:
        """The dataset as `torch_geometric.data.HeteroData`.

        `x`, `y`, `time` and arrays of the user's own view the mapped files; so do `edge_attr`, `edge_weight` and
        `time` of edges, except an `edge_attr` that two directions share. `train_idx`, `val_idx` and `test_idx` are the
        splits. `edge_index` int64 [2, edges] is a copy, in the order of the lists; `e_id` is the `edge_id` of each edge.
        """
        from ..interop.hetero import to_pyg

        return to_pyg(self)

    def _number(self, what: str, name: Any, names: list[Any]) -> int:
        if name not in names:
            raise KeyError(f"{what} {name!r}: expected one of {', '.join(map(str, names))}")
        return names.index(name)

    def _found(self, group: str, number: int, files: dict[str, str]) -> dict[str, Any]:
        found = {name: self._array(group, number, file) for name, file in files.items()}
        return {name: array for name, array in found.items() if array is not None}

    def _array(self, group: str, number: int, file: str) -> Any:
        key = (group, number, file)
        if key not in self._arrays:
            of = self._core.node_array if group == "nodes" else self._core.edge_array
            array = of(number, file)
            self._arrays[key] = None if array is None else lent(array)
        return self._arrays[key]

    def __reduce__(self) -> Any:
        return TypedDataset, (os.path.abspath(self.path),)

    def __repr__(self) -> str:
        nodes = ", ".join(f"{name} {count}" for name, count in self.num_nodes.items())
        edges = sum(self.num_edges.values())
        return f"uvatrain.TypedDataset({self.path!r}: {nodes}; {len(self.edge_types)} relations, {edges} edges)"


def write_typed_dataset(
    path: str | os.PathLike[str],
    nodes: Any,
    edges: Any,
    target: str | None,
    meta: str,
    overwrite: bool,
    edge_ids: bool = False,
) -> TypedDataset:
    """Writes the dataset of `write_dataset(nodes=, edges=)`. edge_ids: keep the row of each edge in any case."""
    if not isinstance(nodes, Mapping) or not isinstance(edges, Mapping):
        raise ValueError("nodes and edges are mappings: node types to arrays, and relations to arrays")
    types = [_nodes(name, value) for name, value in nodes.items()]
    relations = [(*_edges(key, value), edge_ids) for key, value in edges.items()]
    _core.write_typed_dataset(os.fspath(path), (types, relations, target), meta, overwrite, warn)
    return TypedDataset(path)


def _nodes(name: Any, value: Any) -> tuple[str, int | None, int | None, list[tuple[str, Any]]]:
    place = f"nodes[{name!r}]"
    if not isinstance(name, str):
        raise ValueError(f"{place}: the name of a node type is a string")
    if not isinstance(value, Mapping):
        return name, integer(place, value), None, []
    given = dict(value)
    num, classes = given.pop("num_nodes", None), given.pop("classes", None)
    arrays = [(key, readable(f"{place}[{key!r}]", array)) for key, array in given.items() if array is not None]
    return (
        name,
        None if num is None else integer(f"{place}['num_nodes']", num),
        None if classes is None else integer(f"{place}['classes']", classes),
        arrays,
    )


def _edges(key: Any, value: Any) -> tuple[list[str], list[tuple[str, Any]], str | None]:
    place = f"edges[{key!r}]"
    if not isinstance(key, tuple) or len(key) != 3 or not all(isinstance(name, str) for name in key):
        raise ValueError(f"{place}: a relation is a tuple of source, name and destination")
    given = dict(value) if isinstance(value, Mapping) else {"edge_index": value}
    reverse = given.pop("reverse", None)
    if reverse not in (None, False, True, "same"):
        raise ValueError(f'{place}: reverse={reverse!r}: expected True, False or "same"')
    how = None if not reverse else "separate" if reverse is True else "same"
    arrays = [(name, readable(f"{place}[{name!r}]", array)) for name, array in given.items() if array is not None]
    return list(key), arrays, how
