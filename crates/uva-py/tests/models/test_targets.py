"""Targets that are not classes: batches without labels, and numbers to predict."""

import json

import numpy as np
import pytest
import torch
from test_models import Trained, close

import uvatrain
from graphs import Tables, hashes

pytestmark = pytest.mark.filterwarnings("ignore::uvatrain.UvatrainWarning")

LOADER = dict(fanouts=[4, 3], batch_size=64, expand="new", edge_ids=True)


def arrays_of(graph, **changed):
    tables = Tables(graph)
    splits = {f"{name}_idx": ids for name, ids in tables.splits.items()}
    arrays = dict(indptr=tables.indptr, indices=tables.indices, features=tables.features, **splits)
    return {**arrays, **changed}


def in_memory(graph, labels, **others):
    """The graph as PyG's Data, with these labels."""
    from torch_geometric.data import Data

    tables = Tables(graph)
    sinks = np.repeat(np.arange(600), np.diff(tables.indptr))
    mask = torch.zeros(600, dtype=torch.bool)
    mask[tables.splits["train"]] = True
    edges = torch.from_numpy(np.stack([tables.indices, sinks]).astype(np.int64))
    return Data(x=torch.from_numpy(tables.features), edge_index=edges, y=labels, train_mask=mask, **others)


def test_batches_without_labels_have_none_and_are_otherwise_the_same(graph, tmp_path):
    pytest.importorskip("torch_geometric")
    dataset = uvatrain.write_dataset(tmp_path / "a", **arrays_of(graph))
    assert dataset.labels is None and not (tmp_path / "a/label.npy").exists()
    assert (dataset.num_classes, dataset.num_targets, dataset.multi_label) == (0, None, False)
    with uvatrain.Loader(graph, **LOADER) as loader:
        expected = hashes(loader)
    with uvatrain.Loader(dataset, **LOADER) as loader:
        assert hashes(loader) == expected
        for batch in loader:
            assert batch.y is None and "y" not in batch.to_pyg()
            assert batch.to_graphbolt().labels is None
            for name in ("y", "labels"):
                with pytest.raises(ValueError, match="the dataset has no labels"):
                    batch.array(name)
    # Of a Data, too, and through the drop-in classes.
    data = in_memory(graph, None)
    with uvatrain.Loader(data, fanouts=[3], batch_size=50) as loader:
        assert all(batch.y is None for batch in loader) and loader.dataset.labels is None
    with uvatrain.Loader(arrays_of(graph), fanouts=[3], batch_size=50) as loader:
        assert all(batch.y is None for batch in loader)
    from uvatrain.pyg import FeatureStore, NeighborLoader

    store = FeatureStore(dataset)
    assert [attr.attr_name for attr in store.get_all_tensor_attrs()] == ["x"]
    assert "y" not in next(iter(NeighborLoader(dataset, num_neighbors=[3], input_nodes=torch.arange(9))))


@pytest.mark.parametrize("columns", [None, 1, 3])
def test_numbers_reach_every_form_of_a_batch_in_their_own_shape(graph, tmp_path, columns):
    pytest.importorskip("torch_geometric")
    shape = (600,) if columns is None else (600, columns)
    targets = np.random.default_rng(3).normal(size=shape)
    with pytest.warns(uvatrain.UvatrainWarning, match="labels is float64"):
        dataset = uvatrain.write_dataset(tmp_path / "a", **arrays_of(graph, labels=targets))
    whole = torch.from_numpy(targets.astype(np.float32))
    assert torch.equal(dataset.labels, whole) and dataset.num_targets == (columns or 1)
    assert dataset.num_classes == 0 and "targets" in repr(dataset)
    with uvatrain.Loader(graph, **LOADER) as loader:
        expected = hashes(loader)
    with uvatrain.Loader(dataset, **LOADER) as loader:
        # Neither targets nor labels are in a batch's hash.
        assert hashes(loader) == expected
        for batch in loader:
            wanted = whole[batch.seeds]
            assert torch.equal(batch.y, wanted) and batch.y.dtype == torch.float32
            assert torch.equal(batch.to_pyg().y, wanted)
            assert torch.equal(batch.to_graphbolt().labels, wanted)
            assert np.array_equal(np.from_dlpack(batch.array("labels")), wanted.numpy())
    made = uvatrain.from_pyg(in_memory(graph, whole), tmp_path / "b")
    assert torch.equal(made.labels, whole)
    with uvatrain.Loader(in_memory(graph, whole), fanouts=[3], batch_size=50) as loader:
        assert all(torch.equal(batch.y, whole[batch.seeds]) for batch in loader)
    from uvatrain.pyg import FeatureStore

    ids = torch.tensor([5, 599, 5])
    assert torch.equal(FeatureStore(dataset).get_tensor(None, "y", ids), whole[ids])


def test_whole_numbers_are_classes_unless_declared_as_targets(graph, tmp_path):
    pytest.importorskip("torch_geometric")
    counts = torch.from_numpy(Tables(graph).labels).clamp(min=0).float()
    data = in_memory(graph, counts)
    assert uvatrain.from_pyg(data, tmp_path / "a").labels.dtype == torch.int64
    made = uvatrain.from_pyg(data, tmp_path / "b", regression=True)
    assert torch.equal(made.labels, counts)
    data.y = counts + 0.5
    data.y[7] = torch.nan
    with pytest.raises(ValueError, match=r"label\.npy: the target of node 7, column 0, .* is NaN"):
        uvatrain.from_pyg(data, tmp_path / "c")
    with pytest.raises(ValueError, match="not whole"):
        uvatrain.from_pyg(data, tmp_path / "c", regression=False)
    assert not (tmp_path / "c").exists()


@pytest.fixture(scope="module")
def numbers(tmp_path_factory, uvatrain_program):
    """A graph with two numbers a node that its neighbourhood determines, and the checkpoints of its models."""
    trained = Trained(tmp_path_factory.mktemp("targets"), uvatrain_program)
    degrees = trained.indptr.diff().clamp(min=1)[:, None]
    sums = torch.zeros(900, 1).index_add(0, trained.edge_index[1], trained.x[trained.edge_index[0], :1])
    trained.y = torch.cat([sums / degrees, trained.x[:, 1:2] - trained.x[:, 2:3]], 1)
    np.save(trained.folder / "graph/label.npy", trained.y.numpy())
    (trained.folder / "graph/meta.json").write_text("{}")
    return trained


@pytest.mark.parametrize("loss", ["mse", "mae"])
@pytest.mark.parametrize("model", ["sage", "gat --heads 2", "gin --residual"])
def test_a_regression_model_predicts_as_its_module_with_torchs_errors(numbers, loss, model):
    name = f"{loss}-{model.split()[0]}"
    numbers.train(name, f"--loss {loss} --model {model}")
    numbers.run(f"predict graph --checkpoint {name} --embeddings h.npy --output c.npy --overwrite")
    module = uvatrain.load_model(numbers.folder / name)
    assert (module.options["targets"], module.options["loss"]) == (2, loss)
    with torch.no_grad():
        found = module(numbers.x, numbers.edge_index)
    predicted = torch.from_numpy(numbers.load("c"))
    assert predicted.dtype == torch.float32 and predicted.shape == (900, 2)
    close(found, predicted)
    said = json.loads(numbers.run(f"evaluate graph --checkpoint {name} --json"))
    for split in ("train", "valid", "test"):
        ids = torch.from_numpy(numbers.load(f"graph/{split}_idx"))
        for error, of_torch in (("mse", torch.nn.functional.mse_loss), ("mae", torch.nn.functional.l1_loss)):
            expected = float(of_torch(found[ids], numbers.y[ids]))
            assert said[split][error] == pytest.approx(expected, rel=1e-4)
        assert said[split]["loss"] == said[split][loss] and said[split]["accuracy"] is None


@pytest.mark.parametrize("loss", ["mse", "mae"])
def test_a_step_has_the_loss_and_the_gradients_that_torch_has(numbers, loss):
    """Two steps of all nodes and neighbours: the second one's loss, and what Adam makes of its gradients."""
    everything = "--fanouts -1,-1 --slot-bytes 16MiB --batch-size 900 --dropout 0 --lr 0.01 --hidden 8 --seed 4 --keep last"
    for epochs in (1, 2):
        numbers.run(
            f"train graph {everything} --epochs {epochs} --loss {loss} --checkpoint step-{loss} --metrics step.jsonl "
            f"{'--resume' if epochs > 1 else ''}"
        )
        if epochs == 1:
            module = uvatrain.load_model(numbers.folder / f"step-{loss}")
            state = uvatrain.models.load_tensors(next((numbers.folder / f"step-{loss}").glob("*.safetensors")))
            first, second = ({k.removeprefix(p): v for k, v in state.items() if k.startswith(p)}
                             for p in ("adam.first.", "adam.second."))
    told = [json.loads(line) for line in (numbers.folder / "step.jsonl").read_text().splitlines()]
    of_second = [line["loss"] for line in told if line["event"] == "batch"][-1]
    ids = torch.from_numpy(numbers.load("graph/train_idx"))
    of_torch = {"mse": torch.nn.functional.mse_loss, "mae": torch.nn.functional.l1_loss}[loss]
    value = of_torch(module(numbers.x, numbers.edge_index)[ids], numbers.y[ids])
    assert of_second == pytest.approx(float(value.detach()), rel=1e-5)
    value.backward()
    after = dict(uvatrain.load_model(numbers.folder / f"step-{loss}").named_parameters())
    for name, parameter in module.named_parameters():
        # Adam's second step by hand.
        gradient = parameter.grad
        mean = (0.9 * first[name] + 0.1 * gradient) / (1 - 0.9**2)
        square = (0.999 * second[name] + 0.001 * gradient**2) / (1 - 0.999**2)
        expected = parameter - 0.01 * mean / (square.sqrt() + 1e-8)
        assert (after[name] - expected).abs().max() < 1e-5, name


def test_custom_layers_infer_a_dataset_without_labels(graph, tmp_path):
    dataset = uvatrain.write_dataset(tmp_path / "a", **arrays_of(graph))
    means = lambda layer, batch: layer(batch.x[: batch.num_seeds].float())  # noqa: E731
    layers = [torch.nn.Linear(5, 4), torch.nn.Linear(4, 2)]
    with torch.no_grad():
        found = uvatrain.infer(layers, dataset, call=means)
        expected = layers[1](layers[0](torch.from_numpy(Tables(graph).features).float()))
    assert torch.allclose(found, expected, atol=1e-4)
