"""Checkpoints in PyTorch: the module says what `uvatrain predict` says, and so do PyG's layers with its weights."""

import json
import os
import subprocess

import numpy as np
import pytest
import torch
from conftest import WATCHDOG

import uvatrain
from uvatrain.models import load_tensors
from uvatrain.models.model import _Edges

#: Options of `train` for each model, with everything that a module has to do too.
MODELS = {
    "sage": "--model sage",
    "gcn": "--model gcn --norm layer",
    "gat": "--model gat --heads 2 --output-heads 3",
    "gin": "--model gin --feature-norm row",
    "deep-sage": "--model sage --residual --norm layer --dropout 0.1 --input-dropout 0.1",
    "deep-gat": "--model gat --residual --heads 4 --attention-dropout 0.2",
    "deep-gcn": "--model gcn --residual",
    "deep-gin": "--model gin --residual --norm layer",
    "gine": "--model gine --norm layer",
    "deep-gine": "--model gine --residual --norm layer",
    "edge-gat": "--model gat --edge-attr --heads 2 --output-heads 3",
    "deep-edge-gat": "--model gat --edge-attr --residual --heads 4",
}
FANOUTS = (5, 4)


class Trained:
    """A folder with a graph and the checkpoints of some models of it."""

    def __init__(self, folder, program):
        self.folder, self.program, self.graph = folder, program, folder / "graph"
        self.run("generate graph --nodes 900 --avg-degree 8 --feat-dim 12 --classes 5 --seed 2")
        edges = self.load("graph/indices").size
        rows = np.random.default_rng(5).standard_normal((edges, 3), np.float32)
        np.save(self.graph / "edge_feat.npy", rows)
        self.edge_attr = torch.from_numpy(rows)
        self.indptr, self.indices = (torch.from_numpy(self.load(f"graph/{name}")) for name in ("indptr", "indices"))
        self.x = torch.from_numpy(self.load("graph/feat"))
        targets = torch.repeat_interleave(torch.arange(len(self.x)), self.indptr.diff())
        self.edge_index = torch.stack([self.indices.long(), targets])

    def load(self, name):
        return np.load(self.folder / f"{name}.npy")

    def run(self, line):
        command = [self.program, *line.split()]
        environment = {**os.environ, "XDG_CACHE_HOME": str(self.folder / "cache")}
        # What the tests' Python has set for itself must not lead to its libraries.
        ended = subprocess.run(
            command, capture_output=True, text=True, timeout=WATCHDOG, cwd=self.folder, env=environment
        )
        if ended.returncode == 3:
            pytest.skip(ended.stderr)
        assert ended.returncode == 0, ended.stdout + ended.stderr
        return ended.stdout

    def train(self, name, options, graph="graph"):
        if not (self.folder / name).exists():
            fanouts = ",".join(map(str, FANOUTS))
            self.run(
                f"train {graph} --fanouts {fanouts} --batch-size 100 --hidden 16 --epochs 2 --lr 0.02 --seed 6 "
                f"--checkpoint {name} {options}"
            )
        return self.folder / name

    def predict(self, name, options="", graph="graph"):
        files = "--probabilities p.npy --embeddings h.npy --output c.npy"
        said = self.run(f"predict {graph} --checkpoint {name} {files} --overwrite --json {options}")
        answers = [torch.from_numpy(self.load(file)) for file in ("c", "p", "h")]
        return [json.loads(said), *answers]


@pytest.fixture(scope="module")
def trained(tmp_path_factory, uvatrain_program):
    return Trained(tmp_path_factory.mktemp("models"), uvatrain_program)


def close(found, expected):
    # Of the largest value: small ones are differences of large ones.
    assert found.shape == expected.shape
    assert (found - expected).abs().max() <= 1e-5 * expected.abs().max().clamp(min=1)


@pytest.mark.parametrize("name", MODELS)
def test_a_checkpoint_in_torch_says_what_predict_says(trained, name):
    model = uvatrain.load_model(trained.train(name, MODELS[name]))
    said, classes, shares, hidden = trained.predict(name)
    assert (model.metadata["kept"], model.metadata["epoch"]) == (said["kept"], said["epoch"])
    with torch.no_grad():
        of_edges = dict(edge_attr=trained.edge_attr)
        logits = model(trained.x, trained.edge_index, **of_edges)
        close(logits.softmax(1), shares)
        close(model(trained.x, trained.edge_index, hidden=said["layer"], **of_edges), hidden)
        # A list of a layer's edges each is the same.
        close(model(trained.x, [trained.edge_index] * 2, edge_attr=[trained.edge_attr] * 2), logits)
        if model.options.get("edge_dim"):
            assert not torch.allclose(model(trained.x, trained.edge_index, edge_attr=-trained.edge_attr), logits)
            with pytest.raises(ValueError, match="edge_attr= is needed"):
                model(trained.x, trained.edge_index)
    assert torch.equal(logits.argmax(1), classes)


@pytest.mark.parametrize(("kind", "operator"), [("sage", "row --layout rows"), ("gcn", "sym")])
def test_a_model_whose_first_layer_was_given_sums_whole_lists_in_torch(trained, kind, operator):
    hop_set, name = f"first-{kind}", f"given-{kind}"
    if not (trained.folder / hop_set).exists():
        trained.run(f"propagate graph {hop_set} --operator {operator} --hops 1 --nodes all --row-order nodes")
    trained.train(name, f"--model {kind} --first-layer {hop_set} --eval full")
    model = uvatrain.load_model(trained.folder / name)
    assert len(model.layers) == len(FANOUTS) + 1 and model.options["input_dim"] == trained.x.shape[1]
    _, classes, shares, _ = trained.predict(name)
    with torch.no_grad():
        logits = model(trained.x, trained.edge_index)
    close(logits.softmax(1), shares)
    assert torch.equal(logits.argmax(1), classes)


@pytest.mark.parametrize("name", MODELS)
def test_batches_of_a_loader_give_what_predict_samples(trained, name):
    model = uvatrain.load_model(trained.train(name, MODELS[name]))
    said, _, shares, hidden = trained.predict(name, "--eval sampled --nodes test")
    degrees = trained.indptr.diff()
    test = torch.from_numpy(trained.load("graph/test_idx"))
    edge_attr = bool(model.options.get("edge_dim"))
    options = dict(fanouts=FANOUTS, batch_size=100, split="test", seed=6, edge_attr=edge_attr)
    rows = {}
    with uvatrain.Loader(trained.graph, **options) as loader, torch.no_grad():
        for batch in loader:
            of_nodes = degrees[batch.input_nodes]
            probabilities = model(batch.x, batch.blocks, degrees=of_nodes).softmax(1)
            behind = model(batch.x, batch.blocks, degrees=of_nodes, hidden=said["layer"])[: batch.num_seeds]
            for seed, *of_seed in zip(batch.seeds.tolist(), probabilities, behind):
                rows[seed] = of_seed
    assert sorted(rows) == sorted(test.tolist())
    close(torch.stack([rows[seed][0] for seed in test.tolist()]), shares)
    close(torch.stack([rows[seed][1] for seed in test.tolist()]), hidden)


def pyg_layers(kind, tensors, options):
    """PyG's layers with the weights of a plain model: the example of docs/guide/checkpoints.md."""
    from torch import nn
    from torch_geometric.nn import GATConv, GCNConv, GINConv, GINEConv, SAGEConv

    layers = []
    for number in range(options["layers"]):
        own = {
            name.removeprefix(f"layers.{number}."): tensor
            for name, tensor in tensors.items()
            if name.startswith(f"layers.{number}.") and ".norm." not in name
        }
        if kind == "sage":
            outputs, inputs = own["own.weight"].shape
            layer = SAGEConv(inputs, outputs)
            names = {"lin_l.weight": "neighbours.weight", "lin_l.bias": "bias", "lin_r.weight": "own.weight"}
        elif kind == "gcn":
            outputs, inputs = own["weight"].shape
            layer = GCNConv(inputs, outputs)
            names = {"lin.weight": "weight", "bias": "bias"}
        elif kind in ("gat", "edge-gat"):
            (heads, width), inputs = own["attention.source"].shape, own["weight"].shape[1]
            of_edges = dict(edge_dim=options["edge_dim"]) if "edge_dim" in options else {}
            layer = GATConv(inputs, width, heads, concat=number + 1 < options["layers"], **of_edges)
            names = {"lin.weight": "weight", "bias": "bias"}
            names |= {"att_src": "attention.source", "att_dst": "attention.destination"}
            if of_edges:
                names |= {"lin_edge.weight": "edge.weight", "att_edge": "attention.edge"}
        else:
            outputs, inputs = own["nn.0.weight"].shape
            perceptron = nn.Sequential(nn.Linear(inputs, outputs), nn.ReLU(), nn.Linear(outputs, outputs))
            layer = GINConv(perceptron, train_eps=True)
            if kind == "gine":
                layer = GINEConv(perceptron, train_eps=True, edge_dim=options["edge_dim"])
            names = {name: name for name in own}
        shaped = {theirs: own[ours].view_as(layer.state_dict()[theirs]) for theirs, ours in names.items()}
        layer.load_state_dict(shaped)
        layers.append(layer.eval())
    return layers


@pytest.mark.parametrize("kind", ["sage", "gcn", "gat", "gin", "gine", "edge-gat"])
def test_layers_of_pyg_with_the_same_weights_say_the_same(trained, kind):
    pytest.importorskip("torch_geometric")
    options = {"gat": "--model gat --heads 2", "edge-gat": "--model gat --heads 2 --edge-attr"}
    folder = trained.train(f"plain-{kind}", options.get(kind, f"--model {kind}"))
    state = json.loads((folder / "checkpoint.json").read_text())
    kept = state["trainer"]["keep"]
    tensors = load_tensors(folder / state["tensors"]["file"])
    tensors = {name.removeprefix("best."): tensor for name, tensor in tensors.items() if name.startswith("best.")}
    assert kept == "best" and tensors
    layers = pyg_layers(kind, tensors, state["trainer"]["model"])
    activate = torch.nn.functional.elu if kind.endswith("gat") else torch.relu
    of_edges = [trained.edge_attr] if kind in ("gine", "edge-gat") else []
    # GCNConv and GATConv count one loop a node, however many there are; this graph has none.
    assert not (trained.edge_index[0] == trained.edge_index[1]).any()
    x = trained.x
    with torch.no_grad():
        for number, layer in enumerate(layers):
            x = layer(activate(x) if number else x, trained.edge_index, *of_edges)
    _, _, shares, _ = trained.predict(f"plain-{kind}")
    close(x.softmax(1), shares)
    with torch.no_grad():
        close(uvatrain.load_model(folder)(trained.x, trained.edge_index, edge_attr=trained.edge_attr), x)

    degrees = trained.indptr.diff()

    def gcn(layer, batch):
        # GCNConv weighs by degrees, and a batch does not have those of its sources.
        layer.normalize = False
        own = torch.arange(batch.num_seeds).expand(2, -1)
        edges, root = torch.cat([batch.edge_index[0], own], 1), (degrees[batch.input_nodes] + 1).rsqrt()
        return layer(batch.x, edges, root[edges[0]] * root[edges[1]])[: batch.num_seeds]

    def with_edges(layer, batch):
        rows = trained.edge_attr[batch.blocks[0].edge_ids]
        return layer(batch.x, batch.edge_index[0], rows)[: batch.num_seeds]

    call = gcn if kind == "gcn" else with_edges if of_edges else None
    inferred = uvatrain.infer(
        layers, trained.graph, activation=activate, call=call, batch_size=100, edge_ids=bool(of_edges)
    )
    close(inferred.softmax(1), shares)


def test_gradients_of_the_layers_are_those_of_pygs(trained):
    pytest.importorskip("torch_geometric")
    for kind, option in [("gine", "--model gine"), ("edge-gat", "--model gat --heads 2 --edge-attr")]:
        folder = trained.train(f"plain-{kind}", option)
        state = json.loads((folder / "checkpoint.json").read_text())
        tensors = load_tensors(folder / state["tensors"]["file"])
        tensors = {name.removeprefix("best."): tensor for name, tensor in tensors.items() if name.startswith("best.")}
        theirs = pyg_layers(kind, tensors, state["trainer"]["model"])[0]
        ours = uvatrain.load_model(folder).layers[0]
        found = []
        for run in (
            lambda x, rows: theirs(x, trained.edge_index, rows),  # noqa: B023
            lambda x, rows: ours(x, _Edges(trained.edge_index, len(x), x, rows), None),  # noqa: B023
        ):
            x, rows = trained.x.clone().requires_grad_(), trained.edge_attr.clone().requires_grad_()
            run(x, rows).sin().sum().backward()
            found.append((x.grad, rows.grad))
        for one, other in zip(*found):
            assert (one - other).abs().max() <= 1e-4 * other.abs().max()


def test_several_labels_a_node_and_the_last_model(trained):
    several = trained.folder / "several"
    if not several.exists():
        subprocess.run(["cp", "-r", trained.graph, several], check=True)
        labels = np.random.default_rng(0).integers(0, 2, (900, 3)).astype(np.uint8)
        np.save(several / "label.npy", labels)
        (several / "meta.json").unlink()
    folder = trained.train("several-kept", "--model sage --keep last", "several")
    model = uvatrain.load_model(folder)
    said, classes, shares, _ = trained.predict("several-kept", graph="several")
    assert said["kept"] == model.metadata["kept"] == "last" and model.metadata["epoch"] == said["epoch"] == 1
    with torch.no_grad():
        logits = model(trained.x, trained.edge_index)
    close(logits.sigmoid(), shares)
    assert torch.equal((logits > 0).to(torch.uint8), classes) and classes.shape == (900, 3)
    best = uvatrain.load_model(folder, keep="best")
    assert best.metadata["kept"] == "best" and best.metadata["epoch"] is not None


def test_a_module_trains_on_and_has_the_checkpoints_names(trained):
    model = uvatrain.load_model(trained.train("sage", MODELS["sage"])).train()
    assert sorted(model.state_dict()) == [
        f"layers.{layer}.{name}" for layer in (0, 1) for name in ("bias", "neighbours.weight", "own.weight")
    ]
    before = [parameter.clone() for parameter in model.parameters()]
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    model(trained.x, trained.edge_index).square().mean().backward()
    optimizer.step()
    assert all(not torch.equal(old, new) for old, new in zip(before, model.parameters()))


def test_invalid_checkpoints_and_inputs_are_refused_by_name(trained, tmp_path):
    folder = trained.train("sage", MODELS["sage"])
    with pytest.raises(FileNotFoundError, match="nowhere: there is no checkpoint"):
        uvatrain.load_model("nowhere")
    with pytest.raises(ValueError, match="keep='first'"):
        uvatrain.load_model(folder, keep="first")
    model = uvatrain.load_model(folder)
    with pytest.raises(ValueError, match=r"x is \[900, 3\]: 12 columns"):
        model(trained.x[:, :3], trained.edge_index)
    with pytest.raises(ValueError, match="1 layers: 2 are needed"):
        model(trained.x, [trained.edge_index])
    with pytest.raises(ValueError, match="hidden=3: the model has layers 1 to 2"):
        model(trained.x, trained.edge_index, hidden=3)
    state = json.loads((folder / "checkpoint.json").read_text())
    damaged = tmp_path / "damaged"
    damaged.mkdir()
    tensors = state["tensors"]["file"]
    content = (folder / tensors).read_bytes()
    (damaged / tensors).write_bytes(content)

    def refuse(match, **changes):
        changed = {**state, **changes}
        (damaged / "checkpoint.json").write_text(json.dumps(changed))
        with pytest.raises(ValueError, match=match):
            uvatrain.load_model(damaged)

    refuse("its version is 2", version=2)

    def of(**changes):
        return {**state["trainer"], "model": {**state["trainer"]["model"], **changes}}

    refuse("unknown variant mlp", trainer=of(model="mlp"))
    refuse("another model", trainer=of(hidden=8))
    # Each of these would allocate memory before a tensor is read.
    for name, numbers in [
        ("layers", (0, 33, 300_000, 2**31)),
        ("hidden", (0, 2**31)),
        ("input_dim", (0, 2**31)),
        ("classes", (0, 2**31)),
        ("output_heads", (0, 2**31)),
    ]:
        for number in numbers:
            refuse(rf"checkpoint\.json cannot be used: trainer\.model: {name}.*{number}|{name}.*not between", trainer=of(**{name: number}))
    refuse(r"trainer\.model: it has \d+ parameters, which take \d+ bytes", trainer=of(hidden=1 << 20))
    (damaged / tensors).write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    refuse("its checksum is")
    (damaged / "checkpoint.json").write_text("[]")
    with pytest.raises(ValueError, match="not a checkpoint's state"):
        uvatrain.load_model(damaged)
