"""uvatrain.pyg.NeighborLoader instead of PyG's: what PyG's own tests expect of one, on homogeneous graphs."""

import gc
import os
import pickle
import warnings

import numpy as np
import pytest
import torch

import uvatrain
from conftest import run_forked_well
from graphs import Tables, write_graph

pytest.importorskip("torch_geometric")

from torch_geometric import loader as pyg_loader  # noqa: E402
from torch_geometric.data import Data, HeteroData  # noqa: E402
from torch_geometric.nn import GraphConv  # noqa: E402
from torch_geometric.sampler import NumNeighbors  # noqa: E402
from torch_geometric.sampler.base import SubgraphType  # noqa: E402
from torch_geometric.testing import MyFeatureStore, MyGraphStore  # noqa: E402
from torch_geometric.utils import k_hop_subgraph  # noqa: E402

from uvatrain.pyg import FeatureStore, GraphStore, NeighborLoader, NeighborSampler  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::uvatrain.UvatrainWarning")

NODES, EDGES = 300, 1500


def made(seed=1, **more):
    """A Data with attributes of every kind: of nodes, of edges and of the graph."""
    random = torch.Generator().manual_seed(seed)
    attributes = dict(
        x=torch.rand(NODES, 6, generator=random),
        edge_index=torch.randint(NODES, (2, EDGES), generator=random),
        y=torch.randint(4, (NODES,), generator=random),
        edge_attr=torch.rand(EDGES, 3, generator=random),
        edge_weight=torch.rand(EDGES, generator=random),
        train_mask=torch.rand(NODES, generator=random) < 0.4,
        name="small",
        mean=torch.rand(5, generator=random),
    )
    return Data(**{**attributes, **more})


def check(batch, data):
    """What is true of a batch of a Data, whatever was picked."""
    assert isinstance(batch, Data) and batch.validate()
    for name in ("x", "y", "train_mask"):
        assert torch.equal(batch[name], data[name][batch.n_id])
    for name in ("edge_attr", "edge_weight"):
        assert torch.equal(batch[name], data[name][batch.e_id])
    assert batch.name == "small" and torch.equal(batch.mean, data.mean)
    assert batch.e_id.shape == (batch.num_edges,) and batch.n_id.shape == (batch.num_nodes,)
    assert batch.batch_size == batch.input_id.numel()


# Options that a uvatrain.Loader prepares the batches of, and others.
DIRECT = dict(num_neighbors=[4, 3])
BEHIND_PYGS = dict(num_neighbors=[-1, 3])


@pytest.mark.parametrize("options", [DIRECT, BEHIND_PYGS, dict(num_neighbors=[4, 3], replace=True)])
def test_a_batch_has_every_attribute_of_its_nodes_and_edges(options):
    data = made()
    loader = NeighborLoader(data, **options, input_nodes=data.train_mask, batch_size=32)
    assert isinstance(loader, pyg_loader.NeighborLoader) and str(loader) == "NeighborLoader()"
    assert loader.direct == (-1 not in options["num_neighbors"])
    seeds = data.train_mask.nonzero().view(-1)
    assert len(loader) == -(-seeds.numel() // 32)
    for _ in range(2):
        begin = 0
        for batch in loader:
            check(batch, data)
            # A mask's input_id is the node, as PyG has it.
            assert torch.equal(batch.input_id, seeds[begin : begin + 32])
            assert torch.equal(batch.n_id[: batch.batch_size], batch.input_id)
            assert torch.equal(batch.n_id[batch.edge_index], data.edge_index[:, batch.e_id])
            assert sum(batch.num_sampled_nodes) == batch.num_nodes
            assert sum(batch.num_sampled_edges) == batch.num_edges
            begin += 32
        assert begin >= seeds.numel()


@pytest.mark.parametrize("options", [DIRECT, BEHIND_PYGS])
def test_input_id_is_the_position_and_a_shuffled_epoch_has_each_once(options):
    data = made()
    nodes = torch.tensor([7, 3, 200, 11, 90, 64, 12])
    loader = NeighborLoader(data, **options, input_nodes=nodes, batch_size=3, shuffle=True)
    orders = set()
    for _ in range(6):
        ids = torch.cat([batch.input_id for batch in loader])
        assert sorted(ids.tolist()) == list(range(7))
        orders.add(tuple(ids.tolist()))
    assert len(orders) > 1
    for batch in NeighborLoader(data, **options, input_nodes=nodes, batch_size=3, drop_last=True):
        assert batch.batch_size == 3 and torch.equal(batch.n_id[:3], nodes[batch.input_id])
    assert len(NeighborLoader(data, **options, input_nodes=nodes, batch_size=3, drop_last=True)) == 2
    # Without input_nodes all nodes are.
    everything = NeighborLoader(data, **options, batch_size=64)
    assert torch.cat([batch.input_id for batch in everything]).tolist() == list(range(NODES))
    (batch,) = NeighborLoader(data, **options, input_nodes=[5, 6], input_id=torch.tensor([50, 60]), batch_size=2)
    assert batch.input_id.tolist() == [50, 60]


@pytest.mark.parametrize("options", [DIRECT, BEHIND_PYGS])
def test_torchs_seed_repeats_the_epochs(options):
    data = made()

    def epochs(seed):
        torch.manual_seed(seed)
        loader = NeighborLoader(data, **options, batch_size=64, shuffle=True)
        return [batch.e_id.tolist() for _ in range(2) for batch in loader]

    assert epochs(3) == epochs(3) != epochs(4)


@pytest.mark.parametrize("direct", [True, False])
def test_an_induced_subgraph_has_all_edges_between_its_nodes(direct):
    data = made()
    fanouts = [4, 3] if direct else [-1, 2]
    loader = NeighborLoader(data, fanouts, batch_size=20, subgraph_type=SubgraphType.induced)
    assert loader.direct == direct
    for batch in loader:
        check(batch, data)
        inside = torch.isin(data.edge_index[0], batch.n_id) & torch.isin(data.edge_index[1], batch.n_id)
        assert sorted(batch.e_id.tolist()) == inside.nonzero().view(-1).tolist()
        assert torch.equal(batch.n_id[batch.edge_index], data.edge_index[:, batch.e_id])
        assert "num_sampled_nodes" not in batch and "num_sampled_edges" not in batch
    (batch,) = NeighborLoader(data, [1], input_nodes=[4], directed=False)
    inside = torch.isin(data.edge_index[0], batch.n_id) & torch.isin(data.edge_index[1], batch.n_id)
    assert batch.num_edges == int(inside.sum())


def test_a_node_given_twice_has_its_induced_edges_at_both_places():
    data = Data(x=torch.eye(4), edge_index=torch.tensor([[1, 2, 0], [0, 0, 1]]))
    (batch,) = NeighborLoader(data, [2], input_nodes=[0, 1, 0], batch_size=3, subgraph_type="induced")
    assert batch.n_id.tolist() == [0, 1, 0, 2]
    assert sorted(zip(*batch.edge_index.tolist(), batch.e_id.tolist())) == [
        (0, 1, 2),
        (1, 0, 0),
        (1, 2, 0),
        (3, 0, 1),
        (3, 2, 1),
    ]


@pytest.mark.parametrize("direct", [True, False])
def test_a_bidirectional_subgraph_has_each_sampled_pair_both_ways_once(direct):
    data = made()
    loader = NeighborLoader(
        data, [4, 3] if direct else [-1, 2], batch_size=20, subgraph_type="bidirectional"
    )
    assert loader.direct == direct
    for batch in loader:
        check(batch, data)
        pairs = list(zip(*batch.edge_index.tolist()))
        assert len(set(pairs)) == len(pairs) and {(b, a) for a, b in pairs} == set(pairs)
        assert pairs == sorted(pairs, key=lambda pair: (pair[1], pair[0]))
        # An edge or its reverse is the one that e_id names.
        source, target = batch.n_id[batch.edge_index]
        named = data.edge_index[:, batch.e_id]
        ahead = (named[0] == source) & (named[1] == target)
        back = (named[0] == target) & (named[1] == source)
        assert (ahead | back).all() and ahead.any() and back.any()


@pytest.mark.parametrize("replace", [False, True])
def test_disjoint_samples_a_tree_for_each_seed(replace):
    data = made()
    seeds = [5, 9, 5, 100]
    for batch in NeighborLoader(
        data, [3, 2], input_nodes=seeds, batch_size=4, disjoint=True, replace=replace
    ):
        check(batch, data)
        assert batch.n_id[:4].tolist() == seeds and batch.batch[:4].tolist() == [0, 1, 2, 3]
        source, target = batch.edge_index
        assert torch.equal(batch.batch[source], batch.batch[target])
        assert torch.equal(batch.n_id[batch.edge_index], data.edge_index[:, batch.e_id])
        for tree in range(4):
            nodes = batch.n_id[batch.batch == tree].tolist()
            assert len(set(nodes)) == len(nodes) and nodes[0] == seeds[tree]
        # Hop by hop: an edge of a hop leads to a node that the hop before has found.
        found, edges = np.cumsum(batch.num_sampled_nodes), np.cumsum([0, *batch.num_sampled_edges])
        assert found[-1] == batch.num_nodes and edges[-1] == batch.num_edges
        for hop in range(2):
            part = slice(edges[hop], edges[hop + 1])
            begin = 0 if hop == 0 else found[hop - 1]
            assert ((target[part] >= begin) & (target[part] < found[hop])).all()
            assert (source[part] < found[hop + 1]).all()
    # All neighbours make the tree that each seed has alone.
    (batch,) = NeighborLoader(data, [-1, -1], input_nodes=seeds, batch_size=4, disjoint=True)
    for tree, seed in enumerate(seeds):
        nodes, _, _, _ = k_hop_subgraph(seed, 2, data.edge_index)
        assert sorted(batch.n_id[batch.batch == tree].tolist()) == nodes.tolist()


@pytest.mark.parametrize("subgraph_type", ["directional", "bidirectional", "induced"])
def test_a_model_on_all_neighbours_says_what_it_says_on_the_whole_graph(subgraph_type):
    data = made()
    if subgraph_type == "bidirectional":
        # Every edge has its reverse, of the same weight.
        both = torch.cat([data.edge_index, data.edge_index.flip(0)], dim=1).unique(dim=1)
        both = both[:, both[0] != both[1]]
        data = made(
            edge_index=both,
            edge_weight=(both[0] * both[1] % 7).float(),
            edge_attr=torch.zeros(both.size(1), 1),
        )
    torch.manual_seed(0)
    first, second = GraphConv(6, 8), GraphConv(8, 3)

    def run(data):
        hidden = first(data.x, data.edge_index, data.edge_weight).relu()
        return second(hidden, data.edge_index, data.edge_weight)

    expected = run(data)[5:8]
    (batch,) = NeighborLoader(
        data, [-1, -1], input_nodes=torch.arange(5, 8), batch_size=3, subgraph_type=subgraph_type
    )
    torch.testing.assert_close(run(batch)[:3], expected)


def test_sampled_counts_are_those_of_pyg():
    edge_index = torch.tensor([[2, 3, 4, 5, 7, 7, 10, 11, 12, 13], [0, 1, 2, 3, 2, 3, 7, 7, 7, 7]])
    batch = next(iter(NeighborLoader(Data(edge_index=edge_index, num_nodes=14), [1, 2, 4], batch_size=2)))
    assert batch.num_sampled_nodes == [2, 2, 3, 4] and batch.num_sampled_edges == [2, 4, 4]


def test_picks_by_weight_exclude_edges_of_weight_zero():
    data = Data(
        num_nodes=5,
        edge_index=torch.tensor([[1, 3, 0, 4], [2, 2, 1, 3]]),
        chance=torch.tensor([0.0, 1.0, 0.0, 1.0]),
    )
    for seed in range(8):
        torch.manual_seed(seed)
        (batch,) = NeighborLoader(data, [1, 1], input_nodes=torch.tensor([2]), weight_attr="chance")
        assert batch.n_id.tolist() == [2, 3, 4] and batch.e_id.tolist() == [1, 3]
        assert batch.chance.tolist() == [1, 1]


@pytest.mark.parametrize(
    "x",
    [
        torch.arange(NODES),
        torch.rand(NODES, 3, dtype=torch.float64),
        torch.rand(NODES, 2, 2),
        torch.full((NODES, 2), float("nan")),
        torch.rand(NODES, 3).bfloat16(),
        torch.randint(255, (NODES, 3), dtype=torch.uint8),
        np.random.default_rng(0).random((NODES, 4), np.float32),
        np.random.default_rng(0).random((NODES, 4)),
        None,
    ],
    ids=lambda x: "none" if x is None else f"{x.dtype}-{len(x.shape)}d",
)
def test_features_of_every_type_are_unchanged(x):
    data = made(x=x, num_nodes=NODES)
    for batch in NeighborLoader(data, [4, 3], batch_size=100):
        if x is None:
            assert "x" not in batch
        else:
            expected = torch.as_tensor(x)[batch.n_id]
            assert batch.x.dtype == expected.dtype
            torch.testing.assert_close(batch.x, expected, rtol=0, atol=0, equal_nan=True)
        assert torch.equal(batch.y, data.y[batch.n_id]) and batch.num_nodes == batch.n_id.numel()


def test_a_dataset_its_path_and_stores_give_the_same_batches(tmp_path):
    path = write_graph(tmp_path / "graph", weighted=True)
    tables, dataset = Tables(path), uvatrain.Dataset(path)
    targets = np.repeat(np.arange(600), np.diff(tables.indptr))
    batches = []
    for data in (
        path,
        str(path),
        dataset,
        GraphStore(dataset),
        (FeatureStore(dataset), GraphStore(dataset)),
        (FeatureStore(path), GraphStore(path)),
    ):
        torch.manual_seed(2)
        loader = NeighborLoader(data, [4, 3], input_nodes=dataset.train_idx, batch_size=64, shuffle=True)
        assert loader.direct
        batches.append(list(loader))
        for batch in batches[-1]:
            assert np.array_equal(batch.x.numpy(), tables.features[batch.n_id])
            assert np.array_equal(batch.y.numpy(), tables.labels[batch.n_id])
            ends = np.stack([tables.indices[batch.e_id], targets[batch.e_id]])
            assert np.array_equal(batch.n_id[batch.edge_index].numpy(), ends)
            assert np.array_equal(batch.edge_weight.numpy(), tables.weights[batch.e_id])
    assert len({str([batch.e_id.tolist() for batch in some]) for some in batches}) == 1
    by_weight = NeighborLoader(path, [2], batch_size=600, weight_attr="edge_weight")
    assert (next(iter(by_weight)).edge_weight > 0).all()
    behind_pygs = NeighborLoader(path, [-1], input_nodes=dataset.train_idx, batch_size=64)
    for batch in behind_pygs:
        assert np.array_equal(batch.edge_weight.numpy(), tables.weights[batch.e_id])
        assert np.array_equal(batch.x.numpy(), tables.features[batch.n_id])


def test_stores_of_others_give_what_their_data_gives():
    features, edges, data = MyFeatureStore(), MyGraphStore(), made()
    features.put_tensor(data.x, group_name=None, attr_name="x", index=None)
    features.put_tensor(data.y, group_name=None, attr_name="y", index=None)
    edges.put_edge_index(
        (data.edge_index[0], data.edge_index[1]), edge_type=None, layout="coo", size=(NODES, NODES)
    )
    ours = NeighborLoader((features, edges), [4, 3], input_nodes=torch.arange(100), batch_size=20)
    assert ours.direct
    for batch in ours:
        assert torch.equal(batch.x, data.x[batch.n_id]) and torch.equal(batch.y, data.y[batch.n_id])
        assert torch.equal(batch.n_id[batch.edge_index], data.edge_index[:, batch.e_id])


def test_batches_may_be_kept_and_a_loop_that_keeps_none_copies_none():
    data = made()
    loader = NeighborLoader(data, [4, 3], batch_size=16)
    kept = [batch for _ in range(2) for batch in loader]
    for batch in kept:
        check(batch, data)
    in_slots = set()
    for batch in loader:
        in_slots.add(batch.x.data_ptr())
    assert len(in_slots) <= 4, "the slots are few"
    # A step that was left, and two loaders at once.
    next(iter(loader))
    for one, other in zip(loader, NeighborLoader(data, [2], batch_size=16)):
        assert torch.equal(one.n_id[: one.batch_size], other.n_id[: other.batch_size])


@pytest.mark.parametrize("of_edges", [False, True])
def test_all_of_a_kept_batch_of_a_dataset_stays(tmp_path, of_edges):
    path = write_graph(tmp_path / "graph", weighted=True)
    if of_edges:
        edges = np.load(path / "indices.npy").size
        np.save(path / "edge_feat.npy", np.arange(3 * edges, dtype=np.float32).reshape(edges, 3))
    dataset = uvatrain.Dataset(path)
    loader = NeighborLoader(dataset, [4, 3], input_nodes=dataset.train_idx, batch_size=16, shuffle=True)
    kept, copied = [], []
    for batch in loader:
        kept.append(batch)
        copied.append({name: value.clone() for name, value in batch.items() if torch.is_tensor(value)})
    # Parts of ids that are kept do not keep a slot.
    assert len([batch.n_id[: batch.batch_size] for batch in loader]) == len(kept) == 19
    for batch, copies in zip(kept, copied):
        names = {"x", "y", "edge_index", "edge_weight", "n_id", "e_id", "input_id"} | ({"edge_attr"} if of_edges else set())
        assert names <= copies.keys()
        assert all(torch.equal(batch[name], copy) for name, copy in copies.items())
        assert torch.equal(batch.y, dataset.labels[batch.n_id])
        assert torch.equal(batch.edge_weight, dataset.weight[batch.e_id])
        assert torch.equal(dataset.indices[batch.e_id].long(), batch.n_id[batch.edge_index[0]])
        if of_edges:
            assert torch.equal(batch.edge_attr, dataset.edge_attr[batch.e_id])


def test_a_state_resumes_within_an_epoch_in_another_loader(tmp_path):
    options = dict(num_neighbors=[4, 3], batch_size=50, shuffle=True)
    data = made()
    torch.manual_seed(1)
    loader = NeighborLoader(data, **options)
    begin, steps = loader.state_dict(), iter(loader)
    whole = [next(steps).n_id for _ in range(2)]
    state = loader.state_dict()
    whole += [batch.n_id for batch in steps]
    whole += [batch.n_id for batch in loader]
    torch.save(state, tmp_path / "state.pt")
    torch.manual_seed(2)
    other = NeighborLoader(data, **options)
    # It has begun with a seed of its own.
    next(iter(other))
    other.load_state_dict(torch.load(tmp_path / "state.pt"))
    rest = [batch.n_id for _ in range(2) for batch in other]
    assert len(whole) == 12 and len(rest) == 10
    assert all(torch.equal(one, another) for one, another in zip(whole[2:], rest, strict=True))
    other.load_state_dict(begin)
    assert all(torch.equal(one, batch.n_id) for one, batch in zip(whole[:6], other, strict=True))
    with pytest.raises(ValueError, match="state: batch_size is another"):
        NeighborLoader(data, **{**options, "batch_size": 40}).load_state_dict(state)
    with pytest.raises(ValueError, match="state: input_nodes is another"):
        NeighborLoader(data, **options, input_nodes=torch.arange(5)).load_state_dict(state)
    for state in ({}, 7, {**begin, "seed": "x"}):
        with pytest.raises(ValueError, match="state: "):
            other.load_state_dict(state)
    for more, reason in [(dict(num_neighbors=[-1]), "a fanout of -1"), (dict(disjoint=True), "disjoint")]:
        indirect = NeighborLoader(data, **{**options, **more})
        with pytest.raises(ValueError, match=f"state_dict.. is not supported with {reason}"):
            indirect.state_dict()
        with pytest.raises(ValueError, match=f"load_state_dict.. is not supported with {reason}"):
            indirect.load_state_dict(begin)


def test_fanouts_may_be_a_tensor_and_a_wrong_one_is_named(graph):
    expected = NeighborLoader(graph, [4, 3], input_nodes=[0])
    for fanouts in (torch.tensor([4, 3]), np.array([4, 3]), [torch.tensor(4), np.int32(3)], NumNeighbors([4, 3])):
        loader = NeighborLoader(graph, fanouts, input_nodes=[0])
        assert loader.state_dict()["fanouts"] == expected.state_dict()["fanouts"] == "4,3"
        assert NeighborSampler(graph, fanouts).num_neighbors == [4, 3]
    assert not NeighborLoader(graph, torch.tensor([-1]), input_nodes=[0]).direct
    for fanouts, said in [
        (torch.tensor(4), "num_neighbors is a torch.Tensor"),
        (torch.tensor([[4, 3]]), "list"),
        (torch.tensor([4.5]), "float"),
        (7, "num_neighbors is a int"),
        (np.int64(7), "num_neighbors is a numpy.int64"),
    ]:
        for make in (NeighborLoader, NeighborSampler):
            with pytest.raises(TypeError, match=said):
                make(graph, fanouts)


def test_transforms_have_the_last_word():
    data = made()

    def transform(batch):
        batch.x = batch.x * 2
        return batch

    for batch in NeighborLoader(data, [4, 3], batch_size=50, transform=transform):
        assert torch.equal(batch.x, 2 * data.x[batch.n_id])

    def only_seeds(out):
        out.node, out.num_sampled_nodes = out.node[: out.num_sampled_nodes[0]], None
        out.row = out.col = out.edge = torch.empty(0, dtype=torch.int64)
        out.num_sampled_edges = None
        return out

    for batch in NeighborLoader(
        data, [4, 3], batch_size=50, transform_sampler_output=only_seeds, transform=transform
    ):
        assert batch.num_nodes == batch.batch_size and torch.equal(batch.x, 2 * data.x[batch.n_id])
        assert batch.edge_attr.size(0) == 0


@pytest.mark.parametrize("disjoint", [False, True])
@pytest.mark.parametrize("direct", [False, True])
def test_a_node_given_again_is_a_seed_of_its_own_as_in_pyg(disjoint, direct):
    data = made()
    loader = NeighborLoader(
        data, [NODES if direct else -1] * 2, input_nodes=[3, 3, 5], batch_size=3, disjoint=disjoint
    )
    assert loader.direct == (direct and not disjoint)
    (batch,) = loader
    check(batch, data)
    assert batch.n_id[:3].tolist() == [3, 3, 5] and batch.input_id.tolist() == [0, 1, 2] and batch.batch_size == 3
    # As `torch_sparse::neighbor_sample` and `pyg::neighbor_sample` number nodes: by (tree and) node, the first counts.
    trees = [[0, 1, 2], [0, 0, 0]][not disjoint]
    nodes = list(zip(trees, [3, 3, 5]))
    edges, begin = [], 0
    for _ in range(2):
        end = len(nodes)
        for target in range(begin, end):
            tree, node = nodes[target]
            for e_id in (data.edge_index[1] == node).nonzero().flatten().tolist():
                source = (tree, int(data.edge_index[0, e_id]))
                if source not in nodes:
                    nodes.append(source)
                edges.append((nodes.index(source), target, e_id))
        begin = end
    if disjoint:
        # Trees stand one after the other there, and side by side here.
        assert sorted(zip(batch.batch.tolist(), batch.n_id.tolist())) == sorted(nodes)
        named = [(batch.batch[b].item(), batch.n_id[a].item(), e) for a, b, e in zip(*batch.edge_index.tolist(), batch.e_id.tolist())]
        assert sorted(named) == sorted((*nodes[a], e) for a, b, e in edges)
    else:
        assert batch.n_id.tolist() == [node for _, node in nodes]
        assert sorted(zip(*batch.edge_index.tolist(), batch.e_id.tolist())) == sorted(edges)


def test_what_a_loader_cannot_do_pygs_does_with_our_sampler():
    data = made()
    for options in (
        dict(disjoint=True),
        dict(num_neighbors=[4, -1]),
        dict(sampler=torch.utils.data.SequentialSampler(range(NODES))),
        dict(batch_sampler=[[1, 2], [3]], batch_size=1),
    ):
        loader = NeighborLoader(**{**dict(data=data, num_neighbors=[4, 3], batch_size=50), **options})
        assert not loader.direct
        for batch in loader:
            check(batch, data)
    # Called with positions, as PyG's.
    loader = NeighborLoader(data, [4, 3], batch_size=50)
    batch = loader([7, 8])
    check(batch, data)
    assert batch.n_id[:2].tolist() == [7, 8]
    # Of a pickled one, in a process that has made no batch yet.
    next(iter(loader))
    for batch in pickle.loads(pickle.dumps(loader)):
        check(batch, data)


def test_a_sampler_that_is_given_is_used(graph):
    dataset = uvatrain.Dataset(graph)
    loader = NeighborLoader(
        (FeatureStore(dataset), GraphStore(dataset)),
        [4, 3],
        input_nodes=dataset.train_idx,
        neighbor_sampler=NeighborSampler(dataset, [1]),
        batch_size=64,
    )
    assert not loader.direct
    assert len(next(iter(loader)).num_sampled_edges) == 1


def test_options_without_effect_are_reported_once_by_name():
    script = """
import sys, warnings, torch
sys.path.insert(0, sys.argv[1])
from test_neighbor_loader import NeighborLoader, made
warnings.simplefilter("always")
warnings.showwarning = lambda message, category, *rest: print(category.__name__, message, sep="|")
data = made()
for _ in range(2):
    for batch in NeighborLoader(data, [2], batch_size=100, num_workers=2, pin_memory=True, persistent_workers=True,
                                prefetch_factor=4, is_sorted=False, filter_per_worker=True):
        pass
for _ in range(2):
    NeighborLoader(data, [2], is_sorted=True, num_workers=1, directed=False)
"""
    said = run_forked_well(script, os.path.dirname(__file__)).splitlines()
    effects = [line for line in said if "no effect" in line]
    no_effect = "the option has no effect: "
    assert effects == [
        "UvatrainWarning|num_workers, persistent_workers, prefetch_factor, filter_per_worker: "
        f"{no_effect}threads of this process prepare the batches, and no worker processes",
        f"UvatrainWarning|pin_memory: {no_effect}batches are views of slots, whose memory is not pinned",
        f"UvatrainWarning|is_sorted: {no_effect}a dataset's edges are sorted by target in any case",
    ]
    (directed,) = [line for line in said if "directed" in line]
    assert 'subgraph_type="induced"' in directed
    # And what it cost to write the data, which both loaders are made of.
    (written,) = [line for line in said if "temporary dataset" in line]
    assert " MB in " in written and "uvatrain.from_pyg(data, path)" in written


def test_a_temporary_dataset_is_shared_by_loaders_and_removed_with_them():
    data = made()
    one = NeighborLoader(data, [2], input_nodes=data.train_mask)
    other = NeighborLoader(data, [3, 3], input_nodes=~data.train_mask)
    path = one._graph.dataset.path
    assert other._graph.dataset is one._graph.dataset and os.path.isdir(path)
    batch = next(iter(one))
    # What was changed since is another graph.
    data.x.mul_(2)
    changed = NeighborLoader(data, [2])
    assert changed._graph.dataset is not one._graph.dataset
    assert torch.equal(next(iter(changed)).x[:1], data.x[:1])
    del one, other
    gc.collect()
    assert not os.path.exists(os.path.dirname(path)) and batch.x.isfinite().all()


def test_what_it_cannot_do_is_refused_by_name(graph):
    data = made()
    for options, message in [
        (dict(data=HeteroData()), "data is a HeteroData without edges"),
        (dict(data=7), "data is a int"),
        (dict(data=Data(x=torch.eye(3))), "neither edge_index nor adj_t"),
        (dict(time_attr="time"), "time_attr='time' is not supported"),
        (dict(input_time=torch.arange(3)), "input_time is not supported"),
        (dict(temporal_strategy="last"), "temporal_strategy='last' is not supported"),
        (dict(weight_attr="none"), "weight_attr='none': data has no such attribute"),
        (dict(weight_attr="edge_weight", disjoint=True), "weight_attr='edge_weight' is not supported with disjoint"),
        (dict(data=graph, weight_attr="edge_weight"), "it has to have weights"),
        (dict(disjoint=True, subgraph_type="induced"), "disjoint=True is not supported"),
        (dict(subgraph_type="some"), "subgraph_type='some'"),
        (dict(num_neighbors={("a", "to", "b"): [2]}), "num_neighbors is a dict"),
        (dict(num_neighbors=[]), "num_neighbors: no fanout given"),
        (dict(input_nodes=[1, NODES]), "input_nodes: entry 1 is 300, but the nodes are 0 to 299"),
        (dict(input_nodes=[-1]), "input_nodes: entry 0 is -1"),
        (dict(input_nodes=[]), "input_nodes is empty"),
        (dict(input_nodes=torch.zeros(NODES, dtype=torch.bool)), "input_nodes is empty"),
        (dict(input_nodes=torch.ones(7, dtype=torch.bool)), "input_nodes is a mask of 7, but there are 300 nodes"),
        (dict(input_nodes=torch.rand(4)), "input_nodes is torch.float32"),
        (dict(input_nodes=("paper", [1])), "input_nodes is a tuple"),
    ]:
        with pytest.raises(ValueError) as refused:
            NeighborLoader(**{**dict(data=data, num_neighbors=[2]), **options})
        assert message in str(refused.value)
    with pytest.raises(TypeError):
        NeighborLoader(data, [2], no_such_option=1)


def test_a_loop_in_a_loop_over_one_loader_is_refused():
    loader = NeighborLoader(made(), [2], batch_size=100)
    outer = iter(loader)
    next(outer)
    list(loader)
    with pytest.raises(uvatrain.UvatrainError, match="one pass at a time"):
        next(outer)


def test_ranks_of_torch_distributed_do_not_part_the_input_nodes(monkeypatch):
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        loader = NeighborLoader(made(), [2], batch_size=100)
    assert len(list(loader)) == len(loader) == 3
