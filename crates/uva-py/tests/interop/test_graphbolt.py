"""Batches in the forms of DGL's loaders. DGL itself is not needed: test_dgl.py runs with it."""

import sys
import types

import numpy as np
import pytest
import torch

import uvatrain
from graphs import Tables
from uvatrain import graphbolt


@pytest.mark.parametrize("kind", [dict(), dict(edge_ids=True), dict(sampler_kind="walk")])
def test_a_minibatch_has_the_fields_of_graphbolts(graph, kind):
    tables = Tables(graph)
    seen = 0
    transform = uvatrain.Batch.to_graphbolt
    with (
        uvatrain.Loader(graph, fanouts=[4, 3], batch_size=64, transform=transform, **kind) as loader,
        uvatrain.Loader(graph, fanouts=[4, 3], batch_size=64, **kind) as plain,
    ):
        for made, batch in zip(loader, plain):
            assert isinstance(made, graphbolt.MiniBatch) and made.num_layers() == 2
            assert torch.equal(made.seeds, batch.seeds) and torch.equal(made.seed_nodes, batch.seeds)
            assert torch.equal(made.labels, batch.y) and torch.equal(made.input_nodes, batch.input_nodes)
            assert np.array_equal(made.node_features["feat"].numpy(), tables.features[made.node_ids()])
            outermost, innermost = made.sampled_subgraphs
            assert torch.equal(outermost.original_row_node_ids, made.input_nodes)
            assert torch.equal(innermost.original_column_node_ids, made.seeds)
            assert torch.equal(outermost.original_column_node_ids, innermost.original_row_node_ids)
            for layer, subgraph in enumerate(made.sampled_subgraphs):
                block = batch.blocks[1 - layer]
                assert torch.equal(subgraph.sampled_csc.indptr, block.indptr)
                assert torch.equal(subgraph.sampled_csc.indices, block.indices)
                if kind.get("edge_ids"):
                    sources = subgraph.original_row_node_ids[subgraph.sampled_csc.indices]
                    assert np.array_equal(tables.indices[subgraph.original_edge_ids], sources)
                else:
                    assert subgraph.original_edge_ids is None
                if batch.weighs_edges:
                    assert torch.equal(made.edge_features[layer]["weight"], block.weights)
            assert batch.weighs_edges or made.edge_features is None
            seen += 1
    assert seen == 5


def test_a_copy_of_a_minibatch_outlives_its_batch(graph):
    kept = []
    with uvatrain.Loader(graph, fanouts=[4, 3], batch_size=64, transform=uvatrain.Batch.to_graphbolt) as loader:
        for made in loader:
            kept.append(made.to("cpu"))
    assert len(kept) == 5
    for made in kept:
        assert made.node_features["feat"].shape[0] == made.input_nodes.numel()
        assert torch.equal(made.sampled_subgraphs[-1].original_column_node_ids, made.seeds)
    with pytest.raises(ValueError, match="to_pyg_data.. is of the batch as the loader made it"):
        kept[0].to_pyg_data()


class FakeBlock:
    def __init__(self, csc, num_src_nodes, num_dst_nodes):
        self.csc, self.sizes = csc, (num_src_nodes, num_dst_nodes)
        self.srcdata, self.dstdata, self.edata = {}, {}, {}


@pytest.fixture
def dgl(monkeypatch):
    """What `to_dgl()` uses of DGL, where DGL is not."""
    module = types.ModuleType("dgl")
    module.NID, module.EID = "_ID", "_ID"
    module.create_block = lambda csc, num_src_nodes, num_dst_nodes: FakeBlock(csc, num_src_nodes, num_dst_nodes)
    monkeypatch.setitem(sys.modules, "dgl", module)
    return module


def test_a_step_of_dgls_loader_is_input_nodes_output_nodes_and_blocks(graph, dgl):
    tables = Tables(graph)
    options = dict(fanouts=[4, 3], batch_size=64, edge_ids=True)
    with uvatrain.Loader(graph, **options, transform=uvatrain.Batch.to_dgl_step) as loader:
        for input_nodes, output_nodes, blocks in loader:
            assert torch.equal(input_nodes[: output_nodes.numel()], output_nodes)
            assert torch.equal(blocks[0].srcdata[dgl.NID], input_nodes)
            assert torch.equal(blocks[-1].dstdata[dgl.NID], output_nodes)
            for block in blocks:
                sources = block.srcdata[dgl.NID][block.csc[1][1]]
                assert np.array_equal(tables.indices[block.edata[dgl.EID]], sources)
    with uvatrain.Loader(graph, fanouts=[4, 3], transform=uvatrain.Batch.to_graphbolt) as loader:
        made = next(iter(loader))
        copied = made.to("cpu")
        for minibatch in (made, copied):
            assert dgl.EID not in minibatch.blocks[0].edata and len(minibatch.blocks) == 2
            for block, subgraph in zip(minibatch.blocks, minibatch.sampled_subgraphs):
                assert torch.equal(block.srcdata[dgl.NID], subgraph.original_row_node_ids)
                assert torch.equal(block.dstdata[dgl.NID], subgraph.original_column_node_ids)


def test_a_minibatch_has_the_setters_and_the_fields_of_edges_as_seeds(graph):
    options = dict(fanouts=[4, 3], batch_size=64, edge_ids=True, transform=uvatrain.Batch.to_graphbolt)
    with uvatrain.Loader(graph, **options) as loader:
        made = next(iter(loader))
        for layer, subgraph in enumerate(made.sampled_subgraphs):
            assert torch.equal(made.edge_ids(layer), subgraph.original_edge_ids)
        made.set_node_features({"other": made.seeds})
        made.set_edge_features([{"a": made.edge_ids(0)}, {"a": made.edge_ids(1)}])
        assert list(made.node_features) == ["other"] and len(made.edge_features) == 2
        assert made.indexes is None and made.compacted_seeds is None and made.node_pairs_with_labels is None
