"""NeighborLoader: PyG's, with our batches."""

from __future__ import annotations

import copy
import os
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch_geometric import data as pyg_data
from torch_geometric import loader as pyg_loader
from torch_geometric.loader.utils import filter_custom_store, filter_data
from torch_geometric.sampler import SamplerOutput

from .._from_pyg import adjacency
from .._in_memory import kept_for, written_for
from .._numbers import integer
from ..batch import Batch
from ..datasets import Dataset, opened, write_dataset
from ..errors import warn
from ..loader import Loader
from .sampler import NeighborSampler
from .stores import FeatureStore, GraphStore

__all__ = ["NeighborLoader"]

#: Options of workers, which have nothing to do where our threads prepare the batches.
_OF_WORKERS = (
    "num_workers",
    "persistent_workers",
    "prefetch_factor",
    "pin_memory",
    "pin_memory_device",
    "multiprocessing_context",
    "worker_init_fn",
    "timeout",
)
#: What it has been told of that it has no effect.
_told: set[str] = set()
#: Types of features that a dataset holds as they are.
_FEATURES = (
    torch.float32,
    torch.float16,
    torch.bfloat16,
    torch.float8_e4m3fn,
    torch.uint8,
    torch.int8,
)


class NeighborLoader(pyg_loader.NeighborLoader):
    """`torch_geometric.loader.NeighborLoader`, for homogeneous graphs, with our sampler and our threads.

        from uvatrain.pyg import NeighborLoader

        loader = NeighborLoader(data, [10, 10], input_nodes=data.train_mask, batch_size=1024, shuffle=True)

    Options have PyG's names and meaning, and batches are PyG's: a `Data` with all attributes of nodes and edges, `n_id`,
    `e_id`, `input_id`, `batch_size`, `num_sampled_nodes` and `num_sampled_edges`.

    A `uvatrain.Loader` prepares the batches in threads (`direct` says so) unless an option asks for what it cannot do:
    a fanout of -1, `disjoint`, `transform_sampler_output`, `neighbor_sampler`, `sampler`, `batch_sampler`, or
    `batch_size=None`. Then `uvatrain.pyg.NeighborSampler` samples, in PyG's own loader.

    data: a PyG `Data`, which is written to a temporary dataset; a `uvatrain.Dataset` or its path; a store of
        `uvatrain.pyg`, or a pair of any stores. From a dataset come `x`, `y` and, where it has
        them, `edge_weight` and `edge_attr`.
    num_neighbors: picks in each hop, from the seeds outward; -1 takes all.
    input_nodes: ids or a mask. None: all nodes.
    weight_attr: the edges' attribute that picks are in proportion to; with a dataset, "edge_weight". Only where the
        loader is `direct`.
    input_time, time_attr, temporal_strategy, `pad` and `aggregate` are refused. is_sorted has no effect, and where the loader is `direct`,
        filter_per_worker and the options of workers have none. A `UvatrainWarning` names them, once a process.
    """

    #: Whether a `uvatrain.Loader` prepares the batches.
    direct: bool

    def __init__(
        self,
        data: Any,
        num_neighbors: Sequence[int],
        input_nodes: Any = None,
        input_time: Any = None,
        replace: bool = False,
        subgraph_type: Any = "directional",
        disjoint: bool = False,
        temporal_strategy: str = "uniform",
        time_attr: str | None = None,
        weight_attr: str | None = None,
        transform: Callable[[Any], Any] | None = None,
        transform_sampler_output: Callable[[SamplerOutput], SamplerOutput] | None = None,
        is_sorted: bool = False,
        filter_per_worker: bool | None = None,
        neighbor_sampler: Any = None,
        directed: bool = True,
        **kwargs: Any,
    ) -> None:
        for name, given, default in (
            ("time_attr", time_attr, None),
            ("input_time", input_time, None),
            ("temporal_strategy", temporal_strategy, "uniform"),
        ):
            if isinstance(given, Tensor) or given != default:
                shown = "" if isinstance(given, Tensor) else f"={given!r}"
                raise ValueError(f"{name}{shown} is not supported: neighbours are picked whatever their time")
        if kwargs.pop("pad", "off") != "off":
            raise ValueError(
                'pad is not supported: these batches have PyG\'s sizes. uvatrain.Loader(..., expand="new", pad="auto", '
                "transform=uvatrain.Batch.to_pyg) makes a Data of static shapes of each batch"
            )
        if kwargs.pop("aggregate", None) not in (None, "none"):
            raise ValueError(
                "aggregate is not supported: these batches have the rows of all nodes, as PyG's have. "
                'uvatrain.Loader(..., aggregate="mean") makes batches with batch.aggregated'
            )
        if not directed:
            _tell("directed=False is deprecated: subgraph_type=\"induced\" is its new name", ["directed"])
            subgraph_type = "induced"
        if kwargs.get("batch_sampler") is None:
            kwargs.setdefault("batch_size", 1)
        if kwargs.get("batch_size") is not None:
            kwargs["batch_size"] = integer("batch_size", kwargs["batch_size"])
        self._graph = _Graph.of(data, weight_attr)
        nodes = _input_nodes(input_nodes, self._graph.num_nodes)
        own = neighbor_sampler is None
        reason = self._why_not_direct(
            num_neighbors,
            disjoint=disjoint,
            transform_sampler_output=transform_sampler_output,
            neighbor_sampler=neighbor_sampler,
            kwargs=kwargs,
        )
        self.direct = reason is None
        if weight_attr is not None and reason is not None:
            raise ValueError(f"weight_attr={weight_attr!r} is not supported with {reason}")
        if own:
            neighbor_sampler = NeighborSampler(
                self._graph.dataset,
                num_neighbors,
                replace=replace,
                subgraph_type=subgraph_type,
                disjoint=disjoint,
                edge_order=self._graph.order,
            )
        without = [name for name in ("is_sorted",) if is_sorted]
        if self.direct:
            without += [name for name in _OF_WORKERS if kwargs.pop(name, None)]
            if filter_per_worker:
                without.append("filter_per_worker")
        _tell(
            "the option has no effect: edges are sorted when they are written, and threads of this process prepare the "
            "batches",
            without,
        )
        self._loader_options: dict[str, Any] = {
            "num_neighbors": getattr(num_neighbors, "values", num_neighbors),
            "replace": replace,
            "sampler_kind": "neighbor" if weight_attr is None else "weighted",
            "batch_size": kwargs.get("batch_size"),
            "drop_last": bool(kwargs.get("drop_last", False)),
            "shuffle": bool(kwargs.get("shuffle") or False),
        }
        self._loader: Loader | None = None
        # Rows in slots that a caller may still have.
        self._lent: deque[weakref.ref[Tensor]] = deque()
        self._own_sampler = own
        super().__init__(
            self._graph.data,
            num_neighbors,
            input_nodes=nodes,
            transform=transform,
            transform_sampler_output=transform_sampler_output,
            filter_per_worker=filter_per_worker,
            neighbor_sampler=neighbor_sampler,
            # A mask's ids are the seeds' positions, as PyG has it.
            input_id=kwargs.pop("input_id", nodes if _is_mask(input_nodes) else None),
            **kwargs,
        )

    @staticmethod
    def _why_not_direct(
        num_neighbors: Any,
        *,
        disjoint: bool,
        transform_sampler_output: Any,
        neighbor_sampler: Any,
        kwargs: dict[str, Any],
    ) -> str | None:
        """What a `uvatrain.Loader` cannot do of what was asked for, or None."""
        given = {
            "disjoint": disjoint,
            "transform_sampler_output": transform_sampler_output,
            "neighbor_sampler": neighbor_sampler,
            "sampler": kwargs.get("sampler"),
            "batch_sampler": kwargs.get("batch_sampler"),
        }
        for name, value in given.items():
            if value:
                return name
        if kwargs.get("batch_size", 1) is None:
            return "batch_size=None"
        fanouts = getattr(num_neighbors, "values", num_neighbors)
        if isinstance(fanouts, list | tuple) and -1 in fanouts:
            return "a fanout of -1"
        return None

    def __getstate__(self) -> dict[str, Any]:
        # Threads and slots are of one process: another makes its own, at its first epoch.
        return {**self.__dict__, "_loader": None, "_lent": deque()}

    def __iter__(self) -> Iterator[Any]:
        return self._batches() if self.direct else super().__iter__()

    def _batches(self) -> Iterator[Any]:
        """An epoch of the `uvatrain.Loader`."""
        if self._loader is None:
            self._loader = Loader(
                self._graph.dataset,
                input_nodes=self.input_data.node,
                # Drawn here, at the first epoch, so that torch.manual_seed repeats all of them.
                seed=int(torch.randint(2**63 - 1, (), generator=self.generator)),
                expand="new",
                edge_ids=True,
                input_id=True,
                # PyG's loaders know nothing of ranks: whoever trains with several gives each its input_nodes.
                rank=0,
                world_size=1,
                **self._loader_options,
            )
        steps = iter(self._loader)
        while True:
            # Before rows of earlier batches are looked at, which a fork cannot access.
            self._loader._source.check_process()
            # The batch before the last is let go of here, so that a list of batches may be kept: in a loop nobody has
            # it any more, and nothing is copied.
            while len(self._lent) > 1:
                rows = self._lent.popleft()()
                if rows is not None:
                    rows.data = rows.clone()
            batch = next(steps, None)
            if batch is None:
                return
            yield self._of_batch(batch)

    def _of_batch(self, batch: Batch) -> Any:
        blocks = batch.blocks
        # A block begins with the block before, so the last one has the edges of all hops, hop by hop.
        row, col = blocks[-1].edge_index
        edges = [block.num_edges for block in blocks]
        out = SamplerOutput(
            node=batch.input_nodes.clone(),
            row=row,
            col=col,
            edge=blocks[-1].edge_ids.clone(),
            num_sampled_nodes=[batch.num_seeds, *(block.num_src - block.num_dst for block in blocks)],
            num_sampled_edges=[after - before for before, after in zip([0, *edges], edges)],
        )
        out.metadata = (self.input_data[batch.input_id.clone()].input_id, None)
        rows = batch.x if self._graph.has_x else None
        if rows is not None:
            self._lent.append(weakref.ref(rows))
        return self._joined(self.node_sampler.shaped(out), rows)

    def filter_fn(self, out: SamplerOutput) -> Any:
        """A sampled subgraph as a `Data`, with what its nodes and edges have."""
        if not self._own_sampler:
            return super().filter_fn(out)
        if self.transform_sampler_output is not None:
            out = self.transform_sampler_output(out)
        return self._joined(out, None)

    def _joined(self, out: SamplerOutput, rows: Tensor | None) -> Any:
        """rows: those of `x`, where they are there already."""
        data = self._graph.joined(out, rows)
        # As PyG's loaders leave an attribute of the user's alone.
        if "n_id" not in data:
            data.n_id = out.node
        if "e_id" not in data and out.edge is not None:
            data.e_id = out.edge
        data.batch = out.batch
        data.num_sampled_nodes = out.num_sampled_nodes
        data.num_sampled_edges = out.num_sampled_edges
        data.input_id = out.metadata[0]
        data.batch_size = out.metadata[0].numel()
        return data if self.transform is None else self.transform(data)


class _Graph:
    """What batches are made of: a dataset to sample from, and what gives nodes and edges their attributes."""

    def __init__(self, data: Any, dataset: Dataset, order: Tensor | None, has_x: bool) -> None:
        #: A `Data`, or a feature store and a graph store.
        self.data = data
        self.dataset = dataset
        #: The id of each edge of the dataset; None: its position.
        self.order = order
        #: Whether the dataset's rows are `x`.
        self.has_x = has_x
        self._without_x: Any = None
        if has_x and isinstance(data, pyg_data.Data):
            self._without_x = copy.copy(data)
            # Of the same nodes, so that what is theirs is still told from the rest.
            self._without_x.x = torch.empty((dataset.num_nodes, 0), dtype=torch.uint8)
        self._weight = dataset.weight if isinstance(data, tuple) else None
        self._edge_attr = dataset.edge_attr if isinstance(data, tuple) else None

    @property
    def num_nodes(self) -> int:
        return self.dataset.num_nodes

    @classmethod
    def of(cls, data: Any, weight_attr: str | None) -> _Graph:
        if isinstance(data, pyg_data.HeteroData):
            raise ValueError(
                "data is a HeteroData: one type of node and edge is supported; data.to_homogeneous() makes it one"
            )
        if isinstance(data, pyg_data.Data):
            dataset, has_x = _of_data(data, weight_attr)
            return cls(data, dataset, dataset._edge_order, has_x)  # type: ignore[attr-defined]
        if isinstance(data, tuple | list) and len(data) == 2:
            features, edges = data
            if not isinstance(edges, GraphStore):
                return cls((features, edges), *_of_store(edges, weight_attr), has_x=False)
            own = isinstance(features, FeatureStore) and features.dataset.fingerprint == edges.dataset.fingerprint
            _check_weight(edges.dataset, weight_attr)
            return cls((features, edges), edges.dataset, None, own)
        if isinstance(data, FeatureStore | GraphStore):
            data = data.dataset
        if not isinstance(data, str | os.PathLike | Dataset):
            raise ValueError(
                f"data is a {type(data).__name__}: a torch_geometric Data, a uvatrain.Dataset, its path or a pair of "
                "stores is needed"
            )
        dataset = opened(data)
        _check_weight(dataset, weight_attr)
        return cls((FeatureStore(dataset), GraphStore(dataset)), dataset, None, True)

    def joined(self, out: SamplerOutput, rows: Tensor | None) -> Any:
        """The attributes of the nodes and edges of a subgraph. rows: `x`, where it is there already."""
        if isinstance(self.data, pyg_data.Data):
            whole = self.data if rows is None else self._without_x
            made = filter_data(whole, out.node, out.row, out.col, out.edge)
            if rows is not None:
                made.x = rows
            return made
        if rows is None:
            made = filter_custom_store(*self.data, out.node, out.row, out.col, out.edge)
        else:
            made = pyg_data.Data(x=rows, edge_index=torch.stack([out.row, out.col]))
            if any(attr.attr_name == "y" for attr in self.data[0].get_all_tensor_attrs()):
                made.y = self.data[0].get_tensor(None, "y", out.node)
        if self._weight is not None:
            made.edge_weight = self._weight[out.edge]
        if self._edge_attr is not None:
            made.edge_attr = self._edge_attr[out.edge]
        return made


def _of_data(data: Any, weight_attr: str | None) -> tuple[Dataset, bool]:
    """A `Data` as a temporary dataset, and whether that has its `x`."""
    x = data.get("x")
    has_x = _is_table(x, data.num_nodes)
    if weight_attr is not None and (data.get(weight_attr) is None or data.get("edge_index") is None):
        raise ValueError(f"weight_attr={weight_attr!r}: data has no such attribute of the edges of edge_index")
    of_tensors = {"edge_index": data.get("edge_index"), "adj_t": data.get("adj_t"), "x": x if has_x else None}
    if weight_attr is not None:
        of_tensors["weight"] = data[weight_attr]
    of_tensors = {name: tensor for name, tensor in of_tensors.items() if tensor is not None}

    def make() -> Dataset:
        indptr, indices, weight, order = adjacency(
            data, data.num_nodes, weight_name=weight_attr or "", ordered=True
        )
        return _written(indptr, indices, weight, order, x if has_x else None)

    # The number of nodes is not of the tensors.
    return kept_for(of_tensors, make, data.num_nodes), has_x


def _of_store(store: Any, weight_attr: str | None) -> tuple[Dataset, Tensor | None]:
    """The edges of anybody's graph store as a temporary dataset."""
    kinds = store.get_all_edge_attrs()
    if len(kinds) != 1 or kinds[0].edge_type is not None:
        raise ValueError("data: the graph store has several types of edges, and one without a name is supported")
    if weight_attr is not None:
        raise ValueError(f"weight_attr={weight_attr!r} is not supported with a graph store, which has no weights")
    indices, indptr, order = store.csc()
    nodes = max(kinds[0].size)
    indptr = torch.cat([indptr, indptr[-1:].expand(nodes + 1 - indptr.numel())])
    return _written(indptr, indices, None, order, None), order


def _written(indptr: Any, indices: Any, weight: Any, order: Any, x: Any) -> Dataset:
    def write(path: str) -> Dataset:
        return write_dataset(
            path,
            indptr=indptr,
            indices=indices,
            features=np.zeros((len(indptr) - 1, 1), np.uint8) if x is None else x,
            train_idx=np.empty(0, np.int64),
            weight=weight,
        )

    dataset = written_for("NeighborLoader", write)
    dataset._edge_order = order  # type: ignore[attr-defined]
    return dataset


def _is_table(x: Any, nodes: int) -> bool:
    """Whether a dataset can hold `x` as it is. What it cannot hold, PyG gathers from `data`."""
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


def _check_weight(dataset: Dataset, weight_attr: str | None) -> None:
    if weight_attr is not None and (weight_attr != "edge_weight" or dataset.weight is None):
        raise ValueError(
            f'weight_attr={weight_attr!r}: of a dataset it is "edge_weight", and it has to have weights (weight.npy)'
        )


def _is_mask(nodes: Any) -> bool:
    return getattr(nodes, "dtype", None) in (torch.bool, np.dtype(bool))


def _input_nodes(given: Any, nodes: int) -> Tensor:
    """The seeds as int64 ids: of a mask where it is true, of None all nodes."""
    if given is None:
        return torch.arange(nodes)
    if isinstance(given, range):
        given = list(given)
    try:
        ids = torch.as_tensor(given).cpu()
    except (TypeError, ValueError, RuntimeError):
        raise ValueError(f"input_nodes is a {type(given).__name__}: ids or a mask are needed") from None
    # An empty list has no type of its own.
    if ids.dim() != 1 or (ids.numel() > 0 and (ids.is_floating_point() or ids.is_complex())):
        raise ValueError(f"input_nodes is {ids.dtype} {list(ids.shape)}: ids or a mask are needed")
    if ids.dtype == torch.bool:
        if ids.numel() != nodes:
            raise ValueError(f"input_nodes is a mask of {ids.numel()}, but there are {nodes} nodes")
        ids = ids.nonzero().view(-1)
    if ids.numel() == 0:
        raise ValueError("input_nodes is empty: there is no node to sample around")
    ids = ids.to(torch.int64)
    wrong = ((ids < 0) | (ids >= nodes)).nonzero().view(-1)
    if wrong.numel() > 0:
        entry = int(wrong[0])
        raise ValueError(f"input_nodes: entry {entry} is {int(ids[entry])}, but the nodes are 0 to {nodes - 1}")
    return ids


def _tell(what: str, names: list[str]) -> None:
    """Warns of options, each once a process."""
    names = [name for name in names if name not in _told]
    if names:
        _told.update(names)
        warn(f"{', '.join(names)}: {what}")
