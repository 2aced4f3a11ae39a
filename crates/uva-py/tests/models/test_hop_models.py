"""Models of hop sets in PyTorch: the module says what `uvatrain predict` says of every row."""

import os
import subprocess

import numpy as np
import pytest
import torch
from conftest import WATCHDOG
from graphs import write_graph

import uvatrain

#: Options of `train`, with the set that it reads.
MODELS = {
    "sgc": ("one", "--model sgc --use-hops 1"),
    "s2gc": ("one", "--model s2gc --alpha 0.3"),
    "sign": ("two", "--model sign --layers 3 --activation prelu --use-hops 1"),
    "hoga": ("one", "--model hoga --layers 2 --heads 4 --use-hops 2"),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("hop-models")
    graph = write_graph(folder / "graph")
    uvatrain.propagate(graph, folder / "one", hops=3, layout="rows")
    uvatrain.propagate(graph, folder / "two", operator="sym,row", hops=2)
    return folder


@pytest.mark.parametrize("name", MODELS)
def test_a_checkpoint_of_a_hop_model_in_torch_says_what_predict_says(folder, uvatrain_program, name):
    data, options = MODELS[name]

    def run(line):
        environment = {**os.environ, "XDG_CACHE_HOME": str(folder / "cache")}
        command = [uvatrain_program, *line.split()]
        ended = subprocess.run(
            command, capture_output=True, text=True, timeout=WATCHDOG, cwd=folder, env=environment
        )
        if ended.returncode == 3:
            pytest.skip(ended.stderr)
        assert ended.returncode == 0, ended.stdout + ended.stderr

    run(f"train {data} --batch-size 64 --hidden 16 --epochs 2 --lr 0.02 --seed 6 --checkpoint {name} {options}")
    run(f"predict {data} --checkpoint {name} --probabilities {name}.npy --ids ids.npy --overwrite")
    shares = torch.from_numpy(np.load(folder / f"{name}.npy"))
    hops = uvatrain.HopSet(folder / data)
    assert torch.equal(torch.from_numpy(np.load(folder / "ids.npy")), hops.node_idx)
    model = uvatrain.load_model(folder / name)
    with torch.no_grad():
        logits = model(hops.hops)
        assert (logits.softmax(1) - shares).abs().max() <= 1e-5
        # The tables that it reads, and all of them as one tensor, are the same.
        read = [hops.hops[table] for table in model.tables(hops.num_hops)]
        assert torch.equal(model(read), logits)
        assert torch.allclose(model(torch.stack(list(hops.hops), 1)), logits, atol=1e-6)
    with pytest.raises(ValueError, match="columns are needed"):
        model([x[:, 1:] for x in read])
    if name == "hoga":
        with pytest.raises(ValueError, match="2 tables: the model reads 2 hops"):
            model(read[:2])
    # Every parameter is trained on.
    model.train()(read).square().mean().backward()
    assert all(parameter.grad is not None for parameter in model.parameters())
