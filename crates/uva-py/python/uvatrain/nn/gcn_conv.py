"""GCN's layer."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn import Linear, Parameter

from . import functional
from ._layer import Given, check_channels, given, glorot, in_order, linear_first, refuse_others
from ._rows import Rows, later
from .lists import Lists

__all__ = ["GCNConv"]


class GCNConv(torch.nn.Module):
    """`torch_geometric.nn.GCNConv` over our loops: W · weighted sum of a node and its neighbours + b.

    Degrees are counted in the edges that are given, as PyG does. In a sampled batch these are the picked ones. With the
    whole graph's in-degrees, `forward(..., degrees=)`, weights are those of `uvatrain train --model gcn` instead.

    improved, add_self_loops, normalize, bias: as PyG's. `cached=True` is refused: each batch has edges of its own.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        improved: bool = False,
        cached: bool = False,
        add_self_loops: bool | None = None,
        normalize: bool = True,
        bias: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__()
        allowed = {"aggr": "add", "flow": "source_to_target", "node_dim": -2, "decomposed_layers": 1}
        refuse_others("GCNConv", {"cached": cached, **kwargs}, {"cached": False, **allowed})
        check_channels("GCNConv", in_channels)
        add_self_loops = normalize if add_self_loops is None else add_self_loops
        if add_self_loops and not normalize:
            raise ValueError("GCNConv: add_self_loops=True is not supported with normalize=False")
        self.in_channels, self.out_channels = in_channels, out_channels
        self.improved, self.add_self_loops, self.normalize = improved, add_self_loops, normalize
        self.lin = Linear(in_channels, out_channels, bias=False)
        if bias:
            self.bias = Parameter(torch.empty(out_channels))
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draws all parameters again."""
        glorot(self.lin.weight)
        if self.bias is not None:
            torch.nn.init.zeros_(self.bias)

    def forward(
        self, x: Tensor, edge_index: Any, edge_weight: Tensor | None = None, degrees: Tensor | None = None
    ) -> Tensor:
        """One row for each node; with a block, one for each destination.

        x: [nodes, in_channels]. edge_index: int64 [2, edges], or a block of a batch.
        edge_weight: [edges].
        degrees: [nodes], in-degrees in the whole graph. The picks of a list then stand for the whole list
        (docs/guide/models.md), and an edge_weight is what the sampler gave, in place of one over the picks.
        """
        if isinstance(x, tuple | list):
            raise ValueError("GCNConv: x is a pair, and rows of all nodes are needed: SAGEConv takes pairs")
        of = given(x, edge_index)
        edge_weight = in_order(edge_weight, of, "edge_weight")
        if degrees is not None and (degrees.dim() != 1 or degrees.numel() != of.x_src.size(0)):
            raise ValueError(f"degrees is {list(degrees.shape)}, but x has {of.x_src.size(0)} rows")
        weights: Tensor | None
        inverse: Tensor | None = None
        if degrees is not None:
            lists, weights = _of_the_whole_graph(of, edge_weight, degrees)
            inverse = (degrees + 1).to(of.x_src.dtype).reciprocal().unsqueeze(1)
        elif self.normalize:
            fill = 2.0 if self.improved and edge_weight is not None else 1.0
            lists, weights = _normalized(of, edge_weight, fill if self.add_self_loops else 0.0)
        else:
            lists, weights = of.lists, edge_weight
        head = lists.num_dst

        def summed(rows: Tensor) -> Tensor:
            sums = functional.weighted_sums(lists, rows, weights)
            return sums if inverse is None else torch.addcmul(sums, rows[:head], inverse[:head])

        weight = self.lin.weight
        if linear_first(lists, weight.size(1), weight.size(0), of.x_src.requires_grad):
            out = summed(F.linear(of.x_src, weight))
            out = out if self.bias is None else out + self.bias
        else:
            out = F.linear(summed(of.x_src), weight, self.bias)

        def without_neighbours(stop: int) -> Tensor:
            rows = of.x_src[head:stop]
            if inverse is not None:
                rows = rows * inverse[head:stop]
            elif not (self.normalize and self.add_self_loops):
                rows = torch.zeros_like(rows)
            return F.linear(rows, weight, self.bias)

        tail = later(without_neighbours, (of.x_src, *self.parameters()))
        return Rows.of(out, tail, of.num_dst)

    def extra_repr(self) -> str:
        return f"{self.in_channels}, {self.out_channels}"


def _normalized(of: Given, edge_weight: Tensor | None, own: float) -> tuple[Lists, Tensor]:
    """PyG's `gcn_norm`: edges and their weights.

    own: the weight of a node's edge to itself where it has none; 0: none is added.
    """
    lists, dtype = of.lists, of.x_src.dtype
    weights = edge_weight
    if own:
        lists, origin = lists.with_own()
        if edge_weight is not None:
            filled = torch.cat([edge_weight, edge_weight.new_full((1,), own)])
            weights = filled[torch.where(origin < 0, edge_weight.numel(), origin).long()]
    if weights is None:
        totals = lists.counts().to(dtype)
    else:
        totals = weights.new_zeros(lists.num_dst).index_add(0, lists.destinations(), weights)
    # Nodes after the lists have at most their own edge.
    totals = torch.cat([totals, totals.new_full((of.x_src.size(0) - lists.num_dst,), own)])
    roots = totals.pow(-0.5)
    roots = roots.masked_fill(roots == float("inf"), 0.0)
    products = roots.index_select(0, lists.indices) * roots.index_select(0, lists.destinations())
    return lists, products if weights is None else products * weights


def _of_the_whole_graph(of: Given, edge_weight: Tensor | None, degrees: Tensor) -> tuple[Lists, Tensor]:
    """The weights of `uvatrain train --model gcn`: d_v / picks_v / √((d_v + 1)(d_u + 1))."""
    lists, dtype = of.lists, of.x_src.dtype
    degrees = degrees.double()
    roots = (degrees + 1).rsqrt()
    destinations = lists.destinations()
    scales = degrees[: lists.num_dst] * roots[: lists.num_dst]
    if edge_weight is None:
        weights = (scales / lists.counts()).index_select(0, destinations)
    else:
        weights = scales.index_select(0, destinations) * edge_weight
    return lists, (weights * roots.index_select(0, lists.indices)).to(dtype)
