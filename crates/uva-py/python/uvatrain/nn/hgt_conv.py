"""The layer of a heterogeneous graph transformer."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, cast

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn import Linear, Module, ModuleDict, Parameter, ParameterDict

from . import functional
from ._layer import check_channels, given, refuse_others
from ._names import EdgeType, name_of, parameters_by_name
from ._rows import all_rows
from ._typed import ends
from .lists import Lists, lists_of

__all__ = ["HGTConv"]


class HGTConv(Module):
    """`torch_geometric.nn.HGTConv` over our loops: attention over the entries of all relations into a node.

    The maps of a relation are applied to the destinations that it has entries for, before scores and after sums, and
    not to all of its sources.

    in_channels: columns of `x`, or a dict of them by node type. out_channels: divided by heads without a remainder.
    metadata: node types and relations, as `batch.metadata()` has them.
    """

    def __init__(
        self,
        in_channels: int | Mapping[str, int],
        out_channels: int,
        metadata: tuple[Sequence[str], Sequence[EdgeType]],
        heads: int = 1,
        **kwargs: Any,
    ) -> None:
        super().__init__()
        refuse_others("HGTConv", kwargs, {"aggr": "add", "flow": "source_to_target", "node_dim": 0})
        if out_channels % heads:
            raise ValueError(f"HGTConv: out_channels={out_channels} is not divisible by heads={heads}")
        self.node_types, self.edge_types = list(metadata[0]), list(metadata[1])
        self.in_channels = (
            dict.fromkeys(self.node_types, in_channels) if isinstance(in_channels, int) else dict(in_channels)
        )
        check_channels("HGTConv", list(self.in_channels.values()))
        self.out_channels, self.heads = out_channels, heads
        width = out_channels // heads
        self.kqv_lin = _Linears({name: Linear(size, 3 * out_channels) for name, size in self.in_channels.items()})
        self.out_lin = _Linears({name: Linear(out_channels, out_channels) for name in self.node_types})
        self.k_rel = _Maps(heads * len(self.edge_types), width)
        self.v_rel = _Maps(heads * len(self.edge_types), width)
        # In PyG's order, by which optimizers load their states: PyG gives a dict, whose keys torch sorts.
        self.skip = parameters_by_name((name, Parameter(torch.ones(1))) for name in sorted(self.node_types))
        self.p_rel = parameters_by_name(
            ("__".join(names), Parameter(torch.ones(1, heads))) for names in self.edge_types
        )

    def reset_parameters(self) -> None:
        """Draws all parameters again."""
        for part in (self.kqv_lin, self.out_lin, self.k_rel, self.v_rel):
            part.reset_parameters()
        for parameter in (*self.skip.values(), *self.p_rel.values()):
            torch.nn.init.ones_(parameter)

    def forward(
        self, x_dict: Mapping[str, Any], edge_index_dict: Mapping[Any, Any]
    ) -> dict[str, Tensor]:
        """Rows of each type that a relation leads to: one for each node; with blocks, for each destination.

        x_dict: rows by node type. edge_index_dict: edges by relation, `batch.edge_index_dict` or `batch.blocks[layer]`.
        """
        into: dict[str, list[_Relation]] = {}
        sources: dict[str, int] = {}
        counts: dict[str, int] = {}
        for number, names in enumerate(self.edge_types):
            if names not in edge_index_dict:
                continue
            x_src, x_dst = ends("HGTConv", x_dict, names, edge_index_dict[names])
            if x_dst is None:
                raise ValueError(f"HGTConv: x_dict has no rows of {names[2]!r}, the destinations of {'__'.join(names)}")
            try:
                of = given((x_src, x_dst), edge_index_dict[names])
            except ValueError as error:
                raise ValueError(f"{'__'.join(names)}: {error}") from error
            counts[names[2]] = of.num_dst
            if of.lists.num_edges:
                sources[names[0]] = max(sources.get(names[0], 0), of.lists.num_src)
                into.setdefault(names[2], []).append(_Relation.of(number, names, of.lists))
        rows = {name: all_rows(x) for name, x in x_dict.items() if x is not None}
        keys, values = {}, {}
        for name, count in sources.items():
            made = self._mapped(rows[name][:count], name, (0, 2))
            keys[name], values[name] = (part.contiguous() for part in made.tensor_split(2, dim=1))
        results = {}
        for name in dict.fromkeys(names[2] for names in self.edge_types):
            if name in rows:
                own = rows[name][: counts.get(name, rows[name].size(0))]
                results[name] = self._finished(name, self._attended(name, own, into.get(name, []), keys, values), own)
        return results

    def _attended(
        self, name: str, own: Tensor, relations: list[_Relation], keys: dict[str, Tensor], values: dict[str, Tensor]
    ) -> Tensor:
        """For each destination of a type the sum of its neighbours' values, weighted by attention."""
        out = own.new_zeros(own.size(0), self.out_channels)
        if not relations:
            return out
        queries = self._mapped(own, name, (1,))
        # The relations from one type read the same rows: one pass over the lists of all of them.
        groups: dict[str, list[_Relation]] = {}
        for relation in relations:
            groups.setdefault(relation.names[0], []).append(relation)
        stacks = [(source, group, _stacked([relation.lists for relation in group])) for source, group in groups.items()]
        scores = [
            functional.dots(
                lists, keys[source], torch.cat([self._turned(queries, relation) for relation in group]), self.heads
            )
            for source, group, lists in stacks
        ]
        in_order = [relation for group in groups.values() for relation in group]
        weights = _softmax(torch.cat(scores), [relation.destinations() for relation in in_order], own.size(0))
        made = []
        for (source, group, lists), part in zip(stacks, weights.split([lists.num_edges for _, _, lists in stacks])):
            sums = functional.weighted_sums(lists, values[source], part)
            for relation, rows in zip(group, sums.split([relation.lists.num_dst for relation in group])):
                made.append(self._by_head(rows, self.v_rel.weight[relation.number :: len(self.edge_types)]))
        return out.index_add(0, torch.cat([relation.active for relation in in_order]), torch.cat(made))

    def _turned(self, queries: Tensor, relation: _Relation) -> Tensor:
        """Queries whose products with a relation's plain keys are its scores: q · (k K) = (q Kᵀ) · k."""
        factors = self.p_rel[name_of("__".join(relation.names), ParameterDict)] / math.sqrt(self.k_rel.width)
        weight = self.k_rel.weight[relation.number :: len(self.edge_types)] * factors.view(-1, 1, 1)
        return self._by_head(queries.index_select(0, relation.active), weight.transpose(1, 2))

    def _finished(self, name: str, attended: Tensor, own: Tensor) -> Tensor:
        out: Tensor = self.out_lin.lins[name](F.gelu(attended))
        if out.size(1) != own.size(1):
            return out
        share: Tensor = self.skip[name_of(name, ParameterDict)].sigmoid()
        return own + share * (out - own)

    def _mapped(self, rows: Tensor, name: str, parts: tuple[int, ...]) -> Tensor:
        """The rows of a type times some of the three parts of its map: keys, queries, values."""
        layer = cast("Linear", self.kqv_lin.lins[name])
        weights, biases = layer.weight.tensor_split(3), layer.bias.tensor_split(3)
        return F.linear(rows, torch.cat([weights[part] for part in parts]), torch.cat([biases[part] for part in parts]))

    def _by_head(self, rows: Tensor, weight: Tensor) -> Tensor:
        """[n, out_channels]: each head's part of a row times its own [width, width] of `weight`."""
        parts = rows.view(-1, self.heads, self.k_rel.width).transpose(0, 1)
        return torch.bmm(parts, weight).transpose(0, 1).reshape(rows.size(0), -1)

    def extra_repr(self) -> str:
        return f"{self.out_channels}, heads={self.heads}"


class _Relation(NamedTuple):
    """A relation with edges, and the destinations that have any: list i of `lists` is that of node `active[i]`."""

    number: int
    names: EdgeType
    lists: Lists
    active: Tensor

    @classmethod
    def of(cls, number: int, names: Any, lists: Lists) -> _Relation:
        active = lists.counts().nonzero().squeeze(1)
        if active.numel() < lists.num_dst:
            indptr = torch.cat([lists.indptr.index_select(0, active), lists.indptr[-1:]])
            lists = Lists(indptr, lists.indices, lists.num_src)
        return cls(number, names, lists, active)

    def destinations(self) -> Tensor:
        """[num_edges]: the destination of each edge, by its number in the type."""
        return self.active.index_select(0, self.lists.destinations())


def _stacked(parts: list[Lists]) -> Lists:
    """The lists of each in a row, over the same sources."""
    offsets = [torch.zeros_like(parts[0].indptr[:1])]
    for lists in parts:
        offsets.append(lists.indptr[1:] + offsets[-1][-1])
    return Lists(torch.cat(offsets), torch.cat([lists.indices for lists in parts]), parts[0].num_src)


def _softmax(scores: Tensor, destinations: list[Tensor], num_dst: int) -> Tensor:
    """[edges, heads]: the softmax over all edges into a destination, of scores of several relations in a row."""
    edges = torch.arange(scores.size(0), device=scores.device)
    # Lists of edges, each of which is a source of its own.
    lists, order = lists_of(torch.stack([edges, torch.cat(destinations)]), scores.size(0), num_dst)
    weights = functional.attention(lists, scores, scores.new_zeros(num_dst, scores.size(1)), 1.0)
    return weights if order is None else weights.index_select(0, order.argsort())


class _Linears(Module):
    """A linear map for each node type, under the names of PyG's `HeteroDictLinear`."""

    def __init__(self, lins: dict[str, Linear]) -> None:
        super().__init__()
        self.lins = ModuleDict(lins)

    def reset_parameters(self) -> None:
        for layer in self.lins.values():
            cast("Linear", layer).reset_parameters()


class _Maps(Module):
    """Square maps, a number of them for each head, under the name of PyG's `HeteroLinear`."""

    def __init__(self, count: int, width: int) -> None:
        super().__init__()
        self.width = width
        self.weight = Parameter(torch.empty(count, width, width))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        bound = 1 / math.sqrt(self.width)
        torch.nn.init.uniform_(self.weight, -bound, bound)
