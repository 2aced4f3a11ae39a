"""NeighborLoader: PyG's, with our batches."""

from __future__ import annotations

import os
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch_geometric import data as pyg_data
from torch_geometric import loader as pyg_loader
from torch_geometric.sampler import NumNeighbors, SamplerOutput

from .._arrays import integer
from ..datasets import TypedDataset, opened_any
from ..errors import warn
from ..loader import Loader
from ..loader.batch import Batch
from .graph import Graph, Made
from .hetero_graph import HeteroGraph
from .homogeneous import HomogeneousGraph

__all__ = ["NeighborLoader"]

#: Options that have no effect where our threads prepare the batches, by the reason.
_WITHOUT_EFFECT = {
    "threads of this process prepare the batches, and no worker processes": (
        "num_workers",
        "persistent_workers",
        "prefetch_factor",
        "multiprocessing_context",
        "worker_init_fn",
        "timeout",
        "filter_per_worker",
    ),
    "batches are views of slots, whose memory is not pinned": ("pin_memory", "pin_memory_device"),
}
#: Options without effect of which a warning was given.
_warned: set[str] = set()


class NeighborLoader(pyg_loader.NeighborLoader):
    """`torch_geometric.loader.NeighborLoader` with our sampler and our threads.

        from uvatrain.pyg import NeighborLoader

        loader = NeighborLoader(data, [10, 10], input_nodes=data.train_mask, batch_size=1024, shuffle=True)

    Options have PyG's names and meaning, and batches are PyG's: a `Data` or a `HeteroData` with all attributes of nodes and
    edges, `n_id`, `e_id`, `input_id`, `batch_size`, `num_sampled_nodes` and `num_sampled_edges`.

    A `uvatrain.Loader` prepares the batches in threads (`direct` says so) unless an option requires what it does not support:
    a fanout of -1 in a `Data`, `disjoint`, `transform_sampler_output`, `neighbor_sampler`, `sampler`, `batch_sampler`, or
    `batch_size=None`. Then our sampler is called by PyG's own loader.

    data: a PyG `Data` or `HeteroData`, which is written to a temporary dataset; a `uvatrain.Dataset`, a `TypedDataset` or
        the path of one; a store of `uvatrain.pyg`, or a pair of any stores, of one type of nodes and edges or of several.
        From a dataset come `x`, `y` and, where it has them, `edge_weight` and `edge_attr`; from one of several types all that
        its `to_pyg()` has, except splits. Its edges are not copied: `loader.data` has only their number.
    num_neighbors: picks in each hop, from the seeds outward, as a sequence or a tensor; -1 takes all. With several types
        also a dict by relations, with "*" for all others, or PyG's `NumNeighbors`.
    input_nodes: ids or a mask. None: all nodes. With several types a node type, or a pair of it and ids or a mask.
    disjoint: a tree of its own for each seed; `batch` says of each node which one.
    weight_attr: the edges' attribute that picks are in proportion to; with a dataset, "edge_weight". Only where the
        loader is `direct`. Relations without it are picked from uniformly.
    input_time, time_attr, temporal_strategy, `pad` and `aggregate` are refused. is_sorted has no effect, and where the loader is
        `direct`, pin_memory, filter_per_worker and the options of workers have none. A `UvatrainWarning` names each, once
        a process, with the reason.
    """

    #: Whether a `uvatrain.Loader` prepares the batches.
    direct: bool

    def __init__(
        self,
        data: Any,
        num_neighbors: Sequence[int] | Mapping[Any, Sequence[int]] | NumNeighbors,
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
            _warn_once("directed=False is deprecated: subgraph_type=\"induced\" is its new name", ["directed"])
            subgraph_type = "induced"
        if kwargs.get("batch_sampler") is None:
            kwargs.setdefault("batch_size", 1)
        if kwargs.get("batch_size") is not None:
            kwargs["batch_size"] = integer("batch_size", kwargs["batch_size"])
        self._graph = _graph_of(data, weight_attr)
        node_type, input_nodes, count = self._graph.seeds(input_nodes)
        nodes = _input_nodes(input_nodes, count)
        fanouts = self._graph.fanouts(num_neighbors)
        own = neighbor_sampler is None
        reason = self._why_not_direct(
            disjoint=disjoint,
            transform_sampler_output=transform_sampler_output,
            neighbor_sampler=neighbor_sampler,
            kwargs=kwargs,
        ) or self._graph.why_not_direct(fanouts)
        self.direct = reason is None
        if weight_attr is not None and reason is not None:
            raise ValueError(f"weight_attr={weight_attr!r} is not supported with {reason}")
        if own:
            neighbor_sampler = self._graph.sampler(
                fanouts, replace=replace, subgraph_type=subgraph_type, disjoint=disjoint
            )
        self._reason = reason
        if is_sorted:
            _warn_once("the option has no effect: a dataset's edges are sorted by target in any case", ["is_sorted"])
        if self.direct:
            of_workers = {**kwargs, "filter_per_worker": filter_per_worker}
            for why, names in _WITHOUT_EFFECT.items():
                _warn_once(f"the option has no effect: {why}", [name for name in names if of_workers.get(name)])
                for name in names:
                    kwargs.pop(name, None)
        self._loader_options: dict[str, Any] = {
            **self._graph.loader_options(node_type, fanouts, getattr(subgraph_type, "value", subgraph_type) == "directional"),
            "replace": replace,
            "sampler_kind": "neighbor" if weight_attr is None else "weighted",
            "batch_size": kwargs.get("batch_size"),
            "drop_last": bool(kwargs.get("drop_last", False)),
            "shuffle": bool(kwargs.get("shuffle") or False),
        }
        self._loader: Loader | None = None
        self._loader_seed: int | None = None
        # Of each batch, the tensors in its slot that a caller may still have.
        self._lent: deque[list[weakref.ref[Tensor]]] = deque()
        self._own_sampler = own
        super().__init__(
            self._graph.data,
            num_neighbors,
            input_nodes=nodes if node_type is None else (node_type, nodes),
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
        *,
        disjoint: bool,
        transform_sampler_output: Any,
        neighbor_sampler: Any,
        kwargs: dict[str, Any],
    ) -> str | None:
        """A requested option that a `uvatrain.Loader` does not support, or None."""
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
        return None

    def __getstate__(self) -> dict[str, Any]:
        # Threads and slots are of one process: another makes its own, at its first epoch.
        # The data is that of the graph, which may map its files again.
        return {**self.__dict__, "_loader": None, "_lent": deque(), "data": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.__dict__["data"] = self._graph.data

    def __iter__(self) -> Iterator[Any]:
        return self._batches() if self.direct else super().__iter__()

    def state_dict(self) -> dict[str, Any]:
        """Where the loop stands, for a checkpoint, as `uvatrain.Loader.state_dict()` has it: with the seed of the epochs.

        Within the loop the current batch counts as done. ValueError where the loader is not `direct`.
        """
        return self._direct_loader("state_dict()").state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Let the next iteration continue where a state was taken, with the batches that would have followed.

        ValueError where this loader would make other batches, as `uvatrain.Loader.load_state_dict()` raises it, and where
        it is not `direct`.
        """
        seed = state.get("seed") if isinstance(state, Mapping) else None
        self._direct_loader("load_state_dict()", seed if isinstance(seed, int) else None).load_state_dict(state)

    def _direct_loader(self, caller: str = "", seed: int | None = None) -> Loader:
        """The `uvatrain.Loader`, made when it is needed first. seed: of its epochs; None: that which it has, or a new one."""
        if self._reason is not None:
            raise ValueError(f"{caller} is not supported with {self._reason}: PyG's own loader makes the batches then")
        if self._loader is not None and seed in (None, self._loader_seed):
            return self._loader
        if seed is None:
            # Drawn here, at the first epoch, so that torch.manual_seed repeats all of them.
            seed = int(torch.randint(2**63 - 1, (), generator=self.generator))
        made = self._graph.loader(self.input_data.node, seed, **self._loader_options)
        if self._loader is not None:
            self._loader.close()
        self._loader, self._loader_seed = made, seed
        return made

    def _batches(self) -> Iterator[Any]:
        """An epoch of the `uvatrain.Loader`."""
        loader = self._direct_loader()
        steps = iter(loader)
        while True:
            # Before tensors of earlier batches are read, which a fork cannot access.
            loader._source.check_process()
            # The batch before the last is released here, so that a list of batches may be kept: in a loop nothing references
            # it any more, and nothing is copied.
            while len(self._lent) > 1:
                for reference in self._lent.popleft():
                    lent = reference()
                    if lent is not None:
                        lent.data = lent.clone()
            batch = next(steps, None)
            if batch is None:
                return
            yield self._of_batch(batch)

    def _of_batch(self, batch: Batch) -> Any:
        sampled = self._graph.sampled(batch, self.node_sampler.subgraph_type == "directional")
        ids, given = batch.input_id.clone(), self.input_data.input_id
        sampled.out.metadata = (ids if given is None else given[ids], None)
        self._lent.append([weakref.ref(tensor) for tensor in sampled.lent if tensor is not None])
        return self._joined(self.node_sampler.shaped(sampled.out), sampled.made)

    def filter_fn(self, out: Any) -> Any:
        """A sampled subgraph as a `Data` or `HeteroData`, with what its nodes and edges have."""
        if not self._own_sampler:
            return super().filter_fn(out)
        if self.transform_sampler_output is not None:
            out = self.transform_sampler_output(out)
        return self._joined(out, Made())

    def _joined(self, out: Any, made: Made) -> Any:
        data = self._graph.joined(out, made)
        seeds = data if self.input_data.input_type is None else data[self.input_data.input_type]
        seeds.input_id = out.metadata[0]
        seeds.batch_size = out.metadata[0].numel()
        return data if self.transform is None else self.transform(data)


def _graph_of(data: Any, weight_attr: str | None) -> Graph:
    if isinstance(data, str | os.PathLike):
        data = opened_any(data)
    is_typed = isinstance(data, pyg_data.HeteroData | TypedDataset)
    if isinstance(data, tuple | list) and len(data) == 2 and isinstance(data[1], pyg_data.GraphStore):
        is_typed = any(attr.edge_type is not None for attr in data[1].get_all_edge_attrs())
    return HeteroGraph.of(data, weight_attr) if is_typed else HomogeneousGraph.of(data, weight_attr)


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


def _warn_once(what: str, names: list[str]) -> None:
    """Warns of options, each once a process."""
    names = [name for name in names if name not in _warned]
    if names:
        _warned.update(names)
        warn(f"{', '.join(names)}: {what}")
