"""Models of `uvatrain train` in PyTorch."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, cast

import torch
from torch import nn
from torch.nn import functional

from .hop_model import KINDS

__all__ = ["LAYERS", "Model"]

#: Rows whose absolute values sum to less than this are divided by it instead.
_SMALLEST_ROW_SUM = 1e-12
#: LeakyReLU's slope below zero.
_SLOPE = 0.2


class _Edges:
    """A layer's edges: from sources to destinations, which are the first of the sources."""

    def __init__(self, layer: Any, rows: int, x: torch.Tensor, attr: torch.Tensor | None) -> None:
        self.weights: torch.Tensor | None = None
        if hasattr(layer, "num_dst"):
            # A block of ours. Copies, since a backward pass may come when its slot has gone.
            self.destinations, edge_index = layer.num_dst, layer.edge_index
            if layer._core.weighs_edges:
                self.weights = layer.weights.clone()
            if attr is None and layer._core.has_edge_attr:
                attr = layer.edge_attr.clone()
        else:
            self.destinations, edge_index = rows, layer
        if edge_index.dim() != 2 or edge_index.shape[0] != 2:
            raise ValueError(f"edge_index is {list(edge_index.shape)}: [2, edges] is needed")
        self.source, self.target = edge_index.to(x.device)
        self._attr = None if attr is None else attr.to(x)

    def attr(self, columns: int) -> torch.Tensor:
        """The edges' features."""
        if self._attr is None:
            raise ValueError(
                "edge_attr= is needed: the model takes edge features, of which blocks have theirs with "
                "Loader(..., edge_attr=True)"
            )
        if list(self._attr.shape) != [len(self.target), columns]:
            raise ValueError(f"edge_attr is {list(self._attr.shape)}: [{len(self.target)}, {columns}] is needed")
        return self._attr

    def picks(self, like: torch.Tensor) -> torch.Tensor:
        """How many edges each destination has."""
        ones = torch.ones_like(self.target, dtype=like.dtype)
        return torch.zeros(self.destinations, dtype=like.dtype, device=like.device).index_add_(0, self.target, ones)

    def sums(self, rows: torch.Tensor) -> torch.Tensor:
        """The sums of edges' rows by destination."""
        return rows.new_zeros((self.destinations, *rows.shape[1:])).index_add_(0, self.target, rows)


class _Sage(nn.Module):
    """A node's own row and the mean of its neighbours' rows, each through a matrix of its own."""

    def __init__(self, inputs: int, outputs: int, **_: Any) -> None:
        super().__init__()
        self.own = nn.Linear(inputs, outputs, bias=False)
        self.neighbours = nn.Linear(inputs, outputs, bias=False)
        self.bias = nn.Parameter(torch.zeros(outputs))

    def forward(self, x: torch.Tensor, edges: _Edges, degrees: torch.Tensor | None) -> torch.Tensor:
        if edges.weights is None:
            means = edges.sums(x[edges.source]) / edges.picks(x).clamp(min=1)[:, None]
        else:
            means = edges.sums(x[edges.source] * edges.weights[:, None])
        rows: torch.Tensor = self.own(x[: edges.destinations]) + self.neighbours(means) + self.bias
        return rows


class _Gcn(nn.Module):
    """A sum over neighbours and the node itself, by the degrees in the whole graph."""

    def __init__(self, inputs: int, outputs: int, **_: Any) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(outputs, inputs))
        self.bias = nn.Parameter(torch.zeros(outputs))

    def forward(self, x: torch.Tensor, edges: _Edges, degrees: torch.Tensor | None) -> torch.Tensor:
        picks = edges.picks(x)
        if degrees is None:
            if edges.destinations < len(x):
                raise ValueError(
                    "degrees= is needed: a GCN weighs by the in-degrees in the whole graph, which blocks do not have "
                    "(dataset.indptr.diff()[batch.input_nodes])"
                )
            degrees = picks
        if len(degrees) != len(x):
            degrees = degrees[: len(x)]
        degrees = degrees.to(x)
        root = (degrees + 1).rsqrt()
        # The picked edges stand for all of them.
        share = 1 / picks.clamp(min=1)[edges.target] if edges.weights is None else edges.weights
        weights = share * degrees[edges.target] * root[edges.target] * root[edges.source]
        own = x[: edges.destinations] * root[: edges.destinations, None].square()
        return functional.linear(edges.sums(x[edges.source] * weights[:, None]) + own, self.weight, self.bias)


class _Gat(nn.Module):
    """Neighbours and the node itself, weighted by the softmax of LeakyReLU(a·Wx_u + b·Wx_v + c·Ue_uv).

    The edge from a node to itself has the mean of the features of its other edges.
    """

    def __init__(
        self, inputs: int, outputs: int, heads: int, averaged: bool, dropout: float, edge_dim: int
    ) -> None:
        super().__init__()
        width = outputs if averaged else outputs // heads
        self.weight = nn.Parameter(torch.empty(heads * width, inputs))
        # What it has within it goes by the checkpoint's names, which no class declares.
        self.attention: Any = nn.Module()
        self.attention.source = nn.Parameter(torch.empty(heads, width))
        self.attention.destination = nn.Parameter(torch.empty(heads, width))
        self.bias = nn.Parameter(torch.zeros(outputs))
        self.averaged, self.dropout, self.edge_dim = averaged, dropout, edge_dim
        if edge_dim:
            self.edge = nn.Linear(edge_dim, heads * width, bias=False)
            self.attention.edge = nn.Parameter(torch.empty(heads, width))

    def forward(self, x: torch.Tensor, edges: _Edges, degrees: torch.Tensor | None) -> torch.Tensor:
        if edges.weights is not None:
            raise ValueError("a GAT computes weights of its own, and these blocks have weights")
        heads, width = self.attention.source.shape
        z = functional.linear(x, self.weight).view(-1, heads, width)
        of_source = (z * self.attention.source).sum(-1)
        of_destination = (z[: edges.destinations] * self.attention.destination).sum(-1)
        # Each node is a neighbour of itself, in addition to a self-loop in its list.
        own = torch.arange(edges.destinations, device=x.device)
        source, target = torch.cat([edges.source, own]), torch.cat([edges.target, own])
        scores = of_source[source] + of_destination[target]
        if self.edge_dim:
            of_edge = (self.edge(edges.attr(self.edge_dim)).view(-1, heads, width) * self.attention.edge).sum(-1)
            means = edges.sums(of_edge) / edges.picks(x).clamp(min=1)[:, None]
            scores = scores + torch.cat([of_edge, means])
        scores = functional.leaky_relu(scores, _SLOPE)
        index = target[:, None].expand(-1, heads)
        largest = scores.new_full((edges.destinations, heads), -torch.inf)
        largest = largest.scatter_reduce(0, index, scores.detach(), "amax")
        shares = (scores - largest[target]).exp()
        shares = shares / torch.zeros_like(largest).index_add(0, target, shares)[target]
        shares = functional.dropout(shares, self.dropout, self.training)
        out = z.new_zeros((edges.destinations, heads, width)).index_add(0, target, z[source] * shares[:, :, None])
        return (out.mean(1) if self.averaged else out.flatten(1)) + self.bias


class _Gin(nn.Module):
    """A perceptron over (1 + ε) times the node's row and the sum of its neighbours'."""

    def __init__(self, inputs: int, outputs: int, **_: Any) -> None:
        super().__init__()
        self.eps = nn.Parameter(torch.zeros(1))
        self.nn = nn.Sequential(nn.Linear(inputs, outputs), nn.ReLU(), nn.Linear(outputs, outputs))

    def forward(self, x: torch.Tensor, edges: _Edges, degrees: torch.Tensor | None) -> torch.Tensor:
        if edges.weights is not None:
            raise ValueError("a GIN does not weigh neighbours, but these blocks have weights")
        rows: torch.Tensor = self.nn(edges.sums(x[edges.source]) + (1 + self.eps) * x[: edges.destinations])
        return rows


class _Gine(_Gin):
    """The same over the sum of ReLU(neighbour's row + linear map of the edge's features)."""

    def __init__(self, inputs: int, outputs: int, edge_dim: int, **_: Any) -> None:
        super().__init__(inputs, outputs)
        self.lin = nn.Linear(edge_dim, inputs)

    def forward(self, x: torch.Tensor, edges: _Edges, degrees: torch.Tensor | None) -> torch.Tensor:
        if edges.weights is not None:
            raise ValueError("a GINE does not weigh neighbours, but these blocks have weights")
        messages = functional.relu(x[edges.source] + self.lin(edges.attr(self.lin.in_features)))
        rows: torch.Tensor = self.nn(edges.sums(messages) + (1 + self.eps) * x[: edges.destinations])
        return rows


#: The layer of each model, and what stands between layers.
LAYERS: dict[str, tuple[type[nn.Module], Any]] = {
    "sage": (_Sage, functional.relu),
    "gcn": (_Gcn, functional.relu),
    "gat": (_Gat, functional.elu),
    "gin": (_Gin, functional.relu),
    "gine": (_Gine, functional.relu),
}


class Model(nn.Module):
    """A model of `uvatrain train`, as a PyTorch module of plain tensor operations.

    Its parameters have the names that they have in the checkpoint (docs/reference/checkpoint-format.md). `options` are
    those that it was trained with, `metadata` what else the checkpoint says of it.
    """

    def __init__(self, options: dict[str, Any]) -> None:
        super().__init__()
        kind = options["model"]
        if options.get("first_layer_given"):
            # Trained over rows with the first layer's sums, for sage after the node's own row. This module sums in the first layer, too.
            columns = options["input_dim"] // (2 if kind == "sage" else 1)
            options = {**options, "input_dim": columns, "first_layer_given": False}
        self.options = dict(options)
        self.metadata: dict[str, Any] = {}
        if kind not in LAYERS:
            raise ValueError(f"the model is {kind!r}, and this version has {', '.join([*LAYERS, *KINDS])}")
        layer, self._activate = LAYERS[kind]
        layers, hidden = options["layers"], options["hidden"]
        # Columns of the output: classes, or the numbers that regression predicts.
        inputs, classes = options["input_dim"], options["targets"] if "targets" in options else options["classes"]
        self._residual, norm = options.get("residual", False), options.get("norm", "none") == "layer"
        heads = options.get("heads", 8)
        made = []
        for number in range(layers):
            last = number + 1 == layers and not self._residual
            made.append(
                layer(
                    inputs if number == 0 and not self._residual else hidden,
                    classes if last else hidden,
                    heads=(options.get("output_heads") or heads) if last else heads,
                    averaged=last,
                    dropout=options.get("attention_dropout", 0.0),
                    edge_dim=options.get("edge_dim", 0),
                )
            )
            if norm and not last:
                made[-1].norm = nn.LayerNorm(hidden)
            if self._residual:
                made[-1].second = nn.Linear(hidden, hidden)
        self.layers = nn.ModuleList(made)
        if self._residual:
            self.input, self.output = nn.Linear(inputs, hidden), nn.Linear(hidden, classes)
            if norm:
                self.output.norm = nn.LayerNorm(hidden)

    def _dropped(self, x: torch.Tensor) -> torch.Tensor:
        return functional.dropout(x, self.options["dropout"], self.training)

    def forward(
        self,
        x: torch.Tensor,
        edge_index: Any,
        degrees: torch.Tensor | None = None,
        hidden: int | None = None,
        edge_attr: Any = None,
    ) -> torch.Tensor:
        """The logits of nodes (of regression, what is predicted), or with `hidden=L` the rows after layer L, counted from 1.

        x: feature rows. edge_index: [2, edges] as PyG has it, for all layers (row 0 each edge's source, row 1 its
        target); or one for each layer, the hop at the seeds first, as `batch.edge_index`; or `batch.blocks`, whose
        layers make rows for their destinations alone. degrees: in-degrees of the nodes in the whole graph, which a GCN
        needs where `edge_index` is not the whole graph. edge_attr: for a model of edge features, their rows in the
        order of `edge_index`, or a list of them for each layer; blocks have their own.

        With blocks there is a row for each seed (with `hidden`, for each node that the later layers still need), else
        one for each row of x.
        """
        layers = len(self.layers)
        if isinstance(edge_index, torch.Tensor):
            by_layer, attr = [edge_index] * layers, [edge_attr] * layers
        else:
            by_layer = list(edge_index)[::-1]
            attr = [None] * layers if edge_attr is None else list(edge_attr)[::-1]
        if len(by_layer) != layers:
            raise ValueError(f"edge_index has {len(by_layer)} layers: {layers} are needed")
        if len(attr) != layers:
            raise ValueError(f"edge_attr has {len(attr)} layers: {layers} are needed")
        if hidden is not None and not 1 <= hidden <= layers:
            raise ValueError(f"hidden={hidden}: the model has layers 1 to {layers}")
        if x.shape[1] != self.options["input_dim"]:
            raise ValueError(f"x is {list(x.shape)}: {self.options['input_dim']} columns are needed")
        x = x.to(next(self.parameters()).dtype)
        if self.options.get("feature_norm", "none") == "row":
            x = x / x.abs().sum(1, keepdim=True).clamp(min=_SMALLEST_ROW_SUM)
        x = functional.dropout(x, self.options["input_dropout"], self.training)
        if self._residual:
            x = self._dropped(self._activate(self.input(x)))
        for number, layer in enumerate(cast("Iterable[Any]", self.layers), 1):
            edges = _Edges(by_layer[number - 1], len(x), x, attr[number - 1])
            norm = getattr(layer, "norm", None) or nn.Identity()
            if self._residual:
                added = self._dropped(self._activate(layer(norm(x), edges, degrees)))
                x = x[: edges.destinations] + self._dropped(layer.second(added))
            else:
                x = layer(x, edges, degrees)
                if number < layers:
                    x = self._activate(norm(x))
            if number == hidden:
                return x
            if not self._residual and number < layers:
                x = self._dropped(x)
        if self._residual:
            x = self.output((getattr(self.output, "norm", None) or nn.Identity())(x))
        return x
