"""What is trained and how. Options have the names, meanings and defaults of `uvatrain train`."""

from __future__ import annotations

import argparse
import math
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..models import KINDS, LAYERS
from .refusals import refusal

_ABOUT = """\
Trains a built-in model over ranks, whose gradients are averaged.

  torchrun --nproc-per-node 4 -m uvatrain.train data/products --fanouts 10,5 --checkpoint run1
  torchrun --nproc-per-node 4 -m uvatrain.train products-ranges                 # of `uvatrain partition --layout ranges`
  torchrun --nproc-per-node 4 -m uvatrain.train products-hops --model sign      # of `uvatrain propagate`
  python -m uvatrain.train data/products                                        # one process

A step of W ranks takes W batches, and the mean of their gradients. Checkpoints are those of
`uvatrain train`: predict and evaluate with `uvatrain predict` and `uvatrain evaluate`.
"""


@dataclass(frozen=True)
class Options:
    """The command line."""

    data: str
    model: str
    hidden: int
    layers: int | None
    use_hops: int | None
    alpha: float
    activation: str
    heads: int
    output_heads: int | None
    attention_dropout: float
    edge_attr: bool
    residual: bool
    norm: str
    dropout: float
    input_dropout: float
    feature_norm: str
    metric: str
    loss: str
    epochs: int
    lr: float
    weight_decay: float
    class_weights: str | list[float] | None
    patience: int | None
    keep: str
    checkpoint: str | None
    checkpoint_every: int | None
    resume: bool
    fanouts: list[int]
    batch_size: int
    drop_last: bool
    replace: bool
    sampler_kind: str
    seed: int
    samplers: int | None
    gather_threads: int | None
    slots: int
    shuffle: str
    chunk: int | None
    place: str
    reader: str
    graph: str
    remote_cache: str | None
    gpu_cache: str | None
    gpu_cache_share: bool
    device: str
    timeout: float
    metrics: str | None
    #: The options that were given, by their names here.
    given: frozenset[str]

    @property
    def is_hop_set(self) -> bool:
        """Whether the data is a hop set."""
        return os.path.isfile(os.path.join(self.data, "hops.json"))

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
        """Whether the model takes features of edges."""
        return self.model == "gine" or self.edge_attr

    def of_trainer(self, edge_dim: int = 0, hops: int = 0, operators: int = 0) -> dict[str, Any]:
        """The trainer's options as checkpoints have them: some only where they differ from their defaults.

        edge_dim: features of an edge that the model gets. hops, operators: of a hop set, how many hops of each operator.
        """
        usual = {
            "heads": (self.heads, 8),
            "output_heads": (self.output_heads, None),
            "attention_dropout": (self.attention_dropout, 0.0),
            "edge_dim": (edge_dim, 0),
            "residual": (self.residual, False),
            "norm": (self.norm, "none"),
            "hops": (hops, 0),
            "operators": (operators, 0),
            "alpha": (self.alpha, 0.05),
            "activation": (self.activation, "relu"),
            "class_weights": (self.class_weights, None),
        }
        layers = (2 if self.model == "sign" else 1) if self.model in KINDS else len(self.fanouts)
        return {
            "model": self.model,
            "hidden": self.hidden,
            **{name: value for name, (value, default) in usual.items() if value != default},
            "layers": self.layers or layers,
            "dropout": self.dropout,
            "input_dropout": self.input_dropout,
            "learning_rate": self.lr,
            "weight_decay": self.weight_decay,
            "feature_norm": self.feature_norm,
            "seed": self.seed,
        }

    def of_loader(self) -> dict[str, Any]:
        """Keywords of `uvatrain.Loader`."""
        return {
            "fanouts": self.fanouts,
            "batch_size": self.batch_size,
            "drop_last": self.drop_last,
            "replace": self.replace,
            "sampler_kind": self.sampler_kind,
            "seed": self.seed,
            "samplers": self.samplers,
            "gather_threads": self.gather_threads,
            "slots": self.slots,
        }

    def of_hop_loader(self) -> dict[str, Any]:
        """Keywords of `uvatrain.HopLoader`."""
        return {
            "batch_size": self.batch_size,
            "shuffle": self.shuffle,
            "chunk": self.chunk,
            "drop_last": self.drop_last,
            "seed": self.seed,
            "slots": self.slots,
            "samplers": self.samplers or 1,
            "features": {"host": "memory"}.get(self.place, self.place),
            "reader": None if self.reader == "auto" else self.reader,
        }


def _fanouts(text: str) -> list[int]:
    return [int(fanout) for fanout in text.split(",")]


def _class_weights(text: str) -> str | list[float]:
    if text == "balanced":
        return text
    try:
        weights = [float(weight) for weight in text.split(",")]
    except ValueError:
        raise argparse.ArgumentTypeError(f"invalid value '{text}': expected balanced, or a weight for each class") from None
    for weight in weights:
        if not 0 < weight < math.inf:
            raise argparse.ArgumentTypeError(f"invalid weight '{weight:g}': expected a positive number")
    return weights


def _share(text: str) -> float:
    share = float(text)
    if not 0 <= share < 1:
        raise argparse.ArgumentTypeError(f"{text}: from 0 to below 1")
    return share


def _count(text: str) -> int:
    count = int(text)
    if count < 1:
        raise argparse.ArgumentTypeError(f"{text}: 1 or more")
    return count


def _up_to(most: int) -> Callable[[str], int]:
    def read(text: str) -> int:
        count = _count(text)
        if count > most:
            raise argparse.ArgumentTypeError(f"{text}: 1 to {most}")
        return count

    return read


def _chunk(text: str) -> int | None:
    return None if text == "auto" else _count(text)


def _seconds(text: str) -> float:
    seconds = float(text)
    # Beyond that, waits overflow.
    if not 0 < seconds <= 1e6:
        raise argparse.ArgumentTypeError(f"{text}: seconds, above 0 and at most 1000000")
    return seconds


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
    defaults: dict[str, Any] = {}

    def add(name: str, default: Any, kind: Any, said: str, shown: str | None = None, **more: Any) -> None:
        shown = shown or (None if default is None else str(default))
        said += "" if shown is None else f" (default: {shown})"
        option = parser.add_argument(name, default=argparse.SUPPRESS, type=kind, help=said, **more)
        defaults[option.dest] = default

    def flag(name: str, said: str) -> None:
        option = parser.add_argument(name, action="store_true", default=argparse.SUPPRESS, help=said)
        defaults[option.dest] = False

    said = "the model (docs/models.md); gine is for a whole dataset that has features of edges; "
    said += f"{', '.join(KINDS)} are for hop sets"
    add("--model", "sage", str, said, choices=[*LAYERS, *KINDS])
    add("--hidden", 128, _count, "width of the hidden layers", metavar="UNITS")
    said = "SIGN: linear maps on a row's way; HOGA: layers of attention"
    add("--layers", None, _up_to(32), said, shown="2 for sign, 1 for hoga", metavar="N")
    add("--use-hops", None, _up_to(64), "hop sets: read so many hops only", shown="all", metavar="HOPS")
    add("--alpha", 0.05, _share, "S²GC: share of the features in each hop of the mean", metavar="SHARE")
    add("--activation", "relu", str, "SIGN: what stands between layers", choices=["relu", "prelu"])
    add("--heads", 8, _count, "GAT and HOGA: attention heads of a hidden layer")
    add("--output-heads", None, _count, "GAT: attention heads of the last layer", metavar="HEADS")
    add("--attention-dropout", 0.0, _share, "GAT: share of attention weights dropped", metavar="P")
    flag("--edge-attr", "GAT: let attention take features of edges, which a whole dataset may have; gine takes them anyway")
    flag("--residual", "let each layer add to its rows")
    add("--norm", "none", str, "what is done to rows between layers", choices=["none", "layer"])
    add("--dropout", 0.5, _share, "share of hidden values dropped", metavar="P")
    add("--input-dropout", 0.0, _share, "share of feature values dropped", metavar="P")
    add("--feature-norm", "none", str, "how feature rows are scaled", choices=["none", "row"])
    said = "what selects the best model; auto: accuracy, with several labels a node roc-auc, for regression the loss"
    add("--metric", "auto", str, said, choices=["auto", "accuracy", "roc-auc", "mse", "mae"])
    add("--loss", "auto", str, "regression: squared errors (auto) or absolute ones", choices=["auto", "mse", "mae"])
    add("--epochs", 10, _count, "passes over the training nodes, those of the checkpoint included")
    add("--lr", 0.003, float, "learning rate of Adam", metavar="RATE")
    add("--weight-decay", 0.0, float, "weight decay of Adam", metavar="DECAY")
    said = "one class a node: how much a node of each class counts in the loss: balanced, in inverse proportion to the class's "
    said += "training nodes, or a weight for each class, such as 1,1,20"
    add("--class-weights", None, _class_weights, said, shown="all the same", metavar="balanced|LIST")
    add("--patience", None, _count, "end after so many epochs without a better validation", metavar="EPOCHS")
    add("--keep", "best", str, "which parameters are the model, of the best epoch or the last", choices=["best", "last"])
    add("--checkpoint", None, str, "keep the training in this directory, which rank 0 writes", metavar="DIR")
    add("--checkpoint-every", None, _count, "write it after so many steps too, and not only after each epoch", metavar="STEPS")
    flag("--resume", "go on with the checkpoint, also with another number of ranks; restarts by torchrun do so anyway")
    add("--fanouts", [15, 10, 5], _fanouts, "neighbours for each hop, at the seeds first", metavar="F,F,…", shown="15,10,5")
    add("--batch-size", 1024, _count, "seeds of a batch, of which each rank has one a step", metavar="NODES")
    flag("--drop-last", "leave out a last training batch that is smaller")
    flag("--replace", "draw neighbours with replacement")
    add("--sampler-kind", "neighbor", str, "how neighbours are drawn", choices=["neighbor", "labor"])
    add("--seed", 0, int, "of first weights, order, picks and dropout")
    add("--samplers", None, _count, "threads that sample", metavar="W")
    add("--gather-threads", None, _count, "threads that gather", metavar="T")
    add("--slots", 2, _count, "batches that are prepared or in use at a time")
    add("--shuffle", "full", str, "hop sets: what each epoch orders anew: rows, or chunks of them", choices=["full", "chunks"])
    add("--chunk", None, _chunk, "hop sets: rows of a chunk", shown="auto: what makes large reads", metavar="ROWS")
    said = "hop sets: where rows are read: in host memory, on disk, or auto: on disk if they do not fit into memory"
    add("--place", "auto", str, said, choices=["auto", "host", "disk"])
    readers = ["auto", "uring", "pread", "mmap"]
    add("--reader", "auto", str, "hop sets: how rows are read from disk (docs/disk.md)", choices=readers)
    said = "parts in ranges: who has the graph: every rank, or each the lists of its own nodes"
    add("--graph", "copied", str, said, choices=["copied", "divided"])
    add("--remote-cache", None, str, "parts in ranges: memory for rows of other ranks, such as 1GiB", metavar="SIZE")
    said = "memory of each rank's GPU for rows that training reads most, such as 4GiB (docs/caches.md)"
    add("--gpu-cache", None, str, said, metavar="SIZE")
    flag("--gpu-cache-share", "the GPUs of a machine hold these rows between them, and read each other's")
    devices = ["auto", "cpu", "cuda"]
    add("--device", "auto", str, "cpu, cuda (each rank its own), or auto", choices=devices)
    add("--timeout", 300.0, _seconds, "seconds after which a silent rank is given up", metavar="SECONDS")
    add("--metrics", None, str, "write batches and epochs as lines of JSON; rank r > 0 writes to FILE.r", metavar="FILE")
    typed = vars(parser.parse_args(arguments))
    options = Options(**{**defaults, **typed}, given=frozenset(typed))
    refused = refusal(options)
    if refused is not None:
        parser.error(refused)
    return options
