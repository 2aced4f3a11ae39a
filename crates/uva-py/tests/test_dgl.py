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
except ImportError as error:
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
