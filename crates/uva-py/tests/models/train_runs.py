"""What tests of `python -m uvatrain.train` have in common: ranks, the program, and comparisons of the two."""

import contextlib
import io
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from conftest import a_free_port
from forked import Forked
from graphs import write_graph
from uvatrain.train.__main__ import main
from uvatrain.train.initial import initialise

#: How long ranks may take before they count as stuck. On a busy machine three of them need a minute to import torch.
WATCHDOG = 300
#: Of a hop set, and of a graph. 300 training nodes: 19 batches an epoch.
OF_HOP_SETS = "--batch-size 16 --hidden 8 --seed 3"
SHAPE = f"--fanouts 4,3 {OF_HOP_SETS}"


def shaped(data: Path, options: str) -> list[str]:
    """DATA and the options for it."""
    is_hop_set = (data / "hops.json").exists()
    return [str(data), *(OF_HOP_SETS if is_hop_set else SHAPE).split(), *options.split()]


def environment(**more: object) -> dict[str, str]:
    # Ranks talk over loopback, whatever other interfaces there are.
    told = dict(GLOO_SOCKET_IFNAME="lo", OMP_NUM_THREADS="1", PYTHONPATH=os.pathsep.join(filter(None, sys.path)))
    return {**os.environ, **told, **{name: str(value) for name, value in more.items()}}


def command(data: Path, options: str) -> list[str]:
    return [sys.executable, "-m", "uvatrain.train", *shaped(data, options)]


class Ranks:
    """Ranks that were started."""

    def __init__(self, ranks: int, folder: Path, data: Path | list[Path], *options: str) -> None:
        """data, options: of all ranks, or one for each."""
        of_ranks = data if isinstance(data, list) else [data]
        together = dict(WORLD_SIZE=ranks, MASTER_ADDR="127.0.0.1", MASTER_PORT=a_free_port())
        self.folder = folder
        self.processes = [
            Forked(
                "uvatrain.train",
                shaped(of_ranks[rank % len(of_ranks)], options[rank % len(options)]),
                folder,
                environment(RANK=rank, LOCAL_RANK=rank, **together),
            )
            for rank in range(ranks)
        ]

    def end(self) -> list[tuple[int, str, str]]:
        """How each ended: its exit code, what it printed and complained of."""
        ended = []
        try:
            for process in self.processes:
                printed, complained = process.communicate(timeout=WATCHDOG)
                ended.append((process.returncode, printed, complained))
        finally:
            for process in self.processes:
                process.kill()
                process.wait()
        return ended

    def end_well(self) -> str:
        """The same of ranks that end well; what the first one printed."""
        ended = self.end()
        assert all(code == 0 for code, _, _ in ended), ended
        return ended[0][1]


def alone(folder: Path, data: Path, options: str) -> tuple[int, str, str]:
    """How one process ends, what it prints and complains of."""
    printed, complained, before = io.StringIO(), io.StringIO(), os.getcwd()
    os.chdir(folder)
    try:
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(complained):
            code = main(shaped(data, options))
    except SystemExit as ended:
        # Of a command line that is none.
        code = int(str(ended.code))
    finally:
        os.chdir(before)
    return code, printed.getvalue(), complained.getvalue()


def alone_well(folder: Path, data: Path, options: str) -> str:
    """What one process prints that ends well."""
    code, printed, complained = alone(folder, data, options)
    assert (code, complained) == (0, "")
    return printed


def events(folder: Path, name: str, kind: str) -> list[dict]:
    path = folder / name
    lines = path.read_text().splitlines(keepends=True) if path.exists() else []
    # The last line may be incomplete.
    return [event for line in lines if line.endswith("\n") and (event := json.loads(line))["event"] == kind]


def batches(folder: Path, *names: str) -> dict[tuple[int, int], tuple[str, float]]:
    """Hash and loss of each batch, where it was trained last."""
    found = [event for name in names for event in events(folder, name, "batch")]
    return {(event["epoch"], event["batch"]): (event["hash"], event["loss"]) for event in found}


def program(uvatrain_program: Path, folder: Path, line: str) -> subprocess.CompletedProcess:
    return subprocess.run(
        [uvatrain_program, *line.split()], cwd=folder, capture_output=True, text=True, timeout=WATCHDOG, check=True
    )


def by_program(uvatrain_program: Path, folder: Path, data: Path, options: str) -> None:
    program(uvatrain_program, folder, f"train {' '.join(shaped(data, options))} --device cpu --train-threads 1")


def judged(uvatrain_program: Path, folder: Path, data: Path) -> dict:
    """What the program finds on the test nodes with the model in `kept`."""
    by = "" if (data / "hops.json").exists() else "--eval sampled --device cpu"
    found = program(uvatrain_program, folder, f"evaluate {data} --checkpoint kept {by} --json")
    return json.loads(found.stdout)["test"]


def close(one: dict, other: dict) -> None:
    assert one.keys() == other.keys()
    for place, (digest, loss) in one.items():
        assert digest == other[place][0], place
        assert loss == pytest.approx(other[place][1], rel=1e-4), place


def trained_on_both_batches(
    loaders: list, model: torch.nn.Module, logits: Callable[[Any], torch.Tensor]
) -> dict[tuple[int, int], tuple[str, float]]:
    """Hash and loss of each batch of two epochs, in steps that take the batches of all loaders."""
    initialise(model, 3)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.003)
    found = {}
    for _ in range(2):
        for step in zip(*loaders):
            losses = []
            for batch in step:
                made, known = logits(batch), batch.y >= 0
                losses.append(torch.nn.functional.cross_entropy(made[known], batch.y[known]))
                found[batch.epoch, batch.index] = batch.hash, losses[-1].item()
            optimizer.zero_grad()
            (sum(losses) / len(loaders)).backward()
            optimizer.step()
    for loader in loaders:
        loader.close()
    return found


def graphs_of_tasks(folder: Path) -> dict[str, Path]:
    """Graphs with other labels than one of several classes."""
    paths = {"several": write_graph(folder / "several", multi_label=True)}
    paths["two"] = write_graph(folder / "two", classes=2)
    for name, columns in (("numbers", ()), ("columns", (3,))):
        paths[name] = write_graph(folder / name)
        values = np.random.default_rng(5).normal(size=(600, *columns)).astype(np.float32)
        np.save(paths[name] / "label.npy", values)
        (paths[name] / "meta.json").write_text(json.dumps({"name": name}))
    return paths


def graph_with_features_of_edges(path: Path) -> Path:
    """Three features an edge."""
    write_graph(path)
    edges = np.load(path / "indices.npy").size
    np.save(path / "edge_feat.npy", np.random.default_rng(5).normal(size=(edges, 3)).astype(np.float32))
    return path


def trains_as_the_program_does(uvatrain_program: Path, folder: Path, data: Path, options: str) -> None:
    """That one process has the batches, losses and checkpoint of the program."""
    options += " --dropout 0 --epochs 2"
    by_program(uvatrain_program, folder, data, f"{options} --metrics program.jsonl --checkpoint program")
    alone_well(folder, data, f"{options} --metrics python.jsonl --checkpoint python")
    close(batches(folder, "program.jsonl"), batches(folder, "python.jsonl"))
    for one, other in zip(events(folder, "program.jsonl", "epoch"), events(folder, "python.jsonl", "epoch"), strict=True):
        # A seed whose two best classes are as likely may fall to either.
        assert one["valid_accuracy"] == pytest.approx(other["valid_accuracy"], abs=0.03)
        assert one["train_loss"] == pytest.approx(other["train_loss"], rel=1e-4)
    kept = [json.loads((folder / name / "checkpoint.json").read_text()) for name in ("program", "python")]
    for part in ("fingerprint", "trainer"):
        assert kept[0][part] == kept[1][part]


def learns_as_the_program_does(uvatrain_program: Path, folder: Path, data: Path, options: str, metrics: list[str]) -> None:
    """That one process has the losses and metrics of the program, which resumes from its checkpoint."""
    options += " --dropout 0"
    by_program(uvatrain_program, folder, data, f"{options} --epochs 2 --metrics program.jsonl")
    printed = alone_well(folder, data, f"{options} --epochs 2 --metrics python.jsonl --checkpoint kept")
    close(batches(folder, "program.jsonl"), batches(folder, "python.jsonl"))
    for one, other in zip(events(folder, "program.jsonl", "epoch"), events(folder, "python.jsonl", "epoch"), strict=True):
        assert one["train_loss"] == pytest.approx(other["train_loss"], rel=1e-4)
        for metric in metrics:
            assert one[f"valid_{metric}"] == pytest.approx(other[f"valid_{metric}"], rel=1e-3, abs=0.01), metric
    # The program takes the model that was kept for one of its own, and finds it as good.
    told, found = events(folder, "python.jsonl", "end")[0], judged(uvatrain_program, folder, data)
    for metric in metrics:
        if found.get(metric) is not None:
            assert told[f"test_{metric}"] == pytest.approx(found[metric], rel=1e-5, abs=1e-5), metric
    assert any(found.get(metric) is not None for metric in metrics)
    assert {"accuracy": "valid accuracy", "mse": "valid MSE"}[metrics[0]] in printed
    by_program(uvatrain_program, folder, data, f"{options} --epochs 3 --checkpoint kept --resume")


def resume_each_others_checkpoints(uvatrain_program: Path, folder: Path, data: Path, model: str) -> None:
    """That the program resumes from a checkpoint of one process, and the process from one of the program."""
    options = f"--model {model} --dropout 0 --checkpoint kept --metrics"
    by_program(uvatrain_program, folder, data, f"--model {model} --dropout 0 --epochs 3 --metrics whole.jsonl")
    by_program(uvatrain_program, folder, data, f"{options} 1.jsonl --epochs 1")
    printed = alone_well(folder, data, f"{options} 2.jsonl --epochs 2 --resume")
    assert "resumes at epoch 2, batch 0" in printed
    by_program(uvatrain_program, folder, data, f"{options} 3.jsonl --epochs 3 --resume")
    close(batches(folder, "whole.jsonl"), batches(folder, "1.jsonl", "2.jsonl", "3.jsonl"))
    told = events(folder, "3.jsonl", "end")[0]["test_accuracy"]
    assert judged(uvatrain_program, folder, data)["accuracy"] == pytest.approx(told, abs=1e-6)


def are_refused(folder: Path, *cases: tuple[int, Path, str, list[str]]) -> None:
    """That the ranks end with code 2 over DATA with these options, and their message has these parts."""
    for ranks, path, options, parts in cases:
        ended_so = [alone(folder, path, options)] if ranks == 1 else Ranks(ranks, folder, path, options).end()
        for code, _, said in ended_so:
            assert code == 2 and all(part in said for part in parts), (options, said)
            assert "Traceback" not in said, said
