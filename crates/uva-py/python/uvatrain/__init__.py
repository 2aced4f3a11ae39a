"""Mini-batches of graphs larger than GPU memory, sampled and gathered beside the training."""

from typing import TYPE_CHECKING, Any

from ._core import VERSION as __version__
from ._from_networkx import from_networkx
from ._from_ogb import from_ogb
from ._from_pyg import from_pyg
from .attach import Session, attach
from .batch import Batch, Block
from .cached import CachedBatch, CachedBlock, CachedDataset
from .datasets import Dataset, write_dataset
from .errors import BatchGone, PeerDied, SlotInUse, Unavailable, UvatrainError, UvatrainWarning
from .hops import HopBatch, HopLoader, HopSet, propagate
from .loader import Loader

if TYPE_CHECKING:
    from .layerwise import infer
    from .models import load_model

__all__ = [
    "Batch",
    "BatchGone",
    "Block",
    "CachedBatch",
    "CachedBlock",
    "CachedDataset",
    "Dataset",
    "HopBatch",
    "HopLoader",
    "HopSet",
    "Loader",
    "PeerDied",
    "Session",
    "SlotInUse",
    "Unavailable",
    "UvatrainError",
    "UvatrainWarning",
    "__version__",
    "attach",
    "from_networkx",
    "from_ogb",
    "from_pyg",
    "infer",
    "load_model",
    "propagate",
    "write_dataset",
]


def __getattr__(name: str) -> Any:
    # These need torch, which is not imported before it is used.
    if name == "infer":
        from .layerwise import infer

        return infer
    if name == "load_model":
        from .models import load_model

        return load_model
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
