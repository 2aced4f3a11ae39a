"""uvatrain.Embedding: steps equal those of torch.nn.Embedding(sparse=True) with SparseAdam, bit for bit."""

import shutil

import numpy
import pytest
import torch
import uvatrain
from graphs import TYPED_NODES as NODES
from graphs import TYPED_RELATIONS as RELATIONS
from graphs import mix, write_typed_graph
from uvatrain import _core
from uvatrain.nn import HeteroConv, SAGEConv

WIDTH = 6
OPTIONS = {"fanouts": (4, 3), "batch_size": 6, "seed": 3, "expand": "new"}
#: Types with tables in most tests: one without features, and one with, for which a table is requested.
TYPES = ["author", "topic"]


@pytest.fixture(scope="module")
def typed(tmp_path_factory):
    return write_typed_graph(tmp_path_factory.mktemp("typed") / "graph")[0]


def model():
    torch.manual_seed(0)
    widths = dict.fromkeys(NODES, WIDTH) | {"paper": 5}
    convs = {names: SAGEConv((widths[names[0]], widths[names[2]]), 5) for names in RELATIONS}
    return HeteroConv(convs), torch.nn.Linear(5, 4)


def loss_of(layers, batch, rows):
    conv, last = layers
    found = conv({**rows, "paper": batch["paper"].x}, batch.blocks[0])
    return last(found["paper"]).square().sum() + found["author"].square().sum()


class Torchs:
    """The same tables as torch.nn.Embedding, with SparseAdam."""

    def __init__(self, tables, **options):
        make = torch.nn.Embedding.from_pretrained
        self.tables = {name: make(table.clone(), freeze=False, sparse=True) for name, table in tables.items()}
        self.adam = torch.optim.SparseAdam([table.weight for table in self.tables.values()], **options)

    def __call__(self, batch):
        return {name: table(batch[name].n_id) for name, table in self.tables.items()}

    def step(self, lr):
        self.adam.param_groups[0]["lr"] = lr
        self.adam.step()
        self.adam.zero_grad()


def train(loader, embedding, steps, start=0, layers=None):
    """Losses of some steps, with a learning rate that changes."""
    conv, last = layers or model()
    dense = torch.optim.SGD([*conv.parameters(), *last.parameters()], lr=0.001)
    losses = []
    while len(losses) < steps:
        for batch in loader:
            loss = loss_of((conv, last), batch, embedding(batch))
            dense.zero_grad()
            loss.backward()
            dense.step()
            embedding.step(0.05 / (1 + (start + len(losses)) % 3))
            losses.append(loss.item())
            if len(losses) == steps:
                break
    return losses


@pytest.mark.parametrize("options", [{}, {"betas": (0.8, 0.95), "eps": 1e-3}], ids=["defaults", "options"])
@pytest.mark.parametrize("seeds", ["split", "repeated"])
def test_steps_equal_torchs_sparse_adam_bit_for_bit(typed, options, seeds):
    # Each seed given twice has rows of its own, whose gradients are added.
    given = None if seeds == "split" else {"author": [3, 3, 5, 17, 5, 3], "paper": [1, 2, 2, 9, 9, 9, 30, 31]}
    embedding = uvatrain.Embedding(typed, WIDTH, TYPES, seed=5, **options)
    begun = {name: embedding[name].clone() for name in TYPES}
    torchs, losses = Torchs(begun, **options), []
    for table in (embedding, torchs):
        with uvatrain.Loader(typed, input_nodes=given, **OPTIONS) as loader:
            losses.append(train(loader, table, 50))
    assert losses[0] == losses[1] and len(losses[0]) == 50
    for name, table in torchs.tables.items():
        assert torch.equal(embedding[name], table.weight)
        assert not torch.equal(embedding[name], begun[name])
        state = torchs.adam.state[table.weight]
        assert torch.equal(embedding.state_dict()[f"{name}.exp_avg"], state["exp_avg"])
        assert torch.equal(embedding.state_dict()[f"{name}.exp_avg_sq"], state["exp_avg_sq"])


def test_batches_before_a_step_add_up_and_other_rows_keep_their_bits(typed):
    embedding = uvatrain.Embedding(typed, WIDTH, TYPES)
    torchs, layers = Torchs({name: embedding[name] for name in TYPES}), model()
    begun, seen = embedding["author"].clone(), set()
    with uvatrain.Loader(typed, **{**OPTIONS, "batch_size": 2, "fanouts": (1,)}) as loader:
        for number, batch in enumerate(loader):
            seen.update(batch["author"].n_id.tolist())
            for table in (embedding, torchs):
                loss_of(layers, batch, table(batch)).backward()
            if number == 2:
                break
    embedding.step(0.1)
    torchs.step(0.1)
    others = sorted(set(range(NODES["author"])) - seen)
    assert torch.equal(embedding["author"], torchs.tables["author"].weight)
    assert others and torch.equal(embedding["author"][others], begun[others])


def test_rows_without_a_gradient_are_not_stepped_but_the_step_counts(typed):
    embedding = uvatrain.Embedding(typed, WIDTH)
    assert embedding.types == ["author"] and embedding["author"].shape == (NODES["author"], WIDTH)
    begun = embedding["author"].clone()
    with uvatrain.Loader(typed, **OPTIONS) as loader:
        batch = next(iter(loader))
        with torch.no_grad():
            assert not embedding(batch)["author"].requires_grad
        rows = embedding(batch)["author"]
        assert rows.is_leaf and rows.requires_grad and torch.equal(rows, begun[batch["author"].n_id])
        embedding.step(0.1)
        rows = embedding(batch)["author"]
        rows.sum().backward()
        embedding.zero_grad()
        embedding.step(0.1)
        assert embedding.state_dict()["steps"] == 2 and torch.equal(embedding["author"], begun)
        # The table is the one that batches read.
        embedding["author"].fill_(2)
        assert bool((embedding(batch)["author"] == 2).all())


def test_a_loop_resumed_from_a_state_has_equal_losses(typed, tmp_path):
    with uvatrain.Loader(typed, **OPTIONS) as loader:
        whole = train(loader, uvatrain.Embedding(typed, WIDTH, TYPES), 20)
    layers = model()
    with uvatrain.Loader(typed, **OPTIONS) as loader:
        one, half = uvatrain.Embedding(typed, WIDTH, TYPES), len(loader) * 2
        first = train(loader, one, half, layers=layers)
        torch.save(one.state_dict(), tmp_path / "state.pt")
        other = uvatrain.Embedding(typed, WIDTH, TYPES, seed=9)
        other.load_state_dict(torch.load(tmp_path / "state.pt"))
        assert first + train(loader, other, 20 - half, start=half, layers=layers) == whole


def test_first_rows_are_those_of_the_seed_the_type_and_the_original_id(typed, tmp_path):
    embedding = uvatrain.Embedding(typed, WIDTH, TYPES, seed=11)
    with numpy.errstate(over="ignore"):
        for name in TYPES:
            key = mix(numpy.uint64(11) + numpy.uint64(1 << 63)) + numpy.uint64(list(NODES).index(name) << 40)
            keys = mix(key + numpy.arange(NODES[name], dtype=numpy.uint64))[:, None]
            drawn = (mix(keys + numpy.arange(WIDTH, dtype=numpy.uint64)) >> numpy.uint64(40)) / 2.0**24
            expected = (2 * drawn - 1) * numpy.sqrt(6 / (NODES[name] + WIDTH))
            assert numpy.allclose(embedding[name].numpy(), expected, rtol=1e-6, atol=0)
    assert not torch.equal(uvatrain.Embedding(typed, WIDTH, seed=12)["author"], embedding["author"])
    copy = shutil.copytree(typed, tmp_path / "graph")
    order = numpy.random.default_rng(0).permutation(NODES["author"])
    numpy.save(copy / "nodes/author/orig_id.npy", order)
    assert torch.equal(uvatrain.Embedding(copy, WIDTH, seed=11)["author"], embedding["author"][order])


def test_what_tables_cannot_be_made_of_is_refused_by_name(typed, tmp_path):
    for wrong, said in [
        ({"types": ["authr"]}, "no node type 'authr': expected some of paper, author, topic"),
        ({"types": []}, r"types=\[\]: expected some of paper"),
        ({"dim": 0}, "dim=0: at least 1"),
        ({"seed": -1}, "seed=-1"),
        ({"betas": (0.9, 1.0)}, r"betas=\(0.9, 1.0\)"),
    ]:
        with pytest.raises(ValueError, match=said):
            uvatrain.Embedding(typed, **{"dim": 4, **wrong})
    with pytest.raises(TypeError, match=r"a list of node types is needed: \['author'\]"):
        uvatrain.Embedding(typed, 4, "author")
    copy = shutil.copytree(typed, tmp_path / "graph")
    numpy.save(copy / "nodes/author/feat.npy", numpy.ones((NODES["author"], 2), numpy.float32))
    with pytest.raises(ValueError, match="every node type has features"):
        uvatrain.Embedding(copy, 4)
    embedding = uvatrain.Embedding(typed, 4)
    with pytest.raises(KeyError, match="'paper': expected one of author"):
        embedding["paper"]
    with pytest.raises(ValueError, match="lr=-1"):
        embedding.step(-1)
    state = embedding.state_dict()
    for wrong, said in [
        ({key: value for key, value in state.items() if key != "author.exp_avg"}, "'author.exp_avg' is missing"),
        ({**state, "topic.weight": state["author.weight"]}, "'topic.weight' is not a key of these tables"),
        ({**state, "author.weight": torch.ones(3, 4)}, r"'author.weight' is \[3, 4\], the table \[40, 4\]"),
    ]:
        with pytest.raises(ValueError, match=said):
            embedding.load_state_dict(wrong)


def test_the_loops_refuse_ids_and_arrays_that_do_not_fit():
    table = torch.ones(3, 2)
    for wrong, said in [
        ({"ids": torch.tensor([0, 3])}, "ids: id 3 at position 1 is outside of the 3 rows"),
        ({"ids": torch.tensor([0, 2]).int()}, "ids is int32"),
        ({"out": torch.empty(3, 2)}, "rows: 6 elements, but 4 are required"),
        ({"out": table[1:]}, "out shares memory with rows"),
    ]:
        with pytest.raises(ValueError, match=said):
            _core.table_rows(**{"rows": table, "ids": torch.tensor([0, 2]), "out": torch.empty(2, 2), **wrong})
    with pytest.raises(ValueError, match="rows: 2 elements, but 3 are required"):
        _core.write_initial_rows(table, 1, 0, torch.tensor([1, 2]))
    with pytest.raises(ValueError, match="ids: id -1 at position 0"):
        _core.table_rows(table, torch.tensor([-1]), torch.empty(1, 2))
    with pytest.raises(MemoryError, match="rows of 4 values"):
        _core.zero_table(1 << 62, 4)
