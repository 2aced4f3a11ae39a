"""The parts of a partitioned dataset: which one a loader takes, and how many training nodes the smallest has."""

from __future__ import annotations

import operator
import os
from pathlib import Path
from typing import Any, NamedTuple

from .. import _core
from ..errors import about

#: The description of the parts, in their folder.
_DESCRIPTION = "partition.json"


class Part(NamedTuple):
    """A part to open."""

    #: Its directory.
    path: Path
    #: Which one it is.
    number: int
    #: Training nodes of the smallest part: they give all ranks the same number of batches.
    fewest: int
    #: Training nodes of this part.
    train: int
    #: The description that says so, as it was read: the part has to be one of this very partition.
    description: bytes
    #: Whether it is a range of feature rows of a graph that all parts share: `path` is then the partition's.
    is_range: bool


def part_of(directory: Any, part: Any, rank: int, world_size: int) -> Part:
    """The part of the partition in `directory`: the one with this number, or this rank's.

    ValueError, with the field, where there is no such part, or with "rank" another number of ranks than parts.
    """
    if not isinstance(directory, str | os.PathLike):
        raise about(
            "path",
            TypeError(
                f"path is a {type(directory).__name__}: with part it is the directory that `uvatrain partition` wrote"
            ),
        )
    directory = Path(directory)
    train, description, is_range = _train_nodes(directory)
    if is_range and part != "rank":
        raise about(
            "part",
            ValueError(
                f'part is {part!r}, and the parts of {directory} are ranges of feature rows: a rank gets the others from the '
                'ranks that have them, so give part="rank" in a process for each part'
            ),
        )
    if part == "rank":
        if world_size != len(train):
            ranks = "1 rank" if world_size == 1 else f"{world_size} ranks"
            raise about(
                "part",
                ValueError(
                    f'part="rank": {directory} has {len(train)} parts, and there are {ranks}: each rank trains on a part of '
                    "its own, so start as many as there are parts, or write as many parts as there are ranks. A number "
                    "takes one part"
                ),
            )
        number = rank
    else:
        number = _number(part, len(train))
    path = directory if is_range else directory / f"part-{number}"
    return Part(path, number, min(train), train[number], description, is_range)


def _number(part: Any, parts: int) -> int:
    try:
        number = None if isinstance(part, bool) else operator.index(part)
    except TypeError:
        number = None
    if number is None:
        raise about("part", TypeError(f'part is {part!r}: give "rank", or the number of a part'))
    if not 0 <= number < parts:
        raise about("part", ValueError(f"part {number}: there are the parts 0 to {parts - 1}"))
    return number


def _train_nodes(directory: Path) -> tuple[list[int], bytes, bool]:
    """The training nodes of each part, the description that says so, and whether parts are ranges. That they are the parts'
    own is checked where one opens."""
    file = directory / _DESCRIPTION
    if not file.is_file():
        raise about(
            "path", ValueError(f"path: {file} is not there: with part it is the directory that `uvatrain partition` wrote")
        )
    try:
        train, layout = _core._read_partition(directory)
    except ValueError as error:
        raise about("path", ValueError(f"path: {error}")) from None
    if layout is None:
        raise about(
            "path", ValueError(f"path: {directory} has a map alone: write its parts with `uvatrain partition --map`")
        )
    return train, file.read_bytes(), layout == "ranges"
