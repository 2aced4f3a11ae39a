"""Batches as DGL's blocks.

DGL 2.1.0 wants another torch than the one of the other tests, so this file has few needs.
"""

import numpy as np
import pytest
import torch

import uvatrain
from graphs import Tables

try:
    import dgl
    from dgl.nn import SAGEConv
except (ImportError, OSError) as error:
    pytest.skip(f"needs DGL, in an environment with a torch that it fits: {error}", allow_module_level=True)


@pytest.mark.parametrize("fanouts", [[4], [4, 3], [3, -1, 2]])
@pytest.mark.parametrize("expand", ["all", "new"])
def test_blocks_are_those_of_the_batch_in_the_order_of_the_layers(graph, fanouts, expand):
    tables = Tables(graph)
    with uvatrain.Loader(graph, fanouts=fanouts, batch_size=64, expand=expand, edge_ids=True, slot_bytes=1 << 20) as loader:
        for batch in loader:
            blocks = batch.to_dgl()
            assert len(blocks) == len(fanouts)
            for made, block in zip(blocks, reversed(batch.blocks)):
                assert made.is_block
                assert (made.num_src_nodes(), made.num_dst_nodes(), made.num_edges()) == (
                    block.num_src,
                    block.num_dst,
                    block.num_edges,
                )
                source, destination = made.edges(order="eid")
                assert torch.equal(torch.stack([source, destination]).long(), block.edge_index)
                assert torch.equal(made.edata[dgl.EID], block.edge_ids)
                assert torch.equal(made.srcdata[dgl.NID], batch.input_nodes[: block.num_src])
                assert torch.equal(made.dstdata[dgl.NID], batch.input_nodes[: block.num_dst])
            assert np.array_equal(blocks[0].srcdata["feat"].numpy(), tables.features[batch.input_nodes])
            assert torch.equal(blocks[-1].dstdata["label"], batch.y)
            assert torch.equal(blocks[-1].dstdata[dgl.NID], batch.seeds)


def test_dgls_layers_compute_the_mean_of_the_neighbours(graph):
    torch.manual_seed(0)
    layers = [SAGEConv(5, 8, "mean"), SAGEConv(8, 3, "mean")]
    with uvatrain.Loader(graph, fanouts=[4, 3], batch_size=64) as loader:
        for batch in loader:
            blocks = batch.to_dgl()
            h = blocks[0].srcdata["feat"] / 100
            for layer, block in zip(layers, blocks):
                h = layer(block, h)
            # The same by hand.
            x = batch.x / 100
            for layer, block in zip(layers, reversed(batch.blocks)):
                source, destination = block.edge_index
                mean = torch.zeros(block.num_dst, x.shape[1]).index_add_(0, destination, x[source])
                mean /= block.indptr.diff().clamp(min=1)[:, None]
                x = layer.fc_self(x[: block.num_dst]) + layer.fc_neigh(mean) + getattr(layer, "bias", 0)
            torch.testing.assert_close(h, x)


@pytest.mark.parametrize("kind", [dict(), dict(edge_ids=True), dict(sampler_kind="walk")])
def test_a_minibatch_has_what_graphbolts_own_has(graph, kind):
    theirs = pytest.importorskip("dgl.graphbolt")
    with uvatrain.Loader(graph, fanouts=[4, 3], batch_size=64, transform=uvatrain.Batch.to_graphbolt, **kind) as loader:
        made = next(iter(loader))
        # GraphBolt's, of the same tensors.
        own = theirs.MiniBatch(
            labels=made.labels,
            seeds=made.seeds,
            input_nodes=made.input_nodes,
            node_features=made.node_features,
            edge_features=made.edge_features,
            sampled_subgraphs=[
                theirs.SampledSubgraphImpl(
                    sampled_csc=theirs.CSCFormatBase(
                        indptr=subgraph.sampled_csc.indptr, indices=subgraph.sampled_csc.indices
                    ),
                    original_column_node_ids=subgraph.original_column_node_ids,
                    original_row_node_ids=subgraph.original_row_node_ids,
                    original_edge_ids=subgraph.original_edge_ids,
                )
                for subgraph in made.sampled_subgraphs
            ],
        )
        for name in dir(own):
            # Pairs of nodes as seeds have none here.
            if not name.startswith("_") and name not in ("positive_node_pairs", "negative_node_pairs"):
                assert hasattr(made, name), name
        assert made.num_layers() == own.num_layers() and torch.equal(made.node_ids(), own.node_ids())
        for minibatch in (made, made.to("cpu")):
            for ours, block in zip(minibatch.blocks, own.blocks, strict=True):
                assert ours.num_src_nodes() == block.num_src_nodes() and ours.num_dst_nodes() == block.num_dst_nodes()
                assert all(torch.equal(a, b) for a, b in zip(ours.edges(), block.edges()))
                for name, data in block.edata.items():
                    assert torch.equal(ours.edata[name], data)
            assert torch.equal(minibatch.blocks[0].srcdata[dgl.NID], own.blocks[0].srcdata[dgl.NID])


def test_a_step_of_dgls_loader_trains_a_model(graph):
    model = SAGEConv(5, 3, "mean")
    with uvatrain.Loader(graph, fanouts=[4], batch_size=64, transform=uvatrain.Batch.to_dgl_step) as loader:
        for input_nodes, output_nodes, (block,) in loader:
            assert torch.equal(block.srcdata[dgl.NID], input_nodes)
            assert torch.equal(block.dstdata[dgl.NID], output_nodes)
            torch.nn.functional.cross_entropy(model(block, block.srcdata["feat"] / 100), block.dstdata["label"] % 3).backward()
    assert all(parameter.grad is not None for parameter in model.parameters())
