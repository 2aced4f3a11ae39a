"""The trainer's options, for type checkers. Written by tests/loader/test_options.py from the core's declarations."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class TrainerOptions:
    """Options of `python -m uvatrain.train`, whose `--help` describes them. None: the default is not a constant."""

    model: str
    hidden: int
    layers: int | None
    use_hops: int | None
    alpha: float | None
    root: str | None
    relation_sum: str | None
    bases: int | None
    blocks: int | None
    activation: str | None
    heads: int | None
    output_heads: int | None
    attention_dropout: float | None
    residual: bool
    norm: str
    dropout: float
    input_dropout: float
    feature_norm: str
    epochs: int
    lr: float
    weight_decay: float
    loss: str
    class_weights: str | None
    patience: int | None
    metric: str
    keep: str
    checkpoint: str | None
    checkpoint_every: int | None
    resume: bool
    sampler_kind: str
    fanouts: tuple[int, ...]
    replace: bool
    batch_size: int
    drop_last: bool
    seed: int
    edge_attr: bool
    samplers: int | None
    slots: int
    gather_threads: int | None
    reader: str | None
    shuffle: str
    chunk: str | None
    place: str
    gpu_cache: str | None
    graph: str
    remote_cache: int
    gpu_cache_share: bool
    device: str
    timeout: float
    metrics: str | None
