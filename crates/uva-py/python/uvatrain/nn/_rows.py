"""A layer's result whose last rows, those of nodes without edges, are computed on access.

PyG's layers give a row for every node of `x`, the outermost ones included, and `trim_to_layer` drops these rows before
the next layer. They are most of the rows of a sampled batch. `Rows` stands for the whole result and holds the first
rows: a slice of these costs nothing more. Activations and dropout stay apart too. Every other operation sees all rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils._pytree import tree_map_only

from ..errors import UvatrainError

__all__ = ["Rows", "all_rows"]


class Rows(Tensor):
    """`count` rows: those of `head`, followed by what `tail(stop)` returns, the rows from there to `stop`."""

    _head: Tensor
    _tail: Callable[[int], Tensor]
    _count: int
    _whole: Tensor | None

    @staticmethod
    def of(head: Tensor, tail: Callable[[int], Tensor], count: int) -> Tensor:
        """head: [n, width], n at most `count`. `tail` and what it calls are not called for rows that are not read."""
        if head.size(0) == count:
            return head
        made = head.as_subclass(Rows)
        made._head, made._tail, made._count, made._whole = head, tail, count, None
        return made

    def whole(self) -> Tensor:
        """All rows, as an ordinary tensor."""
        if self._whole is None:
            self._whole = torch.cat([self._head, self._tail(self._count)])
        return self._whole

    @classmethod
    def __torch_function__(
        cls, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        first = args[0] if args else None
        # Once all rows are there they count alone: they may have been changed in place.
        if isinstance(first, Rows) and first._whole is None:
            rule = _RULES.get(func)
            found = NotImplemented if rule is None else rule(func, *args, **kwargs)
            if found is not NotImplemented:
                return found
        args, kwargs = tree_map_only(Rows, Rows.whole, (args, kwargs))
        return func(*args, **kwargs)


def later(
    compute: Callable[[int], Tensor], depends_on: Iterable[Tensor | None]
) -> Callable[[int], Tensor]:
    """`compute` in the mode for gradients of now; refused once a tensor that it depends on was changed in place."""
    enabled = torch.is_grad_enabled()
    versions = [(tensor, tensor._version) for tensor in depends_on if tensor is not None]

    def tail(stop: int) -> Tensor:
        if any(tensor._version != version for tensor, version in versions):
            raise UvatrainError(
                "the rows of nodes without edges were read after an input or a parameter of their layer was "
                "changed in place, by optimizer.step() for example: read them before (out = out + 0)"
            )
        with torch.set_grad_enabled(enabled):
            return compute(stop)

    return tail


def all_rows(x: Any) -> Any:
    """An ordinary tensor, or a pair of them."""
    if isinstance(x, tuple | list):
        return tuple(all_rows(one) for one in x)
    return x.whole() if isinstance(x, Rows) else x


def _size(_: Any, x: Rows, dim: int | None = None) -> Any:
    size = torch.Size([x._count, *x._head.size()[1:]])
    return size if dim is None else size[dim]


def _of_head(func: Callable[..., Any], x: Rows) -> Any:
    return func(x._head)


def _by_row(func: Callable[..., Any], x: Rows, *args: Any, **kwargs: Any) -> Any:
    """A function that computes each row from itself alone."""
    if kwargs.get("inplace") or any(isinstance(arg, Rows) for arg in (*args, *kwargs.values())):
        return NotImplemented
    enabled, tail = torch.is_grad_enabled(), x._tail

    def of_tail(stop: int) -> Tensor:
        with torch.set_grad_enabled(enabled):
            rows: Tensor = func(tail(stop), *args, **kwargs)
            return rows

    return Rows.of(func(x._head, *args, **kwargs), of_tail, x._count)


def _first(x: Rows, stop: int) -> Tensor:
    """The first rows."""
    if stop <= x._head.size(0):
        return x._head.narrow(0, 0, stop)
    return Rows.of(x._head, x._tail, stop)


def _narrow(_: Any, x: Rows, dim: int, start: Any, length: int) -> Any:
    if dim not in (0, -x._head.dim()) or isinstance(start, Tensor) or start != 0 or not 0 <= length <= x._count:
        return NotImplemented
    return _first(x, length)


def _item(_: Any, x: Rows, key: Any) -> Any:
    if not isinstance(key, slice) or key.start not in (None, 0) or key.step not in (None, 1):
        return NotImplemented
    if not isinstance(key.stop, int):
        return NotImplemented
    start, stop, _step = key.indices(x._count)
    return _first(x, stop)


def _read(name: str) -> Any:
    """What PyTorch calls where a property of a tensor is read. Type checkers take `Tensor.shape` for the shape."""
    return getattr(Tensor, name).__get__


_RULES: dict[Any, Callable[..., Any]] = {
    Tensor.size: _size,
    _read("shape"): _size,
    Tensor.__len__: lambda _, x: x._count,
    Tensor.numel: lambda _, x: x._count * x._head.size()[1:].numel(),
    Tensor.narrow: _narrow,
    torch.narrow: _narrow,
    Tensor.__getitem__: _item,
    **dict.fromkeys(
        (
            Tensor.dim,
            _read("ndim"),
            _read("dtype"),
            _read("device"),
            _read("layout"),
            _read("requires_grad"),
            _read("is_cuda"),
            _read("is_sparse"),
            Tensor.is_floating_point,
            torch.is_floating_point,
        ),
        _of_head,
    ),
    **dict.fromkeys(
        (
            F.relu,
            torch.relu,
            Tensor.relu,
            F.elu,
            F.leaky_relu,
            F.gelu,
            F.silu,
            F.selu,
            F.softplus,
            torch.tanh,
            Tensor.tanh,
            torch.sigmoid,
            Tensor.sigmoid,
            F.dropout,
        ),
        _by_row,
    ),
}
