"""Datasets and hop sets: opened, and written."""

from .dataset import Dataset, opened, opened_any, opened_typed, write_dataset
from .hop_set import HopSet, propagate
from .typed_dataset import TypedDataset

__all__ = ["Dataset", "HopSet", "TypedDataset", "opened", "opened_any", "opened_typed", "propagate", "write_dataset"]
