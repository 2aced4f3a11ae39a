"""Loader: the batches of a dataset, prepared by threads of this process in parallel with training."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from .. import _core
from ..datasets import Dataset, TypedDataset
from ..errors import about
from ..interop.in_memory import graph_in_memory
from ._options import BackendOptions, CacheOptions, RankOptions
from .arguments import exchange_of, fanouts_given, nodes_given, ranks_of, split_name
from .batch import Batch
from .batches import Batches, Item, close_with
from .declared import declare, flattened, taken
from .parts import part_of

if TYPE_CHECKING:
    from torch_geometric.data import Data, HeteroData
    from typing_extensions import Unpack

    from ._options import LoaderKeywords

__all__ = ["Loader"]


class Loader(Batches[Item]):
    """The batches of a dataset, sampled and gathered by threads of this process in parallel with training.

        with uvatrain.Loader("data/graph", fanouts=(15, 10, 5), batch_size=1024) as loader:
            for epoch in range(10):
                for batch in loader:
                    train(batch.x, batch.y, batch.blocks)

    path: the dataset's directory (docs/reference/data-format.md), or an open `uvatrain.Dataset`. Or what is in memory: a PyG
        `Data` or `HeteroData`, or a mapping with the keywords of `write_dataset`. It is written to a temporary dataset, as `from_pyg`
        and `write_dataset` do, which is removed with the loader; a `UvatrainWarning` reports the cost.
    split: "train", "valid" (or "val") or "test".
    input_nodes: nodes to sample around, in place of the split's: ids (a tensor, an array, a list), a mask with a bool for
        each node, "all", or the path of a file: .npy, of ids or of a mask, or text with one id a line. None: the
        split's. In a typed graph they are of the target, or a dict has those of several types.
    shuffle: shuffle the seeds in each epoch. None: for the training split, but not for validation, test or
        input_nodes, which keep their order.
    num_neighbors: another name of fanouts, as PyG has it. In a typed graph both may be a dict by relations, with triples of
        names as keys and "*" for all others. Batches are then `uvatrain.TypedBatch`.
    transform: called with each batch; the loop gets what it returns.
    backend, cache, ranks: some of the options below, together: a `uvatrain.BackendOptions`, `uvatrain.CacheOptions` and
        `uvatrain.RankOptions`. An option that is given both ways is a TypeError.
    """

    #: The part of a partitioned dataset that the batches are of; None: the dataset is not partitioned.
    part: int | None

    def __init__(
        self,
        path: str | os.PathLike[str] | Dataset | TypedDataset | Data | HeteroData | Mapping[str, Any],
        *,
        split: str = "train",
        input_nodes: Any = None,
        shuffle: bool | None = None,
        num_neighbors: Sequence[int] | Mapping[Any, Sequence[int]] | None = None,
        transform: Callable[[Batch], Item] | None = None,
        backend: BackendOptions | None = None,
        cache: CacheOptions | None = None,
        ranks: RankOptions | None = None,
        **keywords: Unpack[LoaderKeywords],
    ) -> None:
        options = flattened(dict(keywords), backend=backend, cache=cache, ranks=ranks)
        own = taken(options)
        rank, world_size = ranks_of(own["rank"], own["world_size"])
        graph, exchange_timeout, gpu_cache_share = own["graph"], own["exchange_timeout"], own["gpu_cache_share"]
        split = split_name(split)
        chosen, exchanges = None, []
        if graph not in ("copied", "divided"):
            raise about("graph", ValueError(f'graph is {graph!r}: it is "copied" or "divided"'))
        if own["part"] is not None:
            chosen = part_of(path, own["part"], rank, world_size)
            path = chosen.path
            if chosen.is_range:
                # Separate threads request rows and picks, and do not wait for each other.
                for _ in range(1 if graph == "copied" else 2):
                    exchanges.append(exchange_of("part", rank, world_size, exchange_timeout))
            else:
                # Its batches are not divided: every rank has a part of its own.
                rank, world_size = 0, 1
        if graph == "divided" and not exchanges:
            raise about(
                "graph", ValueError('graph="divided": only supported for parts in ranges with part="rank"')
            )
        if not isinstance(path, str | os.PathLike | Dataset | TypedDataset):
            path = graph_in_memory("Loader", "path", path, with_splits=input_nodes is None)
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
            if own["gpu_cache"] is None:
                raise about("gpu_cache_share", ValueError("gpu_cache_share: it shares what gpu_cache holds, which is not given"))
            if chosen is not None:
                said = "gpu_cache_share: not supported with a part for each rank: the ranks must read the rows of one dataset"
                raise about("gpu_cache_share", ValueError(said))
            shared = exchange_of("gpu_cache_share", rank, world_size, exchange_timeout)
        source = _core._open_loader(
            path._core if isinstance(path, Dataset) else path.path if isinstance(path, TypedDataset) else os.fspath(path),
            split=split,
            device=str(own["device"]),
            rank=rank,
            world_size=world_size,
            options=options,
            input_nodes=nodes_given(input_nodes),
            shuffle=shuffle,
            part=None if chosen is None or chosen.is_range else chosen[1:5],
            exchanges=exchanges,
            remote_cache=own["remote_cache"],
            caches={name: own[name] for name in ("host_cache", "gpu_cache", "cache_policy")},
            cache_exchange=shared,
        )
        close_with(self, source)
        super().__init__(source, split)
        self._refuse_ranks_without_batches()
        if source.metadata is not None and not source.seed_count(split):
            source.close()
            file = f"nodes/{source.target}/{split}_idx.npy"
            raise about("target", ValueError(f"{file} is absent: choose a target that has it, or give input_nodes"))
        self.part = None if chosen is None else chosen.number
        self._transform = transform
        if isinstance(path, Dataset | TypedDataset):
            self._dataset = path

    def __repr__(self) -> str:
        path = str(self.dataset.path)
        return f"Loader({path!r}, split={self.split!r}, batches={len(self)}, epoch={self.epoch})"


declare(Loader)
