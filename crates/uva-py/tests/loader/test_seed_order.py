"""Orders of the training seeds."""

import pytest
from graphs import OPTIONS, hashes

import uvatrain


def epochs_of(graph, count=2, **given):
    """The positions of the seeds, and the hashes of the batches."""
    with uvatrain.Loader(graph, input_id=True, **given, **OPTIONS) as loader:
        batches = [(batch.input_id.tolist(), batch.hash) for _ in range(count) for batch in loader]
    return [positions for positions, _ in batches], [hash for _, hash in batches]


def test_an_order_is_a_permutation_equal_for_any_samplers_and_from_a_file(graph, tmp_path):
    import numpy

    shuffled, _ = epochs_of(graph)
    for order in ("proximity:2", "segments:16", "proximity:auto"):
        given = dict(seed_order=order, **dict(order_tolerance=1.0) if order == "proximity:auto" else {})
        positions, expected = epochs_of(graph, **given)
        assert sorted(sum(positions[: len(positions) // 2], [])) == sorted(sum(shuffled[: len(shuffled) // 2], []))
        assert positions != shuffled
        assert epochs_of(graph, samplers=3, **given)[1] == expected, order
    # One sequence, which every epoch turns to another place.
    train = numpy.load(graph / "train_idx.npy")
    sequence = train[::-1].astype("uint32")
    numpy.save(tmp_path / "order.npy", sequence[None])
    positions, _ = epochs_of(graph, 1, seed_order="proximity:1", order=tmp_path / "order.npy")
    flat = sum(positions, [])
    places = {int(node): place for place, node in enumerate(train)}
    wanted = [places[int(node)] for node in sequence]
    begin = wanted.index(flat[0])
    assert flat == wanted[begin:] + wanted[:begin]


def test_a_state_records_the_order_of_the_seeds(graph):
    with uvatrain.Loader(graph, **OPTIONS) as loader:
        before = loader.state_dict()
    assert before["seed_order"] == "shuffle" and not {"order", "order_edges", "order_tolerance"} & set(before)
    with uvatrain.Loader(graph, seed_order="proximity:2", **OPTIONS) as loader:
        with pytest.raises(ValueError, match="state: seed_order is another"):
            loader.load_state_dict(before)
        whole = hashes(loader)
        state = dict(loader.state_dict(), epoch=0, batch=2)
        loader.load_state_dict(state)
        assert hashes(loader) == whole[2:]
    with uvatrain.Loader(graph, **OPTIONS) as loader, pytest.raises(ValueError, match="seed_order is another"):
        loader.load_state_dict(state)


@pytest.mark.parametrize(
    ("given", "field", "message"),
    [
        (dict(seed_order="proximity:0"), "seed_order", "1 to 1024"),
        (dict(seed_order="near"), "seed_order", "expected shuffle, proximity"),
        (dict(seed_order="proximity:2", split="valid"), "seed_order", "of the valid split"),
        (dict(seed_order="proximity:2", shuffle=False), "seed_order", "enable shuffling"),
        (dict(order="order.npy"), "order", "requires seed_order"),
        (dict(order_edges="in"), "order_edges", "requires seed_order"),
        (dict(seed_order="segments:9", order_tolerance=1.0), "order_tolerance", "chooses no number of sequences"),
    ],
)
def test_orders_that_cannot_be_are_refused_by_name(graph, given, field, message):
    with pytest.raises(ValueError, match=message) as raised:
        uvatrain.Loader(graph, **given, **OPTIONS)
    assert raised.value.field == field
