"""Loaders over the parts of a partitioned dataset."""

import json
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from graphs import OPTIONS

import uvatrain


@pytest.fixture(scope="module")
def parts(graph: Path, uvatrain_program: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The small graph in three parts, of which one is smaller."""
    directory = tmp_path_factory.mktemp("parts")
    nodes = len(np.load(graph / "indptr.npy")) - 1
    np.save(directory / "map.npy", (np.arange(nodes) * 7 % 10 // 4).astype(np.uint16)[::-1].copy())
    out = directory / "out"
    command = [uvatrain_program, "partition", graph, out, "--map", directory / "map.npy", "--hops", "2"]
    subprocess.run(command, check=True, capture_output=True)
    return out


def train_nodes(parts: Path) -> list[int]:
    return json.loads((parts / "partition.json").read_text())["train"]


def test_every_part_has_as_many_batches_which_are_those_of_the_graph(graph: Path, parts: Path):
    options = dict(OPTIONS, batch_size=20)
    train = train_nodes(parts)
    assert len(set(train)) > 1
    for drop_last, expected in [(False, -(-min(train) // 20)), (True, min(train) // 20)]:
        for number in range(3):
            with uvatrain.Loader(parts, part=number, **options, drop_last=drop_last) as loader:
                assert (len(loader), loader.part, loader.rank, loader.world_size) == (expected, number, 0, 1)
                # Epochs follow one another though the part has more batches.
                here = [(batch.epoch, batch.index, batch.hash) for _ in range(2) for batch in loader]
                assert len(here) == 2 * expected
            part = parts / f"part-{number}"
            seeds = np.load(part / "orig_id.npy")[np.load(part / "train_idx.npy")]
            with uvatrain.Loader(graph, input_nodes=seeds, shuffle=True, **options) as whole:
                there = {(batch.epoch, batch.index): batch.hash for _ in range(2) for batch in whole}
            assert all(there[epoch, index] == digest for epoch, index, digest in here)


def test_a_rank_takes_its_own_part_and_evaluation_has_all_of_it(parts: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("RANK", "2")
    monkeypatch.setenv("WORLD_SIZE", "3")
    with uvatrain.Loader(parts, part="rank", **OPTIONS) as loader:
        assert loader.part == 2 and Path(loader.dataset.path).name == "part-2"
    with uvatrain.Loader(parts, part="rank", split="valid", **dict(OPTIONS, batch_size=3)) as loader:
        assert len(loader) == -(-len(np.load(parts / "part-2" / "valid_idx.npy")) // 3)
    assert uvatrain.Loader(parts, part="rank", rank=1, world_size=3, **OPTIONS).part == 1


def test_missing_parts_and_ranks_that_differ_from_parts_are_refused(
    graph: Path, parts: Path, tmp_path: Path
):
    def refused(path: object, part: object, **options: object) -> str:
        with pytest.raises((ValueError, TypeError, uvatrain.UvatrainError)) as raised:
            uvatrain.Loader(path, part=part, **{**OPTIONS, **options})
        return f"{getattr(raised.value, 'field', None)}: {raised.value}"

    assert "part: part=\"rank\": " in (said := refused(parts, "rank")) and "3 parts, and there are 1 rank" in said
    assert "there are 2 ranks" in refused(parts, "rank", rank=0, world_size=2)
    assert refused(parts, 3) == "part: part 3: there are the parts 0 to 2"
    for wrong in (-1, True, 1.0, "first"):
        assert refused(parts, wrong).startswith("part: ")
    assert "partition.json is not there" in refused(graph, 0)
    assert refused({}, 0).startswith("path: path is a dict")
    assert refused(parts, 0, fanouts=(3, 3, 3)).startswith("fanouts: fanouts: batches reach 3 in-hops")
    with pytest.raises(ValueError, match="near the border"):
        uvatrain._core.NeighborSampler(uvatrain.Dataset(parts / "part-0")._core, [2, 2])

    # Directories that changed places.
    shutil.copytree(parts, tmp_path / "swapped")
    (tmp_path / "swapped" / "part-0").rename(tmp_path / "swapped" / "away")
    (tmp_path / "swapped" / "part-1").rename(tmp_path / "swapped" / "part-0")
    assert "is part 1, but must be part 0" in refused(tmp_path / "swapped", 0)
    edited = tmp_path / "swapped" / "partition.json"
    edited.write_text(json.dumps({**json.loads(edited.read_text()), "method": "another"}))
    assert "it is not the partition that part 1 was written with" in refused(tmp_path / "swapped", 0)


def test_a_part_opens_by_its_description_and_a_range_needs_several_ranks(
    graph: Path, parts: Path, uvatrain_program: Path, tmp_path: Path
):
    def refused(path: Path) -> str:
        with pytest.raises((ValueError, uvatrain.UvatrainError)) as raised:
            uvatrain.Loader(path, part=0, **OPTIONS)
        return f"{getattr(raised.value, 'field', None)}: {raised.value}"

    # A link to a part elsewhere: the description next to that one is its own, but not what was read here.
    (tmp_path / "linked").mkdir()
    (tmp_path / "linked" / "part-0").symlink_to(parts / "part-0")
    description = json.loads((parts / "partition.json").read_text())
    (tmp_path / "linked" / "partition.json").write_text(json.dumps({**description, "method": "another"}))
    assert "was written with another partition.json" in refused(tmp_path / "linked")
    # What no partition has.
    (tmp_path / "linked" / "partition.json").write_text(json.dumps({**description, "nodes": [2**62] * 3}))
    assert refused(tmp_path / "linked").startswith("path: path: ") and '"nodes"' in refused(tmp_path / "linked")
    # Training nodes that are not as many as the description says.
    shutil.copytree(parts, tmp_path / "fewer")
    file = tmp_path / "fewer" / "part-0" / "train_idx.npy"
    np.save(file, np.load(file)[1:])
    said = refused(tmp_path / "fewer")
    assert said.startswith("part: part: ") and f'"train" of partition.json is {train_nodes(parts)[0]}' in said

    out = tmp_path / "ranges"
    command = [uvatrain_program, "partition", graph, out, "--map", parts, "--layout", "ranges"]
    subprocess.run(command, check=True, capture_output=True)
    said = refused(out)
    assert said.startswith("part: part is 0, and the parts of ") and 'give part="rank"' in said
