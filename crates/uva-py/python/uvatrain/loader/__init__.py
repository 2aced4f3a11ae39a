"""Batches for a training loop: of a dataset, of a hop set, of a run, and through caches."""

from ._options import BackendOptions, CacheOptions, RankOptions
from .batches import Batches, StaticShapes, TypedShapes
from .loader import Loader

__all__ = ["BackendOptions", "Batches", "CacheOptions", "Loader", "RankOptions", "StaticShapes", "TypedShapes"]
