"""Nodes given in place of a split."""

import pytest
import torch
from graphs import OPTIONS, hashes

import uvatrain


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
        assert len(loader) == 1
        for batch in loader:
            assert batch.seeds.tolist() == ids == batch.input_nodes[:6].tolist()
            assert batch.input_id.tolist() == list(range(6))
            assert torch.equal(batch.y, dataset.labels[ids])
            assert torch.equal(batch.x, dataset.features[batch.input_nodes])
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


def test_a_state_records_the_given_nodes_and_their_order(graph):
    ids = list(range(0, 300, 2))
    with uvatrain.Loader(graph, input_nodes=ids, **OPTIONS) as loader:
        whole = hashes(loader)
        loader.set_epoch(0)
        for _ in loader:
            state = loader.state_dict()
            break
        plain = {**state, "input_nodes": None, "shuffle": True}
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
        assert loader.state_dict()["shuffle"] and loader.state_dict()["input_nodes"] is None
        with pytest.raises(ValueError, match="input_nodes is another: '150 nodes, .*None here"):
            loader.load_state_dict(state)


@pytest.mark.parametrize(
    ("nodes", "error", "message"),
    [
        ([3, 600], ValueError, "input_nodes: entry 1 is 600, outside the ids 0 to 599"),
        ([-1], ValueError, "input_nodes: entry 0 is -1, outside"),
        ([], ValueError, "input_nodes: no nodes are given"),
        ([False] * 600, ValueError, "input_nodes: no nodes are given"),
        ([True] * 599, ValueError, "input_nodes: the mask has 599 entries for 600 nodes"),
        (torch.ones(3, 2, dtype=torch.int64), ValueError, r"input_nodes is int64 \[3, 2\], but must have one dimension"),
        (torch.tensor(3), ValueError, r"input_nodes is int64 \[\], but must have one dimension"),
        ([1.0, 2.0], TypeError, r"input_nodes is float64 \[2\]: node ids must be integers"),
        (["a"], ValueError, "input_nodes is <U1"),
        ({1, 2}, ValueError, "input_nodes is a set: an array is needed"),
        ([None], ValueError, "input_nodes is of Python objects"),
        (5, ValueError, r"input_nodes is int64 \[\], but must have one dimension"),
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
