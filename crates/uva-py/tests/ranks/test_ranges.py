"""Ranks that have a part of the feature table each, and get the other rows from each other."""

import json
import os
import re
import subprocess
from pathlib import Path

import pytest
import torch
from forked import Forked
from graphs import write_graph

import uvatrain

WORKER = Path(__file__).with_name("ranges_worker.py")


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A dataset of 5 training and 5 validation batches, which no number of ranks below divides evenly."""
    return write_graph(tmp_path_factory.mktemp("ranges") / "graph", splits=(300, 270, 30), dim=5)


@pytest.fixture(scope="module")
def ranges(whole: Path, uvatrain_program: Path):
    """The partition of the dataset into ranges."""

    def of(parts: int) -> Path:
        out = whole.parent / f"ranges-{parts}"
        if not out.exists():
            options = ["--parts", str(parts), "--layout", "ranges", "--method", "random"]
            subprocess.run([uvatrain_program, "partition", whole, out, *options], check=True, capture_output=True)
        return out

    return of


def run(path: Path, out: Path, ranks: int, expect: tuple[int, ...] = (0,), **options: object) -> dict[int, dict]:
    """What each rank wrote down. Ranks are started without torchrun, which would end the others where one dies."""
    out.mkdir()
    environment = dict(
        os.environ,
        GLOO_SOCKET_IFNAME="lo",
        OMP_NUM_THREADS="1",
        WORLD_SIZE=str(ranks),
        MASTER_ADDR="127.0.0.1",
        TORCHELASTIC_USE_AGENT_STORE="True",
    )
    store = torch.distributed.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    environment["MASTER_PORT"] = str(store.port)
    processes = [
        Forked(
            str(WORKER),
            [str(path), str(out), json.dumps({"batch_size": 64, **options})],
            Path.cwd(),
            dict(environment, RANK=str(rank)),
        )
        for rank in range(ranks)
    ]
    try:
        for process in processes:
            if options.get("fault") == "stop" and process is processes[1]:
                continue
            _, stderr = process.communicate(timeout=120)
            assert process.returncode in expect, stderr
    finally:
        for process in processes:
            process.kill()
            process.wait()
    files = {rank: out / f"rank{rank}.json" for rank in range(ranks)}
    return {rank: json.loads(file.read_text()) for rank, file in files.items() if file.exists()}


@pytest.mark.parametrize(
    "ranks, options",
    [
        (2, {}),
        pytest.param(3, {}, marks=pytest.mark.long),
        pytest.param(4, {}, marks=pytest.mark.long),
        (3, {"aggregate": "mean"}),
        (3, {"graph": "divided"}),
    ],
)
def test_batches_of_ranks_with_a_part_each_are_those_of_the_whole_dataset(
    whole: Path, ranges, tmp_path: Path, ranks: int, options: dict
):
    divided = run(ranges(ranks), tmp_path / "divided", ranks, part="rank", **options)
    exchanged = [record.pop("exchanged") for record in divided.values()]
    lists = [record.pop("lists") for record in divided.values()]
    is_divided = options.pop("graph", "copied") == "divided"
    with_whole_tables = run(whole, tmp_path / "whole", ranks, **options)
    assert [record.pop("exchanged") or record.pop("lists") for record in with_whole_tables.values()] == [None] * ranks
    assert divided == with_whole_tables
    # Ranks may be at different calls when they report, so that others have not yet counted what one received as sent.
    for counts in exchanged:
        assert all(counts[name] > 0 for name in ("own_rows", "remote_rows", "given_rows", "sent_bytes", "received_bytes"))
        assert 0 < counts["met_s"] < counts["waited_s"]
    for counts in lists:
        names = ("own_lists", "remote_lists", "given_lists", "sent_bytes", "received_bytes")
        assert counts is None if not is_divided else all(counts[name] > 0 for name in names)
    assert all(record["said"] is None for record in divided.values())
    # As many as one process has, but for the training batches that no number of ranks divides.
    seen = [batch[:4] for record in divided.values() for batch in record["seen"]]
    of_one = [batch[:4] for batch in run(whole, tmp_path / "one", 1)[0]["seen"]]
    assert len(seen) == 2 * (5 // ranks * ranks + 5) and len(of_one) == 20
    assert all(batch in of_one for batch in seen)


@pytest.mark.parametrize(
    "ranks, valid, options",
    [
        (2, 60, {}),
        (2, 60, {"graph": "divided"}),
        (3, 90, {"graph": "divided", "remote_cache": 600 * 4 + 50 * 20}),
        pytest.param(3, 1, {}, marks=pytest.mark.long),
    ],
)
def test_a_rank_without_any_batch_of_a_split_serves_the_others(tmp_path: Path, uvatrain_program: Path, ranks, valid, options):
    whole = write_graph(tmp_path / "graph", splits=(300, valid, 30), dim=5)
    partition = [uvatrain_program, "partition", whole, tmp_path / "ranges", "--parts", str(ranks), "--layout", "ranges"]
    subprocess.run([*partition, "--method", "random"], check=True, capture_output=True)
    divided = run(tmp_path / "ranges", tmp_path / "divided", ranks, part="rank", **options)
    with_whole_tables = run(whole, tmp_path / "whole", ranks)
    for rank, record in divided.items():
        assert (record["said"], record["seen"]) == (None, with_whole_tables[rank]["seen"])
    of_split = [[batch[0] for batch in record["seen"]].count("valid") for record in divided.values()]
    batches = -(-valid // 64)
    assert of_split == [2 if rank < batches else 0 for rank in range(ranks)]


def test_copies_of_hot_rows_spare_their_exchange_and_change_no_batch(ranges, tmp_path: Path):
    plain = run(ranges(2), tmp_path / "plain", 2, part="rank")
    # The map takes 4 bytes for each of the 600 nodes, a row 20: room for 150 of some 300 rows of the other rank.
    cached = run(ranges(2), tmp_path / "cached", 2, part="rank", remote_cache=600 * 4 + 150 * 20)
    for one, other in zip(plain.values(), cached.values(), strict=True):
        assert one["seen"] == other["seen"]
        assert one["exchanged"]["cached_rows"] == 0
        counts = other["exchanged"]
        spared = counts["cached_rows"] / (counts["cached_rows"] + counts["remote_rows"])
        # Room for half of them, and more than half of the reads.
        assert 0.5 < spared < 1, spared


@pytest.mark.parametrize("graph", [pytest.param("copied", marks=pytest.mark.long), "divided"])
def test_a_rank_that_is_killed_is_named_by_the_others(ranges, tmp_path: Path, graph: str):
    records = run(ranges(4), tmp_path / "out", 4, (0, -9), part="rank", batch_size=16, fault="kill", graph=graph)
    assert sorted(records) == [0, 2, 3]
    for record in records.values():
        kind, message, seconds = record["said"]
        assert kind == "UvatrainError" and "rank 1 has ended" in message, message
        # Well below the 300 s after which a silent rank is given up.
        assert seconds < 30


@pytest.mark.parametrize("graph", ["copied", pytest.param("divided", marks=pytest.mark.long)])
def test_a_rank_that_is_stopped_is_named_after_the_timeout(ranges, tmp_path: Path, graph: str):
    records = run(
        ranges(4), tmp_path / "out", 4, part="rank", batch_size=16, fault="stop", exchange_timeout=3, graph=graph
    )
    assert sorted(records) == [0, 2, 3]
    for record in records.values():
        assert "rank 1 does not respond" in record["said"][1], record["said"]


def test_an_exception_on_one_rank_keeps_its_type_and_ends_the_others(ranges, tmp_path: Path):
    records = run(ranges(2), tmp_path / "out", 2, part="rank", batch_size=16, fault="raise")
    assert records[1]["said"][:2] == ["ValueError", "of the user's own"]
    assert "rank 1 has left" in records[0]["said"][1]


@pytest.mark.parametrize("graph", ["copied", "divided"])
def test_a_rank_that_closes_early_leaves_the_others_what_is_ready(ranges, tmp_path: Path, graph: str):
    records = run(ranges(2), tmp_path / "out", 2, part="rank", batch_size=16, fault="close", graph=graph)
    assert records[1]["said"] is None
    kind, message, _ = records[0]["said"]
    assert kind == "PeerDied" and "rank 1 has left the group" in message and "train batch" in message, message
    # It had those of the first epoch, the current one, and those that were ready.
    of_epoch = records[0]["batches"][0]
    assert of_epoch + 1 < sum(batch[0] == "train" for batch in records[0]["seen"]) < 2 * of_epoch


def test_a_rank_that_is_done_and_closes_takes_no_batch_from_a_slow_one(ranges, tmp_path: Path):
    slow = run(ranges(2), tmp_path / "slow", 2, part="rank", batch_size=16, fault="slow")
    plain = run(ranges(2), tmp_path / "plain", 2, part="rank", batch_size=16)
    for record in [*slow.values(), *plain.values()]:
        assert record["said"] is None and sum(batch[0] == "train" for batch in record["seen"]) == 2 * record["batches"][0]
    assert [record["seen"] for record in slow.values()] == [record["seen"] for record in plain.values()]


def test_a_partition_in_ranges_takes_a_process_group_and_each_rank_a_part(ranges, whole: Path, tmp_path: Path):
    path = ranges(2)
    with pytest.raises(ValueError, match='graph="divided"'):
        uvatrain.Loader(whole, fanouts=[2], batch_size=64, graph="divided")
    for options, message in [
        (dict(part=0), 'give part="rank"'),
        (dict(part="rank", rank=0, world_size=2), "init_process_group"),
        (dict(part="rank", rank=0, world_size=3), "2 parts"),
        (dict(part="rank", rank=0, world_size=2, exchange_timeout=0), "exchange_timeout"),
        (dict(part="rank", rank=0, world_size=2, graph="halved"), "copied"),
    ]:
        with pytest.raises(ValueError, match=message):
            uvatrain.Loader(path, fanouts=[2], batch_size=64, **options)


def test_what_a_divided_table_cannot_do_is_refused_by_name(ranges, whole: Path, tmp_path: Path):
    refused = [dict(prepare="whole"), dict(features="disk"), dict(edge_attr=True), dict(device="cuda")]
    records = run(ranges(2), tmp_path / "out", 2, part="rank", refused=refused)
    of_whole = uvatrain.Dataset(whole)
    for record in records.values():
        *messages, (fingerprint, nodes, dim, table) = record["seen"]
        for message, named in zip(messages, ["prepare", "features", "edge_attr|edge_feat", "device|GPU|driver"], strict=True):
            assert re.search(named, message), message
        # It has the graph, and no table.
        assert (fingerprint, nodes, dim) == (of_whole.fingerprint, of_whole.num_nodes, of_whole.feature_dim)
        assert "divided among ranks" in table
