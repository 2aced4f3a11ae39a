"""What batches of a `NeighborLoader` are made of: a dataset to sample from, and the attributes of nodes and edges."""

from __future__ import annotations

import copy
import os
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch_geometric import data as pyg_data
from torch_geometric.loader.utils import filter_custom_store, filter_data
from torch_geometric.sampler import SamplerOutput

from ..datasets import Dataset, opened, write_dataset
from ..interop.from_pyg import adjacency
from ..interop.in_memory import kept_for, written_for
from .stores import FeatureStore, GraphStore

__all__ = ["Graph", "Made"]

#: Types of features that a dataset holds without conversion.
_FEATURES = (
    torch.float32,
    torch.float16,
    torch.bfloat16,
    torch.float8_e4m3fn,
    torch.uint8,
    torch.int8,
)


class Made(NamedTuple):
    """What a batch of the `uvatrain.Loader` has of its `Data`, so that it need not be gathered."""

    x: Tensor | None = None
    edge_index: Tensor | None = None
    edge_attr: Tensor | None = None


class Graph:
    """What batches are made of: a dataset to sample from, and what gives nodes and edges their attributes."""

    def __init__(self, data: Any, dataset: Dataset, order: Tensor | None, has_x: bool) -> None:
        #: A `Data`, or a feature store and a graph store.
        self.data = data
        self.dataset = dataset
        #: The id of each edge of the dataset; None: its position.
        self.order = order
        #: Whether the dataset's rows are `x`.
        self.has_x = has_x
        self._without_x: Any = None
        if has_x and isinstance(data, pyg_data.Data):
            self._without_x = copy.copy(data)
            # Of the same nodes, so that node attributes are still distinguished from the rest.
            self._without_x.x = torch.empty((dataset.num_nodes, 0), dtype=torch.uint8)
        #: Tables of the dataset, where its edges are `data`.
        self.weight = dataset.weight if isinstance(data, tuple) else None
        self.edge_attr = dataset.edge_attr if isinstance(data, tuple) else None

    @property
    def num_nodes(self) -> int:
        return self.dataset.num_nodes

    @classmethod
    def of(cls, data: Any, weight_attr: str | None) -> Graph:
        if isinstance(data, pyg_data.HeteroData):
            raise ValueError(
                "data is a HeteroData: one type of node and edge is supported; data.to_homogeneous() makes it one"
            )
        if isinstance(data, pyg_data.Data):
            dataset, has_x = _of_data(data, weight_attr)
            return cls(data, dataset, dataset._edge_order, has_x)  # type: ignore[attr-defined]
        if isinstance(data, tuple | list) and len(data) == 2:
            features, edges = data
            if not isinstance(edges, GraphStore):
                return cls((features, edges), *_of_store(edges, weight_attr), has_x=False)
            own = isinstance(features, FeatureStore) and features.dataset.fingerprint == edges.dataset.fingerprint
            _check_weight(edges.dataset, weight_attr)
            return cls((features, edges), edges.dataset, None, own)
        if isinstance(data, FeatureStore | GraphStore):
            data = data.dataset
        if not isinstance(data, str | os.PathLike | Dataset):
            raise ValueError(
                f"data is a {type(data).__name__}: a torch_geometric Data, a uvatrain.Dataset, its path or a pair of "
                "stores is needed"
            )
        dataset = opened(data)
        _check_weight(dataset, weight_attr)
        return cls((FeatureStore(dataset), GraphStore(dataset)), dataset, None, True)

    def joined(self, out: SamplerOutput, given: Made) -> Any:
        """The attributes of the nodes and edges of a subgraph. given: those that need not be gathered."""
        if isinstance(self.data, pyg_data.Data):
            return self._of_data(out, given)
        if given.x is None:
            made = filter_custom_store(*self.data, out.node, out.row, out.col, out.edge)
        else:
            edge_index = torch.stack([out.row, out.col]) if given.edge_index is None else given.edge_index
            made = pyg_data.Data(x=given.x, edge_index=edge_index)
            # Where the rows are the dataset's, so are the labels.
            if self.dataset.labels is not None:
                made.y = self.dataset.labels.index_select(0, out.node)
        if self.weight is not None:
            made.edge_weight = self.weight.index_select(0, out.edge)
        if self.edge_attr is not None:
            rows = given.edge_attr
            made.edge_attr = self.edge_attr[out.edge] if rows is None else rows
        return made

    def _of_data(self, out: SamplerOutput, given: Made) -> Any:
        whole = self.data if given.x is None else self._without_x
        row, col = out.row, out.col
        has_edge_index = given.edge_index is not None and "edge_index" in whole and "adj_t" not in whole
        if has_edge_index:
            # PyG would concatenate them again.
            row, col = row[:0], col[:0]
        made = filter_data(whole, out.node, row, col, out.edge)
        if has_edge_index:
            made.edge_index = given.edge_index.to(whole.edge_index.device)  # type: ignore[union-attr]
        if given.x is not None:
            made.x = given.x
        return made


def _of_data(data: Any, weight_attr: str | None) -> tuple[Dataset, bool]:
    """A `Data` as a temporary dataset, and whether that has its `x`."""
    x = data.get("x")
    has_x = _is_table(x, data.num_nodes)
    if weight_attr is not None and (data.get(weight_attr) is None or data.get("edge_index") is None):
        raise ValueError(f"weight_attr={weight_attr!r}: data has no such attribute of the edges of edge_index")
    of_tensors = {"edge_index": data.get("edge_index"), "adj_t": data.get("adj_t"), "x": x if has_x else None}
    if weight_attr is not None:
        of_tensors["weight"] = data[weight_attr]
    of_tensors = {name: tensor for name, tensor in of_tensors.items() if tensor is not None}

    def make() -> Dataset:
        indptr, indices, weight, order = adjacency(
            data, data.num_nodes, weight_name=weight_attr or "", ordered=True
        )
        return _written(indptr, indices, weight, order, x if has_x else None)

    # The number of nodes is not of the tensors.
    return kept_for(of_tensors, make, data.num_nodes), has_x


def _of_store(store: Any, weight_attr: str | None) -> tuple[Dataset, Tensor | None]:
    """The edges of a graph store as a temporary dataset."""
    kinds = store.get_all_edge_attrs()
    if len(kinds) != 1 or kinds[0].edge_type is not None:
        raise ValueError("data: the graph store has several edge types, and one without a name is supported")
    if weight_attr is not None:
        raise ValueError(f"weight_attr={weight_attr!r} is not supported with a graph store, which has no weights")
    indices, indptr, order = store.csc()
    nodes = max(kinds[0].size)
    indptr = torch.cat([indptr, indptr[-1:].expand(nodes + 1 - indptr.numel())])
    return _written(indptr, indices, None, order, None), order


def _written(indptr: Any, indices: Any, weight: Any, order: Any, x: Any) -> Dataset:
    def write(path: str) -> Dataset:
        return write_dataset(
            path,
            indptr=indptr,
            indices=indices,
            features=np.zeros((len(indptr) - 1, 1), np.uint8) if x is None else x,
            train_idx=np.empty(0, np.int64),
            weight=weight,
        )

    dataset = written_for("NeighborLoader", write)
    dataset._edge_order = order  # type: ignore[attr-defined]
    return dataset


def _is_table(x: Any, nodes: int) -> bool:
    """Whether a dataset can hold `x` without conversion. PyG gathers other features from `data`."""
    if isinstance(x, np.ndarray) and x.dtype.name in ("float32", "float16", "uint8", "int8"):
        # A mapped file that may only be read is copied by the writing alone.
        return x.ndim == 2 and x.shape[0] == nodes and x.shape[1] > 0 and bool(np.isfinite(x).all())
    return (
        isinstance(x, Tensor)
        and type(x) is Tensor
        and x.layout == torch.strided
        and x.device.type == "cpu"
        and x.dtype in _FEATURES
        and not x.requires_grad
        and x.dim() == 2
        and x.size(0) == nodes
        and x.size(1) > 0
        and (not x.is_floating_point() or bool(x.isfinite().all()))
    )


def _check_weight(dataset: Dataset, weight_attr: str | None) -> None:
    if weight_attr is not None and (weight_attr != "edge_weight" or dataset.weight is None):
        raise ValueError(
            f'weight_attr={weight_attr!r}: of a dataset it is "edge_weight", and it has to have weights (weight.npy)'
        )
