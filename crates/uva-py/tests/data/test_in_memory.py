"""Loaders over what is in memory: the batches are those of the dataset that it would be."""

import gc
import os
import signal
import subprocess
import sys

import numpy as np
import pytest
import torch

import uvatrain
from conftest import WATCHDOG, run_forked_well
from graphs import Tables, hashes

pytest.importorskip("torch_geometric")

from torch_geometric.data import Data, HeteroData  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::uvatrain.UvatrainWarning")


def data_of(graph):
    """A dataset as PyG's Data."""
    tables = Tables(graph)
    targets = np.repeat(np.arange(600), np.diff(tables.indptr))
    mask = torch.zeros(600, dtype=torch.bool)
    mask[tables.splits["train"]] = True
    return Data(
        x=torch.from_numpy(tables.features),
        edge_index=torch.from_numpy(np.stack([tables.indices, targets]).astype(np.int64)),
        y=torch.from_numpy(tables.labels),
        train_mask=mask,
    )


def arrays_of(graph):
    tables = Tables(graph)
    return dict(
        indptr=tables.indptr,
        indices=tables.indices,
        features=tables.features,
        labels=tables.labels,
        train_idx=tables.splits["train"],
        valid_idx=tables.splits["valid"],
        test_idx=tables.splits["test"],
    )


def test_a_loader_of_arrays_makes_the_batches_of_the_equal_dataset(graph, tmp_path):
    data, options = data_of(graph), dict(fanouts=[4, 3], batch_size=64)
    with uvatrain.Loader(uvatrain.from_pyg(data, tmp_path / "written"), **options) as loader:
        expected, length = hashes(loader), len(loader)
    with uvatrain.Loader(data, **options) as loader:
        assert (hashes(loader), len(loader)) == (expected, length)
        assert np.array_equal(loader.dataset.indices, Tables(graph).indices)
    with uvatrain.Loader(graph, **options) as loader:
        expected = hashes(loader)
    for split in ("train", "valid"):
        with (
            uvatrain.Loader(arrays_of(graph), split=split, **options) as ours,
            uvatrain.Loader(graph, split=split, **options) as theirs,
        ):
            assert hashes(ours) == hashes(theirs)


def test_input_nodes_stand_for_the_splits_that_a_data_does_not_have(graph):
    data = data_of(graph)
    del data.train_mask
    with uvatrain.Loader(data, fanouts=[3], batch_size=50, input_nodes=torch.arange(100)) as loader:
        assert torch.cat([batch.seeds.clone() for batch in loader]).tolist() == list(range(100))
    with pytest.raises(ValueError, match="data has neither train_mask nor train_idx"):
        uvatrain.Loader(data, fanouts=[3])
    arrays = arrays_of(graph)
    del arrays["train_idx"]
    with uvatrain.Loader(arrays, fanouts=[3], batch_size=50, input_nodes=[3, 2]) as loader:
        assert [batch.seeds.tolist() for batch in loader] == [[3, 2]]


def test_a_temporary_dataset_is_shared_until_changed_or_unused(graph):
    data = data_of(graph)
    first = uvatrain.Loader(data, fanouts=[3])
    second = uvatrain.Loader(data, fanouts=[3], input_nodes=[1])
    path = first.dataset.path
    assert second.dataset.path == path and os.path.isdir(path)
    data.y[0] = 3
    changed = uvatrain.Loader(data, fanouts=[3])
    assert changed.dataset.path != path and int(changed.dataset.labels[0]) == 3
    first.close()
    del first
    gc.collect()
    assert os.path.isdir(path)
    second.close()
    del second
    gc.collect()
    assert not os.path.exists(os.path.dirname(path))


def test_it_is_removed_when_the_process_exits_and_reports_its_cost_once():
    script = """
import os, sys, warnings, torch, uvatrain
from torch_geometric.data import Data
warnings.simplefilter("always")
warnings.showwarning = lambda message, category, filename, *rest: print(category.__name__, filename, message, sep="|")
data = Data(x=torch.rand(50, 4), edge_index=torch.randint(50, (2, 300)), train_mask=torch.ones(50, dtype=torch.bool))
loaders = [uvatrain.Loader(data, fanouts=[3]) for _ in range(2)]
if os.fork() == 0:
    # A fork that ends leaves it to its parent.
    loaders.clear()
    os._exit(0)
os.wait()
assert os.path.isdir(loaders[0].dataset.path)
print(loaders[0].dataset.path)
"""
    told, path = run_forked_well(script).splitlines()
    assert told.startswith("UvatrainWarning|<string>|Loader wrote the data to a temporary dataset, 0.0 MB in ")
    assert not os.path.exists(os.path.dirname(path))


@pytest.mark.filterwarnings("default::uvatrain.UvatrainWarning")
def test_the_warning_names_the_call_that_wrote_the_data(graph):
    layers = [lambda x, edge_index: x[1]]
    with pytest.warns(uvatrain.UvatrainWarning, match=r"^infer wrote .* uvatrain.from_pyg\(data, path\) writes it once"):
        uvatrain.infer(layers, data_of(graph))
    with pytest.warns(uvatrain.UvatrainWarning, match=r"^Loader wrote .* uvatrain.write_dataset\(path, ...\) writes it"):
        uvatrain.Loader(arrays_of(graph), fanouts=[3])


def test_invalid_graphs_are_refused_and_leave_nothing(graph, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    data = data_of(graph)
    data.edge_index[0, 5] = 600
    for value, error, message in [
        (7, TypeError, "path is a int: a dataset's path"),
        ([data], TypeError, "path is a list"),
        (HeteroData(), ValueError, "node"),
        (data, ValueError, "entry 5 is 600"),
        ({**arrays_of(graph), "indptr": [0, 1]}, ValueError, "one row per node of indptr"),
        ({"x": 1}, TypeError, "indptr"),
    ]:
        with pytest.raises(error, match=message):
            uvatrain.Loader(value, fanouts=[3])
    assert os.listdir(tmp_path) == []


#: Writes temporary data. "wait": says so, and waits to be killed. "fork": so does a fork of it, which ends with its
#: end of a pipe.
WRITES = """
import os, signal, sys, warnings
# Under nohup it would be ignored.
signal.signal(signal.SIGHUP, signal.SIG_DFL)
warnings.simplefilter("ignore")
import torch, uvatrain
from torch_geometric.data import Data
from uvatrain.pyg import NeighborLoader

data = Data(x=torch.rand(50, 4), edge_index=torch.randint(50, (2, 300)), train_mask=torch.ones(50, dtype=torch.bool))
loader = NeighborLoader(data, [3], batch_size=10)

def wait(layer, batch):
    if sys.argv[1] == "wait":
        print("ready", flush=True)
        sys.stdin.read()
    return layer(batch.x[: batch.num_seeds])

if sys.argv[1] == "fork" and os.fork() == 0:
    print("ready", flush=True)
    os.read(int(sys.argv[2]), 1)
    os._exit(0)
uvatrain.infer([torch.nn.Linear(4, 3)], data, call=wait)
if sys.argv[1] == "fork":
    sys.stdin.read()
"""


def writer(folder, *arguments, **more):
    command = [sys.executable, "-c", WRITES, *map(str, arguments)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "TMPDIR": str(folder)}
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment, **more
    )
    assert process.stdout.readline() == "ready\n"
    return process


def left_in(folder):
    return sorted(name.partition(".partial-")[0] for name in os.listdir(folder))


@pytest.mark.parametrize(
    "killed_by", [signal.SIGKILL, *(pytest.param(by, marks=pytest.mark.long) for by in (signal.SIGTERM, signal.SIGHUP))]
)
def test_what_a_killed_process_wrote_is_removed_by_the_next_one(tmp_path, killed_by):
    with writer(tmp_path, "wait") as process:
        process.send_signal(killed_by)
        assert process.wait(WATCHDOG) == -killed_by
    # What was written for the loader and for `infer`, and between its layers.
    assert left_in(tmp_path) == [".uvatrain-infer", "uvatrain-data", "uvatrain-data"]
    assert all(os.stat(tmp_path / name).st_mode & 0o777 == 0o700 for name in os.listdir(tmp_path))
    kept = tmp_path / "uvatrain-data.partial-0123456789abcdef"
    kept.mkdir()
    (kept / "thesis.tex").write_text("years")
    run_forked_well(WRITES, "end", TMPDIR=tmp_path)
    assert os.listdir(tmp_path) == [kept.name] and (kept / "thesis.tex").read_text() == "years"


def test_what_a_process_or_its_fork_may_still_read_is_left_alone(tmp_path):
    end, hold = os.pipe()
    with writer(tmp_path, "fork", end, pass_fds=[end]) as process:
        os.close(end)
        run_forked_well(WRITES, "end", TMPDIR=tmp_path)
        assert "uvatrain-data" in left_in(tmp_path)
        process.kill()
        process.wait(WATCHDOG)
        run_forked_well(WRITES, "end", TMPDIR=tmp_path)
        assert "uvatrain-data" in left_in(tmp_path)
        os.close(hold)
        # The fork had the other end of it.
        assert process.stdout.read() == ""
    run_forked_well(WRITES, "end", TMPDIR=tmp_path)
    assert os.listdir(tmp_path) == []
