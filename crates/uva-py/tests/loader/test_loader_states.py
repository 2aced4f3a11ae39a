"""States of a loader: saved, loaded, refused."""

import pytest
from graphs import OPTIONS, hashes, write_graph

import uvatrain


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


def test_a_state_between_epochs_is_the_start_of_the_next(loader, epochs):
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


def test_the_state_after_a_break_is_that_of_the_last_batch(loader, epochs):
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
    ],
)
def test_a_state_of_other_options_is_refused_by_name(graph, loader, other):
    with uvatrain.Loader(graph, **{**OPTIONS, **other}) as another:
        name = list(other)[-1]
        with pytest.raises(ValueError, match=f"state: {name} is another"):
            loader.load_state_dict(another.state_dict())
    assert loader.epoch == 0 and next(iter(loader)).index == 0


def test_a_state_has_everything_that_batches_depend_on(loader):
    state = loader.state_dict()
    place = {"version", "split", "epoch", "first", "batch", "trainers", "world_size"}
    for name in sorted(set(state) - {"version"}):
        left = {key: value for key, value in state.items() if key != name}
        with pytest.raises((ValueError, TypeError), match=name if name in place else f"state: {name} is missing"):
            loader.load_state_dict(left)
    assert {"sampler_kind", "seed_order", "input_nodes", "shuffle", "order_file", "fingerprint"} <= set(state)


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


@pytest.mark.parametrize(("before", "steps", "after"), [(2, 4, 3), (3, 1, 2), (1, 7, 4), (4, 2, 1), (2, 9, 1)])
def test_another_number_of_ranks_continues_with_the_remaining_batches(graph, before, steps, after):
    options = {**OPTIONS, "batch_size": 16}
    with uvatrain.Loader(graph, **options) as whole:
        # 19 in an epoch.
        expected = [hashes(whole) for _ in range(3)]

    def ranks(count):
        return [uvatrain.Loader(graph, **options, rank=rank, world_size=count) for rank in range(count)]

    def of_epoch(loaders, places):
        return {batch.index: batch.hash for loader in loaders for batch, _ in zip(loader, places(loader))}

    first = ranks(before)
    of_epoch(first, lambda loader: range(len(loader)))
    seen, states = {}, []
    for loader in first:
        for _, batch in zip(range(steps), loader):
            seen[batch.index] = batch.hash
            state = loader.state_dict()
        states.append(state)
    assert all(state == states[0] for state in states) and states[0]["epoch"] == 1

    then = ranks(after)
    left = {}
    for loader in then:
        loader.load_state_dict(states[0])
        iteration = iter(loader)
        # After the last step of an epoch nothing is left of it, even if fewer ranks would find batches there.
        expected_steps = (19 - before * steps) // after if steps < 19 // before else 0
        assert iteration.__length_hint__() == expected_steps
        for number, batch in enumerate(iteration, 1):
            left[batch.index] = batch.hash
            # Its own states are those of any loader.
            resumed = loader.state_dict()
            assert (resumed["first"], resumed["batch"]) == (before * steps, number)
        assert loader.epoch == 2
    assert not seen.keys() & left.keys()
    assert sorted({**seen, **left}) == list(range(before * steps + expected_steps * after))
    assert all(expected[1][index] == hash for index, hash in {**seen, **left}.items())
    # The next epoch is divided from its beginning.
    assert of_epoch(then, lambda loader: range(1)) == dict(enumerate(expected[2][:after]))
    # A state of a resumed loader is loaded by a third number of ranks.
    if expected_steps:
        with uvatrain.Loader(graph, **options) as one:
            place = {"first": before * steps, "batch": 0, "world_size": after, "trainers": after}
            one.load_state_dict({**states[0], **place})
            assert next(iter(one)).hash == expected[1][before * steps]
    for loader in first + then:
        loader.close()


def test_a_validation_that_other_ranks_began_is_resumed(graph):
    options = {**OPTIONS, "batch_size": 8, "split": "valid"}
    with uvatrain.Loader(graph, **options) as whole:
        # 9 batches: of two ranks, the first has one more.
        expected = hashes(whole)
    with uvatrain.Loader(graph, **options, rank=0, world_size=2) as two:
        for _ in zip(range(2), two):
            state = two.state_dict()
        two_states = [two.state_dict() for _ in two]
    found = {}
    for rank in range(3):
        with uvatrain.Loader(graph, **options, rank=rank, world_size=3) as loader:
            loader.load_state_dict(state)
            found |= {batch.index: batch.hash for batch in loader}
    # A step further than the second rank has batches.
    with uvatrain.Loader(graph, **options, rank=1, world_size=2) as other:
        other.load_state_dict(two_states[-1])
        assert two_states[-1]["batch"] == 5 and hashes(other) == []
    assert sorted(found) == [4, 5, 6, 7, 8] and all(expected[index] == hash for index, hash in found.items())


def test_an_order_that_depends_on_the_number_of_ranks_is_not_resumed(graph):
    options = {**OPTIONS, "seed_order": "proximity"}
    with uvatrain.Loader(graph, **options) as loader:
        state = loader.state_dict()
        loader.load_state_dict(state)
    with uvatrain.Loader(graph, **options, rank=0, world_size=2) as loader:
        with pytest.raises(ValueError, match="made by 1 ranks, but there are 2.*proximity:3"):
            loader.load_state_dict(state)


@pytest.mark.parametrize(
    ("wrong", "error", "message"),
    [
        (None, ValueError, "not a loader's state"),
        ({}, ValueError, "not a loader's state"),
        (dict(version=2), ValueError, "version 2 is not known here; version 1 is"),
        (dict(batch=6), ValueError, "batch 6"),
        (dict(batch=-1), ValueError, "batch -1"),
        (dict(batch="1"), ValueError, "batch '1'"),
        (dict(first=6), ValueError, "first 6"),
        (dict(world_size=0), ValueError, "world_size 0"),
        (dict(trainers=2), ValueError, "trainers 2"),
        (dict(world_size=2, trainers=2, batch=3), ValueError, "batch 3"),
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
