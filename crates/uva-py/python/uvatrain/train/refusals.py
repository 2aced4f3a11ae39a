"""Options that do not go together, as `uvatrain train` refuses them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from ..models import KINDS, LAYERS

if TYPE_CHECKING:
    from .options import Options

#: The models that take an option, where not all do.
_MODELS_OF = {
    "heads": ("gat", "hoga"),
    "output_heads": ("gat",),
    "attention_dropout": ("gat",),
    "layers": ("sign", "hoga"),
    "use_hops": tuple(KINDS),
    "alpha": ("s2gc",),
    "activation": ("sign",),
}
#: What a hop set has no use for.
_OF_SAMPLING = ("fanouts", "replace", "sampler_kind", "edge_attr", "graph", "remote_cache", "gpu_cache", "gpu_cache_share")


def refusal(options: Options) -> str | None:
    """The first thing that does not fit; None: all fits."""
    return next(_refusals(options), None)


def _refusals(options: Options) -> Iterator[str]:
    if options.is_hop_set:
        yield from _of_hop_set(options)
    else:
        yield from _of_neighbours(options)
    yield from _of_model(options)
    if options.checkpoint is None:
        for name, given in (("--resume", options.resume), ("--checkpoint-every", options.checkpoint_every is not None)):
            if given:
                yield f"{name}: give --checkpoint, the directory that it is about"


def _of_hop_set(options: Options) -> Iterator[str]:
    """Where DATA is a hop set."""
    for name in _OF_SAMPLING:
        if name in options.given:
            yield (
                f"{_typed(name)}: DATA is a hop set, whose rows are copied without sampling or gathering: leave the option out"
            )
    if "gather_threads" in options.given:
        yield (
            "--gather-threads: DATA is a hop set, and each worker copies the rows of its batches by itself: give --samplers "
            "instead"
        )
    if options.model not in KINDS:
        yield (
            f"--model {options.model}: it trains on sampled neighbours, and a hop set has none: use --model {_either(KINDS)}"
        )
    if options.residual:
        yield "--residual: only models over sampled neighbours have layers that add to their rows: leave it out"
    if options.norm != "none":
        yield "--norm: only models over sampled neighbours take it; hoga always has layer normalisation: leave it out"
    if options.feature_norm != "none":
        yield "--feature-norm: features are normalised before they are multiplied: give it to `uvatrain propagate`"
    if "chunk" in options.given and options.shuffle != "chunks":
        yield f"--chunk: it is of no use with --shuffle {options.shuffle}: leave it out, or give --shuffle chunks"
    if options.chunk is not None and options.chunk > options.batch_size:
        yield (
            f"--chunk {options.chunk}: a chunk is at most a batch (--batch-size {options.batch_size}): larger ones leave little "
            "to shuffle"
        )
    if options.place == "host" and options.reader != "auto":
        yield (
            f"--reader {options.reader}: with --place host rows are read from the mapped files: leave it out, or give --place "
            "disk"
        )


def _of_neighbours(options: Options) -> Iterator[str]:
    """Where DATA is a dataset, or parts of one."""
    of_hop_sets = {
        "shuffle": options.shuffle != "full",
        "chunk": "chunk" in options.given,
        "place": options.place != "auto",
        "reader": options.reader != "auto",
    }
    for name, given in of_hop_sets.items():
        if given:
            yield f"{_typed(name)}: it is about rows of a hop set, and {options.data} is none: leave it out"
    if options.model in KINDS:
        yield (
            f"--model {options.model}: it trains on a hop set, and {options.data} is none: `uvatrain propagate` makes one of a "
            f"dataset; or use --model {_either(LAYERS)}"
        )
    if options.gpu_cache_share and options.gpu_cache is None:
        yield "--gpu-cache-share: give --gpu-cache, the memory that each GPU has for it"
    if options.edge_attr and options.model not in ("gat", "gine"):
        yield f"--edge-attr: --model {options.model} takes no features of edges: use --model gat or gine, or leave it out"


def _of_model(options: Options) -> Iterator[str]:
    for name, models in _MODELS_OF.items():
        if name in options.given and options.model not in models:
            yield f"{_typed(name)}: it is of --model {_either(models)}, and the model is {options.model}: leave it out"
    if options.model == "sign" and options.layers == 1:
        yield "--layers 1: --model sign has at least 2 layers"
    if options.model in _MODELS_OF["heads"] and options.hidden % options.heads:
        yield f"--heads {options.heads}: they divide --hidden between them, and {options.hidden} is no multiple"
    if options.residual and options.output_heads is not None:
        yield "--output-heads: with --residual no layer's heads are averaged for the classes: leave it out"


def _typed(name: str) -> str:
    return "--" + name.replace("_", "-")


def _either(names: Iterable[str]) -> str:
    *others, last = names
    return f"{', '.join(others)} or {last}" if others else last
