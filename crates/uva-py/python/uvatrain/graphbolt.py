"""Batches with the fields of GraphBolt's `MiniBatch`, for code that was written for DGL's GraphBolt. DGL is not needed.

    with uvatrain.Loader("data/products", fanouts=(15, 10, 5), transform=uvatrain.Batch.to_graphbolt) as loader:
        for minibatch in loader:
            x = minibatch.node_features["feat"]
            for layer, subgraph in zip(layers, minibatch.sampled_subgraphs):
                csc = subgraph.sampled_csc
                x = layer(x, csc.indptr, csc.indices)
            loss = F.cross_entropy(x, minibatch.labels)

The order of `sampled_subgraphs`, the outermost hop first, is that in which a model runs them.

Of a typed graph (`uvatrain.TypedBatch.to_graphbolt`), tensors of nodes are dicts by node type, and those of edges by relation,
such as "author:writes:paper". Keys of features are pairs: `node_features["paper", "feat"]`.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from .interop.dgl import dgl_block, imported_dgl, typed_block

if TYPE_CHECKING:
    import torch

    from .loader.batch import Batch
    from .loader.typed_batch import TypedBatch

__all__ = ["CSC", "MiniBatch", "SampledSubgraph"]


@dataclasses.dataclass
class CSC:
    """The edges of a subgraph, as GraphBolt's `CSCFormatBase`."""

    #: int32 [columns + 1]: where each column's neighbours begin in `indices`.
    indptr: torch.Tensor
    #: int32 [edges]: positions among the rows.
    indices: torch.Tensor


@dataclasses.dataclass
class SampledSubgraph:
    """A hop, as GraphBolt's `SampledSubgraph`: its columns aggregate, and are the first of its rows."""

    sampled_csc: CSC
    #: int64 [columns]: the nodes that aggregate.
    original_column_node_ids: torch.Tensor
    #: int64 [rows]: the nodes that are aggregated.
    original_row_node_ids: torch.Tensor
    #: int64 [edges]: positions in the dataset's `indices`. None without `Loader(..., edge_ids=True)`.
    original_edge_ids: torch.Tensor | None


@dataclasses.dataclass
class MiniBatch:
    """A batch with the fields of GraphBolt's `MiniBatch`. Tensors view the slot, as those of the `Batch` do."""

    #: int64 [seeds]: the nodes to train on.
    seeds: torch.Tensor
    #: int64 [seeds], uint8 [seeds, classes], or for regression float32. None in a dataset without labels.
    labels: torch.Tensor | None
    #: int64 [nodes]: the rows of the outermost hop, which are all nodes.
    input_nodes: torch.Tensor
    #: "feat" is [nodes, features]. With `Loader(..., aggregate=...)`, "aggregated" is there too, and the outermost
    #: hop is omitted.
    node_features: dict[str, torch.Tensor]
    #: For each hop, "weight" is float32 [edges] where the kind of sampler weighs edges, and "feat" [edges, features]
    #: with `Loader(..., edge_attr=True)`. None where there is neither.
    edge_features: list[dict[str, torch.Tensor]] | None
    #: The hops, the outermost first.
    sampled_subgraphs: list[SampledSubgraph]
    #: Of GraphBolt's edges as seeds: None, as there for nodes as seeds.
    indexes: None = dataclasses.field(default=None, repr=False)
    node_pairs: None = dataclasses.field(default=None, repr=False)
    node_pairs_with_labels: None = dataclasses.field(default=None, repr=False)
    compacted_node_pairs: None = dataclasses.field(default=None, repr=False)
    compacted_seeds: None = dataclasses.field(default=None, repr=False)
    negative_srcs: None = dataclasses.field(default=None, repr=False)
    negative_dsts: None = dataclasses.field(default=None, repr=False)
    compacted_negative_srcs: None = dataclasses.field(default=None, repr=False)
    compacted_negative_dsts: None = dataclasses.field(default=None, repr=False)
    _batch: Batch | TypedBatch | None = dataclasses.field(default=None, repr=False, compare=False)

    @property
    def seed_nodes(self) -> torch.Tensor:
        """The seeds, by the name that they have in DGL 2.1."""
        return self.seeds

    @property
    def blocks(self) -> list[Any]:
        """DGL's blocks, the outermost hop first, with the ids of nodes and edges. Unavailable where DGL is not
        installed."""
        dgl = imported_dgl("minibatch.blocks")
        return [_block(dgl, subgraph) for subgraph in self.sampled_subgraphs]

    def to_pyg_data(self) -> Any:
        """PyG's `Data`, as `Batch.to_pyg` makes it."""
        if self._batch is None:
            raise ValueError(
                "to_pyg_data() is of the batch as the loader made it, not of a copy: call it before .to(device)"
            )
        return self._batch.to_pyg()

    def edge_ids(self, layer_id: int) -> torch.Tensor | None:
        """The `original_edge_ids` of a hop."""
        return self.sampled_subgraphs[layer_id].original_edge_ids

    def set_node_features(self, node_features: dict[str, torch.Tensor]) -> None:
        """Replaces `node_features`."""
        self.node_features = node_features

    def set_edge_features(self, edge_features: list[dict[str, torch.Tensor]]) -> None:
        """Replaces `edge_features`."""
        self.edge_features = edge_features

    def num_layers(self) -> int:
        """How many hops there are."""
        return len(self.sampled_subgraphs)

    def node_ids(self) -> torch.Tensor:
        """All nodes: `input_nodes`."""
        return self.input_nodes

    def to(self, device: Any) -> MiniBatch:
        """A copy on a device, which outlives the batch. It has no `to_pyg_data()`."""
        copied: MiniBatch = _to(dataclasses.replace(self, _batch=None), device)
        return copied


def minibatch(batch: Batch) -> MiniBatch:
    """The batch in the form of GraphBolt's."""
    nodes, blocks = batch._remaining_nodes, batch._remaining[::-1]
    return MiniBatch(
        seeds=batch.seeds,
        labels=batch.y,
        input_nodes=nodes,
        node_features={"feat" if name == "x" else name: rows for name, rows in batch._rows.items()},
        edge_features=_edge_features(batch),
        sampled_subgraphs=[
            SampledSubgraph(
                sampled_csc=CSC(block.indptr, block.indices),
                original_column_node_ids=nodes[: block.num_dst],
                original_row_node_ids=nodes[: block.num_src],
                original_edge_ids=block.edge_ids if batch.has_edge_ids else None,
            )
            for block in blocks
        ],
        _batch=batch,
    )


def typed_minibatch(batch: TypedBatch) -> MiniBatch:
    """The batch of a typed graph in the form of GraphBolt's."""
    layers = list(reversed(range(len(batch.blocks))))
    nodes, labels = batch.n_id_dict, batch._of_seeds("y")
    # Dicts where the fields have a tensor of a graph with one type.
    fields: dict[str, Any] = dict(
        seeds=batch._of_seeds("seeds"),
        labels=labels or None,
        input_nodes=nodes,
        node_features={(name, "feat"): rows for name, rows in batch.x_dict.items() if rows is not None},
        edge_features=_typed_edge_features(batch, layers),
    )
    return MiniBatch(**fields, sampled_subgraphs=[_typed_subgraph(batch, layer, nodes) for layer in layers], _batch=batch)


def _typed_edge_features(batch: TypedBatch, layers: list[int]) -> Any:
    """The feature rows of each hop's edges, by relation and name."""
    if not batch._core.has_edge_attr:
        return None
    found = [batch._edge_features(layer) for layer in layers]
    return [{(":".join(names), "feat"): rows for names, rows in of_layer.items()} for of_layer in found]


def _typed_subgraph(batch: TypedBatch, layer: int, nodes: dict[str, torch.Tensor]) -> SampledSubgraph:
    columns, rows = batch._levels[layer : layer + 2]
    ids = batch._edge_rows(layer)
    fields: dict[str, Any] = dict(
        sampled_csc={":".join(names): CSC(block.indptr, block.indices) for names, block in batch.blocks[layer].items()},
        original_column_node_ids={name: of[: columns[name]] for name, of in nodes.items()},
        original_row_node_ids={name: of[: rows[name]] for name, of in nodes.items()},
        original_edge_ids=None if ids is None else {":".join(names): of for names, of in ids.items()},
    )
    return SampledSubgraph(**fields)


def _block(dgl: Any, subgraph: SampledSubgraph) -> Any:
    """A hop as DGL's block."""
    nodes: Any = (subgraph.original_row_node_ids, subgraph.original_column_node_ids)
    # In a typed graph they are dicts.
    lists: Any = subgraph.sampled_csc
    ids: Any = subgraph.original_edge_ids
    if not isinstance(lists, dict):
        return dgl_block(dgl, (lists.indptr, lists.indices), nodes, ids)
    by_relation = {tuple(name.split(":")): (csc.indptr, csc.indices) for name, csc in lists.items()}
    edge_ids = None if ids is None else {tuple(name.split(":")): of for name, of in ids.items()}
    return typed_block(dgl, by_relation, nodes, edge_ids)


def _edge_features(batch: Batch) -> list[dict[str, torch.Tensor]] | None:
    """What edges have, by hop, the outermost first."""
    had = {"weight": (batch.weighs_edges, "weights"), "feat": (batch.has_edge_attr, "edge_attr")}
    names = {name: attribute for name, (there, attribute) in had.items() if there}
    if not names:
        return None
    return [
        {name: getattr(block, attribute) for name, attribute in names.items()} for block in batch._remaining[::-1]
    ]


def _to(value: Any, device: Any) -> Any:
    """What it is made of, on the device."""
    if isinstance(value, list):
        return [_to(item, device) for item in value]
    if isinstance(value, dict):
        return {key: _to(item, device) for key, item in value.items()}
    if isinstance(value, CSC | SampledSubgraph | MiniBatch):
        fields = {field.name: _to(getattr(value, field.name), device) for field in dataclasses.fields(value)}
        return type(value)(**fields)
    return value.to(device, copy=True) if hasattr(value, "to") else value
