"""A layer for each relation of a typed graph."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import reduce
from typing import Any

import torch
from torch import Tensor
from torch.nn import Module

from ._names import EdgeType, ModulesByRelation
from ._typed import ends

__all__ = ["HeteroConv"]

_AGGREGATIONS: dict[str | None, Callable[[list[Tensor]], Tensor]] = {
    # In the order of the relations, without a table of all results.
    "sum": lambda results: reduce(torch.add, results),
    "mean": lambda results: reduce(torch.add, results) / len(results),
    "min": lambda results: torch.stack(results).min(dim=0).values,
    "max": lambda results: torch.stack(results).max(dim=0).values,
    "cat": lambda results: torch.cat(results, dim=-1),
    None: lambda results: torch.stack(results, dim=1),
}


class HeteroConv(Module):
    """`torch_geometric.nn.HeteroConv` over layers of `uvatrain.nn`.

    convs: a layer for each relation, a triple of names. A relation between two types needs `add_self_loops=False`.
    aggr: how results of several relations into one type become one: "sum", "mean", "min", "max", "cat", or None, which
    stacks them.
    """

    def __init__(self, convs: Mapping[EdgeType, Module], aggr: str | None = "sum") -> None:
        super().__init__()
        if aggr not in _AGGREGATIONS:
            known = ", ".join(repr(name) for name in _AGGREGATIONS)
            raise ValueError(f"HeteroConv: aggr={aggr!r} is not supported: expected one of {known}")
        for names, conv in convs.items():
            if names[0] != names[2] and getattr(conv, "add_self_loops", False):
                raise ValueError(
                    f"HeteroConv: {'__'.join(names)} leads from one type to another, where nodes have no edges to "
                    f"themselves: make its {type(conv).__name__} with add_self_loops=False"
                )
        self.edge_types: list[EdgeType] = list(convs)
        self.convs = ModulesByRelation(convs)
        self.aggr = aggr

    def reset_parameters(self) -> None:
        """Draws all parameters again."""
        for conv in self.convs.values():
            conv.reset_parameters()  # type: ignore[operator]  # Every layer has it.

    def forward(
        self, x_dict: Mapping[str, Any], edge_index_dict: Mapping[Any, Any], **kwargs_dict: Mapping[Any, Any]
    ) -> dict[str, Tensor]:
        """Rows of each type that a given relation leads to: one for each node; with blocks, for each destination.

        x_dict: rows by node type.
        edge_index_dict: edges by relation, `batch.edge_index_dict` or `batch.blocks[layer]`.
        kwargs_dict: other arguments of the layers by relation or type, such as `edge_weight_dict`.
        """
        results: dict[str, list[Tensor]] = {}
        for names in self.edge_types:
            if names not in edge_index_dict:
                continue
            source, _, destination = names
            edges = edge_index_dict[names]
            x = ends("HeteroConv", x_dict, names, edges)
            arguments = {}
            for keyword, values in kwargs_dict.items():
                if not keyword.endswith("_dict"):
                    raise TypeError(f"HeteroConv has no option {keyword!r}: layers' arguments are dicts, {keyword}_dict")
                found = values[names] if names in values else values.get(source) if source == destination else None
                if found is not None:
                    arguments[keyword.removesuffix("_dict")] = found
            try:
                result = self.convs[names](x[0] if source == destination else x, edges, **arguments)
            except ValueError as error:
                raise ValueError(f"{'__'.join(names)}: {error}") from error
            results.setdefault(destination, []).append(result)
        combine = _AGGREGATIONS[self.aggr]
        # None adds a dimension to a single result too.
        return {
            name: found[0] if len(found) == 1 and self.aggr is not None else combine(found)
            for name, found in results.items()
        }

    def extra_repr(self) -> str:
        return f"aggr={self.aggr}"
