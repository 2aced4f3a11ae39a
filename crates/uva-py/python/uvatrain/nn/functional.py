"""What layers compute over lists, with gradients: sums, maxima and attention."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from .. import _core
from .lists import Lists

__all__ = ["attention", "dots", "maxima", "weighted_sums"]

MEAN = "mean"


def _by_our_loops(*tensors: Tensor | None) -> bool:
    """Whether our loops take them: on the CPU, all of one type, float32 or float64."""
    given = [tensor for tensor in tensors if tensor is not None]
    types = {(tensor.device.type, tensor.dtype) for tensor in given}
    return len(types) == 1 and types <= {("cpu", torch.float32), ("cpu", torch.float64)}


def _apply(function: type[Function], *arguments: Any) -> Tensor:
    result: Tensor = function.apply(*arguments)
    return result


def weighted_sums(lists: Lists, rows: Tensor, weights: Tensor | str | None = None) -> Tensor:
    """[num_dst, width]: for each destination the sum of its neighbours' rows, each times the weight of its edge.

    rows: [num_src, width]. weights: [num_edges]; [num_edges, heads], where each of as many equal parts of a row has
    weights of its own; "mean", one over the number of neighbours; None, ones. An empty list gives zeros.
    """
    given = weights if isinstance(weights, Tensor) else None
    if _by_our_loops(rows, given):
        return _apply(_WeightedSums, rows, given, lists, weights == MEAN if given is None else False)
    messages = rows.index_select(0, lists.indices)
    if given is not None:
        heads = given.size(1) if given.dim() == 2 else 1
        messages = (messages.view(-1, heads, rows.size(1) // heads) * given.reshape(-1, heads, 1)).flatten(1)
    sums = rows.new_zeros(lists.num_dst, rows.size(1)).index_add(0, lists.destinations(), messages)
    if given is None and weights == MEAN:
        sums = sums / lists.counts().clamp(min=1).to(sums.dtype).unsqueeze(1)
    return sums


def _sums(lists: Lists, rows: Tensor, weights: Tensor | str | None) -> Tensor:
    out = rows.new_empty(lists.num_dst, rows.size(1))
    _core.list_sums(lists.indptr, lists.indices, rows, weights, out, torch.get_num_threads())
    return out


class _WeightedSums(Function):
    @staticmethod
    def forward(ctx: Any, rows: Tensor, weights: Tensor | None, lists: Lists, mean: bool) -> Tensor:
        rows = rows.detach().contiguous()
        weights = None if weights is None else weights.detach().contiguous()
        ctx.lists, ctx.mean = lists, mean
        # Rows are kept for the gradient of weights only: they may be a slot's.
        ctx.save_for_backward(rows if ctx.needs_input_grad[1] else None, weights)
        return _sums(lists, rows, MEAN if mean else weights)

    @staticmethod
    @once_differentiable  # Its own type makes parameters positional, where `Function.backward` has names.
    def backward(  # pyright: ignore[reportIncompatibleMethodOverride]
        ctx: Any, gradient: Tensor
    ) -> tuple[Tensor | None, Tensor | None, None, None]:
        (rows, weights), lists = ctx.saved_tensors, ctx.lists
        gradient = gradient.contiguous()
        of_rows = of_weights = None
        if ctx.needs_input_grad[0]:
            picked_by, order = lists.transposed()
            if ctx.mean:
                of_edges = lists.counts().to(gradient.dtype).reciprocal().index_select(0, picked_by.indices)
            else:
                of_edges = None if weights is None else weights.index_select(0, order)
            of_rows = _sums(picked_by, gradient, of_edges)
        if ctx.needs_input_grad[1]:
            assert weights is not None
            of_weights = torch.empty_like(weights)
            _core.list_dots(lists.indptr, lists.indices, rows, gradient, of_weights, torch.get_num_threads())
        return of_rows, of_weights, None, None


def dots(lists: Lists, rows: Tensor, others: Tensor, heads: int) -> Tensor:
    """[num_edges, heads]: the scalar products of the source's row and the destination's of `others`, in `heads` equal parts.

    rows: [num_src, width]; others: [num_dst, width].
    """
    if _by_our_loops(rows, others):
        return _apply(_Dots, rows, others, lists, heads)
    pairs = rows.index_select(0, lists.indices) * others.index_select(0, lists.destinations())
    return pairs.view(-1, heads, rows.size(1) // heads).sum(dim=-1)


class _Dots(Function):
    @staticmethod
    def forward(ctx: Any, rows: Tensor, others: Tensor, lists: Lists, heads: int) -> Tensor:
        rows, others = rows.detach().contiguous(), others.detach().contiguous()
        out = rows.new_empty(lists.num_edges, heads)
        _core.list_dots(lists.indptr, lists.indices, rows, others, out, torch.get_num_threads())
        ctx.lists = lists
        ctx.save_for_backward(rows, others)
        return out

    @staticmethod
    @once_differentiable  # Its own type makes parameters positional, where `Function.backward` has names.
    def backward(  # pyright: ignore[reportIncompatibleMethodOverride]
        ctx: Any, gradient: Tensor
    ) -> tuple[Tensor | None, Tensor | None, None, None]:
        (rows, others), lists, gradient = ctx.saved_tensors, ctx.lists, gradient.contiguous()
        of_rows = of_others = None
        if ctx.needs_input_grad[0]:
            picked_by, order = lists.transposed()
            of_rows = _sums(picked_by, others, gradient.index_select(0, order))
        if ctx.needs_input_grad[1]:
            of_others = _sums(lists, rows, gradient)
        return of_rows, of_others, None, None


def maxima(lists: Lists, rows: Tensor) -> Tensor:
    """[num_dst, width]: the largest number of each column over a destination's neighbours, zeros for an empty list.

    Equal elements share the gradient.
    """
    if _by_our_loops(rows):
        return _apply(_Maxima, rows, lists)
    messages = rows.index_select(0, lists.indices)
    at = lists.destinations().unsqueeze(1).expand_as(messages)
    out = rows.new_zeros(lists.num_dst, rows.size(1))
    return out.scatter_reduce(0, at, messages, "amax", include_self=False)


class _Maxima(Function):
    @staticmethod
    def forward(ctx: Any, rows: Tensor, lists: Lists) -> Tensor:
        rows = rows.detach().contiguous()
        out = rows.new_empty(lists.num_dst, rows.size(1))
        _core.list_maxima(lists.indptr, lists.indices, rows, out, torch.get_num_threads())
        ctx.lists = lists
        ctx.save_for_backward(rows, out)
        return out

    @staticmethod
    @once_differentiable  # Its own type makes parameters positional, where `Function.backward` has names.
    def backward(  # pyright: ignore[reportIncompatibleMethodOverride]
        ctx: Any, gradient: Tensor
    ) -> tuple[Tensor, None]:
        (rows, out), lists = ctx.saved_tensors, ctx.lists
        of_rows = torch.empty_like(rows)
        threads = torch.get_num_threads()
        _core.list_maxima_backward(
            lists.indptr, lists.indices, rows, out.detach(), gradient.contiguous(), of_rows, threads
        )
        return of_rows, None


def attention(lists: Lists, of_sources: Tensor, of_destinations: Tensor, slope: float) -> Tensor:
    """[num_edges, heads]: the softmax over each destination's neighbours of the scores of its edges.

    The score of u → v is LeakyReLU(of_sources[u] + of_destinations[v]). of_sources: [num_src, heads];
    of_destinations: [num_dst, heads].
    """
    if _by_our_loops(of_sources, of_destinations):
        return _apply(_Attention, of_sources, of_destinations, lists, slope)
    at = lists.destinations()
    scores = of_sources.index_select(0, lists.indices) + of_destinations.index_select(0, at)
    scores = F.leaky_relu(scores, slope)
    largest = scores.new_zeros(lists.num_dst, scores.size(1))
    largest = largest.scatter_reduce(
        0, at.unsqueeze(1).expand_as(scores), scores.detach(), "amax", include_self=False
    )
    weights = (scores - largest.index_select(0, at)).exp()
    totals = weights.new_zeros(lists.num_dst, weights.size(1)).index_add(0, at, weights)
    return weights / totals.index_select(0, at)


class _Attention(Function):
    @staticmethod
    def forward(
        ctx: Any, of_sources: Tensor, of_destinations: Tensor, lists: Lists, slope: float
    ) -> Tensor:
        parts = of_sources.detach().contiguous(), of_destinations.detach().contiguous()
        weights = of_sources.new_empty(lists.num_edges, of_sources.size(1))
        _core.list_attention(
            lists.indptr, lists.indices, *parts, slope, weights, threads=torch.get_num_threads()
        )
        ctx.lists, ctx.slope = lists, slope
        ctx.save_for_backward(*parts, weights)
        return weights

    @staticmethod
    @once_differentiable  # Its own type makes parameters positional, where `Function.backward` has names.
    def backward(  # pyright: ignore[reportIncompatibleMethodOverride]
        ctx: Any, gradient: Tensor
    ) -> tuple[Tensor | None, Tensor | None, None, None]:
        (of_sources, of_destinations, weights), lists = ctx.saved_tensors, ctx.lists
        of_edges = torch.empty_like(weights)
        _core.list_attention(
            lists.indptr,
            lists.indices,
            of_sources,
            of_destinations,
            ctx.slope,
            of_edges,
            weights.detach(),
            gradient.contiguous(),
            torch.get_num_threads(),
        )
        by_source = by_destination = None
        if ctx.needs_input_grad[0]:
            picked_by, order = lists.transposed()
            by_source = _sums(Lists(picked_by.indptr, order, lists.num_edges), of_edges, None)
        if ctx.needs_input_grad[1]:
            edges = torch.arange(lists.num_edges, dtype=lists.indptr.dtype)
            by_destination = _sums(Lists(lists.indptr, edges, lists.num_edges), of_edges, None)
        return by_source, by_destination, None, None
