"""Arrays and integers in and out: what Python has for the core to read, and what the core lends, as tensors."""

from __future__ import annotations

import operator
import sys
from typing import Any

from .errors import Unavailable, about


def lent(array: Any) -> Any:
    """An array of the core's as a torch tensor (numpy array where torch cannot be imported), without a copy."""
    try:
        from torch.utils.dlpack import from_dlpack
    except ImportError:
        pass
    else:
        return from_dlpack(array)
    try:
        import numpy
    except ImportError:
        raise Unavailable("neither torch nor numpy can be imported: pip install torch, or numpy") from None
    if array.dtype in ("bfloat16", "float8_e4m3fn"):
        raise Unavailable(
            f"numpy has no {array.dtype}: pip install torch, or view the DLPack array with another library"
        )
    return numpy.from_dlpack(array)


def readable(name: str, value: Any) -> Any:
    """The argument `name` as an array that the core can read: in host memory, in C order; copied only for that."""
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.Tensor):
        if value.layout != torch.strided:
            raise ValueError(f"{name} is a tensor of layout {value.layout}: a dense one is needed")
        value = value.detach().cpu().contiguous()
        if value.dtype != torch.bool:
            return value
        # Older versions of torch do not lend bools.
        return _Bools(value.view(torch.uint8))
    if not hasattr(value, "__array_interface__") and hasattr(value, "__dlpack__"):
        return value
    try:
        import numpy
    except ImportError:
        raise Unavailable(
            f"{name} is a {type(value).__name__}, which only numpy can read: pip install numpy"
        ) from None
    if isinstance(value, str | bytes | dict | set):
        raise ValueError(f"{name} is a {type(value).__name__}: an array is needed")
    array = numpy.asarray(value)
    if array.dtype == object:
        raise ValueError(f"{name} is of Python objects, not of numbers: give an array with a dtype")
    if array.size == 0 and not hasattr(value, "dtype"):
        # An empty list has no type of its own.
        array = array.astype(numpy.int64)
    if array.dtype.name in ("bfloat16", "float8_e4m3fn"):
        # Types that other libraries add to numpy (ml_dtypes), which neither protocol can say.
        bits = numpy.ascontiguousarray(array).view(f"u{array.dtype.itemsize}")
        return _NarrowFloats(bits, array.dtype.name)
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    return numpy.ascontiguousarray(array).reshape(array.shape)


def as_int64(name: str, value: Any) -> Any:
    """Integers as a numpy array of int64 [n], or a mask as the positions where it is true."""
    import numpy

    array = numpy.asarray(readable(name, value))
    if array.dtype == bool:
        if array.ndim != 1:
            raise ValueError(f"{name} is a mask of shape {list(array.shape)}: one of one dimension is needed")
        return numpy.flatnonzero(array)
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise ValueError(
            f"{name} is {array.dtype} {list(array.shape)}: node ids, int64 [any length], or a mask of bools"
        )
    return array.astype(numpy.int64)


def integer(name: str, value: Any) -> int:
    """The argument `name` as an int; numpy's integers are ones too.

    TypeError, with the field, for anything else, True and False included.
    """
    try:
        if not isinstance(value, bool):
            return operator.index(value)
    except TypeError:
        pass
    raise about(name, TypeError(f"{name} is an integer, not {type(value).__name__}")) from None


class _Bools:
    """A torch tensor of bools, lent as numpy would lend it."""

    def __init__(self, bits: Any) -> None:
        self._bits = bits

    @property
    def __array_interface__(self) -> dict[str, Any]:
        data = (self._bits.data_ptr(), False)
        return {
            "version": 3,
            "typestr": "|b1",
            "shape": tuple(self._bits.shape),
            "data": data,
            "strides": None,
        }


class _NarrowFloats:
    """Bits of values of a type that numpy has no name for, lent through torch, which has one."""

    def __init__(self, bits: Any, name: str) -> None:
        try:
            import torch
        except ImportError:
            raise Unavailable(f"{name} of numpy needs torch, which has a name for it: pip install torch") from None
        self._tensor = torch.from_numpy(bits).view(getattr(torch, name))

    def __dlpack__(self, **options: Any) -> Any:
        return self._tensor.__dlpack__()

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)
