"""The loader's options, for type checkers. Written by tests/loader/test_options.py from the core's declarations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypedDict


class LoaderOptions(TypedDict, total=False):
    """Keywords of `uvatrain.Loader`; its documentation says what they do."""

    sampler_kind: str
    fanouts: Sequence[int]
    walks: int | None
    walk_length: int | None
    walk_stop: int | None
    replace: bool
    batch_size: int
    drop_last: bool
    seed: int
    batch_dependency: int
    expand: str
    seed_order: str
    order: str | None
    order_edges: str | None
    order_tolerance: float | None
    edge_ids: bool
    edge_attr: bool
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
    reader: str | None
    look_ahead: int | str | None
