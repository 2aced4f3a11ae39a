"""Models of `uvatrain train` over typed graphs in PyTorch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, cast

import torch
from torch import nn
from torch.nn import functional

from .model import _Edges
from .relation_layers import LAYERS, Drawn, Relation, RelationLayer, drawn_linear, named

__all__ = ["RelationModel"]


class RelationModel(nn.Module):
    """A model of `uvatrain train` over a typed graph, as a PyTorch module of plain tensor operations.

    Its parameters have the names of PyG's modules, for the relations on which the target's rows depend: `convs[L]` is a
    `HeteroConv` of `SAGEConv` or `GATConv` for each of `relations[L]` (rsage, rgat), an `RGCNConv` of them in their order
    (rgcn), or an `HGTConv` of their types and them (hgt). `options` are those that it was trained with, `metadata` what else the checkpoint says of it.
    `embeddings` has the trained rows of node types without features.
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
        #: The relations of each layer, and the types that have rows after it.
        self.relations: list[list[Relation]] = []
        self._types: list[list[str]] = []
        layer = LAYERS[options["model"]]
        inputs = self._wire(graph, layers, layer.keeps_own_rows)
        columns = options.get("embedding_dim") or options["hidden"]
        widths = {of_type["name"]: of_type.get("columns", columns) for of_type in graph["types"]}
        outputs = options["targets"] if "targets" in options else options["classes"]
        if layer.has_input_maps:
            self.lin_dict = named((name, nn.Linear(widths[name], options["hidden"])) for name in inputs)
            widths = dict.fromkeys(widths, options["hidden"])
        elif layer.has_one_width and len({widths[name] for name in inputs}) > 1:
            self.input = named((name, nn.Linear(widths[name], options["hidden"])) for name in inputs)
            widths = dict.fromkeys(widths, options["hidden"])
        self.convs, self.roots = nn.ModuleList(), nn.ModuleList()
        for number, (relations, types) in enumerate(zip(self.relations, self._types, strict=True)):
            is_last = number + 1 == layers and not layer.has_output_map
            width = outputs if is_last else options["hidden"]
            self.convs.append(layer(options, relations, types, widths, width))
            if self._root == "type" and not layer.keeps_own_rows:
                self.roots.append(named((name, nn.Linear(widths[name], width)) for name in types))
            widths = dict.fromkeys(widths, width)
        if layer.has_output_map:
            self.lin = nn.Linear(options["hidden"], outputs)

    def _wire(self, graph: dict[str, Any], layers: int, keeps_own_rows: bool) -> list[str]:
        """Finds what the target's rows depend on, by layer, and returns the types whose input rows do.

        A type into which no relation leads has no later rows, unless a layer has a map of own rows.
        """
        everything = [cast("Relation", tuple(names)) for names in graph["relations"]]
        names = [of_type["name"] for of_type in graph["types"]]
        has_rows, possible = set(names), []
        for _ in range(layers):
            possible.append([of for of in everything if of[0] in has_rows and of[2] in has_rows])
            has_rows = has_rows if keeps_own_rows else {to for _, _, to in possible[-1]}
        read = {self.target}
        for relations in reversed(possible):
            self.relations.insert(0, [of for of in relations if of[2] in read])
            self._types.insert(0, [name for name in names if name in read])
            read = (set() if self._root == "none" else read) | {source for source, _, _ in self.relations[0]}
        return [name for name in names if name in read]

    def inputs(self, batch: Any) -> dict[str, torch.Tensor]:
        """The input rows of a batch by node type: its features, and rows of `embeddings` for types without them."""
        rows = {name: table[batch[name].n_id.to(table.device, torch.int64)] for name, table in self.embeddings.items()}
        return {**{name: x for name, x in batch.x_dict.items() if x is not None}, **rows}

    def _input_maps(self) -> dict[str, nn.Linear]:
        """The maps of input rows by node type; empty if the first layer reads them unchanged."""
        holder = getattr(self, "lin_dict", None) or getattr(self, "input", None)
        return {} if holder is None else cast("dict[str, nn.Linear]", holder._modules)

    def drawn(self) -> Iterator[Drawn]:
        """The parameters that do not begin as zeros, in the order in which `uvatrain train` draws them."""
        for linear in self._input_maps().values():
            yield from drawn_linear(linear)
        for number, conv in enumerate(self.convs):
            yield from cast("RelationLayer", conv).drawn()
            for root in self.roots[number]._modules.values() if len(self.roots) else ():
                yield from drawn_linear(cast("nn.Linear", root))
        if hasattr(self, "lin"):
            yield from drawn_linear(self.lin)

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
        for name, map_of in self._input_maps().items():
            if name in rows:
                rows[name] = map_of(rows[name])
                if hasattr(self, "lin_dict"):
                    rows[name] = functional.dropout(rows[name].relu(), self.options["dropout"], self.training)
        counts = {name: len(of) for name, of in rows.items()}
        for number, relations in enumerate(self.relations):
            rows = self._layer(number, relations, rows, by_layer[number], counts)
            if number + 1 < layers:
                slope, dropout = cast("Any", self.convs[number]).slope, self.options["dropout"]
                rows = {
                    name: functional.dropout(functional.leaky_relu(of, slope), dropout, self.training)
                    for name, of in rows.items()
                }
        out: torch.Tensor = self.lin(rows[self.target]) if hasattr(self, "lin") else rows[self.target]
        return out

    def _layer(
        self,
        number: int,
        relations: list[Relation],
        x: dict[str, torch.Tensor],
        edge_index: Mapping[Any, Any],
        counts: dict[str, int],
    ) -> dict[str, torch.Tensor]:
        edges: dict[Relation, _Edges] = {}
        own: dict[str, torch.Tensor] = {}
        for of in relations:
            source, _, to = of
            if source not in x:
                raise ValueError(f"x has no rows of {source}, which the model reads")
            edges[of] = _Edges(_of_relation(edge_index, of), counts.get(to, 0), x[source], None)
            # A model that does not read them may get no rows of the destinations.
            own[to] = x[to][: edges[of].destinations] if to in x else x[source][:0]
        for name in self._types[number]:
            if name not in own:
                if name not in x:
                    raise ValueError(f"x has no rows of {name}, which the model reads")
                own[name] = x[name]
        rows: dict[str, torch.Tensor] = self.convs[number](x, own, edges)
        for name, root in self.roots[number]._modules.items() if len(self.roots) else ():
            rows[name] = rows[name] + cast("nn.Module", root)(own[name])
        return rows


def _of_relation(edge_index: Mapping[Any, Any], relation: Relation) -> Any:
    """The edges of a relation in a mapping by PyG's or our names."""
    for key in (relation, "__".join(relation)):
        if key in edge_index:
            return edge_index[key]
    raise ValueError(f"edge_index has no {'__'.join(relation)}, which the model reads")
