"""Loader: the batches of a dataset, prepared by threads of this process beside the training."""

from __future__ import annotations

import atexit
import contextlib
import gc
import inspect
import os
import sys
import textwrap
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Literal, NamedTuple

from . import _core
from ._arrays import readable
from ._exchange import Exchange
from ._in_memory import dataset_of
from ._numbers import integer
from ._parts import part_of
from .batch import Batch, SlotBatch
from .datasets import Dataset
from .errors import SlotInUse, UvatrainError

if TYPE_CHECKING:
    from torch_geometric.data import Data
    from typing_extensions import TypeVar, Unpack

    from ._options import LoaderOptions

    # What the loop gets; `Loader` alone, in an annotation, is `Loader[Batch]`. Before Python 3.13 only type checkers
    # know of defaults.
    _Item = TypeVar("_Item", default=Batch)
else:
    from typing import TypeVar

    _Item = TypeVar("_Item")

__all__ = ["Batches", "Loader", "StaticShapes"]

_Self = TypeVar("_Self", bound="Batches[Any]")

#: What is closed when the interpreter ends: before it does, threads must not work on what it takes down.
_open: weakref.WeakKeyDictionary[object, _core.Source] = weakref.WeakKeyDictionary()


def close_with(owner: object, source: _core.Source) -> None:
    """Closes `source` when nobody has `owner` any more, or when the interpreter ends."""
    weakref.finalize(owner, source.close).atexit = False
    _open[owner] = source


@atexit.register
def _close_all() -> None:
    _core._interpreter_ends()
    with contextlib.ExitStack() as closing:
        for source in _open.values():
            closing.callback(source.close)

_LAST_EPOCH = 2**30 - 1


class _Epoch(Iterator[_Item]):
    """One pass over an epoch, or what is left of it."""

    __slots__ = ("__weakref__", "_batches", "_number")

    def __init__(self, batches: Batches[_Item], number: int) -> None:
        self._batches = batches
        self._number = number

    def __iter__(self) -> _Epoch[_Item]:
        return self

    def __next__(self) -> _Item:
        return self._batches._step(self._number)

    def __length_hint__(self) -> int:
        """How many batches are left."""
        return self._batches._left(self._number)


class _Place(NamedTuple):
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


class Batches(Generic[_Item]):
    """Batches of one split, epoch after epoch. What `Loader` and `attach()` have in common.

    Each `iter()` is one epoch: without `set_epoch`, the one behind the last that was begun.
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
        # Where the next iteration begins; None: at the beginning of the epoch behind the last one.
        self._pending: _Place | None = _Place(0)
        # Where the iteration that was begun last stands.
        self._at = _Place(0)
        # Iterations begun. One that is not the last has ended.
        self._begun = 0
        self._running: weakref.ref[_Epoch[_Item]] | None = None
        # The batch that was handed out last: its hold on the slot, and what the loop has of it.
        self._out: tuple[_core.Batch, weakref.ref[SlotBatch]] | None = None
        self._stream = _current_stream(source.device)
        self._dataset: Dataset | None = None
        # What the user makes of each batch before the loop has it.
        self._transform: Callable[[Batch], _Item] | None = None
        # What a state has to agree with. It takes a moment to find out, and stays.
        self._identity: dict[str, Any] | None = None

    def _refuse_ranks_without_batches(self) -> None:
        """ValueError where an epoch of training has fewer batches than there are ranks: all of them would be left out."""
        batches = self._source.all_batches(self.split)
        if self.split == "train" and 0 < batches < self.world_size:
            size = self._source.identity["batch_size"]
            self._source.close()
            raise _about(
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
        """How many ranks have a batch in the step at hand: world_size, or `trainers` while the others stand by."""
        return self._source.ranks_in_step(self.split, self._at.first, max(self._at.batch - 1, 0))

    @property
    def dataset(self) -> Dataset:
        """The dataset: how many nodes and classes there are, and its tables."""
        if self._dataset is None:
            self._dataset = Dataset._of(self._source.dataset)
        return self._dataset

    def __len__(self) -> int:
        """Batches of this rank in an epoch."""
        return self._length

    def __iter__(self) -> _Epoch[_Item]:
        if self._pending is None:
            self._pending = _Place(self._at.epoch + 1)
        _checked("epoch", self._pending.epoch)
        self._at, self._pending = self._pending, None
        self._begun += 1
        epoch = _Epoch(self, self._begun)
        self._running = weakref.ref(epoch)
        return epoch

    def _left(self, number: int) -> int:
        return self._batches(self._at) - self._at.batch if number == self._begun else 0

    def _batches(self, place: _Place) -> int:
        """Batches of this rank in the pass that a place is in."""
        return self._source.batches(self.split, place.first) if place.first else self._length

    def _step(self, number: int) -> _Item:
        if number != self._begun:
            raise UvatrainError(
                "another iteration over this loader has begun since, or a state was loaded, and it is one pass "
                "at a time: make a loader for each loop that runs beside another"
            )
        self._let_go()
        place = self._at
        if place.batch >= self._batches(place):
            if self._running is not None:
                self._running = None
                self._source.end_pass(self.split, place.epoch, place.first)
                if self._pending is None:
                    self._pending = _Place(place.epoch + 1)
                self._ended(place.epoch)
            raise StopIteration
        received = self._receive(place)
        self._at = place._replace(batch=place.batch + 1)
        handed_out = self._wrap(received)
        self._out = received, weakref.ref(handed_out)
        item: _Item = handed_out if self._transform is None else self._transform(handed_out)
        return item

    def _receive(self, place: _Place) -> _core.Batch:
        stream = self._stream() if self._stream is not None else None
        received = None
        try:
            received = self._source.next(self.split, *place, stream)
        except SlotInUse:
            pass
        if received is None:
            # A tensor in a reference cycle is nobody's, but still there.
            gc.collect()
            received = self._source.next(self.split, *place, stream, True)
        # None comes behind the last only.
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

        Where a state was loaded that stands within this very epoch, it goes on from there: so a loop that
        sets the epoch every time resumes as well.
        """
        epoch = _checked("epoch", epoch)
        if self._pending is None or self._pending.epoch != epoch:
            self._pending = _Place(epoch)

    def state_dict(self) -> dict[str, Any]:
        """Where the loop stands, as plain numbers and strings: for a checkpoint.

        Within the loop the batch at hand counts as done: another loader that loads the state goes on behind
        it. Ranks that take the same steps have equal states, so one of them is enough for all. Where ranks stand by, take the
        state of one that does not.
        """
        place = self._at if self._is_running() or self._pending is None else self._pending
        standing_by = {}
        if self.trainers < self.world_size:
            standing_by = {"version": 3, "first": place.first, "trainers": self.trainers}
            if self.split == "train" and place.batch:
                # Ranks have had different numbers of batches: all go on at the next step.
                standing_by["first"], place = self._source.position(self.split, *place[1:]), _Place(place.epoch)
        if self._identity is None:
            self._identity = self._source.identity
        # Who knows earlier versions only would begin elsewhere in the epoch.
        since = {"version": 2, "first": place.first} if place.first else {"version": 1}
        return {
            **since,
            "split": self.split,
            "epoch": place.epoch,
            "batch": place.batch,
            **self._identity,
            **standing_by,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Let the next iteration go on where a state was taken, with the batches that would have followed.

        Another number of ranks may have taken it. These ones then divide what is left of the epoch.

        ValueError where this loader would make other batches: another dataset, seed, fanouts, and so on.
        """
        if not isinstance(state, Mapping) or "version" not in state:
            raise ValueError("state: it is no state of a loader's, which state_dict() makes")
        if state["version"] not in (1, 2, 3):
            raise ValueError(f"state: version {state['version']!r} is not known here; versions 1 to 3 are")
        # States of before there were several kinds have none.
        state = {"sampler_kind": "neighbor", **state}
        here = self.state_dict()
        for name in ("input_nodes", "shuffle", "seed_order", "order_edges", "order_tolerance", "order_file"):
            # Only where it was given: there is none in states of before it could be.
            if name in state or name in here:
                here.setdefault(name, None)
                state.setdefault(name, None)
        for name, own in here.items():
            if name in ("version", "epoch", "first", "batch", "world_size", "trainers"):
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

    def _place_of(self, state: Mapping[str, Any]) -> _Place:
        """Where a state stands, for this number of ranks."""
        epoch = _checked("state: epoch", state.get("epoch"))
        all_batches = self._source.all_batches(self.split)
        ranks = _counted("world_size", state, 1, 2**32 - 1)
        first = _counted("first", {"first": 0, **state}, 0, all_batches)
        # Ranks that stand by have no batch in the last steps of an epoch, and none of a split that is not trained on.
        trainers = _counted("trainers", {"trainers": ranks, **state}, 1, ranks)
        of_ranks = (all_batches - first) // trainers
        # A split that is not trained on may have one batch more on the first ranks.
        most = of_ranks if self.split == "train" else -(-(all_batches - first) // trainers)
        batch = _counted("batch", state, 0, most)
        if (ranks, trainers) == (self.world_size, self.trainers) and (trainers == ranks or self.split != "train"):
            return _Place(epoch, first, min(batch, self._source.batches(self.split, first)))
        if ranks != self.world_size and state.get("seed_order") in ("proximity", "proximity:auto"):
            raise ValueError(
                f"state: it is of {ranks} ranks and there are {self.world_size}, and seed_order={state['seed_order']!r} chooses "
                "other sequences for them: give the number of sequences, as in \"proximity:3\""
            )
        # Behind their last batch the epoch is over: what did not fill a step of theirs is left out, as it would have been.
        over = self.split == "train" and batch == of_ranks
        return _Place(epoch, all_batches if over else min(first + batch * trainers, all_batches))

    @property
    def shapes(self) -> StaticShapes | None:
        """The sizes that batches are padded to with `pad="auto"`; None without."""
        shapes = self._source.shapes
        return None if shapes is None else StaticShapes(*shapes)

    def stats(self) -> dict[str, Any]:
        """What sampler, producer and consumer did with their time, in seconds, and which is the bottleneck.

        With `prepare="whole"`, "worker" is there in place of "sampler" and "producer". The bottleneck is "exchange" where most of
        the busiest role's work is to wait for other ranks.

        "exchange", with parts in ranges, has rows by where they came from ("own_rows", "cached_rows", "remote_rows"), rows given
        to other ranks, bytes sent and received, and the seconds in calls of the exchange ("waited_s"): those until all ranks had
        come to the same batch ("met_s"), and those in which ids and rows were passed on.

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


class Loader(Batches[_Item]):
    """The batches of a dataset, sampled and gathered by threads of this process while the training goes on.

        with uvatrain.Loader("data/graph", fanouts=(15, 10, 5), batch_size=1024) as loader:
            for epoch in range(10):
                for batch in loader:
                    train(batch.x, batch.y, batch.blocks)

    path: the dataset's directory (docs/data-format.md), or an open `uvatrain.Dataset`. Or what is in memory: a PyG
        `Data`, or a mapping with the keywords of `write_dataset`. It is written to a temporary dataset, as `from_pyg`
        and `write_dataset` do it, which goes with the loader; a `UvatrainWarning` tells what that cost.
    device: where batches come to be: "cpu", "cuda" or "cuda:1".
    split: "train", "valid" (or "val") or "test".
    input_nodes: nodes to sample around, in place of the split's: ids (a tensor, an array, a list), a mask with a bool for
        each node, "all", or the path of a file: .npy, of ids or of a mask, or text with one id a line. None: the
        split's.
    shuffle: order the seeds anew in each epoch. None: for the training split, but not for validation, test or
        input_nodes, which keep their order.
    num_neighbors: another name of fanouts, as PyG has it.
    transform: called with each batch; the loop gets what it returns.
    rank, world_size: which part of an epoch's batches comes here: of batch number g, the rank g % world_size.
        None: torch.distributed's where it is initialised, else RANK and WORLD_SIZE of the environment
        (torchrun), else all.
    part: the part of a partitioned dataset to train on; `path` is then the directory that `uvatrain partition` wrote
        (docs/parts.md). "rank": that of this rank, so that there have to be as many ranks as parts. Or its number. Every
        part has the same number of training batches, and a rank has all of its own. None: the dataset is not partitioned.
        Parts in ranges (`partition --layout ranges`) are of the feature table alone: torch.distributed has to be initialised,
        ranks divide the batches of the whole graph, and get the rows that others have from them (docs/distributed.md).
    graph: with parts in ranges, who has the graph. "copied": every rank, and samples by itself. "divided": a rank has the lists
        of its own nodes alone in memory, and draws from them for the others, hop by hop. Batches are the same. It is for graphs
        that are too large for each machine, and for neighbor, labor and weighted sampling. Give the same on every rank, and the
        same seed and options of sampling.
    exchange_timeout: seconds after which a rank that gives no rows or picks is given up, with parts in ranges.
    remote_cache: bytes, or a size such as "1GiB", for copies of the rows of other ranks that are read most, with parts in
        ranges. They are found by sampling beforehand: two epochs, and 200 batches at least, or with a divided graph one epoch.
        Give the same on every rank.
    host_cache: memory in front of a feature table that is read from disk (`features="disk"`): bytes, a size such as "8GiB", or
        "auto" for a quarter of what is available. Half is for the rows that are read most, which are found by sampling
        beforehand (docs/caches.md), and half for rows as batches need them (docs/disk.md). Unused where rows are read from memory. None: rows are read anew for each batch.
    gpu_cache: memory of the GPU for rows that are read most, and for a map of 4 bytes a node: bytes, or a size such as "4GiB".
        They are chosen before the first batch (docs/caches.md). Unused where batches are in host memory. None: all rows come from
        host memory.
    cache_policy: how the rows of gpu_cache are chosen: "presample" (None) samples two training epochs and 200 batches at least; "degree",
        "random", "optimal" and others rank them otherwise, and "fifo", "sieve" and others take in rows as batches come.
    gpu_cache_share: the GPUs of this machine's ranks hold the rows of gpu_cache between them, and read each other's over NVLink or
        PCIe. So n GPUs hold n times as many rows. torch.distributed has to be initialised, and all ranks make the
        same loaders in the same order, with the same seed and options (docs/distributed.md).
    """

    #: The part of a partitioned dataset that the batches are of; None: the dataset is not partitioned.
    part: int | None

    def __init__(
        self,
        path: str | os.PathLike[str] | Dataset | Data | Mapping[str, Any],
        *,
        device: Any = "cpu",
        split: str = "train",
        input_nodes: Any = None,
        shuffle: bool | None = None,
        num_neighbors: Sequence[int] | None = None,
        transform: Callable[[Batch], _Item] | None = None,
        rank: int | None = None,
        world_size: int | None = None,
        part: int | Literal["rank"] | None = None,
        graph: Literal["copied", "divided"] = "copied",
        exchange_timeout: float = 300,
        remote_cache: int | str = 0,
        host_cache: int | str | None = None,
        gpu_cache: int | str | None = None,
        cache_policy: str | None = None,
        gpu_cache_share: bool = False,
        **options: Unpack[LoaderOptions],
    ) -> None:
        rank, world_size = ranks(rank, world_size)
        split = split_name(split)
        chosen, exchanges = None, []
        if graph not in ("copied", "divided"):
            raise _about("graph", ValueError(f'graph is {graph!r}: it is "copied" or "divided"'))
        if part is not None:
            chosen = part_of(path, part, rank, world_size)
            path = chosen.path
            if chosen.is_range:
                # Rows and picks are asked for by threads of their own, which do not wait for each other.
                for _ in range(1 if graph == "copied" else 2):
                    exchanges.append(exchange_of("part", rank, world_size, exchange_timeout))
            else:
                # Its batches are not divided: every rank has a part of its own.
                rank, world_size = 0, 1
        if graph == "divided" and not exchanges:
            raise _about(
                "graph", ValueError('graph="divided": it is for parts in ranges with part="rank", and there are none: leave it out')
            )
        if not isinstance(path, str | os.PathLike | Dataset):
            path = dataset_of("Loader", "path", path, with_splits=input_nodes is None)
        if num_neighbors is not None:
            if "fanouts" in options:
                raise _about("num_neighbors", ValueError("num_neighbors and fanouts are one option: give one of them"))
            options["fanouts"] = fanouts_given("num_neighbors", num_neighbors)
        elif "fanouts" in options:
            options["fanouts"] = fanouts_given("fanouts", options["fanouts"])
        if transform is not None and not callable(transform):
            raise _about("transform", TypeError(f"transform is a {type(transform).__name__}: a function is needed"))
        if shuffle is None:
            shuffle = None if input_nodes is None else False
        elif not isinstance(shuffle, bool):
            raise _about("shuffle", TypeError(f"shuffle is True or False, not {type(shuffle).__name__}"))
        shared = None
        if gpu_cache_share:
            if gpu_cache is None:
                raise _about("gpu_cache_share", ValueError("gpu_cache_share: it shares what gpu_cache holds, which is not given"))
            if chosen is not None:
                said = "gpu_cache_share: it is for ranks that read the rows of one dataset, and each has a part here: leave it out"
                raise _about("gpu_cache_share", ValueError(said))
            shared = exchange_of("gpu_cache_share", rank, world_size, exchange_timeout)
        source = _core._open_loader(
            path._core if isinstance(path, Dataset) else os.fspath(path),
            split=split,
            device=str(device),
            rank=rank,
            world_size=world_size,
            options=options,
            input_nodes=_nodes_given(input_nodes),
            shuffle=shuffle,
            part=None if chosen is None or chosen.is_range else chosen[1:5],
            exchanges=exchanges,
            remote_cache=remote_cache,
            caches=dict(host_cache=host_cache, gpu_cache=gpu_cache, cache_policy=cache_policy),
            cache_exchange=shared,
        )
        close_with(self, source)
        super().__init__(source, split)
        self._refuse_ranks_without_batches()
        self.part = None if chosen is None else chosen.number
        self._transform = transform
        if isinstance(path, Dataset):
            self._dataset = path

    def __repr__(self) -> str:
        path = str(self.dataset.path)
        return f"Loader({path!r}, split={self.split!r}, batches={len(self)}, epoch={self.epoch})"


def _declare(loader: type[Loader[Any]]) -> None:
    """Gives the class the signature and the documentation of its options, from their declarations in the core."""
    options = _core._loader_options()
    own = inspect.signature(loader.__init__).parameters.values()
    named = [parameter for parameter in own if parameter.name != "self" and parameter.kind is not inspect.Parameter.VAR_KEYWORD]
    declared = [
        inspect.Parameter(
            option["name"],
            inspect.Parameter.KEYWORD_ONLY,
            default=option["default"],
            annotation=option["annotation"] + (" | None" if option["default"] is None else ""),
        )
        for option in options
    ]
    # On the class, which `inspect.signature` and `help` look at first.
    loader.__signature__ = inspect.Signature([*named, *declared])  # type: ignore[attr-defined]
    lines = [inspect.cleandoc(loader.__doc__ or ""), ""]
    for option in options:
        said = option["help"] + "."
        if option["unless_given"] is not None:
            said += f" None: {option['unless_given']}."
        if option["choices"]:
            said += " " + " ".join(f'"{name}": {help}.' for name, help in option["choices"])
        lines += textwrap.wrap(f"{option['name']}: {said}", 110, subsequent_indent="    ")
    loader.__doc__ = "\n".join(lines)


_declare(Loader)


def _about(option: str, error: Exception) -> Exception:
    """The exception with the name of the option that it is about."""
    error.field = option  # type: ignore[attr-defined]
    return error


def _nodes_given(nodes: Any) -> Any:
    """`input_nodes` as the core reads it: an array, or a path."""
    if nodes is None or isinstance(nodes, str | os.PathLike):
        return nodes
    try:
        return readable("input_nodes", nodes)
    except (TypeError, ValueError) as error:
        raise _about("input_nodes", error) from None


def split_name(split: Any) -> Any:
    """A split's own name: PyG's "val" is "valid". Names that are none are left for the core to refuse."""
    if not isinstance(split, str):
        raise TypeError(
            f'split is a {type(split).__name__}: it is the name of a split, "train", "valid" or "test". Which nodes '
            "are in it is the dataset's: write_dataset(..., train_idx=...). Other nodes are input_nodes=..."
        )
    return "valid" if split == "val" else split


def fanouts_given(name: str, fanouts: Any) -> list[Any]:
    """The fanouts as a list. What its entries are the core looks at."""
    kind, found = type(fanouts), fanouts
    if hasattr(fanouts, "tolist"):
        # A tensor or an array: its numbers.
        found = fanouts.tolist()
    if not isinstance(found, Iterable) or isinstance(found, str | bytes | Mapping):
        shown = kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__name__}"
        raise TypeError(f"{name} is a {shown}: a sequence is needed, a number for each hop, for example (5, 5)")
    return [entry.tolist() if hasattr(entry, "tolist") else entry for entry in found]


def exchange_of(option: Literal["part", "gpu_cache_share"], rank: int, world_size: int, timeout: float) -> Exchange:
    """This rank's end of a new exchange between the ranks of torch.distributed, which this option needs."""
    if isinstance(timeout, bool) or not isinstance(timeout, int | float) or not timeout > 0:
        raise _about("exchange_timeout", ValueError(f"exchange_timeout is {timeout!r}: seconds, more than 0"))
    distributed = sys.modules.get("torch.distributed")
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        reason = {
            "part": 'part="rank": the parts are ranges of feature rows, which ranks get from each other',
            "gpu_cache_share": "gpu_cache_share: the ranks that share a cache find each other",
        }
        raise _about(
            option,
            ValueError(f'{reason[option]} by torch.distributed: call torch.distributed.init_process_group("gloo") before'),
        )
    here = distributed.get_rank(), distributed.get_world_size()
    if here != (rank, world_size):
        raise _about(
            "rank",
            ValueError(
                f"rank {rank} of {world_size}: with {option} it works beside torch.distributed's rank {here[0]} of {here[1]}. "
                "Leave rank and world_size out"
            ),
        )
    return Exchange(timeout)


def ranks(rank: int | None, world_size: int | None) -> tuple[int, int]:
    """Rank and world size: those given, or torch.distributed's, or the environment's, or 0 of 1."""
    if (rank is None) != (world_size is None):
        given, missing = ("rank", "world_size") if world_size is None else ("world_size", "rank")
        raise ValueError(f"{given} without {missing}: give both, or neither")
    if rank is not None and world_size is not None:
        return rank, world_size
    # Whoever uses it has imported it; importing torch here would cost seconds for nothing.
    distributed = sys.modules.get("torch.distributed")
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        return distributed.get_rank(), distributed.get_world_size()
    told = os.environ.get("RANK"), os.environ.get("WORLD_SIZE")
    if None in told:
        return 0, 1
    try:
        return int(told[0] or ""), int(told[1] or "")
    except ValueError:
        raise ValueError(
            f"RANK={told[0]!r} and WORLD_SIZE={told[1]!r} in the environment are no numbers; give rank and "
            "world_size"
        ) from None


def _current_stream(device: int | None) -> Any:
    """What tells torch's current stream of a GPU; None where batches are in host memory."""
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
