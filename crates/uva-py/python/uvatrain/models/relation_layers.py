"""The layers of models over typed graphs, of plain tensor operations."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, cast

import torch
from torch import nn
from torch.nn import functional

from .model import _Edges

__all__ = ["LAYERS", "Drawn", "Relation", "RelationLayer", "drawn_linear", "named"]

Relation = tuple[str, str, str]
#: A parameter and the bound of its uniform first values.
Drawn = tuple[torch.Tensor, float]


def named(modules: Iterable[tuple[str, nn.Module]]) -> nn.Module:
    """A module of these. A `ModuleDict` takes no name that one of its own attributes has, such as `type`."""
    holder = nn.Module()
    for name, module in modules:
        holder._modules[name] = module
    return holder


def drawn_linear(linear: nn.Linear) -> Iterator[Drawn]:
    """Weight and bias of a linear map, as PyTorch draws them."""
    bound = 1 / math.sqrt(linear.in_features)
    yield linear.weight, bound
    if linear.bias is not None:
        yield linear.bias, bound


def _glorot(parameter: torch.Tensor, fans: int) -> Drawn:
    """A parameter in ±√(6 / fans) (Glorot & Bengio 2010)."""
    return parameter, math.sqrt(6 / fans)


class RelationLayer(nn.Module):
    """A layer with the parameters of PyG's module.

    `relations` are those that it uses, `types` those that have rows after it, `widths` the columns of each type's rows
    before it.
    """

    #: Whether a type into which no relation leads has rows after it.
    keeps_own_rows = False
    #: Whether it needs one width for all types.
    has_one_width = False
    #: Whether a linear map and a ReLU for each type come before the first layer.
    has_input_maps = False
    #: Whether a linear map to the logits follows the last layer.
    has_output_map = False
    #: The slope of the function between layers, below zero; with 1 there is none.
    slope = 0.0

    def __init__(
        self,
        options: Mapping[str, Any],
        relations: list[Relation],
        types: list[str],
        widths: Mapping[str, int],
        outputs: int,
    ) -> None:
        super().__init__()
        self.options, self.relations, self.types = options, relations, types

    def forward(
        self, x: Mapping[str, torch.Tensor], own: Mapping[str, torch.Tensor], edges: Mapping[Relation, _Edges]
    ) -> dict[str, torch.Tensor]:
        """The rows of each type of `types`. own: those of the destinations before the layer."""
        raise NotImplementedError

    def drawn(self) -> Iterator[Drawn]:
        """The parameters that do not begin as zeros, in the order in which `uvatrain train` draws them."""
        raise NotImplementedError


def _means(x: torch.Tensor, edges: _Edges) -> torch.Tensor:
    """The mean of the rows of each destination's neighbours, zeros without any."""
    return edges.sums(x[edges.source]) / edges.picks(x).clamp(min=1)[:, None]


class _SageConv(nn.Module):
    """The mean of neighbours' rows through a matrix, and for roots by relation the node's own row through another."""

    def __init__(self, inputs: int, own: int | None, outputs: int) -> None:
        super().__init__()
        self.lin_l = nn.Linear(inputs, outputs)
        if own is not None:
            self.lin_r = nn.Linear(own, outputs, bias=False)

    def forward(self, x: torch.Tensor, own: torch.Tensor, edges: _Edges) -> torch.Tensor:
        rows: torch.Tensor = self.lin_l(_means(x, edges))
        return rows + self.lin_r(own) if hasattr(self, "lin_r") else rows

    def drawn(self) -> Iterator[Drawn]:
        yield from drawn_linear(self.lin_l)
        if hasattr(self, "lin_r"):
            yield from drawn_linear(self.lin_r)


class _Sage(RelationLayer):
    """PyG's `HeteroConv` of `SAGEConv`."""

    def __init__(
        self,
        options: Mapping[str, Any],
        relations: list[Relation],
        types: list[str],
        widths: Mapping[str, int],
        outputs: int,
    ) -> None:
        super().__init__(options, relations, types, widths, outputs)
        by_relation = options.get("root", "relation") == "relation"
        self.convs = named(
            (_key(of), _SageConv(widths[of[0]], widths[of[2]] if by_relation else None, outputs)) for of in relations
        )

    def forward(
        self, x: Mapping[str, torch.Tensor], own: Mapping[str, torch.Tensor], edges: Mapping[Relation, _Edges]
    ) -> dict[str, torch.Tensor]:
        results: dict[str, list[torch.Tensor]] = {}
        for of in self.relations:
            source, _, to = of
            conv = cast("nn.Module", self.convs._modules[_key(of)])
            results.setdefault(to, []).append(conv(x[source], own[to], edges[of]))
        is_mean = self.options.get("relation_sum", "sum") == "mean"
        return {to: torch.stack(of).sum(0) / (len(of) if is_mean else 1) for to, of in results.items()}

    def drawn(self) -> Iterator[Drawn]:
        for conv in self.convs._modules.values():
            yield from cast("_SageConv", conv).drawn()


class _Rgcn(RelationLayer):
    """PyG's `RGCNConv`, with a map of own rows for all types or for each."""

    keeps_own_rows = True
    has_one_width = True

    def __init__(
        self,
        options: Mapping[str, Any],
        relations: list[Relation],
        types: list[str],
        widths: Mapping[str, int],
        outputs: int,
    ) -> None:
        super().__init__(options, relations, types, widths, outputs)
        inputs, weights = widths[types[0]], options.get("relation_weights", {})
        number = len(relations)
        self._blocks = weights.get("blocks") if isinstance(weights, dict) else None
        bases = weights.get("bases") if isinstance(weights, dict) else None
        if self._blocks:
            shape = [number, self._blocks, inputs // self._blocks, outputs // self._blocks]
        else:
            shape = [bases or number, inputs, outputs]
        self.weight = nn.Parameter(torch.empty(shape))
        if bases:
            self.comp = nn.Parameter(torch.empty(number, bases))
        self._by_type = options.get("root") == "type"
        self.root = self._of_types([inputs, outputs])
        self.bias = self._of_types([outputs])

    def _of_types(self, shape: list[int]) -> Any:
        """A parameter, or one of each type."""
        if not self._by_type:
            return nn.Parameter(torch.zeros(shape))
        holder = nn.Module()
        for name in self.types:
            holder._parameters[name] = nn.Parameter(torch.zeros(shape))
        return holder

    def forward(
        self, x: Mapping[str, torch.Tensor], own: Mapping[str, torch.Tensor], edges: Mapping[Relation, _Edges]
    ) -> dict[str, torch.Tensor]:
        weight = torch.tensordot(self.comp, self.weight, 1) if hasattr(self, "comp") else self.weight
        rows = {}
        for to in self.types:
            root, bias = (of._parameters[to] if self._by_type else of for of in (self.root, self.bias))
            rows[to] = own[to] @ root + bias
        for of, matrix in zip(self.relations, weight, strict=True):
            source, _, to = of
            means = _means(x[source], edges[of])
            if self._blocks:
                means = means.view(len(means), self._blocks, -1)
                rows[to] = rows[to] + torch.einsum("nbi,bio->nbo", means, matrix).flatten(1)
            else:
                rows[to] = rows[to] + means @ matrix
        return rows

    def drawn(self) -> Iterator[Drawn]:
        yield _glorot(self.weight, self.weight.shape[-2] + self.weight.shape[-1])
        if hasattr(self, "comp"):
            yield _glorot(self.comp, sum(self.comp.shape))
        for root in self.root._parameters.values() if self._by_type else [self.root]:
            yield _glorot(root, sum(root.shape))


class _GatConv(nn.Module):
    """Neighbours weighted by the softmax of LeakyReLU(a·Wx_u + c·Wx_v), head by head and side by side."""

    def __init__(self, inputs: int, own: int, outputs: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        if inputs == own:
            self.lin = nn.Linear(inputs, outputs, bias=False)
        else:
            self.lin_src = nn.Linear(inputs, outputs, bias=False)
            self.lin_dst = nn.Linear(own, outputs, bias=False)
        self.att_src = nn.Parameter(torch.empty(1, heads, outputs // heads))
        self.att_dst = nn.Parameter(torch.empty(1, heads, outputs // heads))
        self.bias = nn.Parameter(torch.zeros(outputs))

    def forward(self, x: torch.Tensor, own: torch.Tensor, edges: _Edges) -> torch.Tensor:
        of_source, of_own = (self.lin, self.lin) if hasattr(self, "lin") else (self.lin_src, self.lin_dst)
        rows, own = (z.view(len(z), self.heads, -1) for z in (of_source(x), of_own(own)))
        source, to = (rows * self.att_src).sum(-1), (own * self.att_dst).sum(-1)
        scores = functional.leaky_relu(source[edges.source] + to[edges.target], 0.2)
        weights = _softmax(scores, edges.target, edges.destinations)
        return edges.sums(rows[edges.source] * weights[..., None]).flatten(1) + self.bias

    def drawn(self) -> Iterator[Drawn]:
        for linear in [self.lin] if hasattr(self, "lin") else [self.lin_src, self.lin_dst]:
            yield _glorot(linear.weight, sum(linear.weight.shape))
        for vector in (self.att_src, self.att_dst):
            yield _glorot(vector, sum(vector.shape[1:]))


class _Rgat(RelationLayer):
    """PyG's `HeteroConv` of `GATConv` without self-loops."""

    has_output_map = True
    slope = 0.01

    def __init__(
        self,
        options: Mapping[str, Any],
        relations: list[Relation],
        types: list[str],
        widths: Mapping[str, int],
        outputs: int,
    ) -> None:
        super().__init__(options, relations, types, widths, outputs)
        # A checkpoint has the number if it is not the usual one of a GAT.
        heads = options.get("heads", 8)
        self.convs = named((_key(of), _GatConv(widths[of[0]], widths[of[2]], outputs, heads)) for of in relations)

    def forward(
        self, x: Mapping[str, torch.Tensor], own: Mapping[str, torch.Tensor], edges: Mapping[Relation, _Edges]
    ) -> dict[str, torch.Tensor]:
        rows: dict[str, torch.Tensor] = {}
        for of in self.relations:
            source, _, to = of
            term = cast("nn.Module", self.convs._modules[_key(of)])(x[source], own[to], edges[of])
            rows[to] = rows[to] + term if to in rows else term
        return rows

    def drawn(self) -> Iterator[Drawn]:
        for conv in self.convs._modules.values():
            yield from cast("_GatConv", conv).drawn()


def _parameters(parameters: Iterable[tuple[str, torch.Tensor]]) -> nn.Module:
    """A module with parameters under these names."""
    holder = nn.Module()
    for name, values in parameters:
        holder._parameters[name] = nn.Parameter(values)
    return holder


class _Hgt(RelationLayer):
    """PyG's `HGTConv`: attention over the edges of all relations into a node."""

    has_input_maps = True
    has_output_map = True
    slope = 1.0

    def __init__(
        self,
        options: Mapping[str, Any],
        relations: list[Relation],
        types: list[str],
        widths: Mapping[str, int],
        outputs: int,
    ) -> None:
        super().__init__(options, relations, types, widths, outputs)
        # A checkpoint has the number if it is not the usual one of a GAT.
        self._heads = options.get("heads", 8)
        self._width = width = outputs // self._heads
        ends = {name for source, _, to in relations for name in (source, to)}
        self._ends = [of_type["name"] for of_type in options["graph"]["types"] if of_type["name"] in ends]
        self.kqv_lin = named([("lins", named((name, nn.Linear(widths[name], 3 * outputs)) for name in self._ends))])
        self.out_lin = named([("lins", named((name, nn.Linear(outputs, outputs)) for name in self._ends))])
        matrices = [self._heads * len(relations), width, width]
        self.k_rel = _parameters([("weight", torch.empty(matrices))])
        self.v_rel = _parameters([("weight", torch.empty(matrices))])
        self.skip = _parameters((name, torch.ones(1)) for name in self._ends)
        self.p_rel = _parameters(("__".join(of), torch.ones(1, self._heads)) for of in relations)

    @staticmethod
    def _linear(maps: nn.Module, name: str) -> nn.Linear:
        return cast("nn.Linear", cast("nn.Module", maps.lins)._modules[name])

    def _mapped(self, rows: torch.Tensor, name: str, part: int) -> torch.Tensor:
        """[n, heads, width]: the keys, queries or values of a type's rows."""
        linear = self._linear(self.kqv_lin, name)
        weight, bias = linear.weight.tensor_split(3)[part], linear.bias.tensor_split(3)[part]
        return functional.linear(rows, weight, bias).view(len(rows), self._heads, self._width)

    def _matrices(self, of: nn.Module, number: int) -> torch.Tensor:
        """[heads, width, width]: those of a relation."""
        return cast("torch.Tensor", of.weight).view(self._heads, -1, self._width, self._width)[:, number]

    def forward(
        self, x: Mapping[str, torch.Tensor], own: Mapping[str, torch.Tensor], edges: Mapping[Relation, _Edges]
    ) -> dict[str, torch.Tensor]:
        sources = {of[0] for of in self.relations}
        keys, values = ({name: self._mapped(x[name], name, part) for name in sources} for part in (0, 2))
        rows = {}
        for to in self.types:
            queries, into = self._mapped(own[to], to, 1), [of for of in self.relations if of[2] == to]
            scores = []
            for of in into:
                turned = torch.einsum("nhi,hji->nhj", queries, self._matrices(self.k_rel, self.relations.index(of)))
                turned = turned * (cast("torch.Tensor", self.p_rel._parameters["__".join(of)]).view(-1, 1) / math.sqrt(self._width))
                scores.append((keys[of[0]][edges[of].source] * turned[edges[of].target]).sum(-1))
            weights = _softmax(torch.cat(scores), torch.cat([edges[of].target for of in into]), len(queries))
            attended = torch.zeros_like(queries)
            for of, part in zip(into, weights.split([len(of) for of in scores]), strict=True):
                sums = edges[of].sums(values[of[0]][edges[of].source] * part[..., None])
                attended = attended + torch.einsum("nhi,hij->nhj", sums, self._matrices(self.v_rel, self.relations.index(of)))
            out = self._linear(self.out_lin, to)(functional.gelu(attended.flatten(1)))
            share = cast("torch.Tensor", self.skip._parameters[to]).sigmoid()
            rows[to] = share * out + (1 - share) * own[to]
        return rows

    def drawn(self) -> Iterator[Drawn]:
        for name in self._ends:
            for maps in (self.kqv_lin, self.out_lin):
                yield from drawn_linear(self._linear(maps, name))
        for of in (self.k_rel, self.v_rel):
            yield cast("torch.Tensor", of.weight), 1 / math.sqrt(self._width)


def _softmax(scores: torch.Tensor, target: torch.Tensor, destinations: int) -> torch.Tensor:
    """[edges, heads]: the softmax of the scores over the edges into each destination."""
    at, shape = target[:, None].expand_as(scores), (destinations, scores.shape[1])
    largest = scores.new_zeros(shape).scatter_reduce(0, at, scores.detach(), "amax", include_self=False)
    weights = (scores - largest[target]).exp()
    return weights / scores.new_zeros(shape).index_add(0, target, weights)[target]


def _key(relation: Relation) -> str:
    """The name of a relation's part of a module, as PyG writes it."""
    return f"<{'___'.join(relation)}>"


#: The layers by model.
LAYERS: dict[str, type[RelationLayer]] = {"rsage": _Sage, "rgcn": _Rgcn, "rgat": _Rgat, "hgt": _Hgt}
