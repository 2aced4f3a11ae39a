"""Batches of typed graphs in the forms of DGL's loaders: with DGL where it is installed, and a stand-in for it elsewhere."""

import collections
import sys
import types

import numpy as np
import pytest
import torch

import uvatrain
from uvatrain import graphbolt

# Nothing comes from a venue.
NODES = {"paper": 60, "author": 40, "topic": 7, "venue": 3}
CITES, WRITES = ("paper", "cites", "paper"), ("author", "writes", "paper")
COVERS, BACK = ("topic", "covers", "paper"), ("paper", "rev_writes", "author")
EDGES = {CITES: 150, WRITES: 140, COVERS: 60, BACK: 140, ("paper", "appears_in", "venue"): 60}
OPTIONS = {"fanouts": [4, 3], "batch_size": 16, "edge_ids": True}


@pytest.fixture(scope="module")
def typed(tmp_path_factory):
    """A typed dataset whose authors have no features, and the ends of its edges, which it groups by destination."""
    random = np.random.default_rng(1)
    edges = {
        names: np.stack([random.integers(NODES[end], size=count) for end in (names[0], names[2])])
        for names, count in EDGES.items()
    }
    papers = {
        "features": random.random((60, 5), np.float32),
        "labels": random.integers(0, 4, 60),
        "train_idx": random.permutation(60)[:40],
    }
    topics = {"features": random.random((7, 3), np.float32)}
    given = {names: {"edge_index": ends, "edge_id": np.arange(ends.shape[1])} for names, ends in edges.items()}
    dataset = uvatrain.write_dataset(
        tmp_path_factory.mktemp("typed") / "graph",
        nodes={"paper": papers, "author": 40, "topic": topics, "venue": 3},
        edges=given,
        target="paper",
    )
    return dataset, edges


@pytest.fixture
def dgl(monkeypatch):
    """DGL, or what we use of it."""
    try:
        import dgl as module

        return module
    except (ImportError, OSError):
        module = types.ModuleType("dgl")
        module.NID, module.EID = "_ID", "_ID"
        module.create_block = StandIn
        monkeypatch.setitem(sys.modules, "dgl", module)
        return module


class StandIn:
    """A block of several types, as far as the tests read it."""

    def __init__(self, data, num_src_nodes, num_dst_nodes):
        self.lists, self.num_src_nodes, self.num_dst_nodes = data, num_src_nodes.get, num_dst_nodes.get
        self.canonical_etypes = list(data)
        frames = (collections.defaultdict(lambda: types.SimpleNamespace(data={})) for _ in range(3))
        self.srcnodes, self.dstnodes, self.edge_frames = frames

    @property
    def edges(self):
        return _Edges(self)


class _Edges:
    def __init__(self, block):
        self.block = block

    def __getitem__(self, names):
        return self.block.edge_frames[names]

    def __call__(self, etype, order):
        kind, (indptr, indices, ids) = self.block.lists[etype]
        assert kind == "csc" and ids.numel() == 0 and order == "eid"
        return indices, torch.repeat_interleave(torch.arange(len(indptr) - 1), indptr.diff())


def check_edges(dgl, block, edges):
    """That a block's edges are those that their ids name."""
    for names, ends in edges.items():
        source, destination = block.edges(etype=names, order="eid")
        found = block.srcnodes[names[0]].data[dgl.NID][source.long()], block.dstnodes[names[2]].data[dgl.NID][destination.long()]
        ids = block.edges[names].data[dgl.EID]
        assert np.array_equal(torch.stack(found).numpy(), ends[:, ids.numpy()])


@pytest.mark.parametrize("expand", ["all", "new"])
def test_dgls_blocks_have_the_nodes_edges_and_rows_of_each_type(typed, dgl, expand):
    dataset, edges = typed
    features = dataset.nodes("paper")["features"], dataset.nodes("topic")["features"]
    with uvatrain.Loader(dataset, **OPTIONS, expand=expand) as loader:
        for batch in loader:
            blocks = batch.to_dgl()
            assert len(blocks) == 2
            for made, of_layer in zip(blocks, reversed(batch.blocks)):
                assert set(made.canonical_etypes) == set(EDGES)
                check_edges(dgl, made, edges)
                for names, block in of_layer.items():
                    assert made.num_src_nodes(names[0]) == block.num_src
                    assert made.num_dst_nodes(names[2]) == block.num_dst
            for name, rows in zip(("paper", "topic"), features):
                frame = blocks[0].srcnodes[name].data
                assert torch.equal(frame["feat"], rows[frame[dgl.NID]])
            assert "feat" not in blocks[0].srcnodes["author"].data
            assert torch.equal(blocks[-1].dstnodes["paper"].data["label"], batch.y)
            assert torch.equal(blocks[-1].dstnodes["paper"].data[dgl.NID], batch.seeds)
            assert blocks[-1].num_dst_nodes("author") == 0
            for inner, outer in zip(blocks[1:], blocks):
                for name in NODES:
                    assert inner.num_src_nodes(name) == outer.num_dst_nodes(name)


def test_a_step_of_dgls_loader_has_ids_by_node_type(typed, dgl):
    dataset, _ = typed
    with uvatrain.Loader(dataset, **OPTIONS, transform=uvatrain.TypedBatch.to_dgl_step) as loader:
        for input_nodes, output_nodes, blocks in loader:
            assert set(input_nodes) == set(NODES) and set(output_nodes) == {"paper"}
            for name, ids in input_nodes.items():
                assert torch.equal(blocks[0].srcnodes[name].data[dgl.NID], ids)
            assert torch.equal(blocks[-1].dstnodes["paper"].data[dgl.NID], output_nodes["paper"])


def test_a_minibatch_has_dicts_by_node_type_and_relation(typed):
    dataset, edges = typed
    transform = uvatrain.TypedBatch.to_graphbolt
    with (
        uvatrain.Loader(dataset, **OPTIONS, transform=transform) as loader,
        uvatrain.Loader(dataset, **OPTIONS) as plain,
    ):
        for made, batch in zip(loader, plain, strict=True):
            assert isinstance(made, graphbolt.MiniBatch) and made.num_layers() == 2 and made.edge_features is None
            assert torch.equal(made.seeds["paper"], batch.seeds) and torch.equal(made.labels["paper"], batch.y)
            assert set(made.node_features) == {("paper", "feat"), ("topic", "feat")}
            for (name, _), rows in made.node_features.items():
                assert torch.equal(rows, dataset.nodes(name)["features"][made.node_ids()[name]])
            for layer, subgraph in enumerate(made.sampled_subgraphs):
                rows, columns = subgraph.original_row_node_ids, subgraph.original_column_node_ids
                assert set(rows) == set(columns) == set(NODES)
                assert set(subgraph.sampled_csc) == {":".join(names) for names in EDGES}
                for names, ends in edges.items():
                    csc, block = subgraph.sampled_csc[":".join(names)], batch.blocks[1 - layer][names]
                    assert torch.equal(csc.indptr, block.indptr) and torch.equal(csc.indices, block.indices)
                    ids = subgraph.original_edge_ids[":".join(names)].numpy()
                    assert np.array_equal(ends[0, ids], rows[names[0]][csc.indices.long()].numpy())
                    owners = np.repeat(columns[names[2]].numpy(), csc.indptr.diff().numpy())
                    assert np.array_equal(ends[1, ids], owners)
            kept = made.to("cpu")
    assert kept.node_features["paper", "feat"].shape == (kept.node_ids()["paper"].numel(), 5)
    with uvatrain.Loader(dataset, fanouts=[2], transform=transform) as loader:
        assert next(iter(loader)).edge_ids(0) is None


def test_a_minibatch_makes_dgls_blocks(typed, dgl):
    dataset, edges = typed
    with uvatrain.Loader(dataset, **OPTIONS, transform=uvatrain.TypedBatch.to_graphbolt) as loader:
        made = next(iter(loader))
        for minibatch in (made, made.to("cpu")):
            assert len(minibatch.blocks) == 2
            for block, subgraph in zip(minibatch.blocks, minibatch.sampled_subgraphs):
                check_edges(dgl, block, edges)
                for name, ids in subgraph.original_row_node_ids.items():
                    assert torch.equal(block.srcnodes[name].data[dgl.NID], ids)


def test_graphbolts_own_minibatch_of_these_fields_has_the_same_blocks(typed):
    theirs = pytest.importorskip("dgl.graphbolt", reason="needs DGL, in an environment with a torch that it fits")
    dataset, _ = typed
    with uvatrain.Loader(dataset, **OPTIONS, transform=uvatrain.TypedBatch.to_graphbolt) as loader:
        made = next(iter(loader))
        subgraphs = [
            theirs.SampledSubgraphImpl(
                sampled_csc={
                    name: theirs.CSCFormatBase(indptr=csc.indptr, indices=csc.indices)
                    for name, csc in subgraph.sampled_csc.items()
                },
                original_column_node_ids=subgraph.original_column_node_ids,
                original_row_node_ids=subgraph.original_row_node_ids,
                original_edge_ids=subgraph.original_edge_ids,
            )
            for subgraph in made.sampled_subgraphs
        ]
        own = theirs.MiniBatch(seeds=made.seeds, input_nodes=made.input_nodes, sampled_subgraphs=subgraphs)
        for ours, block in zip(made.blocks, own.blocks, strict=True):
            assert ours.canonical_etypes == block.canonical_etypes
            for name in NODES:
                assert ours.num_src_nodes(name) == block.num_src_nodes(name)
                assert ours.num_dst_nodes(name) == block.num_dst_nodes(name)
            for names in EDGES:
                assert all(torch.equal(a, b) for a, b in zip(ours.edges(etype=names), block.edges(etype=names)))
                assert all(torch.equal(ours.edges[names].data[key], ids) for key, ids in block.edges[names].data.items())


def test_dgls_heterogeneous_layers_compute_what_the_blocks_say(typed):
    dgl = pytest.importorskip("dgl.nn", reason="needs DGL, in an environment with a torch that it fits")
    dataset, _ = typed
    torch.manual_seed(0)
    conv = dgl.HeteroGraphConv(
        {"cites": dgl.SAGEConv(5, 4, "mean"), "covers": dgl.SAGEConv((3, 5), 4, "mean")}, aggregate="sum"
    )
    with uvatrain.Loader(dataset, fanouts=[4], batch_size=16) as loader:
        for batch in loader:
            (block,) = batch.to_dgl()
            x = {name: block.srcnodes[name].data["feat"] for name in ("paper", "topic")}
            count = batch.num_seeds
            found = conv(block, (x, {"paper": x["paper"][:count]}))["paper"]
            expected = 0
            for names in (CITES, COVERS):
                layer, (source, destination) = conv.mods[names[1]], batch.blocks[0][names].edge_index
                mean = torch.zeros(count, x[names[0]].shape[1]).index_add_(0, destination, x[names[0]][source])
                mean /= batch.blocks[0][names].indptr.diff().clamp(min=1)[:, None]
                own = layer.fc_self(x["paper"][:count]) + getattr(layer, "bias", 0)
                expected = expected + own + layer.fc_neigh(mean)
            torch.testing.assert_close(found, expected)
