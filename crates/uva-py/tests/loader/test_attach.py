"""Scripts under `uvatrain run`: the same loop over batches that other processes prepare."""

import json
import os
import signal
import subprocess
import sys

import numpy
import pytest
from conftest import WATCHDOG, run_python
from graphs import hashes, write_graph

import uvatrain

OPTIONS = dict(fanouts=(4, 3), batch_size=64, seed=3)
BATCHES = 5


@pytest.fixture
def run(graph, uvatrain_program, tmp_path):
    """Runs a script under the launcher. It may `say` a value, as a line of JSON; those are returned."""

    def run(script, *options, code=0, graph=graph):
        path = tmp_path / "train.py"
        path.write_text(
            "import json, os, sys, uvatrain\ndef say(value): print(json.dumps(value), flush=True)\n" + script
        )
        command = [
            uvatrain_program,
            "run",
            graph,
            *"--fanouts 4,3 --batch-size 64 --seed 3".split(),
            *options,
        ]
        ended = subprocess.run(
            [*command, "--", sys.executable, path],
            capture_output=True,
            text=True,
            timeout=WATCHDOG,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )
        assert ended.returncode == code, ended.stdout + ended.stderr
        run.complaints = ended.stderr
        return [json.loads(line) for line in ended.stdout.splitlines() if line[:1] in '[{"0123456789tfn']

    return run


def expected(graph, split, epochs):
    with uvatrain.Loader(graph, split=split, **OPTIONS) as loader:
        return [hashes(loader) for _ in range(epochs)]


def test_batches_are_those_of_a_loader(run, graph):
    script = """
sessions = {split: uvatrain.attach(split) for split in ("train", "valid", "test")}
for epoch in range(2):
    for split, session in sessions.items():
        assert session.split == split and session.epoch == epoch and session.dataset.num_nodes == 600
        assert (session.rank, session.world_size) == (0, 1)
        seen = []
        for batch in session:
            assert batch.x.shape == (batch.num_nodes, 5) and batch.y.shape == (batch.num_seeds,)
            assert batch.x.sum() == session.dataset.features[batch.input_nodes].sum()
            seen.append(batch.hash)
        assert len(seen) == len(session)
        say(seen)
"""
    splits = [expected(graph, split, 2) for split in ("train", "valid", "test")]
    assert run(script) == [split[epoch] for epoch in range(2) for split in splits]


def test_typed_batches_are_those_of_a_loader(run, tmp_path, simulator, monkeypatch):
    random = numpy.random.default_rng(1)
    rows = random.standard_normal((400, 5)).astype("float32")
    writes = numpy.stack([random.integers(0, 150, 2000), random.integers(0, 400, 2000)])
    uvatrain.write_dataset(
        tmp_path / "typed",
        nodes={"paper": {"features": rows, "labels": numpy.arange(400) % 3, "train_idx": numpy.arange(300)}, "author": 150},
        edges={("author", "writes", "paper"): {"edge_index": writes, "reverse": True}},
        target="paper",
    )
    script = """
import numpy
session, rows = uvatrain.attach(), numpy.load(sys.argv[0].replace("train.py", "typed/nodes/paper/feat.npy"))
for epoch in range(2):
    seen = []
    for batch in session:
        paper, author = batch["paper"], batch["author"]
        assert numpy.array_equal(paper.x.numpy(), rows[paper.n_id.numpy()]) and author.x is None
        assert (paper.y == paper.seeds % 3)[: paper.real_nodes[0]].all() and len(batch.blocks[0]["author__writes__paper"].indptr) == len(paper.y) + 1
        batch.confirm()
        seen.append(batch.hash)
        if (epoch, batch.index) == (1, 1):
            state = session.state_dict()
    say(seen)
session.load_state_dict(state)
say([batch.hash for batch in session])
"""
    first, second = expected(tmp_path / "typed", "train", 2)
    for options in [("--samplers", "3"), ("--prepare", "whole", "--samplers", "2")]:
        assert run(script, *options, graph=tmp_path / "typed") == [first, second, second[2:]]
    metrics = tmp_path / "run.jsonl"
    padded = ("--pad", "auto", "--metrics", str(metrics))
    assert run(script, *padded, graph=tmp_path / "typed") == [first, second, second[2:]]
    lines = [json.loads(line) for line in metrics.read_text().splitlines()]
    shapes = lines[0]["in_force"]["pad"]
    by_type, by_relation = shapes["nodes_by_type"], shapes["edges_by_relation"]
    assert by_type[0][0] == shapes["nodes"][0] and by_type[1][0] == 0, "only papers are seeds"
    assert shapes["nodes"] == [sum(level) for level in zip(*by_type, strict=True)]
    assert shapes["edges"] == [sum(layer) for layer in zip(*by_relation, strict=True)] and len(by_relation) == 2
    batches = [line for line in lines if line["event"] == "batch"]
    assert batches and all(batch["padded"] for batch in batches) and lines[-1]["unpadded"] == 0
    assert all(sum(batch["nodes_by_type"].values()) < sum(shapes["nodes"]) for batch in batches)
    monkeypatch.setenv("LD_LIBRARY_PATH", simulator["LD_LIBRARY_PATH"])
    for options in ((), ("--pad", "auto")):
        assert run(script, "--device", "cuda:0", *options, graph=tmp_path / "typed") == [first, second, second[2:]]


def test_val_is_a_name_of_valid(run):
    script = """
session = uvatrain.attach("val")
say(session.split)
say([batch.hash for batch in session])
try:
    uvatrain.attach("valid")
except uvatrain.UvatrainError as error:
    say(str(error))
try:
    uvatrain.attach(3)
except TypeError as error:
    say(str(error))
"""
    split, seen, again, wrong = run(script)
    assert split == "valid" and len(seen) > 0
    assert "attach('valid') was called before" in again and "split is a int" in wrong


def test_features_come_in_the_type_that_the_launcher_was_given(run, tmp_path):
    graph = write_graph(tmp_path / "halves", dtype="float16")
    script = """
import torch
session = uvatrain.attach()
for batch in session:
    rows = session.dataset.features[batch.input_nodes]
    assert rows.dtype == torch.float16 and torch.equal(batch.x, rows.to(batch.x.dtype))
    say(str(batch.x.dtype))
"""
    for options, dtype in [
        ((), "torch.float16"),
        (("--feature-type", "table"), "torch.float16"),
        (("--feature-type", "float32"), "torch.float32"),
    ]:
        assert run(script, *options, graph=graph) == [dtype] * BATCHES


def test_epochs_breaks_and_states_are_as_a_loaders(run, graph):
    script = """
train = uvatrain.attach()
train.set_epoch(2)
for batch in train:
    if batch.index == 1:
        state = train.state_dict()
    if batch.index == 2:
        break
say([batch.hash for batch in train])
train.load_state_dict(state)
say([batch.hash for batch in train])
with uvatrain.Loader(train.dataset.path, fanouts=(4, 3), batch_size=64, seed=3) as loader:
    loader.load_state_dict(state)
    say([batch.hash for batch in loader])
try:
    train.load_state_dict(dict(state, seed=4))
except ValueError as error:
    say(str(error))
"""
    epochs = expected(graph, "train", 4)
    third, rest, of_loader, refused = run(script)
    assert third == epochs[3] and rest == of_loader == epochs[2][2:] and "seed is another" in refused


def test_validation_may_run_in_the_middle_of_an_epoch(run, graph):
    script = """
train, valid = uvatrain.attach(), uvatrain.attach("valid")
seen = []
for batch in train:
    seen.append(batch.hash)
    if batch.index == 2:
        seeds = [seed for other in valid for seed in other.seeds.tolist()]
        assert len(seeds) == 70
        # It has been more than a step.
        try:
            batch.x
        except uvatrain.BatchGone as error:
            say(str(error))
say(seen)
"""
    gone, seen = run(script)
    assert "batch 2 of epoch 0 (train) is gone" in gone and seen == expected(graph, "train", 1)[0]


def test_a_tensor_kept_after_an_epoch_does_not_block_its_validation(run, graph):
    script = """
train, valid = uvatrain.attach(), uvatrain.attach("valid")
for epoch in range(3):
    for batch in train:
        x = batch.x
    for batch in valid:
        x = batch.x
    say(batch.hash)
"""
    assert run(script) == [epoch[-1] for epoch in expected(graph, "valid", 3)]


def test_a_tensor_that_blocks_a_jump_is_named_in_the_error(run):
    script = """
train = uvatrain.attach()
for batch in train:
    x = batch.x
    break
train.set_epoch(7)
iteration = iter(train)
try:
    next(iteration)
except uvatrain.SlotInUse as error:
    say(str(error))
del x
say(next(iteration).epoch)
"""
    told, epoch = run(script)
    assert "to continue at another place" in told and "del" in told and epoch == 7


def test_a_script_that_validates_after_every_epoch_stops_jumping(run):
    script = """
train, valid = uvatrain.attach(), uvatrain.attach("valid")
skipped = []
for epoch in range(6):
    for session in (train, valid):
        for batch in session:
            pass
    skipped.append(train.stats()["skipped"])
say(skipped)
for epoch in range(4):
    for batch in train:
        pass
    skipped.append(train.stats()["skipped"])
say(skipped[6:])
"""
    skipped, without = run(script)
    assert len(set(skipped)) == 1
    # Validation that does not come any more is expected once.
    assert len(set(without[1:])) == 1


def test_the_error_for_a_kept_tensor_advises_to_clone_it(run):
    script = """
kept = []
try:
    for batch in uvatrain.attach():
        kept.append(batch.x)
except uvatrain.SlotInUse as error:
    say([len(kept), str(error)])
"""
    ((count, message),) = run(script)
    assert count == 3 and "batch 0 of epoch 0 (train)" in message and "--slots (3 now)" in message
    ((count, message),) = run(script, "--slots", "2")
    assert count == 2 and "--slots (2 now)" in message


def test_errors_of_attaching_are_reported(run):
    script = """
def refused(split="train"):
    try:
        uvatrain.attach(split)
    except (uvatrain.UvatrainError, ValueError) as error:
        return type(error).__name__ + ": " + str(error)

say(refused("all"))
train = uvatrain.attach()
say(refused())
child = os.fork()
if child == 0:
    say(refused())
    try:
        next(iter(train))
    except uvatrain.UvatrainError as error:
        say(str(error))
    os._exit(0)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
train.close()
say(refused())
"""
    wrong_split, twice, fork, use_in_fork, closed = run(script)
    assert "ValueError" in wrong_split and "train, valid or test" in wrong_split
    assert "UvatrainError" in twice and "called before" in twice
    assert "fork" in fork and "only that one takes batches" in fork
    assert "in its fork" in use_in_fork
    assert "before the last one is closed" in closed


def test_outside_of_a_run_attach_says_how_it_is_started():
    script = """
import uvatrain
try:
    uvatrain.attach()
except uvatrain.UvatrainError as error:
    print(error)
"""
    ended = run_python(script)
    assert ended.returncode == 0 and "uvatrain run DATA --fanouts 15,10,5 -- python train.py" in ended.stdout
    ended = run_python(script, UVATRAIN_ATTACH="0.0.1:1:3:4")
    assert ended.returncode == 0 and "0.0.1" in ended.stdout and "the same version" in ended.stdout


def test_an_exception_in_the_loop_ends_the_run_with_its_traceback(run):
    script = """
for batch in uvatrain.attach():
    if batch.index == 2:
        raise ArithmeticError("of my own")
"""
    run(script, code=1)
    assert "ArithmeticError: of my own" in run.complaints and "Traceback" in run.complaints


def test_a_session_that_is_closed_takes_no_more_and_says_so(run):
    script = """
train, valid = uvatrain.attach("train"), uvatrain.attach("valid")
next(iter(train))
train.close()
try:
    next(iter(train))
except uvatrain.UvatrainError as error:
    assert "closed" in str(error)
    say(next(iter(valid)).index)
valid.close()
try:
    uvatrain.attach("test")
except uvatrain.UvatrainError as error:
    assert "before the last one is closed" in str(error)
    say(1)
"""
    assert run(script) == [0, 1]


@pytest.mark.parametrize(
    "end",
    [
        "",
        "next(iter(train))",
        "train.close()",
        "for batch in train: break",
        "sys.kept = next(iter(train)).x",
        "with train: next(iter(train))",
        "uvatrain.attach('valid').close(); [batch for batch in train]",
    ],
)
def test_a_script_may_end_at_any_point(run, end):
    run(f"train = uvatrain.attach()\n{end}")


def test_an_interrupt_of_the_launcher_is_a_keyboard_interrupt(run):
    script = """
train = uvatrain.attach()
steps = 0
try:
    while True:
        for batch in train:
            steps += 1
            if steps == 3:
                # The launcher alone gets it: the script is notified with one of its next batches.
                os.kill(os.getppid(), 2)
except KeyboardInterrupt:
    say("interrupted")
    raise
"""
    assert run(script, code=128 + signal.SIGINT) == ["interrupted"]


def test_a_script_slower_than_the_run_is_interrupted_too(run):
    script = """
import time
train = uvatrain.attach()
iteration = iter(train)
next(iteration)
os.kill(os.getppid(), 2)
try:
    while True:
        for batch in train:
            # What a step takes: the next batch is always there.
            time.sleep(0.02)
except KeyboardInterrupt:
    say("interrupted")
    raise
"""
    assert run(script, code=128 + signal.SIGINT) == ["interrupted"]


def test_a_role_that_dies_is_a_peer_that_died(run):
    script = """
import pathlib
def children(process):
    return pathlib.Path(f"/proc/{process}/task/{process}/children").read_text().split()
train = uvatrain.attach()
iteration = iter(train)
next(iteration)
for child in children(os.getppid()):
    if b"producer" in pathlib.Path(f"/proc/{child}/cmdline").read_bytes():
        os.kill(int(child), 9)
try:
    while True:
        for batch in train:
            pass
except uvatrain.PeerDied as error:
    say(str(error))
    sys.exit(3)
"""
    (told,) = run(script, code=1)
    assert told and "producer" in run.complaints
