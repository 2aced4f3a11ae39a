"""uvatrain.nn: layers whose results and gradients are those of PyG's layers with the same weights."""

import inspect

import pytest
import torch
import torch.nn.functional as F

import uvatrain
from conftest import run_python_well
from uvatrain import _core
from uvatrain.errors import UvatrainError

pyg = pytest.importorskip("torch_geometric")

from torch_geometric import nn as theirs  # noqa: E402
from torch_geometric.utils import trim_to_layer  # noqa: E402

from uvatrain import nn as ours  # noqa: E402
from uvatrain.nn import functional, gat_conv  # noqa: E402
from uvatrain.nn._rows import Rows  # noqa: E402
from uvatrain.nn.lists import Lists, lists_of  # noqa: E402

NODES, WIDTH = 60, 7

#: Options of layers: PyG's and ours take the same.
LAYERS = {
    "sage": ("SAGEConv", (WIDTH, 5), {}),
    "sage-narrow": ("SAGEConv", (WIDTH, 1), {}),
    "sage-sum": ("SAGEConv", (WIDTH, 5), {"aggr": "sum"}),
    "sage-add-narrow": ("SAGEConv", (WIDTH, 1), {"aggr": "add", "bias": False}),
    "sage-max": ("SAGEConv", (WIDTH, 5), {"aggr": "max"}),
    "sage-alone": ("SAGEConv", (WIDTH, 5), {"root_weight": False}),
    "sage-projected": ("SAGEConv", (WIDTH, 40), {"project": True, "normalize": True}),
    "gcn": ("GCNConv", (WIDTH, 5), {}),
    "gcn-narrow": ("GCNConv", (WIDTH, 1), {"bias": False}),
    "gcn-improved": ("GCNConv", (WIDTH, 5), {"improved": True}),
    "gcn-without-loops": ("GCNConv", (WIDTH, 5), {"add_self_loops": False}),
    "gcn-plain": ("GCNConv", (WIDTH, 5), {"normalize": False}),
    "gat": ("GATConv", (WIDTH, 5), {}),
    "gat-heads": ("GATConv", (WIDTH, 17), {"heads": 3}),
    "gat-mean": ("GATConv", (WIDTH, 4), {"heads": 4, "concat": False, "negative_slope": 0.1}),
    "gat-without-loops": ("GATConv", (WIDTH, 4), {"heads": 2, "add_self_loops": False, "bias": False}),
    "gat-residual": ("GATConv", (WIDTH, 4), {"heads": 2, "residual": True}),
}


def pair(name, dtype=torch.float32):
    """A layer of PyG's and one of ours with the same weights."""
    kind, sizes, options = LAYERS[name]
    torch.manual_seed(3)
    one, other = getattr(theirs, kind)(*sizes, **options), getattr(ours, kind)(*sizes, **options)
    with torch.no_grad():
        for parameter in one.parameters():
            # Biases begin as zeros, which would hide them.
            parameter.add_(torch.randn_like(parameter) / 4)
    other.load_state_dict(one.state_dict())
    return one.to(dtype), other.to(dtype)


def edges(seed, nodes=NODES, count=200, targets=None):
    """Some of them twice, some from a node to itself, nodes without any, and in no order."""
    generator = torch.Generator().manual_seed(seed)
    made = torch.randint(nodes - 5, (2, count), generator=generator)
    made[1] %= targets or nodes
    made[:, :10] = made[:, 10:20]
    made[0, 20:25] = made[1, 20:25]
    return made


def as_given(edge_index, form, nodes=NODES):
    """The same edges, in an order and a type that they may come in."""
    if form == "unsorted":
        return edge_index
    edge_index = edge_index[:, edge_index[1].sort(stable=True).indices].contiguous()
    if form == "int32":
        return edge_index.int()
    if form == "EdgeIndex":
        return pyg.EdgeIndex(edge_index, sparse_size=(nodes, nodes), sort_order="col")
    return edge_index


def close(one, other, dtype=torch.float32):
    tolerance = {"rtol": 1e-4, "atol": 1e-5} if dtype == torch.float32 else {"rtol": 1e-9, "atol": 1e-10}
    torch.testing.assert_close(one, other, **tolerance)


def compare(one, other, call, x, dtype=torch.float32):
    """Results, and gradients of the parameters and the rows."""
    def fresh():
        return tuple(rows.clone().requires_grad_() for rows in x) if isinstance(x, tuple) else x.clone().requires_grad_()

    given = [fresh(), fresh()]
    found = [call(layer, rows) for layer, rows in zip((one, other), given)]
    found[1] = found[1] + 0
    close(found[1], found[0], dtype)
    upstream = torch.randn(found[0].shape, generator=torch.Generator().manual_seed(1), dtype=dtype)
    gradients = []
    for layer, rows, out in zip((one, other), given, found):
        of = [*layer.parameters(), *(rows if isinstance(rows, tuple) else [rows])]
        gradients.append(torch.autograd.grad(out, of, upstream, allow_unused=True))
    for a, b in zip(*gradients):
        assert (a is None) == (b is None) or not (b if a is None else a).any()
        if a is not None and b is not None:
            close(b, a, dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("form", ["unsorted", "sorted", "EdgeIndex", "int32"])
@pytest.mark.parametrize("name", LAYERS)
def test_layers_give_results_and_gradients_of_pyg(name, form, dtype):
    one, other = pair(name, dtype)
    x = torch.randn(NODES, WIDTH, generator=torch.Generator().manual_seed(9), dtype=dtype)
    # Equal numbers, whose gradient their maximum divides.
    x[::3, ::2] = x[3, 0]
    for seed in range(3):
        edge_index = edges(seed)
        plain, given = as_given(edge_index, "sorted"), as_given(edge_index, form)
        compare(one, other, lambda layer, rows: layer(rows, plain if layer is one else given), x, dtype)


@pytest.mark.parametrize("first", ["sums", "products"])
@pytest.mark.parametrize("name", [name for name in LAYERS if name.startswith("gat")])
def test_attention_that_sums_before_or_after_the_product_equals_pyg(monkeypatch, name, first):
    asked = []
    monkeypatch.setattr(gat_conv, "sums_first", lambda *about: asked.append(about) or first == "sums")
    one, other = pair(name, torch.float64)
    x = torch.randn(NODES, WIDTH, generator=torch.Generator().manual_seed(9), dtype=torch.float64)
    compare(one, other, lambda layer, rows: layer(rows, edges(8)), x, torch.float64)
    assert asked


@pytest.mark.parametrize("name", ["sage", "sage-max", "sage-alone", "gat-heads", "gat-residual"])
def test_layers_take_pairs_of_sources_and_destinations_as_pyg_does(name):
    one, other = pair(name)
    generator = torch.Generator().manual_seed(2)
    x = torch.randn(NODES, WIDTH, generator=generator), torch.randn(20, WIDTH, generator=generator)
    edge_index = edges(4, targets=20)
    compare(one, other, lambda layer, rows: layer(rows, edge_index), x)


@pytest.mark.parametrize("name", ["sage", "gcn", "gat-heads"])
def test_a_graph_without_edges_gives_what_pyg_gives(name):
    one, other = pair(name)
    nothing = torch.empty((2, 0), dtype=torch.int64)
    compare(one, other, lambda layer, rows: layer(rows, nothing), torch.randn(6, WIDTH))


@pytest.mark.parametrize("name", ["gcn", "gcn-improved", "gcn-without-loops", "gcn-plain"])
def test_weights_of_edges_count_as_in_pyg_and_have_gradients(name):
    one, other = pair(name, torch.float64)
    x = torch.randn(NODES, WIDTH, dtype=torch.float64)
    edge_index = edges(5).unique(dim=1)
    edge_index = edge_index[:, torch.randperm(edge_index.size(1))]
    weights = [torch.rand(edge_index.size(1), dtype=torch.float64).add(0.1).requires_grad_()]
    weights.append(weights[0].detach().clone().requires_grad_())
    outs = [layer(x, edge_index, weight) for layer, weight in zip((one, other), weights)]
    close(outs[1] + 0, outs[0], torch.float64)
    for out in outs:
        (out + 0).square().sum().backward()
    close(weights[1].grad, weights[0].grad, torch.float64)


def test_gradients_of_the_loops_are_those_of_finite_differences():
    edge_index = as_given(edges(6, 12, 40), "sorted")
    lists, _ = lists_of(edge_index, 12, 12)
    generator = torch.Generator().manual_seed(1)

    def numbers(*shape):
        return torch.randn(*shape, dtype=torch.float64, generator=generator).requires_grad_()

    check = torch.autograd.gradcheck
    count = lists.num_edges
    assert check(lambda rows: functional.weighted_sums(lists, rows), numbers(12, 6))
    assert check(lambda rows: functional.weighted_sums(lists, rows, "mean"), numbers(12, 6))
    assert check(lambda rows, w: functional.weighted_sums(lists, rows, w), (numbers(12, 6), numbers(count)))
    assert check(lambda rows, w: functional.weighted_sums(lists, rows, w), (numbers(12, 6), numbers(count, 3)))
    assert check(lambda rows: functional.maxima(lists, rows), numbers(12, 6))
    assert check(lambda a, b: functional.attention(lists, a, b, 0.2), (numbers(12, 3), numbers(12, 3)))


def test_torchs_operations_give_what_our_loops_give(monkeypatch):
    """They stand in for our loops on a GPU."""
    found = []
    for by_our_loops in (True, False):
        if not by_our_loops:
            monkeypatch.setattr(functional, "_by_our_loops", lambda *_: False)
        of = []
        for name in LAYERS:
            _, layer = pair(name, torch.float64)
            x = torch.randn(NODES, WIDTH, generator=torch.Generator().manual_seed(9), dtype=torch.float64)
            x.requires_grad_()
            out = layer(x, edges(1)) + 0
            out.square().sum().backward()
            of += [out, x.grad, *(parameter.grad for parameter in layer.parameters())]
        found.append(of)
    for one, other in zip(*found):
        close(one, other, torch.float64)


def test_own_edges_are_added_on_a_device_as_they_are_by_our_loop():
    lists, _ = lists_of(as_given(edges(7), "sorted"), NODES, NODES)
    for one, other in zip(lists.with_own(), lists._with_own_on_device()):
        if isinstance(one, Lists):
            assert one.indptr.tolist() == other.indptr.tolist() and one.indices.tolist() == other.indices.tolist()
        else:
            # Of several edges to itself any may be the one.
            assert (one < 0).tolist() == (other < 0).tolist()


@pytest.mark.parametrize("name", ["sage", "sage-max", "gcn", "gat-heads"])
@pytest.mark.parametrize("fanouts", [[4], [4, 3], [3, 5, 2]])
@pytest.mark.parametrize("expand", ["new", "all"])
@pytest.mark.filterwarnings("ignore::uvatrain.UvatrainWarning")
def test_layers_take_blocks_of_a_batch(graph, name, fanouts, expand):
    kind, _, options = LAYERS[name]
    torch.manual_seed(2)
    sizes = [5, *[8 * options.get("heads", 1)] * len(fanouts)]
    layers = [
        [getattr(of, kind)(a, 8, **options) for a in sizes[:-1]] for of in (theirs, ours)
    ]
    for one, other in zip(*layers):
        other.load_state_dict(one.state_dict())
    with uvatrain.Loader(graph, fanouts=fanouts, batch_size=64, expand=expand) as loader:
        batch = next(iter(loader))
        outs = []
        for of in layers:
            x = batch.x.float() / 100
            for layer, block in zip(of, reversed(batch.blocks)):
                x = layer(x, block) if of is layers[1] else layer(x, block.edge_index)[: block.num_dst]
            outs.append(x)
        assert outs[1].shape[0] == batch.num_seeds and not isinstance(outs[1], Rows)
        close(outs[1], outs[0])
        for of, out in zip(layers, outs):
            out.square().sum().backward()
        for one, other in zip(*layers):
            for a, b in zip(one.parameters(), other.parameters()):
                torch.testing.assert_close(b.grad, a.grad, rtol=1e-3, atol=1e-4)


def test_degrees_of_the_whole_graph_give_the_weights_of_our_trainer(graph):
    layer = ours.GCNConv(5, 4)
    with uvatrain.Loader(graph, fanouts=[4], batch_size=64) as loader:
        degrees = loader.dataset.indptr.diff()
        batch = next(iter(loader))
        (block,) = batch.blocks
        of = degrees[batch.input_nodes].double()
        x = batch.x.double() / 100
        expected = torch.zeros(block.num_dst, 5, dtype=torch.float64)
        for v in range(block.num_dst):
            picks = block.indices[block.indptr[v] : block.indptr[v + 1]].tolist()
            for u in picks:
                expected[v] += of[v] / len(picks) / ((of[v] + 1) * (of[u] + 1)).sqrt() * x[u]
            expected[v] += x[v] / (of[v] + 1)
        expected = expected @ layer.lin.weight.double().t() + layer.bias
        close(layer(batch.x.float() / 100, block, degrees=of).double(), expected.detach())


class Model(torch.nn.Module):
    """As in PyG's examples."""

    def __init__(self, of, kind="SAGEConv", **options):
        super().__init__()
        torch.manual_seed(1)
        heads = options.get("heads", 1)
        sizes = [(5, 16), (16 * heads, 16), (16 * heads, 4)]
        self.convs = torch.nn.ModuleList(getattr(of, kind)(a, b, **options) for a, b in sizes)

    def forward(self, x, edge_index, nodes=None, edges=None):
        for layer, conv in enumerate(self.convs):
            if nodes is not None:
                x, edge_index, _ = trim_to_layer(layer, nodes, edges, x, edge_index)
            x = conv(x, edge_index)
            if layer < 2:
                x = F.dropout(x.relu(), 0.5, training=False)
        return x


@pytest.mark.parametrize(("kind", "options"), [("SAGEConv", {}), ("GCNConv", {}), ("GATConv", {"heads": 2})])
@pytest.mark.parametrize("trim", [True, False])
@pytest.mark.filterwarnings("ignore::uvatrain.UvatrainWarning")
def test_a_script_of_pygs_computes_the_same_with_our_layers(graph, monkeypatch, kind, options, trim):
    one, other = Model(theirs, kind, **options), Model(ours, kind, **options)
    other.load_state_dict(one.state_dict())
    one.load_state_dict(other.state_dict())
    looked_at = []
    monkeypatch.setattr(Rows, "whole", lambda x, whole=Rows.whole: looked_at.append(1) or whole(x))
    with uvatrain.Loader(graph, fanouts=[4, 3, 3], batch_size=64, expand="new") as loader:
        for batch in loader:
            data = batch.to_pyg()
            sampled = (data.num_sampled_nodes, data.num_sampled_edges) if trim else ()
            outs = [model(data.x.float() / 100, data.edge_index, *sampled) for model in (one, other)]
            assert outs[1].shape == outs[0].shape
            close(outs[1][: data.batch_size] + 0, outs[0][: data.batch_size])
            for model, out in zip((one, other), outs):
                model.zero_grad()
                F.cross_entropy(out[: data.batch_size], data.y.clamp(0)).backward()
            for a, b in zip(one.parameters(), other.parameters()):
                torch.testing.assert_close(b.grad, a.grad, rtol=1e-3, atol=1e-5)
    if trim:
        # The outermost nodes' rows would not be used.
        assert len(looked_at) <= 2


def result(layer=None, nodes=NODES):
    """A layer's result of which some rows are not computed yet, and all of its rows by PyG."""
    one, other = pair("sage")
    x = torch.randn(nodes, WIDTH, generator=torch.Generator().manual_seed(2))
    edge_index = edges(3, targets=20)
    rows = other(x, edge_index)
    assert isinstance(rows, Rows) and rows._head.size(0) == 20
    return rows, one(x, edge_index), other


@pytest.mark.parametrize(
    "call",
    [
        lambda x: x,
        lambda x: x.relu(),
        lambda x: F.elu(F.dropout(x, training=False), alpha=0.5),
        lambda x: torch.relu_(x.clone()),
        lambda x: F.relu(x, inplace=True),
        lambda x: x[:7],
        lambda x: x[:33],
        lambda x: x[:-3],
        lambda x: x[5:],
        lambda x: x[[1, 50]],
        lambda x: x[:30, :2],
        lambda x: x.narrow(0, 0, 9),
        lambda x: x.narrow(dim=0, start=0, length=41),
        lambda x: x.narrow(1, 0, 2),
        lambda x: x.relu()[:40].tanh()[:25],
        lambda x: x.log_softmax(dim=1),
        lambda x: F.batch_norm(x, None, None, training=True),
        lambda x: x * x.relu(),
        lambda x: torch.cat([x, x]),
        lambda x: x.t() @ x,
        lambda x: x.detach(),
        lambda x: torch.tensor(x.shape),
        lambda x: torch.tensor([len(x), x.size(0), x.size(-1), x.numel(), x.dim()]),
        lambda x: torch.from_numpy(x.detach().numpy()),
    ],
)
def test_a_result_with_rows_not_computed_yet_acts_as_one_of_all_rows(call):
    rows, whole, _ = result()
    found = call(rows)
    close(torch.as_tensor(found) + 0, call(whole) + 0)


def test_rows_in_no_batch_are_computed_from_their_layers_input_or_refused():
    rows, whole, layer = result()
    F.cross_entropy(rows[:20], torch.zeros(20, dtype=torch.int64)).backward()
    torch.optim.SGD(layer.parameters(), lr=0.1).step()
    close(rows[:20], whole[:20])
    with pytest.raises(UvatrainError, match="changed"):
        rows.sum()
    with torch.no_grad():
        rows, _, _ = result()
    assert not (rows + 0).requires_grad


def test_weights_are_those_of_pyg_both_ways_and_begin_as_there():
    for name, (kind, sizes, options) in LAYERS.items():
        one, other = getattr(theirs, kind)(*sizes, **options), getattr(ours, kind)(*sizes, **options)
        assert {k: v.shape for k, v in one.state_dict().items()} == {
            k: v.shape for k, v in other.state_dict().items()
        }, name
        one.load_state_dict(other.state_dict())
        for parameter in other.parameters():
            bound = max(p.abs().max() for p in one.parameters() if p.shape == parameter.shape)
            assert bool(parameter.abs().max() > 0) == bool(bound > 0), name


def test_constructors_have_pygs_names():
    for kind in ("SAGEConv", "GCNConv", "GATConv"):
        of_theirs, of_ours = (inspect.signature(getattr(of, kind)).parameters for of in (theirs, ours))
        assert list(of_ours) == list(of_theirs)
        for name, parameter in of_ours.items():
            assert parameter.default == of_theirs[name].default


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: ours.SAGEConv(4, 4, aggr="median"), "aggr='median'"),
        (lambda: ours.SAGEConv(-1, 4), "in_channels=-1"),
        (lambda: ours.SAGEConv(4, 4, flow="target_to_source"), "flow='target_to_source'"),
        (lambda: ours.GCNConv(4, 4, cached=True), "cached=True"),
        (lambda: ours.GCNConv(4, 4, add_self_loops=True, normalize=False), "add_self_loops"),
        (lambda: ours.GATConv(4, 4, edge_dim=2), "edge_dim=2"),
        (lambda: ours.GATConv(4, 4)(torch.ones(2, 4), torch.zeros(2, 1).long(), torch.ones(1, 2)), "edge_attr"),
        (lambda: ours.GCNConv(4, 4)((torch.ones(2, 4), None), torch.zeros(2, 1).long()), "pair"),
        (lambda: ours.SAGEConv(4, 4)(torch.ones(2, 4), torch.zeros(3, 1).long()), r"edge_index is .*\[3, 1\]"),
        (lambda: ours.SAGEConv(4, 4)(torch.ones(2, 4), torch.zeros(2, 1)), "edge_index is torch.float32"),
        (lambda: ours.SAGEConv(4, 4)(torch.ones(2, 4), torch.tensor([[0], [2]])), "destinations: .*among 2"),
        (lambda: ours.SAGEConv(4, 4)(torch.ones(2, 4), torch.tensor([[0, 0], [2, 0]])), "edge_index: .* 0 is 2"),
        (
            lambda: ours.SAGEConv(4, 4)((torch.ones(5, 4), torch.ones(2, 4)), torch.tensor([[0, 0], [4, 1]])),
            "target 4 is not among 2",
        ),
        (lambda: ours.SAGEConv(4, 4)(torch.ones(2, 4), torch.tensor([[-1], [0]])), "indices"),
        (lambda: ours.SAGEConv(4, 4)(torch.ones(2, 4), torch.tensor([[5], [0]])), "indices"),
        (lambda: ours.SAGEConv(4, 4)(torch.ones(8), torch.tensor([[0], [0]])), r"x is \[8\]"),
        (lambda: ours.GCNConv(4, 4)(torch.ones(2, 4), torch.zeros(2, 1).long(), torch.ones(3)), "edge_weight"),
        (lambda: ours.SAGEConv(4, 4)(torch.ones(2, 4), torch.zeros(2, 1).long(), (3, 2)), r"size=\(3, 2\)"),
        (
            lambda: ours.SAGEConv(4, 4)(torch.ones(2, 4), pyg.EdgeIndex([[0], [0]], sparse_size=(3, 3))),
            "3 rows",
        ),
        (
            lambda: ours.SAGEConv(4, 4)(torch.ones(3, 4), Lists(torch.tensor([0, 1]), torch.tensor([0]), 2)),
            "2 sources",
        ),
    ],
)
def test_what_does_not_fit_is_refused_by_name(call, said):
    with pytest.raises(ValueError, match=said):
        call()


def test_other_things_than_edges_are_refused():
    with pytest.raises(TypeError, match="edge_index is a list"):
        ours.SAGEConv(4, 4)(torch.ones(2, 4), [[0], [1]])
    with pytest.raises(TypeError, match="no option 'agr'"):
        ours.SAGEConv(4, 4, agr="mean")


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"indptr": torch.tensor([0, 3])}, "indptr: "),
        ({"indptr": torch.tensor([1, 2])}, "indptr: "),
        ({"indptr": torch.tensor([0.0, 2.0])}, "indptr is float32"),
        ({"indices": torch.tensor([0, 2])}, "indices: "),
        ({"indices": torch.tensor([0, 1], dtype=torch.int32)}, "indices is int32"),
        ({"rows": torch.ones(2, 3).half()}, "rows is float16"),
        ({"rows": torch.ones(2, 3, 1)}, "rows is float32"),
        ({"weights": torch.ones(3)}, "weights: 3 weights for 2 edges"),
        ({"weights": torch.ones(2, 2)}, "heads: rows of 3"),
        ({"weights": torch.ones(2).double()}, "weights is float64"),
        ({"weights": "median"}, "weights=\"median\""),
        ({"out": torch.empty(2, 3)}, r"out is float32 \[2, 3\]"),
        ({"out": torch.empty(1, 3).double()}, "out is float64"),
    ],
)
def test_the_loops_refuse_by_the_argument_what_they_cannot_follow(wrong, said):
    given = {
        "indptr": torch.tensor([0, 2]),
        "indices": torch.tensor([0, 1]),
        "rows": torch.ones(2, 3),
        "weights": None,
        "out": torch.empty(1, 3),
    }
    _core.list_sums(**given)
    assert given["out"].tolist() == [[2.0] * 3]
    with pytest.raises(ValueError, match=said):
        _core.list_sums(**{**given, **wrong})


def test_the_loops_refuse_to_write_where_they_read():
    rows = torch.ones(2, 3)
    with pytest.raises(ValueError, match="out shares memory with rows"):
        _core.list_sums(torch.tensor([0, 2]), torch.tensor([0, 1]), rows, None, rows[1:])


def test_any_number_of_threads_gives_the_same_bits():
    torch.manual_seed(0)
    lists, _ = lists_of(as_given(edges(1, 3000, 40_000), "sorted", 3000), 3000, 3000)
    rows = torch.randn(3000, 96)
    found = []
    for threads in (1, 2, 3):
        out = torch.empty(3000, 96)
        _core.list_sums(lists.indptr, lists.indices, rows, "mean", out, threads)
        found.append(out)
    assert torch.equal(found[0], found[1]) and torch.equal(found[0], found[2])


def test_a_fork_computes_with_threads_of_its_own():
    """Those of its parent are not there."""
    run_python_well("""
import os
import numpy as np
from uvatrain import _core

def sums():
    rows, out = np.ones((3000, 96), np.float32), np.empty((3000, 96), np.float32)
    indptr, indices = np.arange(3001) * 10, np.arange(30_000) % 3000
    _core.list_sums(indptr, indices, rows, None, out, 2)
    assert (out == 10).all()

sums()
child = os.fork()
if child == 0:
    sums()
    os._exit(0)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
sums()
""")
