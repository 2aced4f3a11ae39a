"""Datasets and hop sets: opened, and written."""

from .dataset import Dataset, opened, write_dataset
from .hop_set import HopSet, propagate

__all__ = ["Dataset", "HopSet", "opened", "propagate", "write_dataset"]
