"""How long batches and their tensors are good: slots that are kept, and that are not."""

import gc
import weakref

import pytest
import torch
from graphs import BATCHES, OPTIONS

import uvatrain


def test_blocks_that_are_kept_do_not_keep_the_slot(loader):
    kept = []
    for blocks in map(lambda batch: batch.blocks, loader):
        kept.append(blocks)
    assert len(kept) == BATCHES
    with pytest.raises(uvatrain.BatchGone):
        kept[0][0].indptr


@pytest.mark.parametrize("slots", [1, 2, 3, 4])
@pytest.mark.parametrize("name", ["x", "y", "seeds", "input_nodes"])
def test_the_error_for_a_tensor_kept_too_long_advises_to_clone_it(graph, slots, name):
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
        # Its values are what they were, however often the next step was requested.
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
def test_a_tensor_bound_when_a_loop_breaks_stays_valid(graph, epochs, slots):
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


def test_clones_may_be_kept_indefinitely(graph):
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


def test_after_a_break_the_batch_is_valid_until_the_next_step(loader):
    for batch in loader:
        break
    assert batch.x.shape[1] == 5
    iteration = iter(loader)
    assert batch.y.shape == (64,)
    next(iteration)
    with pytest.raises(uvatrain.BatchGone):
        batch.y


def test_batches_and_tensors_are_freed_without_the_collector(loader):
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
