"""`python -m uvatrain.train` over hop sets: as `uvatrain train` does it, and over ranks."""

import json
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

import uvatrain
from graphs import write_graph
from train_runs import (
    Ranks,
    are_refused,
    batches,
    close,
    events,
    resume_each_others_checkpoints,
    graphs_of_tasks,
    judged,
    learns_as_the_program_does,
    program,
    trained_on_both_batches,
    trains_as_the_program_does,
)
from uvatrain.models import KINDS


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_graph(tmp_path_factory.mktemp("train") / "graph")


@pytest.fixture(scope="module")
def hop_sets(data: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("hop-sets")
    for name, more in [("one", dict(hops=3)), ("two", dict(hops=2, operator="sym,row", layout="rows", type="f16"))]:
        uvatrain.propagate(data, folder / name, feature_norm="row", **more)
    return {name: folder / name for name in ("one", "two")}


@pytest.mark.parametrize(
    ("operators", "options"),
    [
        ("one", "--model sgc --use-hops 2"),
        ("one", "--model s2gc --alpha 0.2 --weight-decay 0.01"),
        ("one", "--model sign"),
        ("two", "--model sign --use-hops 1 --layers 4 --activation prelu"),
        ("one", "--model sign --shuffle chunks --chunk 4 --drop-last --place disk --reader pread"),
        ("one", "--model hoga"),
        ("one", "--model hoga --use-hops 2 --layers 2 --heads 4 --slots 1 --samplers 2"),
    ],
)
def test_one_process_trains_on_a_hop_set_as_the_program_does(
    hop_sets: dict[str, Path], uvatrain_program: Path, tmp_path: Path, operators: str, options: str
):
    trains_as_the_program_does(uvatrain_program, tmp_path, hop_sets[operators], f"{options} --lr 0.02")


@pytest.fixture(scope="module")
def of_tasks(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("tasks")
    made = {}
    for name, path in graphs_of_tasks(folder).items():
        made[name] = folder / f"hops-{name}"
        uvatrain.propagate(path, made[name], hops=2, feature_norm="row")
    return made


@pytest.mark.parametrize(
    ("labels", "options", "metrics"),
    [
        ("several", "--model sign", ["accuracy", "roc_auc"]),
        ("two", "--model hoga --metric roc-auc", ["accuracy", "roc_auc"]),
        ("numbers", "--model s2gc", ["mse", "mae"]),
        ("columns", "--model sgc --loss mae", ["mse", "mae"]),
    ],
)
def test_other_labels_than_classes_are_learned_as_the_program_does(
    of_tasks: dict[str, Path], uvatrain_program: Path, tmp_path: Path, labels: str, options: str, metrics: list[str]
):
    learns_as_the_program_does(uvatrain_program, tmp_path, of_tasks[labels], options, metrics)


@pytest.mark.parametrize("model", ["sgc", "s2gc --alpha 0.2", "sign --activation prelu", "hoga"])
def test_program_and_ranks_resume_each_others_checkpoints(
    hop_sets: dict[str, Path], uvatrain_program: Path, tmp_path: Path, model: str
):
    resume_each_others_checkpoints(uvatrain_program, tmp_path, hop_sets["one"], model)


def test_two_ranks_over_a_hop_set_train_as_one_process_with_both_batches(
    hop_sets: dict[str, Path], uvatrain_program: Path, tmp_path: Path
):
    data = hop_sets["two"]
    Ranks(2, tmp_path, data, "--model sign --use-hops 1 --dropout 0 --epochs 2 --metrics run --checkpoint kept").end_well()
    loaders = [uvatrain.HopLoader(data, batch_size=16, seed=3, rank=rank, world_size=2) for rank in range(2)]
    shape = dict(input_dim=loaders[0].dataset.feature_dim, classes=loaders[0].dataset.num_classes, hops=1, operators=2)
    model = KINDS["sign"](dict(model="sign", hidden=8, layers=2, dropout=0.0, input_dropout=0.0, **shape))
    expected = trained_on_both_batches(loaders, model, lambda batch: model(batch.xs))
    assert len(expected) == 2 * 18
    close(expected, batches(tmp_path, "run", "run.1"))
    accuracy = judged(uvatrain_program, tmp_path, data)["accuracy"]
    for name in ("run", "run.1"):
        assert events(tmp_path, name, "end")[0]["test_accuracy"] == pytest.approx(accuracy, abs=1e-6)


def test_another_number_of_ranks_resumes_with_the_rows_left_of_a_hop_set(
    hop_sets: dict[str, Path], uvatrain_program: Path, tmp_path: Path
):
    options = "--model hoga --shuffle chunks --chunk 4 --checkpoint kept"
    Ranks(2, tmp_path, hop_sets["one"], f"{options} --epochs 1").end_well()
    # As it would stand where they were stopped after two steps of the next epoch.
    file = tmp_path / "kept" / "checkpoint.json"
    contents = json.loads(file.read_text())
    assert contents["state"]["cursor"] == {"epoch": 1, "batch": 0}
    contents["state"]["cursor"]["batch"] = 4
    file.write_text(json.dumps(contents))
    printed = Ranks(3, tmp_path, hop_sets["one"], f"{options} --epochs 2 --resume --metrics run").end_well()
    program(uvatrain_program, tmp_path, "report run run.1 run.2 --out report.html")
    assert "resumes at epoch 2, batch 4" in printed and "over 3 ranks" in printed
    found = {place: digest for place, (digest, _) in batches(tmp_path, "run", "run.1", "run.2").items()}
    shape = dict(batch_size=16, seed=3, shuffle="chunks", chunk=4)
    with uvatrain.HopLoader(hop_sets["one"], **shape, rank=0, world_size=1) as loader:
        loader.set_epoch(1)
        assert found == {(1, batch.index): batch.hash for batch in loader if batch.index >= 4}
    # A place that no epoch has.
    contents = json.loads(file.read_text())
    contents["state"]["cursor"]["batch"] = 1000
    file.write_text(json.dumps(contents))
    for code, _, complained in Ranks(2, tmp_path, hop_sets["one"], f"{options} --epochs 2 --resume").end():
        assert code == 2 and "state.cursor.batch is 1000, and an epoch has" in complained


def test_ranks_that_do_not_fit_each_other_all_say_what_differs(data: Path, hop_sets: dict[str, Path], tmp_path: Path):
    for of_ranks, options, said in [
        ([data, hop_sets["one"]], ["", "--model sgc"], "DATA is 'a hop set' on rank 1 and 'a dataset' on rank 0"),
        ([hop_sets["one"]], ["--model sgc", "--model sgc --use-hops 2"], "model's hops is 2 on rank 1 and 3 on rank 0"),
    ]:
        for code, _, complained in Ranks(2, tmp_path, of_ranks, *options).end():
            assert code == 2 and said in complained, complained


def test_what_a_hop_set_has_no_use_for_is_refused_with_what_would_do(hop_sets: dict[str, Path], tmp_path: Path):
    one, two = hop_sets["one"], hop_sets["two"]
    are_refused(
        tmp_path,
        (1, one, "", ["--model sage", "hop set", "sgc, s2gc, sign or hoga"]),
        *(
            (1, one, f"--model sign {option}", [option.split()[0] + ":", "not supported with a hop set"])
            for option in (
                "--fanouts 4", "--replace", "--sampler-kind labor", "--edge-attr", "--graph divided", "--remote-cache 1MiB",
                "--gpu-cache 1MiB", "--gpu-cache-share",
            )
        ),
        (1, one, "--model sign --gather-threads 2", ["--gather-threads", "--samplers"]),
        (1, one, "--model sign --residual", ["--residual", "only valid with models over sampled neighbours"]),
        (1, one, "--model sign --norm layer", ["--norm", "only valid with models over sampled neighbours"]),
        (1, one, "--model sign --feature-norm row", ["--feature-norm", "uvatrain propagate"]),
        (1, one, "--model sign --layers 1", ["--layers 1", "at least 2"]),
        (1, one, "--model sign --layers 33", ["--layers", "1 to 32"]),
        (1, one, "--model sgc --alpha 0.1", ["--alpha", "--model s2gc"]),
        (1, one, "--model hoga --activation relu", ["--activation", "--model sign"]),
        (1, one, "--model hoga --heads 3", ["--heads: 3 heads", "--hidden 8"]),
        (1, one, "--model sign --chunk 4", ["--chunk", "--shuffle chunks"]),
        (1, one, "--model sign --shuffle chunks --chunk 17", ["--chunk 17", "--batch-size 16"]),
        (1, one, "--model sign --place host --reader pread", ["--reader pread", "--place disk"]),
        (1, one, "--model sgc --use-hops 4", ["--use-hops 4", "has only 3", "uvatrain propagate"]),
        (1, two, "--model hoga", ["--model hoga", "has 2", "--model sign"]),
        (2, one, "--model sgc --batch-size 300", ["--batch-size 300", "1 batch,", "fewer ranks"]),
    )
