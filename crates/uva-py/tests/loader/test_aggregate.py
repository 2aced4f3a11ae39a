"""Rows that the producer aggregates: those of torch over the rows of all nodes, in batches that are otherwise the same."""

import inspect
import json
import os
import re
import subprocess
import sys

import numpy as np
import pytest
import torch
import uvatrain
from conftest import REPOSITORY, WATCHDOG
from graphs import FEATURES, write_graph

OPTIONS = dict(fanouts=[4, 3], batch_size=64, seed=3)
HOW = ["mean", "sum", "max", "gcn"]
KINDS = [
    dict(),
    dict(expand="new"),
    dict(replace=True),
    dict(sampler_kind="labor"),
    dict(sampler_kind="labor", expand="new"),
    dict(sampler_kind="ladies", fanouts=[80, 90]),
    dict(sampler_kind="walk"),
    dict(fanouts=[5]),
    dict(fanouts=[3, 2, 2]),
]


def reference(how, rows, block, weights, degrees):
    """The outermost block's rows by torch in float64, from the rows of all nodes."""
    rows = rows.double()
    sources, destinations = block.edge_index
    counts = block.indptr.diff()
    own = (block.num_dst, rows.shape[1])
    if how == "max":
        picked = destinations[:, None].expand(-1, rows.shape[1])
        # 0 where there is nothing to reduce.
        return torch.zeros(own, dtype=torch.float64).scatter_reduce(0, picked, rows[sources], "amax", include_self=False)
    if how == "sum":
        of_edges = torch.ones(block.num_edges, dtype=torch.float64)
    elif weights is not None:
        of_edges = weights.double()
    else:
        of_edges = (1.0 / counts.double())[destinations]
    if how == "gcn":
        degrees = degrees.double()
        of_edges = of_edges * degrees[destinations] / ((degrees[destinations] + 1) * (degrees[sources] + 1)).sqrt()
    sums = torch.zeros(own, dtype=torch.float64).index_add(0, destinations, rows[sources] * of_edges[:, None])
    if how == "gcn":
        sums += rows[: block.num_dst] / (degrees[: block.num_dst, None] + 1)
    return sums


def check(batch, plain, how, table, degrees):
    """Compares a batch with that of a loader that leaves the rows to the consumer."""
    assert (batch.hash, batch.num_nodes, batch.aggregate) == (plain.hash, plain.num_nodes, how)
    assert plain.aggregate is None and not any(block.folded for block in plain.blocks)
    for name in ("input_nodes", "seeds", "y"):
        assert torch.equal(getattr(batch, name), getattr(plain, name)), name
    assert [block.folded for block in batch.blocks] == [False] * (len(batch.blocks) - 1) + [True]
    for block, other in zip(batch.blocks, plain.blocks, strict=True):
        assert torch.equal(block.indptr, other.indptr) and torch.equal(block.indices, other.indices)
        if batch.weighs_edges:
            assert torch.equal(block.weights, other.weights)
    outermost = plain.blocks[-1]
    if how == "gcn":
        with pytest.raises(ValueError, match="own rows are among the sums"):
            batch.x  # noqa: B018
    else:
        assert torch.equal(batch.x, plain.x[: outermost.num_dst])
    weights = outermost.weights if plain.weighs_edges else None
    nodes = plain.input_nodes
    expected = reference(how, table[nodes], outermost, weights, degrees[nodes])
    assert batch.aggregated.dtype == torch.float32 and batch.aggregated.shape == expected.shape
    if how == "max":
        assert torch.equal(batch.aggregated.double(), expected)
    else:
        assert torch.allclose(batch.aggregated.double(), expected, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("how", HOW)
def test_rows_are_torchs_over_all_rows_and_the_rest_of_a_batch_stays(graph, how, kind):
    options = OPTIONS | kind
    with uvatrain.Loader(graph, aggregate=how, **options) as folded, uvatrain.Loader(graph, **options) as loader:
        table, degrees = loader.dataset.features, loader.dataset.indptr.diff()
        empty = 0
        for batch, plain in zip(folded, loader, strict=True):
            check(batch, plain, how, table, degrees)
            lists = plain.blocks[-1].indptr.diff() == 0
            empty += int(lists.sum())
            if how != "gcn":
                assert (batch.aggregated[lists] == 0).all(), "an empty list gives zeros"
        assert empty > 0


@pytest.mark.parametrize("dtype", [dtype for dtype in FEATURES if "int" not in dtype])
@pytest.mark.parametrize("how", HOW)
def test_narrow_floats_are_widened_before_they_are_reduced(tmp_path, how, dtype):
    graph = write_graph(tmp_path / "graph", dtype=dtype, dim=37)
    for feature_type in ("table", "float32"):
        options = OPTIONS | dict(feature_type=feature_type)
        with uvatrain.Loader(graph, aggregate=how, **options) as folded, uvatrain.Loader(graph, **options) as loader:
            table, degrees = loader.dataset.features.float(), loader.dataset.indptr.diff()
            for batch, plain in zip(folded, loader, strict=True):
                if how != "gcn":
                    assert batch.x.dtype == plain.x.dtype
                    # torch compares no float8.
                    assert torch.equal(batch.x.float(), plain.x[: len(batch.x)].float())
                expected = reference(
                    how,
                    table[plain.input_nodes],
                    plain.blocks[-1],
                    None,
                    degrees[plain.input_nodes],
                )
                assert batch.aggregated.dtype == torch.float32
                assert torch.allclose(batch.aggregated.double(), expected, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("how", HOW)
def test_rows_are_equal_bit_for_bit_for_any_threads_and_samplers(graph, how):
    def rows(**options):
        with uvatrain.Loader(graph, aggregate=how, **(OPTIONS | dict(batch_size=300) | options)) as loader:
            return [batch.aggregated.clone() for batch in loader]

    expected = rows(gather_threads=1, samplers=1)
    for options in [dict(gather_threads=3), dict(samplers=2, gather_threads=2)]:
        assert all(torch.equal(a, b) for a, b in zip(rows(**options), expected, strict=True))


@pytest.mark.parametrize("kind", [dict(), dict(expand="new"), dict(sampler_kind="walk")])
@pytest.mark.parametrize("how", HOW)
def test_padding_changes_no_row_of_a_real_node(graph, how, kind):
    options = OPTIONS | kind | dict(aggregate=how)
    with uvatrain.Loader(graph, pad="auto", **options) as padded, uvatrain.Loader(graph, **options) as loader:
        for batch, own in zip(padded, loader, strict=True):
            assert batch.padded and batch.hash == own.hash and batch.blocks[-1].folded
            assert batch.aggregated.shape == (padded.shapes.blocks[-1][0], 5)
            begins = np.concatenate([[0], np.cumsum(padded.shapes.nodes)[:-1]])
            levels = zip(batch.real_nodes[:-1], begins)
            place = torch.from_numpy(np.concatenate([np.arange(count) + begin for count, begin in levels]))
            assert torch.equal(batch.aggregated[place], own.aggregated)
            assert torch.isfinite(batch.aggregated).all()
            if how != "gcn":
                assert torch.equal(batch.x[place], own.x)


def test_a_state_resumes_with_any_aggregate(graph):
    with uvatrain.Loader(graph, **OPTIONS) as loader:
        expected = [batch.hash for batch in loader]
    ways = [None, *HOW]
    for before, after in zip(ways, ways[1:] + ways[:1]):
        with uvatrain.Loader(graph, aggregate=before, **OPTIONS) as loader:
            steps = iter(loader)
            assert [next(steps).hash for _ in range(2)] == expected[:2]
            state = loader.state_dict()
        with uvatrain.Loader(graph, aggregate=after, **OPTIONS) as loader:
            loader.load_state_dict(state)
            assert [batch.hash for batch in loader] == expected[2:]


class Sage(torch.nn.Module):
    """Two layers of GraphSAGE in plain PyTorch."""

    def __init__(self, features, outputs):
        super().__init__()
        torch.manual_seed(0)
        sizes = [(features, 8), (8, outputs)]
        self.own = torch.nn.ModuleList(torch.nn.Linear(*size) for size in sizes)
        self.neighbours = torch.nn.ModuleList(torch.nn.Linear(*size, bias=False) for size in sizes)

    def forward(self, batch):
        x = None
        for layer, block in enumerate(reversed(batch.blocks)):
            if block.folded:
                rows, mean = batch.x, batch.aggregated
            else:
                x = batch.x if x is None else x
                sources, destinations = block.edge_index
                sums = torch.zeros(block.num_dst, x.shape[1]).index_add(0, destinations, x[sources])
                rows, mean = x[: block.num_dst], sums / block.indptr.diff().clamp(min=1)[:, None]
            x = self.own[layer](rows) + self.neighbours[layer](mean)
            x = x.relu() if layer == 0 else x
        return x


@pytest.mark.parametrize("regression", [False, True])
@pytest.mark.parametrize("expand", ["all", "new"])
def test_losses_of_graphsage_are_those_of_torchs_own_mean(tmp_path, expand, regression):
    graph = write_graph(tmp_path / "graph")
    np.save(graph / "feat.npy", np.load(graph / "feat.npy") / np.float32(100))
    edges = np.load(graph / "indices.npy").size
    np.save(graph / "edge_feat.npy", np.arange(3 * edges, dtype=np.float32).reshape(-1, 3))
    if regression:
        np.save(graph / "label.npy", np.random.default_rng(0).random((600, 4)).astype(np.float32))
        (graph / "meta.json").write_text(json.dumps({"name": "graph"}))

    def losses(**options):
        model = Sage(5, 4)
        optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
        found = []
        with uvatrain.Loader(graph, expand=expand, edge_attr=True, input_id=True, **OPTIONS, **options) as loader:
            for _ in range(2):
                for batch in loader:
                    assert batch.blocks[-1].edge_attr.shape == (batch.blocks[-1].num_edges, 3)
                    out = model(batch)
                    if regression:
                        loss = torch.nn.functional.mse_loss(out, batch.y)
                    else:
                        loss = torch.nn.functional.cross_entropy(out, batch.y, ignore_index=-1)
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
                    found.append((batch.hash, loss.item()))
        return found

    (hashes, folded), (expected_hashes, expected) = (zip(*losses(**options)) for options in (dict(aggregate="mean"), {}))
    assert hashes == expected_hashes and len(folded) == 10
    assert np.allclose(folded, expected, rtol=1e-4)
    assert len(set(folded)) == 10


def test_what_is_not_a_number_stays_so_in_its_column(tmp_path):
    graph = write_graph(tmp_path / "graph")
    features = np.load(graph / "feat.npy")
    features[::7, 2] = np.nan
    features[::5, 3] = -np.inf
    np.save(graph / "feat.npy", features)
    for how in HOW:
        with uvatrain.Loader(graph, aggregate=how, **OPTIONS) as loader:
            seen = 0
            for batch in loader:
                sources, destinations = batch.blocks[-1].edge_index
                nan = torch.from_numpy(np.isnan(features))[batch.input_nodes]
                expected = torch.zeros(batch.aggregated.shape).index_add(0, destinations, nan[sources].float()) > 0
                if how == "gcn":
                    expected |= nan[: len(expected)]
                assert torch.equal(batch.aggregated.isnan(), expected)
                seen += int(expected.sum())
                if how == "max":
                    infinite = torch.from_numpy(features == -np.inf)[batch.input_nodes]
                    others = torch.zeros(expected.shape).index_add(0, destinations, (~infinite[sources]).float())
                    only = (others == 0) & (batch.blocks[-1].indptr.diff() > 0)[:, None]
                    assert (batch.aggregated[only] == -torch.inf).all() and only.any()
            assert seen > 0


@pytest.mark.parametrize("options", [dict(), dict(replace=True, gather_threads=2), dict(pad="auto"), dict(expand="new")])
def test_the_rows_of_maxima_are_those_of_torch(tmp_path, options):
    graph = write_graph(tmp_path / "graph", dim=37)
    # Few different values, so that many are equal.
    features = np.random.default_rng(1).integers(-2, 3, np.load(graph / "feat.npy").shape).astype(np.float32)
    features[::7, 2] = np.nan
    features[::2, 3] = -np.inf
    np.save(graph / "feat.npy", features)
    features = torch.from_numpy(features)
    asked = OPTIONS | options | dict(aggregate="max")
    empty = 0
    with uvatrain.Loader(graph, aggregate_argmax=True, **asked) as loader, uvatrain.Loader(graph, **asked) as without:
        for batch, plain in zip(loader, without, strict=True):
            assert batch.hash == plain.hash and batch.argmax.dtype == torch.int32
            assert torch.equal(batch.aggregated.nan_to_num(9.0), plain.aggregated.nan_to_num(9.0))
            with pytest.raises(ValueError, match="aggregate_argmax=True"):
                plain.argmax  # noqa: B018
            block, rows = batch.blocks[-1], features[batch.input_nodes]
            for v, (begin, end) in enumerate(block.indptr.unfold(0, 2, 1).tolist()):
                listed = block.indices[begin:end]
                if begin == end:
                    assert (batch.argmax[v] == -1).all() and (batch.aggregated[v] == 0).all()
                    empty += 1
                    continue
                values = rows[listed]
                # torch's maximum is NaN where there is one. Its argmax of equal values is any of them.
                largest = values.max(dim=0).values
                first = ((values == largest) | (values.isnan() & largest.isnan())).int().cumsum(0).eq(0).sum(0)
                assert torch.equal(batch.argmax[v], listed[first])
    assert empty > 0
    with pytest.raises(ValueError, match="only valid with aggregate=max"):
        uvatrain.Loader(graph, aggregate="mean", aggregate_argmax=True)


def test_to_pyg_has_what_remains_and_a_model_continues_from_it(graph):
    pytest.importorskip("torch_geometric")
    from torch_geometric.nn import SAGEConv
    from torch_geometric.utils import trim_to_layer

    torch.manual_seed(0)
    layers = [SAGEConv(5, 8), SAGEConv(8, 6), SAGEConv(6, 3)]
    options = OPTIONS | dict(fanouts=[3, 2, 2], expand="new", edge_ids=True)

    def rest(data, x, first):
        edge_index = data.edge_index
        for layer in range(first, 3):
            x, edge_index, _ = trim_to_layer(
                layer - first, data.num_sampled_nodes, data.num_sampled_edges, x, edge_index
            )
            x = layers[layer](x, edge_index).relu()
        return x[: data.batch_size]

    for pad in ("off", "auto"):
        loaders = [uvatrain.Loader(graph, aggregate=how, pad=pad, **options) for how in ("mean", "gcn", None)]
        for batch, sums, plain in zip(*loaders, strict=True):
            data, nodes = batch.to_pyg(), batch.blocks[-1].num_dst
            assert len(data.x) == len(data.aggregated) == len(data.n_id) == data.num_nodes == nodes
            assert torch.equal(data.n_id, plain.input_nodes[:nodes]) and torch.equal(data.y, plain.y)
            assert sum(data.num_sampled_nodes) == nodes and len(data.num_sampled_nodes) == 3
            assert sum(data.num_sampled_edges) == data.edge_index.size(1) == len(data.e_id) == batch.blocks[1].num_edges
            first = layers[0]
            x = (first.lin_l(data.aggregated) + first.lin_r(data.x)).relu()
            found, expected = rest(data, x, 1), rest(plain.to_pyg(), plain.x, 0)
            seeds = plain.real_nodes[0]
            assert torch.allclose(found[:seeds], expected[:seeds], rtol=1e-4, atol=1e-3)
            data = sums.to_pyg()
            assert "x" not in data and data.num_nodes == nodes and torch.equal(data.aggregated, sums.aggregated)
            data.validate()
        for loader in loaders:
            loader.close()


def test_a_single_layer_leaves_nodes_and_no_edge(graph):
    pytest.importorskip("torch_geometric")
    options = OPTIONS | dict(fanouts=[4], edge_ids=True)
    for kind in (dict(), dict(expand="new"), dict(sampler_kind="walk", edge_ids=False)):
        with uvatrain.Loader(graph, aggregate="max", **options | kind) as loader:
            batch = next(iter(loader))
            data = batch.to_pyg()
            assert data.edge_index.shape == (2, 0) and data.num_sampled_nodes == [64] == [data.num_nodes]
            assert data.num_sampled_edges == [] and torch.equal(data.n_id, batch.seeds)
            if data.get("e_id") is not None:
                assert len(data.e_id) == 0
            minibatch = batch.to_graphbolt()
            assert minibatch.sampled_subgraphs == [] and torch.equal(minibatch.input_nodes, batch.seeds)


def test_to_graphbolt_has_what_remains(graph):
    with uvatrain.Loader(graph, aggregate="sum", sampler_kind="walk", **OPTIONS) as loader:
        for batch in loader:
            minibatch = batch.to_graphbolt()
            assert torch.equal(minibatch.node_features["feat"], batch.x)
            assert torch.equal(minibatch.node_features["aggregated"], batch.aggregated)
            assert len(minibatch.sampled_subgraphs) == len(minibatch.edge_features) == 1
            assert torch.equal(minibatch.sampled_subgraphs[0].sampled_csc.indices, batch.blocks[0].indices)
            assert len(minibatch.input_nodes) == batch.blocks[-1].num_dst == len(batch.x)
    with uvatrain.Loader(graph, aggregate="gcn", **OPTIONS) as loader:
        assert list(next(iter(loader)).to_graphbolt().node_features) == ["aggregated"]


def test_to_dgl_has_what_remains_and_refuses_where_nothing_does(graph):
    dgl = pytest.importorskip("dgl", exc_type=(ImportError, OSError))
    with uvatrain.Loader(graph, aggregate="mean", **OPTIONS) as loader:
        for batch in loader:
            input_nodes, _, blocks = batch.to_dgl_step()
            assert len(blocks) == 1 and blocks[0].num_edges() == batch.blocks[0].num_edges
            assert torch.equal(blocks[0].srcdata[dgl.NID], input_nodes)
            assert torch.equal(blocks[0].srcdata["feat"], batch.x)
            assert torch.equal(blocks[0].srcdata["aggregated"], batch.aggregated)
    with uvatrain.Loader(graph, aggregate="mean", **OPTIONS | dict(fanouts=[4])) as loader:
        with pytest.raises(ValueError, match="leaves none for DGL"):
            next(iter(loader)).to_dgl()


def test_a_layer_that_is_given_the_folded_block_says_what_to_take(graph):
    nn = pytest.importorskip("uvatrain.nn")
    torch.manual_seed(0)
    first, second = nn.SAGEConv(5, 8), nn.SAGEConv(8, 3)
    with uvatrain.Loader(graph, aggregate="mean", **OPTIONS) as folded, uvatrain.Loader(graph, **OPTIONS) as loader:
        for batch, plain in zip(folded, loader, strict=True):
            with pytest.raises(ValueError, match=r"folded.*batch\.aggregated"):
                first(batch.x, batch.blocks[-1])
            x = (first.lin_l(batch.aggregated) + first.lin_r(batch.x)).relu()
            expected = first(plain.x, plain.blocks[-1]).relu()
            found, expected = second(x, batch.blocks[0]), second(expected, plain.blocks[0])
            assert torch.allclose(found, expected, rtol=1e-4, atol=1e-3)


def test_the_option_is_a_keyword_and_its_refusals_say_what_to_do(graph, tmp_path):
    assert inspect.signature(uvatrain.Loader).parameters["aggregate"].default is None
    for given in (None, "none"):
        with uvatrain.Loader(graph, aggregate=given, **OPTIONS) as loader:
            batch = next(iter(loader))
            assert batch.aggregate is None and batch.x.shape == (batch.num_nodes, 5)
            with pytest.raises(ValueError, match='this batch has no aggregated: .*aggregate="mean"'):
                batch.aggregated  # noqa: B018
    with pytest.raises(ValueError, match="aggregate=median: 'median' is not one of none, mean, sum, max, gcn") as raised:
        uvatrain.Loader(graph, aggregate="median", **OPTIONS)
    assert raised.value.field == "aggregate"
    with pytest.raises(TypeError, match="aggregate is a str"):
        uvatrain.Loader(graph, aggregate=3, **OPTIONS)
    for dtype, shown in (("uint8", "u8"), ("int8", "i8")):
        whole = write_graph(tmp_path / dtype, dtype=dtype)
        for how in HOW:
            message = f"aggregate={how}: not supported with features of {shown}: only floats are summed. Omit aggregate"
            with pytest.raises(ValueError, match=message) as raised:
                uvatrain.Loader(whole, aggregate=how, **OPTIONS)
            assert raised.value.field == "aggregate"
    pyg = pytest.importorskip("uvatrain.pyg")
    with pytest.raises(ValueError, match=r"aggregate is not supported.*uvatrain\.Loader"):
        pyg.NeighborLoader(uvatrain.Dataset(graph), [4, 3], batch_size=64, aggregate="mean")


def test_the_example_of_the_documentation_trains(graph):
    nn = pytest.importorskip("uvatrain.nn")
    page = (REPOSITORY / "docs" / "guide" / "python.md").read_text()
    (example,) = [code for code in re.findall(r"```python\n(.*?)```", page, re.DOTALL) if "batch.aggregated" in code]
    assert "data/products" in example
    names = dict(torch=torch, uvatrain=uvatrain, SAGEConv=nn.SAGEConv, features=5, classes=4)
    exec(example.replace("data/products", str(graph)), names)
    assert names["h"].shape == (300, 4) and torch.isfinite(names["h"]).all()


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("cache", [(), ("--gpu-cache", "4KB", "--cache-policy", "fifo")])
def test_a_script_under_the_launcher_gets_the_batches_of_a_loader(graph, uvatrain_program, tmp_path, how, cache):
    script = tmp_path / "train.py"
    script.write_text(
        "import sys, torch, uvatrain\n"
        "found = {}\n"
        "for split in ('train', 'valid'):\n"
        "    for batch in uvatrain.attach(split):\n"
        "        assert batch.blocks[-1].folded\n"
        "        found[batch.hash] = batch.aggregated.clone()\n"
        "torch.save(found, sys.argv[1])\n"
    )
    metrics, found = tmp_path / "metrics.jsonl", tmp_path / "found.pt"
    options = ["--fanouts", "4,3", "--batch-size", "64", "--seed", "3", "--aggregate", how, "--metrics", metrics, *cache]
    ended = subprocess.run(
        [uvatrain_program, "run", graph, *options, "--", sys.executable, script, found],
        capture_output=True,
        text=True,
        timeout=WATCHDOG,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    expected = {}
    for split in ("train", "valid"):
        with uvatrain.Loader(graph, split=split, aggregate=how, **OPTIONS) as loader:
            expected |= {batch.hash: batch.aggregated.clone() for batch in loader}
    rows = torch.load(found)
    assert rows.keys() == expected.keys()
    assert all(torch.equal(rows[hash], expected[hash]) for hash in rows)
    events = [json.loads(line) for line in metrics.read_text().splitlines()]
    start = next(event for event in events if event["event"] == "start")
    assert start["in_force"]["aggregate"] == {"way": "host", "sums": how, "reason": "requested"}
    assert start["options"]["aggregate"] == how
    batches = [event for event in events if event["event"] == "batch"]
    assert len(batches) == 5
    for batch in batches:
        counts, (_, entries) = batch["aggregate"], batch["edges"]
        assert counts["entries"] == entries and counts["own_rows"] == (0 if how == "gcn" else counts["sum_rows"])


def test_a_run_refuses_whole_numbers_with_code_2(uvatrain_program, tmp_path):
    graph = write_graph(tmp_path / "graph", dtype="uint8")
    ended = subprocess.run(
        [uvatrain_program, "run", graph, "--aggregate", "max", "--", "true"], capture_output=True, text=True
    )
    assert ended.returncode == 2
    assert "--aggregate max: not supported with features of u8: only floats are summed. Omit --aggregate" in ended.stderr
