"""Datasets and hop sets: opened, and written."""

from .dataset import Dataset, opened, opened_any, write_dataset
from .hop_set import HopSet, propagate
from .typed_dataset import TypedDataset

__all__ = ["Dataset", "HopSet", "TypedDataset", "opened", "opened_any", "propagate", "write_dataset"]
