"""uvatrain.nn over several node types: results and gradients are those of PyG's HeteroConv and HGTConv."""

import inspect

import pytest
import torch
import torch.nn.functional as F
import uvatrain
from graphs import TYPED_RELATIONS as RELATIONS
from graphs import write_typed_graph

pytest.importorskip("torch_geometric")

from torch_geometric import nn as theirs  # noqa: E402
from torch_geometric.utils import trim_to_layer  # noqa: E402
from uvatrain import nn as ours  # noqa: E402
from uvatrain.nn import functional  # noqa: E402
from uvatrain.nn._names import parameters_by_name  # noqa: E402

WIDTH = 8
TYPES = ["paper", "author", "topic"]
#: Nodes of the whole graph that layers get, with one type that nothing leads to and one relation without edges.
NODES = {"paper": 40, "author": 30, "topic": 5}
EMPTY = ("topic", "quotes", "paper")

pytestmark = pytest.mark.filterwarnings("ignore:There exist node types", "ignore::uvatrain.UvatrainWarning")


@pytest.fixture(scope="module")
def typed(tmp_path_factory):
    return write_typed_graph(tmp_path_factory.mktemp("typed") / "graph")[0]


def sages(of, **options):
    return of.HeteroConv({names: of.SAGEConv((WIDTH, WIDTH), WIDTH) for names in [*RELATIONS, EMPTY]}, **options)


def gats(of, **options):
    made = {names: of.GATConv((WIDTH, WIDTH), 4, heads=2, add_self_loops=False) for names in RELATIONS}
    return of.HeteroConv(made, **options)


def mixed(of, **options):
    made = {
        RELATIONS[0]: of.GCNConv(WIDTH, WIDTH),
        RELATIONS[1]: of.SAGEConv((WIDTH, WIDTH), WIDTH, aggr="max"),
        RELATIONS[2]: of.GATConv(WIDTH, WIDTH, add_self_loops=False),
        RELATIONS[3]: of.SAGEConv(WIDTH, WIDTH, root_weight=False),
    }
    return of.HeteroConv(made, **options)


def transformer(of, heads=2, width=WIDTH, relations=(*RELATIONS, EMPTY), **_):
    return of.HGTConv({"paper": WIDTH, "author": WIDTH, "topic": WIDTH}, width, (TYPES, list(relations)), heads)


LAYERS = {
    **{f"sage-{aggr}": (sages, {"aggr": aggr}) for aggr in ("sum", "mean", "min", "max", "cat", None)},
    "gat": (gats, {}),
    "mixed": (mixed, {"aggr": "mean"}),
    "hgt": (transformer, {}),
    "hgt-one-head": (transformer, {"heads": 1}),
    "hgt-wider": (transformer, {"heads": 3, "width": 12}),
}


def pair(name, dtype=torch.float32):
    """A layer of PyG's and one of ours with the same weights."""
    make, options = LAYERS[name]
    torch.manual_seed(3)
    one, other = make(theirs, **options), make(ours, **options)
    with torch.no_grad():
        for parameter in one.parameters():
            # Biases begin as zeros and factors as ones, which would hide them.
            parameter.add_(torch.randn_like(parameter) / 4)
    other.load_state_dict(one.state_dict())
    return one.to(dtype), other.to(dtype)


def edges(seed, unsorted=True):
    """Edges of each relation, some of them twice, and nodes without any."""
    generator, made = torch.Generator().manual_seed(seed), {}
    for names in RELATIONS:
        ends = [torch.randint(max(NODES[of] - 3, 1), (70,), generator=generator) for of in (names[0], names[2])]
        made[names] = torch.stack(ends)
        if not unsorted:
            made[names] = made[names][:, made[names][1].sort(stable=True).indices].contiguous()
    return {**made, EMPTY: torch.empty((2, 0), dtype=torch.int64)}


def rows(seed, dtype=torch.float32):
    generator = torch.Generator().manual_seed(seed)
    return {name: torch.randn(count, WIDTH, generator=generator, dtype=dtype) for name, count in NODES.items()}


def close(one, other, dtype=torch.float32):
    tolerance = {"rtol": 1e-4, "atol": 1e-5} if dtype == torch.float32 else {"rtol": 1e-9, "atol": 1e-10}
    torch.testing.assert_close(one, other, **tolerance)


def gradients(layer, call, x, dtype):
    """Results by type, and gradients of the parameters and the rows."""
    x = {name: table.clone().requires_grad_() for name, table in x.items()}
    found = {name: result + 0 for name, result in call(layer, x).items()}
    generator = torch.Generator().manual_seed(1)
    loss = torch.zeros((), dtype=dtype)
    for name in sorted(found):
        loss = loss + (found[name] * torch.randn(found[name].shape, generator=generator, dtype=dtype)).sum()
    of = [*layer.parameters(), *x.values()]
    given = torch.autograd.grad(loss, of, allow_unused=True)
    return found, [torch.zeros_like(of) if made is None else made for of, made in zip(of, given)]


def compare(layers, call, x, dtype=torch.float32):
    (expected, of_theirs), (found, of_ours) = (gradients(layer, call, x, dtype) for layer in layers)
    assert found.keys() == expected.keys()
    for name, result in expected.items():
        close(found[name], result, dtype)
    for one, other in zip(of_theirs, of_ours):
        close(other, one, dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("unsorted", [True, False])
@pytest.mark.parametrize("name", LAYERS)
def test_layers_over_types_give_results_and_gradients_of_pyg(name, unsorted, dtype):
    for seed in range(2):
        given = edges(seed, unsorted)
        compare(pair(name, dtype), lambda layer, x: layer(x, given), rows(seed, dtype), dtype)


@pytest.mark.parametrize("name", ["sage-sum", "hgt"])
def test_torchs_operations_give_what_our_loops_give_over_types(monkeypatch, name):
    """They stand in for our loops on a GPU."""
    monkeypatch.setattr(functional, "_by_our_loops", lambda *_: False)
    compare(pair(name, torch.float64), lambda layer, x: layer(x, edges(4)), rows(4, torch.float64), torch.float64)


def test_relations_that_are_not_given_are_skipped_as_in_pyg():
    given = {names: index for names, index in edges(5).items() if names[1] == "cites"}
    compare(pair("sage-sum"), lambda layer, x: layer(x, given), rows(5))
    compare(pair("hgt"), lambda layer, x: layer(x, given), rows(5))


def test_many_relations_of_which_most_have_no_edges_equal_pyg():
    relations = [("paper", f"r{number}", "paper") for number in range(60)]
    layers = [transformer(of, relations=relations) for of in (theirs, ours)]
    layers[1].load_state_dict(layers[0].state_dict())
    given = {names: torch.randint(0, 40, (2, 3 if number % 7 == 0 else 0)) for number, names in enumerate(relations)}
    compare(layers, lambda layer, x: layer(x, given), rows(6))


@pytest.mark.parametrize("name", LAYERS)
def test_state_loads_strictly_both_ways(name):
    make, options = LAYERS[name]
    one, other = make(theirs, **options), make(ours, **options)
    one.load_state_dict(other.state_dict(), strict=True)
    other.load_state_dict(one.state_dict(), strict=True)
    assert list(one.state_dict()) == list(other.state_dict())
    other.reset_parameters()
    assert not any(torch.equal(a, b) for a, b in zip(one.parameters(), other.parameters()) if a.unique().numel() > 1)


def test_types_with_names_of_a_dictionarys_methods_have_pygs_names():
    types = ["keys", "values"]
    relations = [("keys", "to.all", "values"), ("values", "a", "keys")]
    states = []
    for of in (theirs, ours):
        convs = {names: of.SAGEConv((4, 4), 4) for names in relations}
        states.append(list(of.HeteroConv(convs).state_dict()))
    assert states[0] == states[1]
    expected = theirs.parameter_dict.ParameterDict()
    for name in (*types, "a.b"):
        expected[name] = torch.nn.Parameter(torch.ones(1))
    made = parameters_by_name((name, torch.nn.Parameter(torch.ones(1))) for name in (*types, "a.b"))
    assert list(made.state_dict())[1] == "<values>"
    assert list(made.state_dict()) == list(expected.state_dict())


@pytest.mark.parametrize("kind", ["sage", "gat", "mixed", "hgt"])
@pytest.mark.parametrize("expand", ["new", "all"])
def test_layers_take_the_blocks_of_a_typed_batch(typed, kind, expand):
    make, options = LAYERS["sage-sum" if kind == "sage" else kind]
    if kind == "hgt":
        options = {**options, "relations": RELATIONS}
    torch.manual_seed(2)
    stacks = [[make(of, **options) for _ in range(2)] for of in (theirs, ours)]
    for one, other in zip(*stacks):
        other.load_state_dict(one.state_dict())
    with uvatrain.Loader(typed, fanouts=(4, 3), batch_size=8, seed=3, expand=expand) as loader:
        for batch in loader:
            x = {name: torch.randn(batch[name].num_nodes, WIDTH) for name in TYPES}
            start, outs, made = x, [], []
            for stack in stacks:
                x = {name: table.clone().requires_grad_() for name, table in start.items()}
                leaves = list(x.values())
                for layer, blocks in zip(stack, reversed(batch.blocks)):
                    if stack is stacks[1]:
                        result = layer(x, blocks)
                    else:
                        index = {names: blocks[names].edge_index for names in RELATIONS}
                        sizes = {}
                        for names in RELATIONS:
                            sizes[names[0]] = blocks[names].num_src
                        x = {name: table[: sizes[name]] for name, table in x.items()}
                        counts = {names[2]: blocks[names].num_dst for names in RELATIONS}
                        result = {name: table[: counts[name]] for name, table in layer(x, index).items()}
                    # A type that no relation leads to keeps its rows.
                    x = {**x, **{name: table.relu() for name, table in result.items()}}
                outs.append(x["paper"])
                assert x["paper"].shape[0] == batch["paper"].num_seeds
                of = [parameter for layer in stack for parameter in layer.parameters()] + leaves
                grads = torch.autograd.grad(x["paper"].square().sum(), of, allow_unused=True)
                made.append([torch.zeros_like(of) if grad is None else grad for of, grad in zip(of, grads)])
            close(outs[1], outs[0])
            for one, other in zip(*made):
                torch.testing.assert_close(other, one, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("kind", ["sage", "hgt"])
def test_a_trimmed_model_of_pyg_computes_the_same_with_our_layers(typed, kind):
    make, options = LAYERS["sage-sum" if kind == "sage" else kind]
    if kind == "hgt":
        options = {**options, "relations": RELATIONS}
    torch.manual_seed(2)
    stacks = [[make(of, **options) for _ in range(2)] for of in (theirs, ours)]
    for one, other in zip(*stacks):
        other.load_state_dict(one.state_dict())
    with uvatrain.Loader(typed, fanouts=(4, 3), batch_size=8, seed=3, expand="new") as loader:
        batch = next(iter(loader))
        start = {name: torch.randn(batch[name].num_nodes, WIDTH) for name in TYPES}
        outs = []
        for stack in stacks:
            x, index = start, batch.edge_index_dict
            for layer, conv in enumerate(stack):
                x, index, _ = trim_to_layer(
                    layer, batch.num_sampled_nodes_dict, batch.num_sampled_edges_dict, x, index
                )
                x = {**x, **{name: F.relu(table) for name, table in conv(x, index).items()}}
            outs.append(x["paper"][: batch.num_seeds] + 0)
        close(outs[1], outs[0])


def test_scores_have_the_gradients_of_finite_differences():
    lists = ours.Lists(torch.tensor([0, 2, 2, 5]), torch.tensor([3, 1, 0, 3, 3]), 4)
    rows, others = (torch.randn(count, 6, dtype=torch.float64, requires_grad=True) for count in (4, 3))
    for heads in (1, 3):
        assert torch.autograd.gradcheck(lambda a, b, heads=heads: functional.dots(lists, a, b, heads), (rows, others))


def test_constructors_of_layers_over_types_have_pygs_names():
    for kind in ("HeteroConv", "HGTConv"):
        of_theirs, of_ours = (inspect.signature(getattr(of, kind)).parameters for of in (theirs, ours))
        assert list(of_ours) == list(of_theirs)
        assert all(of_ours[name].default == of_theirs[name].default for name in of_ours)


def test_what_layers_over_types_cannot_take_is_refused_by_name():
    writes = ("author", "writes", "paper")
    one = ours.HeteroConv({writes: ours.SAGEConv(4, 4)})
    x, index = {"paper": torch.ones(3, 4), "author": None}, {writes: torch.zeros((2, 1), dtype=torch.int64)}
    with pytest.raises(ValueError, match=r"no rows of 'author', .* author__writes__paper: .*uvatrain.Embedding"):
        one(x, index)
    hgt = ours.HGTConv(4, 4, (["author", "paper"], [writes]))
    with pytest.raises(ValueError, match="HGTConv: x_dict has no rows of 'author'"):
        hgt(x, index)
    with pytest.raises(ValueError, match="HGTConv: x_dict has no rows of 'paper', the destinations"):
        hgt({"author": torch.ones(3, 4)}, index)
    x["author"] = torch.ones(2, 4)
    with pytest.raises(ValueError, match="author__writes__paper: .*among 2"):
        one(x, {writes: torch.tensor([[2], [0]])})
    with pytest.raises(TypeError, match="weights_dict"):
        one(x, index, weights=x)
    with pytest.raises(ValueError, match="aggr='median'"):
        ours.HeteroConv({}, aggr="median")
    with pytest.raises(ValueError, match="author__writes__paper .* GATConv with add_self_loops=False"):
        ours.HeteroConv({writes: ours.GATConv(4, 4)})
    with pytest.raises(ValueError, match="out_channels=5 is not divisible by heads=2"):
        ours.HGTConv(4, 5, ([], []), heads=2)
    with pytest.raises(ValueError, match="sizes are not taken from the first input"):
        ours.HGTConv(-1, 4, (["a"], []))
