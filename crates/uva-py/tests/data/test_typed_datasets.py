"""Typed datasets: written from arrays and from PyG's HeteroData, opened, and as a HeteroData."""

import json
import os
import pathlib
import pickle
import subprocess
import sys

import numpy as np
import pytest
import torch

import uvatrain

WRITES = ("author", "writes", "paper")
CITES = ("paper", "cites", "paper")


def nodes(**papers):
    """Four papers and three authors."""
    made = dict(
        features=np.arange(12, dtype=np.float32).reshape(4, 3),
        labels=np.array([0, 2, -1, 1]),
        train_idx=np.array([3, 0]),
        test_idx=np.array([1]),
        time=np.array([5, 6, 7, 8], np.int32),
        year=np.array([[2020, 1], [2021, 2], [2020, 3], [2019, 4]], np.int16),
    )
    return {"paper": {**made, **papers}, "author": 3}


def edges(**changes):
    """Authors 2, 0, 1, 2, 0 write papers 3, 3, 0, 3, 0."""
    made = dict(
        edge_index=torch.tensor([[2, 0, 1, 2, 0], [3, 3, 0, 3, 0]]),
        weight=torch.tensor([0.5, 1.5, 2.5, 3.5, 4.5]),
        features=torch.arange(10, dtype=torch.float16).reshape(5, 2),
    )
    return {WRITES: {**made, **changes}, CITES: np.array([[0, 1], [1, 2]], np.int32)}


def refusal(path, error=ValueError, **arguments):
    with pytest.raises(error) as raised:
        uvatrain.write_dataset(path, **{**dict(nodes=nodes(), edges=edges()), **arguments})
    assert not os.path.exists(path)
    assert "partial" not in str(raised.value)
    return str(raised.value)


def test_types_and_relations_come_back_as_they_were_given(tmp_path):
    dataset = uvatrain.write_dataset(
        tmp_path / "typed", nodes=nodes(), edges=edges(), target="paper", name="mine", licence="CC0"
    )
    assert isinstance(dataset, uvatrain.TypedDataset)
    assert (dataset.node_types, dataset.edge_types) == (["paper", "author"], [WRITES, CITES])
    assert (dataset.num_nodes, dataset.target, dataset.name) == ({"paper": 4, "author": 3}, "paper", "mine")
    assert dataset.num_edges == {WRITES: 5, CITES: 2} and dataset.num_classes == {"paper": 3, "author": 0}
    assert (dataset.meta["version"], dataset.meta["licence"]) == (2, "CC0")
    papers = dataset.nodes("paper")
    assert torch.equal(papers["features"], torch.arange(12.0).reshape(4, 3))
    assert papers["labels"].tolist() == [0, 2, -1, 1] and papers["time"].tolist() == [5, 6, 7, 8]
    assert papers["train_idx"].tolist() == [3, 0] and "valid_idx" not in papers
    assert dataset.nodes("author") == {}
    assert (tmp_path / "typed/nodes/paper/year.npy").exists()
    writes = dataset.edges(WRITES)
    assert writes["indptr"].tolist() == [0, 2, 2, 2, 5] and writes["indices"].tolist() == [1, 0, 2, 0, 2]
    assert writes["weight"].tolist() == [2.5, 4.5, 0.5, 1.5, 3.5] and "edge_id" not in writes
    assert writes["features"][:, 0].tolist() == [4, 8, 0, 2, 6] and writes["features"].dtype == torch.float16
    assert dataset.edges(CITES)["indices"].dtype == torch.int32
    again = pickle.loads(pickle.dumps(dataset))
    assert again.fingerprint == dataset.fingerprint and "paper 4, author 3" in repr(again)
    with pytest.raises(KeyError, match="'papr': expected one of paper, author"):
        dataset.nodes("papr")


def test_reverse_edges_share_features_and_lists_are_sorted_by_time(tmp_path):
    time = torch.tensor([9, 5, 4, 5, 3])
    dataset = uvatrain.write_dataset(tmp_path / "typed", nodes=nodes(), edges=edges(time=time, reverse=True))
    reverse = ("paper", "rev_writes", "author")
    assert dataset.edge_types == [WRITES, CITES, reverse]
    forward, backward = dataset.edges(WRITES), dataset.edges(reverse)
    assert forward["edge_id"].tolist() == [4, 2, 1, 3, 0] and forward["time"].tolist() == [3, 4, 5, 5, 9]
    assert backward["indptr"].tolist() == [0, 2, 3, 5] and backward["indices"].tolist() == [0, 3, 0, 3, 3]
    assert backward["edge_id"].tolist() == [4, 1, 2, 3, 0] and backward["weight"].tolist() == [4.5, 1.5, 2.5, 3.5, 0.5]
    assert "features" not in backward and forward["features"][:, 0].tolist() == [0, 2, 4, 6, 8]
    data = dataset.to_pyg()
    for edge_type in (WRITES, reverse):
        assert torch.equal(data[edge_type].edge_attr[:, 0].long(), 2 * data[edge_type].e_id)
    both = uvatrain.write_dataset(
        tmp_path / "both", nodes=nodes(), edges={CITES: dict(edge_index=[[0, 1], [1, 2]], reverse="same")}
    )
    assert both.num_edges == {CITES: 4} and both.meta["edges"][0]["reverse"] == list(CITES)
    assert both.edges(CITES)["indices"].tolist() == [1, 0, 2, 1]
    assert both.edges(CITES)["edge_id"].tolist() == [0, 0, 1, 1]


def test_lists_are_taken_in_place_of_pairs(tmp_path):
    lists = {WRITES: dict(indptr=[0, 2, 2, 2, 5], indices=np.array([1, 0, 2, 0, 2], np.int16))}
    dataset = uvatrain.write_dataset(tmp_path / "typed", nodes=nodes(), edges=lists)
    assert dataset.edges(WRITES)["indices"].tolist() == [1, 0, 2, 0, 2]


def test_wrong_arrays_are_refused_by_their_place_before_anything_is_there(tmp_path):
    path = tmp_path / "typed"
    message = refusal(path, nodes=nodes(num_nodes=4, features=np.zeros((3, 2), np.float32)))
    assert 'nodes["paper"]["features"] is float32 [3, 2], but must be float32' in message
    message = refusal(path, nodes=nodes(labels=np.zeros(3, np.int64)))
    assert 'nodes["paper"]["labels"] is int64 [3], but must be int64 [4]' in message
    message = refusal(path, edges=edges(edge_index=np.array([[2, 3], [0, 0]]), weight=None, features=None))
    assert 'edges["author__writes__paper"]["edge_index"]: entry 1 is 3, of author, outside the ids 0 to 2' in message
    message = refusal(path, edges=edges(weight=torch.ones(4)))
    assert 'edges["author__writes__paper"]["weight"] is float32 [4], but must be float32 [5]' in message
    message = refusal(path, edges={("author", "writes", "papr"): [[0], [0]]})
    assert 'there is no node type "papr", did you mean "paper"?' in message
    assert 'node type "a.b": a name has letters' in refusal(path, nodes={**nodes(), "a.b": 3})
    assert 'reverse=\'both\': expected True, False or "same"' in refusal(path, edges=edges(reverse="both"))
    assert "both directions in itself" in refusal(path, edges=edges(reverse="same"))
    assert "there is no node type" in refusal(path, target="authors")
    assert "give num_nodes" in refusal(path, nodes={**nodes(), "author": {"train_idx": [0]}})
    assert "indptr is not supported with nodes and edges" in refusal(path, indptr=[0])
    assert "a typed dataset requires nodes and edges" in refusal(path, edges=None)
    assert "a split names a paper at most once" in refusal(path, nodes=nodes(train_idx=[1, 1]))
    assert "features have to be finite" in refusal(path, nodes=nodes(features=np.full((4, 3), np.nan, np.float32)))


def test_an_existing_typed_dataset_is_replaced_on_request(tmp_path):
    path = tmp_path / "typed"
    uvatrain.write_dataset(path, nodes=nodes(), edges=edges())
    with pytest.raises(FileExistsError):
        uvatrain.write_dataset(path, nodes=nodes(), edges=edges())
    one = uvatrain.write_dataset(
        path,
        indptr=[0, 1],
        indices=[0],
        features=np.ones((1, 2), np.float32),
        train_idx=[0],
        overwrite=True,
    )
    assert one.num_nodes == 1 and sorted(os.listdir(path))[-1] == "valid_idx.npy"
    again = uvatrain.write_dataset(path, nodes=nodes(), edges=edges(), overwrite=True)
    assert again.num_edges[WRITES] == 5 and {"nodes", "edges", "meta.json"} <= set(os.listdir(path))


# --- PyG
# -------------------------------------------------------------------------------------------------------


def hetero(**names):
    pytest.importorskip("torch_geometric")
    from torch_geometric.data import HeteroData

    data = HeteroData()
    author = names.get("author", "author")
    data["paper"].x = torch.arange(12.0).reshape(4, 3)
    data["paper"].y = torch.tensor([0, 2, 1, -1])
    data["paper"].train_mask = torch.tensor([True, False, False, True])
    data["paper"].val_mask = torch.tensor([False, True, False, False])
    data["paper"].year = torch.tensor([1, 2, 3, 4])
    data[author].num_nodes = 3
    data[author, "writes", "paper"].edge_index = torch.tensor([[2, 0, 1, 2, 0], [3, 3, 0, 3, 0]])
    data[author, "writes", "paper"].edge_attr = torch.arange(5.0)
    data["paper", "cites", "paper"].edge_index = torch.tensor([[0, 1], [1, 2]])
    return data


def test_a_hetero_data_becomes_a_dataset_and_one_again(tmp_path):
    data = hetero()
    dataset = uvatrain.from_pyg(data, tmp_path / "typed", name="pyg")
    assert (dataset.node_types, dataset.edge_types) == (data.node_types, data.edge_types)
    assert dataset.target == "paper" and dataset.name == "pyg"
    assert dataset.nodes("paper")["valid_idx"].tolist() == [1]
    assert dataset.nodes("paper")["year"].tolist() == [1, 2, 3, 4]
    assert dataset.edges(CITES)["edge_id"].tolist() == [0, 1]
    back = dataset.to_pyg()
    back.validate()
    assert torch.equal(back["paper"].x, data["paper"].x) and torch.equal(back["paper"].y, data["paper"].y)
    assert back["author"].num_nodes == 3 and back["paper"].train_idx.tolist() == [0, 3]
    for edge_type in data.edge_types:
        edge_index, ids = back[edge_type].edge_index, back[edge_type].e_id
        assert torch.equal(edge_index, data[edge_type].edge_index[:, ids])
    assert torch.equal(back[WRITES].edge_attr[:, 0], data[WRITES].edge_attr[back[WRITES].e_id])
    # Arrays are views of the files.
    path = str(tmp_path / "typed/nodes/paper/feat.npy")
    assert any(line.rstrip().endswith(path) for line in open("/proc/self/maps"))
    again = uvatrain.from_pyg(back, tmp_path / "again", name="pyg")
    assert again.num_edges == dataset.num_edges
    weights = hetero()
    weights[WRITES].edge_weight = torch.arange(5.0)
    weighted = uvatrain.from_pyg(weights, tmp_path / "weighted")
    assert weighted.edges(WRITES)["weight"].tolist() == [2, 4, 0, 1, 3]


def test_names_that_no_dataset_has_are_refused_with_others(tmp_path):
    data = hetero(author="user item")
    with pytest.raises(ValueError) as raised:
        uvatrain.from_pyg(data, tmp_path / "typed")
    assert 'node type "user item"' in str(raised.value)
    assert str(raised.value).endswith('rename={"user item": "user-item"}')
    dataset = uvatrain.from_pyg(data, tmp_path / "typed", rename={"user item": "user-item", "writes": "wrote"})
    assert dataset.edge_types[0] == ("user-item", "wrote", "paper")
    data = hetero()
    del data["author"].num_nodes
    with pytest.raises(ValueError, match="has neither tensors nor num_nodes"):
        uvatrain.from_pyg(data, tmp_path / "none")
    with pytest.raises(ValueError, match="split is not supported with a HeteroData"):
        uvatrain.from_pyg(hetero(), tmp_path / "none", split=0)
    with pytest.raises(ValueError, match="rename requires a HeteroData"):
        from torch_geometric.data import Data

        uvatrain.from_pyg(Data(), tmp_path / "none", rename={})
    assert not (tmp_path / "none").exists()
    assert json.loads((tmp_path / "typed/meta.json").read_text())["target"] == "paper"


def test_a_loader_shows_the_arrays_of_a_graph_of_one_type(tmp_path):
    entity = dict(features=np.ones((3, 2), np.float32), labels=np.array([0, 1, 0]), train_idx=np.array([2, 0]))
    rows = np.eye(3, dtype=np.float32)
    knows = {("entity", "knows", "entity"): dict(edge_index=np.array([[0, 1, 2], [1, 2, 2]]), features=rows)}
    uvatrain.write_dataset(tmp_path / "typed", nodes={"entity": entity}, edges=knows)
    with uvatrain.Loader(tmp_path / "typed", fanouts=(2,), batch_size=2) as loader:
        dataset = loader.dataset
        assert torch.equal(torch.as_tensor(dataset.indptr), torch.tensor([0, 0, 1, 3]))
        assert torch.equal(torch.as_tensor(dataset.train_idx), torch.tensor([2, 0]))
        assert torch.equal(torch.as_tensor(dataset.features), torch.ones(3, 2))
        assert torch.equal(torch.as_tensor(dataset.edge_attr), torch.eye(3))
        assert dataset.test_idx is None


# --- A published graph
# -------------------------------------------------------------------------------------------------------


def test_wordnet_is_written_with_its_published_numbers(tmp_path):
    shared = pathlib.Path(os.environ.get("UVATRAIN_SHARED", pathlib.Path(__file__).parents[5] / "shared"))
    script = shared / "datasets/typed/unpack_typed.py"
    if not script.exists():
        pytest.skip(f"{script} is missing")
    subprocess.run([sys.executable, script, "wn18rr", tmp_path], check=True, capture_output=True)
    unpacked = tmp_path / "wn18rr"
    info = json.loads((unpacked / "info.json").read_text())
    relations = {}
    for name in info["edges"]:
        source, destination = (np.load(unpacked / f"{name}.{end}.npy") for end in ("src", "dst"))
        relations[tuple(name.split("."))] = dict(edge_index=np.stack([source, destination]), reverse=True)
    dataset = uvatrain.write_dataset(tmp_path / "typed", nodes=info["nodes"], edges=relations)
    edges = list(dataset.num_edges.values())
    assert (dataset.num_nodes, len(edges), sum(edges[:11])) == ({"synset": 40943}, 22, 93003)
    assert edges[:11] == edges[11:] == list(info["edges"].values())
    back = dataset.to_pyg()
    for name, given in relations.items():
        edge_index, ids = back[name].edge_index, back[name].e_id
        assert torch.equal(edge_index, torch.from_numpy(given["edge_index"])[:, ids])
