"""The batches of a hop set: rows of some nodes after each hop."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from .. import _core
from .._arrays import integer
from ..datasets import HopSet
from .arguments import ranks_of, split_name
from .batch import SlotBatch
from .batches import Batches, close_with

if TYPE_CHECKING:
    import torch

__all__ = ["HopBatch", "HopLoader"]


class HopBatch(SlotBatch):
    """A mini-batch of a hop set: rows of some nodes after each hop, which need no neighbours.

    Tensors view the batch's slot, as those of `uvatrain.Batch`: the batch ends at the next step of the loop.
    """

    __slots__ = ()

    @property
    def xs(self) -> list[torch.Tensor]:
        """For each hop [num_seeds, features], of the set's type: row `i` belongs to `seeds[i]`."""
        return [self._tensor("x", table) for table in range(self._core.tables)]

    def __repr__(self) -> str:
        gone = ", gone" if self._core.gone else ""
        return (
            f"HopBatch({self.split}, epoch={self.epoch}, index={self.index}, num_seeds={self.num_seeds}, "
            f"hash={self.hash}{gone})"
        )


class HopLoader(Batches[HopBatch]):
    """The batches of a hop set, copied by threads of this process in parallel with training.

        with uvatrain.HopLoader("data/mine-hops", batch_size=8000) as loader:
            for epoch in range(100):
                for batch in loader:
                    train(torch.cat(batch.xs, dim=1), batch.y)

    Each `iter()` is one epoch. `state_dict()`, `set_epoch()`, `stats()` and `close()` are those of `uvatrain.Loader`.

    path: the hop set's directory (docs/guide/propagation.md), or an open `uvatrain.HopSet`.
    batch_size: rows of a batch.
    split: "train", "valid" (or "val") or "test".
    hops: which hops batches have, as positions in `HopSet.hops`. None: all.
    shuffle: what each epoch shuffles: "full", each training row, or "chunks", chunks of consecutive rows. Rows of
        validation and test keep their order.
    chunk: rows of a chunk, with shuffle="chunks". None: what makes reads of 1 MiB at least.
    drop_last: drop a last training batch that is smaller.
    seed: the seed of the order.
    slots: batches that are prepared or in use at a time.
    samplers: workers that copy rows, each a batch of its own.
    input_id: batches have `input_id`, each row's position in its split.
    features: where rows are read: "memory", from the mapped files; "disk", past the system's page cache; "auto": from
        disk if they do not fit into memory.
    reader: how rows are read from disk, as `--reader` (docs/guide/disk.md). None: the fastest that works.
    rank, world_size: which part of an epoch's batches comes here, as for `uvatrain.Loader`.
    """

    _wrap = HopBatch

    def __init__(
        self,
        path: str | os.PathLike[str] | HopSet,
        *,
        batch_size: int,
        split: str = "train",
        hops: Iterable[int] | None = None,
        shuffle: str = "full",
        chunk: int | None = None,
        drop_last: bool = False,
        seed: int = 0,
        slots: int = 3,
        samplers: int = 1,
        input_id: bool = False,
        features: str = "auto",
        reader: str | None = None,
        rank: int | None = None,
        world_size: int | None = None,
    ) -> None:
        rank, world_size = ranks_of(rank, world_size)
        split = split_name(split)
        options: dict[str, Any] = dict(
            batch_size=batch_size, drop_last=drop_last, seed=seed, slots=slots, samplers=samplers, input_id=input_id,
            features=features, reader=reader,
        )
        self._hop_set = path if isinstance(path, HopSet) else None
        self._path = path.path if isinstance(path, HopSet) else os.fspath(path)
        source = _core._open_hop_loader(
            self._path,
            split=split,
            rank=rank,
            world_size=world_size,
            options=options,
            hops=None if hops is None else [integer("hops", hop) for hop in hops],
            shuffle=shuffle,
            chunk=None if chunk is None else str(integer("chunk", chunk)),
        )
        close_with(self, source)
        super().__init__(source, split)
        self._refuse_ranks_without_batches()

    @property
    def dataset(self) -> Any:
        """The hop set."""
        if self._hop_set is None:
            self._hop_set = HopSet(self._path)
        return self._hop_set

    def __repr__(self) -> str:
        return f"HopLoader({self._path!r}, split={self.split!r}, batches={len(self)}, epoch={self.epoch})"
