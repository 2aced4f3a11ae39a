"""GraphSAGE's layer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn import Linear

from . import functional
from ._layer import check_channels, given, linear_first, refuse_others
from ._rows import Rows, later
from .lists import Lists

__all__ = ["SAGEConv"]


class SAGEConv(torch.nn.Module):
    """`torch_geometric.nn.SAGEConv` over our loops: W₁ · aggregate of the neighbours + W₂ · own row + b.

    in_channels: columns of `x`, or a pair, those of sources and of destinations.
    aggr: "mean", "sum" (or "add") or "max". PyG's other ones are refused.
    normalize: divides each row of the result by its length.
    root_weight: False omits W₂.
    project: a linear layer and a ReLU on the sources' rows before.
    """

    def __init__(
        self,
        in_channels: int | tuple[int, int],
        out_channels: int,
        aggr: str = "mean",
        normalize: bool = False,
        root_weight: bool = True,
        project: bool = False,
        bias: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__()
        refuse_others("SAGEConv", kwargs, {"flow": "source_to_target", "node_dim": -2, "decomposed_layers": 1})
        check_channels("SAGEConv", in_channels)
        if aggr not in ("mean", "sum", "add", "max"):
            raise ValueError(f'SAGEConv: aggr={aggr!r} is not supported: "mean", "sum", "add" or "max" are')
        self.in_channels, self.out_channels = in_channels, out_channels
        self.aggr, self.normalize, self.root_weight, self.project = aggr, normalize, root_weight, project
        of_sources, of_destinations = in_channels if isinstance(in_channels, tuple) else (in_channels,) * 2
        if project:
            self.lin = Linear(of_sources, of_sources)
        self.lin_l = Linear(of_sources, out_channels, bias=bias)
        if root_weight:
            self.lin_r = Linear(of_destinations, out_channels, bias=False)

    def reset_parameters(self) -> None:
        """Draws all parameters again."""
        for layer in cast("Iterator[Any]", self.children()):
            layer.reset_parameters()

    def forward(self, x: Any, edge_index: Any, size: tuple[int, int] | None = None) -> Tensor:
        """One row for each destination.

        x: [nodes, in_channels], or a pair, rows of sources and of destinations.
        edge_index: int64 [2, edges], or a block of a batch, whose sources' rows `x` are then.
        """
        of = given(x, edge_index, size)
        x_src = self.lin(of.x_src).relu() if self.project else of.x_src
        head = of.lists.num_dst
        out = self._of_neighbours(of.lists, x_src)
        own = of.x_dst if self.root_weight else None
        if own is not None:
            # A product is added where it is made: one table less to write and read.
            out = torch.addmm(out, own[:head], self.lin_r.weight.t())

        def without_neighbours(stop: int) -> Tensor:
            rows = of.x_src.new_zeros(stop - head, self.out_channels)
            if self.lin_l.bias is not None:
                rows = rows + self.lin_l.bias
            return self._normalized(rows if own is None else rows + self.lin_r(own[head:stop]))

        tail = later(without_neighbours, (own, *self.parameters()))
        return Rows.of(self._normalized(out), tail, of.num_dst)

    def _of_neighbours(self, lists: Lists, x: Tensor) -> Tensor:
        rows: Tensor
        if self.aggr == "max":
            rows = self.lin_l(functional.maxima(lists, x))
            return rows
        weights = functional.MEAN if self.aggr == "mean" else None
        outputs, inputs = self.lin_l.weight.shape
        if not linear_first(lists, inputs, outputs, x.requires_grad):
            rows = self.lin_l(functional.weighted_sums(lists, x, weights))
            return rows
        sums = functional.weighted_sums(lists, F.linear(x, self.lin_l.weight), weights)
        return sums if self.lin_l.bias is None else sums + self.lin_l.bias

    def _normalized(self, rows: Tensor) -> Tensor:
        return F.normalize(rows, p=2.0, dim=-1) if self.normalize else rows

    def extra_repr(self) -> str:
        return f"{self.in_channels}, {self.out_channels}, aggr={self.aggr}"
