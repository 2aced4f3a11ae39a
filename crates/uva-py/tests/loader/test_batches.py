"""What is in a batch: the tables' own values, by the contract of docs/spec/reproducible-batches.md."""

import json
import subprocess

import numpy as np
import pytest
import torch
from conftest import WATCHDOG
from graphs import FEATURES, Tables, hash_of, reference, write_graph

import uvatrain

OPTIONS = dict(fanouts=(4, 3, 2), batch_size=64, seed=11)


def check_against_tables(batch, tables):
    """Every tensor of the batch against the dataset's files."""
    nodes, seeds = batch.input_nodes, batch.seeds
    assert nodes.dtype == seeds.dtype == torch.int64
    assert nodes.shape == (batch.num_nodes,) and seeds.shape == (batch.num_seeds,)
    assert torch.equal(nodes[: batch.num_seeds], seeds)
    assert len(set(nodes.tolist())) == len(nodes)
    assert np.array_equal(batch.x.numpy(), tables.features[nodes.numpy()])
    assert np.array_equal(batch.y.numpy(), tables.labels[seeds.numpy()])
    destinations = batch.num_seeds
    for block in batch.blocks:
        assert block.indptr.dtype == block.indices.dtype == torch.int32
        assert block.num_dst == destinations and block.num_src <= batch.num_nodes
        assert block.indptr.shape == (block.num_dst + 1,) and block.indices.shape == (block.num_edges,)
        assert block.indptr[0] == 0 and block.indptr[-1] == block.num_edges
        assert not block.num_edges or int(block.indices.max()) < block.num_src
        for at in range(block.num_dst):
            node = int(nodes[at])
            neighbours = tables.indices[tables.indptr[node] : tables.indptr[node + 1]]
            picked = nodes[block.indices[block.indptr[at] : block.indptr[at + 1]].long()]
            assert set(picked.tolist()) <= set(neighbours.tolist())
        destinations = block.num_src
    assert destinations == batch.num_nodes


@pytest.mark.parametrize("split", ["train", "valid", "test"])
def test_tensors_hold_the_tables_values_and_their_hash_is_the_batchs(graph, split):
    tables = Tables(graph)
    with uvatrain.Loader(graph, split=split, **OPTIONS) as loader:
        seen = []
        for batch in loader:
            check_against_tables(batch, tables)
            assert hash_of(batch, tables.original) == batch.hash
            assert (batch.split, batch.epoch, batch.index) == (split, 0, len(seen) // OPTIONS["batch_size"])
            seen += batch.seeds.tolist()
    assert sorted(seen) == sorted(tables.splits[split].tolist())
    assert (seen == tables.splits[split].tolist()) == (split != "train")


def test_a_reordered_dataset_has_its_own_ids_and_the_original_hashes(tmp_path):
    path = write_graph(tmp_path / "moved", reordered=True)
    tables = Tables(path)
    with uvatrain.Loader(path, **OPTIONS) as loader:
        for batch in loader:
            check_against_tables(batch, tables)
            assert hash_of(batch, tables.original) == batch.hash


@pytest.mark.parametrize("replace", [False, True])
def test_batches_are_those_of_the_reference_implementation(graph, replace):
    tables = Tables(graph)
    options = dict(fanouts=[3, 2], replace=replace, seed=5)
    with uvatrain.Loader(graph, fanouts=(3, 2), batch_size=100, seed=5, replace=replace) as loader:
        for epoch in range(2):
            order = reference.seed_order(5, "train", len(tables.splits["train"]), epoch)
            for batch in loader:
                begin = batch.index * 100
                seeds = tables.splits["train"][order[begin : begin + 100]].tolist()
                expected = reference.sample(tables.lists(), options, "train", epoch, batch.index, seeds)
                assert batch.hash == expected["hash"]
                assert batch.input_nodes.tolist() == expected["nodes"]
                for block, reference_block in zip(batch.blocks, expected["blocks"], strict=True):
                    assert block.indptr.tolist() == reference_block["indptr"]
                    assert block.indices.tolist() == reference_block["indices"]


@pytest.mark.parametrize(
    ("kind", "replace"),
    [
        ("labor", False),
        ("weighted", False),
        ("weighted", True),
        ("neighbor", False),
        ("ladies", False),
        ("fastgcn", False),
        ("saint-node", False),
        ("saint-edge", False),
    ],
)
def test_batches_of_every_kind_of_sampler_are_those_of_the_reference(tmp_path, kind, replace):
    graph = write_graph(tmp_path / "weighted", nodes=200, splits=(120, 10, 10), reordered=True, weighted=True)
    tables = Tables(graph)
    together = kind in reference.TOGETHER
    fanouts = [50, 50] if kind.startswith("saint") else [50, 70] if together else [4, 3]
    options = dict(fanouts=fanouts, replace=replace, seed=6, kind=kind, edge_ids=True)
    wanted = dict(fanouts=fanouts, batch_size=60, seed=6, replace=replace, sampler_kind=kind)
    order = reference.seed_order(6, "train", 120, 0)
    with uvatrain.Loader(graph, **wanted, edge_ids=True) as loader:
        for batch in loader:
            seeds = tables.splits["train"][order[batch.index * 60 : (batch.index + 1) * 60]].tolist()
            expected = reference.sample(tables.lists(), options, "train", 0, batch.index, seeds)
            assert batch.hash == expected["hash"] == hash_of(batch, tables.original)
            for block, reference_block in zip(batch.blocks, expected["blocks"], strict=True):
                assert block.edge_ids.tolist() == reference_block["edge_ids"]
                assert (
                    tables.indices[block.edge_ids].tolist() == batch.input_nodes[block.indices.long()].tolist()
                )
                if kind == "weighted":
                    assert (tables.weights[block.edge_ids] > 0).all()
                if together:
                    assert np.asarray(block.weights).view(np.uint32).tolist() == reference_block["weight_bits"]
                else:
                    with pytest.raises(ValueError, match=f'sampler_kind="{kind}" weighs no edges'):
                        block.weights  # noqa: B018
    with uvatrain.Loader(graph, **wanted, input_id=True) as loader:
        for batch in loader:
            assert batch.input_id.tolist() == list(order[batch.index * 60 : (batch.index + 1) * 60])
            assert tables.splits["train"][batch.input_id].tolist() == batch.seeds.tolist()
    with uvatrain.Loader(graph, **wanted) as loader:
        with pytest.raises(ValueError, match="input_id=True"):
            next(iter(loader)).input_id  # noqa: B018
        with pytest.raises(ValueError, match="edge_ids=True"):
            next(iter(loader)).blocks[0].edge_ids  # noqa: B018


@pytest.mark.parametrize(
    ("kind", "walks"),
    [("walk", dict(count=10, length=4, stop=25)), ("walk", dict(count=6, length=3, stop=0)), ("ppr", None)],
)
def test_batches_of_nodes_found_near_and_far_are_those_of_the_reference(tmp_path, kind, walks):
    graph = write_graph(tmp_path / "graph", nodes=200, splits=(120, 10, 10), reordered=True)
    tables = Tables(graph)
    options, given = dict(fanouts=[4, 3], replace=False, seed=6, kind=kind), {}
    if walks:
        options["walks"] = walks
        given = dict(walks=walks["count"], walk_length=walks["length"], walk_stop=walks["stop"])
    order = reference.seed_order(6, "train", 120, 0)
    with uvatrain.Loader(graph, fanouts=[4, 3], batch_size=60, seed=6, sampler_kind=kind, **given) as loader:
        for batch in loader:
            seeds = tables.splits["train"][order[batch.index * 60 : (batch.index + 1) * 60]].tolist()
            expected = reference.sample(tables.lists(), options, "train", 0, batch.index, seeds)
            assert batch.hash == expected["hash"] == hash_of(batch, tables.original)
            for block, reference_block in zip(batch.blocks, expected["blocks"], strict=True):
                assert np.asarray(block.weights).view(np.uint32).tolist() == reference_block["weight_bits"]


def test_hashes_are_those_of_uvatrain_train(graph, uvatrain_program, tmp_path):
    metrics = tmp_path / "metrics.jsonl"
    arguments = "--fanouts 4,3,2 --batch-size 64 --seed 11 --epochs 3 --device cpu".split()
    ended = subprocess.run(
        [uvatrain_program, "train", graph, *arguments, "--metrics", metrics],
        capture_output=True,
        text=True,
        timeout=WATCHDOG,
    )
    if ended.returncode == 3:
        pytest.skip(ended.stderr)
    assert ended.returncode == 0, ended.stderr
    events = [json.loads(line) for line in metrics.read_text().splitlines()]
    theirs = [
        event for event in events if event["event"] == "batch" and event.get("split", "train") == "train"
    ]
    with uvatrain.Loader(graph, **OPTIONS) as loader:
        ours = [
            dict(
                epoch=batch.epoch,
                batch=batch.index,
                hash=batch.hash,
                seeds=batch.num_seeds,
                input_nodes=batch.num_nodes,
                edges=[block.num_edges for block in batch.blocks],
            )
            for _ in range(3)
            for batch in loader
        ]
    assert len(ours) == 15
    assert ours == [{name: event[name] for name in ours[0]} for event in theirs]


@pytest.mark.parametrize("dtype", FEATURES)
def test_features_come_in_the_tables_type(tmp_path, dtype):
    path = write_graph(tmp_path / dtype, dtype=dtype)
    tables = Tables(path)
    with uvatrain.Loader(path, **OPTIONS) as loader:
        assert loader.dataset.feature_dtype == dtype
        batch = next(iter(loader))
        assert batch.x.dtype == getattr(torch, dtype)
        rows = tables.features[batch.input_nodes.numpy()]
        assert np.array_equal(batch.x.view(torch.uint8).numpy(), rows.view(np.uint8))


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "float8_e4m3fn"])
def test_features_come_as_float32_where_requested(tmp_path, dtype):
    path = write_graph(tmp_path / dtype, dtype=dtype)
    with uvatrain.Loader(path, feature_type="float32", **OPTIONS) as loader:
        features = loader.dataset.features
        assert features.dtype == getattr(torch, dtype)
        widened = []
        for batch in loader:
            assert batch.x.dtype == torch.float32
            assert torch.equal(batch.x, features.float()[batch.input_nodes])
            widened.append(batch.hash)
        state = loader.state_dict()
    # Nothing else of a batch is another.
    with uvatrain.Loader(path, feature_type="table", **OPTIONS) as loader:
        assert [batch.hash for batch in loader] == widened
        loader.load_state_dict(state)


@pytest.mark.parametrize("dtype", ["uint8", "int8"])
def test_integers_are_not_widened_and_the_error_says_what_to_write_instead(tmp_path, dtype):
    path = write_graph(tmp_path / dtype, dtype=dtype)
    with pytest.raises(ValueError, match=r"feature_type=float32.*Omit feature_type.*batch\.x\.float\(\)") as raised:
        uvatrain.Loader(path, feature_type="float32", **OPTIONS)
    assert "--" not in str(raised.value)


def test_several_classes_a_node_come_as_rows(tmp_path):
    path = write_graph(tmp_path / "multi", multi_label=True)
    with uvatrain.Loader(path, **OPTIONS) as loader:
        assert loader.dataset.multi_label and loader.dataset.num_classes == 4
        for batch in loader:
            assert batch.y.dtype == torch.uint8
            assert np.array_equal(batch.y.numpy(), Tables(path).labels[batch.seeds.numpy()])


def test_a_graph_without_edges_has_empty_blocks(tmp_path):
    path = write_graph(tmp_path / "bare", degree=0)
    with uvatrain.Loader(path, **OPTIONS) as loader:
        for batch in loader:
            check_against_tables(batch, Tables(path))
            assert [block.num_edges for block in batch.blocks] == [0, 0, 0]
            assert batch.edge_index[0].shape == (2, 0)


def test_edges_point_from_source_to_destination(graph):
    tables = Tables(graph)
    with uvatrain.Loader(graph, **OPTIONS) as loader:
        for batch in loader:
            assert len(batch.edge_index) == 3
            for layer, (block, edges) in enumerate(zip(batch.blocks, batch.edge_index, strict=True)):
                assert edges.dtype == torch.int64 and edges.shape == (2, block.num_edges)
                assert torch.equal(edges, batch.edge_index[layer])
                assert torch.equal(edges[0], block.indices.long())
                assert torch.equal(edges[1].bincount(minlength=block.num_dst), block.indptr.long().diff())
                for source, destination in batch.input_nodes[edges].t().tolist():
                    begin, end = tables.indptr[destination], tables.indptr[destination + 1]
                    assert source in tables.indices[begin:end]


def test_an_edge_index_is_a_copy_that_may_be_kept(graph):
    with uvatrain.Loader(graph, slots=1, **OPTIONS) as loader:
        kept = [list(batch.edge_index) for batch in loader]
    assert len(kept) == 5 and all(int(edges.max()) >= 0 for epoch in kept for edges in epoch)


def test_tensors_are_the_slot_itself_and_may_be_written_to(graph):
    with uvatrain.Loader(graph, **OPTIONS) as loader:
        batch = next(iter(loader))
        assert batch.x is batch.x and batch.blocks[1].indptr is batch.blocks[1].indptr
        again = np.from_dlpack(batch.array("x"))
        assert again.ctypes.data == batch.x.data_ptr()
        batch.x.mul_(0)
        batch.x[2, 3] = 9
        assert again.sum() == 9 and again[2, 3] == 9
        assert batch.seeds.data_ptr() == batch.input_nodes.data_ptr()
        assert batch.x.data_ptr() % 64 == 0
        # The tables are not the slot.
        first = batch.hash
    with uvatrain.Loader(graph, **OPTIONS) as loader:
        batch = next(iter(loader))
        assert batch.hash == first
        check_against_tables(batch, Tables(graph))


def test_gradients_flow_from_features(graph):
    with uvatrain.Loader(graph, **OPTIONS) as loader:
        model = torch.nn.Linear(5, 4)
        for batch in loader:
            sources, destinations = batch.edge_index[0]
            sums = torch.zeros(batch.num_seeds, 5).index_add_(0, destinations, batch.x[sources])
            torch.nn.functional.cross_entropy(model(sums), batch.y, ignore_index=-1).backward()
        assert model.weight.grad.abs().sum() > 0


@pytest.mark.parametrize(
    ("name", "layer", "message"),
    [
        ("z", None, "input_nodes, seeds, labels"),
        ("x", 0, "an array of the batch, not of a layer"),
        ("indptr", None, "layer="),
        ("indices", 3, "layers 0 to 2"),
    ],
)
def test_a_missing_array_is_refused_by_name(graph, name, layer, message):
    with uvatrain.Loader(graph, **OPTIONS) as loader:
        batch = next(iter(loader))
        with pytest.raises(ValueError, match=message):
            batch.array(name, layer)


def test_without_torch_tensors_are_numpys(graph, tmp_path):
    from conftest import run_python_well

    (tmp_path / "torch.py").write_text("raise ImportError('not here')")
    script = """
import sys
sys.path.insert(0, sys.argv[2])
import numpy, uvatrain
with uvatrain.Loader(sys.argv[1], fanouts=(4, 3), batch_size=64) as loader:
    for batch in loader:
        assert type(batch.x) is type(batch.blocks[0].indptr) is numpy.ndarray
        edges = batch.edge_index[1]
        assert edges.shape == (2, batch.blocks[1].num_edges) and edges.dtype == numpy.int64
        assert (edges[0] == batch.blocks[1].indices).all()
        counts = numpy.bincount(edges[1], minlength=batch.blocks[1].num_dst)
        assert (counts == numpy.diff(batch.blocks[1].indptr)).all()
print(batch.hash)
"""
    with uvatrain.Loader(graph, fanouts=(4, 3), batch_size=64) as loader:
        last = [batch.hash for batch in loader][-1]
    assert run_python_well(script, graph, tmp_path).strip() == last
