"""The loader's keywords are those that the core declares: names, defaults, help, and types."""

import dataclasses
import inspect
import os
import pathlib

import pytest
import uvatrain
from graphs import OPTIONS, hashes
from uvatrain import _core

PACKAGE = pathlib.Path(__file__).parents[2] / "python" / "uvatrain"
GROUPS = {
    "backend": ("BackendOptions", "How batches are prepared, and where they come to be."),
    "cache": ("CacheOptions", "Caches of the feature rows that are read most."),
    "ranks": ("RankOptions", "Which ranks divide an epoch's batches, and what they exchange."),
}
HEAD = '''"""The %s's options, for type checkers. Written by tests/loader/test_options.py from the core's declarations."""

from __future__ import annotations

'''


def of_loader():
    """The loader's options as keywords, and as dataclasses of groups."""
    options = _core._loader_options()
    own = [option for option in options if option["group"] in ("cache", "ranks") or option["name"] == "device"]

    def keyword(option):
        more = " | None" if option["default"] is None and option["annotation"] != "Any" else ""
        return f"    {option['name']}: {option['annotation']}{more}\n"

    def field(option):
        more = "" if option["annotation"] == "Any" else " | None"
        return f"    {option['name']}: {option['annotation']}{more} = None\n"

    text = HEAD % "loader" + "from collections.abc import Mapping, Sequence\nfrom dataclasses import dataclass\nfrom typing import Any, TypedDict\n"
    text += "\n\nclass LoaderOptions(TypedDict, total=False):\n"
    text += '    """Keywords of `uvatrain.Loader` and `uvatrain.CachedDataset`; the documentation of `Loader` says what they do."""\n\n'
    text += "".join(keyword(option) for option in options if option not in own)
    text += "\n\nclass LoaderKeywords(LoaderOptions, total=False):\n"
    text += '    """The same, and those of `uvatrain.Loader` alone."""\n\n' + "".join(map(keyword, own))
    for group, (name, said) in GROUPS.items():
        text += f'\n\n@dataclass(frozen=True, kw_only=True)\nclass {name}:\n'
        text += f'    """{said} `Loader({group}=…)` takes it. None: the loader\'s default."""\n\n'
        text += "".join(field(option) for option in options if option["group"] == group)
    return text


def of_trainer():
    """The trainer's options as they are read."""
    text = HEAD % "trainer" + "from dataclasses import dataclass\n\n\n@dataclass(frozen=True, kw_only=True)\nclass TrainerOptions:\n"
    text += '    """Options of `python -m uvatrain.train`, whose `--help` describes them. None: the default is not a constant."""\n\n'
    for option in _core._trainer_options():
        kind = {
            "int | str": "int" if option["value"] == "SIZE" else "str",
            "Sequence[int] | Mapping[Any, Sequence[int]]": "tuple[int, ...]",
        }
        more = " | None" if option["default"] is None else ""
        text += f"    {option['name']}: {kind.get(option['annotation'], option['annotation'])}{more}\n"
    return text


@pytest.mark.parametrize(("file", "declared"), [("loader/_options.py", of_loader), ("train/_options.py", of_trainer)])
def test_type_stubs_have_the_options_of_the_core(file, declared):
    wanted, path = declared(), PACKAGE / file
    if os.environ.get("UVATRAIN_WRITE_OPTIONS"):
        path.write_text(wanted)
    assert path.read_text() == wanted, "UVATRAIN_WRITE_OPTIONS=1 writes it again"


def test_the_signature_and_the_documentation_have_every_option():
    parameters = inspect.signature(uvatrain.Loader).parameters
    assert parameters["batch_size"].default == 1024 and parameters["slots"].default == 3
    assert parameters["samplers"].default is None and parameters["fanouts"].default == (15, 10, 5)
    for option in _core._loader_options():
        assert option["name"] in parameters
        assert f"\n{option['name']}: " in uvatrain.Loader.__doc__


def test_a_group_holds_options_that_keywords_give_alone(graph, epochs):
    backend = uvatrain.BackendOptions(device="cpu", samplers=2, slots=2)
    cache, ranks = uvatrain.CacheOptions(host_cache="1MiB"), uvatrain.RankOptions(rank=1, world_size=2)
    with uvatrain.Loader(graph, backend=backend, cache=cache, ranks=ranks, **OPTIONS) as grouped:
        assert (grouped.rank, grouped.world_size, grouped.device) == (1, 2, "cpu")
        assert hashes(grouped) == epochs[0][1::2]
        assert _roles(grouped) == 2
    with uvatrain.Loader(graph, backend=uvatrain.BackendOptions(), samplers=3, **OPTIONS) as flat:
        assert _roles(flat) == 3
    parameters = inspect.signature(uvatrain.Loader).parameters
    for group in (uvatrain.BackendOptions, uvatrain.CacheOptions, uvatrain.RankOptions):
        for field in dataclasses.fields(group):
            assert field.name in parameters and f"\n{field.name}: " in group.__doc__


def _roles(loader):
    return loader.stats()["sampler"]["threads"]


@pytest.mark.parametrize(
    ("options", "field", "message"),
    [
        (
            dict(backend=uvatrain.BackendOptions(slots=3), slots=4),
            "slots",
            "slots and backend.slots are one option: give one of them",
        ),
        (
            dict(cache=uvatrain.CacheOptions(gpu_cache="1MiB"), gpu_cache="1MiB"),
            "gpu_cache",
            "gpu_cache and cache.gpu_cache are one option",
        ),
        (dict(ranks=uvatrain.RankOptions(rank=0), rank=0), "rank", "rank and ranks.rank are one option"),
        (dict(ranks=2), "ranks", "ranks is a int: a uvatrain.RankOptions is needed"),
        (dict(cache=uvatrain.RankOptions()), "cache", "cache is a RankOptions: a uvatrain.CacheOptions is needed"),
    ],
)
def test_an_option_given_twice_or_in_a_wrong_group_is_a_type_error(graph, options, field, message):
    with pytest.raises(TypeError, match=message) as raised:
        uvatrain.Loader(graph, **options)
    assert raised.value.field == field


def test_an_unknown_keyword_is_answered_with_the_nearest_one(graph):
    with pytest.raises(TypeError, match="bacth_size: there is no such option; a similar one is batch_size") as raised:
        uvatrain.Loader(graph, bacth_size=3)
    assert raised.value.field == "bacth_size"


@pytest.mark.parametrize(
    ("field", "given", "message"),
    [
        ("batch_size", dict(batch_size=0), "batch_size=0: 0 is not 1 or more"),
        ("fanouts", dict(fanouts=(3, 0)), "fanouts=3,0: hop 1: invalid value '0'"),
        ("fanouts", dict(fanouts=()), "fanouts: no fanout given"),
        ("samplers", dict(samplers=121), "samplers=121: 121 is not from 1 to 120"),
        ("batch_slots", dict(samplers=4, batch_slots=5), "batch_slots=5: with 4 samplers at least 6"),
        ("expand", dict(sampler_kind="ladies", expand="new"), "use expand=all"),
        ("walks", dict(walks=3), "only valid with sampler_kind=walk"),
        ("gather_threads", dict(prepare="whole", gather_threads=2), "only valid with prepare=roles"),
        ("slots", dict(prepare="whole", slots=1), "slots=1: with prepare=whole"),
        ("pin_cores", dict(pin_cores="all"), "only valid with prepare=whole"),
        ("rank", dict(rank=2, world_size=2), "rank=2: expected 0 to 1, with world_size=2"),
    ],
)
def test_an_error_names_the_keyword_for_people_and_for_programs(graph, field, given, message):
    with pytest.raises(ValueError, match=message) as raised:
        uvatrain.Loader(graph, **given)
    assert raised.value.field == field


def test_an_error_about_a_file_has_its_path(tmp_path):
    (tmp_path / "meta.json").write_text("{")
    with pytest.raises(ValueError) as raised:
        uvatrain.Dataset(tmp_path)
    assert raised.value.path == str(tmp_path / "meta.json")
