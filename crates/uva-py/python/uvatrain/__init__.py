"""Mini-batches of graphs larger than GPU memory, sampled and gathered in parallel with training."""

from typing import TYPE_CHECKING

from ._core import VERSION as __version__
from .datasets import Dataset, HopSet, TypedDataset, propagate, write_dataset
from .errors import BatchGone, PeerDied, SlotInUse, Unavailable, UvatrainError, UvatrainWarning
from .interop.from_networkx import from_networkx
from .interop.from_ogb import from_ogb
from .interop.from_pyg import from_pyg
from .loader import BackendOptions, CacheOptions, Loader, RankOptions
from .loader.attach import Session, attach
from .loader.batch import Batch, Block
from .loader.cached import CachedBatch, CachedBlock, CachedDataset
from .loader.hops import HopBatch, HopLoader
from .loader.typed_batch import TypedBatch

if TYPE_CHECKING:
    from . import nn
    from .models import load_model
    from .models.layerwise import infer
    from .nn.embedding import Embedding

__all__ = [
    "BackendOptions",
    "Batch",
    "BatchGone",
    "Block",
    "CacheOptions",
    "CachedBatch",
    "CachedBlock",
    "CachedDataset",
    "Dataset",
    "Embedding",
    "HopBatch",
    "HopLoader",
    "HopSet",
    "Loader",
    "PeerDied",
    "RankOptions",
    "Session",
    "SlotInUse",
    "TypedDataset",
    "Unavailable",
    "TypedBatch",
    "UvatrainError",
    "UvatrainWarning",
    "__version__",
    "attach",
    "from_networkx",
    "from_ogb",
    "from_pyg",
    "infer",
    "load_model",
    "nn",
    "propagate",
    "write_dataset",
]


def __getattr__(name: str) -> object:
    # These need torch, which is not imported before it is used.
    if name == "Embedding":
        from .nn.embedding import Embedding

        return Embedding
    if name == "infer":
        from .models.layerwise import infer

        return infer
    if name == "load_model":
        from .models import load_model

        return load_model
    if name == "nn":
        from importlib import import_module

        return import_module(".nn", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    # What is imported on demand is listed too, and what this file imports for itself is not.
    return [*__all__, *(name for name in globals() if name.startswith("__") and name not in __all__)]
