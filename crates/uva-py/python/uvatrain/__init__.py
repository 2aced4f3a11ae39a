"""Mini-batches of graphs larger than GPU memory, sampled and gathered beside the training."""

from ._core import VERSION as __version__
from .datasets import Dataset, from_networkx, from_ogb, from_pyg, write_dataset
from .errors import BatchGone, PeerDied, SlotInUse, Unavailable, UvatrainError

__all__ = [
    "BatchGone",
    "Dataset",
    "PeerDied",
    "SlotInUse",
    "Unavailable",
    "UvatrainError",
    "__version__",
    "from_networkx",
    "from_ogb",
    "from_pyg",
    "write_dataset",
]
