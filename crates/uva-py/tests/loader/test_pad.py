"""Padded batches: without their padding those of a loader that does not pad, and in static shapes."""

import json

import numpy as np
import pytest
import torch
import uvatrain
from graphs import TYPED_NODES, TYPED_RELATIONS, write_graph, write_typed_graph

OPTIONS = dict(fanouts=[4, 3], batch_size=64, seed=3)
KINDS = [dict(), dict(expand="new"), dict(replace=True), dict(sampler_kind="labor"), dict(sampler_kind="walk")]


def places(batch, shapes):
    """Where each node of the batch without padding is in the padded one."""
    return places_in(shapes.nodes, batch.real_nodes)


def places_in(levels, real_nodes):
    begins = np.concatenate([[0], np.cumsum(levels)[:-1]])
    return torch.from_numpy(np.concatenate([np.arange(count) + begin for begin, count in zip(begins, real_nodes)]))


@pytest.mark.parametrize("kind", KINDS)
def test_a_batch_without_its_padding_is_that_of_a_loader_that_does_not_pad(graph, kind):
    options = OPTIONS | kind | dict(input_id=True)
    with uvatrain.Loader(graph, pad="auto", **options) as padded, uvatrain.Loader(graph, **options) as plain:
        shapes = padded.shapes
        assert plain.shapes is None and len(shapes.nodes) == 3 and len(shapes.blocks) == 2
        for batch, own in zip(padded, plain, strict=True):
            assert batch.padded and not own.padded and batch.hash == own.hash
            counts = [(block.num_dst, block.num_src, block.num_edges) for block in batch.blocks]
            assert counts == shapes.blocks and batch.num_nodes == sum(shapes.nodes)
            assert batch.real_edges == [block.num_edges for block in own.blocks]
            assert sum(batch.real_nodes) == own.num_nodes == sum(own.real_nodes)
            place, seeds = places(batch, shapes), own.num_seeds
            assert torch.equal(batch.input_nodes[place], own.input_nodes)
            assert torch.equal(batch.x[place], own.x)
            assert torch.equal(batch.y[:seeds], own.y) and (batch.y[seeds:] == -1).all()
            assert torch.equal(batch.input_id[:seeds], own.input_id)
            assert batch.seed_mask.tolist() == [1] * seeds + [0] * (batch.num_seeds - seeds)
            real = torch.zeros(batch.num_nodes, dtype=torch.bool)
            real[place] = True
            for block, other in zip(batch.blocks, own.blocks):
                sources, destinations = block.edge_index
                assert torch.equal(real[sources], real[destinations]), "none between real nodes and padding"
                of_real = block.edge_index[:, real[destinations]]
                assert torch.equal(of_real, place[other.edge_index])
        assert padded.stats()["unpadded"] == 0 and "unpadded" not in plain.stats()


def test_without_pad_there_is_no_mask_and_a_wrong_value_is_refused_by_name(graph):
    with uvatrain.Loader(graph, **OPTIONS) as loader:
        batch = next(iter(loader))
        with pytest.raises(ValueError, match='pad="auto"'):
            batch.seed_mask  # noqa: B018
    with pytest.raises(ValueError, match="pad"):
        uvatrain.Loader(graph, pad="always", **OPTIONS)
    pyg = pytest.importorskip("uvatrain.pyg")
    with pytest.raises(ValueError, match=r"pad is not supported.*uvatrain\.Loader"):
        pyg.NeighborLoader(uvatrain.Dataset(graph), [4, 3], batch_size=64, pad="auto")


def test_shapes_are_of_the_loaders_split_and_nodes_and_a_state_keeps_them(graph):
    shapes = {}
    for split in ("train", "valid", "test"):
        with uvatrain.Loader(graph, split=split, pad="auto", **OPTIONS | dict(batch_size=50)) as loader:
            assert all(batch.padded for batch in loader)
            shapes[split] = loader.shapes
    assert shapes["train"] != shapes["valid"]
    with uvatrain.Loader(graph, input_nodes=[5, 6, 7], pad="auto", **OPTIONS) as loader:
        assert loader.shapes.nodes[0] == 8
        assert next(iter(loader)).real_nodes[0] == 3
    again = uvatrain.Loader(graph, pad="auto", **OPTIONS)
    with uvatrain.Loader(graph, pad="auto", **OPTIONS) as padded, again, uvatrain.Loader(graph, **OPTIONS) as plain:
        steps = iter(padded)
        next(steps)
        again.load_state_dict(padded.state_dict())
        assert again.shapes == padded.shapes
        assert next(iter(again)).hash == next(steps).hash
        with pytest.raises(ValueError, match="pad is another: 'auto' in the state, 'off' here"):
            plain.load_state_dict(padded.state_dict())
    ranks = []
    for rank in range(2):
        with uvatrain.Loader(graph, pad="auto", rank=rank, world_size=2, **OPTIONS) as loader:
            ranks.append(loader.shapes)
    assert ranks[0] == ranks[1] == padded.shapes


def test_padded_convolutions_give_equal_rows_and_gradients_for_real_seeds(graph):
    nn = pytest.importorskip("torch_geometric.nn")
    torch.manual_seed(0)
    layers = torch.nn.ModuleList([nn.SAGEConv(5, 8), nn.GATConv(8, 4)])

    def loss_of(batch, mask):
        x = batch.x
        for layer, block in zip(layers, reversed(batch.blocks)):
            x = layer((x, x[: block.num_dst]), block.edge_index)
        if mask:
            own = torch.nn.functional.one_hot(batch.y.clamp(min=0), 4).float()
            errors = ((x - own) ** 2).mean(dim=1) * batch.seed_mask
            return x, errors.sum() / batch.seed_mask.sum()
        return x, torch.nn.functional.cross_entropy(x, batch.y, ignore_index=-1)

    def gradients(loss):
        layers.zero_grad()
        loss.backward()
        return [parameter.grad.clone() for parameter in layers.parameters()]

    with uvatrain.Loader(graph, pad="auto", **OPTIONS) as padded, uvatrain.Loader(graph, **OPTIONS) as plain:
        for batch, own in zip(padded, plain, strict=True):
            rows, loss = loss_of(batch, False)
            expected, own_loss = loss_of(own, False)
            assert torch.allclose(rows[: own.num_seeds], expected, atol=1e-6)
            assert torch.isfinite(rows).all()
            assert torch.allclose(loss, own_loss, atol=1e-6)
            for gradient, other in zip(gradients(loss), gradients(own_loss)):
                assert torch.allclose(gradient, other, atol=1e-5)
            masked = loss_of(batch, True)[1]
            own_mean = ((expected - torch.nn.functional.one_hot(own.y.clamp(min=0), 4).float()) ** 2).mean()
            assert torch.allclose(masked, own_mean, atol=1e-6)


def test_to_pyg_has_static_shapes_and_trims_to_the_same_rows(graph):
    pytest.importorskip("torch_geometric")
    from torch_geometric.nn import SAGEConv
    from torch_geometric.utils import trim_to_layer

    torch.manual_seed(0)
    layers = [SAGEConv(5, 8), SAGEConv(8, 3)]

    def model(data):
        x, edge_index = data.x, data.edge_index
        for number, layer in enumerate(layers):
            x, edge_index, _ = trim_to_layer(
                number, data.num_sampled_nodes, data.num_sampled_edges, x, edge_index
            )
            x = layer(x, edge_index)
        return x[: data.batch_size]

    options = OPTIONS | dict(expand="new")
    shapes = set()
    with uvatrain.Loader(graph, pad="auto", **options) as padded, uvatrain.Loader(graph, **options) as plain:
        for batch, own in zip(padded, plain, strict=True):
            data, other = batch.to_pyg(), own.to_pyg()
            shapes.add((*data.num_sampled_nodes, *data.num_sampled_edges, data.edge_index.size(1), len(data.x)))
            assert torch.allclose(model(data)[: own.num_seeds], model(other), atol=1e-6)
    assert len(shapes) == 1


def test_labels_that_are_not_classes_are_zero_in_padding(tmp_path):
    several = write_graph(tmp_path / "several", multi_label=True)
    numbers = write_graph(tmp_path / "numbers")
    nodes = np.load(numbers / "label.npy").shape[0]
    np.save(numbers / "label.npy", np.arange(2 * nodes, dtype=np.float32).reshape(nodes, 2) + 1)
    (numbers / "meta.json").write_text(json.dumps({"name": "numbers"}))
    for path in (several, numbers):
        with uvatrain.Loader(path, pad="auto", **OPTIONS) as padded, uvatrain.Loader(path, **OPTIONS) as plain:
            for batch, own in zip(padded, plain, strict=True):
                seeds = own.num_seeds
                assert torch.equal(batch.y[:seeds], own.y) and len(batch.y) == batch.num_seeds > seeds
                assert (batch.y[seeds:] == 0).all() and batch.y.dtype == own.y.dtype


TYPED_KINDS = [
    dict(),
    dict(expand="new", edge_ids=True),
    dict(samplers=3, prepare="whole", slots=4),
    dict(fanouts={"*": (3, 2), "cites": (0, 2), "writes": (2, 0)}, expand="new"),
    dict(fanouts={"*": (3, 2), "cites": (0, 2), "rev_writes": (0, 0)}, sampler_kind="labor"),
    dict(input_nodes={"author": [3, 3, 5, 17], "paper": range(20)}),
    dict(input_nodes={"topic": [1, 4]}, replace=True),
]


@pytest.fixture(scope="module")
def typed(tmp_path_factory):
    return write_typed_graph(tmp_path_factory.mktemp("typed") / "graph")[0]


@pytest.mark.parametrize("kind", TYPED_KINDS)
def test_typed_batches_without_padding_are_those_of_an_unpadded_loader(typed, kind):
    options = OPTIONS | dict(batch_size=8, input_id=True) | kind
    with uvatrain.Loader(typed, pad="auto", **options) as padded, uvatrain.Loader(typed, **options) as plain:
        shapes, sizes = padded.shapes, set()
        assert plain.shapes is None and list(shapes.nodes) == list(TYPED_NODES)
        for batch, own in zip(padded, plain, strict=True):
            assert batch.padded and not own.padded and batch.hash == own.hash
            real, place = {}, {}
            for name, levels in shapes.nodes.items():
                nodes, others = batch[name], own[name]
                assert nodes.num_sampled_nodes == levels and nodes.num_nodes == sum(levels) == len(nodes.n_id)
                assert nodes.real_nodes == others.num_sampled_nodes == others.real_nodes
                assert all(count < level or count == level == 0 for count, level in zip(nodes.real_nodes, levels))
                at, seeds = place.setdefault(name, places_in(levels, nodes.real_nodes)), others.num_seeds
                real[name] = torch.zeros(nodes.num_nodes, dtype=torch.bool)
                real[name][at] = True
                first = others.n_id[0] if len(others.n_id) else 0
                assert torch.equal(nodes.n_id[at], others.n_id) and (nodes.n_id[~real[name]] == first).all()
                assert nodes.seed_mask.tolist() == [1] * seeds + [0] * (levels[0] - seeds)
                assert torch.equal(nodes.input_id[:seeds], others.input_id)
                if others.x is not None:
                    assert torch.equal(nodes.x[at], others.x)
                    table = np.load(typed / "nodes" / name / "feat.npy")
                    assert np.array_equal(nodes.x.numpy(), table[nodes.n_id.numpy()])
                if others.y is not None:
                    assert torch.equal(nodes.y[:seeds], others.y) and (nodes.y[seeds:] == -1).all()
            for layer, (blocks, others) in enumerate(zip(batch.blocks, own.blocks)):
                for names in TYPED_RELATIONS:
                    source, _, destination = names
                    block, other = blocks[names], others[names]
                    assert shapes.blocks[layer][names] == (block.num_dst, block.num_src, block.num_edges)
                    assert block.indptr[0] == 0 and block.indptr[-1] == block.num_edges
                    assert batch.real_edges_dict[names][layer] == other.num_edges
                    sources, destinations = block.edge_index
                    of_real = real[destination][destinations]
                    assert torch.equal(real[source][sources], of_real), "none between real nodes and padding"
                    expected = torch.stack([place[source][other.edge_index[0]], place[destination][other.edge_index[1]]])
                    assert torch.equal(block.edge_index[:, of_real], expected)
                    if batch._core.has_edge_ids:
                        assert torch.equal(block.edge_ids[of_real], other.edge_ids)
                        assert (block.edge_ids[~of_real] == 0).all()
            sizes.add(str((batch._type_sizes, batch._block_sizes)))
        assert len(sizes) == 1 and padded.stats()["unpadded"] == 0


def test_typed_to_pyg_has_static_shapes_and_trims_to_the_same_rows(typed):
    nn = pytest.importorskip("torch_geometric.nn")
    from torch_geometric.utils import trim_to_layer

    torch.manual_seed(0)
    relations = [("paper", "cites", "paper"), ("topic", "covers", "paper")]
    layers = [
        nn.HeteroConv({of: nn.SAGEConv((5 if of[0] == "paper" else 3, 5), 5) for of in relations}) for _ in range(2)
    ]

    def model(data):
        x = {name: rows.float() for name, rows in data.x_dict.items()}
        edge_index = {of: data[of].edge_index for of in relations}
        nodes = {name: data[name].num_sampled_nodes for name in x}
        edges = {of: data[of].num_sampled_edges for of in relations}
        for layer, conv in enumerate(layers):
            x, edge_index, _ = trim_to_layer(layer, nodes, edges, x, edge_index)
            x = {**x, **conv(x, edge_index)}
        return x["paper"][: data["paper"].batch_size]

    options = OPTIONS | dict(batch_size=8, expand="new", edge_ids=True)
    shapes = set()
    with uvatrain.Loader(typed, pad="auto", **options) as padded, uvatrain.Loader(typed, **options) as plain:
        for batch, own in zip(padded, plain, strict=True):
            data, other = batch.to_pyg(), own.to_pyg()
            shapes.add(
                str(
                    [
                        [(name, tuple(value.shape) if torch.is_tensor(value) else value) for name, value in store.items()]
                        for store in data.stores
                    ]
                )
            )
            assert torch.allclose(model(data)[: own["paper"].num_seeds], model(other), atol=1e-6)
    assert len(shapes) == 1
