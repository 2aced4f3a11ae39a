"""Trained models of hop sets in PyTorch. `uvatrain.load_model` makes them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, cast

import torch
from torch import nn
from torch.nn import functional

__all__ = ["KINDS", "HopModel"]


class HopModel(nn.Module):
    """A model over a hop set that `uvatrain train` has trained, as a PyTorch module of plain tensor operations.

    Its parameters have the names that they have in the checkpoint (docs/reference/checkpoint-format.md). `options` are
    those that it was trained with, `metadata` what else the checkpoint says of it.
    """

    #: Whether it reads the last hop alone.
    _last_alone = False

    def __init__(self, options: dict[str, Any]) -> None:
        super().__init__()
        self.options = dict(options)
        self.metadata: dict[str, Any] = {}
        #: Columns of the output: classes, or the numbers that regression predicts.
        self._outputs = options["targets"] if "targets" in options else options["classes"]

    def _logits(self, tables: list[torch.Tensor]) -> torch.Tensor:
        """From the tables that the model reads to the output."""
        raise NotImplementedError

    def _dropped(self, x: torch.Tensor) -> torch.Tensor:
        return functional.dropout(x, self.options["dropout"], self.training)

    def tables(self, stored: int) -> list[int]:
        """Which tables the model reads, of a hop set that has `stored` of them: positions in `HopSet.hops`."""
        return self.tables_of(self.options["hops"], self.options["operators"], stored)

    @classmethod
    def tables_of(cls, hops: int, operators: int, stored: int) -> list[int]:
        """The tables of a model that reads `hops` hops of each of `operators` operators."""
        of_each, rest = divmod(stored - 1, operators)
        if rest or of_each < hops:
            raise ValueError(f"{stored} tables: the model reads {hops} hops of {operators} operators, and the features")
        first = [] if cls._last_alone else [0]
        hops_read = [hops] if cls._last_alone else range(1, hops + 1)
        return first + [operator * of_each + hop for operator in range(operators) for hop in hops_read]

    def forward(self, xs: Sequence[torch.Tensor] | torch.Tensor) -> torch.Tensor:
        """The logits of nodes; of regression, what is predicted.

        xs: all tables of the hop set, or those that the model reads (`tables`): a list of [nodes, features], as
        `batch.xs` and `HopSet.hops`, or [nodes, tables, features], as `HopSet.rows`.
        """
        found = list(xs.unbind(1)) if isinstance(xs, torch.Tensor) else list(xs)
        read = 1 if self._last_alone else 1 + self.options["operators"] * self.options["hops"]
        if len(found) != read:
            found = [found[table] for table in self.tables(len(found))]
        columns = self.options["input_dim"]
        if any(table.dim() != 2 or table.shape[1] != columns for table in found):
            raise ValueError(f"tables of {[list(table.shape) for table in found]}: {columns} columns are needed")
        kind, share = next(self.parameters()).dtype, self.options["input_dropout"]
        return self._logits([functional.dropout(table.to(kind), share, self.training) for table in found])


class _Mean(HopModel):
    """S²GC: the mean over the hops, in which the features have a share; and a linear map."""

    def __init__(self, options: dict[str, Any]) -> None:
        super().__init__(options)
        self.output = nn.Linear(options["input_dim"], self._outputs)
        self.alpha = options.get("alpha", 0.05)

    def _logits(self, tables: list[torch.Tensor]) -> torch.Tensor:
        features, *hops = tables
        logits: torch.Tensor = self.output(self.alpha * features + (1 - self.alpha) / len(hops) * sum(hops))
        return logits


class _Last(HopModel):
    """SGC: a linear map of the last hop."""

    _last_alone = True

    def __init__(self, options: dict[str, Any]) -> None:
        super().__init__(options)
        self.output = nn.Linear(options["input_dim"], self._outputs)

    def _logits(self, tables: list[torch.Tensor]) -> torch.Tensor:
        [last] = tables
        logits: torch.Tensor = self.output(last)
        return logits


class _Maps(HopModel):
    """SIGN: a linear map of each hop, side by side, and a perceptron."""

    def __init__(self, options: dict[str, Any]) -> None:
        super().__init__(options)
        inputs, outputs = options["input_dim"], self._outputs
        hidden, layers, hops, operators = (options[name] for name in ("hidden", "layers", "hops", "operators"))
        self.operators = operators
        self.hops = nn.ModuleList(
            nn.Linear(inputs if hop == 0 else operators * inputs, hidden) for hop in range(hops + 1)
        )
        self.layers = nn.ModuleDict()
        sloped = options.get("activation", "relu") == "prelu"
        for layer in range(layers):
            last = layer + 1 == layers
            wide = (hops + 1) * hidden if layer == 1 else hidden
            made = nn.Module() if layer == 0 else nn.Linear(wide, outputs if last else hidden)
            if sloped and not last:
                made.slope = nn.Parameter(torch.full((1,), 0.25))
            self.layers[str(layer)] = made

    def _logits(self, tables: list[torch.Tensor]) -> torch.Tensor:
        hops = len(self.hops) - 1
        rows = [tables[0]]
        for hop in range(hops):
            of_hop = [tables[1 + operator * hops + hop] for operator in range(self.operators)]
            rows.append(torch.cat(of_hop, 1))
        x = torch.cat([layer(z) for layer, z in zip(self.hops, rows)], 1)
        for layer in range(1, len(self.layers)):
            slope = getattr(self.layers[str(layer - 1)], "slope", None)
            x = functional.relu(x) if slope is None else functional.prelu(x, slope)
            x = self.layers[str(layer)](self._dropped(x))
        return x


class _Attention(HopModel):
    """HOGA: attention between the hops of a node."""

    def __init__(self, options: dict[str, Any]) -> None:
        super().__init__(options)
        inputs, outputs = options["input_dim"], self._outputs
        hidden = options["hidden"]
        self.heads = options.get("heads", 8)
        self.hops = nn.ModuleList(nn.Linear(inputs, hidden, bias=False) for _ in range(options["hops"] + 1))
        self.layers = nn.ModuleList()
        for _ in range(options["layers"]):
            layer = nn.Module()
            for name in ("query", "key", "value", "gate", "out"):
                setattr(layer, name, nn.Linear(hidden, hidden, bias=name in ("query", "out")))
            layer.norm = nn.LayerNorm(hidden)
            self.layers.append(layer)
        # What these have within them goes by the checkpoint's names, which no class declares.
        self.readout: Any = nn.Module()
        self.readout.weight = nn.Parameter(torch.empty(hidden))
        self.first: Any = nn.Linear(hidden, hidden, bias=False)
        self.first.norm = nn.LayerNorm(hidden)
        self.second = nn.Linear(hidden, outputs, bias=False)

    def _logits(self, tables: list[torch.Tensor]) -> torch.Tensor:
        z = torch.stack([layer(rows) for layer, rows in zip(self.hops, tables)], 1)
        nodes, hops, hidden = z.shape

        def of_heads(rows: torch.Tensor) -> torch.Tensor:
            return rows.view(nodes, hops, self.heads, hidden // self.heads).transpose(1, 2)

        for layer in cast("Iterable[Any]", self.layers):
            query, key, value = of_heads(layer.query(z)), of_heads(layer.key(z)), of_heads(layer.value(z))
            taken = functional.scaled_dot_product_attention(query, key, value)
            taken = layer.out(taken.transpose(1, 2).reshape(nodes, hops, hidden))
            z = self._dropped(functional.relu(layer.norm(layer.gate(z) * taken)))
        own, others = z[:, 0], z[:, 1:]
        shares = (others @ self.readout.weight).softmax(1)
        y = own + (others * shares[:, :, None]).sum(1)
        logits: torch.Tensor = self.second(self._dropped(self.first.norm(functional.relu(self.first(y)))))
        return logits


#: The class of each model.
KINDS: dict[str, type[HopModel]] = {"sgc": _Last, "s2gc": _Mean, "sign": _Maps, "hoga": _Attention}
