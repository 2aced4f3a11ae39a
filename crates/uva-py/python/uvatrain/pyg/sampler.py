"""Our sampler as PyG's loaders call one."""

from __future__ import annotations

import copy
import os
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils.dlpack import from_dlpack
from torch_geometric import data as pyg_data
from torch_geometric.sampler import BaseSampler, EdgeSamplerInput, NodeSamplerInput, NumNeighbors, SamplerOutput

from .. import _core
from .._arrays import integer
from ..datasets import Dataset, opened
from ..loader.arguments import hops_given
from .stores import FeatureStore, GraphStore, ids_of
from .subgraph import Induced, Relation, forest

__all__ = ["NeighborSampler"]

_SUBGRAPH_TYPES = ("directional", "bidirectional", "induced")


class NeighborSampler(BaseSampler):
    """Neighbours of seed nodes, picked as PyG does it: each hop for the nodes that the hop before has found.

    It samples in the calling thread and needs no other, so it works in DataLoader workers, forked or spawned.
    Picks are uniform, and without repeats unless `replace`.

    Random words are keyed (docs/spec/reproducible-batches.md). By default the key comes from torch's generator,
    call by call, so `torch.manual_seed` repeats a loader's epochs, and every epoch and every worker has picks
    of its own.

    dataset: an open `uvatrain.Dataset`, its path, or one of the stores.
    num_neighbors: picks in each hop, from the seeds outward; -1 takes all.
    replace: whether a neighbour may be picked more than once. Then every list that has entries gives as many picks
        as the fanout says, a short one too.
    seed: the key's seed; 0 to 2**64 - 1.
    kind: "neighbor", or "labor": the nodes of a hop share what they pick, so that a batch has fewer nodes.
    subgraph_type: "directional": the sampled edges. "bidirectional": those and their reverses, each pair of nodes once,
        sorted by target. "induced": all edges of the dataset between the sampled nodes. Only "directional" has hops
        (`num_sampled_nodes`, `num_sampled_edges`).
    disjoint: sample a tree of its own for each seed. `batch` says which one each node is in. Not with "induced".
    edge_order: int64 [edges]: the id of each edge of the dataset. Without it, edges are positions in the dataset's
        `indices`.

    time_attr, weight_attr and edges as seeds are not supported, and refused.
    """

    def __init__(
        self,
        dataset: str | os.PathLike[str] | Dataset | FeatureStore | GraphStore,
        num_neighbors: Sequence[int],
        *,
        replace: bool = False,
        seed: int = 0,
        kind: str = "neighbor",
        subgraph_type: Any = "directional",
        disjoint: bool = False,
        edge_order: Tensor | None = None,
        time_attr: str | None = None,
        weight_attr: str | None = None,
    ) -> None:
        if time_attr is not None:
            raise ValueError(f"time_attr={time_attr!r} is not supported: the nodes and edges of a dataset have no time")
        if weight_attr is not None:
            raise ValueError(
                f"weight_attr={weight_attr!r} is not supported here: picks are uniform. uvatrain.pyg.NeighborLoader "
                'takes it, and uvatrain.Loader has sampler_kind="weighted"'
            )
        self.subgraph_type = subgraph_type_of(subgraph_type)
        self.disjoint = bool(disjoint)
        refuse_induced_trees(self.disjoint, self.subgraph_type)
        fanouts = fanouts_of(num_neighbors)
        if isinstance(dataset, FeatureStore | GraphStore):
            dataset = dataset.dataset
        if isinstance(dataset, pyg_data.Data | pyg_data.HeteroData | tuple | list):
            raise ValueError(
                f"dataset is a {type(dataset).__name__}: a uvatrain.Dataset, its path or a store of uvatrain.pyg is "
                "needed (uvatrain.from_pyg writes a dataset from a Data, and uvatrain.pyg.NeighborLoader takes one)"
            )
        self.dataset = opened(dataset)
        self.seed = integer("seed", seed)
        if not 0 <= self.seed < 2**64:
            raise ValueError(f"seed={seed}: 0 to 2**64 - 1")
        self.num_neighbors = [integer("num_neighbors", fanout) for fanout in fanouts]
        if edge_order is not None and tuple(edge_order.shape) != (self.dataset.num_edges,):
            raise ValueError(
                f"edge_order is {list(edge_order.shape)}: int64 [{self.dataset.num_edges}] is needed, an id for each edge"
            )
        self.replace = bool(replace)
        self.kind = kind
        self.edge_order = edge_order
        self._sampler = self._make()
        self._induced: Induced | None = None
        if self.subgraph_type == "induced":
            lists = Relation(None, None, self.dataset.indptr, self.dataset.indices)
            self._induced = Induced({None: lists}, {None: self.dataset.num_nodes})

    def _make(self) -> tuple[int, _core.NeighborSampler]:
        core = _core.NeighborSampler(
            self.dataset._core, self.num_neighbors, self.replace, self.seed, self.kind
        )
        return os.getpid(), core

    def sample(self, seeds: Tensor, *, epoch: int, batch: int) -> SamplerOutput:
        """Samples around `seeds`, int64 [n], the batch of this name (docs/spec/reproducible-batches.md).

        The same seeds, epoch and batch give the same picks, those of a `uvatrain.Loader` with `expand="new"`
        and the same seed. `metadata[2]` is the batch's hash (None where `disjoint`).
        """
        epoch, batch = integer("epoch", epoch), integer("batch", batch)
        if not (0 <= epoch < 2**30 and 0 <= batch < 2**32):
            raise ValueError(
                f"epoch={epoch}, batch={batch}: epochs are 0 to 2**30 - 1, batches 0 to 2**32 - 1"
            )
        made_in, core = self._sampler
        if made_in != os.getpid():
            # After a fork: what another thread of the parent was doing to the old one is not known.
            self._sampler = made_in, core = self._make()
        seeds = ids_of("seeds", seeds)
        if not self.disjoint or seeds.numel() == 0:
            return self.shaped(_picked(core, seeds, epoch, batch))
        # Each tree has a key of its own. The factor keeps those of one batch away from the next one's.
        key = batch * 0x9E3779B1
        return self.shaped(
            forest(
                [
                    _picked(core, seeds[tree : tree + 1], epoch, (key + tree) % 2**32)
                    for tree in range(seeds.numel())
                ]
            )
        )

    def shaped(self, out: SamplerOutput) -> SamplerOutput:
        """The subgraph of the requested type, of picks whose edges are positions in the dataset's `indices`."""
        if self._induced is not None:
            whole, (row, col, edge) = out, self._induced({None: out.node})[None]
            out = SamplerOutput(node=whole.node, row=row, col=col, edge=edge, batch=whole.batch)
            out.metadata = whole.metadata
        if self.edge_order is not None:
            out.edge = self.edge_order.index_select(0, out.edge)
        return out.to_bidirectional() if self.subgraph_type == "bidirectional" else out

    def sample_from_nodes(self, index: NodeSamplerInput, **kwargs: Any) -> SamplerOutput:
        """What PyG's loaders call.

        Seeds come first and in their order; a node given twice is there twice.
        """
        if index.time is not None:
            raise ValueError("input_time is not supported: the neighbours of a node have no time")
        if index.input_type is not None:
            raise ValueError(
                f"input_nodes are of type {index.input_type!r}: a dataset has one type of node, so give ids"
            )
        # 30 and 32 bits of the key are for the epoch and the batch.
        epoch, batch = int(torch.randint(2**30, ())), int(torch.randint(2**32, ()))
        out = self.sample(index.node, epoch=epoch, batch=batch)
        out.metadata = (index.input_id, index.time)
        return out

    def sample_from_edges(self, index: EdgeSamplerInput, neg_sampling: Any = None) -> SamplerOutput:
        """Refused: seeds are nodes."""
        raise NotImplementedError(
            "edges as seeds (LinkNeighborLoader) are not supported: seeds are nodes (NeighborLoader)"
        )

    def _options(self) -> dict[str, Any]:
        names = ("replace", "seed", "kind", "subgraph_type", "disjoint", "edge_order")
        return {name: getattr(self, name) for name in names}

    def __copy__(self) -> NeighborSampler:
        return type(self)(self.dataset, self.num_neighbors, **self._options())

    def __deepcopy__(self, memo: Any) -> NeighborSampler:
        return copy.copy(self)

    def __reduce__(self) -> Any:
        # For workers that are spawned: they open the dataset themselves.
        return _remake, (self.dataset, self.num_neighbors, self._options())

    def __repr__(self) -> str:
        return f"NeighborSampler({self.dataset!r}, {self.num_neighbors})"


def subgraph_type_of(given: Any) -> str:
    """The name of a subgraph type, which may be PyG's `SubgraphType`."""
    name: str = getattr(given, "value", given)
    if name not in _SUBGRAPH_TYPES:
        raise ValueError(f"subgraph_type={given!r}: it is {', '.join(_SUBGRAPH_TYPES)}")
    return name


def refuse_induced_trees(disjoint: bool, subgraph_type: str) -> None:
    """Raises ValueError where each seed is to have a tree of its own, in an induced subgraph."""
    if disjoint and subgraph_type == "induced":
        raise ValueError(
            'disjoint=True is not supported with subgraph_type="induced": an induced subgraph would join the trees'
        )


def fanouts_of(num_neighbors: Any) -> list[Any]:
    """The fanouts as a list: of a sequence, a tensor or PyG's `NumNeighbors`."""
    given = num_neighbors.values if isinstance(num_neighbors, NumNeighbors) else num_neighbors
    if isinstance(given, dict):
        raise ValueError(
            "num_neighbors is a dict: a dataset has one type of edge, so a list of numbers is needed"
        )
    return hops_given("num_neighbors", given)


def _picked(core: _core.NeighborSampler, seeds: Tensor, epoch: int, batch: int) -> SamplerOutput:
    node, row, col, edge, nodes, edges, batch_hash = core.sample(seeds, epoch, batch)
    out = SamplerOutput(
        node=from_dlpack(node),
        row=from_dlpack(row),
        col=from_dlpack(col),
        edge=from_dlpack(edge),
        num_sampled_nodes=nodes,
        num_sampled_edges=edges,
    )
    out.metadata = (None, None, batch_hash)
    return out


def _remake(dataset: Dataset, num_neighbors: list[int], options: dict[str, Any]) -> NeighborSampler:
    return NeighborSampler(dataset, num_neighbors, **options)
