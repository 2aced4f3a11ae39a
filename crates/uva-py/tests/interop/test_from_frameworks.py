"""Datasets from PyG's Data, from networkx's graphs, and from the files that OGB unpacks."""

import gzip
import os
import subprocess
import sys
import warnings

import networkx as nx
import numpy as np
import pytest
import torch

import uvatrain


def lists(dataset):
    indptr = dataset.indptr.tolist()
    return [dataset.indices[a:b].tolist() for a, b in zip(indptr, indptr[1:])]


# --- PyG
# -------------------------------------------------------------------------------------------------------


def pyg_data(**changes):
    pytest.importorskip("torch_geometric")
    from torch_geometric.data import Data

    made = dict(
        x=torch.arange(12, dtype=torch.float32).reshape(4, 3),
        edge_index=torch.tensor([[3, 1, 0, 3, 2, 2], [0, 0, 1, 0, 3, 2]]),
        y=torch.tensor([0, 2, 1, -1]),
        train_mask=torch.tensor([True, False, True, False]),
        val_mask=torch.tensor([False, True, False, False]),
        test_mask=torch.tensor([False, False, False, True]),
    )
    return Data(**{**made, **changes})


def test_a_pyg_edge_puts_its_source_into_the_targets_list_in_order(tmp_path):
    data = pyg_data()
    dataset = uvatrain.from_pyg(data, tmp_path / "graph", name="four")
    assert lists(dataset) == [[3, 1, 3], [0], [2], [2]]
    assert torch.equal(dataset.features, data.x) and torch.equal(dataset.labels, data.y)
    assert [index.tolist() for index in dataset.splits.values()] == [[0, 2], [1], [3]]
    assert dataset.indices.dtype == torch.int32 and dataset.weight is None and dataset.name == "four"


def test_a_stable_sort_by_target_maps_edge_ids_to_edges_of_pyg(tmp_path):
    data = pyg_data(edge_attr=torch.arange(6) * 10)
    dataset = uvatrain.from_pyg(data, tmp_path / "graph")
    order = data.edge_index[1].sort(stable=True).indices
    assert torch.equal(dataset.indices.long(), data.edge_index[0][order])
    with uvatrain.Loader(dataset, fanouts=[2, 2], expand="new", edge_ids=True) as loader:
        for batch in loader:
            made = batch.to_pyg()
            assert torch.equal(made.n_id[made.edge_index], data.edge_index[:, order[made.e_id]])
            assert torch.equal(data.edge_attr[order][made.e_id], data.edge_attr[order[made.e_id]])


def test_what_pyg_aggregates_on_the_data_is_what_the_lists_hold(tmp_path):
    pytest.importorskip("torch_geometric")
    from torch_geometric.nn import SimpleConv

    torch.manual_seed(0)
    edges = torch.randint(0, 50, (2, 400))
    x = torch.rand(50, 4)
    data = pyg_data(
        x=x,
        edge_index=edges,
        y=torch.zeros(50),
        train_mask=torch.ones(50, dtype=torch.bool),
        val_mask=None,
        test_mask=None,
    )
    dataset = uvatrain.from_pyg(data, tmp_path / "graph")
    expected = SimpleConv(aggr="sum")(x, edges)
    found = torch.stack([x[torch.tensor(row, dtype=torch.int64)].sum(0) for row in lists(dataset)])
    torch.testing.assert_close(found, expected)
    with uvatrain.Loader(dataset.path, fanouts=[500], batch_size=50) as loader:
        batch = next(iter(loader))
        source, target = batch.edge_index[0]
        out = torch.zeros(50, 4).index_add_(0, target, batch.x[source])
        torch.testing.assert_close(out, expected[batch.seeds])


def test_weights_stay_with_their_edges(tmp_path):
    dataset = uvatrain.from_pyg(pyg_data(edge_weight=torch.arange(6.0)), tmp_path / "graph")
    assert lists(dataset) == [[3, 1, 3], [0], [2], [2]] and dataset.weight.tolist() == [0, 1, 3, 2, 5, 4]
    with pytest.raises(ValueError, match=r"data.edge_weight is \[5\]: \[6\] is needed"):
        uvatrain.from_pyg(pyg_data(edge_weight=torch.arange(5.0)), tmp_path / "other")


@pytest.mark.filterwarnings("ignore:Sparse")
@pytest.mark.parametrize("weighted", [False, True])
def test_rows_of_adj_t_are_the_lists(tmp_path, weighted):
    pytest.importorskip("torch_geometric")
    from torch_geometric.transforms import ToSparseTensor

    values = torch.arange(1.0, 6.0) if weighted else None
    edges = torch.tensor([[3, 1, 0, 2, 2], [0, 0, 1, 3, 2]])
    data = pyg_data(edge_index=edges, edge_weight=values)
    try:
        import torch_sparse  # noqa: F401
    except ImportError:
        layout = torch.sparse_csr
        data = ToSparseTensor(layout=layout, attr="edge_weight")(data)
    else:
        data = ToSparseTensor(attr="edge_weight")(data)
    assert data.get("edge_index") is None
    dataset = uvatrain.from_pyg(data, tmp_path / "graph")
    assert lists(dataset) == [[1, 3], [0], [2], [2]]
    assert (dataset.weight.tolist() == [2, 1, 3, 5, 4]) if weighted else (dataset.weight is None)


def test_labels_splits_and_features_of_pygs_datasets_come_in_many_forms(tmp_path):
    several = torch.tensor([[1.0, 0], [0, 1], [1, 1], [0, 0]])
    columns = torch.tensor([[True, False], [False, True], [False, False], [False, False]])
    dataset = uvatrain.from_pyg(
        pyg_data(
            x=torch.ones(4, 2, dtype=torch.bfloat16),
            y=several,
            train_mask=columns,
            val_mask=columns,
            test_mask=None,
            test_idx=torch.tensor([2, 3]),
        ),
        tmp_path / "a",
        split=1,
    )
    assert dataset.labels.tolist() == several.tolist() and dataset.labels.dtype == torch.uint8
    assert [index.tolist() for index in dataset.splits.values()] == [[1], [1], [2, 3]]
    assert dataset.features.dtype == torch.bfloat16
    column = pyg_data(y=torch.tensor([[0.0], [float("nan")], [2.0], [1.0]]))
    assert uvatrain.from_pyg(column, tmp_path / "b").labels.tolist() == [0, -1, 2, 1]
    plain = pyg_data(train_mask=None, val_mask=None, test_mask=None)
    given = uvatrain.from_pyg(
        plain, tmp_path / "c", train_idx=[2, 1], valid_idx=torch.tensor([True, False, False, True])
    )
    assert [index.tolist() for index in given.splits.values()] == [[2, 1], [0, 3], []]


def test_a_wrong_field_of_data_is_named_and_nothing_is_left(tmp_path):
    pytest.importorskip("torch_geometric")
    from torch_geometric.data import HeteroData

    for data, message in [
        (HeteroData(), "split is not supported with a HeteroData"),
        (dict(), "data is a dict"),
        (pyg_data(x=None), "data has no x"),
        (pyg_data(x=torch.zeros(4, dtype=torch.float64)), "data.x is torch.float64 [4]"),
        (pyg_data(edge_index=None), "neither edge_index nor adj_t"),
        (pyg_data(edge_index=torch.zeros(3, 2, dtype=torch.int64)), "data.edge_index is [3, 2]"),
        (pyg_data(edge_index=torch.tensor([[0, 4], [1, 1]])), "entry 1 is 4, outside the ids 0 to 3"),
        (pyg_data(edge_index=torch.tensor([[0.0], [1.0]])), "float32"),
        (pyg_data(y=torch.zeros(3)), "data.y is float32 [3]"),
        (pyg_data(y=torch.tensor([0, 1, torch.nan, 0.5])), "label.npy: the target of node 2, column 0, at offset"),
        (pyg_data(y=torch.tensor([[0, 2]] * 4)), "other values than zeros and ones"),
        (pyg_data(train_mask=None), "give train_idx="),
        (
            pyg_data(train_mask=torch.ones(4, 2, dtype=torch.bool)),
            "split=5: data.train_mask has the columns 0 to 1",
        ),
    ]:
        with pytest.raises(ValueError) as refused:
            uvatrain.from_pyg(data, tmp_path / "graph", split=5)
        assert message in str(refused.value), refused.value
        assert os.listdir(tmp_path) == []


def test_masks_of_several_splits_need_split_to_say_which(tmp_path):
    columns = torch.tensor([[True, False], [False, True], [False, False], [False, False]])
    data = pyg_data(train_mask=columns, val_mask=columns, test_mask=None)
    with pytest.raises(ValueError) as refused:
        uvatrain.from_pyg(data, tmp_path / "graph")
    for part in ("data.train_mask is [4, 2]", "split=0", "split=1"):
        assert part in str(refused.value), refused.value
    assert os.listdir(tmp_path) == []
    assert uvatrain.from_pyg(data, tmp_path / "a", split=0).train_idx.tolist() == [0]
    assert uvatrain.from_pyg(data, tmp_path / "b", split=1).train_idx.tolist() == [1]
    # One column leaves nothing to choose, and a split of one's own nothing to ask.
    assert uvatrain.from_pyg(pyg_data(train_mask=columns[:, :1]), tmp_path / "c").train_idx.tolist() == [0]
    own = dict(train_idx=[3], valid_idx=[2])
    assert uvatrain.from_pyg(data, tmp_path / "d", **own).train_idx.tolist() == [3]


def test_labels_may_be_omitted_where_nothing_trains_on_them(tmp_path):
    dataset = uvatrain.from_pyg(pyg_data(y=None), tmp_path / "graph")
    assert dataset.labels is None and dataset.num_classes == 0
    with uvatrain.Loader(dataset.path, fanouts=[2], batch_size=2) as loader:
        batch = next(iter(loader))
        assert batch.y is None and batch.x.shape[1] == 3
    graph = nx.path_graph(3)
    dataset, _ = uvatrain.from_networkx(
        graph, tmp_path / "other", features=np.ones((3, 1), np.float32), train=[0]
    )
    assert dataset.labels is None


def test_features_of_64_bits_are_narrowed_with_a_warning(tmp_path):
    x = torch.rand(4, 3, dtype=torch.float64)
    with pytest.warns(uvatrain.UvatrainWarning, match=r"features is float64 \[4, 3\]: float64 becomes float32") as told:
        dataset = uvatrain.from_pyg(pyg_data(x=x), tmp_path / "graph")
    assert dataset.feature_dtype == "float32" and torch.equal(dataset.features, x.float())
    assert [warning.filename for warning in told] == [__file__]
    # numpy makes float64 of Python's numbers by default.
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        rows = {0: [1.5], 1: [2.0], 2: [0.25]}
        uvatrain.from_networkx(nx.path_graph(3), tmp_path / "other", features=rows, train=[0])


def test_a_dataset_converts_to_pyg_and_back_unchanged(tmp_path, graph):
    pytest.importorskip("torch_geometric")
    from torch_geometric.data import Data

    before = uvatrain.Dataset(graph)
    targets = torch.repeat_interleave(torch.arange(before.num_nodes), before.indptr.diff())
    data = Data(
        x=before.features,
        y=before.labels,
        edge_index=torch.stack([before.indices.long(), targets]),
        train_idx=before.train_idx,
        valid_idx=before.valid_idx,
        test_idx=before.test_idx,
    )
    after = uvatrain.from_pyg(data, tmp_path / "graph", classes=before.num_classes)
    assert after.fingerprint == before.fingerprint


# --- networkx
# --------------------------------------------------------------------------------------------------


def test_networkx_nodes_keep_their_order_and_their_new_ids_are_returned(tmp_path):
    graph = nx.DiGraph()
    for name, x, y, split in [
        ("b", [1.0, 2], 0, "train"),
        (("t", 1), [3, 4], 1, "val"),
        (7, [5, 6], -1, "test"),
    ]:
        graph.add_node(name, x=x, y=y, split=split)
    graph.add_edges_from([("b", 7), (7, ("t", 1)), (("t", 1), 7), ("b", "b")])
    dataset, ids = uvatrain.from_networkx(
        graph, tmp_path / "graph", features="x", labels="y", split="split", name="three"
    )
    assert ids == {"b": 0, ("t", 1): 1, 7: 2}
    assert lists(dataset) == [[0], [2], [0, 1]]
    assert dataset.features.tolist() == [[1, 2], [3, 4], [5, 6]] and dataset.features.dtype == torch.float32
    assert dataset.labels.tolist() == [0, 1, -1] and dataset.name == "three"
    assert [index.tolist() for index in dataset.splits.values()] == [[0], [1], [2]]


def test_an_undirected_edge_is_in_both_lists_and_a_self_loop_in_one(tmp_path):
    graph = nx.karate_club_graph()
    graph.add_edge(5, 5, weight=9)
    labels = {node: int(club == "Officer") for node, club in graph.nodes(data="club")}
    dataset, ids = uvatrain.from_networkx(
        graph,
        tmp_path / "graph",
        features=np.eye(34, dtype=np.float16),
        labels=labels,
        train=range(20),
        valid=range(20, 30),
        test=[33, 31],
        weight="weight",
    )
    assert list(ids) == list(graph) and dataset.num_edges == 2 * 78 + 1
    for node, neighbours in enumerate(lists(dataset)):
        assert sorted(neighbours) == sorted(graph.neighbors(node))
        begin = int(dataset.indptr[node])
        assert dataset.weight[begin : begin + len(neighbours)].tolist() == [
            graph[node][other]["weight"] for other in neighbours
        ]
    assert dataset.features.dtype == torch.float16 and dataset.labels.tolist() == list(labels.values())
    assert dataset.test_idx.tolist() == [33, 31]


def test_parallel_edges_stay(tmp_path):
    graph = nx.MultiDiGraph([(0, 1), (0, 1), (1, 0)])
    dataset, _ = uvatrain.from_networkx(
        graph, tmp_path / "a", features=np.ones((2, 1), np.uint8), labels=[0, 1], train=[0]
    )
    assert lists(dataset) == [[1], [0, 0]] and dataset.features.dtype == torch.uint8
    undirected = nx.MultiGraph([(0, 1), (0, 1)])
    dataset, _ = uvatrain.from_networkx(
        undirected, tmp_path / "b", features=[[1], [2]], labels=[0, 1], train=[0]
    )
    assert lists(dataset) == [[1, 1], [0, 0]] and dataset.features.tolist() == [[1.0], [2.0]]


def test_an_invalid_networkx_graph_is_refused_by_name(tmp_path):
    graph = nx.path_graph(3)
    nx.set_node_attributes(graph, {0: [1.0], 1: [2.0], 2: [3.0, 4.0]}, "ragged")
    nx.set_node_attributes(graph, {0: [1.0], 1: [2.0]}, "some")
    good = dict(features=np.ones((3, 1), np.float32), labels=[0, 1, 0], train=[0])
    for changes, message in [
        (dict(features="some"), "features='some': node 2 has none"),
        (dict(features={0: [1.0]}), "features: node 1 is not in it"),
        (dict(features="ragged"), "not of one length"),
        (dict(features=np.ones((2, 1), np.float32)), "features is float32 [2, 1]"),
        (dict(labels=[0, 1]), "labels is int64 [2]"),
        (dict(train=None), "give either split="),
        (dict(split="split"), "give either split="),
        (dict(train=None, split="split"), "no node says"),
        (dict(train=[0, "x"]), "train: 'x' is not a node of the graph"),
        (dict(test=[9]), "test: 9 is not a node of the graph"),
        (dict(train=[0, 0]), "train_idx.npy: entry 1"),
        (dict(weight="weight"), "weight='weight': the edge from 0 to 1 has no such attribute"),
    ]:
        with pytest.raises(ValueError) as refused:
            uvatrain.from_networkx(graph, tmp_path / "graph", **{**good, **changes})
        assert message in str(refused.value), refused.value
        assert os.listdir(tmp_path) == []


# --- OGB
# -------------------------------------------------------------------------------------------------------


def write_ogb(root, name="ogbn-arxiv", kind="time", features=True):
    """What ogb leaves under its root, in the layout of its csv datasets."""
    directory = root / name.replace("-", "_")
    texts = {
        "raw/edge.csv.gz": "3,0\n1,0\n0,1\n2,3\n",
        "raw/num-node-list.csv.gz": "4\n",
        "raw/num-edge-list.csv.gz": "4\n",
        "raw/node-label.csv.gz": "0\n2\n\n1\n".replace("\n\n", "\nnan\n"),
        "raw/node_year.csv.gz": "2001\n2002\n2003\n2004\n",
        f"split/{kind}/train.csv.gz": "0\n2\n",
        f"split/{kind}/valid.csv.gz": "1\n",
        f"split/{kind}/test.csv.gz": "3\n",
        "mapping/README.md": "",
    }
    if features:
        texts["raw/node-feat.csv.gz"] = "0.5,-1.25\n1e-3,2\n0,0\n7.0,8.5\n"
    for file, text in texts.items():
        (directory / file).parent.mkdir(parents=True, exist_ok=True)
        with gzip.open(directory / file, "wt") as out:
            out.write(text)
    (directory / "processed").mkdir(exist_ok=True)
    (directory / "RELEASE_v1.txt").touch()
    return directory


def test_ogbs_raw_files_become_a_dataset_with_the_edges_as_published(tmp_path):
    write_ogb(tmp_path)
    dataset = uvatrain.from_ogb("ogbn-arxiv", tmp_path, tmp_path / "out")
    assert lists(dataset) == [[3, 1], [0], [], [2]] and dataset.name == "ogbn-arxiv"
    assert dataset.features.tolist() == [[0.5, -1.25], [pytest.approx(1e-3), 2], [0, 0], [7, 8.5]]
    assert dataset.features.dtype == torch.float32 and dataset.labels.tolist() == [0, 2, -1, 1]
    assert [index.tolist() for index in dataset.splits.values()] == [[0, 2], [1], [3]]


def test_other_directions_are_added_where_ogb_adds_them(tmp_path):
    write_ogb(tmp_path, "ogbn-products", "sales_ranking")
    both = [[3, 1, 1], [0, 0], [3], [0, 2]]
    assert lists(uvatrain.from_ogb("ogbn-products", tmp_path, tmp_path / "a")) == both
    one = uvatrain.from_ogb(
        "ogbn-products", tmp_path, tmp_path / "b", add_inverse_edge=False, licence="Amazon"
    )
    assert lists(one) == [[3, 1], [0], [], [2]] and one.meta["licence"] == "Amazon"
    write_ogb(tmp_path, "ogbn-mine")
    with pytest.raises(ValueError, match="add_inverse_edge=True or False"):
        uvatrain.from_ogb("ogbn-mine", tmp_path, tmp_path / "c")
    assert lists(uvatrain.from_ogb("ogbn-mine", tmp_path, tmp_path / "c", add_inverse_edge=True)) == both


def test_ogbs_binary_files_are_read_too(tmp_path):
    directory = write_ogb(tmp_path, "ogbn-papers100M")
    for file in (directory / "raw").glob("*.csv.gz"):
        file.unlink()
    np.savez(
        directory / "raw/data.npz",
        edge_index=np.array([[3, 1, 0, 2], [0, 0, 1, 3]]),
        node_feat=np.arange(8, dtype=np.float32).reshape(4, 2),
        node_year=np.zeros((4, 1)),
        num_nodes_list=np.array([4]),
        num_edges_list=np.array([4]),
    )
    np.savez(
        directory / "raw/node-label.npz", node_label=np.array([[0.0], [np.nan], [1], [np.nan]], np.float32)
    )
    dataset = uvatrain.from_ogb("ogbn-papers100M", tmp_path, tmp_path / "out")
    assert lists(dataset) == [[3, 1], [0], [], [2]] and dataset.labels.tolist() == [0, -1, 1, -1]


@pytest.mark.parametrize(
    "file", ["", "raw/edge.csv.gz", "raw/node-feat.csv.gz", "raw/node-label.csv.gz", "split/time/test.csv.gz"]
)
def test_what_ogb_has_not_unpacked_is_named_with_the_command_that_gets_it(tmp_path, file):
    root = tmp_path / "ogb"
    if file:
        (write_ogb(root) / file).unlink()
    with pytest.raises(FileNotFoundError) as missing:
        uvatrain.from_ogb("ogbn-arxiv", root, tmp_path / "out")
    assert str(root / "ogbn_arxiv" / file) in str(missing.value)
    assert "pip install ogb; python -c \"from ogb.nodeproppred import" in str(missing.value)
    assert f"NodePropPredDataset('ogbn-arxiv', '{root}')" in str(missing.value)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("file", ["raw/edge.csv.gz", "raw/data.npz", "split/time/test.csv.gz"])
def test_a_pipe_or_a_device_instead_of_an_ogb_file_does_not_block(tmp_path, file):
    for number, plant in enumerate([os.mkfifo, lambda path: path.symlink_to("/dev/zero"), os.mkdir]):
        root = tmp_path / str(number)
        path = write_ogb(root) / file
        path.unlink(missing_ok=True)
        if file.endswith(".npz"):
            np.savez(path.with_name("node-label.npz"), node_label=np.zeros((4, 1)))
        plant(path)
        with pytest.raises(ValueError, match=f"{path.name}: it is not a regular file"):
            uvatrain.from_ogb("ogbn-arxiv", root, tmp_path / "out")
        assert not (tmp_path / "out").exists()


def test_ogbs_files_that_are_broken_or_of_another_sort_are_refused(tmp_path):
    def broken(file, content, name="ogbn-arxiv", message=None):
        directory = write_ogb(tmp_path / "ogb", name)
        path = directory / file
        path.write_bytes(content) if isinstance(content, bytes) else path.write_bytes(
            gzip.compress(content.encode())
        )
        with pytest.raises(ValueError, match=message):
            uvatrain.from_ogb(name, tmp_path / "ogb", tmp_path / "out")
        assert not (tmp_path / "out").exists()

    broken("raw/edge.csv.gz", b"no gzip", message="edge.csv.gz: not a whole gzip file")
    broken(
        "raw/edge.csv.gz", gzip.compress(b"0,1\n" * 1000)[:-12], message="edge.csv.gz: not a whole gzip file"
    )
    broken("raw/edge.csv.gz", "0,1\n1,x\n", message="edge.csv.gz: a value is missing or not a number")
    broken("raw/edge.csv.gz", "0,1\n1\n", message="edge.csv.gz: its lines are not all of 2 values")
    broken("raw/edge.csv.gz", "0,9\n", message="outside the ids 0 to 3")
    broken("raw/num-node-list.csv.gz", "2\n2\n", message="it counts 2 graphs")
    broken("raw/node-label.csv.gz", "0\n1\n", message=r"node-label is float64 \[2\]")
    with pytest.raises(ValueError, match="one type of node"):
        uvatrain.from_ogb("ogbn-mag", tmp_path, tmp_path / "out")
    with pytest.raises(ValueError, match="one type of node"):
        uvatrain.from_ogb("ogbl-collab", tmp_path, tmp_path / "out")
    write_ogb(tmp_path / "p", "ogbn-proteins", "species", features=False)
    with pytest.raises(ValueError, match="edge features only"):
        uvatrain.from_ogb("ogbn-proteins", tmp_path / "p", tmp_path / "out")


def test_tables_of_ogb_that_come_in_pieces_are_read_whole(tmp_path, monkeypatch):
    from uvatrain.interop import from_ogb

    monkeypatch.setattr(from_ogb, "_CHUNK", 7)
    write_ogb(tmp_path)
    dataset = uvatrain.from_ogb("ogbn-arxiv", tmp_path, tmp_path / "out")
    assert lists(dataset) == [[3, 1], [0], [], [2]] and dataset.labels.tolist() == [0, 2, -1, 1]


def test_ogb_itself_reads_the_files_as_we_do(tmp_path):
    pytest.importorskip("ogb", reason="needs ogb, to compare with")
    write_ogb(tmp_path)
    write_ogb(tmp_path, "ogbn-products", "sales_ranking")
    for name in ("ogbn-arxiv", "ogbn-products"):
        # Its answer to whether it may download something is no.
        script = f"""
import sys
from ogb.nodeproppred import NodePropPredDataset
dataset = NodePropPredDataset({name!r}, {str(tmp_path)!r})
graph, labels = dataset[0]
import numpy
tables = dict(edges=graph["edge_index"], features=graph["node_feat"], labels=labels)
numpy.savez(sys.argv[1], **tables, **dataset.get_idx_split())
"""
        done = subprocess.run(
            [sys.executable, "-c", script, tmp_path / "theirs.npz"],
            input="n\n",
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        theirs = np.load(tmp_path / "theirs.npz")
        ours = uvatrain.from_ogb(name, tmp_path, tmp_path / f"out-{name}")
        expected = [[] for _ in range(4)]
        for source, target in theirs["edges"].T.tolist():
            expected[target].append(source)
        assert lists(ours) == expected
        assert np.array_equal(ours.features.numpy(), theirs["features"])
        for split in ("train", "valid", "test"):
            assert np.array_equal(ours.splits[split].numpy(), theirs[split])
