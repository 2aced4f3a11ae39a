"""`python -m uvatrain.train`: the training of `uvatrain train`, over ranks, and what is left of it where one fails.

Ranks are forked processes. One process alone is this one.
"""

import fcntl
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

import numpy as np

import uvatrain
from conftest import a_free_port
from graphs import write_graph
from train_runs import (
    WATCHDOG,
    Ranks,
    alone_well,
    are_refused,
    batches,
    by_program,
    close,
    command,
    environment,
    events,
    resume_each_others_checkpoints,
    graph_with_features_of_edges,
    graphs_of_tasks,
    judged,
    learns_as_the_program_does,
    program,
    trained_on_both_batches,
    trains_as_the_program_does,
)
from uvatrain.models import Model


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return graph_with_features_of_edges(tmp_path_factory.mktemp("train") / "graph")


@pytest.mark.parametrize(
    "options",
    [
        "--model sage",
        "--model gcn --feature-norm row",
        "--model gat --heads 4 --output-heads 2 --feature-norm row",
        "--model gat --edge-attr --feature-norm row",
        "--model gat --edge-attr --heads 4 --residual --norm layer --feature-norm row",
        "--model gin --feature-norm row",
        "--model gine",
        "--model gine --residual --norm layer --feature-norm row",
        "--model sage --residual --norm layer",
        "--model sage --sampler-kind labor --weight-decay 0.01",
        "--model sage --class-weights balanced",
        "--model sage --class-weights 1,20,0.5,3",
    ],
)
def test_one_process_trains_as_the_program_does(data: Path, uvatrain_program: Path, tmp_path: Path, options: str):
    trains_as_the_program_does(uvatrain_program, tmp_path, data, options)


@pytest.fixture(scope="module")
def of_tasks(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return graphs_of_tasks(tmp_path_factory.mktemp("tasks"))


@pytest.mark.parametrize(
    ("labels", "options", "metrics"),
    [
        ("several", "", ["accuracy", "roc_auc"]),
        ("several", "--metric accuracy --model gcn --feature-norm row", ["accuracy"]),
        ("two", "--metric roc-auc", ["accuracy", "roc_auc"]),
        ("numbers", "", ["mse", "mae"]),
        ("columns", "--loss mae --metric mse", ["mse", "mae"]),
    ],
)
def test_other_labels_than_classes_are_learned_as_the_program_does(
    of_tasks: dict[str, Path], uvatrain_program: Path, tmp_path: Path, labels: str, options: str, metrics: list[str]
):
    learns_as_the_program_does(uvatrain_program, tmp_path, of_tasks[labels], options, metrics)


def test_ranks_judge_by_the_answers_of_all_of_them(of_tasks: dict[str, Path], uvatrain_program: Path, tmp_path: Path):
    data = of_tasks["several"]
    Ranks(2, tmp_path, data, "--epochs 1 --dropout 0 --checkpoint kept --metrics run.jsonl").end_well()
    area = judged(uvatrain_program, tmp_path, data)["roc_auc"]
    for name in ("run.jsonl", "run.jsonl.1"):
        assert events(tmp_path, name, "end")[0]["test_roc_auc"] == pytest.approx(area, abs=1e-5)


@pytest.mark.parametrize("model", ["sage", "gat --edge-attr --feature-norm row", "gine"])
def test_program_and_ranks_resume_each_others_checkpoints(
    data: Path, uvatrain_program: Path, tmp_path: Path, model: str
):
    resume_each_others_checkpoints(uvatrain_program, tmp_path, data, model)


@pytest.mark.parametrize(
    "of_model",
    [dict(model="sage"), dict(model="gat", edge_dim=3), dict(model="gine", edge_dim=3)],
    ids=lambda found: found["model"],
)
def test_two_ranks_train_as_one_process_that_takes_both_batches_of_a_step(data: Path, tmp_path: Path, of_model: dict):
    line = f"--model {of_model['model']} --dropout 0 --epochs 2 --metrics run.jsonl"
    Ranks(2, tmp_path, data, line + " --edge-attr" * (of_model["model"] == "gat")).end_well()
    found = batches(tmp_path, "run.jsonl", "run.jsonl.1")
    options = dict(fanouts=[4, 3], batch_size=16, seed=3, edge_attr="edge_dim" in of_model)
    loaders = [uvatrain.Loader(data, **options, rank=rank, world_size=2) for rank in range(2)]
    dataset = loaders[0].dataset
    shape = dict(input_dim=dataset.feature_dim, classes=dataset.num_classes)
    model = Model(dict(hidden=8, layers=2, dropout=0.0, input_dropout=0.0, **of_model, **shape))
    expected = trained_on_both_batches(loaders, model, lambda batch: model(batch.x, batch.blocks))
    # Nine steps an epoch; no rank has the nineteenth batch.
    assert len(expected) == 2 * 18
    close(expected, found)


def test_ranks_with_parts_of_table_and_graph_have_the_losses_of_the_whole(
    data: Path, uvatrain_program: Path, tmp_path: Path
):
    program(uvatrain_program, tmp_path, f"partition {data} ranges --parts 2 --layout ranges")
    for name, path, more in [
        ("whole", data, ""),
        ("parts", tmp_path / "ranges", "--graph divided --remote-cache 4KiB --checkpoint kept"),
    ]:
        Ranks(2, tmp_path, path, f"--epochs 2 --metrics {name} {more}").end_well()
    whole, parts = (batches(tmp_path, name, f"{name}.1") for name in ("whole", "parts"))
    assert len(whole) == 2 * 18 and whole == parts
    accuracies = [[event["valid_accuracy"] for event in events(tmp_path, name, "epoch")] for name in ("whole", "parts")]
    assert accuracies[0] == accuracies[1]
    # It is the training of the whole dataset, which another number of parts resumes, or the dataset itself.
    program(uvatrain_program, tmp_path, f"partition {data} three --parts 3 --layout ranges")
    Ranks(3, tmp_path, tmp_path / "three", "--epochs 3 --resume --checkpoint kept --metrics third").end_well()
    third = batches(tmp_path, "third", "third.1", "third.2")
    assert sorted(third) == [(2, batch) for batch in range(18)]
    assert "resumes at epoch 4" in alone_well(tmp_path, data, "--epochs 4 --resume --checkpoint kept")


@pytest.mark.parametrize("graph", [pytest.param("copied", marks=pytest.mark.long), "divided"])
def test_ranks_without_a_batch_of_validation_or_test_end_and_are_resumed(
    uvatrain_program: Path, tmp_path: Path, graph: str
):
    # One batch of each of these splits, for three ranks.
    data = write_graph(tmp_path / "few", splits=(100, 12, 16), dim=5)
    program(uvatrain_program, tmp_path, f"partition {data} ranges --parts 3 --layout ranges")
    line = f"--graph {graph} --checkpoint kept --checkpoint-every 1 --timeout 60"
    Ranks(3, tmp_path, tmp_path / "ranges", f"--epochs 2 {line} --metrics parts").end_well()
    Ranks(3, tmp_path, tmp_path / "ranges", f"--epochs 4 {line} --metrics parts --resume").end_well()
    Ranks(3, tmp_path, data, "--epochs 4 --metrics whole").end_well()
    parts, whole = (batches(tmp_path, name, f"{name}.1", f"{name}.2") for name in ("parts", "whole"))
    assert len(whole) == 4 * 6 and parts == whole
    for event, name in [("epoch", "valid_accuracy"), ("end", "test_accuracy")]:
        found, expected = ([told[name] for told in events(tmp_path, kind, event)] for kind in ("parts", "whole"))
        assert found[-len(expected) :] == expected


def test_the_program_makes_a_report_of_the_metrics(data: Path, uvatrain_program: Path, tmp_path: Path):
    by_program(uvatrain_program, tmp_path, data, "--epochs 2 --metrics program.jsonl")
    alone_well(tmp_path, data, "--epochs 1 --checkpoint kept --metrics run.jsonl")
    alone_well(tmp_path, data, "--epochs 2 --checkpoint kept --resume --metrics run.jsonl")
    Ranks(2, tmp_path, data, "--epochs 2 --metrics ranks.jsonl").end_well()
    names = ["program.jsonl", "run.jsonl", "ranks.jsonl", "ranks.jsonl.1"]
    program(uvatrain_program, tmp_path, f"report {' '.join(names)} --out page.html")
    for name in names[1:]:
        program(uvatrain_program, tmp_path, f"report {name} --out {name}.html")
    page = (tmp_path / "page.html").read_text()
    assert "graph" in page and all(name in page for name in names)
    # The lines have all that those of the program have, and the same of the batches.
    for kind in ("batch", "epoch", "end"):
        theirs, ours = (events(tmp_path, name, kind) for name in names[:2])
        missing = theirs[-1].keys() - ours[-1].keys() - {"memory"}
        assert missing == set(), kind
    sizes = [[(event["seeds"], event["input_nodes"], event["edges"]) for event in events(tmp_path, name, "batch")] for name in names]
    assert sizes[0] == sizes[1] and len(sizes[2]) == len(sizes[3]) == 18
    last = events(tmp_path, "run.jsonl", "batch")[-1]
    assert last["sample_at_us"] < last["gather_at_us"] < last["train_at_us"]
    start, end = events(tmp_path, "run.jsonl", "start")[1], events(tmp_path, "run.jsonl", "end")[1]
    assert start["in_force"]["start"] == {"epoch": 1, "batch": 0} and start["in_force"]["train_batches"] == 19
    assert (end["epochs"], end["batches"], end["stopped_early"]) == (2, 19, False)
    assert end["roles"]["sampler"]["working_s"] > 0 and end["training_seconds"] <= end["seconds"]


def test_training_nodes_without_labels_are_refused_by_all_ranks(data: Path, tmp_path: Path):
    without, empty = tmp_path / "without", tmp_path / "empty"
    for path in (without, empty):
        write_graph(path)
    labels = np.load(without / "label.npy")
    # Others have labels.
    labels[np.load(without / "train_idx.npy")] = -1
    np.save(without / "label.npy", labels)
    np.save(empty / "train_idx.npy", np.array([], dtype=np.int64))
    hops = tmp_path / "hops"
    uvatrain.propagate(without, hops, hops=1)
    said = ["300 nodes of the training split have no label", "label.npy", "train_idx.npy"]
    are_refused(
        tmp_path,
        (1, without, "--epochs 1 --checkpoint kept", said),
        (2, without, "--epochs 1 --checkpoint kept", [*said, "on rank 0"]),
        (1, hops, "--model sgc --epochs 1 --checkpoint kept", said),
        (1, empty, "--epochs 1 --checkpoint kept", ["the training split is empty", "train_idx.npy"]),
    )
    # One rank lacks them: the other does not wait for it.
    write_graph(tmp_path / "one")
    for code, _, complained in Ranks(2, tmp_path, [tmp_path / "one", without], "--epochs 1 --checkpoint kept").end():
        assert code == 2 and "have no label on rank 1" in complained, complained
    assert not (tmp_path / "kept").exists()


def wait_for_steps(folder: Path, name: str, steps: int) -> list[dict]:
    """Waits until a rank has trained on `steps` batches."""
    until = time.monotonic() + WATCHDOG
    while len(found := events(folder, name, "batch")) < steps:
        assert time.monotonic() < until, f"{name}: {found}"
        time.sleep(0.01)
    return found


@pytest.mark.long
def test_another_number_of_ranks_continues_with_the_remaining_batches(data: Path, tmp_path: Path):
    # More epochs than there is time for: it is killed long before.
    ranks = Ranks(2, tmp_path, data, "--epochs 100000 --checkpoint kept --checkpoint-every 2 --metrics first --timeout 60")
    wait_for_steps(tmp_path, "first.1", 12)
    ranks.processes[1].send_signal(signal.SIGKILL)
    (code, _, said), (killed, _, _) = ranks.end()
    assert (code, killed) == (1, -signal.SIGKILL) and "rank 0: rank 1 has ended" in said, said
    cursor = json.loads((tmp_path / "kept" / "checkpoint.json").read_text())["state"]["cursor"]
    epoch, done = cursor["epoch"], cursor["batch"]
    assert done % 4 == 0
    options = f"--epochs {epoch + 1} --checkpoint kept --resume --keep last --metrics then"
    # What the ranks must agree on but need not be as before.
    printed = Ranks(3, tmp_path, data, f"{options} --checkpoint-every 3").end_well()
    assert f"resumes at epoch {epoch + 1}, batch {done}" in printed and "over 3 ranks" in printed
    before = {place: seen for place, seen in batches(tmp_path, "first", "first.1").items() if place < (epoch, done)}
    after = batches(tmp_path, "then", "then.1", "then.2")
    assert sorted(after) == [(epoch, batch) for batch in range(done, done + (19 - done) // 3 * 3)]
    with uvatrain.Loader(data, fanouts=[4, 3], batch_size=16, seed=3, rank=0, world_size=1) as loader:
        for number in range(epoch + 1):
            # In each epoch of two ranks, no rank has the last batch.
            own = {batch.index: batch.hash for batch in loader}
            found = {place[1]: seen[0] for place, seen in {**before, **after}.items() if place[0] == number}
            assert found.items() <= own.items()
            assert len(found) == (18 if number < epoch else done + (19 - done) // 3 * 3)


def test_a_rank_that_is_stopped_is_named_after_the_timeout(data: Path, tmp_path: Path):
    ranks = Ranks(3, tmp_path, data, "--epochs 100000 --metrics run --timeout 5")
    wait_for_steps(tmp_path, "run.2", 3)
    stopped = ranks.processes.pop(2)
    stopped.send_signal(signal.SIGSTOP)
    try:
        for code, _, said in ranks.end():
            assert code == 1 and "rank 2 has ended, or no longer takes part" in said, said
    finally:
        stopped.kill()
        stopped.communicate()


@pytest.mark.long
def test_ranks_restarted_by_torchrun_continue_with_the_same_losses(data: Path, tmp_path: Path):
    # Two machines, one of two ranks and one of one. Each agent counts the restarts of its own workers.
    options = "--epochs 40 --checkpoint kept --checkpoint-every 4 --metrics disturbed"
    line = [sys.executable, "-m", "torch.distributed.run", "--nnodes", "2", "--max-restarts", "2", "--rdzv-id", "1"]
    line += ["--rdzv-backend", "c10d", "--rdzv-endpoint", f"127.0.0.1:{a_free_port()}", "--local-addr", "127.0.0.1"]
    agents = [
        subprocess.Popen(
            [*line, "--nproc-per-node", str(ranks), *command(data, options)[1:]],
            cwd=tmp_path, env=environment(), stderr=subprocess.PIPE, text=True, start_new_session=True,
        )
        for ranks in (2, 1)
    ]
    try:
        wait_for_steps(tmp_path, "disturbed.1", 15)
        os.kill(events(tmp_path, "disturbed.1", "start")[0]["pid"], signal.SIGKILL)
        for agent in agents:
            _, said = agent.communicate(timeout=WATCHDOG)
            assert agent.returncode == 0, said
    finally:
        for agent in agents:
            if agent.poll() is None:
                os.killpg(agent.pid, signal.SIGKILL)
    starts = events(tmp_path, "disturbed", "start")
    assert len(starts) > 1, "it was over before it was killed"
    assert all((start["epoch"], start["batch"]) > (0, 0) for start in starts[1:])
    Ranks(3, tmp_path, data, "--epochs 40 --metrics whole").end_well()
    disturbed, whole = (batches(tmp_path, name, f"{name}.1", f"{name}.2") for name in ("disturbed", "whole"))
    assert len(whole) == 40 * 18 and disturbed == whole


def test_ranks_that_do_not_fit_each_other_all_say_what_differs(data: Path, uvatrain_program: Path, tmp_path: Path):
    program(uvatrain_program, tmp_path, f"partition {data} ranges --parts 2 --layout ranges")
    for code, said, complained in [
        *(
            (code, "--graph is 'copied' on rank 1 and 'divided' on rank 0", said)
            for code, _, said in Ranks(2, tmp_path, tmp_path / "ranges", "--graph divided", "--seed 4").end()
        ),
        *(
            (code, "--model is 'gine' on rank 1 and 'sage' on rank 0", said)
            for code, _, said in Ranks(2, tmp_path, tmp_path / "ranges", "", "--model gine").end()
        ),
        *(
            (code, "model's norm is 'layer' on rank 1 and not given on rank 0", said)
            for code, _, said in Ranks(2, tmp_path, data, "--replace", "--norm layer").end()
        ),
        *(
            (code, "model's hidden is 9 on rank 1 and 8 on rank 0", said)
            for code, _, said in Ranks(2, tmp_path, data, "", "--hidden 9 --seed 4").end()
        ),
        *(
            (code, "--epochs is 2 on rank 2 and 1 on rank 0", said)
            for code, _, said in Ranks(3, tmp_path, data, "--epochs 1", "--epochs 1", "--epochs 2").end()
        ),
    ]:
        assert code == 2 and said in complained, complained


def test_what_cannot_be_trained_or_kept_is_refused_with_what_would_do(
    data: Path, of_tasks: dict[str, Path], uvatrain_program: Path, tmp_path: Path
):
    alone_well(tmp_path, data, "--epochs 1 --checkpoint kept")
    program(uvatrain_program, tmp_path, f"partition {data} closures --parts 2 --layout closure --hops 2")
    with open(tmp_path / "busy", "w") as busy:
        busy.write("lines of another run\n")
        busy.flush()
        fcntl.flock(busy, fcntl.LOCK_EX)
        are_refused(tmp_path, (1, data, "--metrics busy", ["--metrics busy", "another process is writing it"]))
    assert (tmp_path / "busy").read_text() == "lines of another run\n"
    program(uvatrain_program, tmp_path, f"partition {data} ranges --parts 2 --layout ranges")
    are_refused(
        tmp_path,
        (1, of_tasks["several"], "--loss mse", ["--loss mse", "float32 targets"]),
        (1, of_tasks["several"], "--metric mae", ["--metric mae", "accuracy or roc-auc"]),
        (1, of_tasks["numbers"], "--metric accuracy", ["--metric accuracy", "mse or mae"]),
        (1, data, "--metric roc-auc", ["--metric roc-auc", "two classes"]),
        (1, data, "--class-weights 1,2", ["--class-weights 1,2", "2 weights", "classes"]),
        (1, data, "--class-weights 1,0", ["--class-weights", "weight '0'", "positive number"]),
        (1, data, "--class-weights even", ["--class-weights", "'even'", "balanced"]),
        (1, of_tasks["several"], "--class-weights balanced", ["--class-weights balanced", "several labels a node"]),
        (1, of_tasks["numbers"], "--class-weights balanced", ["--class-weights balanced", "regression"]),
        (1, data, "--checkpoint kept --resume --class-weights balanced", ["of another run", "class_weights"]),
        (1, data, "--gpu-cache-share", ["--gpu-cache-share", "--gpu-cache"]),
        (1, data, "--checkpoint kept", ["--checkpoint kept", "--resume"]),
        (2, data, "--checkpoint kept", ["--checkpoint kept", "--resume"]),
        (1, data, f"--metrics {data / 'feat.npy'}", ["--metrics", "feat.npy", "which the command reads"]),
        (2, data, f"--metrics {data / 'weight.npy'}", ["--metrics", "weight.npy is a file of the dataset"]),
        (1, data, "--metrics kept/checkpoint.json", ["--metrics", "file of the checkpoint"]),
        (1, data, "--checkpoint kept --resume --hidden 9", ["of another run", "hidden is 8 there and 9 here"]),
        (1, data, "--checkpoint kept --resume --seed 4", ["of another run", "seed is 3 there and 4 here"]),
        (1, data, "--resume", ["--resume", "--checkpoint"]),
        (1, data, "--checkpoint-every 2", ["--checkpoint-every", "--checkpoint"]),
        (1, data, "--heads 4", ["--heads", "--model gat"]),
        (1, data, "--model gat --hidden 9 --heads 2", ["--heads: 2 heads", "--hidden 9"]),
        (1, data, "--model gat --residual --output-heads 1", ["--output-heads", "--residual"]),
        (1, data, "--timeout nan", ["--timeout"]),
        *([] if torch.cuda.is_available() else [(1, data, "--device cuda", ["--device cuda", "0 GPUs"])]),
        (1, data, "--fanouts 4,x", ["--fanouts"]),
        (1, data, "--remote-cache 1MiB", ["--remote-cache", "only supported for parts in ranges"]),
        (1, data, "--edge-attr", ["--edge-attr", "--model sage", "--model gat or gine"]),
        (1, of_tasks["two"], "--model gat --edge-attr", ["--edge-attr", "edge_feat.npy", "omit it"]),
        (2, tmp_path / "ranges", "--model gat --edge-attr", ["--edge-attr", "parts in ranges", "whole dataset"]),
        (1, of_tasks["two"], "--model gine", ["--model gine", "edge_feat.npy", "another model"]),
        (2, tmp_path / "ranges", "--model gine", ["--model gine", "parts in ranges", "whole dataset"]),
        (2, tmp_path / "closures", "", ["--layout ranges"]),
        (1, data, "--model sgc", ["--model sgc", "hop set", "uvatrain propagate", "sage, gcn, gat, gin, gine, rsage"]),
        (1, data, "--shuffle chunks", ["--shuffle", "only valid with a hop set", "uvatrain propagate"]),
        (1, data, "--shuffle chunks --chunk 4", ["--shuffle", "only valid with a hop set"]),
        (1, data, "--place disk", ["--place", "only valid with a hop set"]),
        (1, data, "--reader mmap", ["--reader", "only valid with a hop set"]),
        (1, data, "--layers 2", ["--layers", "--model sign or hoga", "--fanouts"]),
        (1, data, "--heads 8", ["--heads", "--model gat, rgat, hgt or hoga", "has attention"]),
        (2, data, "--batch-size 300", ["--batch-size 300", "1 batch,", "fewer ranks"]),
        (1, tmp_path / "nothing", "", ["nothing"]),
    )
