"""Models of typed graphs in PyTorch: the module says what `predict` says, and its state is that of PyG's modules."""

import json
import os
import subprocess

import numpy as np
import pytest
import torch
from conftest import WATCHDOG

import uvatrain

#: Options of `train`.
MODELS = {
    "relation": "--model rsage",
    "type-mean": "--model rsage --root type --relation-sum mean",
    "none": "--model rsage --root none",
    "rgcn": "--model rgcn",
    "rgcn-shared": "--model rgcn --root shared",
    "rgcn-bases": "--model rgcn --bases 2",
    "rgcn-blocks": "--model rgcn --blocks 2 --root shared",
    "rgat": "--model rgat",
    "hgt": "--model hgt --heads 2",
}


#: Options of `predict`: all nodes layer by layer, and batches that take all neighbours.
WAYS = "--eval full", "--eval sampled --slot-bytes 64MiB"


class Trained:
    """A folder with a typed graph and checkpoints of models that take all neighbours."""

    def __init__(self, folder, program, write=None):
        self.folder, self.program = folder, program
        if write is None:
            self.run("generate graph --kind typed --nodes 400 --avg-degree 8 --feat-dim 6 --classes 6 --seed 3")
        else:
            write(folder / "graph")
        self.dataset = uvatrain.TypedDataset(folder / "graph")
        types = self.dataset.node_types
        self.x = {name: torch.from_numpy(np.load(folder / f"graph/nodes/{name}/feat.npy")) for name in types}
        self.edge_index = {}
        for names in self.dataset.edge_types:
            directory = folder / "graph/edges" / "__".join(names)
            indptr, indices = (torch.from_numpy(np.load(directory / f"{array}.npy")) for array in ("indptr", "indices"))
            targets = torch.repeat_interleave(torch.arange(len(indptr) - 1), indptr.diff())
            self.edge_index[names] = torch.stack([indices.long(), targets])

    def run(self, line):
        environment = {**os.environ, "XDG_CACHE_HOME": str(self.folder / "cache")}
        ended = subprocess.run(
            [self.program, *line.split()],
            capture_output=True,
            text=True,
            timeout=WATCHDOG,
            cwd=self.folder,
            env=environment,
        )
        if ended.returncode == 3:
            pytest.skip(ended.stderr)
        assert ended.returncode == 0, ended.stdout + ended.stderr
        return ended.stdout

    def model(self, name):
        if not (self.folder / name).exists():
            self.run(
                f"train graph --fanouts=-1,-1 --batch-size 50 --slot-bytes 64MiB --hidden 8 --epochs 2 --lr 0.02 "
                f"--dropout 0.1 --checkpoint {name} {MODELS[name]}"
            )
        return uvatrain.load_model(self.folder / name)


@pytest.fixture(scope="module")
def trained(tmp_path_factory, uvatrain_program):
    return Trained(tmp_path_factory.mktemp("relations"), uvatrain_program)


def write_uneven(folder):
    """Types of different widths, and one into which no relation leads."""
    random = np.random.default_rng(5)
    counts = {"paper": 60, "author": 40, "tag": 9}
    names = ("paper", "cites", "paper"), ("author", "writes", "paper"), ("tag", "of", "paper"), ("paper", "by", "author")
    rows = {of: random.normal(size=(count, 3 + len(of))).astype("f4") for of, count in counts.items()}
    nodes = {of: {"features": rows[of]} for of in counts}
    nodes["paper"] |= {"labels": random.integers(0, 4, 60), "train_idx": np.arange(40), "valid_idx": np.arange(40, 60)}
    edges = {of: np.stack([random.integers(0, counts[end], 200) for end in (of[0], of[2])]) for of in names}
    uvatrain.write_dataset(folder, nodes=nodes, edges=edges, target="paper")


@pytest.mark.parametrize("name", ["relation", "rgcn", "rgcn-bases", "rgat", "hgt"])
def test_types_of_different_widths_have_maps_as_in_predict(tmp_path, uvatrain_program, name):
    uneven = Trained(tmp_path, uvatrain_program, write_uneven)
    model = uneven.model(name)
    maps = {parameter.split(".")[0] for parameter in model.state_dict()} - {"convs", "lin"}
    assert maps == ({"lin_dict"} if name == "hgt" else {"input"} if name.startswith("rgcn") else set())
    with torch.no_grad():
        logits = model(uneven.x, uneven.edge_index)
    for way in WAYS:
        uneven.run(f"predict graph --checkpoint {name} {way} --overwrite --output c.npy --probabilities p.npy")
        close(logits.softmax(1), torch.from_numpy(np.load(tmp_path / "p.npy")))


def close(found, expected):
    assert found.shape == expected.shape
    assert (found - expected).abs().max() <= 1e-5 * expected.abs().max().clamp(min=1)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", MODELS)
def test_a_typed_checkpoint_in_torch_says_what_predict_says(trained, name, way):
    model = trained.model(name)
    line = f"predict graph --checkpoint {name} {way} --overwrite --json"
    said = json.loads(trained.run(f"{line} --output c.npy --probabilities p.npy"))
    classes, shares = (torch.from_numpy(np.load(trained.folder / f"{file}.npy")) for file in ("c", "p"))
    assert (model.metadata["kept"], model.metadata["epoch"], said["rows"]) == (said["kept"], said["epoch"], 400)
    with torch.no_grad():
        logits = model(trained.x, trained.edge_index)
        close(logits.softmax(1), shares)
        close(model(trained.x, [trained.edge_index] * 2), logits)
    assert torch.equal(logits.argmax(1), classes)
    for batch in uvatrain.Loader(trained.folder / "graph", fanouts=[-1, -1], batch_size=100, slot_bytes=64 << 20):
        with torch.no_grad():
            close(model(batch.x_dict, batch.blocks), logits[batch["item"].seeds])


# The targets of a layer have the relations that the target of the model depends on, as a line of PyG says.
@pytest.mark.filterwarnings("ignore:There exist node types")
def test_the_state_of_a_typed_model_is_that_of_pyg(trained):
    nn = pytest.importorskip("torch_geometric.nn")
    model = trained.model("relation")
    convs = torch.nn.ModuleList()
    for relations, width in zip(model.relations, (8, 6), strict=True):
        convs.append(nn.HeteroConv({of: nn.SAGEConv((-1, -1), width) for of in relations}, aggr="sum"))
    convs.load_state_dict({name.removeprefix("convs."): value for name, value in model.state_dict().items()})
    x = trained.x
    with torch.no_grad():
        for number, conv in enumerate(convs):
            x = conv(x, {of: trained.edge_index[of] for of in model.relations[number]})
            x = {of: rows.relu() for of, rows in x.items()} if number + 1 < len(convs) else x
        close(x["item"], model(trained.x, trained.edge_index))


@pytest.mark.filterwarnings("ignore:There exist node types")
def test_the_state_of_rgat_is_that_of_pyg(trained):
    nn = pytest.importorskip("torch_geometric.nn")
    model = trained.model("rgat")
    whole = torch.nn.Module()
    whole.convs, whole.lin = torch.nn.ModuleList(), torch.nn.Linear(8, 6)
    for relations, width in zip(model.relations, (6, 8), strict=True):
        parts = {of: nn.GATConv(width, 2, heads=4, add_self_loops=False) for of in relations}
        whole.convs.append(nn.HeteroConv(parts))
    whole.load_state_dict(model.state_dict())
    x = trained.x
    with torch.no_grad():
        for number, conv in enumerate(whole.convs):
            x = conv(x, {of: trained.edge_index[of] for of in model.relations[number]})
            x = {of: torch.nn.functional.leaky_relu(rows) for of, rows in x.items()} if number == 0 else x
        close(whole.lin(x["item"]), model(trained.x, trained.edge_index))


def test_the_state_of_hgt_is_that_of_pyg_and_back(trained):
    nn = pytest.importorskip("torch_geometric.nn")
    model = trained.model("hgt")
    whole = torch.nn.Module()
    types = sorted({end for relations in model.relations for of in relations for end in (of[0], of[2])})
    whole.lin_dict = torch.nn.ModuleDict({of: torch.nn.Linear(6, 8) for of in types})
    whole.convs, whole.lin = torch.nn.ModuleList(), torch.nn.Linear(8, 6)
    for relations in model.relations:
        ends = sorted({end for of in relations for end in (of[0], of[2])})
        whole.convs.append(nn.HGTConv(dict.fromkeys(ends, 8), 8, (ends, relations), heads=2))
    for number, relations in enumerate(model.relations):
        # Other values than those that all of them begin with.
        for of in relations:
            model.convs[number].p_rel._parameters["__".join(of)].data.uniform_(0.5, 1.5)
    whole.load_state_dict(model.state_dict())
    with torch.no_grad():
        x = {of: whole.lin_dict[of](trained.x[of]).relu() for of in types}
        for number, conv in enumerate(whole.convs):
            x = conv(x, {of: trained.edge_index[of] for of in model.relations[number]})
        expected = whole.lin(x["item"])
        close(model(trained.x, trained.edge_index), expected)
        # From PyG into a model of its own values.
        for parameter in whole.parameters():
            parameter.mul_(1.5)
        model.load_state_dict(whole.state_dict())
        x = {of: whole.lin_dict[of](trained.x[of]).relu() for of in types}
        for number, conv in enumerate(whole.convs):
            x = conv(x, {of: trained.edge_index[of] for of in model.relations[number]})
        close(model(trained.x, trained.edge_index), whole.lin(x["item"]))
        assert (whole.lin(x["item"]) - expected).abs().max() > 1e-2


# RGCNConv has one numbering for the nodes of all types.
@pytest.mark.parametrize("name", ["rgcn-shared", "rgcn-blocks"])
def test_the_state_of_rgcn_is_that_of_pyg(trained, name):
    nn = pytest.importorskip("torch_geometric.nn")
    model = trained.model(name)
    blocks = 2 if name == "rgcn-blocks" else None
    numbers = zip((6, 8), (8, 6), model.relations, strict=True)
    convs = torch.nn.ModuleList(nn.RGCNConv(*widths, len(of), num_blocks=blocks) for *widths, of in numbers)
    convs.load_state_dict({name.removeprefix("convs."): value for name, value in model.state_dict().items()})
    first, rows = {}, 0
    for of_type in trained.dataset.node_types:
        first[of_type], rows = rows, rows + len(trained.x[of_type])
    x = torch.cat([trained.x[of_type] for of_type in trained.dataset.node_types])
    for number, (conv, relations) in enumerate(zip(convs, model.relations, strict=True)):
        edges = [trained.edge_index[of] + torch.tensor([[first[of[0]]], [first[of[2]]]]) for of in relations]
        kinds = torch.repeat_interleave(torch.arange(len(edges)), torch.tensor([of.shape[1] for of in edges]))
        with torch.no_grad():
            x = conv(x, torch.cat(edges, 1), kinds)
        x = x.relu() if number + 1 < len(convs) else x
    with torch.no_grad():
        logits = model(trained.x, trained.edge_index)
    close(x[first["item"] :][: len(logits)], logits)


def test_rows_and_edges_that_a_typed_model_reads_are_named_where_missing(trained):
    model = trained.model("relation")
    with pytest.raises(ValueError, match="x has no rows of user"):
        model({of: rows for of, rows in trained.x.items() if of != "user"}, trained.edge_index)
    with pytest.raises(ValueError, match="edge_index has no tag__has__item"):
        model(trained.x, {of: edges for of, edges in trained.edge_index.items() if of[1] != "has"})
    with pytest.raises(ValueError, match="1 layers: 2 are needed"):
        model(trained.x, [trained.edge_index])


LINE = (
    "train bare --model rsage --fanouts=-1,-1 --slot-bytes 64MiB --batch-size 40 --dropout 0 --hidden 8 --embedding-dim 5 "
    "--keep last"
)
ALL = {"fanouts": [-1, -1], "batch_size": 40, "slot_bytes": 64 << 20}


@pytest.fixture(scope="module")
def tables(trained):
    """A graph whose users have no features, and checkpoints of a model before and after training."""
    trained.run("generate bare --kind typed --nodes 400 --avg-degree 8 --feat-dim 6 --classes 6 --seed 3 --featureless")
    trained.run(f"{LINE} --epochs 1 --lr 1e-30 --checkpoint begun")
    trained.run(f"{LINE} --epochs 13 --lr 0.01 --checkpoint ended")
    return trained


@pytest.mark.parametrize("way", WAYS)
def test_trained_rows_in_torch_say_what_predict_says(tables, way):
    tables.run(f"predict bare --checkpoint ended {way} --overwrite --probabilities p.npy")
    model = uvatrain.load_model(tables.folder / "ended")
    assert list(model.embeddings) == ["user"] and not any("embedding" in name for name in model.state_dict())
    assert model.embeddings["user"].shape[1] == 5
    shares = torch.from_numpy(np.load(tables.folder / "p.npy"))
    with torch.no_grad():
        for batch in uvatrain.Loader(tables.folder / "bare", **ALL):
            close(model(model.inputs(batch), batch.blocks).softmax(1), shares[batch["item"].seeds])


def test_training_of_tables_equals_torchs_sparse_adam_within_rounding(tables):
    model, ended = (uvatrain.load_model(tables.folder / name) for name in ("begun", "ended"))
    table = torch.nn.Embedding.from_pretrained(model.embeddings["user"].clone(), freeze=False, sparse=True)
    adam = torch.optim.Adam(model.parameters(), lr=0.01)
    sparse = torch.optim.SparseAdam(table.parameters(), lr=0.01)
    loader = uvatrain.Loader(tables.folder / "bare", **ALL)
    steps = 0
    for _ in range(13):
        for batch in loader:
            rows = {**batch.x_dict, "user": table(batch["user"].n_id.long())}
            loss = torch.nn.functional.cross_entropy(model(rows, batch.blocks), batch["item"].y)
            adam.zero_grad()
            sparse.zero_grad()
            loss.backward()
            adam.step()
            sparse.step()
            steps += 1
    assert steps >= 50
    found, begun = ended.embeddings["user"], model.embeddings["user"]
    assert (found - table.weight).abs().max() < 1e-4 < (found - begun).abs().max()
    for name, value in ended.state_dict().items():
        assert (value - model.state_dict()[name]).abs().max() < 1e-4, name
