"""Graphs in memory as datasets: written to a temporary directory, which is removed when the dataset is no longer referenced."""

from __future__ import annotations

import os
import tempfile
import time
import weakref
from collections.abc import Callable, Mapping
from typing import Any

from .. import _core
from ..datasets import Dataset, write_dataset
from ..errors import warn
from .from_pyg import from_pyg, is_pyg

__all__ = ["dataset_of", "kept_for", "written_for"]

#: What was written, by the names and identities of the tensors that it was made of.
_made: dict[tuple[Any, ...], tuple[list[weakref.ref[Any]], weakref.ref[Dataset]]] = {}


def dataset_of(caller: str, name: str, value: Any, *, with_splits: bool) -> Dataset:
    """The argument `name` of `caller`, a PyG `Data` or a mapping of arrays, as a temporary dataset.

    with_splits: it has to say which nodes to train on.
    """
    if is_pyg(value):
        if hasattr(value, "node_types"):
            raise ValueError(f"{name} is a HeteroData: uvatrain.from_pyg(data, path) writes it as a dataset")
        attributes = value.to_dict()
        splits = with_splits or any(key in attributes for key in ("train_mask", "train_idx"))
        given: dict[str, Any] = {} if splits else {"train_idx": ()}
        tensors = {key: item for key, item in attributes.items() if key == "adj_t" or hasattr(item, "shape")}
        return kept_for(
            tensors, lambda: written_for(caller, lambda path: from_pyg(value, path, **given)), "from_pyg", splits
        )
    if isinstance(value, Mapping):
        arrays = dict(value) if with_splits else {"train_idx": (), **value}
        return written_for(caller, lambda path: write_dataset(path, **arrays), "write_dataset(path, ...)")
    raise TypeError(
        f"{name} is a {type(value).__name__}: a dataset's path, a uvatrain.Dataset, a torch_geometric Data or a "
        "mapping of arrays is needed"
    )


def written_for(
    caller: str, write: Callable[[str], Dataset], once: str = "from_pyg(data, path)"
) -> Dataset:
    """A dataset that `write` makes at the path that it gets, removed with the dataset that is returned.

    A `UvatrainWarning` in the name of `caller` reports its bytes and seconds. once: the call
    that writes the data for all runs.
    """
    # What killed processes left there goes first.
    folder = _core.TemporaryDirectory(tempfile.gettempdir(), "uvatrain-data")
    begun = time.monotonic()
    try:
        dataset = write(os.path.join(folder.path, "data"))
    except BaseException:
        folder.close()
        raise
    weakref.finalize(dataset, folder.close)
    size = sum(entry.stat().st_size for entry in os.scandir(dataset.path))
    warn(
        f"{caller} wrote the data to a temporary dataset, {size / 1e6:.1f} MB in {time.monotonic() - begun:.1f} s, under "
        f"{tempfile.gettempdir()} (TMPDIR chooses another place). It is a snapshot, and goes when nothing uses it any "
        f"more. uvatrain.{once} writes it once for all runs"
    )
    return dataset


def kept_for(tensors: dict[str, Any], make: Callable[[], Dataset], *others: Any) -> Dataset:
    """What `make` gives, or what it gave for these very tensors before, while it is in use and they are unchanged.

    So loaders over one `Data`, for training and validation, share one dataset. others: what else it depends
    on.
    """
    key = (*others, *((name, id(tensor), getattr(tensor, "_version", 0)) for name, tensor in tensors.items()))
    found = _made.get(key)
    if found is not None:
        # An id is another object's as soon as the object is gone.
        alive = all(of_key() is tensor for of_key, tensor in zip(found[0], tensors.values()))
        dataset = found[1]() if alive else None
        if dataset is not None:
            return dataset
    dataset = make()
    _made[key] = [weakref.ref(tensor) for tensor in tensors.values()], weakref.ref(dataset)
    weakref.finalize(dataset, _made.pop, key, None).atexit = False
    return dataset
