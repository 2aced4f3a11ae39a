"""What a training reads: a dataset, parts of one in ranges, or a hop set."""

from __future__ import annotations

import contextlib
import json
import os
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, NamedTuple

import torch

from ..datasets import Dataset, HopSet, TypedDataset
from ..loader import Batches, Loader
from ..loader.batch import Batch, SlotBatch
from ..loader.hops import HopBatch, HopLoader
from ..loader.parts import part_of
from ..loader.typed_batch import TypedBatch
from ..models import KINDS, RelationModel
from .options import Options
from .ranks import Ranks
from .task import Labelled

_SPLITS = ("train", "valid", "test")


class Data(ABC):
    """The batches of this rank, and what a model makes of one."""

    #: Those of each split.
    batches: Mapping[str, Batches[Any]]
    #: What the model is to learn.
    labelled: Labelled
    #: For people.
    described: str
    #: Name and sizes, as lines of metrics have them.
    measures: dict[str, Any]
    #: Features of an edge that the model gets.
    edge_dim = 0
    #: What a model over relations is over; None: the model is another one.
    graph: TypedDataset | None = None

    @abstractmethod
    def logits(self, model: torch.nn.Module, batch: Any) -> torch.Tensor:
        """What the model makes of a batch."""

    @property
    @abstractmethod
    def training_labels(self) -> torch.Tensor:
        """The labels of the training split."""

    @property
    def fingerprint(self) -> dict[str, Any]:
        """What batches depend on, as checkpoints have it."""
        fields: dict[str, Any] = json.loads(self.batches["train"]._source.fingerprint)
        return fields

    def targets(self, batch: SlotBatch) -> torch.Tensor:
        """The labels of a batch."""
        labels: torch.Tensor = batch.y
        return labels


def opened(options: Options, ranks: Ranks, closing: contextlib.ExitStack) -> Data:
    """That of DATA. Its loaders end with `closing`."""
    # Ranks that differ in this would wait for each other at different calls.
    kind = "a hop set" if options.is_hop_set else "parts of a dataset" if options.is_parts else "a dataset"
    ranks.agree(DATA=kind)
    of_kind = _OfHopSet if options.is_hop_set else _OfTypedGraph if options.is_typed else _OfDataset
    try:
        return of_kind(options, ranks, closing)
    except ValueError as error:
        if getattr(error, "field", None) == "batch_size":
            raise ValueError(str(error).replace("batch_size", "--batch-size", 1)) from None
        raise


class _OfDataset(Data):
    """Sampled batches, of a dataset or its parts."""

    def __init__(self, options: Options, ranks: Ranks, closing: contextlib.ExitStack) -> None:
        common: dict[str, Any] = {**options.of_loader(), "device": str(ranks.device), "exchange_timeout": options.timeout}
        common |= {**_part(options, ranks), **_edges(options)}
        loaders = _loaders(options, ranks, closing, common)
        dataset = loaders["train"].dataset
        self.batches, self.labelled, self._train_idx = loaders, dataset, dataset.train_idx
        self.described = f"{dataset.num_nodes:,} nodes, {dataset.num_edges:,} edges"
        self.measures = {
            **_named(dataset, dataset.feature_dtype),
            "nodes": dataset.num_nodes,
            "edges": dataset.num_edges,
            **{split: len(nodes) for split, nodes in dataset.splits.items()},
        }
        self.edge_dim = dataset.edge_attr.shape[1] if options.reads_edges else 0
        # A GCN weighs by the whole graph's degrees.
        self._degrees = dataset.indptr.diff() if options.model == "gcn" else None
        if options.core.reads_relations:
            self.graph = TypedDataset(options.data)

    @property
    def training_labels(self) -> torch.Tensor:
        labels: torch.Tensor = self.labelled.labels[self._train_idx]
        return labels

    def logits(self, model: torch.nn.Module, batch: Batch) -> torch.Tensor:
        if self.graph is not None:
            [of_type], [relation] = self.graph.node_types, self.graph.edge_types
            rows: torch.Tensor = model({of_type: batch.x}, [{relation: block} for block in batch.blocks])
            return rows
        degrees = None if self._degrees is None else self._degrees[batch.input_nodes.cpu()].to(batch.x.device)
        found: torch.Tensor = model(batch.x, batch.blocks, degrees)
        return found


class _Target(NamedTuple):
    """The labels of the nodes of a typed graph that have seeds."""

    labels: Any
    num_classes: int
    num_targets: int | None
    multi_label: bool
    feature_dim: int

    @classmethod
    def of(cls, dataset: TypedDataset, name: str) -> _Target:
        arrays = dataset.nodes(name)
        labels, features = arrays.get("labels"), arrays.get("features")
        targets, multi_label = None, False
        if labels is not None:
            targets = labels[:1].numel() if labels.is_floating_point() else None
            multi_label = targets is None and labels.dim() == 2
        columns = 0 if features is None else features.shape[1]
        return cls(labels, dataset.num_classes[name], targets, multi_label, columns)


class _OfTypedGraph(Data):
    """Sampled batches of a typed graph."""

    def __init__(self, options: Options, ranks: Ranks, closing: contextlib.ExitStack) -> None:
        common = {**options.of_loader(), "device": str(ranks.device), "exchange_timeout": options.timeout}
        self.batches = loaders = _loaders(options, ranks, closing, common)
        dataset = loaders["train"].dataset
        if not isinstance(dataset, TypedDataset) or dataset.target is None:
            raise ValueError(f"{options.data}: meta.json names no target, whose nodes are the seeds")
        self.graph, self.labelled = dataset, _Target.of(dataset, dataset.target)
        nodes, edges = sum(dataset.num_nodes.values()), sum(dataset.num_edges.values())
        none, arrays = torch.empty(0, dtype=torch.int64), dataset.nodes(dataset.target)
        self._splits: dict[str, torch.Tensor] = {split: arrays.get(f"{split}_idx", none) for split in _SPLITS}
        self.described = (
            f"{nodes:,} nodes of {len(dataset.node_types)} types, {edges:,} edges of {len(dataset.edge_types)} relations"
        )
        self.measures = {
            "name": os.path.basename(os.path.abspath(dataset.path)),
            "path": dataset.path,
            "feature_dim": self.labelled.feature_dim,
            "nodes": nodes,
            "edges": edges,
            **{split: len(seeds) for split, seeds in self._splits.items()},
        }

    @property
    def training_labels(self) -> torch.Tensor:
        labels: torch.Tensor = self.labelled.labels[self._splits["train"]]
        return labels

    def logits(self, model: torch.nn.Module, batch: TypedBatch) -> torch.Tensor:
        assert isinstance(model, RelationModel)
        found: torch.Tensor = model(model.inputs(batch), batch.blocks)
        return found


class _OfHopSet(Data):
    """Rows of a hop set. They come to be in host memory, and go from there to the device."""

    def __init__(self, options: Options, ranks: Ranks, closing: contextlib.ExitStack) -> None:
        hop_set = HopSet(options.data)
        trainer, _ = options.of_trainer()
        tables = KINDS[options.model].tables_of(trainer["hops"], trainer["operators"], hop_set.num_hops)
        self.batches = {
            split: closing.enter_context(HopLoader(hop_set, split=split, hops=tables, **options.of_hop_loader()))
            for split in _SPLITS
        }
        self.labelled = self._hop_set = hop_set
        self.described = f"{hop_set.num_rows:,} rows, {len(tables)} of {hop_set.num_hops} tables"
        splits = {split: rows.stop - rows.start for split, rows in hop_set.splits.items()}
        self.measures = {**_named(hop_set, hop_set.meta["dtype"]), "nodes": hop_set.num_rows, **splits}
        self._device = ranks.device

    @property
    def training_labels(self) -> torch.Tensor:
        labels: torch.Tensor = self._hop_set.labels[self._hop_set.splits["train"]]
        return labels

    def logits(self, model: torch.nn.Module, batch: HopBatch) -> torch.Tensor:
        found: torch.Tensor = model([table.to(self._device) for table in batch.xs])
        return found

    def targets(self, batch: SlotBatch) -> torch.Tensor:
        return super().targets(batch).to(self._device)


def _named(data: Dataset | HopSet, dtype: str) -> dict[str, Any]:
    """Its name and its features, as lines of metrics have them."""
    short = {"float32": "f32", "float16": "f16", "bfloat16": "bf16", "float8_e4m3fn": "e4m3", "uint8": "u8", "int8": "i8"}
    name = os.path.basename(os.path.abspath(data.path))
    return {"name": name, "path": data.path, "feature_dim": data.feature_dim, "feature_dtype": short.get(dtype, dtype)}


def _loaders(
    options: Options, ranks: Ranks, closing: contextlib.ExitStack, common: dict[str, Any]
) -> dict[str, Loader]:
    """The loader of each split. Ranks that exchange rows make theirs in the same order."""
    loaders = {}
    for split in _SPLITS:
        # Evaluation reads rows once.
        more = _gpu_cache(options, ranks) if split == "train" else {}
        loaders[split] = closing.enter_context(Loader(options.data, split=split, **common, **more))
    return loaders


def _gpu_cache(options: Options, ranks: Ranks) -> dict[str, Any]:
    """Keywords for the cache on this rank's GPU."""
    # A single process has no cache to share.
    asked = {"gpu_cache": options.gpu_cache, "gpu_cache_share": options.gpu_cache_share and ranks.together}
    # Ranks that differ in these would wait for each other.
    ranks.agree(**{f"--{name.replace('_', '-')}": value for name, value in asked.items()})
    return asked


def _part(options: Options, ranks: Ranks) -> dict[str, Any]:
    """Keywords for the part of this rank, where the data is parts."""
    if not options.is_parts:
        for name, given in (("--remote-cache", options.remote_cache != 0), ("--graph", options.graph != "copied")):
            if given:
                raise ValueError(f"{name}: only supported for parts in ranges, but DATA is a whole dataset")
        return {}
    if options.core.reads_relations:
        raise ValueError(
            f"--model {options.model}: not supported with parts in ranges, which {options.data} has: give the whole dataset"
        )
    if not part_of(options.data, "rank", ranks.rank, ranks.count).is_range:
        raise ValueError(
            f"{options.data}: its parts are datasets of their own, so that ranks have no batches in common: train on them as "
            "examples/python/ddp.py does, or write ranges (`uvatrain partition --layout ranges`)"
        )
    # Ranks that differ in these would wait for each other before they could compare the rest.
    asked = {name: getattr(options, name) for name in ("model", "edge_attr", "graph", "remote_cache")}
    loading = {**asked, **options.of_loader()}
    ranks.agree(**{f"--{name.replace('_', '-')}": value for name, value in loading.items()})
    return {"part": "rank", "graph": options.graph, "remote_cache": options.remote_cache}


def _edges(options: Options) -> dict[str, Any]:
    """Keywords for the edge features, where the model takes them."""
    if not options.reads_edges:
        return {}
    if options.core.needs_edges:
        about, otherwise = f"--model {options.model}: requires edge features", "use another model"
    else:
        about, otherwise = "--edge-attr: requires edge features", "omit it"
    if options.is_parts:
        raise ValueError(
            f"{about}, but ranks with parts in ranges exchange rows of nodes alone: give the whole dataset as DATA, or "
            f"{otherwise}"
        )
    if Dataset(options.data).edge_attr is None:
        raise ValueError(
            f"{about}, but {options.data} has no edge_feat.npy (docs/reference/data-format.md): write one, or {otherwise}"
        )
    return {"edge_attr": True}
