"""Numbers among arguments: True and False are refused, and numpy's integers are accepted."""

import numpy
import pytest
import torch
from graphs import OPTIONS, write_graph

import uvatrain

NUMBERS = [
    option
    for option in uvatrain._core._loader_options()
    if option["annotation"].startswith(("int", "float")) and option["group"] not in ("cache", "ranks")
]


@pytest.mark.parametrize("value", [True, False, numpy.True_])
@pytest.mark.parametrize("option", [*(option["name"] for option in NUMBERS), "host_cache", "gpu_cache"])
def test_a_bool_is_not_a_number(graph, option, value):
    with pytest.raises(TypeError, match=option) as raised:
        uvatrain.Loader(graph, **{**OPTIONS, option: value})
    assert raised.value.field == option


@pytest.mark.parametrize(
    "options",
    [
        dict(fanouts=(True,)),
        dict(fanouts=numpy.array([True, False])),
        dict(num_neighbors=[3, True]),
        dict(rank=True, world_size=2),
        dict(rank=0, world_size=True),
        dict(remote_cache=True),
    ],
)
def test_a_bool_is_not_a_number_in_a_sequence_either(graph, options):
    given = {name: value for name, value in OPTIONS.items() if "num_neighbors" not in options or name != "fanouts"}
    with pytest.raises(TypeError, match="is an integer, not bool"):
        uvatrain.Loader(graph, **{**given, **options})


def arrays(path):
    dataset = uvatrain.Dataset(path)
    names = ("indptr", "indices", "features", "labels", "train_idx")
    return {name: getattr(dataset, name) for name in names}


def neighbor_loader(path, **options):
    from uvatrain.pyg import NeighborLoader

    return NeighborLoader(path, **{"num_neighbors": [3], **options})


def neighbor_sampler(path, **options):
    from uvatrain.pyg import NeighborSampler

    return NeighborSampler(path, **{"num_neighbors": [3], **options})


def sampled(path, **options):
    return neighbor_sampler(path).sample(torch.arange(3), **{"epoch": 0, "batch": 0, **options})


def cached(path, **options):
    return uvatrain.CachedDataset(path, fanouts=(3,), batch_size=4).sample(torch.arange(3), **options)


def from_pyg(path, out, **options):
    from torch_geometric.data import Data

    return uvatrain.from_pyg(Data(x=torch.ones(3, 2), edge_index=torch.tensor([[0, 1], [1, 2]])), out, **options)


@pytest.mark.parametrize(
    ("call", "name"),
    [
        *((uvatrain.propagate, name) for name in ("hops", "seed", "memory", "threads")),
        (uvatrain.write_dataset, "classes"),
        *((uvatrain.infer, name) for name in ("batch_size", "slot_bytes")),
        *((uvatrain.HopLoader, name) for name in ("batch_size", "seed", "slots", "samplers", "chunk", "hops")),
        (neighbor_loader, "batch_size"),
        (neighbor_loader, "num_neighbors"),
        *((neighbor_sampler, name) for name in ("seed", "num_neighbors")),
        *((sampled, name) for name in ("epoch", "batch")),
        *((cached, name) for name in ("epoch", "batch")),
        (from_pyg, "split"),
    ],
)
def test_a_bool_is_not_a_number_in_other_calls_either(graph, tmp_path, call, name):
    positional, given = [graph], {}
    if call is uvatrain.propagate:
        positional = [graph, tmp_path / "out"]
    elif call is from_pyg:
        positional = [graph, tmp_path / "out"]
    elif call is uvatrain.write_dataset:
        positional, given = [tmp_path / "out"], arrays(graph)
    elif call is uvatrain.infer:
        positional = [[lambda x, edge_index: x[1]], graph]
    elif call is uvatrain.HopLoader:
        hops = uvatrain.propagate(graph, tmp_path / "hops", hops=1)
        positional, given = [hops], {"batch_size": 4, "shuffle": "chunks" if name == "chunk" else "full"}
    value = [True] if name in ("num_neighbors", "hops") and call is not uvatrain.propagate else True
    # infer has refused them by a ValueError before.
    with pytest.raises(ValueError if call is uvatrain.infer else TypeError, match=name) as raised:
        call(*positional, **{**given, name: value})
    assert raised.value.field == name


def test_numpys_integers_are_numbers(tmp_path):
    graph = write_graph(tmp_path / "graph")
    one = numpy.int64(1)
    assert uvatrain.propagate(graph, tmp_path / "hops", hops=one, seed=one, threads=one).num_hops == 2
    assert uvatrain.write_dataset(tmp_path / "out", **arrays(graph), classes=numpy.int32(9)).num_classes == 9
    assert sampled(graph, epoch=one, batch=one).node[:3].tolist() == [0, 1, 2]
