"""Several ranks under torchrun: what each gets, and that training together is training on the whole.

About 10 s a run of torchrun: every rank imports torch.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

import uvatrain
from conftest import a_free_port
from ddp_worker import loss_of, model_for
from graphs import write_graph

WORKER = Path(__file__).with_name("ddp_worker.py")
STANDBY_WORKER = Path(__file__).with_name("standby_worker.py")
HOP_WORKER = Path(__file__).with_name("hop_ddp_worker.py")
EPOCHS = 2
NEVER = 10**9


def torchrun(*args: object) -> list[str]:
    return [sys.executable, "-m", "torch.distributed.run", *map(str, args)]


def environment() -> dict[str, str]:
    # Ranks talk over loopback, whatever other interfaces there are.
    return dict(os.environ, GLOO_SOCKET_IFNAME="lo", OMP_NUM_THREADS="1")


def run_together(ranks: int, out: Path, worker: Path, *args: object) -> list:
    """What each rank wrote down. `args`: of the worker."""
    out.mkdir()
    command = torchrun("--standalone", "--nproc-per-node", ranks, worker, *args)
    ended = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=300)
    assert ended.returncode == 0, ended.stderr
    return records(out, ranks)


def records(out: Path, ranks: int) -> list:
    return [json.loads((out / f"rank{rank}.json").read_text()) for rank in range(ranks)]


def alone(data: Path, batch_size: int = 64) -> dict[tuple[int, int], str]:
    """Every batch of the epochs, as one process has them."""
    with uvatrain.Loader(data, fanouts=[4, 3], batch_size=batch_size, seed=3, rank=0, world_size=1) as loader:
        return {(batch.epoch, batch.index): batch.hash for _ in range(EPOCHS) for batch in loader}


@pytest.fixture(scope="module")
def two_ranks(graph: Path, tmp_path_factory: pytest.TempPathFactory) -> list[dict]:
    out = tmp_path_factory.mktemp("ddp") / "two"
    return run_together(2, out, WORKER, graph, out, EPOCHS, NEVER)


def test_ranks_get_equal_disjoint_batches_that_do_not_depend_on_the_ranks(
    graph: Path, two_ranks: list[dict]
):
    expected = alone(graph)
    an_epoch = len(expected) // EPOCHS
    seen = {}
    for record in two_ranks:
        assert record["batches"] == an_epoch // 2
        for epoch in range(EPOCHS):
            assert sum(e == epoch for e, _, _ in record["seen"]) == an_epoch // 2
        for epoch, index, digest in record["seen"]:
            assert index % 2 == record["rank"]
            assert (epoch, index) not in seen
            seen[epoch, index] = digest
    assert len(seen) == an_epoch // 2 * 2 * EPOCHS
    assert all(expected[place] == digest for place, digest in seen.items())


def test_training_together_is_training_on_both_batches_at_once(graph: Path, two_ranks: list[dict]):
    loaders = [
        uvatrain.Loader(graph, fanouts=[4, 3], batch_size=64, seed=3, rank=rank, world_size=2) for rank in range(2)
    ]
    model = model_for(loaders[0].dataset)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(EPOCHS):
        for batches in zip(*loaders):
            optimizer.zero_grad()
            (sum(loss_of(model, batch) for batch in batches) / 2).backward()
            optimizer.step()
    for loader in loaders:
        loader.close()
    for record in two_ranks:
        for ours, theirs in zip(model.parameters(), record["parameters"], strict=True):
            torch.testing.assert_close(torch.tensor(theirs), ours.detach().flatten(), rtol=1e-4, atol=1e-5)


@pytest.mark.long
def test_two_machines_with_a_dataset_copy_each_train_as_one_machine(
    graph: Path, two_ranks: list[dict], tmp_path: Path
):
    out, port = tmp_path / "out", a_free_port()
    out.mkdir()
    machines = []
    for machine in range(2):
        copy = tmp_path / f"machine{machine}"
        shutil.copytree(graph, copy)
        command = torchrun("--nnodes", 2, "--node-rank", machine, "--nproc-per-node", 1)
        command += torchrun("--master-addr", "127.0.0.1", "--master-port", port)[3:]
        command += map(str, [WORKER, copy, out, EPOCHS, NEVER])
        machines.append(subprocess.Popen(command, env=environment(), stderr=subprocess.PIPE, text=True))
    for machine in machines:
        _, stderr = machine.communicate(timeout=300)
        assert machine.returncode == 0, stderr
    for ours, theirs in zip(records(out, 2), two_ranks, strict=True):
        assert ours["seen"] == theirs["seen"]
        assert ours["parameters"] == theirs["parameters"]


def test_a_rank_that_dies_ends_the_run_and_leaves_nothing(graph: Path, tmp_path: Path):
    command = torchrun("--standalone", "--nproc-per-node", 2, WORKER, graph, tmp_path, EPOCHS, 3)
    run = subprocess.Popen(
        command, env=environment(), stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    _, stderr = run.communicate(timeout=300)
    assert run.returncode != 0
    assert "SIGKILL" in stderr
    # The ranks are torchrun's children and it has waited for them; the loaders' memory has no name and is freed with them.
    left = [
        pid
        for pid in filter(str.isdigit, os.listdir("/proc"))
        if is_of(pid, str(tmp_path).encode()) and int(pid) != os.getpid()
    ]
    assert left == []


def is_of(pid: str, mark: bytes) -> bool:
    try:
        return mark in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


def under_the_launcher(
    uvatrain_program: Path, graph: Path, out: Path, dies_at: int, ranks: str = "--ranks 2"
) -> subprocess.CompletedProcess:
    options = f"--fanouts 4,3 --batch-size 64 --seed 3 --device cpu {ranks}".split()
    command = torchrun("--standalone", "--nproc-per-node", 2, WORKER, "attach", out, EPOCHS, dies_at)
    command = [uvatrain_program, "run", graph, *options, "--", *command]
    return subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=300)


# With samplers of their own, and with one that both share.
@pytest.mark.parametrize("ranks", ["--ranks 2", pytest.param("--roles 1:2", marks=pytest.mark.long)])
def test_ranks_under_one_launcher_train_to_the_bit_as_ranks_with_loaders(
    graph: Path, two_ranks: list[dict], uvatrain_program: Path, tmp_path: Path, ranks: str
):
    ended = under_the_launcher(uvatrain_program, graph, tmp_path, NEVER, ranks)
    assert ended.returncode == 0, ended.stderr
    assert records(tmp_path, 2) == two_ranks


def test_a_rank_that_dies_under_the_launcher_is_named_and_leaves_nothing(
    graph: Path, uvatrain_program: Path, tmp_path: Path
):
    ended = under_the_launcher(uvatrain_program, graph, tmp_path, 3)
    assert ended.returncode == 1, ended.stderr
    assert "rank 1 (process " in ended.stderr.split("uvatrain: ")[-1], ended.stderr
    # Processes that held stderr have ended; nothing else may name the folder.
    left = [pid for pid in filter(str.isdigit, os.listdir("/proc")) if is_of(pid, str(tmp_path).encode())]
    assert left == []


def steps(trainers: int, standby: int, since: int, batches: int, at: int = 0) -> list[range]:
    """The batches of each step of an epoch whose last ranks join at a batch, or of what is left of it from `at` on."""
    found = []
    while True:
        ranks = trainers + standby if at >= since and batches - at >= trainers + standby else trainers
        if batches - at < ranks:
            return found
        found.append(range(at, at + ranks))
        at += ranks


@pytest.mark.long
def test_standby_ranks_join_within_the_epoch_and_train_as_one_process(
    graph: Path, uvatrain_program: Path, tmp_path: Path
):
    batch_size = 16
    expected = alone(graph, batch_size)
    # At one of these batches they join so that two are left at the end, for the ranks that train throughout.
    of_each = {since: steps(2, 1, since, len(expected) // EPOCHS) for since in (5, 7, 9)}
    [(since, an_epoch)] = [(since, found) for since, found in of_each.items() if len(found[-1]) == 2]
    assert [len(step) for step in an_epoch[-3:]] == [3, 3, 2]
    command = torchrun("--standalone", "--nproc-per-node", 3, STANDBY_WORKER, tmp_path, EPOCHS)
    options = f"--fanouts 4,3 --batch-size {batch_size} --seed 3 --device cpu --roles 1:2 --switch {since}".split()
    command = [uvatrain_program, "run", graph, *options, "--", *command]
    ended = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=300)
    assert ended.returncode == 0, ended.stderr
    ranks = records(tmp_path, 3)

    for rank, record in enumerate(ranks):
        own = [(epoch, step[rank], len(step)) for epoch in range(EPOCHS) for step in an_epoch if rank < len(step)]
        assert [(epoch, index, ranks) for epoch, index, _, ranks in record["seen"]] == own
        assert all(expected[epoch, index] == digest for epoch, index, digest, _ in record["seen"])
        assert (record["trainers"], record["batches"]) == (2, len(own) // EPOCHS)
    # A state of a rank that trains throughout is good for all, and for another number of them: the next step follows.
    assert ranks[0]["states"] == ranks[1]["states"]
    states = ranks[0]["states"][: len(an_epoch)]
    with uvatrain.Loader(graph, split="valid", fanouts=[4], batch_size=batch_size, rank=0, world_size=1) as loader:
        of_valid = len(loader)
    assert of_valid > 3
    for rank, record in enumerate(ranks):
        for done, rest in enumerate(record["rests"], 1):
            assert [index for _, index, _ in rest] == [step[rank] for step in an_epoch[done:] if rank < len(step)]
            assert all(expected[epoch, index] == digest for epoch, index, digest in rest)
        assert len(record["rests"]) == len(an_epoch)
        behind = steps(2, 1, since, len(expected) // EPOCHS, 6)
        assert record["of_plain"] == [step[rank] for step in behind if rank < len(step)]
        own = range(rank, of_valid, 2) if rank < 2 else range(0)
        assert record["valid_rests"] == [list(own[done:]) for done in range(1, len(own) + 1)]
    with uvatrain.Loader(graph, fanouts=[4, 3], batch_size=batch_size, seed=3, rank=0, world_size=1) as loader:
        for state, step in zip(states, an_epoch, strict=True):
            loader.load_state_dict(state)
            batch = next(iter(loader), None)
            is_last = step == an_epoch[-1]
            assert (batch is None) if is_last else (batch is not None and batch.index == step.stop)

    with uvatrain.Loader(graph, fanouts=[4, 3], batch_size=batch_size, seed=3, rank=0, world_size=1) as loader:
        model = model_for(loader.dataset)
        optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
        for _ in range(EPOCHS):
            batches = iter(loader)
            for step in an_epoch:
                optimizer.zero_grad()
                for _ in step:
                    (loss_of(model, next(batches)) / len(step)).backward()
                optimizer.step()
    for record in ranks[:2]:
        for ours, theirs in zip(model.parameters(), record["parameters"], strict=True):
            torch.testing.assert_close(torch.tensor(theirs), ours.detach().flatten(), rtol=1e-4, atol=1e-5)


@pytest.mark.long
def test_one_two_and_three_ranks_over_a_hop_set_have_the_same_losses(tmp_path: Path):
    hops = uvatrain.propagate(write_graph(tmp_path / "graph"), tmp_path / "hops", operator="sym,row", hops=2)
    losses = []
    for ranks in (1, 2, 3):
        out = tmp_path / f"{ranks}"
        each = run_together(ranks, out, HOP_WORKER, hops.path, out)
        assert all(one == each[0] for one in each)
        losses.append(torch.tensor(each[0]))
    # Two epochs of five steps, in which something is learned.
    assert len(losses[0]) == 10 and losses[0][-1] < losses[0][0]
    for one in losses[1:]:
        torch.testing.assert_close(one, losses[0], rtol=0, atol=1e-6)


def test_the_rank_is_that_of_the_environment_unless_it_is_given(graph: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "3")
    with uvatrain.Loader(graph, fanouts=[2], batch_size=64) as loader:
        assert (loader.rank, loader.world_size) == (1, 3)
        assert all(batch.index % 3 == 1 for batch in loader)
    with uvatrain.Loader(graph, fanouts=[2], batch_size=64, rank=0, world_size=1) as loader:
        assert (loader.rank, loader.world_size) == (0, 1)


@pytest.mark.parametrize("rank, world_size", [(2, 2), (-1, 2), (0, 0), (1, None), (None, 2)])
def test_a_rank_beyond_the_ranks_or_half_a_pair_is_refused(graph: Path, rank: int | None, world_size: int | None):
    with pytest.raises(ValueError, match="rank|world_size"):
        uvatrain.Loader(graph, fanouts=[2], batch_size=64, rank=rank, world_size=world_size)


@pytest.mark.parametrize("rank", [0, 2])
def test_fewer_batches_of_training_than_ranks_are_refused(graph: Path, tmp_path: Path, rank: int):
    uvatrain.propagate(graph, tmp_path / "hops", hops=1)
    place, said = dict(rank=rank, world_size=3), "batch_size 150: an epoch has 2 batches, fewer than the 3 ranks"
    with pytest.raises(ValueError, match=said) as refused:
        uvatrain.Loader(graph, fanouts=[2], batch_size=150, **place)
    assert refused.value.field == "batch_size"
    with pytest.raises(ValueError, match=said):
        uvatrain.HopLoader(tmp_path / "hops", batch_size=150, **place)
    # As many as ranks do, and of another split none is left out.
    with uvatrain.Loader(graph, fanouts=[2], batch_size=100, **place) as loader:
        assert len(list(loader)) == 1
    with uvatrain.Loader(graph, split="valid", fanouts=[2], batch_size=35, **place) as loader:
        assert len(list(loader)) == (1 if rank == 0 else 0)
