"""What a `NeighborLoader` makes batches of: a dataset to sample from, and the attributes of nodes and edges."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch_geometric.sampler import BaseSampler

from ..datasets import Dataset, TypedDataset
from ..loader import Loader

__all__ = ["Graph", "Made", "Sampled", "is_table"]

#: Types of features that a dataset holds without conversion.
_FEATURES = (
    torch.float32,
    torch.float16,
    torch.bfloat16,
    torch.float8_e4m3fn,
    torch.uint8,
    torch.int8,
)


class Made(NamedTuple):
    """What a batch of the `uvatrain.Loader` has of its graph's attributes, so that it need not be gathered.

    Tensors, or with several types dicts of them.
    """

    x: Any = None
    edge_index: Any = None
    edge_attr: Any = None


class Sampled(NamedTuple):
    """A batch of the `uvatrain.Loader` as PyG's samplers return one."""

    #: A `SamplerOutput` or a `HeteroSamplerOutput`, whose edges are positions in the dataset's lists.
    out: Any
    made: Made
    #: Tensors in the batch's slot that a caller gets.
    lent: list[Tensor | None]


class Graph(ABC):
    """A graph of one type of nodes and edges, or of several."""

    #: What PyG's loader calls `data`: a `Data`, a `HeteroData`, or a feature store and a graph store.
    data: Any
    dataset: Dataset | TypedDataset

    @abstractmethod
    def fanouts(self, num_neighbors: Any) -> Any:
        """`num_neighbors` as the sampler and the `uvatrain.Loader` take them."""

    @abstractmethod
    def seeds(self, input_nodes: Any) -> tuple[str | None, Any, int]:
        """The node type of `input_nodes` (None: there is only one), what is given of it, and the type's number of nodes."""

    @abstractmethod
    def sampler(self, fanouts: Any, *, replace: bool, subgraph_type: Any, disjoint: bool) -> BaseSampler:
        """Our sampler for PyG's loop. `shaped` makes the subgraph of the requested type of a `Sampled`'s `out`."""

    @abstractmethod
    def why_not_direct(self, fanouts: Any) -> str | None:
        """What of the fanouts a `uvatrain.Loader` does not support, or None."""

    @abstractmethod
    def loader_options(self, node_type: str | None, fanouts: Any, is_directional: bool) -> dict[str, Any]:
        """Options of the `uvatrain.Loader`, for seeds of this type."""

    def loader(self, seeds: Tensor, seed: int, *, dataset: Dataset | None = None, **options: Any) -> Loader:
        """The `uvatrain.Loader` of these options. dataset: the graph's own, if a loader has opened it before."""
        return Loader(
            self.dataset if dataset is None else dataset,
            input_nodes=seeds,
            seed=seed,
            expand="new",
            edge_ids=True,
            input_id=True,
            # PyG's loaders do not divide input_nodes among ranks: the caller does.
            rank=0,
            world_size=1,
            **options,
        )

    @abstractmethod
    def sampled(self, batch: Any, is_directional: bool) -> Sampled:
        """What a batch of that loader holds. is_directional: its edges are those of the subgraph."""

    @abstractmethod
    def joined(self, out: Any, given: Made) -> Any:
        """A subgraph with the attributes of its nodes and edges. given: those that need not be gathered."""


def is_table(x: Any, nodes: int) -> bool:
    """Whether a dataset can hold `x` without conversion. PyG gathers other features from `data`."""
    if isinstance(x, np.ndarray) and x.dtype.name in ("float32", "float16", "uint8", "int8"):
        # A mapped file that may only be read is copied by the writing alone.
        return x.ndim == 2 and x.shape[0] == nodes and x.shape[1] > 0 and bool(np.isfinite(x).all())
    return (
        isinstance(x, Tensor)
        and type(x) is Tensor
        and x.layout == torch.strided
        and x.device.type == "cpu"
        and x.dtype in _FEATURES
        and not x.requires_grad
        and x.dim() == 2
        and x.size(0) == nodes
        and x.size(1) > 0
        and (not x.is_floating_point() or bool(x.isfinite().all()))
    )
