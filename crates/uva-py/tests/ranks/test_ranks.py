"""Ranks that divide an epoch."""

import pytest
from conftest import run_python_well
from graphs import OPTIONS, hashes

import uvatrain


@pytest.mark.parametrize("world_size", [1, 2, 3, 7])
@pytest.mark.parametrize("split", ["train", "test"])
def test_ranks_divide_an_epoch_and_their_batches_are_the_same(graph, world_size, split):
    options = dict(OPTIONS, batch_size=20, split=split)
    with uvatrain.Loader(graph, **options) as alone:
        whole = hashes(alone)
    parts = []
    for rank in range(world_size):
        with uvatrain.Loader(graph, **options, rank=rank, world_size=world_size) as loader:
            assert (loader.rank, loader.world_size) == (rank, world_size)
            numbered = [(batch.index, batch.hash) for batch in loader]
            assert len(numbered) == len(loader)
            assert all(whole[index] == hash and index % world_size == rank for index, hash in numbered)
            parts.append(numbered)
    counts = {len(part) for part in parts}
    if split == "train":
        # As many for each: no rank has the rest.
        assert counts == {len(whole) // world_size}
    else:
        assert sum(len(part) for part in parts) == len(whole)
    assert len({index for part in parts for index, _ in part}) == sum(len(part) for part in parts)


def test_the_environment_of_torchrun_is_read(graph):
    script = """
import sys, uvatrain
loader = uvatrain.Loader(sys.argv[1], fanouts=(2,), batch_size=20)
print(loader.rank, loader.world_size, len(loader))
assert "torch" not in sys.modules
"""
    assert run_python_well(script, graph, RANK="1", WORLD_SIZE="4").split() == ["1", "4", "3"]
    wrong = (
        "import sys, uvatrain\ntry: uvatrain.Loader(sys.argv[1])\nexcept ValueError as error: print(error)"
    )
    assert "RANK='one'" in run_python_well(wrong, graph, RANK="one", WORLD_SIZE="4")


def test_torch_distributed_is_asked_where_it_runs(graph):
    script = """
import sys, torch.distributed, uvatrain
torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
loader = uvatrain.Loader(sys.argv[1], fanouts=(2,), batch_size=20)
print(loader.rank, loader.world_size)
torch.distributed.destroy_process_group()
"""
    # The environment says something else, and is not asked.
    assert run_python_well(script, graph, RANK="3", WORLD_SIZE="4").split() == ["0", "1"]
