"""Mini-batches of graphs larger than GPU memory, sampled and gathered beside the training."""

from ._core import VERSION as __version__
from .errors import BatchGone, PeerDied, SlotInUse, Unavailable, UvatrainError

__all__ = ["BatchGone", "PeerDied", "SlotInUse", "Unavailable", "UvatrainError", "__version__"]
