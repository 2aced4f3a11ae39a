"""The edges of a layer as lists of in-neighbours, whichever way they were given."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.utils.dlpack import from_dlpack

from .. import _core

__all__ = ["Lists", "lists_of"]


class Lists:
    """For each destination, its neighbours: `indices[indptr[v]:indptr[v + 1]]`, as positions among the sources.

    indptr: int32 or int64 [num_dst + 1]. indices: of the same type [num_edges], each below num_src.
    """

    __slots__ = ("_destinations", "_transposed", "indices", "indptr", "num_src")

    def __init__(self, indptr: Tensor, indices: Tensor, num_src: int) -> None:
        if indptr.dtype != indices.dtype:
            indptr = indptr.to(indices.dtype)
        self.indptr = indptr
        self.indices = indices
        self.num_src = num_src
        self._transposed: tuple[Lists, Tensor] | None = None
        self._destinations: Tensor | None = None

    @property
    def num_dst(self) -> int:
        """How many destinations there are."""
        return self.indptr.numel() - 1

    @property
    def num_edges(self) -> int:
        """How many edges there are."""
        return self.indices.numel()

    def counts(self) -> Tensor:
        """[num_dst]: how many neighbours each destination has."""
        return self.indptr.diff()

    def destinations(self) -> Tensor:
        """int64 [num_edges]: the destination of each edge."""
        if self._destinations is None:
            numbers = torch.arange(self.num_dst, device=self.indptr.device)
            self._destinations = numbers.repeat_interleave(self.counts(), output_size=self.num_edges)
        return self._destinations

    def transposed(self) -> tuple[Lists, Tensor]:
        """For each source, the destinations that have it as a neighbour; and the number of each edge here."""
        if self._transposed is None:
            indptr, indices, order = _core.transposed_lists(self.indptr, self.indices, self.num_src)
            lists = Lists(from_dlpack(indptr), from_dlpack(indices), self.num_dst)
            self._transposed = lists, from_dlpack(order)
        return self._transposed

    def with_own(self) -> tuple[Lists, Tensor]:
        """The same with each destination once among its own neighbours, at the end; and the number of each edge here.

        That number is -1 for a destination that was not among them.
        """
        if self.indptr.device.type != "cpu":
            return self._with_own_on_device()
        indptr, indices, origin = _core.lists_with_own(self.indptr, self.indices, self.num_src)
        return (
            Lists(from_dlpack(indptr), from_dlpack(indices), self.num_src),
            from_dlpack(origin),
        )

    def _with_own_on_device(self) -> tuple[Lists, Tensor]:
        destinations, device = self.destinations(), self.indptr.device
        own = torch.arange(min(self.num_dst, self.num_src), device=device)
        is_own = self.indices == destinations
        origin_of_own = torch.full_like(own, -1)
        numbers = torch.arange(self.num_edges, device=device)
        origin_of_own[destinations[is_own]] = numbers[is_own]
        of = torch.cat([destinations[~is_own], own])
        of, order = of.sort(stable=True)
        indices = torch.cat([self.indices[~is_own], own.to(self.indices.dtype)])[order]
        origin = torch.cat([numbers[~is_own], origin_of_own])[order]
        return Lists(_offsets(of, self.num_dst), indices, self.num_src), origin

    def by_head(self, heads: int) -> tuple[Lists, Tensor]:
        """Each list `heads` times in a row, so that one loop over weights of one head serves all of them.

        Also [num_edges × heads], for each edge of these lists its place in a flattened table [num_edges, heads]. The
        copies of a list follow one another, so the rows that it names are read from the processor's cache.
        """
        numbers = torch.arange(heads, device=self.indptr.device, dtype=self.indptr.dtype)
        begins = (heads * self.indptr[:-1, None] + self.counts()[:, None] * numbers).flatten()
        indptr = torch.cat([begins, heads * self.indptr[-1:]])
        within = torch.arange(self.num_edges, device=self.indptr.device) - self.indptr[:-1][self.destinations()]
        places = begins.view(-1, heads)[self.destinations()] + within[:, None]
        origin = torch.empty(self.num_edges * heads, dtype=torch.int64, device=self.indptr.device)
        origin[places.flatten().long()] = torch.arange(origin.numel(), device=origin.device)
        return Lists(indptr, self.indices[origin // heads], self.num_src), origin

    def first(self, num_dst: int) -> Lists:
        """The lists of the first `num_dst` destinations."""
        if num_dst == self.num_dst:
            return self
        indptr = self.indptr[: num_dst + 1]
        return Lists(indptr, self.indices[: int(indptr[-1])], self.num_src)

    def __repr__(self) -> str:
        return f"Lists(num_dst={self.num_dst}, num_src={self.num_src}, num_edges={self.num_edges})"


def lists_of(edge_index: Any, num_src: int, num_dst: int) -> tuple[Lists, Tensor | None]:
    """The lists of an edge_index [2, edges], and the positions of its edges in the order of the lists; None: the same order.

    An `EdgeIndex` of PyG's that is sorted by column promises its order. Of others it is looked up.
    """
    if not isinstance(edge_index, Tensor) or edge_index.layout != torch.strided:
        raise TypeError(
            f"edge_index is a {type(edge_index).__name__}: a block of a batch or a tensor [2, edges] is needed"
        )
    promised = getattr(edge_index, "is_sorted_by_col", False)
    if hasattr(edge_index, "sparse_size"):
        of_pyg: Any = edge_index
        for side, given, wanted in zip(("rows", "columns"), of_pyg.sparse_size(), (num_src, num_dst)):
            if given is not None and given != wanted:
                raise ValueError(f"edge_index has {given} {side}, but x has {wanted} rows for them")
        edge_index = of_pyg.as_tensor()
        if promised and of_pyg.sparse_size(1) is not None:
            # PyG keeps it with the edges.
            return Lists(of_pyg.get_indptr(), edge_index[0].contiguous(), num_src), None
    if edge_index.dim() != 2 or edge_index.size(0) != 2 or edge_index.dtype not in (torch.int32, torch.int64):
        raise ValueError(f"edge_index is {edge_index.dtype} {list(edge_index.shape)}: int64 [2, edges] is needed")
    sources, destinations = (ids.contiguous() for ids in edge_index)
    if edge_index.device.type != "cpu":
        order = None
        if not promised:
            destinations, order = destinations.sort(stable=True)
            sources = sources[order]
        return Lists(_offsets(destinations, num_dst), sources, num_src), order
    try:
        indptr = _core.list_offsets(destinations, num_dst)
        if indptr is not None:
            return Lists(from_dlpack(indptr), sources, num_src), None
        indptr, indices, order = _core.lists_of_edges(sources, destinations, max(num_src, num_dst), True)
    except ValueError as error:
        raise ValueError(f"edge_index: {error}") from None
    if num_dst < num_src and int(destinations.max()) >= num_dst:
        raise ValueError(f"edge_index: target {int(destinations.max())} is not among {num_dst} destinations")
    lists = Lists(from_dlpack(indptr)[: num_dst + 1], from_dlpack(indices), num_src)
    return lists, from_dlpack(order)


def _offsets(ascending: Tensor, count: int) -> Tensor:
    """Where the entries of each number below `count` begin, [count + 1]."""
    offsets = ascending.new_zeros(count + 1)
    torch.cumsum(torch.bincount(ascending, minlength=count), 0, out=offsets[1:])
    return offsets
