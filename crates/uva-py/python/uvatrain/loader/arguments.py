"""Arguments that loaders and sessions share: ranks, splits, nodes, fanouts and exchanges."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping
from typing import Any, Literal

from .._arrays import readable
from ..errors import about
from .exchange import Exchange


def nodes_given(nodes: Any) -> Any:
    """`input_nodes` as the core reads it: an array, or a path; or a dict of these by the names of node types."""
    if nodes is None or isinstance(nodes, str | os.PathLike):
        return nodes
    if isinstance(nodes, Mapping):
        return {name: nodes_given(of_type) for name, of_type in nodes.items()}
    try:
        return readable("input_nodes", nodes)
    except (TypeError, ValueError) as error:
        raise about("input_nodes", error) from None


def split_name(split: Any) -> Any:
    """A split's own name: PyG's "val" is "valid". The core refuses unknown names."""
    if not isinstance(split, str):
        raise TypeError(
            f'split is a {type(split).__name__}: it is the name of a split, "train", "valid" or "test". Which nodes '
            "are in it is the dataset's: write_dataset(..., train_idx=...). Other nodes are input_nodes=..."
        )
    return "valid" if split == "val" else split


def fanouts_given(name: str, fanouts: Any) -> list[Any] | dict[str, list[Any]]:
    """The fanouts as a list, or as lists by the names of relations or node types. The core checks the entries.

    Keys are names, or triples of names. PyG's `NumNeighbors` is such a dict, with its default under "*".
    """
    values = getattr(fanouts, "values", None)
    if values is not None and not callable(values) and hasattr(fanouts, "default"):
        # PyG's NumNeighbors.
        if not isinstance(values, Mapping):
            return hops_given(name, values)
        fanouts = values if fanouts.default is None else {**values, "*": fanouts.default}
    if not isinstance(fanouts, Mapping):
        return hops_given(name, fanouts)
    lists = {}
    for key, of_key in fanouts.items():
        of = "__".join(key) if isinstance(key, tuple) and all(isinstance(part, str) for part in key) else key
        if not isinstance(of, str):
            raise about(name, TypeError(f"{name} has the key {key!r}: the name of a relation or node type is needed"))
        lists[of] = hops_given(f"{name}[{key!r}]", of_key)
    return lists


def hops_given(name: str, fanouts: Any) -> list[Any]:
    """A fanout for each hop as a list. The core checks the entries."""
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
        raise about("exchange_timeout", ValueError(f"exchange_timeout is {timeout!r}: seconds, more than 0"))
    distributed = sys.modules.get("torch.distributed")
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        reason = {
            "part": 'part="rank": the parts are ranges of feature rows, which ranks get from each other',
            "gpu_cache_share": "gpu_cache_share: the ranks that share a cache find each other",
        }
        raise about(
            option,
            ValueError(f'{reason[option]} by torch.distributed: call torch.distributed.init_process_group("gloo") before'),
        )
    here = distributed.get_rank(), distributed.get_world_size()
    if here != (rank, world_size):
        raise about(
            "rank",
            ValueError(
                f"rank {rank} of {world_size}: with {option} it must be torch.distributed's rank {here[0]} of {here[1]}. "
                "Omit rank and world_size"
            ),
        )
    return Exchange(timeout)


def ranks_of(rank: int | None, world_size: int | None) -> tuple[int, int]:
    """Rank and world size: those given, or torch.distributed's, or the environment's, or 0 of 1."""
    if (rank is None) != (world_size is None):
        given, missing = ("rank", "world_size") if world_size is None else ("world_size", "rank")
        raise ValueError(f"{given} without {missing}: give both, or neither")
    if rank is not None and world_size is not None:
        return rank, world_size
    # A program that uses it has imported it; importing torch here would cost seconds.
    distributed = sys.modules.get("torch.distributed")
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        return distributed.get_rank(), distributed.get_world_size()
    variables = os.environ.get("RANK"), os.environ.get("WORLD_SIZE")
    if None in variables:
        return 0, 1
    try:
        return int(variables[0] or ""), int(variables[1] or "")
    except ValueError:
        raise ValueError(
            f"RANK={variables[0]!r} and WORLD_SIZE={variables[1]!r} in the environment are not numbers; give rank and "
            "world_size"
        ) from None
