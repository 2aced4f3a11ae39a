"""Datasets: opened, written from arrays of all sorts, and refused before anything of them is there."""

import json
import os
import pickle
import subprocess
import warnings

import numpy as np
import pytest
import torch

import uvatrain
from conftest import run_python_well
from graphs import Tables, write_graph


def arrays(**changes):
    """Three nodes, four edges."""
    made = dict(
        indptr=np.array([0, 1, 3, 4]),
        indices=np.array([1, 0, 2, 1], np.int32),
        features=np.arange(12, dtype=np.float32).reshape(3, 4),
        labels=np.array([0, 1, -1]),
        train_idx=np.array([0]),
        valid_idx=np.array([1]),
        test_idx=np.array([2]),
    )
    return {**made, **changes}


def names(path):
    return sorted(os.listdir(path))


def test_a_dataset_describes_its_content_and_lends_its_tables(graph):
    dataset, tables = uvatrain.Dataset(graph), Tables(graph)
    assert (dataset.num_nodes, dataset.num_edges) == (600, len(tables.indices))
    assert (dataset.feature_dim, dataset.feature_dtype, dataset.num_classes) == (5, "float32", 4)
    assert dataset.name == graph.name and dataset.path == str(graph) and not dataset.multi_label
    assert dataset.meta == json.loads((graph / "meta.json").read_text())
    assert len(dataset.fingerprint) == 16
    assert torch.equal(dataset.indptr, torch.from_numpy(tables.indptr))
    assert torch.equal(dataset.indices, torch.from_numpy(tables.indices))
    assert torch.equal(dataset.features, torch.from_numpy(tables.features))
    assert torch.equal(dataset.labels, torch.from_numpy(tables.labels))
    for split, index in tables.splits.items():
        assert torch.equal(dataset.splits[split], torch.from_numpy(index))
    assert dataset.weight is None and dataset.orig_id is None
    assert "600 nodes" in repr(dataset)


def test_tables_view_a_private_mapping_that_loaders_do_not_see(tmp_path):
    path = write_graph(tmp_path / "graph")
    dataset = uvatrain.Dataset(path)
    before = Tables(path)
    mapped = [line for line in open("/proc/self/maps") if line.rstrip().endswith(str(path / "feat.npy"))]
    begins = [int(line.split("-")[0], 16) for line in mapped]
    ends = [int(line.split("-")[1].split()[0], 16) for line in mapped]
    at = dataset.features.data_ptr()
    assert any(begin <= at < end for begin, end in zip(begins, ends)), "not in a mapping of the file"
    assert dataset.features.data_ptr() == dataset.features.data_ptr()
    # torch knows no read-only tensor, so this has to be harmless.
    dataset.features.fill_(7)
    dataset.indptr.zero_()
    dataset.indices.fill_(10**6)
    assert (dataset.features == 7).all()
    after = Tables(path)
    assert np.array_equal(after.features, before.features) and np.array_equal(after.indices, before.indices)
    with uvatrain.Loader(path, fanouts=[3], batch_size=50) as loader:
        batch = next(iter(loader))
        assert torch.equal(batch.x, torch.from_numpy(before.features)[batch.input_nodes])
    assert torch.equal(uvatrain.Dataset(path).features, torch.from_numpy(before.features))


def test_a_table_outlives_its_dataset(graph):
    features = uvatrain.Dataset(graph).features
    assert torch.equal(features, torch.from_numpy(Tables(graph).features))


@pytest.mark.parametrize(
    "dtype", [torch.float32, torch.float16, torch.bfloat16, torch.float8_e4m3fn, torch.uint8, torch.int8]
)
@pytest.mark.parametrize("library", ["torch", "numpy"])
def test_features_of_every_type_round_trip_unchanged(tmp_path, dtype, library):
    features = torch.arange(12).reshape(3, 4).to(dtype)
    given = features
    if library == "numpy":
        if dtype in (torch.bfloat16, torch.float8_e4m3fn):
            pytest.skip(f"numpy has no {dtype}")
        given = features.numpy()
    dataset = uvatrain.write_dataset(tmp_path / "graph", **arrays(features=given))
    assert dataset.features.dtype == dtype and torch.equal(dataset.features.float(), features.float())
    assert dataset.feature_dtype == str(dtype).removeprefix("torch.")


def test_arrays_may_be_of_torch_numpy_lists_or_any_library_with_dlpack(tmp_path):
    class Exporter:
        def __init__(self, tensor):
            self.tensor = tensor

        def __dlpack__(self, **options):
            return self.tensor.__dlpack__()

        def __dlpack_device__(self):
            return self.tensor.__dlpack_device__()

    class Convertible:
        def __array__(self, dtype=None, copy=None):
            return np.array([0, 1, -1])

    read_only = np.array([1, 0, 2, 1], np.int32)
    read_only.flags.writeable = False
    strided = torch.arange(24, dtype=torch.float32).reshape(4, 6).t()[:3]
    dataset = uvatrain.write_dataset(
        tmp_path / "graph",
        **arrays(
            indptr=Exporter(torch.tensor([0, 1, 3, 4])),
            indices=read_only,
            features=strided.requires_grad_(),
            labels=Convertible(),
            train_idx=[0],
            valid_idx=(),
            test_idx=torch.tensor([2], dtype=torch.uint8),
        ),
    )
    assert dataset.indptr.tolist() == [0, 1, 3, 4] and dataset.indices.tolist() == [1, 0, 2, 1]
    assert dataset.indices.dtype == torch.int32 and dataset.indptr.dtype == torch.int64
    assert torch.equal(dataset.features, strided.detach())
    assert dataset.labels.tolist() == [0, 1, -1]
    assert [index.tolist() for index in dataset.splits.values()] == [[0], [], [2]]


def test_a_mapped_array_larger_than_a_piece_is_written_from_the_mapping(tmp_path):
    nodes = 100_000
    np.save(tmp_path / "features.npy", np.random.default_rng(0).random((nodes, 3), np.float32))
    features = np.load(tmp_path / "features.npy", mmap_mode="r")
    labels = np.arange(nodes, dtype=np.int16) % 7
    dataset = uvatrain.write_dataset(
        tmp_path / "graph",
        indptr=np.arange(nodes + 1, dtype=np.uint32),
        indices=np.arange(nodes, dtype=np.int64)[::-1],
        features=features,
        labels=labels,
        train_idx=np.arange(nodes),
    )
    assert np.array_equal(dataset.features.numpy(), features)
    assert np.array_equal(dataset.labels.numpy(), labels)
    assert np.array_equal(dataset.indptr.numpy(), np.arange(nodes + 1))
    assert np.array_equal(dataset.indices.numpy(), np.arange(nodes)[::-1])


def test_labels_of_several_classes_weights_and_original_ids_are_kept(tmp_path):
    several = np.array([[1, 0], [0, 0], [1, 1]])
    for labels in (several.astype(np.uint8), several.astype(bool), torch.from_numpy(several).bool()):
        dataset = uvatrain.write_dataset(
            tmp_path / "graph",
            **arrays(labels=labels, weight=torch.tensor([0.5, 1, 2, 3]), orig_id=[7, 5, 2**40 - 1]),
            overwrite=True,
        )
        assert dataset.multi_label and dataset.num_classes == 2 and dataset.labels.dtype == torch.uint8
        assert dataset.labels.tolist() == several.tolist()
        assert dataset.weight.tolist() == [0.5, 1, 2, 3] and dataset.orig_id.tolist() == [7, 5, 2**40 - 1]


def test_meta_json_says_what_was_given_and_nothing_where_nothing_was(tmp_path):
    dataset = uvatrain.write_dataset(
        tmp_path / "a", **arrays(), name="three", classes=9, licence="CC0", source={"year": 1}
    )
    assert dataset.meta == {"name": "three", "classes": 9, "licence": "CC0", "source": {"year": 1}}
    assert dataset.name == "three" and dataset.num_classes == 9
    assert not (tmp_path / "b").exists()
    assert uvatrain.write_dataset(tmp_path / "b", **arrays()).name == "b"
    assert not (tmp_path / "b/meta.json").exists()


@pytest.mark.parametrize("library", ["torch", "numpy", "dlpack"])
def test_64_bits_are_narrowed_to_32_with_a_warning_at_the_caller(tmp_path, library):
    class Exporter:
        """Has only the methods of DLPack."""

        def __init__(self, array):
            self.tensor = torch.from_numpy(array)

        def __dlpack__(self, **options):
            return self.tensor.__dlpack__()

        def __dlpack_device__(self):
            return self.tensor.__dlpack_device__()

    made = dict(torch=torch.from_numpy, numpy=np.asarray, dlpack=Exporter)[library]
    # More than is narrowed at a time.
    features, weight = np.random.default_rng(0).random((3, 5000)), np.array([0.1, 1, 2, 3])
    with pytest.warns(uvatrain.UvatrainWarning) as told:
        dataset = uvatrain.write_dataset(
            tmp_path / "graph", **arrays(features=made(features), weight=made(weight))
        )
    assert np.array_equal(dataset.features, features.astype(np.float32))
    assert np.array_equal(dataset.weight, weight.astype(np.float32))
    assert [str(warning.message) for warning in told] == [
        "features is float64 [3, 5000]: float64 becomes float32",
        "weight is float64 [4]: float64 becomes float32",
    ]
    assert {warning.filename for warning in told} == {__file__}


def test_a_warning_as_error_or_an_overflow_of_float32_leaves_nothing(tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(uvatrain.UvatrainWarning, match="features is float64"):
            uvatrain.write_dataset(tmp_path / "graph", **arrays(features=np.zeros((3, 4))))
        assert os.listdir(tmp_path) == []
        warnings.simplefilter("ignore")
        with pytest.raises(ValueError, match=r"feat\.npy"):
            uvatrain.write_dataset(tmp_path / "graph", **arrays(features=np.full((3, 4), 1e300)))
        assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("nodes", [3, 10_000])
def test_without_labels_no_node_has_one_and_batches_say_so(tmp_path, nodes):
    made = arrays(
        indptr=np.arange(nodes + 1),
        indices=np.arange(nodes)[::-1].copy(),
        features=np.ones((nodes, 2), np.float32),
    )
    del made["labels"]
    dataset = uvatrain.write_dataset(tmp_path / "graph", **made)
    assert dataset.labels is None
    assert dataset.num_classes == 0 and not dataset.multi_label
    for split in ("train", "valid", "test"):
        with uvatrain.Loader(dataset, fanouts=[1, 1], split=split) as loader:
            assert [batch.y for batch in loader] == [None]


WRONG = [
    (dict(indptr=np.array([0.0, 1, 3, 4])), "indptr is float64 [4], but must be int64 [nodes + 1]"),
    (dict(indptr=np.empty(0, np.int64)), "indptr is int64 [0]"),
    (dict(indptr=np.zeros((2, 2), np.int64)), "indptr is int64 [2, 2]"),
    (dict(indptr=np.array([0, 1, 3, 4], np.uint64)), "indptr is uint64 [4]"),
    (
        dict(indices=np.array([[1, 0], [2, 1]])),
        "indices is int64 [2, 2], but must be int32 or int64 [edges]",
    ),
    (dict(indices=torch.tensor([1.0, 0, 2, 1])), "indices is float32 [4]"),
    (
        dict(features=np.zeros((3, 4), np.int64)),
        "features is int64 [3, 4], but must be float32, float16, bfloat16, float8_e4m3fn, uint8 or int8",
    ),
    (dict(features=np.zeros((2, 4))), "features is float64 [2, 4], but must be float32"),
    (dict(features=np.zeros((2, 4), np.float32)), "[3, features], one row per node of indptr"),
    (dict(features=np.zeros(3, np.float32)), "features is float32 [3]"),
    (dict(features=np.zeros((3, 0), np.float32)), "features is float32 [3, 0]"),
    (dict(features=np.zeros((3, 4), np.complex64)), "features is complex64"),
    (dict(features=np.zeros((3, 4), np.uint16)), "features is uint16"),
    (dict(features=np.array([["a"] * 4] * 3)), "features is <U1"),
    (dict(features=np.array([[None] * 4] * 3)), "features is of Python objects"),
    (dict(features="features"), "features is a str"),
    (dict(features=torch.eye(3).to_sparse()), "features is a tensor of layout torch.sparse_coo"),
    (
        dict(labels=np.array([0, 1])),
        "labels is int64 [2], but must be int64 [3], one class per node (-1: none), or uint8",
    ),
    (dict(labels=np.array([0, 1, 2.5], np.float16)), "labels is float16 [3]"),
    (dict(labels=np.zeros((3, 2), np.int64)), "labels is int64 [3, 2]"),
    (dict(train_idx=np.array([True, False, False])), "train_idx is bool [3]"),
    (dict(train_idx=torch.tensor([True, False, False])), "mask.nonzero()"),
    (dict(valid_idx=np.array([[0]])), "valid_idx is int64 [1, 1]"),
    (dict(test_idx=np.array([0.5])), "test_idx is float64 [1]"),
    (dict(weight=np.zeros(4, np.float16)), "weight is float16 [4], but must be float32 [4]"),
    (dict(weight=np.zeros(3)), "weight is float64 [3], but must be float32 [4]"),
    (dict(weight=np.zeros(3, np.float32)), "weight is float32 [3]"),
    (dict(orig_id=np.array([0, 1])), "orig_id is int64 [2], but must be int64 [3]"),
    (dict(feat=np.zeros((3, 4))), "feat is a ndarray: no argument of a dataset, and no JSON value"),
    (dict(feat_dtype="bf16"), "features is float32 [3, 4], but must be bfloat16, as feat_dtype"),
    (dict(feat_dtype="e4m3"), "features is float32 [3, 4], but must be float8_e4m3fn, as feat_dtype"),
    # What the files' content says, found as the command line finds it, before the directory has its name.
    (
        dict(indices=np.array([1, 0, 99, 1])),
        "indices.npy: entry 2 at offset 144, a neighbour of node 1, is 99, outside the ids 0 to 2",
    ),
    (
        dict(indptr=np.array([0, 3, 1, 4])),
        "indptr.npy: entry 2 at offset 144 is 1, less than the 3 before it",
    ),
    (dict(indptr=np.array([0, 1, 3, 5])), "indices.npy has 4 entries"),
    (dict(features=np.full((3, 4), np.nan, np.float32)), "feat.npy: row 0, column 0, at offset 128 is NaN"),
    (dict(labels=np.array([0.5, np.nan, 2], np.float32)), "label.npy: the target of node 1, column 0, at offset 132 is"),
    (dict(labels=np.array([0, 1, -2])), "label.npy: the label of node 2 at offset 144 is -2"),
    (dict(labels=np.array([0, 1, 2]), classes=2), "label.npy: the label of node 2"),
    (dict(train_idx=np.array([0, 0])), "train_idx.npy: entry 1 at offset 136 names node 0 again"),
    (dict(test_idx=np.array([3])), "test_idx.npy: entry 0 at offset 128 is 3, outside the ids 0 to 2"),
    (dict(weight=np.array([1, 1, np.inf, 1], np.float32)), "weight.npy: the weight of edge 2"),
    (dict(orig_id=np.array([1, 2, 1])), "orig_id.npy: the original id 1 occurs more than once"),
    (dict(classes=0), 'meta.json: "classes" is 0'),
]


@pytest.mark.parametrize(("changes", "message"), WRONG, ids=[message[:30] for _, message in WRONG])
def test_an_invalid_dataset_is_refused_by_name_and_nothing_is_left(tmp_path, changes, message):
    with pytest.raises(ValueError) as refused:
        uvatrain.write_dataset(tmp_path / "new" / "graph", **arrays(**changes))
    assert message in str(refused.value)
    assert "partial" not in str(refused.value)
    assert names(tmp_path) == []


def test_a_missing_argument_is_pythons_own_error(tmp_path):
    with pytest.raises(TypeError, match="indices"):
        uvatrain.write_dataset(tmp_path / "graph", indptr=[0])


def test_only_an_existing_dataset_is_replaced_and_only_on_demand(tmp_path):
    path = tmp_path / "graph"
    uvatrain.write_dataset(path, **arrays())
    old = uvatrain.Dataset(path)
    with pytest.raises(FileExistsError, match="overwrite=True"):
        uvatrain.write_dataset(path, **arrays())
    # What fails leaves the old one.
    with pytest.raises(ValueError, match="graph/indices.npy"):
        uvatrain.write_dataset(path, **arrays(indices=np.array([9, 9, 9, 9])), overwrite=True)
    assert uvatrain.Dataset(path).fingerprint == old.fingerprint
    new = uvatrain.write_dataset(path, **arrays(labels=np.array([1, 1, 1])), overwrite=True)
    assert new.labels.tolist() == [1, 1, 1] and old.labels.tolist() == [0, 1, -1]
    (path / "notes.txt").write_text("mine")
    with pytest.raises(ValueError, match="notes.txt in it is not a file of a dataset"):
        uvatrain.write_dataset(path, **arrays(), overwrite=True)
    assert (path / "notes.txt").read_text() == "mine"
    assert names(tmp_path) == ["graph"]


@pytest.mark.parametrize(
    ("name", "says"),
    [("measured.npy", "measured.npy in it is not a file of a dataset"), ("label.npy", "does not open as a dataset")],
)
def test_a_directory_with_a_foreign_array_is_not_replaced(tmp_path, name, says):
    path = tmp_path / "results"
    path.mkdir()
    np.save(path / name, np.array([1.0, 2.0]))
    with pytest.raises(ValueError, match=says):
        uvatrain.write_dataset(path, **arrays(), overwrite=True)
    assert np.load(path / name).tolist() == [1.0, 2.0]
    assert names(tmp_path) == ["results"]


def test_what_the_system_refuses_is_an_oserror_with_its_number_and_file(tmp_path):
    with pytest.raises(FileNotFoundError) as missing:
        uvatrain.Dataset(tmp_path / "none")
    assert missing.value.errno == 2 and missing.value.filename == str(tmp_path / "none")
    (tmp_path / "file").write_text("")
    with pytest.raises(NotADirectoryError):
        uvatrain.write_dataset(tmp_path / "file" / "graph", **arrays())
    uvatrain.write_dataset(tmp_path / "graph", **arrays())
    os.remove(tmp_path / "graph/feat.npy")
    with pytest.raises(FileNotFoundError, match="feat.npy"):
        uvatrain.Dataset(tmp_path / "graph")


def test_opening_checks_as_much_as_it_is_asked_to(tmp_path):
    path = tmp_path / "graph"
    uvatrain.write_dataset(path, **arrays())
    features = np.load(path / "feat.npy")
    features[1, 2] = np.inf
    np.save(path / "feat.npy", features)
    uvatrain.Dataset(path)
    uvatrain.Dataset(path, verify="full")
    with pytest.raises(ValueError, match="feat.npy: row 1, column 2"):
        uvatrain.Dataset(path, verify="features")
    with pytest.raises(ValueError, match='verify="some"'):
        uvatrain.Dataset(path, verify="some")


def test_the_command_line_finds_what_python_wrote_in_order(tmp_path, uvatrain_program):
    dataset = uvatrain.write_dataset(tmp_path / "graph", **arrays(), name="three")
    done = subprocess.run(
        [uvatrain_program, "info", "--verify", "--json", dataset.path],
        capture_output=True,
        text=True,
        check=True,
    )
    assert dataset.fingerprint in done.stdout and "three" in done.stdout


def test_a_dataset_is_pickled_as_its_path_and_checked_when_loaded(tmp_path):
    dataset = uvatrain.write_dataset(tmp_path / "graph", **arrays())
    pickled = pickle.dumps(dataset)
    assert len(pickled) < 500
    assert torch.equal(pickle.loads(pickled).features, dataset.features)
    uvatrain.write_dataset(tmp_path / "graph", **arrays(labels=np.array([1, 0, 0])), overwrite=True)
    with pytest.raises(ValueError, match="another dataset"):
        pickle.loads(pickled)


def test_a_dataset_opens_and_is_written_in_a_fork_of_a_process_with_one(tmp_path, graph):
    script = """
import os, sys, numpy, uvatrain
path, out = sys.argv[1:]
# The pool that checks files is in use before the fork.
before = uvatrain.Dataset(path, verify="full").fingerprint
child = os.fork()
if child == 0:
    same = uvatrain.Dataset(path, verify="full").fingerprint == before
    features = numpy.zeros((1, 1), numpy.float32)
    uvatrain.write_dataset(out, indptr=[0, 0], indices=[], features=features, labels=[0], train_idx=[0])
    os._exit(0 if same else 1)
assert os.waitpid(child, 0)[1] == 0
print(uvatrain.Dataset(out).num_nodes)
"""
    assert run_python_well(script, graph, tmp_path / "graph") == "1\n"


def test_without_torch_tables_are_numpys(graph):
    script = """
import sys
sys.modules["torch"] = None
import numpy, uvatrain
dataset = uvatrain.Dataset(sys.argv[1])
assert type(dataset.features) is numpy.ndarray and dataset.features.dtype == numpy.float32
assert numpy.array_equal(dataset.labels, numpy.load(sys.argv[1] + "/label.npy"))
uvatrain.write_dataset(sys.argv[2], indptr=dataset.indptr, indices=dataset.indices, features=dataset.features,
                       labels=dataset.labels, train_idx=dataset.train_idx)
"""
    run_python_well(script, graph, graph.parent / "copy-without-torch")


def test_edges_become_lists_in_their_order():
    sources, destinations = (
        torch.tensor([3, 1, 3, 2, 0, 4]),
        torch.tensor([0, 0, 0, 2, 1, 2], dtype=torch.uint8),
    )
    indptr, indices, order = uvatrain._core.lists_of_edges(sources, destinations, 5, True)
    assert torch.from_dlpack(indptr).tolist() == [0, 3, 4, 6, 6, 6]
    assert torch.from_dlpack(indices).tolist() == [3, 1, 3, 0, 2, 4]
    assert torch.from_dlpack(order).tolist() == [0, 1, 2, 4, 3, 5]
    for wrong in (-1, 5):
        with pytest.raises(ValueError, match=f"sources: entry 1 is {wrong}, outside the ids 0 to 4"):
            uvatrain._core.lists_of_edges(torch.tensor([0, wrong]), torch.tensor([0, 0]), 5, False)
    with pytest.raises(ValueError, match="both must be int64"):
        uvatrain._core.lists_of_edges(torch.tensor([0, 1]), torch.tensor([0]), 5, False)
