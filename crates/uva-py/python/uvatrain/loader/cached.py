"""A dataset with the two caches of a plan: sampling and loading as calls."""

from __future__ import annotations

import os
import warnings
from typing import TYPE_CHECKING, Any, NamedTuple

from .. import _core
from .._arrays import as_int64, integer, lent
from ..datasets import Dataset
from ..errors import UvatrainWarning

if TYPE_CHECKING:
    import torch
    from typing_extensions import Unpack

    from ._options import LoaderOptions

__all__ = ["CachedBatch", "CachedBlock", "CachedDataset"]


class CachedBlock(NamedTuple):
    """A layer's part of a graph, as `uvatrain.Block` has it: list `d` is `indices[indptr[d]:indptr[d + 1]]`."""

    #: Destinations, the first of the sources.
    num_dst: int
    #: Sources, the first of the batch's `input_nodes`.
    num_src: int
    #: int32 [num_dst + 1]
    indptr: torch.Tensor
    #: int32 [edges], positions among the sources.
    indices: torch.Tensor
    #: int64 [edges], with `edge_ids=True`.
    edge_ids: torch.Tensor | None
    #: float32 [edges], of kinds that weigh edges.
    weights: torch.Tensor | None


class CachedBatch(NamedTuple):
    """What `CachedDataset.sample` returns. Its tensors are its own, and stay."""

    #: int64 [nodes]: the seeds, and then the nodes that the hops found.
    input_nodes: torch.Tensor
    #: How many of them are seeds.
    num_seeds: int
    #: The blocks, that at the seeds first.
    blocks: list[CachedBlock]
    #: 16 hex digits, as of a batch of `uvatrain.Loader`.
    hash: str
    #: Reads of lists, and how many of them hit the cache.
    list_reads: int
    list_hits: int


class CachedDataset:
    """Samples and loads through the caches of lists and of rows that a plan has chosen (DUCATI).

        cached = uvatrain.CachedDataset("data/mine", "plan.json", fanouts=[15, 10], batch_size=1000)
        batch = cached.sample(seeds, epoch=0, batch=0)
        rows = cached.load(batch.input_nodes)

    For programs that make their batches themselves. `uvatrain.Loader` prepares batches in parallel with training; this class
    does not: a call returns when its work is done. Results are the same as without caches. A thread has the caches, and
    ends with the object.

    dataset: the directory, or an open `uvatrain.Dataset`.
    plan: the file that `uvatrain plan --out` wrote, or None for no caches. A plan for other options works, and is warned
        about.
    device: where the caches are: "cpu", "cuda:0", or "auto" for the first GPU if there is one. Rows come to host memory.
    options: `fanouts`, `batch_size` (the most seeds of a call), `seed`, `sampler_kind` and others of `uvatrain.Loader`
        that decide about sampling and about rows.
    """

    def __init__(
        self,
        dataset: str | os.PathLike[str] | Dataset,
        plan: str | os.PathLike[str] | None = None,
        *,
        device: str = "cpu",
        **options: Unpack[LoaderOptions],
    ) -> None:
        self._dataset = dataset if isinstance(dataset, Dataset) else Dataset(dataset)

        def warn(message: str) -> None:
            warnings.warn(message, UvatrainWarning, stacklevel=3)

        self._core = _core.CachedDataset(
            self._dataset._core, None if plan is None else os.fspath(plan), device=device, options=options, warn=warn
        )
        self._rows = self._hits = 0

    @property
    def dataset(self) -> Dataset:
        """The dataset."""
        return self._dataset

    @property
    def row_hit_rate(self) -> float:
        """The share of all rows loaded so far that the cache had; 0 before the first."""
        return self._hits / self._rows if self._rows else 0.0

    def sample(self, seeds: Any, *, epoch: int = 0, batch: int = 0, split: str = "train") -> CachedBatch:
        """Samples around `seeds`, int64 [n], each once: the picks of this batch of a run with these options."""
        epoch, batch = integer("epoch", epoch), integer("batch", batch)
        nodes, num_seeds, blocks, name, reads, hits = self._core.sample(as_int64("seeds", seeds), split, epoch, batch)
        made = [
            CachedBlock(
                num_dst,
                num_src,
                lent(indptr),
                lent(indices),
                None if edge_ids is None else lent(edge_ids),
                None if weights is None else lent(weights),
            )
            for num_dst, num_src, indptr, indices, edge_ids, weights in blocks
        ]
        return CachedBatch(lent(nodes), num_seeds, made, name, reads, hits)

    def load(self, nodes: Any) -> torch.Tensor:
        """The feature rows of `nodes`, int64 [n]: [n, features], of the dataset's type or as `feature_type` says."""
        rows, hits = self._core.load(as_int64("nodes", nodes))
        loaded: torch.Tensor = lent(rows)
        self._rows += loaded.shape[0]
        self._hits += hits
        return loaded

    def __repr__(self) -> str:
        return f"CachedDataset({self._dataset.path!r})"
