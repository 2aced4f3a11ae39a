"""What layers share: how they read their input, and how parameters begin."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ._rows import all_rows
from .lists import Lists, lists_of

__all__ = ["Given", "glorot", "given", "in_order", "linear_first", "refuse_others", "sums_first"]


class Given(NamedTuple):
    """A layer's input."""

    #: [num_src, width].
    x_src: Tensor
    #: Rows of destinations, the first of which are those of `lists`; None without.
    x_dst: Tensor | None
    #: The lists of the first destinations. The others have no neighbours.
    lists: Lists
    #: How many destinations there are.
    num_dst: int
    #: The positions of the given edges in the order of the lists; None: the same order.
    order: Tensor | None


def given(x: Any, edges: Any, size: Any = None) -> Given:
    """Rows and edges of a layer as PyG's layers take them, or with a block of ours in place of the edges.

    x: a tensor with a row for every node, or a pair, rows of sources and of destinations (or None). With a block, whose
    destinations are the first of its sources, a tensor has the rows of its sources.
    """
    if getattr(edges, "folded", False):
        raise ValueError(
            "the block is folded: the producer has aggregated its sources, whose rows are not in the batch. Take "
            "batch.aggregated in place of what this layer would sum, for example "
            "conv.lin_l(batch.aggregated) + conv.lin_r(batch.x) of a SAGEConv, and give layers the other blocks"
        )
    x = all_rows(x)
    x_src, x_dst = x if isinstance(x, tuple) else (x, x)
    if x_src.dim() != 2:
        raise ValueError(f"x is {list(x_src.shape)}: a row for each node, [nodes, width], is needed")
    if isinstance(edges, Lists) or all(hasattr(edges, name) for name in ("indptr", "indices", "num_src")):
        if x_src.size(0) != edges.num_src:
            raise ValueError(f"x has {x_src.size(0)} rows, but the block has {edges.num_src} sources")
        lists = edges if isinstance(edges, Lists) else Lists(edges.indptr, edges.indices, edges.num_src)
        if x_dst is not None and x_dst.size(0) < lists.num_dst:
            raise ValueError(f"x has {x_dst.size(0)} rows of destinations, but the block has {lists.num_dst}")
        return Given(x_src, None if x_dst is None else x_dst[: lists.num_dst], lists, lists.num_dst, None)
    num_src = x_src.size(0)
    num_dst = size[1] if x_dst is None and size is not None else num_src if x_dst is None else x_dst.size(0)
    if size is not None and tuple(size) != (num_src, num_dst):
        raise ValueError(f"size={tuple(size)}, but x has {num_src} rows of sources and {num_dst} of destinations")
    lists, order = lists_of(edges, num_src, num_dst)
    if x_dst is x_src and lists.indptr.device.type == "cpu":
        # After the first list that ends with the last edge, all are empty.
        lists = lists.first(int(torch.searchsorted(lists.indptr, lists.num_edges)))
    return Given(x_src, x_dst, lists, num_dst, order)


def in_order(values: Tensor | None, of: Given, name: str) -> Tensor | None:
    """A value of each edge, in the order of the lists."""
    if values is None:
        return None
    if values.dim() == 2 and values.size(1) == 1:
        values = values.view(-1)
    if values.dim() != 1 or values.numel() != of.lists.num_edges:
        raise ValueError(f"{name} is {list(values.shape)}, but there are {of.lists.num_edges} edges")
    return values if of.order is None else values.index_select(0, of.order)


#: As in crates/uva-train/src/layer/convolution.rs: an element of a neighbour's row in multiply-adds of a product, and
#: its way back as a multiple of that.
_GATHER, _BACK = 10.0, 2.0


def linear_first(lists: Lists, inputs: int, outputs: int, input_gradient: bool) -> bool:
    """Whether a layer that sums rows had better multiply them by its weight first. The result is the same."""
    products = 3.0 if input_gradient else 2.0
    gathers = 1.0 + _BACK if input_gradient else 1.0
    summed_first = lists.num_edges * inputs * _GATHER * gathers + lists.num_dst * inputs * outputs * products
    linear = lists.num_edges * outputs * _GATHER * (1.0 + _BACK) + lists.num_src * inputs * outputs * products
    return linear < summed_first


#: An element of a neighbour's row in multiply-adds of a product, where rows have weights of their edges. Measured with
#: eight shapes of forward and backward passes on two threads (1,024 and 9,000 destinations, 9,000 to 52,000 sources, 100
#: to 600 inputs, 1 to 8 heads): the rule chose the quicker way in seven, and 1.13 times its time in the eighth.
_GATHER_WEIGHTED = 18.0


def sums_first(lists: Lists, inputs: int, of_heads: tuple[int, int], input_gradient: bool) -> bool:
    """Whether attention had better sum the rows of each head before it multiplies them. The result is the same."""
    heads, width = of_heads
    outputs = heads * width
    # The rows are read for the sums and for the gradient of the weights; their own gradient reads as much again.
    reads = 3.0 if input_gradient else 2.0
    summed = lists.num_edges * inputs * heads * _GATHER_WEIGHTED * reads + lists.num_dst * inputs * outputs * 3.0
    linear = lists.num_edges * outputs * _GATHER_WEIGHTED * 3.0 + lists.num_src * inputs * outputs * reads
    return summed < linear


def glorot(weight: Tensor | None) -> None:
    """PyG's `glorot`: uniform, by the last two dimensions."""
    if weight is not None:
        bound = math.sqrt(6.0 / (weight.size(-2) + weight.size(-1)))
        torch.nn.init.uniform_(weight, -bound, bound)


def refuse_others(layer: str, options: dict[str, Any], allowed: dict[str, Any]) -> None:
    """Options of PyG's that have no effect at these values, and are not supported at others."""
    for name, value in options.items():
        if name not in allowed:
            raise TypeError(f"{layer} has no option {name!r}")
        if value != allowed[name]:
            raise ValueError(f"{layer}: {name}={value!r} is not supported: use torch_geometric.nn.{layer}")


def check_channels(layer: str, in_channels: Any) -> None:
    """Refuses sizes that PyG would take from the first input."""
    sizes = in_channels if isinstance(in_channels, tuple | list) else (in_channels,)
    if any(size <= 0 for size in sizes):
        raise ValueError(f"{layer}: in_channels={in_channels!r}: sizes are not taken from the first input, name them")
