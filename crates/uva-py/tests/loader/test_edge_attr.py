"""Feature rows of edges: equal to a look-up of every picked edge in the whole table, in each form that a batch has."""

import numpy as np
import pytest
import torch
import uvatrain
from graphs import Tables, write_graph

pyg = pytest.importorskip("torch_geometric")
from torch_geometric.data import Data  # noqa: E402


def with_edges(path, dtype=np.float32, **options):
    """A dataset whose edges have three features each, and what they are."""
    graph = write_graph(path, **options)
    edges = np.load(graph / "indices.npy").size
    rows = np.random.default_rng(1).integers(0, 100, (edges, 3)).astype(dtype)
    np.save(graph / "edge_feat.npy", rows)
    return graph, torch.from_numpy(rows)


@pytest.fixture
def graph(tmp_path):
    return with_edges(tmp_path / "graph", weighted=True)


@pytest.mark.parametrize("expand", ["all", "new"])
@pytest.mark.parametrize(
    "kind", [dict(), dict(sampler_kind="labor"), dict(sampler_kind="weighted"), dict(replace=True)]
)
def test_every_picked_edge_has_the_row_of_that_edge_of_the_whole_table(graph, expand, kind):
    graph, rows = graph
    tables = Tables(graph)
    targets = np.repeat(np.arange(600), np.diff(tables.indptr))
    with uvatrain.Loader(graph, fanouts=[4, 3], batch_size=64, expand=expand, edge_attr=True, **kind) as loader:
        for batch in loader:
            assert batch.has_edge_attr and batch.has_edge_ids
            for block in batch.blocks:
                assert block.edge_attr.shape == (block.num_edges, 3)
                assert block.edge_attr.dtype == torch.float32
                # The edge by its two ends, and by nothing that the loader says about its place.
                sources, destinations = batch.input_nodes[block.edge_index].numpy()
                assert np.array_equal(tables.indices[block.edge_ids], sources)
                assert np.array_equal(targets[block.edge_ids], destinations)
                assert torch.equal(block.edge_attr, rows[block.edge_ids])
            array = batch.array("edge_attr", 1)
            assert array.shape == tuple(batch.blocks[1].edge_attr.shape)


def test_without_the_option_blocks_have_none_and_name_the_option(graph):
    with uvatrain.Loader(graph[0], fanouts=[4], batch_size=64) as loader:
        batch = next(iter(loader))
        assert not batch.has_edge_attr
        with pytest.raises(ValueError, match="edge_attr=True"):
            batch.blocks[0].edge_attr  # noqa: B018


def test_a_dataset_without_the_table_and_a_kind_without_edges_are_refused(graph, tmp_path):
    plain = write_graph(tmp_path / "plain")
    for options, parts in [(dict(), "edge_attr.*edge_feat.npy"), (dict(sampler_kind="walk"), "edge_attr.*walk")]:
        with pytest.raises(ValueError, match=parts):
            uvatrain.Loader(plain if not options else graph[0], fanouts=[4], edge_attr=True, **options)


@pytest.mark.parametrize("dtype", [np.float16, np.uint8, np.int8])
def test_rows_have_the_tables_type(tmp_path, dtype):
    graph, rows = with_edges(tmp_path / "graph", dtype=dtype)
    dataset = uvatrain.Dataset(graph)
    assert torch.equal(dataset.edge_attr, rows)
    with uvatrain.Loader(dataset, fanouts=[4, 3], batch_size=64, edge_attr=True) as loader:
        for batch in loader:
            for block in batch.blocks:
                assert block.edge_attr.dtype == rows.dtype
                assert torch.equal(block.edge_attr, rows[block.edge_ids])


@pytest.mark.filterwarnings("ignore::uvatrain.UvatrainWarning")
@pytest.mark.parametrize("expand", ["all", "new"])
def test_to_pyg_and_to_graphbolt_have_the_rows_of_their_own_edges(graph, expand):
    graph, rows = graph
    with uvatrain.Loader(graph, fanouts=[4, 3], batch_size=64, expand=expand, edge_attr=True) as loader:
        for batch in loader:
            data = batch.to_pyg()
            assert data.validate() and data.edge_attr.shape == (data.num_edges, 3)
            assert torch.equal(data.edge_attr, rows[data.e_id])
            for subgraph, features in zip(
                batch.to_graphbolt().sampled_subgraphs, batch.to_graphbolt().edge_features
            ):
                assert list(features) == ["feat"]
                assert torch.equal(features["feat"], rows[subgraph.original_edge_ids])


def data_of(edges=3000, nodes=400, **attributes):
    random = torch.Generator().manual_seed(3)
    edge_index = torch.randint(nodes, (2, edges), generator=random)
    made = Data(x=torch.randn(nodes, 4, generator=random), edge_index=edge_index, y=torch.zeros(nodes).long())
    made.train_mask = torch.arange(nodes) < 200
    made.edge_attr = torch.randn(edges, 2, generator=random)
    for name, value in attributes.items():
        made[name] = value
    return made


def pairs(dataset):
    """The edges of a dataset, by their ends, with their rows."""
    targets = torch.repeat_interleave(torch.arange(dataset.num_nodes), dataset.indptr.diff())
    return zip(dataset.indices.tolist(), targets.tolist(), map(tuple, dataset.edge_attr.tolist()))


def test_from_pyg_keeps_each_row_with_its_edge(tmp_path):
    data = data_of()
    dataset = uvatrain.from_pyg(data, tmp_path / "dataset")
    own = zip(*data.edge_index.tolist(), map(tuple, data.edge_attr.tolist()))
    assert sorted(pairs(dataset)) == sorted(own)
    # A number an edge is a table of one column.
    one = uvatrain.from_pyg(data_of(edge_attr=torch.arange(3000.0)), tmp_path / "one")
    assert one.edge_attr.shape == (3000, 1)


def test_edge_attr_that_is_not_a_table_is_omitted_with_a_warning(tmp_path):
    for number, (wrong, part) in enumerate(
        [
            (torch.zeros(3000, 2).long(), "torch.int64"),
            (torch.zeros(7, 2), "3000 edges"),
            (torch.full((3000, 1), torch.nan), "finite"),
        ]
    ):
        with pytest.warns(uvatrain.UvatrainWarning, match=part):
            made = uvatrain.from_pyg(data_of(edge_attr=wrong), tmp_path / str(number))
        assert made.edge_attr is None


@pytest.mark.filterwarnings("ignore::uvatrain.UvatrainWarning")
def test_neighbor_loader_and_loader_of_data_look_rows_up_in_edge_attr():
    data = data_of()
    for batch in uvatrain.pyg.NeighborLoader(
        data, num_neighbors=[4, 3], batch_size=50, input_nodes=data.train_mask
    ):
        assert torch.equal(batch.edge_attr, data.edge_attr[batch.e_id])
        assert torch.equal(batch.n_id[batch.edge_index], data.edge_index[:, batch.e_id])
    order = data.edge_index[1].sort(stable=True).indices
    with uvatrain.Loader(data, fanouts=[4, 3], batch_size=50, expand="new", edge_attr=True) as loader:
        for batch in loader:
            made = batch.to_pyg()
            assert torch.equal(made.edge_attr, data.edge_attr[order[made.e_id]])


def test_the_neighbor_loader_over_a_dataset_has_its_edge_attr(graph):
    graph, rows = graph
    batches = uvatrain.pyg.NeighborLoader(graph, num_neighbors=[4, 3], batch_size=64, input_nodes=torch.arange(100))
    for batch in batches:
        assert torch.equal(batch.edge_attr, rows[batch.e_id])


def test_written_tables_are_checked_and_read_back(tmp_path):
    arrays = dict(
        indptr=[0, 2, 3], indices=[0, 1, 0], features=np.ones((2, 2), np.float32), train_idx=[0], labels=[0, 1]
    )
    arrays = {name: np.asarray(array) for name, array in arrays.items()}
    rows = torch.tensor([[1.0, 2], [3, 4], [5, 6]])
    made = uvatrain.write_dataset(tmp_path / "one", **arrays, edge_attr=rows)
    assert torch.equal(made.edge_attr, rows)
    half = uvatrain.write_dataset(tmp_path / "two", **arrays, edge_attr=rows.bfloat16())
    assert torch.equal(half.edge_attr, rows.bfloat16()) and half.meta["edge_feat_dtype"] == "bf16"
    for wrong in (rows[:2], rows.long(), rows[:, 0]):
        with pytest.raises(ValueError, match=r"edge_attr is .*\[3, features\]"):
            uvatrain.write_dataset(tmp_path / "three", **arrays, edge_attr=wrong)
    wrong = rows.clone()
    wrong[1, 1] = torch.nan
    with pytest.raises(ValueError, match="edge_feat.npy: row 1, column 1"):
        uvatrain.write_dataset(tmp_path / "three", **arrays, edge_attr=wrong)
