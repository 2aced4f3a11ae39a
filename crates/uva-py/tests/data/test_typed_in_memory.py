"""Loaders over typed graphs in memory: the batches are those of the dataset that they would be."""

import gc
import os

import pytest
import torch

import uvatrain
from graphs import hashes

pytest.importorskip("torch_geometric")

from torch_geometric.data import HeteroData  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::uvatrain.UvatrainWarning")

OPTIONS = {"fanouts": (4, 3), "batch_size": 16, "seed": 5}


def made(seed=1):
    """Papers with a training split, that authors without features write."""
    random = torch.Generator().manual_seed(seed)
    data = HeteroData()
    data["paper"].x = torch.rand(80, 6, generator=random)
    data["paper"].y = torch.randint(3, (80,), generator=random)
    data["paper"].train_mask = torch.rand(80, generator=random) < 0.5
    data["author"].num_nodes = 50
    writes = torch.stack([torch.randint(50, (300,), generator=random), torch.randint(80, (300,), generator=random)])
    data["author", "writes", "paper"].edge_index = writes
    data["paper", "rev_writes", "author"].edge_index = writes.flip(0)
    return data


def test_a_loader_of_a_hetero_data_makes_the_batches_of_the_written_one(tmp_path):
    data = made()
    written = uvatrain.from_pyg(data, tmp_path / "written")
    with uvatrain.Loader(tmp_path / "written", **OPTIONS) as loader:
        expected = hashes(loader)
        assert len(expected) == len(loader) == int(data["paper"].train_mask.sum()) // 16 + 1
        assert isinstance(loader.dataset, uvatrain.TypedDataset)
    arrays = {
        "nodes": {
            "paper": {
                "features": data["paper"].x,
                "labels": data["paper"].y,
                "train_idx": data["paper"].train_mask.nonzero().view(-1),
            },
            "author": 50,
        },
        "edges": {names: data[names].edge_index for names in data.edge_types},
        "target": "paper",
    }
    for graph in (data, written, arrays):
        with uvatrain.Loader(graph, **OPTIONS) as loader:
            assert hashes(loader) == expected
            assert loader.dataset.num_nodes == {"paper": 80, "author": 50}
            batch = next(iter(loader))
            assert torch.equal(batch["paper"].x, data["paper"].x[batch["paper"].n_id])
            assert torch.equal(batch.y, data["paper"].y[batch.seeds])


def test_seeds_may_be_of_a_type_without_a_split():
    data = made()
    with uvatrain.Loader(data, **OPTIONS, target="author", input_nodes=[7, 3, 7]) as loader:
        assert [batch.seeds.tolist() for batch in loader] == [[7, 3, 7]]
    del data["paper"].train_mask
    with pytest.raises(ValueError, match="target"):
        uvatrain.Loader(data, **OPTIONS)


def test_a_temporary_typed_dataset_is_shared_until_changed_or_unused():
    data = made()
    first = uvatrain.Loader(data, **OPTIONS)
    second = uvatrain.Loader(data, **OPTIONS, target="author", input_nodes=[1])
    path = first.dataset.path
    assert second.dataset.path == path and os.path.isdir(path)
    data["paper"].y[0] += 1
    changed = uvatrain.Loader(data, **OPTIONS)
    assert changed.dataset.path != path
    data["author"].num_nodes = 51
    other = uvatrain.Loader(data, **OPTIONS)
    assert other.dataset.path != changed.dataset.path and other.dataset.num_nodes["author"] == 51
    first.close()
    second.close()
    del first, second
    gc.collect()
    assert not os.path.exists(os.path.dirname(path))


def test_what_cannot_be_a_typed_dataset_is_refused_and_leaves_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    data, named, wrong = made(), made(), made()
    named["user item"].x = torch.rand(3, 2)
    wrong["author", "writes", "paper"].edge_index[0, 5] = 50
    for graph, message in [(named, 'node type "user item"'), (wrong, "entry 5 is 50, of author")]:
        with pytest.raises(ValueError, match=message):
            uvatrain.Loader(graph, **OPTIONS)
    with pytest.raises(ValueError, match="infer supports graphs with one type of nodes and edges"):
        uvatrain.infer([torch.nn.Linear(6, 3)], data)
    assert os.listdir(tmp_path) == []
