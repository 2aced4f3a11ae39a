"""Batches of a hop set: their rows, their order, and where they resume."""

import numpy as np
import pytest
import torch
from graphs import mix, write_graph

import uvatrain


@pytest.fixture(scope="module")
def hops(tmp_path_factory):
    """Hops of two operators, of 300 training rows."""
    folder = tmp_path_factory.mktemp("hops")
    return uvatrain.propagate(write_graph(folder / "graph"), folder / "set", operator="sym,row", hops=2)


def seen(loader):
    """What the batches of an epoch are."""
    return [(batch.hash, batch.seeds.clone(), [x.clone() for x in batch.xs], batch.y.clone()) for batch in loader]


def equal(one, other):
    def same(a, b):
        return (
            a[0] == b[0]
            and torch.equal(a[1], b[1])
            and torch.equal(a[3], b[3])
            and all(torch.equal(x, y) for x, y in zip(a[2], b[2], strict=True))
        )

    return len(one) == len(other) and all(same(*pair) for pair in zip(one, other, strict=True))


def hash_of(nodes):
    """docs/spec/reproducible-batches.md: tag 0 alone, over the ids of the nodes."""
    places = np.arange(len(nodes), dtype=np.uint64)
    with np.errstate(over="ignore"):
        return f"{mix(mix(places) ^ nodes.astype(np.uint64)).sum():016x}"


def test_an_epoch_has_every_training_row_once_and_the_rows_of_each_hop(hops):
    with uvatrain.HopLoader(hops, batch_size=64, input_id=True) as loader:
        assert len(loader) == 5 and loader.dataset is hops
        orders = []
        for _ in range(2):
            rows = []
            for number, batch in enumerate(loader):
                row = batch.input_id
                assert (batch.index, batch.split, batch.num_seeds) == (number, "train", 64 if number < 4 else 44)
                assert len(batch.xs) == 5
                for x, hop in zip(batch.xs, hops.hops, strict=True):
                    assert torch.equal(x, hop[row])
                assert torch.equal(batch.seeds, hops.node_idx[row]) and torch.equal(batch.y, hops.labels[row])
                assert batch.hash == hash_of(batch.seeds.numpy())
                rows.append(row.clone())
            orders.append(torch.cat(rows))
            assert torch.equal(orders[-1].sort().values, torch.arange(300))
        assert not torch.equal(*orders)


def test_validation_and_test_rows_come_in_their_order(hops):
    for split in ("valid", "test"):
        with uvatrain.HopLoader(hops.path, batch_size=32, split=split) as loader:
            x = torch.cat([batch.xs[0].clone() for batch in loader])
        assert torch.equal(x, hops.hops[0][hops.splits[split]])


def test_chunks_of_one_row_are_the_full_shuffle_and_others_stay_together(hops):
    def epoch(**options):
        with uvatrain.HopLoader(hops, batch_size=50, seed=7, input_id=True, **options) as loader:
            return seen(loader), torch.cat([batch.input_id.clone() for batch in loader])

    full, _ = epoch()
    assert equal(full, epoch(shuffle="chunks", chunk=1)[0])
    _, rows = epoch(shuffle="chunks", chunk=20)
    assert torch.equal(rows.sort().values, torch.arange(300))
    chunks = rows.view(15, 20)
    assert torch.equal(chunks, chunks[:, :1] + torch.arange(20))
    assert not torch.equal(chunks[:, 0].sort().values, chunks[:, 0])


def test_batches_do_not_depend_on_slots_samplers_or_layout(hops, tmp_path):
    together = uvatrain.propagate(
        hops.path.removesuffix("set") + "graph", tmp_path / "rows", operator="sym,row", hops=2, layout="rows"
    )
    with uvatrain.HopLoader(hops, batch_size=64) as loader:
        expected = seen(loader)
    for path, options in [(hops, dict(slots=2)), (hops, dict(slots=2, samplers=3)), (together, dict(samplers=2))]:
        with uvatrain.HopLoader(path, batch_size=64, **options) as loader:
            assert equal(seen(loader), expected)


def test_batches_do_not_depend_on_where_rows_are_read(hops):
    def epoch(**options):
        with uvatrain.HopLoader(hops, batch_size=64, shuffle="chunks", chunk=16, **options) as loader:
            return seen(loader)

    rows = epoch(features="memory")
    assert equal(rows, epoch(features="disk")) and equal(rows, epoch(features="disk", reader="mmap"))


def test_hops_are_picked_by_their_positions(hops):
    with uvatrain.HopLoader(hops, batch_size=300, hops=[4, 0], shuffle="chunks", chunk=300) as loader:
        batch = next(iter(loader))
        train = hops.splits["train"]
        assert [torch.equal(x, hops.hops[hop][train]) for x, hop in zip(batch.xs, [4, 0], strict=True)] == [True] * 2
        with pytest.raises(ValueError, match="hops 0 to 1"):
            batch._core.array("x", 2)


def test_a_state_resumes_after_the_current_batch(hops):
    with uvatrain.HopLoader(hops, batch_size=64) as loader:
        whole = seen(loader) + seen(loader)
        loader.set_epoch(0)
        for number, _ in enumerate(loader):
            if number == 2:
                state = loader.state_dict()
                break
    with uvatrain.HopLoader(hops, batch_size=64, samplers=2) as resumed:
        resumed.load_state_dict(state)
        assert equal(seen(resumed) + seen(resumed), whole[3:])
    for options in (dict(seed=1), dict(shuffle="chunks", chunk=10)):
        with uvatrain.HopLoader(hops, batch_size=64, **options) as other, pytest.raises(ValueError, match="is another"):
            other.load_state_dict(state)


def test_ranks_divide_the_batches_of_an_epoch(hops):
    with uvatrain.HopLoader(hops, batch_size=64) as loader:
        expected = [batch.hash for batch in loader]
    parts = []
    for rank in range(2):
        with uvatrain.HopLoader(hops, batch_size=64, rank=rank, world_size=2) as loader:
            parts.append([(batch.index, batch.hash) for batch in loader])
    assert all(expected[index] == hash for part in parts for index, hash in part)
    assert [index for index, _ in parts[0]][:2] == [0, 2] and [index for index, _ in parts[1]][:2] == [1, 3]


def test_tensors_view_the_slot_and_a_batch_ends_at_the_next_step(hops):
    with uvatrain.HopLoader(hops, batch_size=64) as loader:
        batches = iter(loader)
        first = next(batches)
        assert first.xs[0].data_ptr() == first.xs[0].data_ptr()
        next(batches)
        with pytest.raises(uvatrain.BatchGone):
            _ = first.xs
    assert "HopBatch(train" in repr(first)


@pytest.mark.parametrize(
    "options, field",
    [
        (dict(batch_size=0), "batch_size"),
        (dict(hops=[]), "hops"),
        (dict(hops=[5]), "hops"),
        (dict(hops=[-1]), "hops"),
        (dict(samplers=0), "samplers"),
        (dict(shuffle="chunks", chunk=65), "chunk"),
        (dict(shuffle="some"), "shuffle"),
        (dict(shuffle="chunks", chunk=0), "chunk"),
        (dict(chunk=10), "chunk"),
        (dict(slots=0), "slots"),
        (dict(features="tape"), "features"),
        (dict(features="memory", reader="uring"), "reader"),
        (dict(seed=-1), "seed"),
    ],
)
def test_an_option_that_cannot_be_is_named(hops, options, field):
    with pytest.raises(ValueError) as raised:
        uvatrain.HopLoader(hops, **dict(dict(batch_size=64), **options))
    assert raised.value.field == field and field in str(raised.value)


def test_a_dataset_is_not_a_hop_set_nor_a_hop_set_a_dataset(hops, graph):
    with pytest.raises(FileNotFoundError, match=r"hops\.json"):
        uvatrain.HopLoader(graph, batch_size=64)
    with pytest.raises(ValueError, match="HopLoader"):
        uvatrain.Loader(hops.path, fanouts=(2,), batch_size=64)
