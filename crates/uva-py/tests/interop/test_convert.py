"""Batches as PyG's Data and DGL's blocks: what a model computes on them is what it computes on the blocks."""

import warnings

import numpy as np
import pytest
import torch
import torch.nn.functional as F

import uvatrain
from conftest import run_forked_well
from graphs import Tables, write_graph

torch_geometric = pytest.importorskip("torch_geometric")

from torch_geometric.data import Data  # noqa: E402
from torch_geometric.nn import GATConv, GCNConv, GraphSAGE, SAGEConv  # noqa: E402
from torch_geometric.utils import trim_to_layer  # noqa: E402


class Layers(torch.nn.Module):
    """The same convolutions, run over blocks and over trimmed Data."""

    def __init__(self, kind, dim, count):
        super().__init__()
        torch.manual_seed(1)
        options = {SAGEConv: {}, GATConv: {"add_self_loops": False}, GCNConv: {"normalize": False}}[kind]
        sizes = [dim] + [8] * count
        self.convs = torch.nn.ModuleList(kind(a, b, **options) for a, b in zip(sizes, sizes[1:]))

    def over_blocks(self, batch):
        """Layer by layer, each over its own block: what uvatrain's own models do."""
        x = batch.x / 100
        for conv, layer in zip(self.convs, reversed(range(len(batch.blocks)))):
            block = batch.blocks[layer]
            if isinstance(conv, GCNConv):
                # Takes no pair: all sources, of which the first are the destinations.
                x = conv(x[: block.num_src], batch.edge_index[layer])[: block.num_dst]
            else:
                x = conv((x[: block.num_src], x[: block.num_dst]), batch.edge_index[layer])
            x = F.relu(x)
        return x

    def over_data(self, data):
        """As PyG's examples do."""
        x, edge_index = data.x / 100, data.edge_index
        for layer, conv in enumerate(self.convs):
            x, edge_index, _ = trim_to_layer(
                layer, data.num_sampled_nodes, data.num_sampled_edges, x, edge_index
            )
            x = F.relu(conv(x, edge_index))
        return x[: data.batch_size]

    def over_data_whole(self, data):
        """Without trimming."""
        x = data.x / 100
        for conv in self.convs:
            x = F.relu(conv(x, data.edge_index))
        return x[: data.batch_size]


@pytest.mark.parametrize("kind", [SAGEConv, GATConv, GCNConv])
@pytest.mark.parametrize("fanouts", [[4], [4, 3], [3, 5, 2], [-1, 2]])
@pytest.mark.parametrize("replace", [False, True])
def test_layers_over_trimmed_data_compute_what_they_compute_over_blocks(graph, kind, fanouts, replace):
    model = Layers(kind, 5, len(fanouts))
    # A fanout of -1 has no bound of its own.
    options = dict(batch_size=64, replace=replace, slot_bytes=1 << 20, seed=3)
    with uvatrain.Loader(graph, fanouts=fanouts, expand="new", **options) as loader:
        for batch in loader:
            data = batch.to_pyg()
            expected = model.over_blocks(batch)
            torch.testing.assert_close(model.over_data(data), expected)
            torch.testing.assert_close(model.over_data_whole(data), expected)
            gradient = torch.autograd.grad(expected.sum(), list(model.parameters()))
            for one, other in zip(
                torch.autograd.grad(model.over_data(data).sum(), list(model.parameters())), gradient
            ):
                torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("kind", [SAGEConv, GATConv, GCNConv])
@pytest.mark.parametrize("expand", ["new", "all"])
@pytest.mark.filterwarnings("ignore::uvatrain.UvatrainWarning")
def test_edges_that_promise_their_order_keep_it_and_give_the_same_results(graph, kind, expand):
    model = Layers(kind, 5, 3)
    options = dict(fanouts=[3, 5, 2], batch_size=64, expand=expand, edge_ids=True, seed=3)
    with uvatrain.Loader(graph, **options) as loader:
        for batch in loader:
            plain, promised = batch.to_pyg(), batch.to_pyg(as_edge_index=True)
            assert type(plain.edge_index) is torch.Tensor
            edge_index = promised.edge_index
            assert isinstance(edge_index, torch_geometric.EdgeIndex)
            assert edge_index.validate().is_sorted_by_col and promised.validate()
            assert edge_index.sparse_size() == (batch.num_nodes, batch.num_nodes)
            # The edges stand where they stood, and so their ids belong to them.
            assert torch.equal(edge_index.as_tensor(), plain.edge_index)
            assert torch.equal(promised.e_id, plain.e_id)
            for over in (model.over_data, model.over_data_whole):
                expected = over(plain)
                torch.testing.assert_close(over(promised), expected)
                for one, other in zip(
                    torch.autograd.grad(over(promised).sum(), list(model.parameters())),
                    torch.autograd.grad(expected.sum(), list(model.parameters())),
                ):
                    torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)


@pytest.mark.filterwarnings("ignore::uvatrain.UvatrainWarning")
def test_without_expand_new_pyg_computes_on_the_first_picks_only(graph):
    model = Layers(SAGEConv, 5, 2)
    differs = False
    with uvatrain.Loader(graph, fanouts=[3, 2], batch_size=64) as loader:
        for batch in loader:
            data, (first, second) = batch.to_pyg(), batch.blocks
            # Each node has the neighbours of the hop after it was found.
            lists = [first.indices[a:b] for a, b in zip(first.indptr, first.indptr[1:])]
            later = [second.indices[a:b] for a, b in zip(second.indptr, second.indptr[1:])][first.num_dst :]
            row, col = data.edge_index
            for target, expected in enumerate(lists + later):
                assert row[col == target].tolist() == expected.tolist()
            assert data.num_sampled_edges == [first.num_edges, sum(map(len, later))]
            assert (
                data.validate()
                and data.num_sampled_nodes == [64, first.num_src - 64, second.num_src - first.num_src]
                or (data.batch_size < 64)
            )
            torch.testing.assert_close(model.over_data(data), model.over_data_whole(data))
            differs |= not torch.allclose(model.over_data(data), model.over_blocks(batch))
    assert differs, "nothing was drawn twice: this shows nothing"


def warnings_of(script, graph):
    """What a script with `uvatrain` and the graph's path as `graph` warns of, as lines of category and text."""
    begin = "import sys, warnings, uvatrain\ngraph = sys.argv[1]\nwarnings.simplefilter('always')\n"
    show = "def show(message, category, filename, *rest): print(category.__name__, filename, message, sep='|')\n"
    said = run_forked_well(begin + show + "warnings.showwarning = show\n" + script, graph)
    return [line for line in said.splitlines() if line.startswith("UvatrainWarning|")]


def test_what_to_pyg_omits_is_reported_once_with_its_share(graph):
    with uvatrain.Loader(graph, fanouts=[4, 3], batch_size=64) as loader:
        batch = next(iter(loader))
        sampled = sum(block.num_edges for block in batch.blocks)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            share = 100 * (1 - batch.to_pyg().num_edges / sampled)
    assert share > 1
    script = """
for _ in range(2):
    with uvatrain.Loader(graph, fanouts=[4, 3], batch_size=64) as loader:
        for batch in loader:
            batch.to_pyg()
"""
    (told,) = warnings_of(script, graph)
    # It points at the line that called, and names the way out.
    assert told.startswith("UvatrainWarning|<string>|to_pyg() omits")
    assert f"omits {share:.1f} % of this batch's {sampled} sampled edges" in told
    assert 'expand="new"' in told


@pytest.mark.parametrize(
    ("options", "way_out"),
    [
        ("fanouts=[4, 3], expand='new'", None),
        ("fanouts=[4]", None),
        # All hops are over one subgraph: later ones pick the same edges again.
        ("fanouts=[30, 30], sampler_kind='saint-node'", None),
        # They cannot expand new nodes only.
        ("fanouts=[30, 30], sampler_kind='ladies'", "batch.blocks one by one"),
    ],
)
def test_a_warning_comes_only_where_edges_are_omitted_and_names_kinds(graph, options, way_out):
    script = f"""
with uvatrain.Loader(graph, {options}, batch_size=64) as loader:
    for batch in loader:
        batch.to_pyg()
"""
    told = warnings_of(script, graph)
    if way_out is None:
        assert told == []
    else:
        assert len(told) == 1 and way_out in told[0] and "expand" not in told[0]


def test_one_layer_is_the_same_either_way(graph):
    model = Layers(SAGEConv, 5, 1)
    hashes = []
    for expand in ("all", "new"):
        with uvatrain.Loader(graph, fanouts=[3], batch_size=64, expand=expand) as loader:
            for batch in loader:
                torch.testing.assert_close(model.over_data(batch.to_pyg()), model.over_blocks(batch))
                hashes.append(batch.hash)
    assert hashes[: len(hashes) // 2] == hashes[len(hashes) // 2 :]


def test_data_is_as_a_neighbor_loader_makes_it(graph):
    tables = Tables(graph)
    with uvatrain.Loader(graph, fanouts=[4, 3], batch_size=64, expand="new") as loader:
        for batch in loader:
            assert batch.expand == "new"
            data = batch.to_pyg()
            assert isinstance(data, Data) and data.validate()
            assert (
                data.n_id.data_ptr() == batch.input_nodes.data_ptr()
                and data.x.data_ptr() == batch.x.data_ptr()
            )
            assert data.batch_size == batch.num_seeds == data.y.numel()
            assert np.array_equal(data.x.numpy(), tables.features[data.n_id])
            assert np.array_equal(
                data.y[: data.batch_size].numpy(), tables.labels[data.n_id[: data.batch_size]]
            )
            assert (
                sum(data.num_sampled_nodes) == data.num_nodes
                and sum(data.num_sampled_edges) == data.num_edges
            )
            assert data.edge_index.dtype == torch.int64
            assert "input_id" not in data and "e_id" not in data and not batch.has_edge_ids
            known = {
                tuple(pair)
                for pair in zip(tables.indices.tolist(), np.repeat(np.arange(600), np.diff(tables.indptr)))
            }
            assert all((s, int(t)) in known for s, t in data.n_id[data.edge_index].t().tolist())


@pytest.mark.filterwarnings("ignore::uvatrain.UvatrainWarning")
@pytest.mark.parametrize("expand", ["all", "new"])
@pytest.mark.parametrize("kind", [dict(), dict(sampler_kind="labor"), dict(sampler_kind="saint-edge")])
def test_e_id_is_the_position_of_each_edge_in_the_datasets_indices(graph, expand, kind):
    tables = Tables(graph)
    targets = np.repeat(np.arange(600), np.diff(tables.indptr))
    fanouts = [60, 60] if kind.get("sampler_kind") == "saint-edge" else [4, 3]
    if expand == "new" and fanouts == [60, 60]:
        pytest.skip("it draws one subgraph")
    with uvatrain.Loader(graph, fanouts=fanouts, batch_size=64, expand=expand, edge_ids=True, **kind) as loader:
        for batch in loader:
            data = batch.to_pyg()
            assert batch.has_edge_ids and data.e_id.dtype == torch.int64
            assert data.e_id.shape == (data.num_edges,) and data.validate()
            ends = np.stack([tables.indices[data.e_id], targets[data.e_id]])
            assert np.array_equal(data.n_id[data.edge_index].numpy(), ends)


def test_pygs_graphsage_trains_on_it(graph):
    tables = Tables(graph)
    model = GraphSAGE(5, 16, num_layers=2, out_channels=2)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    # Something that can be learnt: whether the node's first feature is large.
    target = torch.from_numpy((tables.features[:, 0] > 50).astype(np.int64))
    losses = []
    with uvatrain.Loader(graph, fanouts=[4, 3], batch_size=64, expand="new") as loader:
        for _ in range(15):
            for batch in loader:
                data = batch.to_pyg()
                out = model(
                    data.x / 100,
                    data.edge_index,
                    num_sampled_nodes_per_hop=data.num_sampled_nodes,
                    num_sampled_edges_per_hop=data.num_sampled_edges,
                )[: data.batch_size]
                loss = F.cross_entropy(out, target[data.n_id[: data.batch_size]])
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                losses.append(loss.item())
    assert np.mean(losses[-5:]) < 0.6 * np.mean(losses[:5])


@pytest.mark.parametrize(
    "kind",
    [
        dict(sampler_kind="ladies", fanouts=[40, 60]),
        dict(sampler_kind="saint-node", fanouts=[60, 60]),
        dict(sampler_kind="walk", fanouts=[4, 3]),
        dict(sampler_kind="walk", fanouts=[4, 3], expand="new"),
        dict(sampler_kind="ppr", fanouts=[4, 3]),
        dict(sampler_kind="ppr", fanouts=[4, 3], expand="new"),
    ],
)
def test_the_weights_of_edges_are_pygs_edge_weight(graph, kind):
    with uvatrain.Loader(graph, **kind, batch_size=64) as loader:
        for batch in loader:
            data, (first, second) = batch.to_pyg(), batch.blocks
            # With "new" the second block begins with the first.
            behind = int(second.indptr[first.num_dst])
            expected = torch.cat([first.weights, second.weights[behind:]])
            assert data.edge_weight.shape == (data.edge_index.size(1),)
            assert torch.equal(data.edge_weight, expected)
            # What a destination's edges weigh together is 1, or nothing where none of its neighbours was drawn.
            sums = torch.zeros(data.num_nodes).index_add(0, data.edge_index[1], data.edge_weight)
            assert (((sums - 1).abs() < 1e-5) | (sums == 0)).all() and (sums > 0).any()
    with uvatrain.Loader(graph, fanouts=[4, 3], batch_size=64) as loader:
        assert "edge_weight" not in next(iter(loader)).to_pyg()


def test_a_data_that_is_kept_is_kept_whole(graph):
    with uvatrain.Loader(graph, fanouts=[4, 3], batch_size=64, expand="new") as loader:
        iterator = iter(loader)
        first = next(iterator).to_pyg()
        kept = first.clone()
        next(iterator)
        assert (
            torch.equal(first.x, kept.x)
            and torch.equal(first.n_id, kept.n_id)
            and torch.equal(first.y, kept.y)
        )


def test_batches_without_edges_and_of_several_classes_convert_too(tmp_path):
    path = write_graph(tmp_path / "graph", multi_label=True, nodes=40, splits=(20, 5, 5))
    with uvatrain.Loader(path, fanouts=[2, 2], batch_size=8, expand="new") as loader:
        for batch in loader:
            data = batch.to_pyg()
            assert data.y.shape == (data.batch_size, 4) and data.y.dtype == torch.uint8
    lonely = uvatrain.write_dataset(
        tmp_path / "lonely",
        indptr=np.zeros(4, np.int64),
        indices=np.empty(0, np.int32),
        features=np.ones((3, 2), np.float32),
        labels=np.zeros(3, np.int64),
        train_idx=np.array([2, 0]),
    )
    for expand in ("all", "new"):
        with uvatrain.Loader(lonely.path, fanouts=[2, 2], batch_size=8, expand=expand) as loader:
            (data,) = [batch.to_pyg() for batch in loader]
            assert data.edge_index.shape == (2, 0) and data.num_sampled_edges == [0, 0]
            assert data.num_sampled_nodes == [2, 0, 0]
            model = GraphSAGE(2, 4, num_layers=2)
            model(
                data.x, data.edge_index, num_sampled_nodes_per_hop=[2, 0, 0], num_sampled_edges_per_hop=[0, 0]
            )


def test_expand_is_all_or_new(graph):
    with pytest.raises(ValueError, match="expand=some: 'some' is not one of all, new"):
        uvatrain.Loader(graph, expand="some")


def test_without_dgl_its_blocks_are_unavailable_with_how_to_install_it(graph):
    with uvatrain.Loader(graph, fanouts=[2]) as loader:
        batch = next(iter(loader))
        try:
            import dgl  # noqa: F401
        except ImportError:
            with pytest.raises(uvatrain.Unavailable, match=r"pip install torch==2\.2\.1 .* dgl==2\.1\.0"):
                batch.to_dgl()
        else:
            pytest.skip("DGL is installed: test_dgl.py runs")
