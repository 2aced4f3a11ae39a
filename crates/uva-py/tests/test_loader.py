"""The loop over a loader: epochs, states, slots that are kept, options, ranks."""

import gc
import threading
import time
import weakref
from pathlib import Path

import pytest
import torch
from conftest import WATCHDOG, run_python_well
from graphs import hashes, write_graph

import uvatrain

OPTIONS = dict(fanouts=(4, 3), batch_size=64, seed=3)
BATCHES = 5


@pytest.fixture
def loader(graph):
    with uvatrain.Loader(graph, **OPTIONS) as loader:
        yield loader


@pytest.fixture(scope="module")
def epochs(graph):
    """Hashes of the first epochs."""
    with uvatrain.Loader(graph, **OPTIONS) as loader:
        epochs = [hashes(loader) for _ in range(6)]
    assert len({hash for epoch in epochs for hash in epoch}) == 6 * BATCHES
    return epochs


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


def test_blocks_that_are_kept_do_not_keep_the_slot(loader):
    kept = []
    for blocks in map(lambda batch: batch.blocks, loader):
        kept.append(blocks)
    assert len(kept) == BATCHES
    with pytest.raises(uvatrain.BatchGone):
        kept[0][0].indptr


# --- Epochs -------------------------------------------------------------------------------------------------


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


def test_behind_a_break_the_next_epoch_begins_at_its_beginning(loader, epochs):
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


def test_validation_and_test_are_not_shuffled_and_may_stand_beside_training(graph, epochs):
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
    # The loop that is in its right goes on.
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


# --- States -------------------------------------------------------------------------------------------------


def all_states(loader, count):
    """The state within each step of the first epochs, and what follows it."""
    states, followed = [], []
    for _ in range(count):
        for batch in loader:
            for after in followed:
                after.append(batch.hash)
            states.append(loader.state_dict())
            followed.append([])
    return list(zip(states, followed, strict=True))


def test_every_state_resumes_at_the_next_batch(graph, loader):
    import json

    for state, followed in all_states(loader, 2):
        state = json.loads(json.dumps(state))
        with uvatrain.Loader(graph, **OPTIONS, samplers=2) as resumed:
            resumed.load_state_dict(state)
            assert resumed.epoch == state["epoch"] and resumed.state_dict() == state
            seen = hashes(resumed)
            while resumed.epoch < 2:
                seen += hashes(resumed)
            assert seen == followed


def test_a_state_between_epochs_is_the_next_ones_beginning(loader, epochs):
    fresh = loader.state_dict()
    assert (fresh["epoch"], fresh["batch"]) == (0, 0)
    hashes(loader)
    between = loader.state_dict()
    assert (between["epoch"], between["batch"]) == (1, 0)
    loader.set_epoch(4)
    assert loader.state_dict()["epoch"] == 4
    loader.load_state_dict(fresh)
    assert hashes(loader) == epochs[0]
    loader.load_state_dict(between)
    assert hashes(loader) == epochs[1]


def test_a_state_behind_a_break_is_that_of_the_last_batch(loader, epochs):
    for batch in loader:
        if batch.index == 1:
            break
    state = loader.state_dict()
    assert (state["epoch"], state["batch"]) == (0, 2)
    loader.load_state_dict(state)
    assert hashes(loader) == epochs[0][2:]


def test_a_loop_that_sets_every_epoch_resumes_in_the_middle_of_one(loader, epochs):
    state = dict(loader.state_dict(), epoch=2, batch=3)
    loader.load_state_dict(state)
    seen = []
    for epoch in range(2, 4):
        loader.set_epoch(epoch)
        seen += hashes(loader)
    assert seen == epochs[2][3:] + epochs[3]
    loader.load_state_dict(state)
    loader.set_epoch(1)
    assert hashes(loader) == epochs[1]


def test_a_state_loaded_in_the_middle_ends_the_iteration(loader, epochs):
    iteration = iter(loader)
    next(iteration)
    state = loader.state_dict()
    next(iteration)
    loader.load_state_dict(state)
    with pytest.raises(uvatrain.UvatrainError, match="a state was loaded"):
        next(iteration)
    assert hashes(loader) == epochs[0][1:]


@pytest.mark.parametrize(
    "other",
    [
        dict(fanouts=(4, 2)),
        dict(batch_size=32),
        dict(seed=4),
        dict(replace=True),
        dict(drop_last=True),
        dict(batch_dependency=2),
        dict(sampler_kind="labor"),
        dict(sampler_kind="walk"),
        dict(sampler_kind="ppr"),
        dict(split="valid"),
        dict(rank=0, world_size=2),
    ],
)
def test_a_state_of_other_options_is_refused_by_name(graph, loader, other):
    with uvatrain.Loader(graph, **{**OPTIONS, **other}) as another:
        name = list(other)[-1]
        with pytest.raises(ValueError, match=f"state: {name} is another"):
            loader.load_state_dict(another.state_dict())
    assert loader.epoch == 0 and next(iter(loader)).index == 0


def test_a_state_of_when_short_lists_were_taken_whole_with_replacement_is_refused(graph):
    with uvatrain.Loader(graph, **OPTIONS, replace=True) as loader:
        state = loader.state_dict()
        loader.load_state_dict(state)
        del state["replacement"]
        with pytest.raises(ValueError, match="state: replacement is missing"):
            loader.load_state_dict(state)


def test_a_state_of_another_dataset_is_refused(loader, tmp_path):
    with uvatrain.Loader(write_graph(tmp_path / "other", seed=9), **OPTIONS) as another:
        with pytest.raises(ValueError, match="the dataset is another"):
            loader.load_state_dict(another.state_dict())


def test_a_rank_resumes_from_the_state_of_another(graph):
    ranks = [uvatrain.Loader(graph, **OPTIONS, rank=rank, world_size=2) for rank in (0, 1)]
    next(iter(ranks[0]))
    expected = [batch.hash for batch in ranks[1]][1:]
    ranks[1].load_state_dict(ranks[0].state_dict())
    assert hashes(ranks[1]) == expected


@pytest.mark.parametrize(
    ("wrong", "error", "message"),
    [
        (None, ValueError, "no state"),
        ({}, ValueError, "no state"),
        (dict(version=2), ValueError, "version 2"),
        (dict(batch=6), ValueError, "batch 6"),
        (dict(batch=-1), ValueError, "batch -1"),
        (dict(batch="1"), ValueError, "batch '1'"),
        (dict(epoch=-1), ValueError, "epoch -1"),
        (dict(epoch=None), TypeError, "NoneType"),
    ],
)
def test_a_broken_state_is_refused(loader, wrong, error, message):
    state = {**loader.state_dict(), **wrong} if wrong else wrong
    with pytest.raises(error, match=message):
        loader.load_state_dict(state)
    state = loader.state_dict()
    del state["seed"]
    with pytest.raises(ValueError, match="seed is missing"):
        loader.load_state_dict(state)


# --- Slots --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("slots", [1, 2, 3, 4])
@pytest.mark.parametrize("name", ["x", "y", "seeds", "input_nodes"])
def test_a_tensor_kept_too_long_is_told_to_be_cloned(graph, slots, name):
    with uvatrain.Loader(graph, **OPTIONS, slots=slots) as loader:
        iteration = iter(loader)
        kept = getattr(next(iteration), name)
        values = kept.clone()
        for _ in range(slots - 1):
            next(iteration)
        with pytest.raises(
            uvatrain.SlotInUse, match=rf"batch 0 of epoch 0 \(train\).*\.clone\(\).*slots \({slots} now"
        ):
            next(iteration)
        # Its values are what they were, however often the next step was asked for.
        with pytest.raises(uvatrain.SlotInUse):
            next(iteration)
        assert torch.equal(kept, values)
        del kept
        assert next(iteration).index == slots


def test_the_batch_that_is_kept_is_the_one_that_is_named(graph):
    with uvatrain.Loader(graph, **OPTIONS, slots=2) as loader:
        iteration = iter(loader)
        next(iteration)
        kept = next(iteration).blocks[1].indices[3:5]
        next(iteration)
        with pytest.raises(uvatrain.SlotInUse, match="batch 1 of epoch 0"):
            next(iteration)
        del kept
        assert next(iteration).index == 3


def test_with_three_slots_the_last_steps_tensors_may_still_be_bound(graph, epochs):
    with uvatrain.Loader(graph, **OPTIONS) as loader:
        seen = []
        for _ in range(3):
            for batch in loader:
                x, nodes, block = batch.x, batch.input_nodes, batch.blocks[0]
                indices = block.indices
                seen.append(batch.hash)
        assert seen == sum(epochs[:3], [])
        assert x.shape[0] == len(nodes) and len(indices)


@pytest.mark.parametrize("slots", [1, 2, 3])
def test_a_tensor_that_is_bound_when_the_loop_goes_elsewhere_stays_good(graph, epochs, slots):
    with uvatrain.Loader(graph, **OPTIONS, slots=slots) as loader:
        kept = []
        for epoch in (0, 3, 1, 4):
            loader.set_epoch(epoch)
            for batch in loader:
                x, values = batch.x, batch.x.clone()
                break
            assert batch.hash == epochs[epoch][0]
            kept.append((x, values))
        del x
        assert all(torch.equal(x, values) for x, values in kept)
        # One after another is still by the slots.
        iteration = iter(loader)
        for _ in range(slots):
            kept.append((next(iteration).x, None))
        with pytest.raises(uvatrain.SlotInUse, match="the next batch needs"):
            next(iteration)


def test_clones_may_be_kept_for_ever(graph):
    with uvatrain.Loader(graph, **OPTIONS, slots=1) as loader:
        kept = [(batch.x.clone(), batch.input_nodes.clone()) for _ in range(3) for batch in loader]
    assert len(kept) == 3 * BATCHES


def test_a_tensor_in_a_cycle_is_collected_when_its_slot_is_needed(graph):
    class Knot:
        pass

    gc.collect()
    gc.disable()
    try:
        with uvatrain.Loader(graph, **OPTIONS, slots=1) as loader:
            for batch in loader:
                knot = Knot()
                knot.itself, knot.x = knot, batch.x
                del knot
    finally:
        gc.enable()


def test_a_batch_ends_at_the_next_step(loader):
    iteration = iter(loader)
    first = next(iteration)
    blocks, x = first.blocks, first.x
    next(iteration)
    for use in (
        lambda: first.x,
        lambda: first.y,
        lambda: first.seeds,
        lambda: first.array("x"),
        lambda: first.edge_index[0],
        lambda: blocks[0].indptr,
        lambda: first.confirm(),
    ):
        with pytest.raises(uvatrain.BatchGone, match=r"batch 0 of epoch 0 \(train\) is gone.*clone"):
            use()
    # What it is stays known, and a tensor that was taken stays good.
    assert (first.index, first.epoch, len(first.hash), first.num_seeds) == (0, 0, 16, 64)
    assert "gone" in repr(first) and len(blocks) == 2 and x.shape == (first.num_nodes, 5)


def test_the_last_batch_ends_with_the_epoch(loader):
    for batch in loader:
        pass
    with pytest.raises(uvatrain.BatchGone):
        batch.x


def test_behind_a_break_the_batch_is_good_until_the_next_step(loader):
    for batch in loader:
        break
    assert batch.x.shape[1] == 5
    iteration = iter(loader)
    assert batch.y.shape == (64,)
    next(iteration)
    with pytest.raises(uvatrain.BatchGone):
        batch.y


def test_batches_and_tensors_are_gone_without_the_collector(loader):
    gc.collect()
    gc.disable()
    try:
        seen = [
            weakref.ref(batch)
            for batch in loader
            if batch.x is not None and batch.blocks[0].indptr is not None
        ]
        assert [batch() for batch in seen] == [None] * BATCHES
    finally:
        gc.enable()


# --- The end ------------------------------------------------------------------------------------------------


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


def test_an_exception_in_the_loop_leaves_a_loader_that_goes_on(loader, epochs):
    with pytest.raises(ZeroDivisionError):
        for batch in loader:
            batch.index / 0
    assert hashes(loader) == epochs[1]


def test_a_loader_that_nobody_has_any_more_ends_its_threads(graph):
    def ours():
        names = [path.read_text().strip() for path in Path("/proc/self/task").glob("*/comm")]
        return sorted(name for name in names if name.startswith("uva-"))

    before = ours()
    loader = uvatrain.Loader(graph, **OPTIONS, samplers=2)
    iteration = iter(loader)
    x = next(iteration).x
    # A thread names itself when it begins: those that made the batch have.
    assert len(ours()) > len(before)
    del loader, iteration
    gc.collect()
    # They have been waited for; the system may list them for a moment longer.
    deadline = time.monotonic() + WATCHDOG
    while ours() != before and time.monotonic() < deadline:
        pass
    assert ours() == before and x.shape[1] == 5


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


def test_stats_tell_each_roles_times(loader):
    hashes(loader)
    stats = loader.stats()
    assert stats["bottleneck"] in ("sampler", "producer", "consumer")
    for role in ("sampler", "producer", "consumer"):
        assert stats[role]["working_s"] >= 0 and stats[role]["threads"] >= 1


def test_a_loader_is_not_sent_to_another_process(loader):
    import pickle

    with pytest.raises(TypeError, match="num_workers=0"):
        pickle.dumps(loader)


# --- Nodes that are given ---------------------------------------------------------------------------------------


def forms(ids, nodes, path):
    """The same nodes in every form that takes their order."""
    import numpy

    numpy.save(path, ids)
    return [
        ids,
        ids.astype("int32"),
        ids.tolist(),
        torch.from_numpy(ids),
        torch.from_numpy(ids).to(torch.int32),
        path,
        str(path),
    ]


def test_batches_of_given_nodes_are_those_of_a_split_with_the_same_list(graph, tmp_path):
    import shutil

    import numpy

    dataset = uvatrain.Dataset(graph)
    ids = numpy.random.default_rng(5).permutation(dataset.num_nodes)[:257]
    copy = shutil.copytree(graph, tmp_path / "copy")
    for split in ("train", "test"):
        numpy.save(copy / f"{split}_idx.npy", ids)
        for shuffle in (True, False):
            with uvatrain.Loader(copy, split=split, shuffle=shuffle, **OPTIONS) as loader:
                expected = [hashes(loader) for _ in range(2)]
            for given in forms(ids, dataset.num_nodes, tmp_path / "ids.npy"):
                options = dict(split=split, shuffle=shuffle, **OPTIONS)
                with uvatrain.Loader(dataset, input_nodes=given, **options) as loader:
                    assert [hashes(loader) for _ in range(2)] == expected


def test_given_nodes_keep_their_order_unless_they_are_shuffled(graph):
    import numpy

    ids = numpy.arange(0, 600, 4)[::-1].copy()
    with uvatrain.Loader(graph, input_nodes=ids, input_id=True, **OPTIONS) as loader:
        batches = [(batch.seeds.tolist(), batch.input_id.tolist()) for batch in loader]
    assert sum((seeds for seeds, _ in batches), []) == ids.tolist()
    assert sum((places for _, places in batches), []) == list(range(150))
    orders = []
    with uvatrain.Loader(graph, input_nodes=ids, input_id=True, shuffle=True, **OPTIONS) as loader:
        for _ in range(2):
            batches = [(batch.seeds.tolist(), batch.input_id.tolist()) for batch in loader]
            seeds, places = (sum(of, []) for of in zip(*batches))
            assert seeds == ids[places].tolist() and sorted(places) == list(range(150))
            orders.append(places)
    assert orders[0] != orders[1] and list(range(150)) not in orders


def test_the_splits_own_nodes_are_shuffled_or_not_as_asked(graph, epochs):
    own = uvatrain.Dataset(graph).splits
    for split, shuffle, shuffled in [
        ("train", None, True),
        ("train", True, True),
        ("train", False, False),
        ("valid", None, False),
        ("valid", True, True),
    ]:
        with uvatrain.Loader(graph, split=split, shuffle=shuffle, **OPTIONS) as loader:
            seeds = [sum((batch.seeds.tolist() for batch in loader), []) for _ in range(2)]
        assert sorted(seeds[0]) == sorted(seeds[1]) == sorted(own[split].tolist())
        assert (seeds[0] != own[split].tolist()) == shuffled == (seeds[0] != seeds[1])
    with uvatrain.Loader(graph, shuffle=True, **OPTIONS) as loader:
        assert hashes(loader) == epochs[0]


def test_a_mask_is_its_nodes_in_their_order_and_all_is_every_node(graph, tmp_path):
    import numpy

    mask = numpy.random.default_rng(5).random(600) < 0.3
    ids = numpy.flatnonzero(mask)
    numpy.save(tmp_path / "mask.npy", mask)
    with uvatrain.Loader(graph, input_nodes=ids, **OPTIONS) as loader:
        expected = hashes(loader)
    for given in (mask, mask.tolist(), torch.from_numpy(mask), tmp_path / "mask.npy"):
        with uvatrain.Loader(graph, input_nodes=given, **OPTIONS) as loader:
            assert hashes(loader) == expected
    for given in ("all", range(600), numpy.ones(600, dtype=bool)):
        with uvatrain.Loader(graph, input_nodes=given, **OPTIONS) as loader:
            assert sum((batch.seeds.tolist() for batch in loader), []) == list(range(600))


def test_a_node_that_is_given_again_is_a_seed_of_its_own(graph):
    ids = [3, 3, 5, 9, 3, 5]
    dataset = uvatrain.Dataset(graph)
    with uvatrain.Loader(graph, input_nodes=ids, input_id=True, **OPTIONS) as loader:
        (batch,) = loader
        assert batch.seeds.tolist() == ids == batch.input_nodes[:6].tolist()
        assert batch.input_id.tolist() == list(range(6))
        assert torch.equal(batch.y, dataset.labels[ids]) and torch.equal(batch.x, dataset.features[batch.input_nodes])
        for block in batch.blocks:
            lists = [block.indices[begin:end].tolist() for begin, end in zip(block.indptr, block.indptr[1:])]
            assert lists[0] == lists[1] == lists[4] and lists[2] == lists[5]
            # As a source, the first of them stands for all.
            assert not set(block.indices.tolist()) & {1, 4, 5}
    with uvatrain.Loader(graph, input_nodes=[*range(600), *range(600)], shuffle=True, **OPTIONS) as loader:
        seeds = sum((batch.seeds.tolist() for batch in loader), [])
    assert sorted(seeds) == sorted([*range(600), *range(600)])


def test_the_dataset_of_a_loader_keeps_its_own_splits(graph):
    own = uvatrain.Dataset(graph)
    with uvatrain.Loader(graph, input_nodes=[5, 4, 3], **OPTIONS) as loader:
        assert loader.dataset.train_idx.tolist() == own.train_idx.tolist()
        assert loader.dataset.fingerprint == own.fingerprint
        assert [batch.seeds.tolist() for batch in loader] == [[5, 4, 3]]


def test_the_last_batch_of_given_nodes_may_be_dropped(graph):
    with uvatrain.Loader(graph, input_nodes=range(130), drop_last=True, **OPTIONS) as loader:
        assert [batch.num_seeds for batch in loader] == [64, 64]
    with uvatrain.Loader(graph, input_nodes=range(63), drop_last=True, **OPTIONS) as loader:
        assert len(loader) == 0 == len(list(loader))


def test_ranks_divide_given_nodes(graph):
    with uvatrain.Loader(graph, input_nodes="all", **OPTIONS) as loader:
        whole = hashes(loader)
    for rank in range(3):
        with uvatrain.Loader(graph, input_nodes="all", rank=rank, world_size=3, **OPTIONS) as loader:
            assert hashes(loader) == whole[rank : len(whole) // 3 * 3 : 3]


def test_a_state_knows_the_given_nodes_and_their_order(graph):
    ids = list(range(0, 300, 2))
    with uvatrain.Loader(graph, input_nodes=ids, **OPTIONS) as loader:
        whole = hashes(loader)
        loader.set_epoch(0)
        for _ in loader:
            state = loader.state_dict()
            break
        plain = {name: value for name, value in state.items() if name not in ("input_nodes", "shuffle")}
    with uvatrain.Loader(graph, input_nodes=torch.tensor(ids), **OPTIONS) as loader:
        loader.load_state_dict(state)
        assert hashes(loader) == whole[1:]
        with pytest.raises(ValueError, match="input_nodes is another: None in the state, '150 nodes, "):
            loader.load_state_dict(plain)
    for other in (ids[::-1], ids[:-1], ids[:-1] + [301], "all"):
        with uvatrain.Loader(graph, input_nodes=other, **OPTIONS) as loader:
            with pytest.raises(ValueError, match="input_nodes is another"):
                loader.load_state_dict(state)
    with uvatrain.Loader(graph, input_nodes=ids, shuffle=True, **OPTIONS) as loader:
        with pytest.raises(ValueError, match="shuffle is another: False in the state, True here"):
            loader.load_state_dict(state)
    with uvatrain.Loader(graph, **OPTIONS) as loader:
        assert "shuffle" not in loader.state_dict() and "input_nodes" not in loader.state_dict()
        with pytest.raises(ValueError, match="input_nodes is another: '150 nodes, .*None here"):
            loader.load_state_dict(state)


@pytest.mark.parametrize(
    ("nodes", "error", "message"),
    [
        ([3, 600], ValueError, "input_nodes: entry 1 is 600, outside the ids 0 to 599"),
        ([-1], ValueError, "input_nodes: entry 0 is -1, outside"),
        ([], ValueError, "input_nodes: there is no node in it"),
        ([False] * 600, ValueError, "input_nodes: there is no node in it"),
        ([True] * 599, ValueError, "input_nodes: the mask has 599 entries, the dataset 600 nodes"),
        (torch.ones(3, 2, dtype=torch.int64), ValueError, r"input_nodes is int64 \[3, 2\], it has to have one dimension"),
        (torch.tensor(3), ValueError, r"input_nodes is int64 \[\], it has to have one dimension"),
        ([1.0, 2.0], TypeError, r"input_nodes is float64 \[2\]: node ids are integers"),
        (["a"], ValueError, "input_nodes is <U1"),
        ({1, 2}, ValueError, "input_nodes is a set: an array is needed"),
        ([None], ValueError, "input_nodes is of Python objects"),
        (5, ValueError, r"input_nodes is int64 \[\], it has to have one dimension"),
    ],
)
def test_nodes_that_cannot_be_are_refused_by_name(graph, nodes, error, message):
    with pytest.raises(error, match=message) as raised:
        uvatrain.Loader(graph, input_nodes=nodes, **OPTIONS)
    assert raised.value.field == "input_nodes"


def test_a_file_of_nodes_that_cannot_be_is_refused_by_its_name(graph, tmp_path):
    import numpy

    path = tmp_path / "nodes.npy"
    for content, message in [
        (numpy.array([3, 600]), "entry 1 is 600, outside the ids 0 to 599"),
        (numpy.array([], dtype=numpy.int64), "there is no node in it"),
        (numpy.zeros(600, dtype=bool), "there is no node in it"),
        (numpy.ones(599, dtype=bool), r"\[599\], it has to be \[600\], an entry for each node"),
        (numpy.ones((3, 2), dtype=numpy.int64), r"\[3, 2\], it has to be \[ids\]"),
        (numpy.ones(3), "float64, it has to be int64 or int32"),
    ]:
        numpy.save(path, content)
        with pytest.raises(ValueError, match=message) as raised:
            uvatrain.Loader(graph, input_nodes=path, **OPTIONS)
        assert str(path) in str(raised.value)
    path.write_bytes(b"ids")
    with pytest.raises(ValueError, match="nodes.npy"):
        uvatrain.Loader(graph, input_nodes=path, **OPTIONS)
    with pytest.raises(FileNotFoundError, match="nothing.npy"):
        uvatrain.Loader(graph, input_nodes=tmp_path / "nothing.npy", **OPTIONS)


# --- Other keywords of PyG's -----------------------------------------------------------------------------------


def test_num_neighbors_are_the_fanouts(graph, epochs):
    options = {name: value for name, value in OPTIONS.items() if name != "fanouts"}
    with uvatrain.Loader(graph, num_neighbors=[4, 3], **options) as loader:
        assert hashes(loader) == epochs[0]
    with pytest.raises(ValueError, match="num_neighbors and fanouts are one option") as raised:
        uvatrain.Loader(graph, num_neighbors=[4, 3], fanouts=[4, 3])
    assert raised.value.field == "num_neighbors"
    for wrong in (5, "4,3", {"edge": [4, 3]}):
        with pytest.raises(TypeError, match=f"num_neighbors is a {type(wrong).__name__}: a sequence is needed"):
            uvatrain.Loader(graph, num_neighbors=wrong)


def test_what_a_transform_returns_is_what_the_loop_gets(graph, epochs):
    seen = []
    with uvatrain.Loader(graph, transform=lambda batch: (seen.append(batch.hash), batch)[1], **OPTIONS) as loader:
        assert hashes(loader) == epochs[0] == seen
    with uvatrain.Loader(graph, transform=lambda batch: batch.x.sum().item(), **OPTIONS) as loader:
        sums = list(loader)
    with uvatrain.Loader(graph, **OPTIONS) as loader:
        assert sums == [batch.x.sum().item() for batch in loader]


def test_a_transforms_exception_is_the_loops_and_the_next_batch_follows(graph, epochs):
    def fail_once(batch):
        if batch.index == 1:
            raise KeyError("of its own")
        return batch.hash

    with uvatrain.Loader(graph, transform=fail_once, **OPTIONS) as loader:
        epoch, seen = iter(loader), []
        for _ in range(BATCHES):
            try:
                seen.append(next(epoch))
            except KeyError as error:
                assert "of its own" in str(error)
        assert seen == [hash for index, hash in enumerate(epochs[0]) if index != 1]
    with pytest.raises(TypeError, match="transform is a int: a function is needed") as raised:
        uvatrain.Loader(graph, transform=5)
    assert raised.value.field == "transform"
    with pytest.raises(TypeError, match="shuffle is True or False, not int") as raised:
        uvatrain.Loader(graph, shuffle=1)
    assert raised.value.field == "shuffle"


# --- Options ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (dict(batch_size=0), "batch_size=0"),
        (dict(batch_size=-1), "batch_size=-1: -1 is not 1 or more"),
        (dict(batch_size=2**100), "batch_size=1267650600228229401496703205376: 1267650600228229401496703205376 is too large"),
        (dict(fanouts=()), "fanouts: no fanout given"),
        (dict(fanouts=(3, 0)), "fanouts=3,0: hop 1 has fanout 0"),
        (dict(fanouts=(3, -2)), "fanouts=3,-2: hop 1 has fanout -2"),
        (dict(fanouts=(2**31,)), "fanouts=2147483648: hop 0 is '2147483648'"),
        (dict(slots=0), "slots=0"),
        (dict(samplers=0), "samplers=0"),
        (dict(samplers=121), "samplers=121"),
        (dict(gather_threads=0), "gather_threads=0"),
        (dict(batch_slots=2), "batch_slots=2"),
        (dict(slot_bytes=10), "slot_bytes: 10 bytes cannot hold"),
        (dict(seed=-1), "seed=-1"),
        (dict(seed=2**64), "seed=18446744073709551616"),
        (dict(batch_dependency=0), "batch_dependency=0"),
        (dict(sampler_kind="labour"), "sampler_kind=labour: 'labour' is none of neighbor, labor, weighted"),
        (dict(sampler_kind="labor", replace=True), "replace: the labor sampler"),
        (dict(sampler_kind="weighted"), "weight.npy"),
        (dict(sampler_kind="ladies", replace=True), "replace: the ladies sampler"),
        (dict(sampler_kind="fastgcn", expand="new"), "expand"),
        (dict(sampler_kind="saint-node", fanouts=(9, 8)), "fanouts: hop 1 has fanout 8"),
        (dict(sampler_kind="walk", edge_ids=True), "edge_ids: with "),
        (dict(sampler_kind="ppr", edge_ids=True), "edge_ids: with "),
        (dict(sampler_kind="ppr", walks=3), "walks: it is of no use with sampler_kind=ppr"),
        (dict(sampler_kind="walk", walks=0), "walks=0: 0 is not from 1 to 1024"),
        (dict(walk_length=3), "walk_length: it is of no use with sampler_kind=neighbor"),
        (dict(sampler_kind="walk", walk_stop=-1), "walk_stop=-1: -1 is not from 0 to 100"),
        (dict(split="validation"), 'split "validation": train, valid or test'),
        (dict(device="gpu"), 'device "gpu": cpu, cuda'),
        (dict(feature_type="float16"), "feature_type=float16: 'float16' is none of table, float32"),
        (dict(rank=0), "rank without world_size"),
        (dict(world_size=2), "world_size without rank"),
        (dict(rank=2, world_size=2), "rank=2: of world_size=2"),
        (dict(rank=-1, world_size=2), "rank=-1"),
        (dict(rank=0, world_size=0), "rank=0: of world_size=0"),
    ],
)
def test_a_wrong_option_is_a_value_error_that_names_it(graph, options, message):
    with pytest.raises(ValueError, match=message) as raised:
        uvatrain.Loader(graph, **{**OPTIONS, **options})
    assert "--" not in str(raised.value)


@pytest.mark.parametrize(
    "options", [dict(batch_size="many"), dict(fanouts=(1.5,)), dict(seed=None), dict(slots=2.0)]
)
def test_a_wrong_type_is_a_type_error_that_names_the_option(graph, options):
    with pytest.raises(TypeError, match=next(iter(options))):
        uvatrain.Loader(graph, **{**OPTIONS, **options})


@pytest.mark.parametrize("fanouts", [5, "5,5", b"55", torch.tensor(5), None])
def test_fanouts_that_are_no_sequence_are_a_type_error_that_shows_one(graph, fanouts):
    expected = rf"fanouts is a {type(fanouts).__name__}: a sequence is needed.*\(5, 5\)"
    with pytest.raises(TypeError, match=expected):
        uvatrain.Loader(graph, fanouts=fanouts)


def test_a_split_is_a_name_and_val_is_one_of_valid(graph):
    dataset = uvatrain.Dataset(graph)
    with pytest.raises(TypeError, match=r'split is a Tensor: .*"train", "valid" or "test".*train_idx'):
        uvatrain.Loader(graph, split=dataset.train_idx)
    with uvatrain.Loader(graph, split="val", **OPTIONS) as val:
        with uvatrain.Loader(graph, split="valid", **OPTIONS) as valid:
            assert val.split == "valid" and hashes(val) == hashes(valid)
            # A state of one is a state of the other.
            valid.load_state_dict(val.state_dict())


def test_an_open_dataset_may_stand_in_the_place_of_its_path(graph, tmp_path):
    import shutil

    copy = shutil.copytree(graph, tmp_path / "copy")
    dataset = uvatrain.Dataset(copy)
    with uvatrain.Loader(graph, **OPTIONS) as loader:
        expected = hashes(loader)
    # What is open stays: it is not opened by its name again.
    shutil.rmtree(copy)
    with uvatrain.Loader(dataset, **OPTIONS) as loader:
        assert hashes(loader) == expected
        assert loader.dataset is dataset and str(copy) in repr(loader)
    with pytest.raises(TypeError, match="path is a int"):
        uvatrain.Loader(5)


def test_numpys_integers_and_torchs_devices_are_options_too(graph):
    import numpy

    options = dict(fanouts=numpy.array([4, 3]), batch_size=numpy.int64(64), seed=numpy.uint64(3))
    with uvatrain.Loader(str(graph), **options, device=torch.device("cpu")) as loader:
        assert len(loader) == BATCHES


def test_files_that_are_not_there_are_os_errors(graph, tmp_path):
    with pytest.raises(FileNotFoundError) as raised:
        uvatrain.Loader(tmp_path / "nowhere")
    assert str(tmp_path / "nowhere") in str(raised.value)
    with pytest.raises(NotADirectoryError):
        uvatrain.Loader(graph / "feat.npy")
    (tmp_path / "empty").mkdir()
    with pytest.raises(FileNotFoundError, match=r"empty/\w+\.npy"):
        uvatrain.Loader(tmp_path / "empty")


def test_a_file_with_wrong_content_is_a_value_error_that_names_it(tmp_path):
    import numpy

    path = write_graph(tmp_path / "graph")
    numpy.save(path / "label.npy", numpy.zeros(3, dtype=numpy.int64))
    with pytest.raises(ValueError, match=r"label\.npy"):
        uvatrain.Loader(path)


def test_a_gpu_that_there_is_not_is_unavailable(graph):
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    with pytest.raises(uvatrain.Unavailable, match="device cuda:7.*device cpu"):
        uvatrain.Loader(graph, device="cuda:7")


def test_all_neighbours_need_a_bound_for_the_slot(graph):
    with pytest.raises(ValueError, match="fanouts.*-1.*slot_bytes"):
        uvatrain.Loader(graph, fanouts=(-1, -1))
    with uvatrain.Loader(graph, fanouts=(-1, -1), batch_size=64, slot_bytes=2**20) as loader:
        assert len(hashes(loader)) == BATCHES


# --- Ranks --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("world_size", [1, 2, 3, 7])
@pytest.mark.parametrize("split", ["train", "test"])
def test_ranks_divide_an_epoch_and_their_batches_are_the_same(graph, world_size, split):
    options = dict(OPTIONS, batch_size=20, split=split)
    with uvatrain.Loader(graph, **options) as alone:
        whole = hashes(alone)
    parts = []
    for rank in range(world_size):
        with uvatrain.Loader(graph, **options, rank=rank, world_size=world_size) as loader:
            assert (loader.rank, loader.world_size) == (rank, world_size)
            numbered = [(batch.index, batch.hash) for batch in loader]
            assert len(numbered) == len(loader)
            assert all(whole[index] == hash and index % world_size == rank for index, hash in numbered)
            parts.append(numbered)
    counts = {len(part) for part in parts}
    if split == "train":
        # As many for each: what is left over is nobody's.
        assert counts == {len(whole) // world_size}
    else:
        assert sum(len(part) for part in parts) == len(whole)
    assert len({index for part in parts for index, _ in part}) == sum(len(part) for part in parts)


def test_torchruns_environment_is_looked_at(graph):
    script = """
import sys, uvatrain
loader = uvatrain.Loader(sys.argv[1], fanouts=(2,), batch_size=20)
print(loader.rank, loader.world_size, len(loader))
assert "torch" not in sys.modules
"""
    assert run_python_well(script, graph, RANK="1", WORLD_SIZE="4").split() == ["1", "4", "3"]
    wrong = (
        "import sys, uvatrain\ntry: uvatrain.Loader(sys.argv[1])\nexcept ValueError as error: print(error)"
    )
    assert "RANK='one'" in run_python_well(wrong, graph, RANK="one", WORLD_SIZE="4")


def test_torch_distributed_is_asked_where_it_runs(graph):
    script = """
import sys, torch.distributed, uvatrain
torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
loader = uvatrain.Loader(sys.argv[1], fanouts=(2,), batch_size=20)
print(loader.rank, loader.world_size)
torch.distributed.destroy_process_group()
"""
    # The environment says something else, and is not asked.
    assert run_python_well(script, graph, RANK="3", WORLD_SIZE="4").split() == ["0", "1"]
