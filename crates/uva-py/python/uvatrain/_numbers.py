"""Numbers among arguments."""

from __future__ import annotations

import operator
from typing import Any


def integer(name: str, value: Any) -> int:
    """The argument `name` as an int; numpy's integers are ones too.

    TypeError, with the field, for anything else, True and False included.
    """
    try:
        if not isinstance(value, bool):
            return operator.index(value)
    except TypeError:
        pass
    error = TypeError(f"{name} is an integer, not {type(value).__name__}")
    error.field = name  # type: ignore[attr-defined]
    raise error from None
