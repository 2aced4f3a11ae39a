"""Options of a loader, and what gets a person who gives wrong ones."""

import pytest
import torch
from graphs import BATCHES, OPTIONS, hashes, write_graph

import uvatrain


def test_num_neighbors_are_the_fanouts(graph, epochs):
    options = {name: value for name, value in OPTIONS.items() if name != "fanouts"}
    with uvatrain.Loader(graph, num_neighbors=[4, 3], **options) as loader:
        assert hashes(loader) == epochs[0]
    with pytest.raises(ValueError, match="num_neighbors and fanouts are one option") as raised:
        uvatrain.Loader(graph, num_neighbors=[4, 3], fanouts=[4, 3])
    assert raised.value.field == "num_neighbors"
    with pytest.raises(ValueError, match="one node type and one relation"):
        uvatrain.Loader(graph, num_neighbors={"edge": [4, 3]})
    for wrong in (5, "4,3"):
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


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (dict(batch_size=0), "batch_size=0"),
        (dict(batch_size=-1), "batch_size=-1: -1 is not 1 or more"),
        (dict(batch_size=2**100), "batch_size=1267650600228229401496703205376: 1267650600228229401496703205376 is too large"),
        (dict(fanouts=()), "fanouts: no fanout given"),
        (dict(fanouts=(3, 0)), "fanouts=3,0: hop 1: invalid value '0': expected -1 .* or 1 to 16777216"),
        (dict(fanouts=(3, -2)), "fanouts=3,-2: hop 1: invalid value '-2'"),
        (dict(fanouts=(2**31,)), "fanouts=2147483648: hop 0: invalid value '2147483648'"),
        (dict(fanouts=(5, 2**24 + 1)), "fanouts=5,16777217: hop 1: invalid value '16777217'"),
        (dict(slots=0), "slots=0"),
        (dict(samplers=0), "samplers=0"),
        (dict(samplers=121), "samplers=121"),
        (dict(gather_threads=0), "gather_threads=0"),
        (dict(batch_slots=2), "batch_slots=2"),
        (dict(slot_bytes=10), "slot_bytes=10: it cannot hold"),
        (dict(seed=-1), "seed=-1"),
        (dict(seed=2**64), "seed=18446744073709551616"),
        (dict(batch_dependency=0), "batch_dependency=0"),
        (dict(sampler_kind="labour"), "sampler_kind=labour: 'labour' is not one of neighbor, labor, weighted"),
        (dict(sampler_kind="labor", replace=True), "replace: not supported with sampler_kind=labor"),
        (dict(sampler_kind="weighted"), "weight.npy"),
        (dict(sampler_kind="ladies", replace=True), "replace: not supported with sampler_kind=ladies"),
        (dict(sampler_kind="fastgcn", expand="new"), "expand"),
        (dict(sampler_kind="saint-node", fanouts=(9, 8)), "fanouts: hop 1 has fanout 8"),
        (dict(sampler_kind="walk", edge_ids=True), "edge_ids: not supported with "),
        (dict(sampler_kind="ppr", edge_ids=True), "edge_ids: not supported with "),
        (dict(sampler_kind="ppr", walks=3), "walks: only valid with sampler_kind=walk, not with sampler_kind=ppr"),
        (dict(sampler_kind="walk", walks=0), "walks=0: 0 is not from 1 to 1024"),
        (dict(walk_length=3), "walk_length: only valid with sampler_kind=walk, not with sampler_kind=neighbor"),
        (dict(sampler_kind="walk", walk_stop=-1), "walk_stop=-1: -1 is not from 0 to 100"),
        (dict(split="validation"), 'split "validation": train, valid or test'),
        (dict(device="gpu"), 'invalid device "gpu": expected cpu, cuda'),
        (dict(feature_type="float16"), "feature_type=float16: 'float16' is not one of table, float32"),
        (dict(rank=0), "rank without world_size"),
        (dict(world_size=2), "world_size without rank"),
        (dict(rank=2, world_size=2), "rank=2: expected 0 to 1, with world_size=2"),
        (dict(rank=-1, world_size=2), "rank=-1"),
        (dict(rank=0, world_size=0), "world_size=0: expected 1 or more"),
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
def test_fanouts_that_are_not_a_sequence_are_a_type_error_with_an_example(graph, fanouts):
    expected = rf"fanouts is a (torch\.)?{type(fanouts).__name__}: a sequence is needed.*\(5, 5\)"
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


def test_an_open_dataset_is_accepted_instead_of_its_path(graph, tmp_path):
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


def test_missing_files_are_os_errors(graph, tmp_path):
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


def test_a_missing_gpu_is_unavailable(graph):
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    with pytest.raises(uvatrain.Unavailable, match="device=cuda:7.*device=cpu"):
        uvatrain.Loader(graph, device="cuda:7")


def test_all_neighbours_need_a_bound_for_the_slot(graph):
    with pytest.raises(ValueError, match="fanouts.*-1.*slot_bytes"):
        uvatrain.Loader(graph, fanouts=(-1, -1))
    with uvatrain.Loader(graph, fanouts=(-1, -1), batch_size=64, slot_bytes=2**20) as loader:
        assert len(hashes(loader)) == BATCHES
