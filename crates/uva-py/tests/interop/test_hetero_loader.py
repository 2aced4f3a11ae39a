"""uvatrain.pyg.NeighborLoader over a HeteroData instead of PyG's."""

import gc
import os
import pickle

import pytest
import torch

from uvatrain import TypedDataset, from_pyg, write_dataset

pytest.importorskip("torch_geometric")

from torch_geometric import loader as pyg_loader  # noqa: E402
from torch_geometric.data import Data, HeteroData  # noqa: E402
from torch_geometric.nn import HeteroConv, Linear, SAGEConv  # noqa: E402
from torch_geometric.sampler import BaseSampler, HeteroSamplerOutput, NumNeighbors  # noqa: E402
from torch_geometric.testing import MyFeatureStore, MyGraphStore  # noqa: E402
from torch_geometric.typing import WITH_PYG_LIB, WITH_TORCH_SPARSE  # noqa: E402

from uvatrain.pyg import NeighborLoader  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::uvatrain.UvatrainWarning", "ignore:.*pyg-lib.*")

NODES = {"paper": 90, "author": 60, "field of study": 8, "venue": 3}
EDGES = {
    ("paper", "cites", "paper"): 250,
    ("author", "writes", "paper"): 300,
    # A dataset has other names for these.
    ("field of study", "is about", "paper"): 120,
    ("paper", "rev.writes", "author"): 300,
    ("paper", "appears in", "venue"): 90,
}
WRITES = ("author", "writes", "paper")


def made(seed=1):
    """A HeteroData with attributes of every kind: of nodes, of edges, of a type and of the graph."""
    random = torch.Generator().manual_seed(seed)
    data = HeteroData(name="small")
    data["paper"].x = torch.rand(90, 6, generator=random)
    data["paper"].y = torch.randint(4, (90,), generator=random)
    data["paper"].train_mask = torch.rand(90, generator=random) < 0.4
    data["paper"].mean = torch.rand(5, generator=random)
    # No dataset has features of this type: PyG gathers them.
    data["author"].x = torch.rand(60, 3, dtype=torch.float64, generator=random)
    data["field of study"].x = torch.randint(255, (8, 2), dtype=torch.uint8, generator=random)
    data["venue"].num_nodes = 3
    for (source, name, destination), edges in EDGES.items():
        ends = [torch.randint(NODES[end], (edges,), generator=random) for end in (source, destination)]
        data[source, name, destination].edge_index = torch.stack(ends)
    data[WRITES].edge_attr = torch.rand(300, 2, generator=random)
    data[WRITES].time = torch.arange(300)
    data["paper", "cites", "paper"].edge_weight = torch.rand(250, generator=random)
    return data


class AllNeighbours(BaseSampler):
    """Every neighbour, as PyG's sampler finds them: relations in their order, and in each the nodes of the hop before."""

    def __init__(self, data, hops):
        self.data, self.hops = data, hops

    def sample_from_nodes(self, index, **kwargs):
        relations = self.data.edge_types
        nodes = {name: [] for name in self.data.node_types}
        nodes[index.input_type] = index.node.tolist()
        edges = {names: [] for names in relations}
        counts = {name: [len(found)] for name, found in nodes.items()}
        edge_counts = {names: [] for names in relations}
        begins = dict.fromkeys(nodes, 0)
        for _ in range(self.hops):
            ends = {name: len(found) for name, found in nodes.items()}
            for source, name, destination in relations:
                ids = self.data[source, name, destination].edge_index
                before = len(edges[source, name, destination])
                for column in range(begins[destination], ends[destination]):
                    node = nodes[destination][column]
                    for edge in (ids[1] == node).nonzero().view(-1).tolist():
                        neighbour = int(ids[0, edge])
                        if neighbour not in nodes[source]:
                            nodes[source].append(neighbour)
                        edges[source, name, destination].append((nodes[source].index(neighbour), column, edge))
                edge_counts[source, name, destination].append(len(edges[source, name, destination]) - before)
            begins = ends
            for name, found in nodes.items():
                counts[name].append(len(found) - ends[name])
        columns = {names: torch.tensor(found, dtype=torch.int64).view(-1, 3).t().contiguous() for names, found in edges.items()}
        out = HeteroSamplerOutput(
            node={name: torch.tensor(found, dtype=torch.int64) for name, found in nodes.items()},
            row={names: of[0] for names, of in columns.items()},
            col={names: of[1] for names, of in columns.items()},
            edge={names: of[2] for names, of in columns.items()},
            num_sampled_nodes=counts,
            num_sampled_edges=edge_counts,
        )
        out.metadata = (index.input_id, index.time)
        return out

    def sample_from_edges(self, index, neg_sampling=None):
        raise NotImplementedError


def check_equal(ours, theirs):
    """That two batches have the same types, keys and values."""
    assert ours.metadata() == theirs.metadata() and ours.name == theirs.name == "small"
    for of in [*theirs.node_types, *theirs.edge_types]:
        assert set(ours[of].keys()) == set(theirs[of].keys()), of
        for key, expected in theirs[of].items():
            found = ours[of][key]
            if torch.is_tensor(expected):
                assert found.dtype == expected.dtype and torch.equal(found, expected), (of, key)
            else:
                assert found == expected, (of, key)


def check(batch, data):
    """What is true of a batch of `made()`, whatever was picked."""
    assert isinstance(batch, HeteroData) and batch.validate() and batch.input_type is not None
    for name, store in data.node_items():
        for key in store:
            if key not in ("num_nodes", "mean"):
                assert torch.equal(batch[name][key], store[key][batch[name].n_id])
        assert batch[name].num_nodes == batch[name].n_id.numel()
    for names, store in data.edge_items():
        found = batch[names]
        ends = batch[names[0]].n_id[found.edge_index[0]], batch[names[2]].n_id[found.edge_index[1]]
        assert torch.equal(torch.stack(ends), store.edge_index[:, found.e_id])
        for key in ("edge_attr", "time", "edge_weight"):
            if key in store:
                assert torch.equal(found[key], store[key][found.e_id])


@pytest.mark.parametrize("input_nodes", ["paper", ("paper", [7, 3, 80, 7]), "author", "mask"])
def test_batches_of_all_neighbours_are_those_of_pygs_loader(input_nodes):
    data = made()
    if input_nodes == "mask":
        input_nodes = ("paper", data["paper"].train_mask)
    options = dict(num_neighbors=[-1, -1], input_nodes=input_nodes, batch_size=16)
    ours = NeighborLoader(data, **options)
    theirs = pyg_loader.NeighborLoader(data, **options, neighbor_sampler=AllNeighbours(data, 2))
    assert ours.direct and isinstance(ours, pyg_loader.NeighborLoader) and len(ours) == len(theirs)
    for _ in range(2):
        for one, other in zip(ours, theirs, strict=True):
            check_equal(one, other)
    if WITH_PYG_LIB or WITH_TORCH_SPARSE:
        for one, other in zip(ours, pyg_loader.NeighborLoader(data, **options)):
            for name in data.node_types:
                assert torch.equal(one[name].n_id.sort().values, other[name].n_id.sort().values)
            for names in data.edge_types:
                assert torch.equal(one[names].e_id.sort().values, other[names].e_id.sort().values)


@pytest.mark.parametrize("more", [dict(), dict(replace=True), dict(subgraph_type="induced")])
def test_a_batch_has_every_attribute_of_its_nodes_and_edges(more):
    data = made()
    loader = NeighborLoader(data, [3, 2], input_nodes="paper", batch_size=20, shuffle=True, **more)
    kept = []
    for batch in loader:
        check(batch, data)
        assert batch["paper"].batch_size == batch["paper"].input_id.numel()
        assert torch.equal(batch["paper"].n_id[: batch["paper"].batch_size], batch["paper"].input_id)
        for names in data.edge_types:
            inside = torch.isin(data[names].edge_index[0], batch[names[0]].n_id)
            inside &= torch.isin(data[names].edge_index[1], batch[names[2]].n_id)
            if "subgraph_type" in more:
                assert sorted(batch[names].e_id.tolist()) == inside.nonzero().view(-1).tolist()
                assert "num_sampled_edges" not in batch[names]
            else:
                assert sum(batch[names].num_sampled_edges) == batch[names].num_edges
        kept.append(batch)
    assert sorted(torch.cat([batch["paper"].input_id for batch in kept]).tolist()) == list(range(90))
    # Batches that are kept outlive their slots.
    for batch in kept:
        check(batch, data)


def test_a_bidirectional_subgraph_has_a_relation_and_its_reverse():
    data = HeteroData()
    data["paper"].x, data["author"].num_nodes = torch.eye(40), 30
    data["paper", "cites", "paper"].edge_index = torch.empty((2, 0), dtype=torch.int64)
    random = torch.Generator().manual_seed(1)
    data[WRITES].edge_index = torch.stack([torch.randint(end, (150,), generator=random) for end in (30, 40)])
    data["paper", "rev_writes", "author"].edge_index = data[WRITES].edge_index.flip(0)
    for batch in NeighborLoader(data, [2, 2], input_nodes="paper", batch_size=9, subgraph_type="bidirectional"):
        forward, back = batch[WRITES].edge_index, batch["paper", "rev_writes", "author"].edge_index
        assert torch.equal(forward, back.flip(0)) and forward.size(1) > 0
        assert "e_id" not in batch[WRITES] and "num_sampled_nodes" not in batch["paper"]
        ends = {tuple(ends) for ends in data[WRITES].edge_index.t().tolist()}
        found = batch["author"].n_id[forward[0]], batch["paper"].n_id[forward[1]]
        assert {tuple(ends) for ends in torch.stack(found).t().tolist()} <= ends


def test_fanouts_are_a_list_or_lists_by_relation_as_in_pyg():
    data = made()
    lists = {names: [2, 1] for names in data.edge_types}

    def edges(num_neighbors):
        torch.manual_seed(3)
        loader = NeighborLoader(data, num_neighbors, input_nodes="paper", batch_size=90)
        return {names: next(iter(loader))[names].e_id.tolist() for names in data.edge_types}

    expected = edges([2, 1])
    assert edges(torch.tensor([2, 1])) == edges(NumNeighbors([2, 1])) == edges(lists) == expected
    by_name = {"author:writes:paper": [2, 1], "*": (2, 1)}
    assert edges(by_name) == edges(NumNeighbors({WRITES: [2, 1]}, default=[2, 1])) == expected
    assert edges({**lists, WRITES: [0, 0]})[WRITES] == []
    by_ends = {("author", "to", "paper"): [1]}
    for given, message in [
        ({**lists, WRITES: [2]}, "hops must be the same across all"),
        ({WRITES: [2, 1]}, "Missing number of neighbors"),
        ({**lists, **by_ends}, "Not all edge types"),
        ([2, -2], "-2 for"),
    ]:
        with pytest.raises(ValueError, match=message) as refused:
            NeighborLoader(data, given, input_nodes="paper")
        assert refused.value.field == "num_neighbors"
    with pytest.raises(TypeError, match="num_neighbors"):
        NeighborLoader(data, [2.5], input_nodes="paper")


def test_picks_by_weight_exclude_edges_of_weight_zero():
    data = HeteroData()
    data["paper"].num_nodes = data["author"].num_nodes = 5
    data["paper", "to", "paper"].edge_index = torch.tensor([[1, 3, 0, 4], [2, 2, 1, 3]])
    data["paper", "to", "paper"].chance = torch.tensor([0.0, 1.0, 0.0, 1.0])
    # Without weights: picked from uniformly.
    data["author", "to", "paper"].edge_index = torch.tensor([[0, 1], [2, 2]])
    found = set()
    for seed in range(20):
        torch.manual_seed(seed)
        loader = NeighborLoader(data, [1, 1], input_nodes=("paper", torch.tensor([2])), weight_attr="chance")
        (batch,) = loader
        assert batch["paper"].n_id.tolist() == [2, 3, 4] and batch["paper", "paper"].e_id.tolist() == [1, 3]
        assert batch["paper", "paper"].chance.tolist() == [1, 1]
        found.update(batch["author"].n_id.tolist())
    assert found == {0, 1}


def test_what_a_loader_cannot_do_pygs_does_with_our_sampler():
    data = made()
    for options in (
        dict(batch_sampler=[[1, 2], [3]]),
        dict(sampler=torch.utils.data.SequentialSampler(range(90)), batch_size=45),
        dict(transform_sampler_output=lambda out: out, batch_size=45),
    ):
        loader = NeighborLoader(data, [3, 2], input_nodes="paper", **options)
        assert not loader.direct
        for batch in loader:
            check(batch, data)
    # Called with positions, as PyG's.
    loader = NeighborLoader(data, [3, 2], input_nodes=("paper", [4, 5, 6]), batch_size=2)
    batch = loader([1, 2])
    check(batch, data)
    assert batch["paper"].n_id[:2].tolist() == [5, 6]
    # Of a pickled one, after a batch.
    next(iter(loader))
    for batch in pickle.loads(pickle.dumps(loader)):
        check(batch, data)


@pytest.mark.parametrize("subgraph_type", ["directional", "bidirectional", "induced"])
def test_one_type_and_one_relation_are_a_hetero_data_too(subgraph_type):
    data = HeteroData()
    data["user"].x = torch.rand(50, 3)
    data["user", "follows", "user"].edge_index = torch.randint(50, (2, 400))
    for num_neighbors in ([3, -1], {("user", "follows", "user"): [3, -1]}):
        options = dict(input_nodes="user", batch_size=20, subgraph_type=subgraph_type)
        for batch in NeighborLoader(data, num_neighbors, **options):
            assert torch.equal(batch["user"].x, data["user"].x[batch["user"].n_id])
            found = batch["user"].n_id[batch["user", "user"].edge_index]
            if subgraph_type != "bidirectional":
                assert torch.equal(found, data["user", "user"].edge_index[:, batch["user", "user"].e_id])
            else:
                assert sorted(found.t().tolist()) == sorted(found.flip(0).t().tolist())


def test_stores_of_others_give_what_their_data_gives():
    features, edges, data = MyFeatureStore(), MyGraphStore(), made()
    del data["venue"], data["paper", "appears in", "venue"]
    for name, store in data.node_items():
        features.put_tensor(store.x, group_name=name, attr_name="x", index=None)
    for names, store in data.edge_items():
        size = NODES[names[0]], NODES[names[2]]
        edges.put_edge_index(tuple(store.edge_index), edge_type=names, layout="coo", size=size)
    for batch in NeighborLoader((features, edges), [4, 3], input_nodes=("author", range(40)), batch_size=20):
        assert batch["author"].n_id[:20].equal(batch["author"].input_id)
        for name in data.node_types:
            assert torch.equal(batch[name].x, data[name].x[batch[name].n_id])
        for names in data.edge_types:
            ends = batch[names[0]].n_id, batch[names[2]].n_id
            found = torch.stack([of[row] for of, row in zip(ends, batch[names].edge_index)])
            assert torch.equal(found, data[names].edge_index[:, batch[names].e_id])
    with pytest.raises(ValueError, match="weight_attr='weight' is not supported with a graph store"):
        NeighborLoader((features, edges), [2], input_nodes="author", weight_attr="weight")


@pytest.mark.filterwarnings("ignore:Cannot convert to bidirectional")
@pytest.mark.parametrize("more", [dict(), dict(replace=True), dict(subgraph_type="bidirectional")])
def test_each_seed_of_a_disjoint_batch_has_a_tree_of_its_own(more):
    data = made()
    seeds = torch.tensor([7, 3, 80, 7, 12])
    loader = NeighborLoader(data, [3, -1], input_nodes=("paper", seeds), batch_size=4, disjoint=True, **more)
    assert not loader.direct
    for batch, of in zip(loader, seeds.split(4), strict=True):
        assert batch["paper"].n_id[: len(of)].equal(of) and batch["paper"].batch[: len(of)].tolist() == list(range(len(of)))
        for name in data.node_types:
            pairs = torch.stack([batch[name].batch, batch[name].n_id]).t().tolist()
            assert len(pairs) == len({tuple(pair) for pair in pairs}) == batch[name].num_nodes
        for names in data.edge_types:
            row, col = batch[names].edge_index
            assert batch[names[0]].batch[row].equal(batch[names[2]].batch[col])
        if "subgraph_type" not in more:
            check(batch, data)
            for name in data.node_types:
                assert sum(batch[name].num_sampled_nodes) == batch[name].num_nodes


def test_a_disjoint_batch_has_the_whole_neighbourhood_of_each_seed():
    data = made()
    options = dict(num_neighbors=[-1, -1], batch_size=3)
    (together,) = NeighborLoader(data, input_nodes=("author", [5, 9, 5]), disjoint=True, **options)
    for tree, seed in enumerate([5, 9, 5]):
        (alone,) = NeighborLoader(data, input_nodes=("author", [seed]), **options)
        for name in data.node_types:
            assert torch.equal(together[name].n_id[together[name].batch == tree], alone[name].n_id)
        for names in data.edge_types:
            in_tree = together[names[2]].batch[together[names].edge_index[1]] == tree
            assert torch.equal(together[names].e_id[in_tree], alone[names].e_id)


def on_disk(path):
    """`made()` with names that a dataset may have, written to `path`."""
    data, named = made(), HeteroData(name="small")
    for name, store in data.node_items():
        named[name.replace(" ", "-")].update({key: store[key] for key in store if key not in ("train_mask", "mean")})
    named["author"].x = data["author"].x.float()
    for names, store in data.edge_items():
        named[tuple(name.replace(" ", "-").replace(".", "_") for name in names)].update(store)
    return named, from_pyg(named, path)


@pytest.mark.parametrize("subgraph_type", ["directional", "induced"])
def test_a_dataset_of_several_types_gives_what_its_data_gives(tmp_path, subgraph_type):
    path = tmp_path / "data"
    data, dataset = on_disk(path)
    for given in (path, str(path), dataset):
        for kind in (dict(), dict(batch_sampler=[[1, 2], [3, 60]])):
            kind = kind or dict(batch_size=20, shuffle=True)
            loader = NeighborLoader(given, [3, 2], input_nodes="paper", subgraph_type=subgraph_type, **kind)
            assert loader.direct is ("batch_size" in kind) and loader.data[WRITES].num_edges == 300
            kept = list(loader)
            assert len(kept) == (5 if loader.direct else 2)
            for batch in kept:
                check(batch, data)
                assert batch.metadata() == data.metadata()
                assert set(batch["paper"].keys()) >= {"x", "y", "n_id", "input_id", "batch_size"}
    pickled = pickle.dumps(loader)
    # Not the tables, which the process that reads it maps.
    assert data["paper"].x[:8].numpy().tobytes() not in pickled
    for batch in pickle.loads(pickled):
        check(batch, data)


def test_features_that_two_directions_share_are_found_by_edge_id(tmp_path):
    random = torch.Generator().manual_seed(5)
    ends = torch.stack([torch.randint(30, (200,), generator=random), torch.randint(40, (200,), generator=random)])
    rows = torch.rand(200, 3, generator=random)
    nodes = {"paper": dict(features=torch.eye(40), train_idx=[0]), "author": 30}
    write_dataset(tmp_path / "data", nodes=nodes, edges={WRITES: dict(edge_index=ends, features=rows, reverse=True)})
    back = ("paper", "rev_writes", "author")
    loader = NeighborLoader(tmp_path / "data", [4, 4], input_nodes=("paper", range(12)), batch_size=6)
    for batch in loader:
        for names, edges in ((WRITES, ends), (back, ends.flip(0))):
            found = batch[names]
            assert found.num_edges > 0 and torch.equal(found.edge_attr, rows[found.e_id])
            ids = batch[names[0]].n_id[found.edge_index[0]], batch[names[2]].n_id[found.edge_index[1]]
            assert torch.equal(torch.stack(ids), edges[:, found.e_id])
    for batch in NeighborLoader(tmp_path / "data", [4], input_nodes="paper", subgraph_type="bidirectional"):
        assert "edge_attr" not in batch[WRITES] and "edge_attr" not in batch[back]


def test_weights_of_a_dataset_of_several_types_choose_its_picks(tmp_path):
    data, _ = on_disk(tmp_path / "data")
    cites = ("paper", "cites", "paper")
    chosen = NeighborLoader(tmp_path / "data", [1], input_nodes="paper", batch_size=90, weight_attr="edge_weight")
    torch.manual_seed(1)
    weights = [batch[cites].edge_weight.mean() for _ in range(20) for batch in chosen]
    assert sum(weights) / len(weights) > data[cites].edge_weight.mean() + 0.05
    with pytest.raises(ValueError, match="weight_attr='chance': of a dataset it is \"edge_weight\""):
        NeighborLoader(tmp_path / "data", [1], input_nodes="paper", weight_attr="chance")


def test_a_path_of_one_type_and_one_relation_gives_a_data(tmp_path):
    ends = torch.randint(9, (2, 40))
    nodes, edges = {"user": dict(features=torch.eye(9), train_idx=[0])}, {("user", "follows", "user"): ends}
    dataset = write_dataset(tmp_path / "data", nodes=nodes, edges=edges)
    (batch,) = NeighborLoader(tmp_path / "data", [3], batch_size=9)
    assert isinstance(batch, Data) and batch.x.equal(torch.eye(9)[batch.n_id])
    (batch,) = NeighborLoader(dataset, [3], input_nodes="user", batch_size=9)
    assert isinstance(batch, HeteroData) and batch["user"].x.equal(torch.eye(9)[batch["user"].n_id])
    with pytest.raises(FileNotFoundError, match="nowhere"):
        NeighborLoader(tmp_path / "nowhere", [3])


def test_a_state_resumes_within_an_epoch_and_torchs_seed_repeats_it():
    data = made()
    options = dict(num_neighbors=[3, 2], input_nodes="paper", batch_size=20, shuffle=True)
    torch.manual_seed(1)
    loader = NeighborLoader(data, **options)
    steps = iter(loader)
    next(steps)
    state = loader.state_dict()
    rest = [batch[WRITES].e_id for batch in steps]
    other = NeighborLoader(data, **options)
    other.load_state_dict(state)
    assert all(torch.equal(one, batch[WRITES].e_id) for one, batch in zip(rest, other, strict=True))
    torch.manual_seed(1)
    again = list(NeighborLoader(data, **options))
    assert all(torch.equal(one, batch[WRITES].e_id) for one, batch in zip(rest, again[1:], strict=True))


def test_a_temporary_dataset_is_shared_by_loaders_and_removed_with_them():
    data = made()
    one = NeighborLoader(data, [2], input_nodes="paper")
    other = NeighborLoader(data, [3, 3], input_nodes="author")
    dataset = one._graph.dataset
    assert isinstance(dataset, TypedDataset) and other._graph.dataset is dataset
    assert dataset.node_types == ["paper", "author", "field-of-study", "venue"]
    batch = next(iter(one))
    path = dataset.path
    data["paper"].x.mul_(2)
    changed = NeighborLoader(data, [2], input_nodes="paper")
    assert changed._graph.dataset is not dataset
    del one, other, dataset
    gc.collect()
    assert not os.path.exists(os.path.dirname(path)) and batch["paper"].x.isfinite().all()


def test_what_it_cannot_do_is_refused_by_name():
    data, without = made(), made()
    del without["venue"].num_nodes
    lost = made()
    lost["reader", "reads", "paper"].edge_index = torch.tensor([[0], [0]])
    for options, message in [
        (dict(input_nodes=None), "input_nodes is a NoneType: expected a node type"),
        (dict(input_nodes=torch.arange(3)), "input_nodes is a Tensor: expected a node type"),
        (dict(input_nodes="papr"), "input_nodes is 'papr': expected a node type"),
        (dict(input_nodes=("venue", [3])), "input_nodes: entry 0 is 3, but the nodes are 0 to 2"),
        (dict(input_nodes=("venue", torch.ones(4, dtype=torch.bool))), "a mask of 4, but there are 3 nodes"),
        (dict(disjoint=True, subgraph_type="induced"), "disjoint=True is not supported with subgraph_type=\"induced\""),
        (dict(subgraph_type="some"), "subgraph_type='some'"),
        (dict(time_attr="time"), "time_attr='time' is not supported"),
        (dict(weight_attr="none"), "weight_attr='none': no edges in data have this attribute"),
        (dict(data=HeteroData()), "without edges"),
        (dict(data=lost), 'set data["reader"].num_nodes'),
    ]:
        with pytest.raises(ValueError) as refused:
            NeighborLoader(**{**dict(data=data, num_neighbors=[2], input_nodes="paper"), **options})
        assert message in str(refused.value)


class Model(torch.nn.Module):
    def __init__(self, metadata):
        super().__init__()
        types, relations = metadata
        self.first = torch.nn.ModuleDict({name: Linear(-1, 16) for name in types})
        self.convs = torch.nn.ModuleList(
            HeteroConv({names: SAGEConv((-1, -1), 16) for names in relations}) for _ in range(2)
        )
        self.last = Linear(-1, 3)

    def forward(self, batch):
        x = {name: self.first[name](rows).relu() for name, rows in batch.x_dict.items()}
        for conv in self.convs:
            x = {name: rows.relu() for name, rows in conv(x, batch.edge_index_dict).items()}
        return self.last(x["paper"])[: batch["paper"].batch_size]


def test_a_model_of_hetero_convolutions_trains_from_its_batches():
    """The class of a paper is that of its author; nothing else says it."""
    random = torch.Generator().manual_seed(2)
    classes = torch.randint(3, (60,), generator=random)
    data = HeteroData()
    data["author"].x = torch.nn.functional.one_hot(classes).float()
    data["paper"].x = torch.rand(240, 4, generator=random)
    author = torch.arange(240) % 60
    data["paper"].y = classes[author]
    data["paper", "cites", "paper"].edge_index = torch.empty((2, 0), dtype=torch.int64)
    data[WRITES].edge_index = torch.stack([author, torch.arange(240)])
    data["paper", "rev_writes", "author"].edge_index = data[WRITES].edge_index.flip(0)
    torch.manual_seed(0)
    model = Model(data.metadata())
    train = NeighborLoader(data, [3, 3], input_nodes=("paper", torch.arange(180)), batch_size=30, shuffle=True)
    test = NeighborLoader(data, [-1, -1], input_nodes=("paper", torch.arange(180, 240)), batch_size=60)
    model(next(iter(train)))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    for _ in range(8):
        for batch in train:
            loss = torch.nn.functional.cross_entropy(model(batch), batch["paper"].y[: batch["paper"].batch_size])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    (batch,) = test
    right = model(batch).argmax(1) == batch["paper"].y[: batch["paper"].batch_size]
    assert right.float().mean() > 0.95
