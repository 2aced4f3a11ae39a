"""Mini-batches of graphs larger than GPU memory, sampled and gathered beside the training."""

from ._core import VERSION as __version__
from .batch import Batch, Block
from .errors import BatchGone, PeerDied, SlotInUse, Unavailable, UvatrainError
from .loader import Loader

__all__ = [
    "Batch",
    "BatchGone",
    "Block",
    "Loader",
    "PeerDied",
    "SlotInUse",
    "Unavailable",
    "UvatrainError",
    "__version__",
]
