"""Loader: the batches of a dataset, prepared by threads of this process beside the training."""

from __future__ import annotations

import inspect
import os
import textwrap
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from .. import _core
from ..datasets import Dataset
from ..errors import about
from ..interop.in_memory import dataset_of
from .arguments import exchange_of, fanouts_given, nodes_given, ranks, split_name
from .batch import Batch
from .batches import Batches, Item, close_with
from .parts import part_of

if TYPE_CHECKING:
    from torch_geometric.data import Data
    from typing_extensions import Unpack

    from ._options import LoaderOptions

__all__ = ["Loader"]


class Loader(Batches[Item]):
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
        transform: Callable[[Batch], Item] | None = None,
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
            raise about("graph", ValueError(f'graph is {graph!r}: it is "copied" or "divided"'))
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
            raise about(
                "graph", ValueError('graph="divided": it is for parts in ranges with part="rank", and there are none: leave it out')
            )
        if not isinstance(path, str | os.PathLike | Dataset):
            path = dataset_of("Loader", "path", path, with_splits=input_nodes is None)
        if num_neighbors is not None:
            if "fanouts" in options:
                raise about("num_neighbors", ValueError("num_neighbors and fanouts are one option: give one of them"))
            options["fanouts"] = fanouts_given("num_neighbors", num_neighbors)
        elif "fanouts" in options:
            options["fanouts"] = fanouts_given("fanouts", options["fanouts"])
        if transform is not None and not callable(transform):
            raise about("transform", TypeError(f"transform is a {type(transform).__name__}: a function is needed"))
        if shuffle is None:
            shuffle = None if input_nodes is None else False
        elif not isinstance(shuffle, bool):
            raise about("shuffle", TypeError(f"shuffle is True or False, not {type(shuffle).__name__}"))
        shared = None
        if gpu_cache_share:
            if gpu_cache is None:
                raise about("gpu_cache_share", ValueError("gpu_cache_share: it shares what gpu_cache holds, which is not given"))
            if chosen is not None:
                said = "gpu_cache_share: it is for ranks that read the rows of one dataset, and each has a part here: leave it out"
                raise about("gpu_cache_share", ValueError(said))
            shared = exchange_of("gpu_cache_share", rank, world_size, exchange_timeout)
        source = _core._open_loader(
            path._core if isinstance(path, Dataset) else os.fspath(path),
            split=split,
            device=str(device),
            rank=rank,
            world_size=world_size,
            options=options,
            input_nodes=nodes_given(input_nodes),
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
