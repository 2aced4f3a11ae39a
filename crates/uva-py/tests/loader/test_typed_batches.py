"""Batches of typed graphs: rows, blocks and edges by node type and relation, and PyG's HeteroData of them."""

import json
import shutil

import numpy
import pytest
import torch
import uvatrain

from graphs import TYPED_RELATIONS as RELATIONS
from graphs import TYPED_NODES as NODES
from graphs import write_typed_graph

OPTIONS = {"fanouts": (4, 3), "batch_size": 8, "seed": 3, "expand": "new", "edge_ids": True, "input_id": True}


@pytest.fixture(scope="module")
def typed(tmp_path_factory):
    """A typed graph: its path, and the sources and destinations of each relation in the order of its lists."""
    return write_typed_graph(tmp_path_factory.mktemp("typed") / "graph")


def test_rows_labels_and_edges_are_those_of_the_dataset(typed):
    path, edges = typed
    features = {name: numpy.load(path / f"nodes/{name}/feat.npy") for name in ("paper", "topic")}
    labels, train = numpy.load(path / "nodes/paper/label.npy"), numpy.load(path / "nodes/paper/train_idx.npy")
    edge_rows = numpy.load(path / "edges/author__writes__paper/edge_id.npy")
    with uvatrain.Loader(path, **OPTIONS) as loader:
        assert len(loader) == 4
        for batch in loader:
            assert batch.metadata() == (list(NODES), RELATIONS)
            for name, rows in features.items():
                assert numpy.array_equal(batch[name].x.numpy(), rows[batch[name].n_id.numpy()])
            assert batch["author"].x is None and batch.x_dict["author"] is None
            paper = batch["paper"]
            assert torch.equal(paper.n_id[: paper.num_seeds], paper.seeds)
            assert numpy.array_equal(paper.y.numpy(), labels[paper.seeds.numpy()])
            assert numpy.array_equal(train[batch.input_id.numpy()], paper.seeds.numpy())
            for names in RELATIONS:
                source, _, destination = names
                found, (sources, destinations) = batch[names], edges[names]
                places = batch.blocks[-1]["__".join(names)].edge_ids.numpy()
                ends = batch[source].n_id[found.edge_index[0]], batch[destination].n_id[found.edge_index[1]]
                assert numpy.array_equal(sources[places], ends[0].numpy())
                assert numpy.array_equal(destinations[places], ends[1].numpy())
                expected = edge_rows[places] if names[1] == "writes" else places
                assert numpy.array_equal(found.e_id.numpy(), expected)
                assert sum(found.num_sampled_edges) == len(places)
            assert sum(batch["topic"].num_sampled_nodes) == batch["topic"].num_nodes
            with pytest.raises(KeyError, match="papr"):
                batch["papr"]


def test_edges_have_the_rows_of_their_relation(typed, tmp_path):
    path, edges = typed
    copy = shutil.copytree(path, tmp_path / "graph")
    random, rows = numpy.random.default_rng(2), {}
    for names, dtype in [(RELATIONS[0], numpy.float16), (RELATIONS[1], numpy.float32)]:
        rows[names] = random.standard_normal((len(edges[names][0]), 3)).astype(dtype)
        numpy.save(copy / "edges" / "__".join(names) / "feat.npy", rows[names])
    meta = json.loads((copy / "meta.json").read_text())
    meta["edges"][1]["feat_rows"] = "edge_id"
    (copy / "meta.json").write_text(json.dumps(meta))
    with uvatrain.Loader(copy, edge_attr=True, **OPTIONS) as loader:
        for batch in loader:
            for names, table in rows.items():
                assert numpy.array_equal(batch[names].edge_attr.numpy(), table[batch[names].e_id.numpy()])
                of_seeds = batch.blocks[0][names]
                assert len(of_seeds.edge_attr) == of_seeds.num_edges
                assert torch.equal(batch.to_pyg()[names].edge_attr, batch[names].edge_attr)
            assert "edge_attr" not in batch.to_pyg()[RELATIONS[2]]
            features = batch.to_graphbolt().edge_features
            assert [{(":".join(names), "feat") for names in rows}] * 2 == [set(of_layer) for of_layer in features]
            for of_layer, blocks in zip(features, reversed(batch.blocks)):
                for names in rows:
                    assert torch.equal(of_layer[":".join(names), "feat"], blocks[names].edge_attr)
            assert batch[RELATIONS[2]].edge_attr is None and batch.edge_attr_dict[RELATIONS[3]] is None
            with pytest.raises(ValueError, match=r"topic__covers__paper: the relation has no feat\.npy"):
                batch.blocks[0][RELATIONS[2]].edge_attr  # noqa: B018
    with uvatrain.Loader(copy, **OPTIONS) as loader, pytest.raises(ValueError, match="edge_attr=True"):
        next(iter(loader)).edge_attr_dict  # noqa: B018
    with pytest.raises(ValueError, match=r"no feat\.npy of a relation") as refused:
        uvatrain.Loader(path, edge_attr=True, **OPTIONS)
    assert refused.value.field == "edge_attr"


def test_an_epoch_of_fewer_seeds_than_a_batch_may_be_empty(typed):
    path, _ = typed
    options = {**OPTIONS, "batch_size": 1000, "drop_last": True}
    with uvatrain.Loader(path, input_nodes=[1, 2, 3], **options) as loader:
        assert len(loader) == 0 and list(loader) == []


def test_seeds_by_type_need_no_target(typed, tmp_path):
    path, _ = typed
    copy = shutil.copytree(path, tmp_path / "graph")
    meta = json.loads((copy / "meta.json").read_text())
    del meta["target"]
    (copy / "meta.json").write_text(json.dumps(meta))
    found = []
    for data in (path, copy):
        with uvatrain.Loader(data, input_nodes={"author": [3, 5]}, **OPTIONS) as loader:
            found.append([batch.hash for batch in loader])
            assert loader.dataset is not None
    assert found[0] == found[1]
    with pytest.raises(ValueError, match='"target" is missing'):
        uvatrain.Loader(copy, input_nodes=[3, 5], **OPTIONS)


def test_seeds_of_several_types_are_given_by_their_names(typed):
    path, _ = typed
    given = {"author": [3, 3, 5, 17], "paper": torch.arange(20).flip(0)}
    with uvatrain.Loader(path, input_nodes=given, **OPTIONS) as loader:
        assert len(loader) == 3
        found = {name: [] for name in given}
        for batch in loader:
            assert batch["topic"].num_seeds == 0 and batch["author"].y is None
            for name, ids in given.items():
                seeds, places = batch[name].seeds, batch[name].input_id
                assert torch.equal(torch.as_tensor(ids)[places], seeds)
                assert torch.equal(batch[name].n_id[: len(seeds)], seeds)
                found[name] += places.tolist()
            data = batch.to_pyg()
            assert all(data[name].batch_size == batch[name].num_seeds for name in given)
            assert "batch_size" not in data["topic"]
            made = batch.to_graphbolt()
            assert list(made.seeds) == ["paper", "author"] and list(made.labels) == ["paper"]
            assert all(torch.equal(made.seeds[name], batch[name].seeds) for name in given)
            assert len(batch["paper"].y) == batch["paper"].num_seeds == len(batch.seeds)
        assert found == {"author": [0, 1, 2, 3], "paper": list(range(20))}
        state = loader.state_dict()
        assert "4 author nodes" in state["input_nodes"]
    mask = numpy.zeros(40, bool)
    mask[[5, 17]] = True
    with uvatrain.Loader(path, input_nodes={"author": mask}, **OPTIONS) as loader:
        assert len(loader) == 1
        batch = next(iter(loader))
        assert batch["author"].seeds.tolist() == [5, 17] and batch["paper"].num_seeds == 0
    for wrong, said in [
        ({"authr": [1]}, 'did you mean "author"'),
        ({"author": mask[:3]}, "author: the mask has 3 entries for 40 nodes"),
        ({"author": [1, 40]}, "author: entry 1 is 40, outside the ids 0 to 39"),
        ({"author": []}, "no nodes are given"),
        ({}, "no nodes are given"),
    ]:
        with pytest.raises(ValueError, match=said) as refused:
            uvatrain.Loader(path, input_nodes=wrong, **OPTIONS)
        assert refused.value.field == "input_nodes"
    with pytest.raises(TypeError, match="has the key 3"):
        uvatrain.Loader(path, input_nodes={3: [1]}, **OPTIONS)


def test_rows_of_every_type_come_from_disk(typed):
    def seen(**options):
        with uvatrain.Loader(typed[0], **OPTIONS, **options) as loader:
            rows = [(batch.hash, *(batch[name].x.tolist() for name in ("paper", "topic"))) for batch in loader]
            return rows, loader.stats()

    expected, stats = seen()
    assert "disk" not in stats
    for more in ({}, {"look_ahead": 0}, {"host_cache": "64KiB"}, {"reader": "pread", "samplers": 2}):
        rows, stats = seen(features="disk", **more)
        assert rows == expected, more
        assert stats["disk"]["demanded_rows"] + stats["disk"]["ahead_rows"] > 0, (more, stats)


def test_hashes_do_not_depend_on_samplers_and_fanouts_are_given_by_name(typed):
    path, _ = typed

    def hashes(**options):
        with uvatrain.Loader(path, **{**OPTIONS, **options}) as loader:
            return [batch.hash for batch in loader]

    expected = hashes()
    assert hashes(samplers=3) == hashes(prepare="whole", samplers=2, slots=3) == expected
    by_name = {"*": (4, 3), ("paper", "cites", "paper"): [4, 3], "author:writes:paper": (4, 3)}
    assert hashes(fanouts=by_name) == expected
    assert hashes(fanouts={"*": (4, 3), "cites": (0, 0)}) != expected
    with pytest.raises(ValueError, match=r'there is no relation "rites", did you mean "writes"') as refused:
        hashes(fanouts={"*": (4, 3), "rites": (1, 1)})
    assert refused.value.field == "fanouts"
    with pytest.raises(ValueError, match="not supported for typed graphs"):
        hashes(aggregate="mean")
    with pytest.raises(ValueError, match=r"nodes/author/train_idx.npy is absent: choose a target"):
        hashes(target="author")
    with uvatrain.Loader(path, **{**OPTIONS, "input_id": False}, target="author", input_nodes=[3, 3, 5]) as loader:
        batch = next(iter(loader))
        assert batch.seeds.tolist() == batch["author"].seeds.tolist() == [3, 3, 5] and batch.y is None


def test_hetero_data_trims_to_what_the_blocks_compute(typed):
    pytest.importorskip("torch_geometric")
    from torch_geometric.nn import HeteroConv, SAGEConv
    from torch_geometric.utils import trim_to_layer

    path, _ = typed
    torch.manual_seed(0)
    names = RELATIONS[:1] + RELATIONS[2:3]
    layers = [
        HeteroConv({of: SAGEConv((5 if of[0] == "paper" else 3, 5), 5, aggr="sum", bias=False) for of in names})
        for _ in range(2)
    ]
    with uvatrain.Loader(path, **OPTIONS) as loader:
        batch = next(iter(loader))
        data = batch.to_pyg()
        assert data["paper"].batch_size == 8 and "x" not in data["author"]
        assert data.num_sampled_nodes_dict == batch.num_sampled_nodes_dict
        x = {name: rows.float() for name, rows in data.x_dict.items()}
        edge_index = {of: data[of].edge_index for of in names}
        nodes = {name: data[name].num_sampled_nodes for name in x}
        edges = {of: data[of].num_sampled_edges for of in names}
        for layer, conv in enumerate(layers):
            x, edge_index, _ = trim_to_layer(layer, nodes, edges, x, edge_index)
            x = {**x, **conv(x, edge_index)}
        found = x["paper"][:8]
        rows = {name: batch[name].x.float() for name in ("paper", "topic")}
        for conv, blocks in zip(layers, reversed(batch.blocks)):
            block = {of: blocks[of] for of in names}
            count = block[names[0]].num_dst
            sums = sum(
                conv.convs[of](
                    (rows[of[0]][: block[of].num_src], rows["paper"][:count]), block[of].edge_index
                )
                for of in names
            )
            rows = {**rows, "paper": sums}
        assert torch.allclose(found, rows["paper"][:8], atol=1e-5)


def test_trees_have_their_own_nodes_and_the_times_of_their_seeds(typed, tmp_path):
    path, edges = typed
    copy = shutil.copytree(path, tmp_path / "graph")
    writes = "__".join(RELATIONS[1])
    assert RELATIONS[1][1] == "writes"
    indptr = numpy.load(copy / f"edges/{writes}/indptr.npy")
    times = numpy.random.default_rng(4).integers(0, 20, indptr[-1])
    for begin, end in zip(indptr, indptr[1:]):
        times[begin:end].sort()
    numpy.save(copy / f"edges/{writes}/time.npy", times)
    meta = json.loads((copy / "meta.json").read_text())
    meta["edges"][1]["order"] = "time"
    (copy / "meta.json").write_text(json.dumps(meta))
    with uvatrain.Loader(copy, **OPTIONS, time_rule="before-seed", time_window=9, seed_time=12) as loader:
        for batch in loader:
            paper, author = batch["paper"], batch["author"]
            assert paper.seed_time.tolist() == [12] * paper.num_seeds
            assert paper.tree[: paper.num_seeds].tolist() == list(range(paper.num_seeds))
            for nodes in (paper, author):
                trees = list(zip(nodes.tree.tolist(), nodes.n_id.tolist()))
                assert len(set(trees)) == len(trees)
            found = batch[RELATIONS[1]].edge_index
            assert torch.equal(author.tree[found[0]], paper.tree[found[1]])
            seen = times[batch.blocks[-1][writes].edge_ids.numpy()]
            assert len(seen) and ((seen >= 3) & (seen < 12)).all()
    with uvatrain.Loader(copy, **OPTIONS) as loader:
        assert next(iter(loader))["paper"].tree is None
    with pytest.raises(ValueError, match="seeds of paper have no time: train_time.npy, time.npy or seed_time"):
        uvatrain.Loader(copy, **OPTIONS, time_rule="until-seed")
