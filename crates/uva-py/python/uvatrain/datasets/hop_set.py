"""Hop sets: features multiplied by graph operators once, so that training needs no neighbours.

They are described in docs/guide/propagation.md. `uvatrain propagate` makes them from the command line.
"""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Callable, Iterable
from typing import Any

from .. import _core
from .._arrays import lent
from .dataset import Dataset, opened

__all__ = ["HopSet", "propagate"]


class HopSet:
    """A hop set that is open: features after 0, 1, ... hops for the rows of the splits.

    Its arrays are tensors (numpy arrays where torch is not installed) that view the mapped files without a copy. What is
    written to them stays in this object, and reaches neither the files nor what loaders read.

    path: the directory.
    verify: also compare all bytes with the hashes in hops.json, and refuse values that are not finite.
    """

    def __init__(self, path: str | os.PathLike[str], *, verify: bool = False) -> None:
        self._core = _core.HopSet(os.fspath(path))
        self._tables: dict[str, Any] = {}
        if verify:
            self._core.verify()

    @property
    def path(self) -> str:
        """The directory, as it was given."""
        path: str = os.fspath(self._core.path)
        return path

    @property
    def meta(self) -> dict[str, Any]:
        """What hops.json says."""
        meta: dict[str, Any] = json.loads(self._core.meta)
        return meta

    @property
    def num_rows(self) -> int:
        """Rows. A node that is in two splits has two."""
        return int(self.meta["rows"])

    @property
    def feature_dim(self) -> int:
        """Values in a row of one hop."""
        return int(self.meta["dim"])

    @property
    def num_classes(self) -> int:
        """Classes of the labels; 0 where no node has a class."""
        return int(self.meta["classes"])

    @property
    def num_targets(self) -> int | None:
        """Numbers to predict for a row, if labels are float32 targets of regression; else None."""
        if self.labels is None or not str(self.labels.dtype).endswith("float32"):
            return None
        return int(self.labels.shape[1]) if self.labels.ndim == 2 else 1

    @property
    def multi_label(self) -> bool:
        """Whether a row may have several classes."""
        return self.labels is not None and str(self.labels.dtype).endswith("uint8")

    @property
    def num_hops(self) -> int:
        """Hops of a row: the features themselves, and each operator's."""
        return self._core.hops

    @property
    def operators(self) -> dict[str, int]:
        """How often each operator was applied, by its name."""
        return {operator["name"]: operator["hops"] for operator in self.meta["operators"]}

    @property
    def splits(self) -> dict[str, slice]:
        """The rows of "train", "valid" and "test"."""
        return {name: slice(first, end) for name, (first, end) in self.meta["splits"].items()}

    @property
    def hops(self) -> list[Any]:
        """For each hop [rows, feature_dim]: the features, then the hops of the first operator, and so on."""
        files = self._core.hop_files
        if self.meta["layout"] == "hops":
            return [self._table(file, functools.partial(self._core.rows_of, file)) for file in files]
        rows = self.rows
        return [rows[:, hop] for hop in range(self.num_hops)]

    @property
    def rows(self) -> Any:
        """[rows, hops, feature_dim]: all hops of each row. Only with layout="rows"."""
        if self.meta["layout"] != "rows":
            raise ValueError(f"{self.path}: each hop has a file of its own (layout='hops'): take .hops")
        [file] = self._core.hop_files
        rows = self._table(file, lambda: self._core.rows_of(file))
        return rows.reshape(self.num_rows, self.num_hops, self.feature_dim)

    @property
    def node_idx(self) -> Any:
        """int64 [rows]: the node in the dataset that each row belongs to."""
        return self._table("node_idx", self._core.node_idx)

    @property
    def labels(self) -> Any:
        """The labels of the rows, as the dataset has them; None where it has none."""
        return self._table("labels", self._core.labels)

    def _table(self, name: str, array: Callable[[], Any]) -> Any:
        """The file of this name, mapped at the first use."""
        if name not in self._tables:
            found = array()
            self._tables[name] = None if found is None else lent(found)
        return self._tables[name]

    def __repr__(self) -> str:
        operators = ", ".join(f"{hops} of {name}" for name, hops in self.operators.items())
        return f"uvatrain.HopSet({self.path!r}: {self.num_rows} rows, {self.feature_dim} features, hops: {operators})"


def propagate(
    dataset: str | os.PathLike[str] | Dataset,
    out: str | os.PathLike[str],
    *,
    operator: str | Iterable[str] = "sym",
    hops: int = 3,
    nodes: str = "splits",
    type: str = "f32",
    layout: str = "hops",
    row_order: str = "shuffled",
    seed: int = 0,
    weighted: bool = False,
    feature_norm: str = "none",
    memory: int | str | None = None,
    threads: int | None = None,
    resume: bool = False,
    progress: Callable[[str, int, int], object] | None = None,
) -> HopSet:
    """Multiplies a dataset's features by graph operators, and stores the rows: `uvatrain propagate`.

    `out` appears when it is complete. If the work is interrupted, by Ctrl-C or by an exception of `progress`, what
    is finished stays in OUT.propagating, and the same call with resume=True continues. The bytes do not depend on
    memory, threads or interruptions.

    dataset: a path, or an open `uvatrain.Dataset`.
    out: the directory to make. One that exists is refused.
    operator: "sym", "sym-noloop", "row", "row-loop", "col", "ppr:ALPHA[,T]", "heat:TIME[,T]"; or several of them.
    hops: how often each is applied, 1 to 64.
    nodes: whose rows are kept: "splits", "labelled" (those of them that have a label) or "all".
    type: of the stored rows: "f32", "f16" or "bf16". Sums are float32 in any case.
    layout: "hops", a file for each hop, or "rows", all hops of a row side by side.
    row_order: of training rows: "shuffled", drawn by `seed`, or "file", as in train_idx.npy. "nodes": row i is that of node i,
        for `train --first-layer`; it takes nodes="all".
    weighted: let entries count by weight.npy instead of as 1 each.
    feature_norm: "row" first divides each row by the sum of its absolute values.
    memory: bytes, or a size such as "4GiB", for tables and buffers. What does not fit takes several passes over the
        graph. None: half of the available memory.
    threads: that sum. None: one for each core.
    progress: called with what is worked on ("features", "edges", or an operator's name), the rows that are done, and
        all rows of it.

    Raises ValueError for options, and where memory or the disk are too small; OSError for what the system refuses.
    """
    operators = operator if isinstance(operator, str) else ",".join(operator)
    options = dict(
        operator=operators,
        hops=hops,
        nodes=nodes,
        type=type,
        layout=layout,
        row_order=row_order,
        seed=seed,
        weighted=bool(weighted),
        feature_norm=feature_norm,
        memory=memory,
        threads=threads,
    )
    _core.propagate(opened(dataset)._core, os.fspath(out), options, bool(resume), progress)
    return HopSet(out)
