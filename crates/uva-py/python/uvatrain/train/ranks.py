"""The processes that train together: how they join, agree and add up."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import threading
import time
from collections.abc import Iterable, Iterator
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.distributed_c10d import PrefixStore
from torch.distributed.rendezvous import rendezvous

from ..loader.exchange import PatientStore, silent_rank

#: How often ranks that join or leave look for each other, in seconds.
_LOOK = 0.05
#: How long one that leaves waits for the others, in seconds.
_PATIENCE = 3.0


class Disagreement(Exception):
    """Ranks that cannot train together."""


class RankFailed(Exception):
    """A call that all ranks make failed here."""


class Ranks:
    """This process among those of torchrun; alone without it."""

    def __init__(self, device: str, timeout: float) -> None:
        """device: "cpu", "cuda" or "auto". timeout: seconds after which a rank that does not call is given up.

        ValueError where there is no such device.
        """
        self.together = "RANK" in os.environ and "WORLD_SIZE" in os.environ
        self.device = _device(device)
        self.rank, self.count = 0, 1
        self._failures: PatientStore | None = None
        if self.together:
            limit = timedelta(seconds=timeout)
            store, self.rank, self.count = next(rendezvous("env://", timeout=limit))
            store = PrefixStore(self._agreed_start(store, timeout), store)
            backend = "nccl" if self.device.type == "cuda" else "gloo"
            dist.init_process_group(backend, store=store, rank=self.rank, world_size=self.count, timeout=limit)
            self._failures = PatientStore(PrefixStore("uvatrain/train", store))
            # One that ends at once would disturb others that are not connected yet.
            self.sums(0)

    def _agreed_start(self, store: Any, timeout: float) -> str:
        """A name for this start that no earlier one had, and that all ranks have.

        torchrun may restart workers over the store of earlier ones, which has their addresses, and each of its agents
        counts only its own restarts. So each rank writes a random word. The first one publishes the words that it has
        read, and a rank joins a start that has its word. A start that all have joined includes no earlier worker.
        """
        store = PrefixStore("uvatrain/start", store)
        word, until = secrets.token_hex(8), time.monotonic() + timeout
        store.set(f"hello/{self.rank}", word)
        names = [f"hello/{rank}" for rank in range(self.count)]
        seen: list[str] = []
        joined = ""
        while time.monotonic() < until:
            if self.rank == 0 and store.check(names):
                words = [store.get(name).decode() for name in names]
                if words != seen:
                    seen = words
                    store.set("seen", json.dumps(words))
            if store.check(["seen"]):
                published: str = store.get("seen").decode()
                if json.loads(published)[self.rank : self.rank + 1] == [word]:
                    ready = store.add(f"joined/{published}", 0 if joined == published else 1)
                    joined = published
                    if ready >= self.count:
                        return published
            time.sleep(_LOOK)
        raise RuntimeError(f"not all of {self.count} ranks have started within {timeout:g} s (--timeout)")

    @property
    def name(self) -> str:
        """For messages."""
        return f"rank {self.rank}" if self.together else "one process"

    @property
    def is_first(self) -> bool:
        """Whether this rank prints and writes for all."""
        return self.rank == 0

    @contextlib.contextmanager
    def _call(self) -> Iterator[None]:
        """Around a call that all ranks make."""
        try:
            yield
        except RuntimeError as error:
            raise RankFailed(self._explained(str(error).strip() or type(error).__name__)) from None

    def sums(self, *values: float) -> list[float]:
        """The sums of these numbers over all ranks."""
        added = torch.tensor(values, dtype=torch.float64, device=self.device)
        if self.together:
            with self._call():
                dist.all_reduce(added)
        found: list[float] = added.tolist()
        return found

    def average_gradients(self, parameters: Iterable[torch.nn.Parameter]) -> None:
        """Makes each gradient the mean of those of all ranks.

        One call for all of them, always in the same order: DistributedDataParallel rearranges them after its first step, so
        that a resumed run would add in another order.
        """
        if not self.together:
            return
        gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
        flat = torch.cat([gradient.flatten() for gradient in gradients])
        with self._call():
            dist.all_reduce(flat)
        flat /= self.count
        for gradient, mean in zip(gradients, flat.split([gradient.numel() for gradient in gradients]), strict=True):
            gradient.copy_(mean.view_as(gradient))

    def gather(self, value: Any) -> list[Any]:
        """What each rank gives here."""
        if not self.together:
            return [value]
        of_ranks: list[Any] = [None] * self.count
        with self._call():
            dist.all_gather_object(of_ranks, value)
        return of_ranks

    def agree(self, **facts: Any) -> None:
        """Disagreement, on every rank, where a fact is another on some rank than on the first one."""
        of_ranks = self.gather(facts)
        names = dict.fromkeys(name for found in of_ranks for name in found)

        def shown(rank: int, name: str) -> str:
            return f"{of_ranks[rank][name]!r}" if name in of_ranks[rank] else "not given"

        said = [
            f"{name} is {shown(rank, name)} on rank {rank} and {shown(0, name)} on rank 0"
            for rank in range(self.count)
            for name in names
            if shown(rank, name) != shown(0, name)
        ]
        if said:
            raise Disagreement("; ".join(said))

    def note_failure(self) -> None:
        """Reports that this rank fails because of another one, so that others do not name this one."""
        # If the store is gone, no rank is left.
        with contextlib.suppress(RuntimeError):
            if self._failures is not None:
                self._failures.ask(lambda store: store.set(f"failed/{self.rank}", "1"))

    def _explained(self, said: str) -> str:
        """Which rank a call failed for. Every rank whose call fails asks."""
        # gloo's own words are one line in many.
        first = said.splitlines()[0]
        assert self._failures is not None
        try:
            rank = silent_rank(self._failures, self.rank, self.count, threading.Event())
        except RuntimeError:
            # The store lies with torchrun, or with rank 0.
            return f"rank 0 or torchrun has ended, and with it the group's store ({first})"
        return said if rank == self.rank else f"rank {rank} has ended, or no longer takes part ({first})"

    def leave(self) -> None:
        """Ends this process's part in the group. It waits for the others, 3 s at most: some may still be at what this one has
        done, and rank 0 may hold the store that they ask."""
        if self._failures is None or not dist.is_initialized():
            return
        with contextlib.suppress(RuntimeError):
            self._failures.ask(lambda store: store.set(f"left/{self.rank}", "1"))
            names, until = [f"left/{rank}" for rank in range(self.count)], time.monotonic() + _PATIENCE
            while not self._failures.ask(lambda store: store.check(names)) and time.monotonic() < until:
                time.sleep(_LOOK)
        self._failures.end()
        dist.destroy_process_group()


def _device(wanted: str) -> torch.device:
    """The device of this rank: a GPU for each rank of the machine, or the CPU for all."""
    local, of_machine = (int(os.environ.get(name, default)) for name, default in (("LOCAL_RANK", "0"), ("LOCAL_WORLD_SIZE", "1")))
    gpus = torch.cuda.device_count() if wanted != "cpu" else 0
    if wanted == "cuda" and gpus <= local:
        raise ValueError(
            f"--device cuda: torch sees {gpus} GPUs, and this is rank {local} of the machine: start fewer, or give cpu"
        )
    if wanted == "cpu" or gpus < max(of_machine, local + 1):
        return torch.device("cpu")
    device = torch.device(f"cuda:{local}")
    torch.cuda.set_device(device)
    return device
