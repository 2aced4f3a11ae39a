"""Datasets from torch_geometric's `Data`."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import Any

from .. import _core
from .._arrays import as_int64, integer, lent, readable
from ..datasets import Dataset, write_dataset
from ..errors import warn

# Names that PyG's datasets give their splits.
_SPLITS = {
    "train_idx": ("train_mask", "train_idx"),
    "valid_idx": ("val_mask", "valid_mask", "val_idx", "valid_idx"),
    "test_idx": ("test_mask", "test_idx"),
}


def is_pyg(value: Any) -> bool:
    """Whether it is a graph of torch_geometric's."""
    # A caller with such a graph has imported PyG; importing it here would cost seconds.
    module = sys.modules.get("torch_geometric.data")
    return module is not None and isinstance(value, module.Data | module.HeteroData)


def from_pyg(
    data: Any,
    path: str | os.PathLike[str],
    *,
    split: int | None = None,
    train_idx: Any = None,
    valid_idx: Any = None,
    test_idx: Any = None,
    regression: bool | None = None,
    rename: Mapping[str, str] | None = None,
    target: str | None = None,
    overwrite: bool = False,
    **meta: Any,
) -> Any:
    """Writes a torch_geometric `Data` as a dataset, or a `HeteroData` as a typed one, and opens it.

    An edge (source, target) of `edge_index` puts the source into the target's list: features flow along
    edges, as in PyG's layers. The edges of one target keep the order they have in `edge_index`. `adj_t`,
    whose rows are targets, is taken as it stands. Edges are not symmetrised; `edge_weight` (or the values of
    `adj_t`) becomes weight. `edge_attr`, numbers [edges] or [edges, features] in the order of `edge_index`, becomes
    the dataset's; where it is of no type that features have, it is left out with a `UvatrainWarning`. So does
    `edge_type`, integers [edges] from 0 to 65535.

    data: with `edge_index` or `adj_t`; `x` [nodes, features]; `y`, integers [nodes] or [nodes, 1], zeros and ones
        [nodes, classes], or other floats, targets of regression (without it the dataset has no labels); `train_mask`,
        `val_mask` and `test_mask`, or `train_idx` and so on.
    regression: whether `y` is targets of regression, [nodes] or [nodes, targets]. None: if its floats are not all
        whole numbers.
    split: which column of masks that have several. Such masks are refused without it.
    train_idx, valid_idx, test_idx: node ids or masks, in place of those of `data`.
    Everything else as in `write_dataset`.

    Of a `HeteroData`, each type and relation has the same attributes, all optional; `time` of nodes and edges, and other
    tensors with a row for each node or edge, are kept too. Each edge keeps its place in `edge_index` as `edge_id`. A type
    without tensors requires `num_nodes`.

    rename: other names for node types and relations that have characters which a dataset does not accept.
    target: the node type whose splits are seeds. None: the only type with a training split.
    """
    import torch
    from torch_geometric.data import Data, HeteroData

    if isinstance(data, HeteroData):
        splits = {"train_idx": train_idx, "valid_idx": valid_idx, "test_idx": test_idx}
        for key, value in {"split": split, "regression": regression, **splits}.items():
            if value is not None:
                raise ValueError(f"{key} is not supported with a HeteroData: set the attribute of a node type")
        from .hetero import from_hetero

        return from_hetero(data, path, rename=rename, target=target, overwrite=overwrite, meta=meta)
    if rename is not None or target is not None:
        raise ValueError(f"{'rename' if rename is not None else 'target'} requires a HeteroData")
    if not isinstance(data, Data):
        raise ValueError(f"data is a {type(data).__name__}: a torch_geometric.data.Data is needed")
    if data.get("x") is None:
        raise ValueError("data has no x: a dataset needs a row of features for each node")
    if not torch.is_tensor(data.x) or data.x.dim() != 2:
        found = f"{data.x.dtype} {list(data.x.shape)}" if torch.is_tensor(data.x) else type(data.x).__name__
        raise ValueError(
            f"data.x is {found}: float32, float16, bfloat16, float8_e4m3fn, uint8 or int8 [nodes, features] is needed"
        )
    split = None if split is None else integer("split", split)
    nodes = data.x.size(0)
    edge_attr = _edge_attr(data)
    edge_type = _edge_type(data)
    ordered = edge_attr is not None or edge_type is not None
    indptr, indices, weight, order = adjacency(data, nodes, ordered=ordered)
    given = {"train_idx": train_idx, "valid_idx": valid_idx, "test_idx": test_idx}
    splits = {key: _split(data, key, value, split) for key, value in given.items()}
    return write_dataset(
        path,
        indptr=indptr,
        indices=indices,
        features=data.x,
        labels=labels_of("data.y", data.get("y"), nodes, regression=regression),
        **splits,
        weight=weight,
        edge_attr=None if edge_attr is None else edge_attr[order],
        edge_type=None if edge_type is None else edge_type[order],
        overwrite=overwrite,
        **meta,
    )


def _edge_attr(data: Any) -> Any:
    """`data.edge_attr` as a table of features, in the order of `edge_index`; None where it is none."""
    import torch

    rows = data.get("edge_attr")
    if rows is None or data.get("edge_index") is None:
        return None
    shape = list(rows.shape) if torch.is_tensor(rows) else None
    if shape is None or len(shape) not in (1, 2) or shape[0] != data.edge_index.size(1) or 0 in shape[1:]:
        found = type(rows).__name__ if shape is None else str(shape)
        edges = data.edge_index.size(1)
        warn(f"data.edge_attr is left out: it is {found}, and a row for each of {edges} edges is needed")
        return None
    if not (rows.is_floating_point() or rows.dtype in (torch.uint8, torch.int8)):
        warn(f"data.edge_attr is left out: it is {rows.dtype}, no type of features. data.edge_attr.float() is one")
        return None
    if rows.is_floating_point() and not bool(rows.isfinite().all()):
        warn("data.edge_attr is left out: it has values that are not finite")
        return None
    return rows.detach().cpu().reshape(shape[0], -1)


def _edge_type(data: Any) -> Any:
    """`data.edge_type` in the order of `edge_index`; None where it has another shape or type."""
    import torch

    types = data.get("edge_type")
    if types is None or data.get("edge_index") is None:
        return None
    edges = data.edge_index.size(1)
    if not torch.is_tensor(types) or list(types.shape) != [edges] or types.is_floating_point():
        found = f"{types.dtype} {list(types.shape)}" if torch.is_tensor(types) else type(types).__name__
        warn(f"data.edge_type is left out: it is {found}, and integers [{edges}] are needed")
        return None
    types = types.detach().cpu().long()
    if edges > 0 and (types.min() < 0 or types.max() > 65535):
        warn(f"data.edge_type is left out: it has values outside 0 to 65535, {types.min()} to {types.max()}")
        return None
    return types


def adjacency(
    data: Any, nodes: int, *, weight_name: str = "edge_weight", ordered: bool = False
) -> tuple[Any, Any, Any, Any]:
    """indptr, indices and weight (or None) as a dataset has them.

    ordered: then also the position in `edge_index` of each entry of indices; None where they stand as in `adj_t`.
    """
    import torch

    adjacency = data.get("adj_t")
    if data.get("edge_index") is not None:
        edges = data.edge_index
        if edges.dim() != 2 or edges.size(0) != 2:
            raise ValueError(f"data.edge_index is {list(edges.shape)}: int64 [2, edges] is needed")
        weight = data.get(weight_name)
        indptr, indices, order = _core.lists_of_edges(
            readable("data.edge_index", edges[0]),
            readable("data.edge_index", edges[1]),
            nodes,
            ordered or weight is not None,
        )
        order = None if order is None else lent(order)
        if weight is not None:
            if weight.dim() != 1 or weight.size(0) != edges.size(1):
                raise ValueError(
                    f"data.{weight_name} is {list(weight.shape)}: [{edges.size(1)}] is needed, one an edge"
                )
            weight = weight.to(torch.float32).cpu()[order]
        return lent(indptr), lent(indices), weight, order
    if adjacency is None:
        raise ValueError("data has neither edge_index nor adj_t: a dataset needs the edges")
    if torch.is_tensor(adjacency):
        adjacency = adjacency if adjacency.layout == torch.sparse_csr else adjacency.to_sparse_csr()
        begins, columns, weight = adjacency.crow_indices(), adjacency.col_indices(), adjacency.values()
        # A sparse tensor has values in any case; PyG writes ones where an edge has none.
        weight = None if bool((weight == 1).all()) else weight
    else:
        begins, columns, weight = adjacency.csr()
    if begins.numel() != nodes + 1:
        raise ValueError(f"data.adj_t has {begins.numel() - 1} rows, but data.x has {nodes}")
    if nodes < 2**31 and (columns.numel() == 0 or 0 <= int(columns.min()) <= int(columns.max()) < nodes):
        columns = columns.to(torch.int32)
    return begins, columns, None if weight is None else weight.to(torch.float32), None


def _split(data: Any, key: str, given: Any, column: int | None) -> Any:
    if given is not None:
        return as_int64(key, given)
    for name in _SPLITS[key]:
        value = data.get(name)
        if value is None:
            continue
        if name.endswith("mask") and value.dim() == 2:
            columns = value.size(1)
            if column is None and columns != 1:
                raise ValueError(
                    f"data.{name} is {list(value.shape)}: a column for each of {columns} splits. split=0 takes the "
                    f"first column, split={columns - 1} the last"
                )
            if not 0 <= (column or 0) < columns:
                raise ValueError(f"split={column}: data.{name} has the columns 0 to {columns - 1}")
            value = value[:, column or 0]
        if name.endswith("mask"):
            nodes = data.x.size(0)
            if str(value.dtype) != "torch.bool" or list(value.shape) != [nodes]:
                raise ValueError(
                    f"data.{name} is {value.dtype} {list(value.shape)}: a mask is bool [{nodes}]; node ids are "
                    f"given as {key}=..."
                )
        return as_int64(f"data.{name}", value)
    if key == "train_idx":
        raise ValueError("data has neither train_mask nor train_idx: give train_idx=..., node ids or a mask")
    return ()


def labels_of(name: str, labels: Any, nodes: int, *, regression: bool | None = None) -> Any:
    """Labels as a dataset holds them: one a node as int64 (NaN is -1, none), several as uint8; None for none at all.

    Targets of regression are float32, in the shape that they have. regression: whether they are; None: if their
    floats are not all whole.
    """
    import numpy

    if labels is None:
        return None
    array = numpy.asarray(readable(name, labels))
    if regression is None:
        regression = array.dtype.kind == "f" and bool((numpy.isfinite(array) & (array != numpy.floor(array))).any())
    if regression:
        if array.ndim not in (1, 2) or array.shape[0] != nodes or array.dtype.kind not in "iufb":
            found = f"{name} is {array.dtype} {list(array.shape)}"
            raise ValueError(f"{found}: numbers [{nodes}] or [{nodes}, targets] are needed")
        return array.astype(numpy.float32)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    wanted = f"integers [{nodes}] (-1: none), or zeros and ones [{nodes}, classes]"
    if array.ndim not in (1, 2) or array.shape[0] != nodes or array.dtype.kind not in "iufb":
        raise ValueError(f"{name} is {array.dtype} {list(array.shape)}: {wanted} are needed")
    if array.ndim == 2:
        if not numpy.isin(array, (0, 1)).all():
            raise ValueError(f"{name} has other values than zeros and ones: {wanted} are needed")
        return array.astype(numpy.uint8)
    if array.dtype.kind == "f":
        whole = numpy.where(numpy.isnan(array), -1, array)
        if not (whole == numpy.floor(whole)).all():
            raise ValueError(f"{name} has values that are not whole: {wanted} are needed")
        array = whole
    return array.astype(numpy.int64)
