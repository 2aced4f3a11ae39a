"""Sampling and loading through the caches of a plan: the batches of a loader, and what hits."""

import gc
import os
import subprocess
import threading

import numpy as np
import pytest
import torch
from graphs import OPTIONS, write_graph

import uvatrain

FANOUTS = ["--fanouts", "4,3", "--batch-size", "64", "--seed", "3"]


def plan_of(program, graph, out, size="8KiB"):
    subprocess.run(
        [program, "plan", graph, *FANOUTS, "--device", "cpu", "--gpu-cache", size, "--out", out],
        check=True, capture_output=True, timeout=120,
    )  # fmt: skip
    return out


@pytest.fixture(scope="module")
def plan(graph, uvatrain_program, tmp_path_factory):
    return plan_of(uvatrain_program, graph, tmp_path_factory.mktemp("plans") / "plan.json")


@pytest.fixture(scope="module")
def graph(tmp_path_factory):
    return write_graph(tmp_path_factory.mktemp("graphs") / "reordered", reordered=True)


@pytest.mark.filterwarnings("ignore:.*the plan was made for")
@pytest.mark.parametrize("more", [{}, {"edge_ids": True}, {"sampler_kind": "labor"}, {"sampler_kind": "ladies"}])
def test_batches_are_those_of_a_loader_with_caches_and_without(graph, plan, more):
    options = {**OPTIONS, **more}
    bare = uvatrain.CachedDataset(graph, **options)
    cached = uvatrain.CachedDataset(uvatrain.Dataset(graph), plan, **options)
    with uvatrain.Loader(graph, **options) as loader:
        for expected in loader:
            for made in (bare, cached):
                batch = made.sample(expected.seeds, epoch=expected.epoch, batch=expected.index)
                assert (batch.hash, batch.num_seeds) == (expected.hash, expected.num_seeds)
                assert torch.equal(batch.input_nodes, expected.input_nodes)
                for block, other in zip(batch.blocks, expected.blocks, strict=True):
                    assert (block.num_dst, block.num_src) == (other.num_dst, other.num_src)
                    assert torch.equal(block.indptr, other.indptr) and torch.equal(block.indices, other.indices)
                    assert (block.edge_ids is not None) == bool(more.get("edge_ids"))
                    if block.edge_ids is not None:
                        assert torch.equal(block.edge_ids, other.edge_ids)
                    assert (block.weights is not None) == expected.weighs_edges
                    if block.weights is not None:
                        assert torch.equal(block.weights, other.weights)
                rows = made.load(batch.input_nodes)
                assert torch.equal(rows, expected.x)
    assert bare.row_hit_rate == 0 < cached.row_hit_rate < 1


@pytest.mark.parametrize("dtype", ["float16", "uint8"])
def test_rows_have_the_type_of_the_table_or_the_wanted_one(tmp_path, dtype):
    graph = write_graph(tmp_path / "narrow", dtype=dtype)
    nodes = np.array([5, 0, 599, 5])
    table = uvatrain.Dataset(graph).features
    assert torch.equal(uvatrain.CachedDataset(graph, **OPTIONS).load(nodes), table[nodes])
    if dtype == "float16":
        wide = uvatrain.CachedDataset(graph, feature_type="float32", **OPTIONS).load(nodes)
        assert wide.dtype == torch.float32 and torch.equal(wide, table[nodes].float())


def test_a_plan_for_other_options_warns_and_for_another_dataset_fails(graph, plan, tmp_path):
    with pytest.warns(uvatrain.UvatrainWarning, match="fanouts"):
        uvatrain.CachedDataset(graph, plan, **{**OPTIONS, "fanouts": (5, 3)})
    other = write_graph(tmp_path / "other", nodes=601)
    with pytest.raises(ValueError, match="but this is other"):
        uvatrain.CachedDataset(other, plan, **OPTIONS)


def test_what_cannot_be_is_refused_by_name(graph):
    cached = uvatrain.CachedDataset(graph, **OPTIONS)
    with pytest.raises(ValueError, match="node 600"):
        cached.sample([0, 600])
    with pytest.raises(uvatrain.UvatrainError, match="600"):
        cached.load([600])
    with pytest.raises(ValueError, match="split"):
        cached.sample([0], split="training")
    with pytest.raises(ValueError, match="aggregate"):
        uvatrain.CachedDataset(graph, aggregate="mean", **OPTIONS)
    for option, value in [("features", "disk"), ("pad", "auto"), ("seed_order", "proximity:2")]:
        with pytest.raises(ValueError, match=option):
            uvatrain.CachedDataset(graph, **{option: value}, **OPTIONS)
    with pytest.raises(ValueError, match="device"):
        uvatrain.CachedDataset(graph, device="gpu", **OPTIONS)
    # A refused call leaves it in order.
    assert cached.sample([0, 7]).num_seeds == 2 and cached.load([]).shape == (0, 5)


def test_its_thread_ends_with_it_and_a_fork_says_that_it_has_none(graph):
    # Those of other tests end when their objects are gone.
    wait_for_threads(0)
    cached = uvatrain.CachedDataset(graph, **OPTIONS)
    assert threads() == 1
    child = os.fork()
    if child == 0:
        try:
            cached.sample([0])
        except uvatrain.UvatrainError as error:
            os._exit(0 if "fork" in str(error) else 1)
        os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    kept = cached.load([3])
    del cached
    wait_for_threads(0)
    assert torch.equal(kept[0], uvatrain.Dataset(graph).features[3])


def wait_for_threads(wanted):
    """Until `wanted` threads with caches are left; two minutes at most."""
    gc.collect()
    ended = threading.Event()
    for _ in range(1200):
        if threads() == wanted:
            return
        ended.wait(0.1)
    raise AssertionError(f"{threads()} threads with caches, and {wanted} are wanted")


def threads():
    """Threads with caches in this process."""
    names = []
    for task in os.listdir("/proc/self/task"):
        try:
            with open(f"/proc/self/task/{task}/comm") as name:
                names.append(name.read().strip())
        except FileNotFoundError:
            pass
    return names.count("caches")
