"""Graphs of several types of nodes and edges, for a `NeighborLoader`."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch_geometric import data as pyg_data
from torch_geometric.loader.utils import filter_custom_hetero_store, filter_hetero_data
from torch_geometric.sampler import HeteroSamplerOutput, NumNeighbors

from .._arrays import integer
from ..datasets import Dataset, TypedDataset
from ..errors import about
from ..interop.hetero import SharedRows
from ..loader import Loader
from ..loader.arguments import hops_given
from ..loader.typed_batch import EdgeType, Metadata, TypedBatch
from .graph import Graph, Made, Sampled
from .hetero_dataset import attributes_of, of_hetero_data, of_stores
from .hetero_sampler import HeteroSampler

__all__ = ["HeteroGraph"]

#: More than any batch: slots have then room for the whole graph, of which unused memory is never touched.
_ROOM_FOR_ALL = 2**62


class HeteroGraph(Graph):
    """A typed dataset, and a `HeteroData` or a pair of stores that has the attributes of its nodes and edges.

    data: None: the attributes are the dataset's.
    """

    dataset: TypedDataset

    def __init__(self, data: Any, num_nodes: dict[str, int], edge_types: list[EdgeType], dataset: TypedDataset) -> None:
        self.num_nodes = num_nodes
        self.dataset = dataset
        #: The dataset's names of node types and relations, which may be others than those of `data`.
        self.types: dict[str, str] = dict(zip(num_nodes, dataset.node_types))
        self.relations: dict[EdgeType, EdgeType] = dict(zip(edge_types, dataset.edge_types))
        # By target the dataset as a loader has opened it, for further ones.
        self._opened: dict[str, Dataset] = {}
        #: Types whose rows in the dataset are `x`.
        self.with_x = [name for name, of in self.types.items() if "features" in dataset.nodes(of)]
        self.is_own = data is None
        self._describe(data)

    def _describe(self, data: Any) -> None:
        self.shared: dict[EdgeType, SharedRows] = {}
        #: The id of each edge of the dataset, where it is not its position.
        self.order: dict[EdgeType, Tensor] = {}
        if self.is_own:
            data, self.shared = attributes_of(self.dataset)
        else:
            self.order = {names: self.dataset.edges(of)["edge_id"] for names, of in self.relations.items()}
        self.data = data
        self._without_x: Any = None
        if self.with_x:
            self._without_x = copy.copy(data)
            for name in self.with_x:
                # Of the same nodes, so that node attributes are still distinguished from the rest.
                self._without_x[name].x = torch.empty((self.num_nodes[name], 0), dtype=torch.uint8)

    @classmethod
    def of(cls, data: Any, weight_attr: str | None) -> HeteroGraph:
        if isinstance(data, pyg_data.HeteroData):
            num_nodes, dataset = of_hetero_data(data, weight_attr)
            return cls(data, num_nodes, data.edge_types, dataset)
        if isinstance(data, TypedDataset):
            has_weight = any("weight" in data.edges(names) for names in data.edge_types)
            if weight_attr is not None and (weight_attr != "edge_weight" or not has_weight):
                raise ValueError(
                    f'weight_attr={weight_attr!r}: of a dataset it is "edge_weight", and a relation has to have weights '
                    "(weight.npy)"
                )
            return cls(None, data.num_nodes, data.edge_types, data)
        if weight_attr is not None:
            raise ValueError(f"weight_attr={weight_attr!r} is not supported with a graph store, which has no weights")
        num_nodes, edge_types, dataset = of_stores(*data)
        return cls(tuple(data), num_nodes, edge_types, dataset)

    def fanouts(self, num_neighbors: Any) -> dict[str, list[int]]:
        values, default = num_neighbors, None
        if isinstance(num_neighbors, NumNeighbors):
            values, default = num_neighbors.values, num_neighbors.default
        lists: Any
        if isinstance(values, Mapping):
            lists = {_relation_named(key): hops_given(f"num_neighbors[{key!r}]", of) for key, of in values.items()}
            default = lists.pop("*", default)
        else:
            lists = hops_given("num_neighbors", values)
        try:
            # PyG's own messages, for names that do not exist and lists of several lengths.
            given = NumNeighbors(lists, default).get_values(list(self.relations))
        except ValueError as error:
            raise about("num_neighbors", ValueError(f"num_neighbors: {error}")) from None
        for names, hops in given.items():
            for fanout in hops:
                if integer("num_neighbors", fanout) < -1:
                    message = f"num_neighbors: {fanout} for {names}: a number of picks, or -1 for all, is needed"
                    raise about("num_neighbors", ValueError(message))
        return {"__".join(self.relations[names]): list(hops) for names, hops in given.items()}

    def seeds(self, input_nodes: Any) -> tuple[str, Any, int]:
        name, given = input_nodes, None
        if isinstance(input_nodes, list | tuple) and len(input_nodes) == 2:
            name, given = input_nodes
        if not isinstance(name, str) or name not in self.num_nodes:
            known = ", ".join(self.num_nodes)
            shown = repr(name) if isinstance(name, str) else f"a {type(input_nodes).__name__}"
            raise about(
                "input_nodes",
                ValueError(f'input_nodes is {shown}: expected a node type, or ("TYPE", ids or mask), of {known}'),
            )
        return name, given, self.num_nodes[name]

    def sampler(
        self, fanouts: dict[str, list[int]], *, replace: bool, subgraph_type: Any, disjoint: bool
    ) -> HeteroSampler:
        return HeteroSampler(self, fanouts, replace=replace, subgraph_type=subgraph_type, disjoint=disjoint)

    def why_not_direct(self, fanouts: dict[str, list[int]]) -> str | None:
        return None

    def loader_options(
        self, node_type: str | None, fanouts: dict[str, list[int]], is_directional: bool
    ) -> dict[str, Any]:
        takes_all = any(-1 in hops for hops in fanouts.values())
        # With one type and one relation there are no names to give.
        is_single = len(self.types) == len(self.relations) == 1
        return {
            "target": self.types[str(node_type)],
            "num_neighbors": next(iter(fanouts.values())) if is_single else fanouts,
            "slot_bytes": _ROOM_FOR_ALL if takes_all else None,
        }

    def loader(self, seeds: Tensor, seed: int, *, dataset: Dataset | None = None, **options: Any) -> Loader:
        target = options["target"]
        made = super().loader(seeds, seed, dataset=dataset or self._opened.get(target), **options)
        if made._source.metadata is not None:
            self._opened[target] = Dataset._of(made._source.dataset)
        # Also of one type and one relation, whose batches have no names otherwise.
        metadata = Metadata(self.dataset.node_types, self.dataset.edge_types, {}, target, [target])
        made._wrap = partial(TypedBatch, metadata=metadata)
        return made

    def __getstate__(self) -> dict[str, Any]:
        state = {**self.__dict__, "_opened": {}}
        if self.is_own:
            # A process that reads it maps the same files.
            state.update(data=None, _without_x=None, shared={})
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        if self.is_own:
            self._describe(None)

    def sampled(self, batch: TypedBatch, is_directional: bool) -> Sampled:
        edges = {names: batch[of] for names, of in self.relations.items()}
        nodes = {name: batch[of] for name, of in self.types.items()}
        pairs = {names: of.edge_index for names, of in edges.items()}
        out = HeteroSamplerOutput(
            # Of ids people keep parts, which would keep the slot.
            node={name: of.n_id.clone() for name, of in nodes.items()},
            row={names: pair[0] for names, pair in pairs.items()},
            col={names: pair[1] for names, pair in pairs.items()},
            edge={names: batch.blocks[-1][of].edge_ids for names, of in self.relations.items()},
            num_sampled_nodes={name: of.num_sampled_nodes for name, of in nodes.items()},
            num_sampled_edges={names: of.num_sampled_edges for names, of in edges.items()},
        )
        x = {name: nodes[name].x for name in self.with_x}
        return Sampled(out, Made(x), list(x.values()))

    def joined(self, out: HeteroSamplerOutput, given: Made) -> Any:
        if isinstance(self.data, tuple):
            data = filter_custom_hetero_store(*self.data, out.node, out.row, out.col, out.edge)
        else:
            whole = self._without_x if given.x else self.data
            data = filter_hetero_data(whole, out.node, out.row, out.col, out.edge)
        for name, x in (given.x or {}).items():
            data[name].x = x
        for names, table in self.shared.items():
            edges = out.edge[names]
            if edges is not None:
                data[names].edge_attr = table.rows[table.edge_id[edges]]
        # As PyG's loaders leave an attribute of the user's alone.
        for name, ids in out.node.items():
            if "n_id" not in data[name]:
                data[name].n_id = ids
        for names, ids in out.edge.items():
            if "e_id" not in data[names] and ids is not None:
                data[names].e_id = ids
        data.set_value_dict("batch", out.batch)
        data.set_value_dict("num_sampled_nodes", out.num_sampled_nodes)
        data.set_value_dict("num_sampled_edges", out.num_sampled_edges)
        return data


def _relation_named(key: Any) -> Any:
    """A key of `num_neighbors` as PyG takes it."""
    return tuple(key.split(":")) if isinstance(key, str) and ":" in key else key
