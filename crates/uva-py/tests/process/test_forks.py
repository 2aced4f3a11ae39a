"""Batches of a parent in its forks: each use raises, and a tensor that was taken before ends the fork by SIGSEGV."""

import os
import subprocess
import sys

import pytest
from conftest import WATCHDOG, run_forked_well
from graphs import write_graph

# Each fork has a watchdog of its own: it inherits no alarm.
COMMON = """
import gc, os, resource, signal, sys, traceback
import numpy, torch, uvatrain
try:
    import torch_geometric.data
except ImportError:
    torch_geometric = None

# Threads of OpenMP do not survive a fork, which then waits for them.
torch.set_num_threads(1)
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
signal.alarm(110)
PARENT = os.getpid()
OPTIONS = dict(fanouts=(4, 3), batch_size=64, seed=3, expand="new")

def begin(work):
    "A fork that runs `work`, after it has filled addresses that are free in it."
    pid = os.fork()
    if pid:
        return pid
    signal.alarm(60)
    code = 1
    try:
        junk = [torch.full((size,), float("nan")) for size in (1 << 13, 1 << 16, 1 << 19) for _ in range(8)]
        code = work() or 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)

def end(pid):
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

def child(work):
    return end(begin(work))

def raise_the_reason(uses, owner=PARENT):
    "What a fork checks: each use raises, and names both processes and a remedy."
    for name, use in uses.items():
        try:
            found = use()
        except uvatrain.UvatrainError as error:
            said = str(error)
            assert type(error) is uvatrain.UvatrainError, (name, error)
            assert f"process {owner} " in said and f"in its fork {os.getpid()}" in said, (name, said)
            assert "spawn" in said and "clone" in said or "num_workers=0" in said, (name, said)
        else:
            raise AssertionError(f"{name} gave {found!r}")

def segfaults(*tensors):
    "Reading any of them ends a fork by SIGSEGV."
    for tensor in tensors:
        assert child(lambda: int(tensor.sum() == 0)) == -signal.SIGSEGV
        assert child(lambda: tensor.__setitem__(0, 0)) == -signal.SIGSEGV

def uses_of(batch):
    uses = {
        name: lambda name=name: getattr(batch, name)
        for name in ("x", "y", "seeds", "input_nodes", "input_id", "has_edge_ids")
    }
    for layer, block in enumerate(batch.blocks):
        for name in ("indptr", "indices", "edge_ids", "edge_index"):
            uses[f"{name} {layer}"] = lambda block=block, name=name: getattr(block, name)
        uses[f"batch.edge_index {layer}"] = lambda layer=layer: batch.edge_index[layer]
    uses["array"] = lambda: batch.array("x")
    uses["array of a layer"] = lambda: batch.array("indices", 0)
    for name in ("to_pyg", "to_graphbolt", "confirm"):
        if name != "to_pyg" or torch_geometric is not None:
            uses[name] = getattr(batch, name)
    return uses

def uses_of_array(array):
    return {
        "__dlpack__": array.__dlpack__,
        "version 1": lambda: array.__dlpack__(max_version=(1, 0)),
        "copy": lambda: array.__dlpack__(copy=True),
        "torch": lambda: torch.from_dlpack(array),
        "numpy": lambda: numpy.from_dlpack(array),
    }

def values(batch):
    tensors = [batch.x, batch.y, batch.seeds, batch.input_nodes]
    tensors += [getattr(block, name) for block in batch.blocks for name in ("indptr", "indices", "edge_index")]
    return [batch.hash, *(tensor.clone() for tensor in tensors)]

def same(one, other):
    return one[0] == other[0] and all(torch.equal(a, b) for a, b in zip(one[1:], other[1:], strict=True))
"""


def well(script, *arguments):
    assert run_forked_well(COMMON + script, *arguments).split() == ["well"]


@pytest.mark.parametrize("taken", [False, True])
def test_every_use_of_a_parents_batch_raises_in_a_fork(graph, taken):
    script = f"""
loader = uvatrain.Loader(sys.argv[1], **OPTIONS, edge_ids=True, input_id=True)
iteration = iter(loader)
# Before the first batch there is nothing to use.
assert child(lambda: raise_the_reason({{"next": lambda: next(iteration), "stats": loader.stats}})) == 0
batch = next(iteration)
uses, array = uses_of(batch), batch.array("x")
views = []
if {taken}:
    views = [use() for name, use in uses.items()]
    before = values(batch)
uses |= uses_of_array(array)
uses |= {{"next": lambda: next(iteration), "iter": lambda: next(iter(loader)), "stats": loader.stats}}
for _ in range(3):
    assert child(lambda: raise_the_reason(uses)) == 0
if {taken}:
    assert same(before, values(batch))
with uvatrain.Loader(sys.argv[1], **OPTIONS) as again:
    assert same(values(batch), values(next(iter(again))))
print("well")
"""
    well(script, graph)


def test_a_tensor_taken_before_a_fork_ends_it_by_sigsegv(graph):
    script = """
loader = uvatrain.Loader(sys.argv[1], **OPTIONS, slots=3)
iteration = iter(loader)
batch = next(iteration)
x, nodes, rows = batch.x, batch.input_nodes, numpy.from_dlpack(batch.array("y"))
capsule = batch.array("seeds").__dlpack__()
kept = x.clone()
segfaults(x, nodes, rows, x[:10], batch.blocks[0].indices)
assert child(lambda: int(torch.from_dlpack(capsule).sum())) == -signal.SIGSEGV
# A copy is the fork's own.
assert child(lambda: 0 if torch.equal(kept, kept) else 1) == 0
# The tensor alone keeps the slot.
next(iteration)
assert child(lambda: raise_the_reason({"gone": lambda: batch.x})) == 0
segfaults(x)
loader.close()
assert child(lambda: raise_the_reason({"gone": lambda: batch.x})) == 0
segfaults(x)
# A fork that drops all that it has takes nothing from its parent.
def let_go():
    global batch, x, nodes, rows, capsule, iteration, loader
    loader.close()
    del batch, x, nodes, rows, capsule, iteration, loader
    gc.collect()
assert child(let_go) == 0
assert torch.equal(x, kept)
print("well")
"""
    well(script, graph)


def test_a_parents_batches_are_right_while_forks_try(graph):
    script = """
with uvatrain.Loader(sys.argv[1], **OPTIONS) as loader:
    expected = [values(batch) for _ in range(3) for batch in loader]
children, got = [], []
with uvatrain.Loader(sys.argv[1], **OPTIONS) as loader:
    for _ in range(3):
        for batch in loader:
            uses = uses_of(batch)
            del uses["input_id"]
            uses = {name: use for name, use in uses.items() if "edge_ids" not in name}
            children.append(begin(lambda: raise_the_reason(uses)))
            got.append(values(batch))
            del uses
assert all(map(same, expected, got)) and len(got) == len(expected) == 15
assert [end(pid) for pid in children] == [0] * 15
print("well")
"""
    well(script, graph)


def test_a_fork_of_a_fork_and_a_pool_of_forks_raise_too(graph):
    script = """
import multiprocessing
from concurrent.futures import ProcessPoolExecutor

loader = uvatrain.Loader(sys.argv[1], **OPTIONS)
batch = next(iter(loader))
x, kept = batch.x, batch.x.clone()
def in_a_fork():
    raise_the_reason({"x": lambda: batch.x, "y": lambda: batch.y})
    assert child(lambda: raise_the_reason({"x": lambda: batch.x, "y": lambda: batch.y})) == 0
    segfaults(x)
assert child(in_a_fork) == 0

def work(number):
    try:
        return float(batch.x.sum())
    except uvatrain.UvatrainError as error:
        return str(error)

context = multiprocessing.get_context("fork")
with ProcessPoolExecutor(2, mp_context=context) as pool:
    said = list(pool.map(work, range(6)))
assert all(f"process {PARENT} " in line and "fork" in line for line in said), said
process = context.Process(target=lambda: x.sum())
process.start()
process.join()
assert process.exitcode == -signal.SIGSEGV
assert torch.equal(x, kept) and torch.equal(batch.x, kept)
print("well")
"""
    well(script, graph)


def test_a_fork_may_make_batches_of_its_own_where_its_parent_has_made_none(graph):
    script = """
def in_a_fork():
    loader = uvatrain.Loader(sys.argv[1], **OPTIONS)
    batch = next(iter(loader))
    x, kept, own = batch.x, batch.x.clone(), os.getpid()
    assert child(lambda: raise_the_reason({"x": lambda: batch.x}, own)) == 0
    segfaults(x)
    assert torch.equal(batch.x, kept)
assert child(in_a_fork) == 0
print("well")
"""
    well(script, graph)


def test_batches_of_a_hop_set_raise_in_a_fork(tmp_path):
    script = """
with uvatrain.HopLoader(sys.argv[1], batch_size=64) as loader:
    iteration = iter(loader)
    batch = next(iteration)
    assert child(lambda: raise_the_reason({"xs": lambda: batch.xs, "y": lambda: batch.y})) == 0
    x = batch.xs[1]
    kept = x.clone()
    uses = {"xs": lambda: batch.xs, "seeds": lambda: batch.seeds, "next": lambda: next(iteration)}
    assert child(lambda: raise_the_reason(uses)) == 0
    segfaults(x)
    assert torch.equal(batch.xs[1], kept)
    # Tables of the set are of files, which a fork may read.
    rows = loader.dataset.hops[1]
    assert child(lambda: 0 if rows.isfinite().all() else 1) == 0
print("well")
"""
    import uvatrain

    path = uvatrain.propagate(write_graph(tmp_path / "graph"), tmp_path / "set", operator="sym", hops=2).path
    well(script, path)


def test_pygs_loader_raises_in_a_fork_and_its_rows_end_it(graph):
    pytest.importorskip("torch_geometric")
    script = """
import warnings
warnings.simplefilter("ignore")
from uvatrain.pyg import NeighborLoader

loader = NeighborLoader(sys.argv[1], [4, 3], batch_size=64, input_nodes=torch.arange(300))
assert loader.direct
iteration = iter(loader)
data = [next(iteration) for _ in range(3)]
kept = [one.x.clone() for one in data]
uses = {"next": lambda: next(iteration), "iter": lambda: next(iter(loader))}
for use in uses.items():
    assert child(lambda: raise_the_reason(dict([use]))) == 0
segfaults(data[-1].x)
assert all(torch.equal(one.x, x) for one, x in zip(data, kept))
next(iteration)
print("well")
"""
    well(script, graph)


def test_a_fork_within_infer_raises_and_its_parent_continues(graph):
    script = """
from uvatrain import infer

def layer(x, edge_index):
    return x[1].clone()

def call(layer, batch):
    uses = {"x": lambda: batch.x, "edge_index": lambda: batch.edge_index[0]}
    assert child(lambda: raise_the_reason(uses)) == 0
    return layer((batch.x, batch.x[: batch.num_seeds]), batch.edge_index[0])

found = infer([layer], sys.argv[1], call=call, batch_size=200)
assert torch.equal(found, uvatrain.Dataset(sys.argv[1]).features)
print("well")
"""
    well(script, graph)


def test_a_batch_of_attach_raises_in_a_fork(graph, uvatrain_program, tmp_path):
    script = tmp_path / "train.py"
    script.write_text(
        COMMON
        + """
session = uvatrain.attach()
for batch in session:
    x, kept = batch.x, batch.x.clone()
    assert child(lambda: raise_the_reason({"x": lambda: batch.x, "y": lambda: batch.y})) == 0
    segfaults(x)
    assert torch.equal(x, kept)
    del x
print("well")
"""
    )
    options = "--fanouts 4,3 --batch-size 64 --seed 3".split()
    ended = subprocess.run(
        [uvatrain_program, "run", graph, *options, "--", sys.executable, script],
        capture_output=True,
        text=True,
        timeout=WATCHDOG,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    assert ended.returncode == 0 and "well" in ended.stdout.split(), ended.stdout + ended.stderr
