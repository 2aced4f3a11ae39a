"""The loader's options, for type checkers. Written by tests/loader/test_options.py from the core's declarations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypedDict


class LoaderOptions(TypedDict, total=False):
    """Keywords of `uvatrain.Loader` and `uvatrain.CachedDataset`; the documentation of `Loader` says what they do."""

    sampler_kind: str
    fanouts: Sequence[int] | Mapping[Any, Sequence[int]]
    fanout_per: str
    target: int | str | None
    walks: int | None
    walk_length: int | None
    walk_stop: int | None
    replace: bool
    batch_size: int
    drop_last: bool
    seed: int
    batch_dependency: int
    expand: str
    disjoint: bool
    time_rule: str | None
    time_window: int | None
    time_pick: str | None
    seed_time: int | str | None
    seed_order: str
    order: str | None
    order_edges: str | None
    order_tolerance: float | None
    edge_ids: bool
    edge_attr: bool
    edge_type: bool
    input_id: bool
    pad: str
    feature_type: str | None
    aggregate: str | None
    aggregate_argmax: bool
    prepare: str
    samplers: int | None
    pin_samplers: bool
    pin_cores: int | str | None
    slots: int
    batch_slots: int | None
    slot_bytes: int | str | None
    gather_threads: int | None
    features: str
    host_pages: str
    reader: str | None
    look_ahead: int | str | None


class LoaderKeywords(LoaderOptions, total=False):
    """The same, and those of `uvatrain.Loader` alone."""

    device: Any
    gpu_cache: int | str | None
    cache_policy: str | None
    host_cache: int | str | None
    rank: int | None
    world_size: int | None
    part: int | str | None
    graph: str
    exchange_timeout: float
    remote_cache: int | str
    gpu_cache_share: bool


@dataclass(frozen=True, kw_only=True)
class BackendOptions:
    """How batches are prepared, and where they come to be. `Loader(backend=…)` takes it. None: the loader's default."""

    prepare: str | None = None
    samplers: int | None = None
    pin_samplers: bool | None = None
    pin_cores: int | str | None = None
    slots: int | None = None
    batch_slots: int | None = None
    slot_bytes: int | str | None = None
    gather_threads: int | None = None
    features: str | None = None
    host_pages: str | None = None
    reader: str | None = None
    look_ahead: int | str | None = None
    device: Any = None


@dataclass(frozen=True, kw_only=True)
class CacheOptions:
    """Caches of the feature rows that are read most. `Loader(cache=…)` takes it. None: the loader's default."""

    gpu_cache: int | str | None = None
    cache_policy: str | None = None
    host_cache: int | str | None = None


@dataclass(frozen=True, kw_only=True)
class RankOptions:
    """Which ranks divide an epoch's batches, and what they exchange. `Loader(ranks=…)` takes it. None: the loader's default."""

    rank: int | None = None
    world_size: int | None = None
    part: int | str | None = None
    graph: str | None = None
    exchange_timeout: float | None = None
    remote_cache: int | str | None = None
    gpu_cache_share: bool | None = None
