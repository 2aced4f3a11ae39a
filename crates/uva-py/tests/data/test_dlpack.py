"""Arrays lent by DLPack: to torch and numpy, in both versions, and given back once and only once."""

import gc
import subprocess
import sys
import threading

import numpy as np
import pytest
import torch

from uvatrain import _core

DTYPES = {
    "float32": torch.float32,
    "float16": torch.float16,
    "bfloat16": torch.bfloat16,
    "float8_e4m3fn": torch.float8_e4m3fn,
    "uint8": torch.uint8,
    "int8": torch.int8,
    "int32": torch.int32,
    "int64": torch.int64,
}


@pytest.fixture(autouse=True)
def nothing_is_left():
    gc.collect()
    before = _core._zeros_alive()
    yield
    gc.collect()
    assert _core._zeros_alive() == before


def capsule_name(capsule):
    return repr(capsule).split('"')[1]


@pytest.mark.parametrize("name", DTYPES)
@pytest.mark.parametrize("shape", [(0,), (5,), (3, 4), (0, 4), (3, 0)])
def test_torch_sees_every_type_and_shape(name, shape):
    array = _core._zeros(name, *shape)
    tensor = torch.from_dlpack(array)
    assert tensor.dtype == DTYPES[name]
    # A tensor without elements is of one dimension, whatever it was: torch's own rule for DLPack.
    assert tensor.shape == shape or tensor.numel() == 0
    assert tensor.is_contiguous() and not tensor.float().any()
    assert array.shape == shape and array.dtype == name and len(array) == shape[0]
    assert array.nbytes == tensor.numel() * tensor.element_size()


@pytest.mark.parametrize("name", [name for name in DTYPES if name not in ("bfloat16", "float8_e4m3fn")])
@pytest.mark.parametrize("shape", [(0,), (5,), (3, 4), (0, 4), (3, 0)])
def test_numpy_sees_every_type_it_has(name, shape):
    array = np.from_dlpack(_core._zeros(name, *shape))
    assert array.dtype == name and array.shape == shape and not array.any()


@pytest.mark.parametrize("version", [None, (0, 8), (1, 0), (1, 1), (2, 0)])
def test_a_consumer_gets_the_version_it_can_read(version):
    array = _core._zeros("int32", 3)
    capsule = array.__dlpack__(max_version=version)
    legacy = version is None or version < (1, 0)
    assert capsule_name(capsule) == ("dltensor" if legacy else "dltensor_versioned")
    tensor = torch.from_dlpack(capsule)
    assert capsule_name(capsule) == ("used_dltensor" if legacy else "used_dltensor_versioned")
    tensor[:] = torch.tensor([1, 2, 3])
    assert np.from_dlpack(array).tolist() == [1, 2, 3]


def test_all_views_are_the_same_memory_and_can_be_written():
    array = _core._zeros("float32", 2, 2)
    tensor, view = torch.from_dlpack(array), np.from_dlpack(array)
    tensor[1, 0] = 5
    assert view.flags.writeable and view[1, 0] == 5
    view[0, 1] = 6
    assert tensor[0, 1] == 6
    assert torch.from_dlpack(array).data_ptr() == tensor.data_ptr()


def test_a_tensor_outlives_its_array():
    before = _core._zeros_alive()
    tensor = torch.from_dlpack(_core._zeros("int64", 100))
    gc.collect()
    assert _core._zeros_alive() == before + 1
    tensor += 1
    row = tensor[3:5]
    del tensor
    assert row.tolist() == [1, 1] and _core._zeros_alive() == before + 1
    del row
    assert _core._zeros_alive() == before


def test_an_array_outlives_its_tensors():
    before = _core._zeros_alive()
    array = _core._zeros("int64", 100)
    for _ in range(3):
        torch.from_dlpack(array)
        np.from_dlpack(array)
    assert _core._zeros_alive() == before + 1
    del array
    assert _core._zeros_alive() == before


@pytest.mark.parametrize("version", [None, (1, 0)])
def test_an_unused_capsule_gives_its_array_back(version):
    before = _core._zeros_alive()
    capsule = _core._zeros("int8", 1).__dlpack__(max_version=version)
    assert _core._zeros_alive() == before + 1
    del capsule
    assert _core._zeros_alive() == before


@pytest.mark.parametrize("version", [None, (1, 0)])
def test_a_capsule_is_taken_once(version):
    array = _core._zeros("int8", 1)
    capsule = array.__dlpack__(max_version=version)
    tensor = torch.from_dlpack(capsule)
    with pytest.raises(RuntimeError, match="only.*once"):
        torch.from_dlpack(capsule)
    del capsule
    tensor += 1
    assert tensor.item() == 1


def test_the_last_tensor_may_be_released_in_a_thread():
    before = _core._zeros_alive()
    kept = [torch.from_dlpack(_core._zeros("float32", 1000))]
    thread = threading.Thread(target=kept.clear)
    thread.start()
    thread.join()
    assert _core._zeros_alive() == before


def test_a_consumer_may_request_a_copy():
    array = _core._zeros("int32", 4)
    copied = torch.from_dlpack(array, copy=True)
    copied += 1
    assert np.from_dlpack(array).tolist() == [0] * 4
    assert np.from_dlpack(array, copy=True).tolist() == [0] * 4
    assert torch.from_dlpack(array, copy=False).data_ptr() == torch.from_dlpack(array).data_ptr()


def test_what_is_read_only_stays_so():
    array = _core._zeros("int32", 4, read_only=True)
    assert not np.from_dlpack(array).flags.writeable
    # Before 1.0 nothing could say so: a consumer of that time would write to it.
    with pytest.raises(BufferError, match="read-only"):
        array.__dlpack__()
    assert capsule_name(array.__dlpack__(copy=True)) == "dltensor"
    assert np.from_dlpack(array, copy=True).flags.writeable


def test_another_device_is_refused_with_what_would_do():
    array = _core._zeros("int32", 4)
    assert array.__dlpack_device__() == (1, 0)
    assert array.__dlpack__(dl_device=(1, 0), max_version=(1, 0)) is not None
    with pytest.raises(BufferError, match=r"dl_device=\(2, 0\).*\.to"):
        array.__dlpack__(dl_device=(2, 0))
    with pytest.raises(BufferError, match="stream=3"):
        array.__dlpack__(stream=3)


@pytest.mark.parametrize(
    "arguments", [{"max_version": "1.0"}, {"max_version": 1}, {"dl_device": 1}, {"stream": "a"}]
)
def test_nonsense_is_a_type_error(arguments):
    with pytest.raises(TypeError):
        _core._zeros("int32", 4).__dlpack__(**arguments)


def test_tensors_left_at_the_end_of_the_interpreter_are_freed_silently():
    script = """
import sys, torch, numpy
from uvatrain import _core
class Late:
    def __init__(self, *kept): self.kept = kept
    def __del__(self): self.kept = None
array = _core._zeros("float32", 10, 10)
sys.kept = Late(torch.from_dlpack(array), numpy.from_dlpack(array), array.__dlpack__(), array)
torch.kept = torch.from_dlpack(array)
"""
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120)
    assert (ended.returncode, ended.stderr) == (0, "")
