"""A dataset's tables as PyG's feature store and graph store."""

from __future__ import annotations

import math
import os
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch_geometric import data as pyg_data
from torch_geometric.data.feature_store import TensorAttr
from torch_geometric.data.graph_store import EdgeAttr, EdgeLayout

from ..datasets import Dataset, opened

__all__ = ["FeatureStore", "GraphStore"]

# What PyG calls our tables.
_TABLES = {"x": "features", "y": "labels"}


class FeatureStore(pyg_data.FeatureStore):
    """The features (`x`) and labels (`y`) of a dataset as PyG's feature store. They can be read only.

    Rows are copied out of the mapped file, which all loaders and workers share, straight into the tensor that
    is handed out.

    dataset: an open `uvatrain.Dataset`, or the path of one.
    """

    #: The dataset that it shows.
    dataset: Dataset

    def __init__(self, dataset: str | os.PathLike[str] | Dataset) -> None:
        super().__init__()
        self.__dict__["dataset"] = opened(dataset)

    def get_all_tensor_attrs(self) -> list[TensorAttr]:
        """`x` and `y` of the nodes, which have no type. `y` only if the dataset has labels."""
        names = [name for name, table in _TABLES.items() if self.dataset.array(table) is not None]
        return [TensorAttr(group_name=None, attr_name=name) for name in names]

    def _get_tensor(self, attr: TensorAttr) -> Tensor | np.ndarray[Any, Any] | None:
        table = self._table(attr)
        if table is None:
            return None
        index = attr.index
        if index is None or (isinstance(index, slice) and index == slice(None)):
            return self._all(table)
        if isinstance(index, slice):
            return self._all(table)[index].clone()
        if isinstance(index, int | np.integer):
            return self._rows(table, torch.tensor([index]))[0]
        return self._rows(table, ids_of("index", index))

    def _multi_get_tensor(self, attrs: list[TensorAttr]) -> list[Tensor | np.ndarray[Any, Any] | None]:
        return [self._get_tensor(attr) for attr in attrs]

    def _get_tensor_size(self, attr: TensorAttr) -> tuple[int, ...] | None:
        table = self._table(attr)
        if table is None:
            return None
        if attr.index is None:
            return tuple(self._all(table).shape)
        rows = self._get_tensor(attr)
        return None if rows is None else tuple(rows.shape)

    def _put_tensor(self, tensor: Any, attr: TensorAttr) -> bool:
        raise _read_only(f"{attr.attr_name!r} of {self.dataset.path}")

    def _remove_tensor(self, attr: TensorAttr) -> bool:
        raise _read_only(f"{attr.attr_name!r} of {self.dataset.path}")

    def update_tensor(self, tensor: Any, *args: Any, **kwargs: Any) -> bool:
        """Refused: a dataset is read only."""
        raise _read_only(self.dataset.path)

    def _table(self, attr: TensorAttr) -> str | None:
        table = _TABLES.get(attr.attr_name) if attr.group_name is None else None
        return None if table is None or self.dataset.array(table) is None else table

    def _all(self, table: str) -> Tensor:
        rows: Tensor = self.dataset.features if table == "features" else self.dataset.labels
        return rows

    def _rows(self, table: str, ids: Tensor) -> Tensor:
        """Copies of rows, in memory that a worker's batch can travel in without another copy."""
        whole = self._all(table)
        shape = [ids.numel(), *whole.shape[1:]]
        if torch.utils.data.get_worker_info() is None:
            out = torch.empty(shape, dtype=whole.dtype)
        else:
            storage = torch.UntypedStorage._new_shared(math.prod(shape) * whole.element_size(), device="cpu")
            out = torch.empty(0, dtype=whole.dtype).set_(storage).view(shape)
        self.dataset._core.gather(table, ids, out)
        return out

    def __repr__(self) -> str:
        return f"FeatureStore({self.dataset!r})"


class GraphStore(pyg_data.GraphStore):
    """The edges of a dataset as PyG's graph store, in the layout that they have: CSC. They can be read only.

    PyG wants 64-bit ids: where the dataset has 32-bit ones, handing the edges out makes a copy of 8 bytes an
    edge. uvatrain's own `NeighborSampler` does not use them.

    dataset: an open `uvatrain.Dataset`, or the path of one.
    """

    #: The dataset that it shows.
    dataset: Dataset

    def __init__(self, dataset: str | os.PathLike[str] | Dataset) -> None:
        super().__init__()
        self.__dict__["dataset"] = opened(dataset)

    def get_all_edge_attrs(self) -> list[EdgeAttr]:
        """The edges, which have no type."""
        nodes = self.dataset.num_nodes
        return [EdgeAttr(edge_type=None, layout=EdgeLayout.CSC, is_sorted=True, size=(nodes, nodes))]

    def _get_edge_index(self, edge_attr: EdgeAttr) -> tuple[Tensor, Tensor] | None:
        if edge_attr.edge_type is not None or edge_attr.layout != EdgeLayout.CSC:
            return None
        return self.dataset.indices.to(torch.int64), self.dataset.indptr

    def _put_edge_index(self, edge_index: Any, edge_attr: EdgeAttr) -> bool:
        raise _read_only(f"the edges of {self.dataset.path}")

    def _remove_edge_index(self, edge_attr: EdgeAttr) -> bool:
        raise _read_only(f"the edges of {self.dataset.path}")

    def __repr__(self) -> str:
        return f"GraphStore({self.dataset!r})"


def ids_of(name: str, index: Any) -> Tensor:
    """Ids or a mask as int64 [n] in host memory, contiguous."""
    tensor = torch.as_tensor(index)
    if tensor.dtype == torch.bool:
        tensor = tensor.nonzero().view(-1)
    if tensor.dim() != 1 or tensor.is_floating_point() or tensor.is_complex():
        raise ValueError(f"{name} is {tensor.dtype} {list(tensor.shape)}: node ids, int64 [n], are needed")
    return tensor.to(device="cpu", dtype=torch.int64).contiguous()


def _read_only(what: str) -> TypeError:
    return TypeError(f"{what} can only be read: a dataset is written once (uvatrain.write_dataset)")
