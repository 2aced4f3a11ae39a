"""PyG's loaders over our tables: a feature store, a graph store and a sampler.

    from torch_geometric.loader import NeighborLoader
    from uvatrain.pyg import FeatureStore, GraphStore, NeighborSampler

    dataset = uvatrain.Dataset("data/products")
    loader = NeighborLoader(
        data=(FeatureStore(dataset), GraphStore(dataset)),
        num_neighbors=[10, 10],
        input_nodes=dataset.train_idx,
        neighbor_sampler=NeighborSampler(dataset, [10, 10]),
        batch_size=1024,
        shuffle=True,
    )

Workers (`num_workers`) make it slower as a rule: docs/python.md says why, and `uvatrain.Loader` is the fast way.
Neither pyg-lib nor torch-sparse is needed. Where one of them is installed, PyG's own sampler runs over the
GraphStore as well: leave `neighbor_sampler` out.
"""

from __future__ import annotations

import copy
import math
import operator
import os
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

try:
    from torch_geometric import data as pyg_data
    from torch_geometric.data.feature_store import TensorAttr
    from torch_geometric.data.graph_store import EdgeAttr, EdgeLayout
    from torch_geometric.sampler import BaseSampler, EdgeSamplerInput, NodeSamplerInput, SamplerOutput
except ImportError as error:
    from .errors import Unavailable

    raise Unavailable(f"uvatrain.pyg needs torch-geometric: pip install torch-geometric ({error})") from None

from . import _core
from .datasets import Dataset, opened
from .loader import fanouts_given

__all__ = ["FeatureStore", "GraphStore", "NeighborSampler"]

# What PyG calls our tables.
_TABLES = {"x": "features", "y": "labels"}


class FeatureStore(pyg_data.FeatureStore):
    """The features (`x`) and labels (`y`) of a dataset as PyG's feature store. They can be read only.

    Rows are copied out of the mapped file, which all loaders and workers share, straight into the tensor that
    is handed out.

    dataset: an open `uvatrain.Dataset`, or the path of one.
    """

    def __init__(self, dataset: str | os.PathLike[str] | Dataset) -> None:
        super().__init__()
        self.__dict__["dataset"] = opened(dataset)

    def get_all_tensor_attrs(self) -> list[TensorAttr]:
        """`x` and `y` of the nodes, which have no type."""
        return [TensorAttr(group_name=None, attr_name=name) for name in _TABLES]

    def _get_tensor(self, attr: TensorAttr) -> Tensor | np.ndarray | None:
        table = self._table(attr)
        if table is None:
            return None
        index = attr.index
        if index is None or (isinstance(index, slice) and index == slice(None)):
            return self._all(table)
        if isinstance(index, slice):
            return self._all(table)[index].clone()
        if isinstance(index, int | np.integer):
            return self._rows(table, torch.tensor([index]))[0]
        return self._rows(table, _ids("index", index))

    def _multi_get_tensor(self, attrs: list[TensorAttr]) -> list[Tensor | np.ndarray | None]:
        return [self._get_tensor(attr) for attr in attrs]

    def _get_tensor_size(self, attr: TensorAttr) -> tuple[int, ...] | None:
        table = self._table(attr)
        if table is None:
            return None
        if attr.index is None:
            return tuple(self._all(table).shape)
        return tuple(self._get_tensor(attr).shape)

    def _put_tensor(self, tensor: Any, attr: TensorAttr) -> bool:
        raise _read_only(f"{attr.attr_name!r} of {self.dataset.path}")

    def _remove_tensor(self, attr: TensorAttr) -> bool:
        raise _read_only(f"{attr.attr_name!r} of {self.dataset.path}")

    def update_tensor(self, tensor: Any, *args: Any, **kwargs: Any) -> bool:
        """Refused: a dataset is read only."""
        raise _read_only(self.dataset.path)

    def _table(self, attr: TensorAttr) -> str | None:
        return _TABLES.get(attr.attr_name) if attr.group_name is None else None

    def _all(self, table: str) -> Tensor:
        return self.dataset.features if table == "features" else self.dataset.labels

    def _rows(self, table: str, ids: Tensor) -> Tensor:
        """Copies of rows, in memory that a worker's batch can travel in without another copy."""
        whole = self._all(table)
        shape = [ids.numel(), *whole.shape[1:]]
        if torch.utils.data.get_worker_info() is None:
            out = torch.empty(shape, dtype=whole.dtype)
        else:
            storage = torch.UntypedStorage._new_shared(math.prod(shape) * whole.element_size(), device="cpu")
            out = torch.empty(0, dtype=whole.dtype).set_(storage, 0, shape)
        self.dataset._core.gather(table, ids, out)
        return out

    def __repr__(self) -> str:
        return f"FeatureStore({self.dataset!r})"


class GraphStore(pyg_data.GraphStore):
    """The edges of a dataset as PyG's graph store, in the layout that they have: CSC. They can be read only.

    PyG wants 64-bit ids: where the dataset has 32-bit ones, handing the edges out makes a copy of 8 bytes an
    edge. uvatrain's own `NeighborSampler` never asks for them.

    dataset: an open `uvatrain.Dataset`, or the path of one.
    """

    def __init__(self, dataset: str | os.PathLike[str] | Dataset) -> None:
        super().__init__()
        self.__dict__["dataset"] = opened(dataset)

    def get_all_edge_attrs(self) -> list[EdgeAttr]:
        """The edges, which have no type."""
        nodes = self.dataset.num_nodes
        return [EdgeAttr(edge_type=None, layout=EdgeLayout.CSC, is_sorted=True, size=(nodes, nodes))]

    def _get_edge_index(self, edge_attr: EdgeAttr) -> tuple[Tensor, Tensor] | None:
        if edge_attr.edge_type is not None or edge_attr.layout != EdgeLayout.CSC:
            return None
        return self.dataset.indices.to(torch.int64), self.dataset.indptr

    def _put_edge_index(self, edge_index: Any, edge_attr: EdgeAttr) -> bool:
        raise _read_only(f"the edges of {self.dataset.path}")

    def _remove_edge_index(self, edge_attr: EdgeAttr) -> bool:
        raise _read_only(f"the edges of {self.dataset.path}")

    def __repr__(self) -> str:
        return f"GraphStore({self.dataset!r})"


class NeighborSampler(BaseSampler):
    """Neighbours of seed nodes, picked as PyG does it: each hop for the nodes that the hop before has found.

    It samples in the calling thread and needs no other, so it works in DataLoader workers, forked or spawned.
    Picks are uniform, and without repeats unless `replace`.

    Random words are keyed (docs/reproducible-batches.md). By default the key comes from torch's generator,
    call by call, so `torch.manual_seed` repeats a loader's epochs, and every epoch and every worker has picks
    of its own.

    dataset: an open `uvatrain.Dataset`, its path, or one of the stores.
    num_neighbors: picks in each hop, from the seeds outward; -1 takes all.
    replace: whether a neighbour may be picked more than once. Then every list that has entries gives as many picks
        as the fanout says, a short one too.
    seed: the key's seed; 0 to 2**64 - 1.
    kind: "neighbor", or "labor": the nodes of a hop share what they pick, so that a batch has fewer nodes.
    subgraph_type: "directional" only. disjoint, time_attr, weight_attr and edges as seeds are not supported,
        and refused.
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
        time_attr: str | None = None,
        weight_attr: str | None = None,
    ) -> None:
        for name, given in (("disjoint", disjoint), ("time_attr", time_attr), ("weight_attr", weight_attr)):
            if given:
                raise ValueError(
                    f"{name}={given!r} is not supported: neighbours are picked uniformly, in one subgraph a batch"
                )
        if getattr(subgraph_type, "value", subgraph_type) != "directional":
            raise ValueError(f'subgraph_type={subgraph_type!r} is not supported: "directional" is')
        if isinstance(num_neighbors, dict) or isinstance(getattr(num_neighbors, "values", None), dict):
            raise ValueError(
                "num_neighbors is a dict: a dataset has one type of edge, so a list of numbers is needed"
            )
        fanouts = fanouts_given("num_neighbors", getattr(num_neighbors, "values", num_neighbors))
        if isinstance(dataset, FeatureStore | GraphStore):
            dataset = dataset.dataset
        if isinstance(dataset, pyg_data.Data | pyg_data.HeteroData | tuple | list):
            raise ValueError(
                f"dataset is a {type(dataset).__name__}: a uvatrain.Dataset, its path or a store of uvatrain.pyg is "
                "needed (uvatrain.from_pyg writes a dataset from a Data)"
            )
        self.dataset = opened(dataset)
        if not 0 <= operator.index(seed) < 2**64:
            raise ValueError(f"seed={seed}: 0 to 2**64 - 1")
        self.num_neighbors = [operator.index(fanout) for fanout in fanouts]
        if any(abs(fanout) >= 2**31 for fanout in self.num_neighbors):
            raise ValueError(f"num_neighbors={self.num_neighbors}: numbers below 2**31, or -1 for all")
        self.replace = bool(replace)
        self.seed = operator.index(seed)
        self.kind = kind
        self._sampler = self._make()

    def _make(self) -> tuple[int, _core.NeighborSampler]:
        core = _core.NeighborSampler(
            self.dataset._core, self.num_neighbors, self.replace, self.seed, self.kind
        )
        return os.getpid(), core

    def sample(self, seeds: Tensor, *, epoch: int, batch: int) -> SamplerOutput:
        """Samples around `seeds`, int64 [n], the batch of this name (docs/reproducible-batches.md).

        The same seeds, epoch and batch give the same picks, those of a `uvatrain.Loader` with `expand="new"`
        and the same seed. `edge` are positions in the dataset's `indices`. `metadata[2]` is the batch's hash (None
        where a seed stands twice).
        """
        if not (0 <= epoch < 2**30 and 0 <= batch < 2**32):
            raise ValueError(
                f"epoch={epoch}, batch={batch}: epochs are 0 to 2**30 - 1, batches 0 to 2**32 - 1"
            )
        made_in, core = self._sampler
        if made_in != os.getpid():
            # After a fork: what another thread of the parent was doing to the old one is not known.
            self._sampler = made_in, core = self._make()
        node, row, col, edge, nodes, edges, batch_hash = core.sample(_ids("seeds", seeds), epoch, batch)
        out = SamplerOutput(
            node=torch.from_dlpack(node),
            row=torch.from_dlpack(row),
            col=torch.from_dlpack(col),
            edge=torch.from_dlpack(edge),
            num_sampled_nodes=nodes,
            num_sampled_edges=edges,
        )
        out.metadata = (None, None, batch_hash)
        return out

    def sample_from_nodes(self, index: NodeSamplerInput, **kwargs: Any) -> SamplerOutput:
        """What PyG's loaders call.

        Seeds come first and in their order; a node given twice stands there twice.
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

    def __copy__(self) -> NeighborSampler:
        return type(self)(
            self.dataset, self.num_neighbors, replace=self.replace, seed=self.seed, kind=self.kind
        )

    def __deepcopy__(self, memo: Any) -> NeighborSampler:
        return copy.copy(self)

    def __reduce__(self) -> Any:
        # For workers that are spawned: they open the dataset themselves.
        return _remake, (self.dataset, self.num_neighbors, self.replace, self.seed, self.kind)

    def __repr__(self) -> str:
        return f"NeighborSampler({self.dataset!r}, {self.num_neighbors})"


def _remake(
    dataset: Dataset, num_neighbors: list[int], replace: bool, seed: int, kind: str = "neighbor"
) -> NeighborSampler:
    return NeighborSampler(dataset, num_neighbors, replace=replace, seed=seed, kind=kind)


def _ids(name: str, index: Any) -> Tensor:
    """Ids or a mask as int64 [n] in host memory, contiguous."""
    tensor = torch.as_tensor(index)
    if tensor.dtype == torch.bool:
        tensor = tensor.nonzero().view(-1)
    if tensor.dim() != 1 or tensor.is_floating_point() or tensor.is_complex():
        raise ValueError(f"{name} is {tensor.dtype} {list(tensor.shape)}: node ids, int64 [n], are needed")
    return tensor.to(device="cpu", dtype=torch.int64).contiguous()


def _read_only(what: str) -> TypeError:
    return TypeError(f"{what} can only be read: a dataset is written once (uvatrain.write_dataset)")
