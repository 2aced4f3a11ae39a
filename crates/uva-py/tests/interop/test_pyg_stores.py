"""PyG's loaders over our stores and sampler, held to what PyG's own tests expect of a NeighborLoader."""

import copy
import pickle
import warnings

import numpy as np
import pytest
import torch

import uvatrain
from graphs import Tables, write_graph

pytest.importorskip("torch_geometric")

from torch_geometric.data import Data, HeteroData  # noqa: E402
from torch_geometric.data.feature_store import TensorAttr  # noqa: E402
from torch_geometric.data.graph_store import EdgeAttr, EdgeLayout  # noqa: E402
from torch_geometric.loader import LinkNeighborLoader, NeighborLoader  # noqa: E402
from torch_geometric.nn import GraphSAGE  # noqa: E402
from torch_geometric.sampler import NeighborSampler as PygSampler  # noqa: E402
from torch_geometric.sampler import NodeSamplerInput  # noqa: E402
from torch_geometric.typing import WITH_PYG_LIB, WITH_TORCH_SPARSE  # noqa: E402
from torch_geometric.utils import k_hop_subgraph  # noqa: E402

from uvatrain.pyg import FeatureStore, GraphStore, NeighborSampler  # noqa: E402


def loader_of(path, num_neighbors, input_nodes, *, replace=False, seed=0, **options):
    dataset = uvatrain.Dataset(path)
    return NeighborLoader(
        data=(FeatureStore(dataset), GraphStore(dataset)),
        num_neighbors=num_neighbors,
        input_nodes=input_nodes,
        neighbor_sampler=NeighborSampler(dataset, num_neighbors, replace=replace, seed=seed),
        **options,
    )


def edges_of(tables):
    """(source, target) of every edge, and how often."""
    counts = {}
    targets = np.repeat(np.arange(len(tables.indptr) - 1), np.diff(tables.indptr))
    for pair in zip(tables.indices.tolist(), targets.tolist()):
        counts[pair] = counts.get(pair, 0) + 1
    return counts


def check(data, tables, fanouts, seeds, replace=False):
    """Everything that is true of a batch whatever was picked."""
    assert isinstance(data, Data)
    assert data.batch_size == len(seeds) and data.n_id[: data.batch_size].tolist() == seeds
    assert data.num_nodes == data.n_id.numel() == data.x.size(0) == data.y.size(0)
    rest = data.n_id[data.batch_size :].tolist()
    assert len(set(rest)) == len(rest) and not set(rest) & set(seeds)
    assert np.array_equal(data.x.numpy(), tables.features[data.n_id])
    assert np.array_equal(data.y.numpy(), tables.labels[data.n_id])
    assert sum(data.num_sampled_nodes) == data.num_nodes and len(data.num_sampled_nodes) == len(fanouts) + 1
    assert sum(data.num_sampled_edges) == data.num_edges and len(data.num_sampled_edges) == len(fanouts)
    assert data.num_sampled_nodes[0] == len(seeds)
    assert data.edge_index.dtype == torch.int64 and data.validate()

    known = edges_of(tables)
    nodes, edges = np.cumsum(data.num_sampled_nodes), np.cumsum([0, *data.num_sampled_edges])
    row, col = data.edge_index
    for hop, fanout in enumerate(fanouts):
        part = slice(edges[hop], edges[hop + 1])
        begin = 0 if hop == 0 else nodes[hop - 1]
        # A hop's edges go into the nodes that the hop before has found, and come from nodes found by then.
        assert (
            (col[part] >= begin).all()
            and (col[part] < nodes[hop]).all()
            and (row[part] < nodes[hop + 1]).all()
        )
        assert (col[part].diff() >= 0).all(), "grouped by target, in order"
        for local in range(begin, nodes[hop]):
            target = int(data.n_id[local])
            degree = int(tables.indptr[target + 1] - tables.indptr[target])
            picked = data.n_id[row[part][col[part] == local]].tolist()
            drawn = replace and fanout != -1 and degree > 0
            assert len(picked) == (fanout if drawn else degree if fanout == -1 else min(degree, fanout))
            for source in set(picked):
                multiple = len(picked) if drawn else known[source, target]
                assert 1 <= picked.count(source) <= multiple
    targets = np.repeat(np.arange(len(tables.indptr) - 1), np.diff(tables.indptr))
    ends = np.stack([tables.indices[data.e_id], targets[data.e_id]])
    assert np.array_equal(data.n_id[data.edge_index].numpy(), ends)
    # Every other node was found through an edge.
    assert set(row.tolist()) | set(range(len(seeds))) == set(range(data.num_nodes))


@pytest.mark.parametrize("fanouts", [[3], [4, 3], [2, -1, 2], [-1, -1]])
@pytest.mark.parametrize("replace", [False, True])
def test_every_edge_is_of_the_graph_and_seeds_come_first_in_order(graph, fanouts, replace):
    tables = Tables(graph)
    seeds = torch.from_numpy(tables.splits["train"])
    loader = loader_of(graph, fanouts, seeds, replace=replace, batch_size=64)
    assert len(loader) == 5
    begin = 0
    for data in loader:
        expected = seeds[begin : begin + 64].tolist()
        check(data, tables, fanouts, expected, replace)
        assert data.input_id.tolist() == list(range(begin, begin + len(expected)))
        begin += 64


def test_with_all_neighbours_the_batch_is_the_whole_neighbourhood(graph):
    tables = Tables(graph)
    targets = np.repeat(np.arange(len(tables.indptr) - 1), np.diff(tables.indptr))
    edge_index = torch.from_numpy(np.stack([tables.indices.astype(np.int64), targets]))
    for data in loader_of(graph, [-1, -1], torch.tensor([5, 17, 300]), batch_size=1):
        seed = data.n_id[:1]
        nodes, subgraph, _, _ = k_hop_subgraph(seed, 2, edge_index, flow="source_to_target", directed=True)
        assert sorted(data.n_id.tolist()) == nodes.tolist()
        ours = data.n_id[data.edge_index].t().tolist()
        assert sorted(ours) == sorted(subgraph.t().tolist())
    # As PyG's test has it: all neighbours for as many hops as there are nodes make the induced subgraph.
    cycle = uvatrain.write_dataset(
        graph.parent / "cycle",
        indptr=np.arange(11),
        indices=(np.arange(10) + 9) % 10,
        features=np.eye(10, dtype=np.float32),
        labels=np.arange(10),
        train_idx=np.arange(10),
        overwrite=True,
    )
    (data,) = loader_of(cycle.path, [-1] * 9, torch.tensor([4]), batch_size=1)
    assert data.n_id.tolist() == [4, 3, 2, 1, 0, 9, 8, 7, 6, 5]
    assert data.n_id[data.edge_index].t().tolist() == [[(v - 1) % 10, v] for v in (4, 3, 2, 1, 0, 9, 8, 7, 6)]


def test_a_model_on_all_neighbours_says_what_it_says_on_the_full_graph(graph):
    tables = Tables(graph)
    targets = np.repeat(np.arange(len(tables.indptr) - 1), np.diff(tables.indptr))
    full = Data(
        x=torch.from_numpy(tables.features),
        edge_index=torch.from_numpy(np.stack([tables.indices.astype(np.int64), targets])),
    )
    model = GraphSAGE(5, 16, num_layers=2, out_channels=4).eval()
    with torch.no_grad():
        expected = model(full.x, full.edge_index)
        for data in loader_of(graph, [-1, -1], torch.from_numpy(tables.splits["valid"]), batch_size=20):
            hops = dict(
                num_sampled_nodes_per_hop=data.num_sampled_nodes,
                num_sampled_edges_per_hop=data.num_sampled_edges,
            )
            seeds = data.n_id[: data.batch_size]
            for out in (model(data.x, data.edge_index), model(data.x, data.edge_index, **hops)):
                torch.testing.assert_close(out[: data.batch_size], expected[seeds])


@pytest.mark.parametrize("start", ["fork", "spawn"])
def test_workers_sample_and_gather_independently(graph, start):
    tables = Tables(graph)
    seeds = torch.from_numpy(tables.splits["train"])
    loader = loader_of(graph, [4, 3], seeds, batch_size=64, num_workers=2, multiprocessing_context=start)
    # The sampler has been at work in this process too.
    NeighborSampler(loader.data[0], [4]).sample(seeds[:5], epoch=0, batch=0)
    for _ in range(2 if start == "fork" else 1):
        batches = list(loader)
        assert len(batches) == 5
        for number, data in enumerate(batches):
            check(data, tables, [4, 3], seeds[64 * number : 64 * number + 64].tolist())
            assert data.x.is_shared()


def test_epochs_and_workers_pick_differently_and_a_seed_repeats_them(graph):
    def picks(**options):
        torch.manual_seed(3)
        loader = loader_of(graph, [2, 2], torch.arange(200), batch_size=50, **options)
        return [[data.n_id.tolist() for data in loader] for _ in range(2)]

    for options in ({}, {"num_workers": 2}):
        first, second = picks(**options)
        assert first != second, "two epochs with the same neighbours"
        assert picks(**options) == [first, second]
    assert picks() != picks(seed=1)
    # Workers that sample the same seeds do not pick the same.
    same = loader_of(graph, [2, 2], torch.arange(50).repeat(2), batch_size=50, num_workers=2)
    one, other = same
    assert one.n_id.tolist() != other.n_id.tolist()


@pytest.mark.parametrize("kind", ["neighbor", "labor"])
def test_samples_by_name_are_the_batches_of_a_loader(graph, kind):
    options = dict(fanouts=[4, 3], batch_size=64, seed=9, expand="new", sampler_kind=kind)
    # A copy, as workers have it.
    sampler = copy.copy(NeighborSampler(graph, [4, 3], seed=9, kind=kind))
    with uvatrain.Loader(graph, **options) as batches:
        for epoch in range(2):
            for batch in batches:
                out = sampler.sample(batch.seeds, epoch=epoch, batch=batch.index)
                assert torch.equal(out.node, batch.input_nodes) and out.metadata[2] == batch.hash
                assert torch.equal(torch.stack([out.row, out.col]), batch.edge_index[1])


def test_a_node_given_twice_stays_twice_with_the_same_neighbours(graph):
    tables = Tables(graph)
    a, b, c = np.flatnonzero(np.diff(tables.indptr) > 5)[:3].tolist()
    seeds = torch.tensor([a, b, a, c, b, a])
    (data,) = loader_of(graph, [4, 3], seeds, batch_size=6)
    assert data.n_id[:6].tolist() == seeds.tolist()
    once = data.n_id[6:].tolist()
    assert len(set(once)) == len(once) and not set(once) & {a, b, c}
    row, col = data.edge_index
    of = [sorted(data.n_id[row[col == position]].tolist()) for position in range(6)]
    assert of[0] == of[2] == of[5] and of[1] == of[4] and of[0] and of[0] != of[1]
    assert np.array_equal(data.x.numpy(), tables.features[data.n_id])
    assert data.num_sampled_edges == [int((col < 6).sum()), int((col >= 6).sum())]
    known = edges_of(tables)
    assert all(pair in known for pair in map(tuple, data.n_id[data.edge_index].t().tolist()))


def test_masks_lists_and_shuffling_choose_seeds_as_with_pyg(graph):
    tables = Tables(graph)
    mask = torch.zeros(600, dtype=torch.bool)
    mask[[3, 5, 8]] = True
    (data,) = loader_of(graph, [2], mask, batch_size=8)
    assert data.n_id[:3].tolist() == [3, 5, 8] and data.batch_size == 3
    seen = [
        data.n_id[: data.batch_size]
        for data in loader_of(graph, [2], torch.arange(600), batch_size=100, shuffle=True)
    ]
    assert sorted(torch.cat(seen).tolist()) == list(range(600)) and torch.cat(seen).tolist() != list(
        range(600)
    )
    per_main = loader_of(
        graph, [2, 2], torch.arange(50), batch_size=10, filter_per_worker=False, num_workers=1
    )
    for number, data in enumerate(per_main):
        check(data, tables, [2, 2], list(range(10 * number, 10 * number + 10)))


def test_no_seed_and_a_seed_without_neighbours_are_batches_too(tmp_path):
    dataset = uvatrain.write_dataset(
        tmp_path / "graph",
        indptr=np.array([0, 0, 1]),
        indices=np.array([0]),
        features=np.zeros((2, 1), np.float32),
        labels=np.array([0, 1]),
        train_idx=np.array([0]),
    )
    (data,) = loader_of(dataset.path, [3, 3], torch.tensor([0]), batch_size=1)
    assert data.n_id.tolist() == [0] and data.num_edges == 0 and data.num_sampled_nodes == [1, 0, 0]
    out = NeighborSampler(dataset, [3]).sample(torch.empty(0, dtype=torch.int64), epoch=0, batch=0)
    assert out.node.tolist() == [] and out.num_sampled_edges == [0]


def test_batches_beyond_the_first_guess_of_their_size_are_sampled_whole(tmp_path):
    nodes, degree = 120_000, 3
    random = np.random.default_rng(0)
    dataset = uvatrain.write_dataset(
        tmp_path / "graph",
        indptr=np.arange(nodes + 1) * degree,
        indices=random.integers(0, nodes, nodes * degree, dtype=np.int32),
        features=np.zeros((nodes, 1), np.uint8),
        labels=np.zeros(nodes, np.int64),
        train_idx=np.arange(nodes),
    )
    sampler = NeighborSampler(dataset, [-1, 2])
    out = sampler.sample(torch.arange(90_000), epoch=1, batch=2)
    assert out.num_sampled_edges[0] == 270_000 and out.node.numel() > 100_000
    again = NeighborSampler(dataset, [-1, 2]).sample(torch.arange(90_000), epoch=1, batch=2)
    assert torch.equal(out.node, again.node) and torch.equal(out.row, again.row)


def test_picks_are_uniform(tmp_path):
    degree, fanout, rounds = 10, 3, 4000
    dataset = uvatrain.write_dataset(
        tmp_path / "graph",
        indptr=np.concatenate([[0], np.full(degree + 1, degree)]),
        indices=np.arange(1, degree + 1),
        features=np.zeros((degree + 1, 1), np.float32),
        labels=np.zeros(degree + 1, np.int64),
        train_idx=np.array([0]),
    )
    torch.manual_seed(0)
    sampler, counts = NeighborSampler(dataset, [fanout]), np.zeros(degree + 1)
    for _ in range(rounds):
        out = sampler.sample_from_nodes(NodeSamplerInput(input_id=None, node=torch.tensor([0])))
        counts[out.node[1:]] += 1
    expected = rounds * fanout / degree
    # Variance of a hypergeometric count; six standard deviations.
    assert np.abs(counts[1:] - expected).max() < 6 * (expected * (1 - fanout / degree)) ** 0.5


def test_the_feature_store_reads_every_index_that_pyg_supports(graph):
    store, tables = FeatureStore(graph), Tables(graph)
    x, ids = torch.from_numpy(tables.features), torch.tensor([5, 0, 599, 5])
    assert [(attr.group_name, attr.attr_name) for attr in store.get_all_tensor_attrs()] == [
        (None, "x"),
        (None, "y"),
    ]
    assert torch.equal(store.get_tensor(None, "x", None), x)
    assert torch.equal(store.get_tensor(None, "x", ids), x[ids])
    assert torch.equal(store.get_tensor(None, "x", ids.int()), x[ids])
    assert torch.equal(store.get_tensor(None, "x", slice(3, 9)), x[3:9])
    assert torch.equal(store.get_tensor(None, "x", 17), x[17])
    assert torch.equal(store.get_tensor(None, "y", ids), torch.from_numpy(tables.labels)[ids])
    assert torch.equal(store[None, "x"][ids], x[ids]) and torch.equal(store[None, "x", None], x)
    both = store.multi_get_tensor([TensorAttr(None, "x", ids), TensorAttr(None, "y", ids)])
    assert torch.equal(both[0], x[ids]) and both[1].tolist() == tables.labels[ids].tolist()
    assert store.get_tensor_size(None, "x") == (600, 5) and store.get_tensor_size(None, "y") == (600,)
    assert store.get_tensor_size(None, "z") is None and store.get_tensor(None, "z", ids) is None
    assert store.get_tensor("paper", "x", ids) is None
    mask = torch.zeros(600, dtype=torch.bool)
    mask[4] = True
    assert torch.equal(store.get_tensor(None, "x", mask), x[4:5])


@pytest.mark.parametrize(
    "options", [dict(dtype="bfloat16"), dict(dtype="float16"), dict(dtype="uint8", multi_label=True)]
)
def test_rows_of_every_type_are_gathered(tmp_path, options):
    dataset = uvatrain.Dataset(write_graph(tmp_path / "graph", **options))
    ids = torch.tensor([7, 3, 599])
    store = FeatureStore(dataset)
    for name, table in (("x", dataset.features), ("y", dataset.labels)):
        rows = store.get_tensor(None, name, ids)
        assert rows.dtype == table.dtype and torch.equal(rows, table[ids])


def test_the_graph_store_has_the_edges_in_the_layout_that_they_have(graph):
    store, tables = GraphStore(graph), Tables(graph)
    (attr,) = store.get_all_edge_attrs()
    assert (attr.edge_type, attr.layout, attr.is_sorted, attr.size) == (
        None,
        EdgeLayout.CSC,
        True,
        (600, 600),
    )
    row, colptr = store.get_edge_index(attr)
    assert row.dtype == colptr.dtype == torch.int64
    assert torch.equal(row, torch.from_numpy(tables.indices).long()) and torch.equal(
        colptr, torch.from_numpy(tables.indptr)
    )
    row, colptr, perm = store.csc()
    assert perm is None and torch.equal(colptr, torch.from_numpy(tables.indptr))
    row, col, _ = store.coo()
    assert torch.equal(
        col, torch.repeat_interleave(torch.arange(600), torch.from_numpy(np.diff(tables.indptr)))
    )
    rowptr, _, _ = store.csr()
    assert rowptr.numel() == 601
    with pytest.raises(KeyError):
        store.get_edge_index(EdgeAttr(("a", "to", "b"), "csc"))


def test_stores_can_be_read_only(graph):
    features, edges = FeatureStore(graph), GraphStore(graph)
    calls = [
        lambda: features.put_tensor(torch.zeros(1), None, "x", None),
        lambda: features.remove_tensor(None, "x", None),
        lambda: features.update_tensor(torch.zeros(1), None, "x", None),
        lambda: edges.put_edge_index((torch.zeros(1), torch.zeros(1)), None, "csc"),
        lambda: edges.remove_edge_index(None, "csc"),
    ]
    for call in calls:
        with pytest.raises(TypeError, match="can only be read"):
            call()


def test_what_is_not_supported_is_refused_and_says_what_is(graph):
    dataset = uvatrain.Dataset(graph)
    for options, message in [
        (dict(disjoint=True, subgraph_type="induced"), "disjoint=True is not supported"),
        (dict(time_attr="time"), "time_attr='time' is not supported"),
        (dict(weight_attr="weight"), "weight_attr='weight' is not supported"),
        (dict(subgraph_type="some"), "subgraph_type='some': it is directional, bidirectional, induced"),
        (dict(edge_order=torch.arange(3)), "edge_order is [3]"),
        (dict(num_neighbors={("a", "to", "b"): [1]}), "num_neighbors is a dict"),
        (dict(num_neighbors=[]), "num_neighbors: no fanout given"),
        (dict(num_neighbors=[3, 0]), "num_neighbors=3,0: hop 1: invalid value '0': expected -1"),
        (dict(num_neighbors=[2**24 + 1]), "invalid value '16777217': expected -1 (all neighbours) or 1 to 16777216"),
        (dict(seed=-1), "seed=-1: 0 to"),
        (dict(kind="weighted"), "is for uvatrain.Loader"),
        (dict(kind="ladies"), "is for uvatrain.Loader"),
        (dict(kind="labour"), 'kind "labour": it is "neighbor"'),
        (dict(dataset=Data()), "uvatrain.from_pyg writes a dataset from a Data"),
        (dict(dataset=HeteroData()), "dataset is a HeteroData"),
    ]:
        with pytest.raises(ValueError) as refused:
            NeighborSampler(**{"dataset": dataset, "num_neighbors": [3], **options})
        assert message in str(refused.value)
    with pytest.raises(TypeError, match=r"num_neighbors is a int: a sequence is needed.*\(5, 5\)"):
        NeighborSampler(dataset, 5)
    sampler = NeighborSampler(dataset, [3])
    node = torch.tensor([1])
    with pytest.raises(ValueError, match="input_time is not supported"):
        sampler.sample_from_nodes(NodeSamplerInput(input_id=None, node=node, time=node))
    with pytest.raises(ValueError, match="one type of node"):
        sampler.sample_from_nodes(NodeSamplerInput(input_id=None, node=node, input_type="paper"))
    links = LinkNeighborLoader(
        (FeatureStore(dataset), GraphStore(dataset)),
        [3],
        edge_label_index=(None, torch.tensor([[0, 1], [2, 3]])),
        neighbor_sampler=sampler,
    )
    with pytest.raises(NotImplementedError, match="edges as seeds"):
        next(iter(links))
    with pytest.raises(IndexError, match="600"):
        sampler.sample(torch.tensor([0, 600]), epoch=0, batch=0)
    with pytest.raises(IndexError, match="entry 1 is node -1"):
        FeatureStore(dataset).get_tensor(None, "x", torch.tensor([0, -1]))
    with pytest.raises(ValueError, match="node ids, int64"):
        FeatureStore(dataset).get_tensor(None, "x", torch.tensor([0.5]))
    for name in (dict(epoch=2**30, batch=0), dict(epoch=-1, batch=0), dict(epoch=0, batch=2**32)):
        with pytest.raises(ValueError, match="epochs are 0 to"):
            sampler.sample(node, **name)
    with pytest.raises(TypeError):
        NeighborSampler(dataset, [2.5])


def test_a_sampler_is_copied_and_pickled_with_its_options(graph):
    order = torch.randperm(uvatrain.Dataset(graph).num_edges)
    for options in (dict(), dict(disjoint=True), dict(subgraph_type="induced", edge_order=order)):
        sampler = NeighborSampler(graph, [4, 3], replace=True, seed=5, **options)
        expected = sampler.sample(torch.arange(20), epoch=1, batch=1)
        for other in (copy.copy(sampler), copy.deepcopy(sampler), pickle.loads(pickle.dumps(sampler))):
            same = other.sample(torch.arange(20), epoch=1, batch=1)
            assert torch.equal(same.node, expected.node) and torch.equal(same.edge, expected.edge)
    store = pickle.loads(pickle.dumps(FeatureStore(graph)))
    assert store.get_tensor_size(None, "x") == (600, 5)


def test_threads_share_a_sampler(graph):
    from concurrent.futures import ThreadPoolExecutor

    sampler = NeighborSampler(graph, [4, 3, 2])
    seeds = torch.arange(300)
    expected = [sampler.sample(seeds, epoch=0, batch=number).node for number in range(20)]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda number: sampler.sample(seeds, epoch=0, batch=number).node, range(20)))
    assert all(torch.equal(one, other) for one, other in zip(expected, found))


@pytest.mark.skipif(
    not (WITH_PYG_LIB or WITH_TORCH_SPARSE), reason="needs pyg-lib or torch-sparse, for PyG's own sampler"
)
def test_pygs_own_sampler_runs_over_the_graph_store(graph):
    dataset, tables = uvatrain.Dataset(graph), Tables(graph)
    known = edges_of(tables)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        loader = NeighborLoader(
            (FeatureStore(dataset), GraphStore(dataset)), [4, 3], input_nodes=dataset.train_idx, batch_size=64
        )
        assert isinstance(loader.node_sampler, PygSampler)
        for data in loader:
            assert all(pair in known for pair in map(tuple, data.n_id[data.edge_index].t().tolist()))
            assert np.array_equal(data.x.numpy(), tables.features[data.n_id])
