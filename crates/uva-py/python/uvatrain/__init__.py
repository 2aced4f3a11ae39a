"""Mini-batches of graphs larger than GPU memory, sampled and gathered beside the training."""

from ._core import VERSION as __version__

__all__ = ["__version__"]
