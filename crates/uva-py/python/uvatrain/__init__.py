"""Mini-batches of graphs larger than GPU memory, sampled and gathered beside the training."""

from ._core import VERSION as __version__
from .attach import Session, attach
from .batch import Batch, Block
from .datasets import Dataset, from_networkx, from_ogb, from_pyg, write_dataset
from .errors import BatchGone, PeerDied, SlotInUse, Unavailable, UvatrainError
from .loader import Loader

__all__ = [
    "Batch",
    "BatchGone",
    "Block",
    "Dataset",
    "Loader",
    "PeerDied",
    "Session",
    "SlotInUse",
    "Unavailable",
    "UvatrainError",
    "__version__",
    "attach",
    "from_networkx",
    "from_ogb",
    "from_pyg",
    "write_dataset",
]
