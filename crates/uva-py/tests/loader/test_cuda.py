"""Batches on a GPU: with the stand-in driver of crates/cuda-sim, and on a GPU where there is one."""

import os
import signal
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from conftest import a_free_port, run_python_well
from graphs import Tables, hash_of, write_graph, write_typed_graph

import uvatrain

#: The beginning of a script: what an epoch is with these options.
SEEN = """
import sys, uvatrain
def seen(**options):
    with uvatrain.Loader(sys.argv[1], fanouts=(4, 3), batch_size=64, **options) as loader:
        found = []
        for batch in loader:
            batch.confirm()
            found.append((batch.hash, batch.x.sum().item()))
            del batch
        return found, loader.stats()
"""
OPTIONS = dict(fanouts=(4, 3), batch_size=64, seed=3)
needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


def test_device_memory_that_is_host_memory_is_viewed_by_the_cpu(graph, simulator):
    script = """
import sys, uvatrain
options = dict(fanouts=(4, 3), batch_size=64)
with uvatrain.Loader(sys.argv[1], **options) as loader:
    expected = [(batch.hash, batch.x.sum().item(), batch.y.tolist()) for batch in loader]
with uvatrain.Loader(sys.argv[1], device="cuda:0", **options) as loader:
    seen = []
    for batch in loader:
        assert batch.x.device.type == batch.blocks[1].indices.device.type == "cpu"
        batch.confirm()
        seen.append((batch.hash, batch.x.sum().item(), batch.y.tolist()))
    assert seen == expected
    iteration = iter(loader)
    kept = next(iteration).x
    try:
        for _ in range(3):
            next(iteration)
    except uvatrain.SlotInUse as error:
        print(error)
# Its memory is there although the loader is closed.
kept += 1
"""
    assert "batch 0 of epoch 1 (train)" in run_python_well(script, graph, **simulator)


def test_rows_from_disk_go_through_a_host_cache_to_slots_on_a_gpu(graph, simulator):
    script = SEEN + """
expected, _ = seen()
for more in ({}, {"host_cache": "12KiB"}, {"look_ahead": 0}):
    found, stats = seen(device="cuda:0", features="disk", **more)
    assert found == expected, more
    assert stats["disk"]["demanded_rows"] + stats["disk"]["ahead_rows"] > 0, stats
    assert bool(more.get("host_cache")) == (stats["disk"]["cached_rows"] > 0), stats
print("equal")
"""
    assert "equal" in run_python_well(script, graph, **simulator)


def test_a_cache_on_the_gpu_changes_no_batch_and_hits(graph, simulator):
    script = SEEN + """
expected, stats = seen()
assert "cache" not in stats
rows = None
for more in ({}, {"cache_policy": "degree"}, {"cache_policy": "fifo"}, {"gpu_cache": 10000}, {"features": "disk"}):
    found, stats = seen(**{"device": "cuda:0", "gpu_cache": "8KiB", **more})
    cache = stats["cache"]
    assert found == expected, more
    assert 0 < cache["hits"] < cache["rows"], (more, cache)
    assert rows is None or rows == cache["rows"]
    rows = cache["rows"]
# Batches in host memory have no use for it.
found, stats = seen(gpu_cache="8KiB")
assert found == expected and "cache" not in stats
def refused(**options):
    try:
        uvatrain.Loader(sys.argv[1], device="cuda:0", **options)
    except ValueError as error:
        return str(error), error.field
for options, option, says in (
    ({"gpu_cache": "auto"}, "gpu_cache", "give a size"),
    ({"gpu_cache": "8KiB", "cache_policy": "best"}, "cache_policy", "presample"),
    ({"cache_policy": "degree"}, "cache_policy", "gpu_cache"),
    ({"gpu_cache": "8KiB", "host_cache": "8KiB"}, "host_cache", "gpu_cache"),
    ({"gpu_cache_share": True}, "gpu_cache_share", "gpu_cache"),
    ({"gpu_cache": "8KiB", "gpu_cache_share": True}, "gpu_cache_share", "init_process_group"),
):
    said, field = refused(**options)
    assert field == option and says in said and "--" not in said, (options, said, field)
print("equal")
"""
    assert "equal" in run_python_well(script, graph, **simulator)


def test_ranks_hold_a_cache_between_their_gpus_and_outlive_each_other(graph, simulator):
    # Rank 0, whose share has the rows of so small a cache, kills itself before the second epoch: rank 1 still reads them.
    script = """
import os, signal, sys, uvatrain
import torch.distributed as dist
rank, ranks, port = (int(argument) for argument in sys.argv[2:5])
options = dict(fanouts=(4, 3), batch_size=64)
def seen(batches):
    found = []
    for batch in batches:
        batch.confirm()
        found.append((batch.hash, batch.x.sum().item()))
        del batch
    return found
with uvatrain.Loader(sys.argv[1], rank=rank, world_size=ranks, **options) as loader:
    expected = [seen(loader) for _ in range(2)]
store = dist.TCPStore("127.0.0.1", port, ranks, rank == 0)
dist.init_process_group("gloo", store=store, rank=rank, world_size=ranks)
cache = dict(device=f"cuda:{rank}", gpu_cache=sys.argv[5], cache_policy="random")
hits = []
for share in (False, True):
    loader = uvatrain.Loader(sys.argv[1], gpu_cache_share=share, **cache, **options)
    assert seen(loader) == expected[0], share
    hits.append(loader.stats()["cache"]["hits"])
    if share:
        break
    loader.close()
assert hits[1] > 1.3 * hits[0] > 0, hits
dist.barrier()
if rank == 0:
    os.kill(os.getpid(), signal.SIGKILL)
assert seen(loader) == expected[1]
loader.close()
print("outlived", flush=True)
os._exit(0)
"""
    codes, told = two_ranks_with_a_gpu_each(script, graph, "8KiB", simulator=simulator)
    assert codes == [-signal.SIGKILL, 0], told
    assert told[1][0] == "outlived\n"


def two_ranks_with_a_gpu_each(script, path, *more, simulator):
    """Runs the script as two ranks: its arguments are the path, the rank, the number of ranks, a port, and more. Returns exit
    codes, and the output on stdout and stderr."""
    environment = {**os.environ, **simulator, "CUDA_SIM_DEVICES": "2", "GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"}
    port = str(a_free_port())
    ranks = [
        subprocess.Popen(
            [sys.executable, "-c", script, str(path), str(rank), "2", port, *more],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    try:
        told = [rank.communicate(timeout=120) for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()
    return [rank.returncode for rank in ranks], told


def test_rows_of_other_ranks_come_to_the_gpu_of_each(graph, tmp_path, uvatrain_program, simulator):
    ranges = tmp_path / "ranges"
    divide = [uvatrain_program, "partition", graph, ranges, "--parts", "2", "--layout", "ranges", "--method", "random"]
    subprocess.run(divide, check=True, capture_output=True)
    script = """
import sys, uvatrain
import torch.distributed as dist
rank, ranks, port, whole = int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]), sys.argv[5]
options = dict(fanouts=(4, 3), batch_size=64)
def seen(loader):
    found = []
    for batch in loader:
        batch.confirm()
        found.append((batch.hash, batch.x.tolist()))
        del batch
    return found
with uvatrain.Loader(whole, rank=rank, world_size=ranks, **options) as loader:
    expected = [seen(loader) for _ in range(2)]
store = dist.TCPStore("127.0.0.1", port, ranks, rank == 0)
dist.init_process_group("gloo", store=store, rank=rank, world_size=ranks)
for more in ({}, {"remote_cache": "8KiB"}, {"graph": "divided"}):
    with uvatrain.Loader(sys.argv[1], part="rank", device=f"cuda:{rank}", **more, **options) as loader:
        assert [seen(loader) for _ in range(2)] == expected, more
        assert loader.stats()["exchange"]["remote_rows"] > 0
print("equal", flush=True)
"""
    codes, told = two_ranks_with_a_gpu_each(script, ranges, str(graph), simulator=simulator)
    assert codes == [0, 0], told
    assert [said for said, _ in told] == ["equal\n"] * 2


def test_an_interrupt_while_ranks_meet_is_raised_as_itself(graph, simulator):
    script = """
import sys, uvatrain
import torch.distributed as dist
from uvatrain.loader.exchange import Exchange
dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)

def interrupted(exchange, work):
    raise KeyboardInterrupt

Exchange._waited = interrupted
try:
    uvatrain.Loader(sys.argv[1], device="cuda:0", gpu_cache="8KiB", gpu_cache_share=True)
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""
    assert run_python_well(script, graph, GLOO_SOCKET_IFNAME="lo", **simulator) == "interrupted\n"


def test_typed_batches_on_a_gpu_are_those_of_the_host(tmp_path, simulator):
    path, _ = write_typed_graph(tmp_path / "typed")
    script = """
import sys, uvatrain

def columns(batch):
    batch.confirm()
    rows = [batch[name].x.tolist() for name in ("paper", "topic")]
    lists = [block[name].indices.tolist() for block in batch.blocks for name in block]
    lists += [batch["paper"].seed_mask.tolist()] if batch.padded else []
    return batch.hash, rows, batch["paper"].y.tolist(), batch["author"].n_id.tolist(), lists

def seen(**options):
    with uvatrain.Loader(sys.argv[1], fanouts=(4, 3), batch_size=8, seed=3, expand="new", **options) as loader:
        return [[columns(batch) for batch in loader] for _ in range(2)]

for options in ({}, {"samplers": 2, "pad": "auto"}, {"rank": 1, "world_size": 2}, {"input_nodes": {"topic": [0, 2], "author": [3, 1, 4]}}):
    expected = seen(**options)
    assert sum(map(len, expected)) > 1, options
    assert seen(device="cuda:1", **options) == expected, options
print("equal")
"""
    assert run_python_well(script, path, CUDA_SIM_DEVICES="2", **simulator) == "equal\n"


def test_a_batch_larger_than_its_slot_is_the_same_and_counted(tmp_path, simulator):
    # The first node has 400 in-neighbours, all others have three. With 45 batches an epoch, the one that has it among its
    # seeds is not one of those by which slots are sized.
    path, nodes = tmp_path / "hub", 2000
    path.mkdir()
    degrees = np.where(np.arange(nodes) == 0, 400, 3)
    edges = np.arange(degrees.sum())
    arrays = {
        "indptr": np.concatenate([[0], np.cumsum(degrees)]),
        "indices": 1 + (edges * 613 + 7) % (nodes - 1),
        "feat": (np.arange(nodes * 16) % 101).astype(np.float32).reshape(nodes, 16),
        "label": np.arange(nodes) % 4,
        "train_idx": np.arange(900),
        "valid_idx": np.arange(900, 950),
        "test_idx": np.arange(950, 1000),
    }
    for name, array in arrays.items():
        np.save(path / f"{name}.npy", array)
    script = """
import sys, uvatrain

def seen(**options):
    with uvatrain.Loader(sys.argv[1], fanouts=(400, 2), batch_size=20, **options) as loader:
        batches = [(batch.hash, batch.x.tolist(), batch.blocks[1].indices.tolist()) for batch in loader]
        return batches, loader.stats().get("oversized")

expected, oversized = seen()
assert len(expected) == 45 and oversized is None
assert seen(device="cuda:0") == (expected, 1)
assert seen(device="cuda:0", slot_bytes="4MiB") == (expected, None)
"""
    run_python_well(script, path, **simulator)


def test_halves_are_sent_to_a_gpu_unchanged_and_float32_is_refused(tmp_path, simulator):
    path = write_graph(tmp_path / "halves", dtype="float16")
    script = """
import sys, torch, uvatrain
options = dict(fanouts=(4, 3), batch_size=64, device="cuda:0")
with uvatrain.Loader(sys.argv[1], **options) as loader:
    assert next(iter(loader)).x.dtype == torch.float16
try:
    uvatrain.Loader(sys.argv[1], feature_type="float32", **options)
except ValueError as error:
    print(error)
"""
    refused = run_python_well(script, path, **simulator)
    for part in ("feature_type=float32", "Omit feature_type", "batch.x.float()"):
        assert part in refused and "--" not in refused


def test_arrays_on_a_gpu_are_borrowed_in_the_order_of_their_stream(graph, simulator):
    script = """
import ctypes, sys, uvatrain

class Tensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("device", ctypes.c_int32 * 2), ("dimensions", ctypes.c_int32),
                ("dtype", ctypes.c_uint8 * 4), ("shape", ctypes.POINTER(ctypes.c_int64))]
pointer = ctypes.pythonapi.PyCapsule_GetPointer
pointer.restype, pointer.argtypes = ctypes.POINTER(Tensor), [ctypes.py_object, ctypes.c_char_p]

def refused(**arguments):
    try:
        array.__dlpack__(**arguments)
    except BufferError as error:
        return str(error)

loader = uvatrain.Loader(sys.argv[1], device="cuda", fanouts=(4, 3), batch_size=64)
# As torch's default stream on a GPU would be named.
batch = loader._source.next("train", 0, 0, 0, 0)
array = batch.array("x")
assert array.__dlpack_device__() == (2, 0)
capsule = array.__dlpack__(stream=1)
tensor = pointer(capsule, b"dltensor").contents
assert list(tensor.device) == [2, 0] and tensor.shape[:2] == [batch.num_nodes, 5]
assert tensor.dtype[:2] == [2, 32]
for stream in (None, 0, 1, -1):
    assert refused(stream=stream) is None
assert "wait_stream" in refused(stream=77)
assert ".clone()" in refused(copy=True)
assert "dl_device=(1, 0)" in refused(dl_device=(1, 0))
assert type(batch.exported("x")) is type(array)
print("seen")
"""
    assert run_python_well(script, graph, **simulator) == "seen\n"


def test_a_driver_without_a_gpu_is_unavailable(graph, simulator):
    script = """
import sys, uvatrain
try:
    uvatrain.Loader(sys.argv[1], device="cuda")
except uvatrain.Unavailable as error:
    print(error)
"""
    assert "cuda:0" in run_python_well(script, graph, CUDA_SIM_DEVICES="0", **simulator)


@needs_gpu
def test_on_a_gpu_batches_are_those_of_the_cpu(graph):
    tables = Tables(graph)
    with uvatrain.Loader(graph, **OPTIONS) as loader:
        expected = [batch.hash for _ in range(3) for batch in loader]
    with uvatrain.Loader(graph, device="cuda", **OPTIONS) as loader:
        seen = []
        for _ in range(3):
            for batch in loader:
                assert batch.x.device == batch.blocks[0].indptr.device == torch.device("cuda:0")
                rows = torch.from_numpy(tables.features)[batch.input_nodes.cpu()]
                assert torch.equal(batch.x.cpu(), rows)
                batch.confirm()
                blocks = [
                    SimpleNamespace(indptr=block.indptr.cpu(), indices=block.indices.cpu())
                    for block in batch.blocks
                ]
                on_host = SimpleNamespace(
                    seeds=batch.seeds.cpu(),
                    input_nodes=batch.input_nodes.cpu(),
                    blocks=blocks,
                    weighs_edges=batch.weighs_edges,
                )
                assert hash_of(on_host, tables.original) == batch.hash
                seen.append(batch.hash)
    assert seen == expected


@needs_gpu
def test_on_a_gpu_a_step_is_ordered_on_the_current_stream(graph):
    side = torch.cuda.Stream()
    with uvatrain.Loader(graph, device="cuda", **OPTIONS) as loader, torch.cuda.stream(side):
        sums = [batch.x.double().sum() for _ in range(20) for batch in loader]
        side.synchronize()
    with uvatrain.Loader(graph, **OPTIONS) as loader:
        assert [one.item() for one in sums] == [
            batch.x.double().sum().item() for _ in range(20) for batch in loader
        ]


@needs_gpu
def test_on_a_gpu_another_stream_is_refused_with_what_would_do(graph):
    with uvatrain.Loader(graph, device="cuda", **OPTIONS) as loader:
        batch = next(iter(loader))
        with torch.cuda.stream(torch.cuda.Stream()), pytest.raises(BufferError, match="wait_stream"):
            batch.x
