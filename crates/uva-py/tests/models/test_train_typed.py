"""`python -m uvatrain.train` of models over typed graphs: the training of `uvatrain train`, over ranks."""

from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

import uvatrain
from train_runs import (
    Ranks,
    are_refused,
    batches,
    by_program,
    close,
    program,
    resume_each_others_checkpoints,
    trained_on_both_batches,
    trains_as_the_program_does,
)

#: Options of `train`.
MODELS = [
    "",  # the default, rsage
    "--model rsage",
    "--model rsage --root type --relation-sum mean",
    "--model rsage --root none",
    "--model rgcn",
    "--model rgcn --bases 2 --root shared",
    "--model rgcn --blocks 2",
    "--model rgat --heads 2",
    "--model hgt --heads 2 --weight-decay 0.1",
]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory, uvatrain_program: Path) -> Path:
    folder = tmp_path_factory.mktemp("typed")
    line = "generate graph --kind typed --nodes 400 --avg-degree 8 --feat-dim 6 --classes 6 --seed 3"
    program(uvatrain_program, folder, line)
    return folder / "graph"


@pytest.mark.parametrize("options", MODELS)
def test_one_process_trains_as_the_program_does(data: Path, uvatrain_program: Path, tmp_path: Path, options: str):
    trains_as_the_program_does(uvatrain_program, tmp_path, data, options)


def test_one_relation_of_a_graph_without_types_is_one_too(data: Path, uvatrain_program: Path, tmp_path: Path):
    program(uvatrain_program, tmp_path, "generate plain --nodes 300 --avg-degree 6 --feat-dim 5 --classes 3 --seed 3")
    trains_as_the_program_does(uvatrain_program, tmp_path, tmp_path / "plain", "--model rgat --heads 2")


@pytest.mark.parametrize("model", ["rsage", "rgcn --bases 2", "rgat", "hgt"])
def test_program_and_ranks_resume_each_others_checkpoints(data: Path, uvatrain_program: Path, tmp_path: Path, model: str):
    resume_each_others_checkpoints(uvatrain_program, tmp_path, data, model)


def test_two_ranks_train_as_one_process_that_takes_both_batches_of_a_step(data: Path, uvatrain_program: Path, tmp_path: Path):
    line = "--model rsage --dropout 0 --epochs 2 --metrics run.jsonl --checkpoint kept"
    Ranks(2, tmp_path, data, line).end_well()
    found = batches(tmp_path, "run.jsonl", "run.jsonl.1")
    loaders = [
        uvatrain.Loader(data, fanouts=[4, 3], batch_size=16, seed=3, rank=rank, world_size=2) for rank in range(2)
    ]
    # A model of that shape, with new initial values.
    model = uvatrain.load_model(tmp_path / "kept").train()
    expected = trained_on_both_batches(loaders, model, lambda batch: model(model.inputs(batch), batch.blocks))
    assert len(expected) == 2 * 2 * (len(loaders[0]) or 1)
    close(expected, found)


def test_what_ranks_cannot_train_is_refused_with_what_would_do(data: Path, uvatrain_program: Path, tmp_path: Path):
    program(uvatrain_program, tmp_path, "generate mag --preset mag --scale 0.001 --feat-dim 4")
    program(uvatrain_program, tmp_path, "generate plain --nodes 300 --avg-degree 6 --feat-dim 5 --classes 3")
    program(uvatrain_program, tmp_path, "partition plain ranges --parts 2 --layout ranges")
    are_refused(
        tmp_path,
        (1, data, "--model sage", ["--model sage", "typed graph", "--model rsage"]),
        (2, tmp_path / "mag", "--model rgcn", ["--model rgcn", "has no features", "uvatrain train"]),
        (2, tmp_path / "ranges", "--model rsage", ["--model rsage", "parts in ranges", "whole dataset"]),
        (1, data, "--model rsage --bases 2", ["--bases", "rgcn"]),
        (1, data, "--model rgcn --bases 99", ["--bases", "99", "the number of relations"]),
    )
