"""Batches of one split, epoch after epoch: what loaders and sessions have in common."""

from __future__ import annotations

import atexit
import contextlib
import gc
import weakref
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, NamedTuple

from .. import _core
from .._arrays import integer
from ..datasets import Dataset, TypedDataset
from ..errors import SlotInUse, UvatrainError, about
from .batch import Batch, SlotBatch
from .typed_batch import Metadata, TypedBatch

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    # What the loop gets; `Loader` alone, in an annotation, is `Loader[Batch]`. Before Python 3.13 only type checkers
    # support defaults.
    Item = TypeVar("Item", default=Batch)
else:
    from typing import TypeVar

    Item = TypeVar("Item")

__all__ = ["Batches", "StaticShapes", "TypedShapes"]

_Self = TypeVar("_Self", bound="Batches[Any]")

#: Sources that are closed when the interpreter ends, since threads must not use objects that it destroys.
_open: weakref.WeakKeyDictionary[object, _core.Source] = weakref.WeakKeyDictionary()


def close_with(owner: object, source: _core.Source) -> None:
    """Closes `source` when `owner` is no longer referenced, or when the interpreter ends."""
    weakref.finalize(owner, source.close).atexit = False
    _open[owner] = source


@atexit.register
def _close_all() -> None:
    _core._interpreter_ends()
    with contextlib.ExitStack() as closing:
        for source in _open.values():
            closing.callback(source.close)


#: Of states.
_VERSION = 1
_LAST_EPOCH = 2**30 - 1


class Epoch(Iterator[Item]):
    """One pass over an epoch, or what is left of it."""

    __slots__ = ("__weakref__", "_batches", "_number")

    def __init__(self, batches: Batches[Item], number: int) -> None:
        self._batches = batches
        self._number = number

    def __iter__(self) -> Epoch[Item]:
        return self

    def __next__(self) -> Item:
        return self._batches._step(self._number)

    def __length_hint__(self) -> int:
        """How many batches are left."""
        return self._batches._left(self._number)


class Place(NamedTuple):
    """A place in the loop."""

    #: The epoch.
    epoch: int
    #: The batch of the epoch at which the pass begins, of all ranks: 0, unless another number of them has had those before.
    first: int = 0
    #: The next batch, of this rank's in the pass.
    batch: int = 0


class StaticShapes(NamedTuple):
    """The sizes of padded batches."""

    #: Nodes of each level: the seeds, then those that each hop found.
    nodes: list[int]
    #: Destinations, sources and edges of each block, the hop at the seeds first.
    blocks: list[tuple[int, int, int]]


class TypedShapes(NamedTuple):
    """The sizes of padded batches of a typed graph."""

    #: For each node type the nodes of each level, as in `StaticShapes`.
    nodes: dict[str, list[int]]
    #: For each layer, and in it each relation, destinations, sources and edges of its block.
    blocks: list[dict[tuple[str, str, str], tuple[int, int, int]]]


class Batches(Generic[Item]):
    """Batches of one split, epoch after epoch. What `Loader` and `attach()` have in common.

    Each `iter()` is one epoch: without `set_epoch`, the one after the last that was begun.
    """

    #: The split: "train", "valid" or "test".
    split: str
    #: Which part of every epoch's batches comes here, and of how many.
    rank: int
    world_size: int
    #: What the loop has of a batch.
    _wrap: Callable[[_core.Batch], Any] = Batch

    def __init__(self, source: _core.Source, split: str) -> None:
        self._source = source
        self.split = split
        self.rank, self.world_size = source.part
        self._length: int = source.batches(split)
        metadata = Metadata.of(source)
        if metadata is not None:
            self._wrap = partial(TypedBatch, metadata=metadata)
        # Where the next iteration begins; None: at the beginning of the epoch after the last one.
        self._pending: Place | None = Place(0)
        # Where the iteration that was begun last stands.
        self._at = Place(0)
        # Iterations begun. One that is not the last has ended.
        self._begun = 0
        self._running: weakref.ref[Epoch[Item]] | None = None
        # The batch that was handed out last: its hold on the slot, and what the loop has of it.
        self._out: tuple[_core.Batch, weakref.ref[SlotBatch]] | None = None
        self._stream = _current_stream(source.device)
        # A TypedDataset where batches are of a typed graph.
        self._dataset: Any = None
        # What the user makes of each batch before the loop has it.
        self._transform: Callable[[Batch], Item] | None = None
        # What a state has to agree with. It takes a moment to find out, and stays.
        self._identity: dict[str, Any] | None = None

    def _refuse_ranks_without_batches(self) -> None:
        """ValueError where an epoch of training has fewer batches than there are ranks: all of them would be left out."""
        batches = self._source.all_batches(self.split)
        if self.split == "train" and 0 < batches < self.world_size:
            size = self._source.identity(self.split)["batch_size"]
            self._source.close()
            raise about(
                "batch_size",
                ValueError(
                    f"batch_size {size}: an epoch has {batches} {'batch' if batches == 1 else 'batches'}, fewer than the "
                    f"{self.world_size} ranks: give a smaller one, or start fewer ranks"
                ),
            )

    @property
    def device(self) -> str:
        """Where batches come to be: "cpu", or a GPU such as "cuda:1"."""
        gpu = self._source.device
        return "cpu" if gpu is None else f"cuda:{gpu}"

    @property
    def trainers(self) -> int:
        """How many ranks have a batch in every step: world_size, unless the last ones stand by (`uvatrain run --switch`).

        Those train from a batch of each epoch on, and have no batch of a split other than "train".
        """
        return self._source.trainers

    @property
    def step_ranks(self) -> int:
        """How many ranks have a batch in the current step: world_size, or `trainers` while the others stand by."""
        return self._source.ranks_in_step(self.split, self._at.first, max(self._at.batch - 1, 0))

    @property
    def dataset(self) -> Dataset:
        """The dataset: how many nodes and classes there are, and its tables. Of a typed graph it is a `TypedDataset`."""
        if self._dataset is None:
            core = self._source.dataset
            self._dataset = Dataset._of(core) if self._source.metadata is None else TypedDataset(core.path)
        dataset: Dataset = self._dataset
        return dataset

    def __len__(self) -> int:
        """Batches of this rank in an epoch."""
        return self._length

    def __iter__(self) -> Epoch[Item]:
        if self._pending is None:
            self._pending = Place(self._at.epoch + 1)
        _checked("epoch", self._pending.epoch)
        self._at, self._pending = self._pending, None
        self._begun += 1
        epoch = Epoch(self, self._begun)
        self._running = weakref.ref(epoch)
        return epoch

    def _left(self, number: int) -> int:
        return self._batches(self._at) - self._at.batch if number == self._begun else 0

    def _batches(self, place: Place) -> int:
        """Batches of this rank in the pass that a place is in."""
        return self._source.batches(self.split, place.first) if place.first else self._length

    def _step(self, number: int) -> Item:
        if number != self._begun:
            raise UvatrainError(
                "another iteration over this loader has begun since, or a state was loaded; a loader makes one pass "
                "at a time: make a loader for each concurrent loop"
            )
        self._let_go()
        place = self._at
        if place.batch >= self._batches(place):
            if self._running is not None:
                self._running = None
                self._source.end_pass(self.split, place.epoch, place.first)
                if self._pending is None:
                    self._pending = Place(place.epoch + 1)
                self._ended(place.epoch)
            raise StopIteration
        received = self._receive(place)
        self._at = place._replace(batch=place.batch + 1)
        handed_out = self._wrap(received)
        self._out = received, weakref.ref(handed_out)
        item: Item = handed_out if self._transform is None else self._transform(handed_out)
        return item

    def _receive(self, place: Place) -> _core.Batch:
        stream = self._stream() if self._stream is not None else None
        received = None
        try:
            received = self._source.next(self.split, *place, stream)
        except SlotInUse:
            pass
        if received is None:
            # A tensor in a reference cycle is unreachable, but still exists.
            gc.collect()
            received = self._source.next(self.split, *place, stream, True)
        # None comes only after the last.
        assert received is not None
        return received

    def _ended(self, epoch: int) -> None:
        """An epoch has been handed out to its end."""

    @property
    def epoch(self) -> int:
        """The epoch of the iteration that is running, or else of the next one."""
        if self._is_running():
            return self._at.epoch
        return self._at.epoch + 1 if self._pending is None else self._pending.epoch

    def _is_running(self) -> bool:
        return self._running is not None and self._running() is not None

    def set_epoch(self, epoch: int) -> None:
        """Let the next iteration be this epoch, from its beginning.

        If the loaded state is within this epoch, iteration continues from there, so a loop that
        sets the epoch every time resumes as well.
        """
        epoch = _checked("epoch", epoch)
        if self._pending is None or self._pending.epoch != epoch:
            self._pending = Place(epoch)

    def state_dict(self) -> dict[str, Any]:
        """Where the loop stands, as plain numbers and strings: for a checkpoint.

        Within the loop the current batch counts as done: another loader that loads the state continues after
        it. Ranks that take the same steps have equal states, so one of them is enough for all. Where ranks stand by, take the
        state of one that does not.
        """
        place = self._at if self._is_running() or self._pending is None else self._pending
        if self.trainers < self.world_size and self.split == "train" and place.batch:
            # Ranks have had different numbers of batches: all continue at the next step.
            place = Place(place.epoch, self._source.position(self.split, *place[1:]))
        if self._identity is None:
            self._identity = self._source.identity(self.split)
        return {
            "version": _VERSION,
            "split": self.split,
            **place._asdict(),
            "trainers": self.trainers,
            **self._identity,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Let the next iteration continue where a state was taken, with the batches that would have followed.

        Another number of ranks may have taken it. These ones then divide what is left of the epoch.

        ValueError where this loader would make other batches: another dataset, seed, fanouts, and so on.
        """
        if not isinstance(state, Mapping) or "version" not in state:
            raise ValueError("state: it is not a loader's state, which state_dict() returns")
        if state["version"] != _VERSION:
            raise ValueError(f"state: version {state['version']!r} is not known here; version {_VERSION} is")
        for name, own in self.state_dict().items():
            if name in ("version", *Place._fields, "world_size", "trainers"):
                continue
            if name not in state:
                raise ValueError(f"state: {name} is missing")
            if state[name] != own:
                what = "the dataset is another" if name == "fingerprint" else f"{name} is another"
                raise ValueError(
                    f"state: {what}: {state[name]!r} in the state, {own!r} here. It can be resumed only where "
                    "the same batches follow"
                )
        self._pending = self._place_of(state)
        # What is running ends: its place is no longer that of this loader.
        self._begun += 1
        self._running = None

    def _place_of(self, state: Mapping[str, Any]) -> Place:
        """Where a state stands, for this number of ranks."""
        epoch = _checked("state: epoch", state.get("epoch"))
        all_batches = self._source.all_batches(self.split)
        ranks = _counted("world_size", state, 1, 2**32 - 1)
        first = _counted("first", state, 0, all_batches)
        # Ranks that stand by have no batch in the last steps of an epoch, and none of a split that is not trained on.
        trainers = _counted("trainers", state, 1, ranks)
        of_ranks = (all_batches - first) // trainers
        # A split that is not trained on may have one batch more on the first ranks.
        most = of_ranks if self.split == "train" else -(-(all_batches - first) // trainers)
        batch = _counted("batch", state, 0, most)
        if (ranks, trainers) == (self.world_size, self.trainers) and (trainers == ranks or self.split != "train"):
            return Place(epoch, first, min(batch, self._source.batches(self.split, first)))
        if ranks != self.world_size and state.get("seed_order") in ("proximity", "proximity:auto"):
            raise ValueError(
                f"state: made by {ranks} ranks, but there are {self.world_size}, and seed_order={state['seed_order']!r} chooses "
                "other sequences for them: give the number of sequences, as in \"proximity:3\""
            )
        # After their last batch the epoch is over: the rest, which does not fill a step, is skipped, as in those ranks.
        over = self.split == "train" and batch == of_ranks
        return Place(epoch, all_batches if over else min(first + batch * trainers, all_batches))

    @property
    def shapes(self) -> StaticShapes | Any:
        """The sizes that batches are padded to with `pad="auto"`: `StaticShapes`, of a typed graph `TypedShapes`. None
        without padding."""
        shapes, metadata = self._source.shapes, self._source.metadata
        if shapes is None:
            return None
        nodes, blocks = shapes
        if metadata is None:
            return StaticShapes(nodes[0], [of_layer[0] for of_layer in blocks])
        node_types, edge_types = metadata
        return TypedShapes(dict(zip(node_types, nodes)), [dict(zip(edge_types, of_layer)) for of_layer in blocks])

    def stats(self) -> dict[str, Any]:
        """What sampler, producer and consumer did with their time, in seconds, and which is the bottleneck.

        With `prepare="whole"`, "worker" is there in place of "sampler" and "producer". The bottleneck is "exchange" where most of
        the busiest role's work is to wait for other ranks.

        "exchange", with parts in ranges, has rows by where they came from ("own_rows", "cached_rows", "remote_rows"), rows given
        to other ranks, bytes sent and received, and the seconds in calls of the exchange ("waited_s"): those until all ranks had
        reached the same batch ("met_s"), and those in which ids and rows were passed on.

        "lists", with `graph="divided"`, has the lists that the rank drew from for itself ("own_lists"), those that others drew
        from for it ("remote_lists") and it for others ("given_lists"), bytes sent and received, and seconds as above.

        "disk", where feature rows are read from disk, has the bytes that were asked and read, the reads, and rows by where they
        came from: the planned rows of `host_cache` ("cached_rows"), memory since an earlier batch ("kept_rows"), reads ahead of
        their batch ("ahead_rows") and reads for it ("demanded_rows").

        "unpadded", with `pad="auto"`, counts batches that did not fit `shapes`. "oversized", on a GPU, counts batches that had no room in their slot and came through host memory. "skipped" counts hand-overs without a batch: what it costs to jump to another epoch.
        """
        return self._source.stats()

    def close(self) -> None:
        """End what prepares batches. Tensors that are left stay good; more batches do not come.

        Where ranks get feature rows from each other, the others have only those that are ready from then on.
        """
        self._let_go()
        self._source.close()

    def _let_go(self) -> None:
        """Ends the batch that was handed out last: its slot is what the next one may need."""
        if self._out is None:
            return
        received, handed_out = self._out
        self._out = None
        # Its blocks may be kept where it is not: it is the slot's handle that ends, and the tensors of all of them.
        batch = handed_out()
        if batch is not None:
            batch._release()
        received.release()

    def __enter__(self: _Self) -> _Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def __getstate__(self) -> Any:
        raise TypeError(
            f"a {type(self).__name__} is of one process and cannot be sent to another, with its threads and "
            "slots: make it there, or use num_workers=0"
        )


def _current_stream(device: int | None) -> Any:
    """A function that returns torch's current stream of a GPU; None if batches are in host memory."""
    if device is None:
        return None
    try:
        import torch
    except ImportError:
        return None
    if not torch.cuda.is_available():
        return None
    return lambda: torch.cuda.current_stream(device).cuda_stream


def _counted(name: str, state: Mapping[str, Any], least: int, most: int) -> int:
    """A number of a state's."""
    number = state.get(name)
    if not isinstance(number, int) or isinstance(number, bool) or not least <= number <= most:
        raise ValueError(f"state: {name} {number!r} is not one from {least} to {most}")
    return number


def _checked(name: str, epoch: Any) -> int:
    number = integer(name, epoch)
    if not 0 <= number <= _LAST_EPOCH:
        raise ValueError(f"{name} {number}: epochs go from 0 to {_LAST_EPOCH}")
    return number
