"""Batches as DGL's blocks."""

from __future__ import annotations

from typing import Any

from ..errors import Unavailable
from ..loader.batch import Batch
from ..loader.typed_batch import EdgeType, TypedBatch

__all__ = ["dgl_block", "imported_dgl", "to_dgl", "typed_block", "typed_to_dgl"]


def to_dgl(batch: Batch) -> Any:
    """The batch as DGL's blocks (message flow graphs) in the order of a model's layers, the outermost hop first.

    With `Loader(..., aggregate=...)` without that hop.
    """
    dgl = imported_dgl("batch.to_dgl()")
    if not batch._remaining:
        raise ValueError(
            f'batch.to_dgl(): aggregate="{batch.aggregate}" has folded the only block, and leaves none for DGL. '
            "Take batch.x and batch.aggregated"
        )
    nodes, blocks = batch.input_nodes, []
    for block in reversed(batch._remaining):
        made = dgl_block(
            dgl,
            (block.indptr, block.indices),
            (nodes[: block.num_src], nodes[: block.num_dst]),
            block.edge_ids if batch.has_edge_ids else None,
        )
        if batch.has_edge_attr:
            made.edata["feat"] = block.edge_attr
        if batch.weighs_edges:
            made.edata["weight"] = block.weights
        blocks.append(made)
    for name, rows in batch._rows.items():
        blocks[0].srcdata["feat" if name == "x" else name] = rows
    labels = batch.y
    if labels is not None:
        blocks[-1].dstdata["label"] = labels
    return blocks


def imported_dgl(what: str) -> Any:
    """DGL. Where it cannot be imported, Unavailable says what needs it."""
    try:
        import dgl  # pyright: ignore[reportMissingImports]  # Few have it: see the message below.
    # With a torch that it was not built for, it misses a file of its own.
    except (ImportError, OSError) as error:
        raise Unavailable(
            f"{what} needs DGL, which cannot be imported ({error}). DGL 2.1.0 from PyPI works with torch 2.0 to "
            "2.2.1: pip install torch==2.2.1 torchdata==0.7.1 dgl==2.1.0"
        ) from None
    return dgl


def dgl_block(dgl: Any, csc: tuple[Any, Any], nodes: tuple[Any, Any], edge_ids: Any) -> Any:
    """A block of these offsets and local ids, with the ids of its sources and destinations, and of its edges."""
    indptr, indices = csc
    sources, destinations = nodes
    made = dgl.create_block(
        ("csc", (indptr, indices, indices.new_empty(0))),
        num_src_nodes=len(sources),
        num_dst_nodes=len(destinations),
    )
    made.srcdata[dgl.NID], made.dstdata[dgl.NID] = sources, destinations
    if edge_ids is not None:
        made.edata[dgl.EID] = edge_ids
    return made


def typed_to_dgl(batch: TypedBatch) -> Any:
    """As `to_dgl`, with the node types and relations of a typed graph."""
    dgl = imported_dgl("batch.to_dgl()")
    nodes, blocks = batch.n_id_dict, []
    for layer in reversed(range(len(batch.blocks))):
        of_layer, (destinations, sources) = batch.blocks[layer], batch._levels[layer : layer + 2]
        lists = {names: (block.indptr, block.indices) for names, block in of_layer.items()}
        ends = tuple({name: ids[: size[name]] for name, ids in nodes.items()} for size in (sources, destinations))
        made = typed_block(dgl, lists, ends, batch._edge_rows(layer))
        for names, rows in batch._edge_features(layer).items():
            made.edges[names].data["feat"] = rows
        blocks.append(made)
    for name, x in batch.x_dict.items():
        if x is not None:
            blocks[0].srcnodes[name].data["feat"] = x
    for name, labels in batch._of_seeds("y").items():
        blocks[-1].dstnodes[name].data["label"] = labels
    return blocks


def typed_block(
    dgl: Any,
    lists: dict[EdgeType, tuple[Any, Any]],
    nodes: tuple[dict[str, Any], ...],
    edge_ids: dict[EdgeType, Any] | None,
) -> Any:
    """A block of these offsets and local ids by relation, with the ids of its sources and destinations by node type, and
    those of its edges."""
    sources, destinations = nodes
    made = dgl.create_block(
        {names: ("csc", (indptr, indices, indices.new_empty(0))) for names, (indptr, indices) in lists.items()},
        num_src_nodes={name: len(ids) for name, ids in sources.items()},
        num_dst_nodes={name: len(ids) for name, ids in destinations.items()},
    )
    for name, ids in sources.items():
        made.srcnodes[name].data[dgl.NID] = ids
    for name, ids in destinations.items():
        made.dstnodes[name].data[dgl.NID] = ids
    for names, ids in (edge_ids or {}).items():
        made.edges[names].data[dgl.EID] = ids
    return made
