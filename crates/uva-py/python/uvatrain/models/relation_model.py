"""Models of `uvatrain train` over typed graphs in PyTorch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, cast

import torch
from torch import nn
from torch.nn import functional

from .model import _Edges

__all__ = ["RelationModel"]

Relation = tuple[str, str, str]


class _SageConv(nn.Module):
    """The mean of neighbours' rows through a matrix, and for roots by relation the node's own row through another."""

    def __init__(self, inputs: int, own: int | None, outputs: int) -> None:
        super().__init__()
        self.lin_l = nn.Linear(inputs, outputs)
        if own is not None:
            self.lin_r = nn.Linear(own, outputs, bias=False)

    def forward(self, x: torch.Tensor, own: torch.Tensor, edges: _Edges) -> torch.Tensor:
        means = edges.sums(x[edges.source]) / edges.picks(x).clamp(min=1)[:, None]
        rows: torch.Tensor = self.lin_l(means)
        return rows + self.lin_r(own) if hasattr(self, "lin_r") else rows


def _named(modules: Iterable[tuple[str, nn.Module]]) -> nn.Module:
    """A module of these. A `ModuleDict` takes no name that one of its own attributes has, such as `type`."""
    holder = nn.Module()
    for name, module in modules:
        holder._modules[name] = module
    return holder


class RelationModel(nn.Module):
    """A model of `uvatrain train` over a typed graph, as a PyTorch module of plain tensor operations.

    Its parameters have the names of PyG's modules: those of `convs[L]` are a `HeteroConv` of `SAGEConv` for each of
    `relations[L]`, the relations on which the target's rows depend. `options` are those that it was trained with,
    `metadata` what else the checkpoint says of it. `embeddings` has the trained rows of node types without features.
    """

    def __init__(self, options: dict[str, Any]) -> None:
        super().__init__()
        self.options = dict(options)
        self.metadata: dict[str, Any] = {}
        #: [nodes, columns] by node type; no part of the state.
        self.embeddings: dict[str, torch.Tensor] = {}
        graph, layers = options["graph"], options["layers"]
        #: The type of the nodes that the model has logits for.
        self.target: str = graph["target"]
        self._root = options.get("root", "relation")
        #: The relations of each layer.
        self.relations: list[list[Relation]] = self._wiring(graph, layers)
        columns = options.get("embedding_dim") or options["hidden"]
        widths = {of_type["name"]: of_type.get("columns", columns) for of_type in graph["types"]}
        outputs = options["targets"] if "targets" in options else options["classes"]
        self.convs, self.roots = nn.ModuleList(), nn.ModuleList()
        for number, relations in enumerate(self.relations):
            width = outputs if number + 1 == layers else options["hidden"]
            convs = []
            for source, name, to in relations:
                own = widths[to] if self._root == "relation" else None
                convs.append((f"<{source}___{name}___{to}>", _SageConv(widths[source], own, width)))
            layer = nn.Module()
            layer.convs = _named(convs)
            self.convs.append(layer)
            into = [name for name in widths if any(name == to for _, _, to in relations)]
            if self._root == "type":
                self.roots.append(_named((name, nn.Linear(widths[name], width)) for name in into))
            widths = dict.fromkeys(widths, width)

    def _wiring(self, graph: dict[str, Any], layers: int) -> list[list[Relation]]:
        """The relations on which the target's rows depend, by layer. A type into which none leads has no later rows."""
        everything = [cast("Relation", tuple(names)) for names in graph["relations"]]
        has_rows, possible = {of_type["name"] for of_type in graph["types"]}, []
        for _ in range(layers):
            possible.append([of for of in everything if of[0] in has_rows and of[2] in has_rows])
            has_rows = {to for _, _, to in possible[-1]}
        read, used = {self.target}, []
        for relations in reversed(possible):
            used.append([of for of in relations if of[2] in read])
            read = (set() if self._root == "none" else read) | {source for source, _, _ in used[-1]}
        return used[::-1]

    def inputs(self, batch: Any) -> dict[str, torch.Tensor]:
        """The input rows of a batch by node type: its features, and rows of `embeddings` for types without them."""
        rows = {name: table[batch[name].n_id.to(table.device, torch.int64)] for name, table in self.embeddings.items()}
        return {**batch.x_dict, **rows}

    def forward(self, x: Mapping[str, torch.Tensor], edge_index: Any) -> torch.Tensor:
        """The logits of the target's nodes (of regression, what is predicted).

        x: input rows by node type, as `inputs` has them. edge_index: [2, edges] by relation as PyG has it, for all layers; or one such
        mapping for each layer, the hop at the seeds first; or `batch.blocks`, whose layers make rows for their
        destinations alone. With blocks there is a row for each seed, else one for each of the target's rows of x.
        """
        layers = len(self.convs)
        by_layer = [edge_index] * layers if isinstance(edge_index, Mapping) else list(edge_index)[::-1]
        if len(by_layer) != layers:
            raise ValueError(f"edge_index has {len(by_layer)} layers: {layers} are needed")
        kind = next(self.parameters()).dtype
        types, dropout = self.options["graph"]["types"], self.options["input_dropout"]
        shares = {of["name"]: dropout if "columns" in of else 0.0 for of in types if of["name"] in x}
        rows = {name: functional.dropout(x[name].to(kind), share, self.training) for name, share in shares.items()}
        counts = {name: len(of) for name, of in rows.items()}
        for number, relations in enumerate(self.relations):
            rows = self._layer(number, relations, rows, by_layer[number], counts)
            if number + 1 < layers:
                rows = {
                    name: functional.dropout(functional.relu(of), self.options["dropout"], self.training)
                    for name, of in rows.items()
                }
        return rows[self.target]

    def _layer(
        self,
        number: int,
        relations: list[Relation],
        x: dict[str, torch.Tensor],
        edge_index: Mapping[Any, Any],
        counts: dict[str, int],
    ) -> dict[str, torch.Tensor]:
        results: dict[str, list[torch.Tensor]] = {}
        own: dict[str, torch.Tensor] = {}
        for of in relations:
            source, name, to = of
            if source not in x:
                raise ValueError(f"x has no rows of {source}, which the model reads")
            edges = _Edges(_of_relation(edge_index, of), counts.get(to, 0), x[source], None)
            # A model that does not read them may get no rows of the destinations.
            own[to] = x[to][: edges.destinations] if to in x else x[source][:0]
            conv = cast("Any", self.convs[number]).convs._modules[f"<{source}___{name}___{to}>"]
            results.setdefault(to, []).append(conv(x[source], own[to], edges))
        rows = {}
        for to, of_type in results.items():
            summed = torch.stack(of_type).sum(0)
            rows[to] = summed / len(of_type) if self.options.get("relation_sum", "sum") == "mean" else summed
            if self._root == "type":
                rows[to] = rows[to] + cast("Any", self.roots[number])._modules[to](own[to])
        return rows


def _of_relation(edge_index: Mapping[Any, Any], relation: Relation) -> Any:
    """The edges of a relation in a mapping by PyG's or our names."""
    for key in (relation, "__".join(relation)):
        if key in edge_index:
            return edge_index[key]
    raise ValueError(f"edge_index has no {'__'.join(relation)}, which the model reads")
