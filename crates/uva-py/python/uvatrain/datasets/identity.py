"""What a dataset of any kind is called, and what identifies its content."""

from __future__ import annotations

import json
import os
from typing import Any

from .. import _core

__all__ = ["Identity"]


class Identity:
    """The path, name, fingerprint and description of an open dataset."""

    _core: _core.Dataset | _core.TypedDataset

    @property
    def path(self) -> str:
        """The directory, as it was given."""
        path: str = os.fspath(self._core.path)
        return path

    @property
    def name(self) -> str:
        """The name in meta.json, else the directory's."""
        return self._core.name

    @property
    def fingerprint(self) -> str:
        """16 hex digits that identify the content, whatever its path and name."""
        return self._core.fingerprint

    @property
    def meta(self) -> dict[str, Any]:
        """The content of meta.json."""
        meta: dict[str, Any] = json.loads(self._core.meta)
        return meta
