"""Ranks on two machines: each in a network namespace of its own, joined by a cable of two virtual ends.

Needs `ip` and the right to make namespaces, and is left out where there are none. About 8 s a run: every rank imports torch.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from graphs import write_graph

import uvatrain

WORKER = Path(__file__).with_name("ranges_worker.py")
#: The end of the cable on each machine, and the addresses there.
END = "uvacable"
ADDRESSES = ("10.77.0.1", "10.77.0.2")


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True, text=True)


class Machines:
    """Two network namespaces with a cable between them."""

    def __init__(self) -> None:
        self.names = [f"uva{os.getpid()}-{number}" for number in range(2)]

    def set_up(self) -> None:
        for name in self.names:
            ip("netns", "add", name)
        first, second = self.names
        ip("-n", first, "link", "add", END, "type", "veth", "peer", "name", END, "netns", second)
        for name, address in zip(self.names, ADDRESSES, strict=True):
            ip("-n", name, "addr", "add", f"{address}/24", "dev", END)
            for link in ("lo", END):
                ip("-n", name, "link", "set", link, "up")

    def pull_the_cable(self) -> None:
        ip("-n", self.names[0], "link", "set", END, "down")

    def tear_down(self) -> None:
        for name in self.names:
            subprocess.run(["ip", "netns", "del", name], capture_output=True)

    def start(self, path: Path, out: Path, **options: object) -> list[subprocess.Popen[str]]:
        """A rank on each machine. The first one holds the store that both meet at."""
        out.mkdir()
        environment = dict(
            os.environ,
            GLOO_SOCKET_IFNAME=END,
            OMP_NUM_THREADS="1",
            WORLD_SIZE="2",
            MASTER_ADDR=ADDRESSES[0],
            MASTER_PORT="29500",
        )
        given = json.dumps({"batch_size": 64, "part": "rank", **options})
        return [
            subprocess.Popen(
                ["ip", "netns", "exec", name, sys.executable, WORKER, path, out, given],
                env=dict(environment, RANK=str(rank)),
                stderr=subprocess.PIPE,
                text=True,
            )
            for rank, name in enumerate(self.names)
        ]


@pytest.fixture
def machines() -> Iterator[Machines]:
    if shutil.which("ip") is None:
        pytest.skip("there is no `ip`")
    two = Machines()
    try:
        try:
            two.set_up()
        except subprocess.CalledProcessError as error:
            pytest.skip(f"no network namespaces here: {error.stderr.strip()}")
        yield two
    finally:
        two.tear_down()


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_graph(tmp_path_factory.mktemp("machines") / "graph", splits=(300, 270, 30), dim=5)


@pytest.fixture(scope="module")
def ranges(whole: Path, uvatrain_program: Path) -> Path:
    out = whole.parent / "ranges"
    options = ["--parts", "2", "--layout", "ranges", "--method", "random"]
    subprocess.run([uvatrain_program, "partition", whole, out, *options], check=True, capture_output=True)
    return out


def end(ranks: list[subprocess.Popen[str]]) -> None:
    for rank in ranks:
        rank.kill()
        rank.wait()


def test_ranks_on_two_machines_have_the_batches_of_one_process(
    machines: Machines, whole: Path, ranges: Path, tmp_path: Path
):
    ranks = machines.start(ranges, tmp_path / "out", graph="divided")
    try:
        for rank in ranks:
            _, stderr = rank.communicate(timeout=120)
            assert rank.returncode == 0, stderr
    finally:
        end(ranks)
    records = [json.loads((tmp_path / f"out/rank{rank}.json").read_text()) for rank in range(2)]
    assert all(record["said"] is None and record["exchanged"]["remote_rows"] > 0 for record in records)
    seen = {tuple(batch[:3]): batch[3] for record in records for batch in record["seen"]}
    expected = {}
    for split in ("train", "valid"):
        with uvatrain.Loader(whole, split=split, fanouts=[4, 3], batch_size=64, seed=3, rank=0, world_size=1) as loader:
            for epoch in range(2):
                loader.set_epoch(epoch)
                expected |= {(batch.split, batch.epoch, batch.index): batch.hash for batch in loader}
    # No rank has the fifth training batch of an epoch.
    assert len(seen) == 2 * (4 + 5) and seen.items() <= expected.items()


@pytest.mark.long
def test_a_cable_that_is_pulled_ends_both_ranks_after_the_timeout(machines: Machines, ranges: Path, tmp_path: Path):
    # The second rank stops in its second epoch, so that the cable is pulled while the first one waits for it.
    ranks = machines.start(ranges, tmp_path / "out", batch_size=16, fault="stop", exchange_timeout=5)
    try:
        until = time.monotonic() + 60
        stat = Path(f"/proc/{ranks[1].pid}/stat")
        while stat.read_text().rpartition(")")[2].split()[0] != "T":
            assert time.monotonic() < until and ranks[1].poll() is None
            time.sleep(0.01)
        machines.pull_the_cable()
        ranks[1].send_signal(signal.SIGCONT)
        began = time.monotonic()
        for rank in ranks:
            _, stderr = rank.communicate(timeout=60)
            assert rank.returncode is not None, stderr
        assert time.monotonic() - began < 45
    finally:
        end(ranks)
    said = [json.loads((tmp_path / f"out/rank{rank}.json").read_text())["said"] for rank in range(2)]
    # The second one has lost the store as well, which the first one holds.
    assert said[0] is not None and "rank 1" in said[0][1], said
    assert said[1] is not None and "rank 0" in said[1][1], said
