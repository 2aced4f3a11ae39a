"""Names of parameters by node type and relation, as PyG's dictionaries of modules and parameters have them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from torch.nn import Module, ModuleDict, Parameter, ParameterDict

__all__ = ["EdgeType", "ModulesByRelation", "name_of", "parameters_by_name"]

EdgeType = tuple[str, str, str]


def name_of(key: str | EdgeType, of: type) -> str:
    """The key under which PyG keeps a type or a relation in a dictionary of this class, and so a part of its state."""
    name = key if isinstance(key, str) else f"<{'___'.join(key)}>"
    # An attribute of the class would hide it, and a dot would divide it.
    return (f"<{name}>" if hasattr(of, name) else name).replace(".", "#")


class ModulesByRelation(ModuleDict):
    """Modules by relation, a triple of names."""

    def __init__(self, modules: Mapping[EdgeType, Module]) -> None:
        super().__init__({name_of(names, ModuleDict): module for names, module in modules.items()})

    def __getitem__(self, key: Any) -> Module:
        return super().__getitem__(name_of(key, ModuleDict) if isinstance(key, tuple) else key)


def parameters_by_name(parameters: Iterable[tuple[str, Parameter]]) -> ParameterDict:
    """Parameters under the names that PyG gives those of a type or relation."""
    made = ParameterDict()
    for key, parameter in parameters:
        made[name_of(key, ParameterDict)] = parameter
    return made
