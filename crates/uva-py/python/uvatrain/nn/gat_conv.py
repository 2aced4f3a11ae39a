"""GAT's layer."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn import Linear, Parameter

from . import functional
from ._layer import check_channels, given, glorot, refuse_others, sums_first
from ._rows import Rows, later
from .lists import Lists

__all__ = ["GATConv"]


class GATConv(torch.nn.Module):
    """`torch_geometric.nn.GATConv` over our loops.

    heads, concat, negative_slope, dropout, add_self_loops, bias, residual: as PyG's. `edge_dim`, `edge_attr` and
    `return_attention_weights` are refused.
    """

    def __init__(
        self,
        in_channels: int | tuple[int, int],
        out_channels: int,
        heads: int = 1,
        concat: bool = True,
        negative_slope: float = 0.2,
        dropout: float = 0.0,
        add_self_loops: bool = True,
        edge_dim: int | None = None,
        fill_value: Any = "mean",
        bias: bool = True,
        residual: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__()
        allowed = {"aggr": "add", "flow": "source_to_target", "decomposed_layers": 1}
        refuse_others("GATConv", {"edge_dim": edge_dim, **kwargs}, {"edge_dim": None, **allowed})
        check_channels("GATConv", in_channels)
        self.in_channels, self.out_channels = in_channels, out_channels
        self.heads, self.concat, self.negative_slope = heads, concat, negative_slope
        self.dropout, self.add_self_loops, self.residual = dropout, add_self_loops, residual
        # As in PyG, a pair of sizes has two maps, and one size a single map for both sides.
        self.lin = self.lin_src = self.lin_dst = None
        if isinstance(in_channels, int):
            self.lin = Linear(in_channels, heads * out_channels, bias=False)
        else:
            self.lin_src = Linear(in_channels[0], heads * out_channels, bias=False)
            self.lin_dst = Linear(in_channels[1], heads * out_channels, bias=False)
        self.att_src = Parameter(torch.empty(1, heads, out_channels))
        self.att_dst = Parameter(torch.empty(1, heads, out_channels))
        total = out_channels * (heads if concat else 1)
        if residual:
            of_destinations = in_channels if isinstance(in_channels, int) else in_channels[1]
            self.res = Linear(of_destinations, total, bias=False)
        else:
            self.register_parameter("res", None)
        if bias:
            self.bias = Parameter(torch.empty(total))
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draws all parameters again."""
        for layer in (self.lin, self.lin_src, self.lin_dst, self.res):
            glorot(None if layer is None else layer.weight)
        glorot(self.att_src)
        glorot(self.att_dst)
        if self.bias is not None:
            torch.nn.init.zeros_(self.bias)

    def forward(
        self,
        x: Any,
        edge_index: Any,
        edge_attr: Tensor | None = None,
        size: tuple[int, int] | None = None,
        return_attention_weights: bool | None = None,
    ) -> Tensor:
        """One row for each destination.

        x: [nodes, in_channels], or a pair, rows of sources and of destinations.
        edge_index: int64 [2, edges], or a block of a batch, whose sources' rows `x` are then.
        """
        if edge_attr is not None or return_attention_weights is not None:
            name = "return_attention_weights" if edge_attr is None else "edge_attr"
            raise ValueError(f"GATConv: {name} is not supported: use torch_geometric.nn.GATConv")
        of = given(x, edge_index, size)
        of_sources, of_destinations = self._maps()
        lists = of.lists.with_own()[0] if self.add_self_loops else of.lists
        head = lists.num_dst
        scores = F.linear(of.x_src, self._folded(of_sources, self.att_src))
        if of.x_dst is None:
            to = scores.new_zeros(head, self.heads)
        else:
            to = F.linear(of.x_dst[:head], self._folded(of_destinations, self.att_dst))
        weights = functional.attention(lists, scores, to, self.negative_slope)
        weights = F.dropout(weights, p=self.dropout, training=self.training)
        if sums_first(lists, of.x_src.size(1), (self.heads, self.out_channels), of.x_src.requires_grad):
            out = self._product_of_sums(lists, of.x_src, weights, of_sources.weight)
        else:
            out = functional.weighted_sums(lists, of_sources(of.x_src), weights)

        def finished(rows: Tensor, own: Tensor | None) -> Tensor:
            if not self.concat:
                rows = rows.view(-1, self.heads, self.out_channels).mean(dim=1)
            if self.res is not None and own is not None:
                rows = rows + self.res(own)
            return rows if self.bias is None else rows + self.bias

        def without_neighbours(stop: int) -> Tensor:
            rows, own = of_sources(of.x_src[head:stop]), None if of.x_dst is None else of.x_dst[head:stop]
            if not self.add_self_loops:
                return finished(torch.zeros_like(rows), own)
            # A node alone gives itself all its attention.
            alone = F.dropout(rows.new_ones(rows.size(0), self.heads, 1), p=self.dropout, training=self.training)
            return finished((rows.view(-1, self.heads, self.out_channels) * alone).flatten(1), own)

        tail = later(without_neighbours, (of.x_src, of.x_dst, *self.parameters()))
        return Rows.of(finished(out, None if of.x_dst is None else of.x_dst[:head]), tail, of.num_dst)

    def _maps(self) -> tuple[Linear, Linear]:
        """The maps of sources and of destinations."""
        if self.lin is not None:
            return self.lin, self.lin
        assert self.lin_src is not None and self.lin_dst is not None
        return self.lin_src, self.lin_dst

    def _product_of_sums(self, lists: Lists, rows: Tensor, weights: Tensor, weight: Tensor) -> Tensor:
        """The sums of the rows' products, as the product of a head's sum of rows with its part of the weight."""
        by_head, origin = lists.by_head(self.heads)
        sums = functional.weighted_sums(by_head, rows, weights.flatten()[origin])
        sums = sums.view(lists.num_dst, self.heads, rows.size(1)).transpose(0, 1)
        products = torch.bmm(sums, weight.view(self.heads, self.out_channels, -1).transpose(1, 2))
        return products.transpose(0, 1).flatten(1)

    def _folded(self, layer: Linear, vectors: Tensor) -> Tensor:
        """A head's vector times its part of the weight, [heads, inputs]: scores without a table of all products."""
        weight = layer.weight.view(self.heads, self.out_channels, -1)
        return torch.matmul(vectors.view(self.heads, 1, self.out_channels), weight).squeeze(1)

    def extra_repr(self) -> str:
        return f"{self.in_channels}, {self.out_channels}, heads={self.heads}"
