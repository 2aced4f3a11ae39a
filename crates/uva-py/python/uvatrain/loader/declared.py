"""The loader's options as the core declares them: its signature, its documentation, and the groups that hold some."""

from __future__ import annotations

import dataclasses
import inspect
import textwrap
from collections.abc import Iterable
from typing import Any

from .. import _core
from ..errors import about
from ._options import BackendOptions, CacheOptions, RankOptions

__all__ = ["declare", "flattened", "taken"]

_OPTIONS = _core._loader_options()
_GROUPS: dict[str, type[BackendOptions | CacheOptions | RankOptions]] = {"backend": BackendOptions, "cache": CacheOptions, "ranks": RankOptions}


def flattened(options: dict[str, Any], **groups: Any) -> dict[str, Any]:
    """The options, with those that groups hold. TypeError for one that is given both ways."""
    for keyword, group in groups.items():
        if group is None:
            continue
        wanted = _GROUPS[keyword]
        if not isinstance(group, wanted):
            found = type(group).__name__
            raise about(keyword, TypeError(f"{keyword} is a {found}: a uvatrain.{wanted.__name__} is needed"))
        for field in dataclasses.fields(group):
            value = getattr(group, field.name)
            if value is None:
                continue
            if options.get(field.name) is not None:
                said = f"{field.name} and {keyword}.{field.name} are one option: give one of them"
                raise about(field.name, TypeError(said))
            options[field.name] = value
    return options


def taken(options: dict[str, Any]) -> dict[str, Any]:
    """Takes out what is not for the core's loader: the device, caches and ranks, with defaults for those not given."""
    names = [option for option in _OPTIONS if option["group"] in ("cache", "ranks") or option["name"] == "device"]
    return {option["name"]: options.pop(option["name"], option["default"]) for option in names}


def declare(loader: type) -> None:
    """Gives the class the signature and the documentation of its options, and the groups theirs."""
    own = inspect.signature(loader.__init__).parameters.values()  # type: ignore[misc]
    named = [parameter for parameter in own if parameter.name != "self" and parameter.kind is not inspect.Parameter.VAR_KEYWORD]
    declared = [
        inspect.Parameter(
            option["name"],
            inspect.Parameter.KEYWORD_ONLY,
            default=option["default"],
            annotation=option["annotation"] + (" | None" if option["default"] is None else ""),
        )
        for option in _OPTIONS
    ]
    # On the class, which `inspect.signature` and `help` look at first.
    loader.__signature__ = inspect.Signature([*named, *declared])  # type: ignore[attr-defined]
    loader.__doc__ = _documented(loader, _OPTIONS)
    for keyword, group in _GROUPS.items():
        group.__doc__ = _documented(group, [option for option in _OPTIONS if option["group"] == keyword])


def _documented(described: type, options: Iterable[dict[str, Any]]) -> str:
    lines = [inspect.cleandoc(described.__doc__ or ""), ""]
    for option in options:
        said = option["help"] + "."
        if option["unless_given"] is not None:
            said += f" None: {option['unless_given']}."
        if option["choices"]:
            said += " " + " ".join(f'"{name}": {help}.' for name, help in option["choices"])
        lines += textwrap.wrap(f"{option['name']}: {said}", 110, subsequent_indent="    ")
    return "\n".join(lines)
