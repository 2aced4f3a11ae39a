"""Batches as PyG's `Data`."""

from __future__ import annotations

from typing import Any

from ..errors import Unavailable, warn
from ..loader.batch import Batch, Block

__all__ = ["to_pyg"]

# Whether the warning about omitted edges was given.
_warned = False


def to_pyg(batch: Batch, as_edge_index: bool = False) -> Any:
    """The batch as `torch_geometric.data.Data`, as PyG's NeighborLoader makes them.

    - `x` [nodes, features] and `n_id` int64 [nodes]: the batch's nodes, the seeds first. They view the slot.
    - `aggregated` float32 [nodes, features], with `Loader(..., aggregate=...)`. Nodes, edges and hops are then those
      without the outermost hop, of which these rows are. With "gcn" there is no `x`.
    - `y`: the labels of the seeds, so `y[:batch_size]` is all of it. It views the slot. Only if the dataset has labels.
    - `edge_index` int64 [2, edges], a copy: row 0 is each edge's source, row 1 its target, positions in
      `n_id`; the edges of the hop at the seeds first.
    - `edge_weight` float32 [edges], a copy: only where the kind of sampler weighs edges (`batch.weighs_edges`).
      Layers that sum by it, `GraphConv(aggr="add")` for example, get what stands for the mean over all neighbours
      (with `sampler_kind="walk"`, for the mean over what was visited).
    - `num_sampled_nodes` and `num_sampled_edges`: lists, nodes (the seeds first) and edges of each hop, for
      `trim_to_layer`.
    - `batch_size`: the number of seeds.

    `input_id`, positions in the split, is there with `Loader(..., input_id=True)`. So is `e_id` int64 [edges] with
    `Loader(..., edge_ids=True)`: the position of each edge of `edge_index` in the dataset's `indices`. It is a copy,
    except with `expand="new"`, where it views the slot. `edge_attr` [edges, features], with
    `Loader(..., edge_attr=True)`, are these edges' rows of the dataset's `edge_attr`, in the same manner. `edge_type`
    int64 [edges], with `Loader(..., edge_type=True)`, is a copy of their types.

    as_edge_index: makes `edge_index` a `torch_geometric.EdgeIndex` without another copy. It says how many nodes there
    are and that edges are sorted by target. PyG's layers were not seen to gain from it on the CPU (docs/guide/nn.md).
    Unavailable with a PyG that has no `EdgeIndex`, before 2.6.

    A model whose layers trim sees one set of neighbours a node. Where the hops drew for new nodes only
    (`expand="new"`) that is what the blocks hold, so it computes what they say. Where they drew for all nodes
    (`expand="all"`), a node keeps what its first hop drew; the rest of the edges is left out, and the nodes
    that only they lead to have no part in it.
    """
    try:
        from torch_geometric.data import Data
    except ImportError as error:
        raise Unavailable(
            f"batch.to_pyg() needs torch-geometric: pip install torch-geometric ({error})"
        ) from None
    import torch

    blocks = batch._remaining
    nodes = batch._remaining_nodes
    # The blocks that edges are taken from, and the first edge of each.
    taken, firsts = blocks, [0]
    if not blocks:
        # The only hop has been aggregated: none of its edges is taken.
        taken, firsts = batch.blocks, [batch.blocks[0].num_edges]
        edge_index, num_edges = batch.seeds.new_empty((2, 0)), []
    elif batch.expand == "new":
        # A block begins with the block before, so the last one has the edges of all hops, hop by hop.
        taken = blocks[-1:]
        edge_index = blocks[-1].edge_index
        edges = [block.num_edges for block in blocks]
        num_edges = [after - before for before, after in zip([0, *edges], edges)]
    else:
        pieces = [blocks[0].edge_index]
        for before, block in zip(blocks, blocks[1:]):
            # The lists of the destinations that the hop before has found are the last ones.
            first = int(block.indptr[before.num_dst])
            firsts.append(first)
            pieces.append(block.edge_index[:, first:])
        edge_index = torch.cat(pieces, dim=1)
        num_edges = [piece.size(1) for piece in pieces]
        _warn_of_omitted_edges(batch, blocks, sum(num_edges))
    if as_edge_index:
        edge_index = _sorted_by_target(edge_index, len(nodes))
    data = Data(**batch._rows, edge_index=edge_index)
    if batch.aggregate == "gcn":
        data.num_nodes = len(nodes)
    labels = batch.y
    if labels is not None:
        data.y = labels
    if batch.weighs_edges:
        data.edge_weight = torch.cat([block.weights[first:] for block, first in zip(taken, firsts)])
    data.n_id = nodes
    if batch.has_edge_ids:
        ids = [block.edge_ids[first:] for block, first in zip(taken, firsts)]
        data.e_id = ids[0] if len(ids) == 1 else torch.cat(ids)
    if batch.has_edge_attr:
        rows = [block.edge_attr[first:] for block, first in zip(taken, firsts)]
        data.edge_attr = rows[0] if len(rows) == 1 else torch.cat(rows)
    if batch.has_edge_type:
        # PyG's layers index by it.
        data.edge_type = torch.cat([block.edge_type[first:].long() for block, first in zip(taken, firsts)])
    if batch.has_input_id:
        data.input_id = batch.input_id
    data.num_sampled_nodes = [batch.num_seeds, *(block.num_src - block.num_dst for block in blocks)]
    data.num_sampled_edges = num_edges
    data.batch_size = batch.num_seeds
    return data


def _sorted_by_target(edge_index: Any, nodes: int) -> Any:
    """The edges of a batch, which come target by target, as PyG's class that knows their order."""
    try:
        from torch_geometric import EdgeIndex
    except ImportError:
        raise Unavailable("to_pyg(as_edge_index=True) needs torch-geometric 2.6 or later") from None
    return EdgeIndex(edge_index, sparse_size=(nodes, nodes), sort_order="col")


def _warn_of_omitted_edges(batch: Batch, blocks: tuple[Block, ...], taken: int) -> None:
    """Warns, the first time, where a batch has edges that its `Data` has not."""
    global _warned
    # Hops over one subgraph pick the same edges again.
    if _warned or batch._core.draws_one_subgraph:
        return
    sampled = sum(block.num_edges for block in blocks)
    if taken == sampled:
        return
    instead = "Take batch.blocks one by one, or batch.to_dgl(), which have them"
    if batch._core.expands_new:
        instead = 'Make the loader with expand="new" (uvatrain run --expand new), which omits none'
    _warned = True
    warn(
        f"to_pyg() omits {100 * (1 - taken / sampled):.1f} % of this batch's {sampled} sampled edges: later hops "
        f"drew again for nodes that have neighbours already, but a Data has one set of neighbours a node. {instead}"
    )
