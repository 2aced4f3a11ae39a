"""Exchanges bytes between the ranks of torch.distributed: feature rows and picks of other ranks.

The producer's thread makes the calls for rows and the sampler's those for picks, through the core. Each is an all-to-all of a
process group of the exchange's own (gloo), so that it mixes with none of the training's.
"""

from __future__ import annotations

import contextlib
import queue
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, TimeoutError
from datetime import timedelta
from typing import Any, TypeVar

_Answer = TypeVar("_Answer")

#: How long ranks whose call failed wait for each other's report, in seconds: a rank without one is the cause.
_PATIENCE = 3.0
#: How often a rank that waits looks whether one has left, in seconds.
_LOOK = timedelta(milliseconds=100)

#: Groups made in this process, in the same order as on every other rank.
_made = 0


class ExchangeFailed(Exception):
    """A call failed for what a rank did: "left", "ended", "silent" or "cancelled"."""

    def __init__(self, peer: int, cause: str, detail: str = "") -> None:
        super().__init__(f"rank {peer}: {cause}{detail}")
        self.peer, self.cause, self.detail = peer, cause, detail


class PatientStore:
    """A store of torch.distributed, asked on a thread of its own: one on a machine that has fallen silent never answers."""

    def __init__(self, store: Any) -> None:
        self._store = store
        self._questions: queue.SimpleQueue[tuple[Callable[[Any], Any], Future[Any]] | None] = queue.SimpleQueue()
        self._is_silent = False
        # The interpreter does not wait for it when it ends. It begins here, since none can begin then.
        threading.Thread(target=self._answer, daemon=True).start()

    def begin(self, question: Callable[[Any], _Answer]) -> Future[_Answer]:
        """Asks without waiting. The answers come in the order of the questions."""
        answer: Future[_Answer] = Future()
        self._questions.put((question, answer))
        return answer

    def ask(self, question: Callable[[Any], _Answer]) -> _Answer:
        """Asks, and waits for the answer. RuntimeError if the store is gone, or did not answer within 3 s once."""
        if self._is_silent:
            raise RuntimeError("the group's store does not answer")
        try:
            return self.begin(question).result(_PATIENCE)
        except TimeoutError:
            self._is_silent = True
            raise RuntimeError("the group's store does not answer") from None

    def end(self) -> None:
        """Ends the thread after the questions so far."""
        self._questions.put(None)

    def _answer(self) -> None:
        while (asked := self._questions.get()) is not None:
            question, answer = asked
            try:
                answer.set_result(question(self._store))
            except Exception as error:
                answer.set_exception(error)


def silent_rank(store: PatientStore, rank: int, ranks: int, given_up: threading.Event) -> int:
    """The rank that caused a call of all ranks to fail: the one that does not report the failure itself. `rank` if all of
    them report it. Takes 3 s at most, and 3 s more if the store does not answer.

    store: used for this question only. RuntimeError if it is gone, or does not answer.
    given_up: ends the wait.
    """
    store.ask(lambda store: store.set(f"failed/{rank}", "1"))
    others = [other for other in range(ranks) if other != rank]
    until = time.monotonic() + _PATIENCE

    def quiet_among(store: Any) -> list[int]:
        return [other for other in others if not store.check([f"failed/{other}"])]

    while others and time.monotonic() < until and not given_up.is_set():
        others = store.ask(quiet_among)
        given_up.wait(_LOOK.total_seconds())
    return others[0] if others else rank


class Exchange:
    """One rank's end. All ranks of torch.distributed make one at the same time, and make the same calls.

    timeout: seconds after which a rank that does not call is given up.
    """

    def __init__(self, timeout: float) -> None:
        global _made
        import torch
        import torch.distributed as dist
        from torch.distributed.distributed_c10d import PrefixStore, _get_default_store

        self.rank, self.ranks = dist.get_rank(), dist.get_world_size()
        _made += 1
        self._store = PatientStore(PrefixStore(f"uvatrain/exchange/{_made}", _get_default_store()))
        # What the store was asked while a call waits.
        self._asked: Future[list[tuple[int, str, int]]] | None = None
        self._group = dist.new_group(backend="gloo", timeout=timedelta(seconds=timeout))
        self._timeout = timeout
        self._torch, self._dist = torch, dist
        self._cancelled = threading.Event()
        # Calls that are done.
        self._calls = 0
        self._send = torch.empty(0, dtype=torch.uint8)
        self._received = torch.empty(0, dtype=torch.uint8)
        self._lent = 0

    def counts(self, send: list[int]) -> list[int]:
        """Gives each rank a number, and returns those that the ranks gave."""
        given = self._torch.tensor(send, dtype=self._torch.int64)
        got = self._torch.empty_like(given)
        self._call(got, given, None, None)
        received: list[int] = got.tolist()
        return received

    def lend(self, length: int) -> int:
        """The address of memory for `length` bytes to send in the next exchange."""
        if self._cancelled.is_set():
            raise ExchangeFailed(self.rank, "cancelled")
        self._send, self._lent = self._room(self._send, length), length
        address: int = self._send.data_ptr()
        return address

    def _room(self, memory: Any, length: int) -> Any:
        if len(memory) >= length:
            return memory
        # A batch is rarely as large as the one before: some room for the next.
        return self._torch.empty(length + length // 4, dtype=self._torch.uint8)

    def exchange(self, send: list[int], recv: list[int]) -> int:
        """Gives each rank its bytes of the memory that was lent. Returns the address of what the ranks gave, which stays there
        until the next exchange."""
        got = sum(recv)
        self._received = self._room(self._received, got)
        self._call(self._received[:got], self._send[: self._lent], recv, send)
        address: int = self._received.data_ptr()
        return address

    def _call(self, got: Any, given: Any, recv: list[int] | None, send: list[int] | None) -> None:
        if self._cancelled.is_set():
            raise ExchangeFailed(self.rank, "cancelled")
        began = time.monotonic()
        try:
            work = self._dist.all_to_all_single(got, given, recv, send, group=self._group, async_op=True)
            # Not by a callback: a thread of gloo's that runs one while the interpreter ends takes the process down.
            while not self._waited(work):
                self._check()
        except RuntimeError as error:
            raise self._failed(error, time.monotonic() - began) from None
        self._calls += 1

    def _waited(self, work: Any) -> bool:
        """Waits a moment. Whether the call is done; RuntimeError where it failed."""
        try:
            work.wait(_LOOK)
        except RuntimeError:
            if not work.is_completed():
                return False
            # The wait may have been over just before the call was. For a call that is done, this raises its error.
            work.wait()
        return True

    def _check(self) -> None:
        """Raises if no rank is left to wait for."""
        if self._cancelled.is_set():
            raise ExchangeFailed(self.rank, "cancelled")
        # The store's process may be stopped for a while, which is not a failure: the call itself has a timeout.
        if self._asked is None:
            self._asked = self._store.begin(self._ended)
        elif self._asked.done():
            answer, self._asked = self._asked, None
            self._raise_for(answer.result())

    def _ended(self, store: Any) -> list[tuple[int, str, int]]:
        """The other ranks that have ended, as they have said: each with its cause, and how many calls it had made."""
        found = []
        for rank in range(self.ranks):
            if rank != self.rank and store.check([f"ended/{rank}"]):
                cause, calls = store.get(f"ended/{rank}").decode().split()
                found.append((rank, cause, int(calls)))
        return found

    def _raise_for(self, ended: list[tuple[int, str, int]]) -> None:
        """Raises if one of these does not take part in the current call, which may complete otherwise."""
        for rank, cause, calls in ended:
            # What it sent to calls that are done on its side still arrives.
            if self._calls >= calls:
                raise ExchangeFailed(rank, cause)

    def _failed(self, error: RuntimeError, waited: float) -> ExchangeFailed:
        """Whose fault it is."""
        detail = f" ({str(error).strip().splitlines()[0]})"
        # gloo gives up a rank after the timeout, and notices at once where one's connection is closed.
        cause = "silent" if waited >= 0.9 * self._timeout else "ended"
        try:
            self._raise_for(self._store.ask(self._ended))
            peer = silent_rank(self._store, self.rank, self.ranks, self._cancelled)
        except ExchangeFailed as ended:
            return ended
        except RuntimeError:
            # The store lies with torchrun, or with rank 0.
            return ExchangeFailed(0, cause, f", and with it the group's store{detail}")
        return ExchangeFailed(peer, cause, detail)

    def cancel(self) -> None:
        """Ends the exchange on all ranks, since this one cannot continue."""
        self._end("cancelled")

    def leave(self) -> None:
        """Ends this rank's calls and notifies the others. It does not wait: ranks may close their loaders in any order."""
        self._end("left")

    def _end(self, cause: str) -> None:
        if self._cancelled.is_set():
            return
        self._cancelled.set()
        # Where the store is gone, so is the group.
        with contextlib.suppress(RuntimeError):
            self._store.ask(lambda store: store.set(f"ended/{self.rank}", f"{cause} {self._calls}"))
        self._store.end()
