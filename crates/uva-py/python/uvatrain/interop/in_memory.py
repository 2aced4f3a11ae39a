"""Graphs in memory as datasets: written to a temporary directory, which is removed when the dataset is no longer referenced."""

from __future__ import annotations

import os
import tempfile
import time
import weakref
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from .. import _core
from ..datasets import Dataset, TypedDataset, write_dataset
from ..errors import warn
from .from_pyg import from_pyg, is_pyg

__all__ = ["dataset_of", "graph_in_memory", "kept_for", "written_for"]

#: A dataset of one type of nodes and edges, or a typed one.
Kind = TypeVar("Kind", Dataset, TypedDataset)

#: What was written, by the names and identities of the tensors that it was made of.
_made: dict[tuple[Any, ...], tuple[list[weakref.ref[Any]], weakref.ref[Any]]] = {}


def graph_in_memory(caller: str, name: str, value: Any, *, with_splits: bool) -> Dataset | TypedDataset:
    """As `dataset_of`, of a PyG `HeteroData` and of `nodes` and `edges` also."""
    if is_pyg(value) and hasattr(value, "node_types"):
        stores = [*value.node_items(), *value.edge_items()]
        typed: TypedDataset = kept_for(
            {(of, key): item for of, store in stores for key, item in store.items() if hasattr(item, "shape")},
            lambda: written_for(caller, lambda path: from_pyg(value, path)),
            "from_hetero",
            # Numbers of nodes that no tensor has.
            *(store.get("num_nodes") for store in value.node_stores),
        )
        return typed
    if isinstance(value, Mapping) and "nodes" in value:
        return written_for(caller, lambda path: write_dataset(path, **value), "write_dataset(path, ...)")
    return dataset_of(caller, name, value, with_splits=with_splits)


def dataset_of(caller: str, name: str, value: Any, *, with_splits: bool) -> Dataset:
    """The argument `name` of `caller`, a PyG `Data` or a mapping of arrays, as a temporary dataset.

    with_splits: it has to say which nodes to train on.
    """
    if is_pyg(value):
        if hasattr(value, "node_types"):
            raise ValueError(f"{name} is a HeteroData: {caller} supports graphs with one type of nodes and edges")
        attributes = value.to_dict()
        splits = with_splits or any(key in attributes for key in ("train_mask", "train_idx"))
        given: dict[str, Any] = {} if splits else {"train_idx": ()}
        tensors = {key: item for key, item in attributes.items() if key == "adj_t" or hasattr(item, "shape")}
        made: Dataset = kept_for(
            tensors, lambda: written_for(caller, lambda path: from_pyg(value, path, **given)), "from_pyg", splits
        )
        return made
    if isinstance(value, Mapping):
        arrays = dict(value) if with_splits else {"train_idx": (), **value}
        written: Dataset = written_for(
            caller, lambda path: write_dataset(path, **arrays), "write_dataset(path, ...)"
        )
        return written
    raise TypeError(
        f"{name} is a {type(value).__name__}: a dataset's path, a uvatrain.Dataset, a torch_geometric Data or a "
        "mapping of arrays is needed"
    )


def written_for(caller: str, write: Callable[[str], Kind], once: str = "from_pyg(data, path)") -> Kind:
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
    size = sum(os.path.getsize(os.path.join(place, name)) for place, _, names in os.walk(dataset.path) for name in names)
    warn(
        f"{caller} wrote the data to a temporary dataset, {size / 1e6:.1f} MB in {time.monotonic() - begun:.1f} s, under "
        f"{tempfile.gettempdir()} (TMPDIR chooses another place). It is a snapshot, and goes when nothing uses it any "
        f"more. uvatrain.{once} writes it once for all runs"
    )
    return dataset


def kept_for(tensors: Mapping[Any, Any], make: Callable[[], Kind], *others: Any) -> Kind:
    """What `make` gives, or what it gave for these very tensors before, while it is in use and they are unchanged.

    So loaders over one graph, for training and validation, share one dataset. others: what else it depends
    on.
    """
    key = (*others, *((name, id(tensor), getattr(tensor, "_version", 0)) for name, tensor in tensors.items()))
    found = _made.get(key)
    if found is not None:
        # An id is another object's as soon as the object is gone.
        alive = all(of_key() is tensor for of_key, tensor in zip(found[0], tensors.values()))
        kept: Kind | None = found[1]() if alive else None
        if kept is not None:
            return kept
    dataset = make()
    _made[key] = [weakref.ref(tensor) for tensor in tensors.values()], weakref.ref(dataset)
    weakref.finalize(dataset, _made.pop, key, None).atexit = False
    return dataset
