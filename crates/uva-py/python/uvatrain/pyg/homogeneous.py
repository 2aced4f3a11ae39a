"""Graphs of one type of nodes and edges, for a `NeighborLoader`."""

from __future__ import annotations

import copy
import os
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch_geometric import data as pyg_data
from torch_geometric.loader.utils import filter_custom_store, filter_data
from torch_geometric.sampler import SamplerOutput

from ..datasets import Dataset, opened, write_dataset
from ..interop.from_pyg import adjacency
from ..interop.in_memory import kept_for, written_for
from ..loader.batch import Batch
from .graph import Graph, Made, Sampled, is_table
from .sampler import NeighborSampler, fanouts_of
from .stores import FeatureStore, GraphStore

__all__ = ["HomogeneousGraph"]


class HomogeneousGraph(Graph):
    """A dataset of one type of nodes and edges, and what gives them their attributes."""

    dataset: Dataset

    def __init__(self, data: Any, dataset: Dataset, order: Tensor | None, has_x: bool) -> None:
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

    @classmethod
    def of(cls, data: Any, weight_attr: str | None) -> HomogeneousGraph:
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
                f"data is a {type(data).__name__}: a torch_geometric Data or HeteroData, a uvatrain.Dataset, its path or a "
                "pair of stores is needed"
            )
        dataset = opened(data)
        _check_weight(dataset, weight_attr)
        return cls((FeatureStore(dataset), GraphStore(dataset)), dataset, None, True)

    def fanouts(self, num_neighbors: Any) -> list[Any]:
        return fanouts_of(num_neighbors)

    def seeds(self, input_nodes: Any) -> tuple[None, Any, int]:
        return None, input_nodes, self.dataset.num_nodes

    def sampler(self, fanouts: list[Any], *, replace: bool, subgraph_type: Any, disjoint: bool) -> NeighborSampler:
        return NeighborSampler(
            self.dataset,
            fanouts,
            replace=replace,
            subgraph_type=subgraph_type,
            disjoint=disjoint,
            edge_order=self.order,
        )

    def why_not_direct(self, fanouts: list[Any]) -> str | None:
        return "a fanout of -1" if -1 in fanouts else None

    def loader_options(self, node_type: str | None, fanouts: list[Any], is_directional: bool) -> dict[str, Any]:
        return {"num_neighbors": fanouts, "edge_attr": self.edge_attr is not None and is_directional}

    def sampled(self, batch: Batch, is_directional: bool) -> Sampled:
        blocks = batch.blocks
        # A block begins with the block before, so the last one has the edges of all hops, hop by hop.
        last = blocks[-1]
        edge_index = last.edge_index
        edges = [block.num_edges for block in blocks]
        out = SamplerOutput(
            # Of ids people keep parts, which would keep the slot.
            node=batch.input_nodes.clone(),
            row=edge_index[0],
            col=edge_index[1],
            edge=last.edge_ids,
            num_sampled_nodes=[batch.num_seeds, *(block.num_src - block.num_dst for block in blocks)],
            num_sampled_edges=[after - before for before, after in zip([0, *edges], edges)],
        )
        x = batch.x if self.has_x else None
        lent = [x]
        if is_directional:
            made = Made(x, edge_index, last.edge_attr if batch.has_edge_attr else None)
            lent += [made.edge_attr, last.edge_ids if self.order is None else None]
        else:
            # Other subgraphs have other edges.
            made, out.edge = Made(x), last.edge_ids.clone()
        return Sampled(out, made, lent)

    def joined(self, out: SamplerOutput, given: Made) -> Any:
        data = self._with_attributes(out, given)
        # As PyG's loaders leave an attribute of the user's alone.
        if "n_id" not in data:
            data.n_id = out.node
        if "e_id" not in data and out.edge is not None:
            data.e_id = out.edge
        data.batch = out.batch
        data.num_sampled_nodes = out.num_sampled_nodes
        data.num_sampled_edges = out.num_sampled_edges
        return data

    def _with_attributes(self, out: SamplerOutput, given: Made) -> Any:
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
            made.edge_index = given.edge_index.to(whole.edge_index.device)
        if given.x is not None:
            made.x = given.x
        return made


def _of_data(data: Any, weight_attr: str | None) -> tuple[Dataset, bool]:
    """A `Data` as a temporary dataset, and whether that has its `x`."""
    x = data.get("x")
    has_x = is_table(x, data.num_nodes)
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
    if len(kinds) != 1:
        raise ValueError(f"data: the graph store has {len(kinds)} edge indices without a type, and one is supported")
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


def _check_weight(dataset: Dataset, weight_attr: str | None) -> None:
    if weight_attr is not None and (weight_attr != "edge_weight" or dataset.weight is None):
        raise ValueError(
            f'weight_attr={weight_attr!r}: of a dataset it is "edge_weight", and it has to have weights (weight.npy)'
        )
