"""Edge types: equal to a look-up of every picked edge in the whole file, in each form that a batch has."""

import numpy as np
import pytest
import torch
import uvatrain
from graphs import Tables, write_graph

pyg = pytest.importorskip("torch_geometric")
from torch_geometric.data import Data  # noqa: E402
from torch_geometric.nn import RGCNConv  # noqa: E402


@pytest.fixture
def graph(tmp_path):
    """A dataset whose edges have types over all of uint16, and what they are."""
    graph = write_graph(tmp_path / "graph", weighted=True)
    edges = np.load(graph / "indices.npy").size
    types = np.random.default_rng(1).integers(0, 65536, edges).astype(np.uint16)
    types[0] = 65535
    np.save(graph / "edge_type.npy", types)
    return graph, torch.from_numpy(types.astype(np.int64))


@pytest.mark.parametrize("expand", ["all", "new"])
@pytest.mark.parametrize(
    "kind", [dict(), dict(sampler_kind="labor"), dict(sampler_kind="weighted"), dict(replace=True), dict(pad="auto")]
)
def test_every_picked_edge_has_its_type_of_the_whole_file(graph, expand, kind):
    graph, types = graph
    tables = Tables(graph)
    targets = np.repeat(np.arange(600), np.diff(tables.indptr))
    with uvatrain.Loader(graph, fanouts=[4, 3], batch_size=64, expand=expand, edge_type=True, **kind) as loader:
        for batch in loader:
            assert batch.has_edge_type and batch.has_edge_ids and not batch.has_edge_attr
            for block in batch.blocks:
                assert block.edge_type.shape == (block.num_edges,) and block.edge_type.dtype == torch.uint16
                assert torch.equal(block.edge_type.long(), types[block.edge_ids])
                if "pad" not in kind:
                    # The edge by its two ends, and by nothing that the loader says about its place.
                    sources, destinations = batch.input_nodes[block.edge_index].numpy()
                    assert np.array_equal(tables.indices[block.edge_ids], sources)
                    assert np.array_equal(targets[block.edge_ids], destinations)
            assert batch.array("edge_type", 1).shape == (batch.blocks[1].num_edges,)


def test_types_need_the_option_the_file_and_edges_of_the_dataset(graph, tmp_path):
    with uvatrain.Loader(graph[0], fanouts=[4], batch_size=64) as loader:
        batch = next(iter(loader))
        assert not batch.has_edge_type
        with pytest.raises(ValueError, match="edge_type=True"):
            batch.blocks[0].edge_type  # noqa: B018
    plain = write_graph(tmp_path / "plain")
    assert uvatrain.Dataset(plain).edge_type is None
    for data, options, parts in [
        (plain, dict(), r"edge_type.*edge_type\.npy"),
        (graph[0], dict(sampler_kind="walk"), "edge_type.*walk"),
    ]:
        with pytest.raises(ValueError, match=parts):
            uvatrain.Loader(data, fanouts=[4], edge_type=True, **options)


@pytest.mark.filterwarnings("ignore::uvatrain.UvatrainWarning")
@pytest.mark.parametrize("expand", ["all", "new"])
def test_to_pyg_has_int64_types_that_a_layer_of_relations_takes(graph, expand):
    graph, types = graph
    few = types % 5
    np.save(graph / "edge_type.npy", few.numpy().astype(np.uint16))
    layer = RGCNConv(uvatrain.Dataset(graph).feature_dim, 4, num_relations=5)
    with uvatrain.Loader(graph, fanouts=[4, 3], batch_size=64, expand=expand, edge_type=True) as loader:
        for batch in loader:
            data = batch.to_pyg()
            assert data.validate() and data.edge_type.dtype == torch.int64
            assert torch.equal(data.edge_type, few[data.e_id])
            assert layer(data.x, data.edge_index, data.edge_type).shape == (data.num_nodes, 4)


def test_written_types_are_checked_and_read_back(tmp_path):
    arrays = dict(
        indptr=[0, 2, 3], indices=[0, 1, 0], features=np.ones((2, 2), np.float32), train_idx=[0], labels=[0, 1]
    )
    arrays = {name: np.asarray(array) for name, array in arrays.items()}
    for number, types in enumerate(
        [torch.tensor([65535, 0, 7]), np.array([65535, 0, 7], np.uint16), np.array([3, 1, 2], np.int8)]
    ):
        made = uvatrain.write_dataset(tmp_path / str(number), **arrays, edge_type=types)
        assert made.edge_type.tolist() == types.tolist() and made.edge_type.dtype == torch.uint16
        assert np.load(tmp_path / str(number) / "edge_type.npy").dtype == np.uint16
    for wrong, part in [
        (torch.zeros(2, dtype=torch.long), r"edge_type is .*integers \[3\]"),
        (torch.zeros(3), r"edge_type is .*integers \[3\]"),
        (torch.zeros(3, 1, dtype=torch.long), r"edge_type is .*integers \[3\]"),
        (torch.tensor([0, 65536, 0]), "edge_type: entry 1 is 65536, it has to be 0 to 65535"),
        (torch.tensor([0, 0, -1]), "edge_type: entry 2 is -1"),
    ]:
        with pytest.raises(ValueError, match=part):
            uvatrain.write_dataset(tmp_path / "wrong", **arrays, edge_type=wrong)
        assert not (tmp_path / "wrong").exists()


def data_of(edges=3000, nodes=400, **attributes):
    random = torch.Generator().manual_seed(3)
    edge_index = torch.randint(nodes, (2, edges), generator=random)
    made = Data(x=torch.randn(nodes, 4, generator=random), edge_index=edge_index, y=torch.zeros(nodes).long())
    made.train_mask = torch.arange(nodes) < 200
    made.edge_type = torch.randint(70, (edges,), generator=random)
    for name, value in attributes.items():
        made[name] = value
    return made


def test_from_pyg_keeps_each_type_with_its_edge_or_warns(tmp_path):
    data = data_of()
    dataset = uvatrain.from_pyg(data, tmp_path / "dataset")
    targets = torch.repeat_interleave(torch.arange(dataset.num_nodes), dataset.indptr.diff())
    ours = zip(dataset.indices.tolist(), targets.tolist(), dataset.edge_type.tolist())
    assert sorted(ours) == sorted(zip(*data.edge_index.tolist(), data.edge_type.tolist()))
    for number, (wrong, part) in enumerate(
        [(torch.zeros(7).long(), "integers"), (torch.zeros(3000), "float32"), (torch.full((3000,), 65536), "65536")]
    ):
        with pytest.warns(uvatrain.UvatrainWarning, match=f"edge_type is left out.*{part}"):
            made = uvatrain.from_pyg(data_of(edge_type=wrong), tmp_path / str(number))
        assert made.edge_type is None
