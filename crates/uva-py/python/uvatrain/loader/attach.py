"""attach: the batches of the run that this script was started by."""

from __future__ import annotations

import os

from .. import _core
from ..errors import UvatrainError
from .arguments import ranks_of, split_name
from .batch import Batch
from .batches import Batches, Epoch, Place, close_with

__all__ = ["Session", "attach"]


class _Run:
    """The one place that this process has in its run, and what it is used for."""

    def __init__(self, main: str) -> None:
        rank, world_size = ranks_of(None, None)
        self.source = _core._attach(main, rank=rank, world_size=world_size)
        self.process = os.getpid()
        # Who takes which split.
        self.sessions: dict[str, Session] = {}
        # The pass that has ended last: its split and epoch.
        self.ended: tuple[str, int] | None = None


_run: _Run | None = None


class Session(Batches[Batch]):
    """The batches of a split, in the run that this script was started by. `attach()` makes it."""

    def __init__(self, run: _Run, split: str) -> None:
        self._run = run
        self._closed = False
        super().__init__(run.source, split)

    def __iter__(self) -> Epoch[Batch]:
        iteration = super().__iter__()
        # A loop that validates after an epoch will do so after the next, so that pass can be prepared already.
        if self._run.ended is None:
            self._source.expect_validation("valid" in self._run.sessions)
        else:
            split, epoch = self._run.ended
            if self.split == "valid" and split == "train" and self._at == Place(epoch):
                self._source.expect_validation(True)
            elif self.split == split == "train":
                self._source.expect_validation(False)
        return iteration

    def _let_go(self) -> None:
        # All splits come through the same slots: a step of one is the next step for the others.
        for session in self._run.sessions.values():
            super(Session, session)._let_go()

    def _ended(self, epoch: int) -> None:
        self._run.ended = (self.split, epoch)
        # After the last batch there is none; this reports to the launcher that the last one has been used.
        self._source.next(self.split, epoch, 0, len(self))

    def _step(self, number: int) -> Batch:
        if self._closed:
            raise UvatrainError("this session is closed: it takes no more batches")
        return super()._step(number)

    def close(self) -> None:
        """Take no more batches. The run ends when all that was attached to is closed, or the script ends."""
        super()._let_go()
        self._closed = True
        if all(session._closed for session in self._run.sessions.values()):
            self._source.close()

    def __repr__(self) -> str:
        return f"Session(split={self.split!r}, batches={len(self)}, epoch={self.epoch})"


def attach(split: str = "train") -> Session:
    """The batches that `uvatrain run` prepares for this script.

        $ uvatrain run data/graph --fanouts 15,10,5 --batch-size 1024 -- python train.py

        # train.py
        train, valid = uvatrain.attach(), uvatrain.attach("valid")
        for epoch in range(10):
            for batch in train:
                step(batch.x, batch.y, batch.blocks)
            for batch in valid:
                ...

    split: "train", "valid" (or "val") or "test". One process of the run attaches, and to each split once. Splits
    take turns: a step of one ends the batch of another.

    With `uvatrain run --ranks N` each of N processes attaches, and has its rank's part of every epoch: that of
    torch.distributed where it is initialised, else RANK of the environment, as torchrun sets it. With `--switch` the last ranks
    stand by (`trainers`, `step_ranks`).

    Raises UvatrainError where this process was not started by `uvatrain run`, where another has attached
    before, and where launcher and module are of different versions.
    """
    global _run
    split = split_name(split)
    if split not in ("train", "valid", "test"):
        raise ValueError(f"split {split!r}: train, valid or test")
    # In a fork, or when it has been given up, the core says why there is no other.
    if _run is not None and _run.process == os.getpid() and _run.source.closed:
        raise UvatrainError(
            "this process has closed all that it had attached to, and its run ends: attach to every split before the "
            "last one is closed"
        )
    if _run is None or _run.process != os.getpid():
        # Whichever split comes first, it is the epochs of training that follow one another.
        _run = _Run("train")
        close_with(_run, _run.source)
    if split in _run.sessions:
        raise UvatrainError(
            f"attach({split!r}) was called before in this process: keep what it returned, which is good for "
            "every epoch"
        )
    session = Session(_run, split)
    _run.sessions[split] = session
    return session
