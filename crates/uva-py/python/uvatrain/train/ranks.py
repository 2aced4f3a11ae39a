"""The processes that train together: how they join, agree and add up."""

from __future__ import annotations

import os
import threading
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.distributed_c10d import PrefixStore
from torch.distributed.rendezvous import rendezvous

from .._exchange import silent_rank


class Disagreement(Exception):
    """Ranks that cannot train together."""


class Ranks:
    """This process among those of torchrun; alone without it."""

    def __init__(self, device: str, timeout: float) -> None:
        self.together = "RANK" in os.environ and "WORLD_SIZE" in os.environ
        gpu = torch.cuda.is_available() if device == "auto" else device == "cuda"
        self.device = torch.device(f"cuda:{os.environ.get('LOCAL_RANK', '0')}" if gpu else "cpu")
        if gpu:
            torch.cuda.set_device(self.device)
        self.rank, self.count = 0, 1
        if self.together:
            limit = timedelta(seconds=timeout)
            store, self.rank, self.count = next(rendezvous("env://", timeout=limit))
            # torchrun may start workers anew over the store of those before, which has the addresses of these.
            store = PrefixStore(f"uvatrain/start/{os.environ.get('TORCHELASTIC_RESTART_COUNT', '0')}", store)
            backend = "nccl" if gpu else "gloo"
            dist.init_process_group(backend, store=store, rank=self.rank, world_size=self.count, timeout=limit)
            self._failures = PrefixStore("uvatrain/train", store)

    @property
    def name(self) -> str:
        """For messages."""
        return f"rank {self.rank}" if self.together else "one process"

    @property
    def is_first(self) -> bool:
        """Whether this one tells and writes for all."""
        return self.rank == 0

    def sums(self, *values: float) -> list[float]:
        """The sums of these numbers over all ranks."""
        added = torch.tensor(values, dtype=torch.float64, device=self.device)
        if self.together:
            dist.all_reduce(added)
        found: list[float] = added.tolist()
        return found

    def agree(self, **facts: Any) -> None:
        """Disagreement, on every rank, where a fact is another on some rank than on the first one."""
        if not self.together:
            return
        of_ranks: list[Any] = [None] * self.count
        dist.all_gather_object(of_ranks, facts)
        said = [
            f"{name} is {found[name]!r} on rank {rank} and {of_ranks[0][name]!r} on rank 0"
            for rank, found in enumerate(of_ranks)
            for name in facts
            if found[name] != of_ranks[0][name]
        ]
        if said:
            raise Disagreement("; ".join(said))

    def from_first(self, value: Any) -> Any:
        """What rank 0 gives here."""
        if not self.together:
            return value
        box = [value]
        dist.broadcast_object_list(box, src=0, device=self.device)
        return box[0]

    def explained(self, error: RuntimeError) -> str:
        """An error of a step, and if it is for another rank's sake, which one that is. Every rank whose step fails calls it."""
        said = str(error).strip()
        if not self.together:
            return said
        # gloo's own words are one line in many.
        first = said.splitlines()[0] if said else type(error).__name__
        try:
            rank = silent_rank(self._failures, self.rank, self.count, threading.Event())
        except RuntimeError:
            # The store lies with torchrun, or with rank 0.
            return f"rank 0 or torchrun has ended, and with it the group's store ({first})"
        return said if rank == self.rank else f"rank {rank} has ended, or no longer takes part ({first})"

    def leave(self) -> None:
        """Ends this process's part in the group, and waits for nobody."""
        if self.together and dist.is_initialized():
            dist.destroy_process_group()
