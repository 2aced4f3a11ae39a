"""Datasets: opened, and written from arrays. `uvatrain.interop` converts from PyG, networkx and OGB.

The format is that of docs/reference/data-format.md: a directory of .npy files.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any, overload

from .. import _core
from .._core import Dataset as Core
from .._arrays import integer, lent, readable
from ..errors import UvatrainError, warn
from .identity import Identity
from .typed_dataset import EdgeType, TypedDataset, write_typed_dataset

__all__ = ["Dataset", "write_dataset"]


class Dataset(Identity):
    """A dataset that is open, checked as the command line checks one. It can be read only.

    Its tables are tensors (numpy arrays where torch is not installed) that view the mapped files without a
    copy. torch can write to them; such changes stay in this process, and reach
    neither the file nor samplers and loaders.

    path: the directory.
    verify: "stamp" checks everything but feature values, and leaves the pass over the edges out where a stamp
        says that these very files have been checked; "full" makes that pass in any case; "features" looks at
        feature values too.
    """

    _core: Core

    def __init__(self, path: str | os.PathLike[str], *, verify: str = "stamp") -> None:
        self._core = Core(os.fspath(path), verify)
        self._tables: dict[str, Any] = {}

    @classmethod
    def _of(cls, core: Core) -> Dataset:
        """Over one that is open already."""
        dataset = cls.__new__(cls)
        dataset._core, dataset._tables = core, {}
        return dataset

    @property
    def num_nodes(self) -> int:
        """Nodes."""
        return self._core.num_nodes

    @property
    def num_edges(self) -> int:
        """Edges; both directions of an undirected edge count."""
        return self._core.num_edges

    @property
    def feature_dim(self) -> int:
        """Values in a feature row."""
        return self._core.feature_dim

    @property
    def feature_dtype(self) -> str:
        """The type of a feature value: float32, float16, bfloat16, float8_e4m3fn, uint8 or int8."""
        return self._core.feature_dtype

    @property
    def num_classes(self) -> int:
        """Classes: what meta.json says, or the largest label + 1. 0 where no node has a class."""
        return self._core.num_classes

    @property
    def num_targets(self) -> int | None:
        """Numbers to predict for a node, if labels are float32 targets of regression; else None."""
        return self._core.num_targets

    @property
    def multi_label(self) -> bool:
        """Whether a node may have several classes."""
        return self._core.multi_label

    @property
    def splits(self) -> dict[str, Any]:
        """The node ids of "train", "valid" and "test", int64, each in the order of its file."""
        return {"train": self.train_idx, "valid": self.valid_idx, "test": self.test_idx}

    @property
    def indptr(self) -> Any:
        """int64 [nodes + 1]: where each node's list of in-neighbours starts and ends in `indices`."""
        return self._table("indptr")

    @property
    def indices(self) -> Any:
        """int32 or int64 [edges]: the lists, one after the other."""
        return self._table("indices")

    @property
    def features(self) -> Any:
        """[nodes, feature_dim]: one row a node. UvatrainError where ranks have a part each: batches have the rows."""
        if self._core.own_rows is not None:
            raise UvatrainError("the feature table is divided among ranks: batches have rows of it")
        return self._table("features")

    @property
    def labels(self) -> Any:
        """int64 [nodes], -1 for none; or uint8 [nodes, classes], zeros and ones, if multi-label.

        Or float32 [nodes] or [nodes, targets], for regression. None in a dataset without labels.
        """
        return self._table("labels")

    @property
    def train_idx(self) -> Any:
        """int64 [any length]: the nodes to train on."""
        return self._table("train_idx")

    @property
    def valid_idx(self) -> Any:
        """int64 [any length]: the nodes to validate on."""
        return self._table("valid_idx")

    @property
    def test_idx(self) -> Any:
        """int64 [any length]: the nodes to test on."""
        return self._table("test_idx")

    @property
    def weight(self) -> Any:
        """float32 [edges]: edge weights in the order of `indices`; None where there are none."""
        return self._table("weight")

    @property
    def edge_attr(self) -> Any:
        """[edges, features]: one row an edge in the order of `indices`; None where there is no such table."""
        return self._table("edge_attr")

    @property
    def edge_type(self) -> Any:
        """uint16 [edges]: the type of each edge in the order of `indices`; None where edges have no types."""
        return self._table("edge_type")

    @property
    def orig_id(self) -> Any:
        """int64 [nodes]: the id each node had before the dataset was reordered; None where it never was."""
        return self._table("orig_id")

    def array(self, table: str) -> Any:
        """One of the tables by its name, for any library with DLPack; None where the dataset lacks it."""
        return self._core.array(table)

    def _table(self, name: str) -> Any:
        if name not in self._tables:
            array = self._core.array(name)
            self._tables[name] = None if array is None else lent(array)
        return self._tables[name]

    def __reduce__(self) -> Any:
        # A path, not gigabytes: the process that unpickles it maps the same files.
        return _reopen, (os.path.abspath(self.path), self.fingerprint)

    def __repr__(self) -> str:
        labels = f"{self.num_classes} classes" if self.num_targets is None else f"{self.num_targets} targets"
        return (
            f"uvatrain.Dataset({self.path!r}: {self.num_nodes} nodes, {self.num_edges} edges, "
            f"{self.feature_dim} features, {labels})"
        )


def opened(dataset: str | os.PathLike[str] | Dataset) -> Dataset:
    """A dataset, opened where it is given by its path."""
    return dataset if isinstance(dataset, Dataset) else Dataset(dataset)


def opened_any(path: str | os.PathLike[str]) -> Dataset | TypedDataset:
    """The dataset at a path: a `TypedDataset` if its batches have types, as those of `uvatrain.Loader` do."""
    typed = opened_typed(path)
    return Dataset(path) if typed is None else typed


def opened_typed(path: str | os.PathLike[str]) -> TypedDataset | None:
    """The dataset at a path if its batches have types; else None."""
    try:
        with open(os.path.join(path, "meta.json"), encoding="utf-8") as file:
            meta = json.load(file)
    except (OSError, ValueError):
        # The opening reports what is wrong.
        meta = None
    if not isinstance(meta, dict) or "version" not in meta:
        return None
    typed = TypedDataset(path)
    is_single = len(typed.node_types) == 1 and len(typed.edge_types) <= 1 and "features" in typed.nodes(typed.node_types[0])
    return None if is_single else typed


def _reopen(path: str, fingerprint: str) -> Dataset:
    dataset = Dataset(path)
    if dataset.fingerprint != fingerprint:
        raise ValueError(f"{path}: another dataset than the one that was pickled ({fingerprint})")
    return dataset


@overload
def write_dataset(
    path: str | os.PathLike[str],
    *,
    indptr: Any,
    indices: Any,
    features: Any,
    labels: Any = None,
    train_idx: Any,
    valid_idx: Any = (),
    test_idx: Any = (),
    weight: Any = None,
    edge_attr: Any = None,
    edge_type: Any = None,
    orig_id: Any = None,
    name: str | None = None,
    classes: int | None = None,
    overwrite: bool = False,
    **meta: Any,
) -> Dataset: ...


@overload
def write_dataset(
    path: str | os.PathLike[str],
    *,
    nodes: Mapping[str, Any],
    edges: Mapping[EdgeType, Any],
    target: str | None = None,
    name: str | None = None,
    overwrite: bool = False,
    **meta: Any,
) -> TypedDataset: ...


def write_dataset(
    path: str | os.PathLike[str],
    *,
    nodes: Any = None,
    edges: Any = None,
    target: str | None = None,
    name: str | None = None,
    overwrite: bool = False,
    **given: Any,
) -> Dataset | TypedDataset:
    """Writes a dataset from arrays, and opens it: of one type of nodes and edges, or a typed one.

    Arrays are numpy's, torch's, or of any library with DLPack or `__array__`. Types and shapes are checked
    before anything is written, everything else (ids in range, no node twice in a split, finite values, ...)
    before the directory gets its name: `path` is there and right, or not there. Don't change the arrays
    meanwhile.

    path: the directory to make. One that exists is refused.
    name, and anything else by its keyword: keys of meta.json, with JSON values.
    overwrite: replace a dataset at `path`, in one step. A directory that is not a whole dataset, or has other files in it,
        is never replaced.

    One type of nodes and edges, with `indptr`, `indices`, `features` and `train_idx`:

    indptr: integers [nodes + 1]; `indices[indptr[v]:indptr[v + 1]]` are the in-neighbours of v, whose
        features v aggregates.
    indices: integers [edges]. int32 stays, others become int64.
    features: float32, float16, bfloat16, float8_e4m3fn, uint8 or int8 [nodes, features]. float64 is narrowed to float32, with a
        `UvatrainWarning`.
    labels: integers [nodes], -1 for none; or uint8 or bool [nodes, classes] where a node may have several. Floats
        [nodes] or [nodes, targets] are targets of regression, float32 and finite; float64 is narrowed. None: the
        dataset has no labels, and everything but training a built-in model works.
    train_idx, valid_idx, test_idx: integers, node ids.
    weight: float32 [edges]. float64 is narrowed as features are.
    edge_attr: [edges, features], a row for each entry of `indices`; types as of features.
    edge_type: integers [edges], 0 to 65535: the type (relation) of each entry of `indices`.
    orig_id: integers [nodes], unique, below 2**40.
    classes: the number of classes, if labels do not have the largest one.

    Several types, with `nodes` and `edges`:

    nodes: for each node type its number of nodes, or a dict of arrays with the names above, each optional, and
        `num_nodes`, `classes`, `time` int64 [nodes], `train_time`, `valid_time`, `test_time`. Other names are arrays of
        your own, [nodes] or [nodes, columns], which are kept.
    edges: for each (source, name, destination) integers [2, edges], sources and destinations, or a dict with
        `edge_index`, or `indptr` and `indices`; and `weight`, `time`, `features`, `edge_type`, a row for each edge in its
        order. With `time`, lists are sorted by it. `reverse=True` adds a relation `rev_name` with all edges in the other
        direction, "same" adds them to the relation itself; both share features by `edge_id`.
    target: the type whose splits are seeds.

    Raises ValueError for arrays that do not form a dataset, FileExistsError, and OSError for what the system
    refuses.
    """
    if nodes is None and edges is None:
        if target is not None:
            raise ValueError("target requires nodes and edges")
        return _write_dataset(path, name=name, overwrite=overwrite, **given)
    if nodes is None or edges is None:
        raise ValueError("a typed dataset requires nodes and edges")
    known = [key for key in ("indptr", "indices", "features", "labels", "train_idx") if key in given]
    if known:
        raise ValueError(f"{known[0]} is not supported with nodes and edges: it belongs to a node type or relation")
    meta = given if name is None else {**given, "name": name}
    return write_typed_dataset(path, nodes, edges, target, _json(meta), bool(overwrite))


def _write_dataset(
    path: str | os.PathLike[str],
    *,
    indptr: Any,
    indices: Any,
    features: Any,
    labels: Any = None,
    train_idx: Any,
    valid_idx: Any = (),
    test_idx: Any = (),
    weight: Any = None,
    edge_attr: Any = None,
    edge_type: Any = None,
    orig_id: Any = None,
    name: str | None = None,
    classes: int | None = None,
    overwrite: bool = False,
    **meta: Any,
) -> Dataset:
    arrays = {
        "indptr": indptr,
        "indices": indices,
        "features": features,
        "labels": labels,
        "train_idx": train_idx,
        "valid_idx": valid_idx,
        "test_idx": test_idx,
        "weight": weight,
        "edge_attr": edge_attr,
        "edge_type": edge_type,
        "orig_id": orig_id,
    }
    given = [(key, readable(key, array)) for key, array in arrays.items() if array is not None]
    if name is not None:
        meta["name"] = name
    if classes is not None:
        meta["classes"] = integer("classes", classes)
    _core.write_dataset(os.fspath(path), given, _json(meta), bool(overwrite), warn)
    return Dataset(path)


def _json(meta: dict[str, Any]) -> str:
    for key, value in meta.items():
        try:
            json.dumps(value, allow_nan=False)
        except (TypeError, ValueError):
            kind = type(value).__name__
            raise ValueError(
                f"{key} is a {kind}: no argument of a dataset, and no JSON value for meta.json"
            ) from None
    return json.dumps(meta)
