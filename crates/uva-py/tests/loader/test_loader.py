"""The loop over a loader: epochs, orders, its end."""

import gc
import os
import threading
import time
from pathlib import Path

import pytest
import torch
from conftest import WATCHDOG
from graphs import BATCHES, OPTIONS, hashes, write_graph

import uvatrain


@pytest.mark.parametrize("batch_size", [10**6, 2**32, 10**10, 2**62])
def test_a_batch_larger_than_the_split_is_the_whole_split(graph, batch_size):
    with uvatrain.Loader(graph, fanouts=(4, 3), seed=3, batch_size=batch_size) as loader:
        assert len(loader) == 1
        assert [batch.num_seeds for batch in loader] == [300]
    with uvatrain.Loader(graph, fanouts=(4, 3), batch_size=300, drop_last=True) as loader:
        assert len(loader) == 1


def test_the_last_epoch_that_can_be_named_is_there(graph):
    numpy = pytest.importorskip("numpy")
    with uvatrain.Loader(graph, **OPTIONS) as loader:
        loader.set_epoch(numpy.int64(2**30 - 1))
        assert [batch.epoch for batch in loader] == [2**30 - 1] * BATCHES
        with pytest.raises(ValueError, match="1073741823"):
            iter(loader)


def test_each_iteration_is_the_next_epoch(loader, epochs):
    assert len(loader) == BATCHES
    for epoch in range(3):
        assert loader.epoch == epoch
        seen = []
        for batch in loader:
            assert loader.epoch == batch.epoch == epoch and batch.index == len(seen)
            seen.append(batch.hash)
        assert seen == epochs[epoch]
    assert loader.epoch == 3


def test_any_epoch_can_be_set_before_an_iteration(loader, epochs):
    for epoch in (4, 0, 0, 5, 1):
        loader.set_epoch(epoch)
        assert loader.epoch == epoch
        assert hashes(loader) == epochs[epoch]
    assert hashes(loader) == epochs[2]


def test_an_epoch_set_in_the_middle_of_one_is_for_the_next(loader, epochs):
    seen = []
    for batch in loader:
        loader.set_epoch(4)
        assert loader.epoch == 0
        seen.append(batch.hash)
    assert seen == epochs[0] and loader.epoch == 4 and hashes(loader) == epochs[4]


def test_after_a_break_the_next_epoch_starts_at_its_first_batch(loader, epochs):
    for batch in loader:
        if batch.index == 2:
            break
    assert loader.epoch == 1
    assert hashes(loader) == epochs[1]
    for batch in loader:
        break
    assert hashes(loader) == epochs[3]


def test_samplers_and_slots_change_nothing(graph, epochs):
    for samplers, slots, gather_threads in [(1, 1, 1), (3, 2, 2), (2, 5, 3)]:
        threads = dict(samplers=samplers, slots=slots, gather_threads=gather_threads)
        with uvatrain.Loader(graph, **OPTIONS, **threads) as loader:
            assert [hashes(loader) for _ in range(3)] == epochs[:3]


def test_validation_and_test_are_not_shuffled_and_may_run_with_training(graph, epochs):
    with (
        uvatrain.Loader(graph, **OPTIONS) as train,
        uvatrain.Loader(graph, split="valid", **OPTIONS) as valid,
    ):
        for epoch in range(2):
            trained = []
            for batch in train:
                trained.append(batch.hash)
                if batch.index == 2:
                    seeds = [seed for batch in valid for seed in batch.seeds.tolist()]
                    assert len(seeds) == 70 and valid.epoch == epoch + 1
            assert trained == epochs[epoch]


def test_two_loops_over_one_loader_are_refused(loader):
    outer = iter(loader)
    next(outer)
    inner = iter(loader)
    assert next(inner).epoch == 1
    with pytest.raises(uvatrain.UvatrainError, match="one pass at a time"):
        next(outer)
    # The valid loop continues.
    assert next(inner).index == 1


def test_an_empty_split_has_no_batches(tmp_path):
    path = write_graph(tmp_path / "graph", splits=(100, 0, 10))
    with uvatrain.Loader(path, split="valid", **OPTIONS) as loader:
        assert len(loader) == 0 and hashes(loader) == [] and hashes(loader) == []
        assert loader.epoch == 2


def test_the_last_batch_may_be_dropped(graph, epochs):
    with uvatrain.Loader(graph, **OPTIONS, drop_last=True) as loader:
        assert len(loader) == BATCHES - 1
        assert [hashes(loader), hashes(loader)] == [epoch[:-1] for epoch in epochs[:2]]


def test_a_closed_loader_says_so_and_its_tensors_stay(graph):
    with uvatrain.Loader(graph, **OPTIONS) as loader:
        iteration = iter(loader)
        x = next(iteration).x
        values = x.clone()
    for use in (lambda: next(iteration), loader.stats, lambda: hashes(loader)):
        with pytest.raises(uvatrain.UvatrainError, match="closed"):
            use()
    loader.close()
    assert len(loader) == BATCHES and torch.equal(x, values)


def test_a_loader_still_works_after_an_exception_in_the_loop(loader, epochs):
    with pytest.raises(ZeroDivisionError):
        for batch in loader:
            batch.index / 0
    assert hashes(loader) == epochs[1]


def test_a_loader_without_references_ends_its_threads(graph):
    def ours():
        # By thread id: what an earlier test's loader left may end meanwhile.
        tasks = Path("/proc/self/task")
        return {task for task in os.listdir(tasks) if name_of(tasks / task).startswith("uva-")}

    def name_of(task):
        try:
            return (task / "comm").read_text()
        except (FileNotFoundError, ProcessLookupError):
            return ""

    before = ours()
    loader = uvatrain.Loader(graph, **OPTIONS, samplers=2)
    iteration = iter(loader)
    x = next(iteration).x
    # A thread names itself when it begins: those that made the batch have.
    threads = ours() - before
    assert threads
    del loader, iteration
    gc.collect()
    # They have been waited for; the system may list them for a moment longer.
    deadline = time.monotonic() + WATCHDOG
    while ours() & threads and time.monotonic() < deadline:
        pass
    assert not ours() & threads and x.shape[1] == 5


def test_a_loader_can_be_closed_from_another_thread_while_one_waits(big_graph):
    # The first batch takes seconds, in which the thread that closes runs: the other waits without the lock.
    loader = uvatrain.Loader(big_graph, fanouts=(-1,) * 8, batch_size=150_000, slot_bytes=2**30)
    waiting = threading.Event()
    ended = []

    def iterate():
        waiting.set()
        try:
            next(iter(loader))
        except uvatrain.UvatrainError as error:
            ended.append(str(error))

    thread = threading.Thread(target=iterate)
    thread.start()
    waiting.wait()
    loader.close()
    thread.join()
    assert len(ended) == 1 and "closed" in ended[0]


def test_stats_report_the_times_of_each_role(loader):
    hashes(loader)
    stats = loader.stats()
    assert stats["bottleneck"] in ("sampler", "producer", "consumer")
    for role in ("sampler", "producer", "consumer"):
        assert stats[role]["working_s"] >= 0 and stats[role]["threads"] >= 1


@pytest.mark.parametrize("samplers", [1, 3])
def test_workers_make_the_same_batches_and_report_their_own_times(graph, epochs, samplers):
    with uvatrain.Loader(graph, prepare="whole", samplers=samplers, pin_cores="all", **OPTIONS) as loader:
        assert [hashes(loader) for _ in range(2)] == epochs[:2]
        loader.set_epoch(4)
        assert hashes(loader) == epochs[4]
        stats = loader.stats()
        assert stats["bottleneck"] in ("worker", "consumer")
        assert stats["worker"]["threads"] == samplers and "sampler" not in stats and "producer" not in stats


def test_a_loader_is_not_sent_to_another_process(loader):
    import pickle

    with pytest.raises(TypeError, match="num_workers=0"):
        pickle.dumps(loader)


def test_rows_from_disk_with_a_host_cache_equal_those_in_memory(graph):
    with uvatrain.Loader(graph, **OPTIONS) as loader:
        expected = [(batch.hash, batch.x.clone()) for _ in range(2) for batch in loader]
        assert "disk" not in loader.stats()
    rows = sum(len(x) for _, x in expected)

    def from_disk(**options):
        with uvatrain.Loader(graph, features="disk", **OPTIONS, **options) as loader:
            found = [(batch.hash, batch.x.clone()) for _ in range(2) for batch in loader]
            disk = loader.stats()["disk"]
        assert len(found) == len(expected)
        assert all(hash == seen and x.equal(seen_x) for (hash, x), (seen, seen_x) in zip(found, expected, strict=True))
        return disk

    # Of 600 rows of 20 bytes, half of it has 187 throughout, and the other half room for 40. Rows in flight when the
    # loader is closed are counted, too.
    cached, plain = from_disk(host_cache="12KiB"), from_disk(look_ahead=0)
    of_rows = ("cached_rows", "kept_rows", "ahead_rows", "demanded_rows")
    assert all(sum(disk[name] for name in of_rows) >= rows for disk in (cached, plain))
    assert cached["cached_rows"] > rows / 4 and plain["cached_rows"] == 0
    assert 0 < cached["bytes_asked"] < plain["bytes_asked"]


def test_a_host_cache_is_refused_where_it_cannot_be(graph):
    for given, part in [(0, "0 bytes cache nothing"), ("12 apples", "12 apples"), (-1, "-1"), (1.5, "float")]:
        with pytest.raises((ValueError, TypeError), match=part) as refused:
            uvatrain.Loader(graph, features="disk", host_cache=given, **OPTIONS)
        assert refused.value.field == "host_cache"
    with pytest.raises(uvatrain.Unavailable, match="host_cache=1024TiB: .* are available; give less, or auto"):
        uvatrain.Loader(graph, features="disk", host_cache="1024TiB", **OPTIONS)
    # Rows in memory need none.
    with uvatrain.Loader(graph, host_cache="auto", **OPTIONS) as loader:
        assert "disk" not in loader.stats()
