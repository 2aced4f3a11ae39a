"""Trained rows for node types without features."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.utils.dlpack import from_dlpack

from .. import _core
from .._arrays import integer
from ..datasets import TypedDataset
from ..errors import UvatrainError
from ..loader.typed_batch import TypedBatch

__all__ = ["Embedding"]


class Embedding:
    """Tables of trained rows for the node types of a typed dataset that have no features, with sparse Adam.

        embedding = uvatrain.Embedding(dataset, 128)
        for batch in loader:
            rows = embedding(batch)
            loss = loss_of({**batch.x_dict, **rows}, batch)
            loss.backward()
            embedding.step(0.01)

    The tables are in host memory, on 2 MiB pages if the system has them. A table and its moments take 12 bytes per
    element. Rows are read when a batch is given, so none is older than the last step. Steps equal those of
    `torch.optim.SparseAdam` for `torch.nn.Embedding(sparse=True)` on the CPU, bit for bit.

    dataset: a `TypedDataset`, or its path. dim: elements of a row.
    types: names of node types; by default those without features.
    seed: first values are uniform in ±√(6 / (nodes + dim)), drawn from the seed, the type and the node's original id.
    betas, eps: as of `SparseAdam`.
    device: where the rows of batches are put; by default where the batch is.
    """

    def __init__(
        self,
        dataset: TypedDataset | str | os.PathLike[str],
        dim: int,
        types: Iterable[str] | None = None,
        *,
        seed: int = 0,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        device: torch.device | str | None = None,
    ) -> None:
        _refuse_ranks()
        if not isinstance(dataset, TypedDataset):
            dataset = TypedDataset(dataset)
        self.dim, seed = integer("dim", dim), integer("seed", seed)
        if self.dim < 1:
            raise ValueError(f"dim={dim}: at least 1 is required")
        if not 0 <= seed < 1 << 64:
            raise ValueError(f"seed={seed}: expected 0 to 2⁶⁴ - 1")
        if not all(0 <= beta < 1 for beta in betas) or eps < 0:
            raise ValueError(f"betas={betas}, eps={eps}: expected betas from 0 to below 1, and eps of at least 0")
        self.types = _types(dataset, types)
        self._betas, self._eps, self._device, self._steps = betas, eps, device, 0
        self._tables: dict[str, tuple[Tensor, Tensor, Tensor]] = {}
        #: Ids and rows of each type that were given since the last step.
        self._given: dict[str, list[tuple[Tensor, Tensor]]] = {name: [] for name in self.types}
        for name in self.types:
            rows = dataset.num_nodes[name]
            table, first, second = (from_dlpack(_core.zero_table(rows, self.dim)) for _ in range(3))
            original = dataset.nodes(name).get("orig_id")
            number = dataset.node_types.index(name)
            _core.write_initial_rows(table, seed, number, original, torch.get_num_threads())
            self._tables[name] = table, first, second

    def __call__(self, batch: TypedBatch) -> dict[str, Tensor]:
        """The rows of the batch's nodes by type, [num_nodes, dim]: leaf tensors that take a gradient.

        In `torch.no_grad()` they take none, and `step` does not count them.
        """
        return {name: self._rows(name, batch[name].n_id) for name in self.types}

    def _rows(self, name: str, n_id: Tensor) -> Tensor:
        device = n_id.device if self._device is None else torch.device(self._device)
        # A copy: the batch's ids are in its slot, which the next batch takes.
        ids = n_id.detach().to("cpu", torch.int64, copy=True)
        rows = torch.empty(ids.numel(), self.dim)
        _core.table_rows(self._tables[name][0], ids, rows, torch.get_num_threads())
        rows = rows.to(device)
        if torch.is_grad_enabled():
            self._given[name].append((ids, rows.requires_grad_()))
        return rows

    @torch.no_grad()
    def step(self, lr: float) -> None:
        """A step of Adam for the rows that were given since the last one and have a gradient.

        Gradients of a node that was given several times are added first. The step counts for every table, with rows of
        it or without.
        """
        if not lr >= 0:
            raise ValueError(f"lr={lr}: expected a number of at least 0")
        self._steps += 1
        for name, given in self._given.items():
            with_gradient = [(ids, rows.grad) for ids, rows in given if rows.grad is not None]
            if with_gradient:
                ids = torch.cat([ids for ids, _ in with_gradient])
                gradients = torch.cat([gradient.cpu() for _, gradient in with_gradient if gradient is not None])
                self._adam(self._tables[name], ids, gradients, lr)
        self.zero_grad()

    def _adam(self, tables: tuple[Tensor, Tensor, Tensor], ids: Tensor, gradients: Tensor, lr: float) -> None:
        """A step for some rows of a table, by the operations of SparseAdam.

        They are torch's, since MKL's roots are not rounded correctly: ours would differ in one of 140.
        """
        table, first, second = tables
        if ids.numel() > 1 and not bool((ids[1:] > ids[:-1]).all()):
            # Equal rows are added in the order in which they were given.
            ids, order = ids.sort(stable=True)
            gradients, (ids, counts) = gradients.index_select(0, order), ids.unique_consecutive(return_counts=True)
            if ids.numel() < order.numel():
                places = torch.arange(ids.numel()).repeat_interleave(counts)
                gradients = gradients.new_zeros(ids.numel(), self.dim).index_add_(0, places, gradients)
        mean, square = first.index_select(0, ids), second.index_select(0, ids)
        mean += (gradients - mean).mul_(1 - self._betas[0])
        square += gradients.pow(2).sub_(square).mul_(1 - self._betas[1])
        first.index_copy_(0, ids, mean)
        second.index_copy_(0, ids, square)
        kept = [1 - beta**self._steps for beta in self._betas]
        change = mean.div_(square.sqrt_().add_(self._eps)).mul_(-(lr * math.sqrt(kept[1]) / kept[0]))
        table.index_copy_(0, ids, table.index_select(0, ids).add_(change))

    def zero_grad(self) -> None:
        """Discards the rows that were given, and so their gradients: the next step is without them."""
        for given in self._given.values():
            given.clear()

    def __getitem__(self, name: str) -> Tensor:
        """The table of a type, [nodes, dim], without a copy."""
        if name not in self._tables:
            raise KeyError(f"{name!r}: expected one of {', '.join(self.types)}")
        return self._tables[name][0]

    def state_dict(self) -> dict[str, Any]:
        """The number of steps, and each type's table and moments, without a copy: the next step changes them."""
        state: dict[str, Any] = {"steps": self._steps}
        for name, tables in self._tables.items():
            state.update((f"{name}.{part}", table) for part, table in zip(_PARTS, tables))
        return state

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continues from a state of the same types and sizes. Another one is refused, and changes nothing."""
        own = self.state_dict()
        for key in (*own, *state):
            if key not in state or key not in own:
                raise ValueError(f"state_dict: {key!r} is {'missing' if key in own else 'not a key of these tables'}")
        for key, table in own.items():
            if key != "steps" and state[key].shape != table.shape:
                raise ValueError(f"state_dict: {key!r} is {list(state[key].shape)}, the table {list(table.shape)}")
        self.zero_grad()
        self._steps = integer("steps", state["steps"])
        for key, table in own.items():
            if key != "steps":
                table.copy_(state[key])

    def __repr__(self) -> str:
        sizes = ", ".join(f"{name} {table.size(0)}" for name, (table, _, _) in self._tables.items())
        return f"Embedding({sizes}, dim={self.dim})"


#: A type's arrays in a state, in the order of its tables, named as a module's weight and SparseAdam's state.
_PARTS = ("weight", "exp_avg", "exp_avg_sq")


def _types(dataset: TypedDataset, types: Iterable[str] | None) -> list[str]:
    known = dataset.node_types
    if types is None:
        found = [name for name in known if "features" not in dataset.nodes(name)]
        if not found:
            raise ValueError(f"{dataset.path}: every node type has features: name those that need tables with types=")
        return found
    if isinstance(types, str):
        raise TypeError(f"types={types!r}: a list of node types is needed: [{types!r}]")
    chosen = set(types)
    for name in chosen:
        if name not in known:
            raise ValueError(f"types: there is no node type {name!r}: expected some of {', '.join(known)}")
    if not chosen:
        raise ValueError(f"types=[]: expected some of {', '.join(known)}")
    return [name for name in known if name in chosen]


def _refuse_ranks() -> None:
    distributed = torch.distributed
    if distributed.is_available() and distributed.is_initialized() and distributed.get_world_size() > 1:
        raise UvatrainError(
            f"uvatrain.Embedding with {distributed.get_world_size()} ranks is not supported: each would train tables of its "
            "own. Train with one rank, or with features for every type"
        )
