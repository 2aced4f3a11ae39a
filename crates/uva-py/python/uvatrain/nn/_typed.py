"""How layers over several node types read their input."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ._names import EdgeType
from ._rows import all_rows

__all__ = ["ends"]


def ends(layer: str, x_dict: Mapping[str, Any], names: EdgeType, edges: Any) -> tuple[Any, Any]:
    """The rows of a relation's sources and destinations; None for destinations without rows.

    Of a block these are the first rows of their types: a type that a layer does not change keeps the rows that it had
    for the block before, which are more.
    """
    source, _, destination = names
    x_src, x_dst = x_dict.get(source), x_dict.get(destination)
    if x_src is None:
        raise ValueError(
            f"{layer}: x_dict has no rows of {source!r}, the sources of {'__'.join(names)}: give rows of the type, "
            "such as those of uvatrain.Embedding, or omit the relation"
        )
    if hasattr(edges, "indptr") and hasattr(edges, "num_src"):
        x_src = all_rows(x_src[: edges.num_src])
        x_dst = x_src if source == destination else None if x_dst is None else all_rows(x_dst[: edges.num_dst])
    return x_src, x_dst
