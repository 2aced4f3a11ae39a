"""What is trained and how. The core declares the options: names, defaults, help, and what is refused."""

from __future__ import annotations

import argparse
import dataclasses
import functools
import json
import os
from typing import Any

from .. import _core
from ..datasets import HopSet, TypedDataset, opened_typed
from ..errors import UvatrainError
from ._options import TrainerOptions

_ABOUT = """\
Trains a built-in model over ranks, whose gradients are averaged.

  torchrun --nproc-per-node 4 -m uvatrain.train data/products --fanouts 10,5 --checkpoint run1
  torchrun --nproc-per-node 4 -m uvatrain.train products-ranges                 # of `uvatrain partition --layout ranges`
  torchrun --nproc-per-node 4 -m uvatrain.train products-hops --model sign      # of `uvatrain propagate`
  python -m uvatrain.train data/products                                        # one process

A step of W ranks takes W batches, and the mean of their gradients. Checkpoints are those of
`uvatrain train`: predict and evaluate with `uvatrain predict` and `uvatrain evaluate`.
"""


@dataclasses.dataclass(frozen=True)
class Options(TrainerOptions):
    """The command line."""

    data: str
    core: _core.TrainerArguments
    #: Whether the data is a graph of several node types or relations.
    is_typed: bool

    @property
    def values(self) -> dict[str, Any]:
        """DATA and the options, by name."""
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(self) if field.name not in ("core", "is_typed")}

    @property
    def is_hop_set(self) -> bool:
        """Whether the data is a hop set."""
        return _is_hop_set(self.data)

    @property
    def is_parts(self) -> bool:
        """Whether the data is parts, of which each rank has one."""
        return os.path.exists(os.path.join(self.data, "partition.json"))

    @property
    def samples(self) -> bool:
        """Whether neighbours are drawn, and not all taken."""
        return not self.is_hop_set and any(fanout != -1 for fanout in self.fanouts)

    @property
    def reads_edges(self) -> bool:
        """Whether the model takes edge features."""
        return self.core.needs_edges or self.edge_attr

    def of_trainer(
        self, edge_dim: int = 0, graph: TypedDataset | None = None, outputs: int = 0
    ) -> tuple[dict[str, Any], list[str]]:
        """The trainer's options as checkpoints have them, and notes for people.

        edge_dim: features of an edge that the model gets. graph, outputs: for a model over relations, what it is over,
        and the columns of its logits.
        """
        path = None if graph is None else graph.path
        trainer, notes = self.core.trainer(len(self.fanouts), edge_dim, self.seed, path, outputs)
        return json.loads(trainer), notes

    def of_loader(self) -> dict[str, Any]:
        """Keywords of `uvatrain.Loader`."""
        names = ("fanouts", "batch_size", "drop_last", "replace", "sampler_kind", "seed", "samplers", "gather_threads", "slots")
        return {name: getattr(self, name) for name in names}

    def of_hop_loader(self) -> dict[str, Any]:
        """Keywords of `uvatrain.HopLoader`."""
        return {
            "batch_size": self.batch_size,
            "shuffle": self.shuffle,
            "chunk": None if self.chunk in (None, "auto") else int(self.chunk),
            "drop_last": self.drop_last,
            "seed": self.seed,
            "slots": self.slots,
            "samplers": self.samplers or 1,
            "features": {"host": "memory"}.get(self.place, self.place),
            "reader": self.reader,
        }


def _is_hop_set(data: str) -> bool:
    return os.path.isfile(os.path.join(data, "hops.json"))


def _read(name: str, text: str) -> str:
    try:
        _core._read_trainer_option(name, text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return text


def _add(parser: argparse.ArgumentParser, option: dict[str, Any]) -> None:
    name, said = option["name"], option["help"].replace("%", "%%")
    typed = "--" + name.replace("_", "-")
    if option["annotation"] == "bool":
        parser.add_argument(typed, dest=name, action="store_const", const="true", default=argparse.SUPPRESS, help=said)
        return
    default = option["unless_given"] or _shown(option["default"])
    more: dict[str, Any] = {"metavar": option["value"]}
    if option["choices"]:
        more = {"choices": [choice for choice, _ in option["choices"]]}
    parser.add_argument(
        typed,
        dest=name,
        type=functools.partial(_read, name),
        default=argparse.SUPPRESS,
        help=said + ("" if default is None else f" (default: {default})".replace("%", "%%")),
        **more,
    )


def _shown(default: Any) -> str | None:
    """A default as one would type it."""
    if default is None:
        return None
    return ",".join(map(str, default)) if isinstance(default, tuple) else str(default)


def parse(arguments: list[str] | None) -> Options:
    """Reads the command line. SystemExit, with code 2, where it is none."""
    parser = argparse.ArgumentParser(
        prog="python -m uvatrain.train",
        usage="[torchrun …] -m uvatrain.train [OPTIONS] DATA",
        description=_ABOUT,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("data", metavar="DATA", help="a dataset, the directory of its parts in ranges, or a hop set")
    for option in _core._trainer_options():
        _add(parser, option)
    given = vars(parser.parse_args(arguments))
    data = given.pop("data")
    try:
        is_typed = opened_typed(data) is not None
        core = _core.TrainerArguments(given, _hops_of(data), is_typed)
    except (ValueError, OSError, UvatrainError) as error:
        parser.error(str(error))
    return Options(data=data, core=core, is_typed=is_typed, **core.values)


def _hops_of(data: str) -> tuple[int, int] | None:
    """Of a hop set: the hops of each operator, and how many operators there are."""
    if not _is_hop_set(data):
        return None
    hop_set = HopSet(data)
    operators = len(hop_set.meta["operators"])
    return (hop_set.num_hops - 1) // operators, operators
