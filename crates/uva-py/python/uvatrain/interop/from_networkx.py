"""Datasets from networkx's graphs."""

from __future__ import annotations

import os
from collections.abc import Hashable, Iterable, Mapping
from typing import Any

from .. import _core
from .._arrays import lent
from ..datasets import Dataset, write_dataset

_SPLITS = {"train": "train_idx", "valid": "valid_idx", "val": "valid_idx", "test": "test_idx"}


def from_networkx(
    graph: Any,
    path: str | os.PathLike[str],
    *,
    features: Any,
    labels: Any = None,
    split: str | Mapping[Hashable, str] | None = None,
    train: Iterable[Hashable] | None = None,
    valid: Iterable[Hashable] = (),
    test: Iterable[Hashable] = (),
    weight: str | None = None,
    overwrite: bool = False,
    **meta: Any,
) -> tuple[Dataset, dict[Hashable, int]]:
    """Writes a networkx graph as a dataset. Gives it back opened, and the id that each node has in it.

    Nodes keep their order: the first of `graph.nodes` is node 0. An edge u -> v puts u into the list of v; an
    undirected edge is in both lists (a self-loop once). Parallel edges stay.

    features: the name of a node attribute, a mapping from nodes to rows, or an array [nodes, features] in
        their order.
    labels: the same, one integer a node (-1: none) or a row of zeros and ones; floats that are not whole are targets of
        regression. None: the dataset has no labels.
    split: the name of a node attribute, or a mapping from nodes, that says "train", "valid" or "test"
        (others: in none).
    train, valid, test: in place of that, the nodes of each.
    weight: the name of an edge attribute.
    Everything else as in `write_dataset`.
    """
    import numpy

    from .from_pyg import labels_of

    nodes = list(graph.nodes)
    ids = {node: position for position, node in enumerate(nodes)}
    rows = _values(graph, "features", features, nodes)
    if rows.dtype == numpy.float64 and not hasattr(features, "dtype"):
        # numpy makes float64 of Python's numbers by default; nothing requires that precision.
        rows = rows.astype(numpy.float32)
    elif rows.dtype.kind in "iub" and rows.dtype.itemsize != 1:
        rows = rows.astype(numpy.float32)
    sources, destinations, weights = [], [], []
    for u, v, attributes in graph.edges(data=True):
        both = not graph.is_directed() and u != v
        for source, destination in ((u, v), (v, u)) if both else ((u, v),):
            sources.append(ids[source])
            destinations.append(ids[destination])
            if weight is not None:
                if weight not in attributes:
                    raise ValueError(f"weight={weight!r}: the edge from {u!r} to {v!r} has no such attribute")
                weights.append(attributes[weight])
    indptr, indices, order = _core.lists_of_edges(
        numpy.array(sources, numpy.int64),
        numpy.array(destinations, numpy.int64),
        len(nodes),
        weight is not None,
    )
    dataset = write_dataset(
        path,
        indptr=lent(indptr),
        indices=lent(indices),
        features=rows,
        labels=None if labels is None else labels_of("labels", _values(graph, "labels", labels, nodes), len(nodes)),
        **_splits(graph, ids, split, train, valid, test),
        weight=None if weight is None else numpy.array(weights, numpy.float32)[numpy.asarray(lent(order))],
        overwrite=overwrite,
        **meta,
    )
    return dataset, ids


def _values(graph: Any, name: str, given: Any, nodes: list[Hashable]) -> Any:
    """An array in the order of the nodes."""
    import numpy

    if isinstance(given, str | Mapping):
        said = dict(graph.nodes(data=given)) if isinstance(given, str) else given
        lacking = next((node for node in nodes if said.get(node) is None), None)
        if lacking is not None:
            raise ValueError(
                f"{name}={given!r}: node {lacking!r} has none"
                if isinstance(given, str)
                else f"{name}: node {lacking!r} is not in it"
            )
        try:
            return numpy.asarray([numpy.asarray(said[node]) for node in nodes])
        except ValueError as error:
            raise ValueError(f"{name}: the rows of the nodes are not of one length ({error})") from None
    return numpy.asarray(given)


def _splits(
    graph: Any, ids: dict[Hashable, int], split: Any, train: Any, valid: Any, test: Any
) -> dict[str, Any]:
    import numpy

    if (split is None) == (train is None):
        raise ValueError(
            "give either split=... (a node attribute's name, or a mapping) or train=..., the nodes to train on"
        )
    chosen: dict[str, list[int]] = {"train_idx": [], "valid_idx": [], "test_idx": []}
    if split is not None:
        said = dict(graph.nodes(data=split)) if isinstance(split, str) else split
        for node, position in ids.items():
            if (argument := _SPLITS.get(said.get(node, ""))) is not None:
                chosen[argument].append(position)
        if not any(chosen.values()):
            raise ValueError(f'split={split!r}: no node says "train", "valid" or "test"')
    else:
        for argument, members in (("train_idx", train), ("valid_idx", valid), ("test_idx", test)):
            for node in members:
                if node not in ids:
                    raise ValueError(f"{argument.removesuffix('_idx')}: {node!r} is not a node of the graph")
                chosen[argument].append(ids[node])
    return {argument: numpy.array(positions, numpy.int64) for argument, positions in chosen.items()}
