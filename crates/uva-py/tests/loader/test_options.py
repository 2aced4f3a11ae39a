"""The loader's keywords are those that the core declares: names, defaults, help, and what type checkers know of them."""

import inspect
import os
import pathlib

import pytest
import uvatrain
from uvatrain import _core

TYPES = pathlib.Path(__file__).parents[2] / "python" / "uvatrain" / "loader" / "_options.py"
HEAD = '''"""The loader's options, for type checkers. Written by tests/loader/test_options.py from the core's declarations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypedDict


class LoaderOptions(TypedDict, total=False):
    """Keywords of `uvatrain.Loader`; its documentation says what they do."""

'''


def test_type_checkers_know_the_options_that_the_core_has():
    lines = [
        f"    {option['name']}: {option['annotation']}{' | None' if option['default'] is None else ''}\n"
        for option in _core._loader_options()
    ]
    wanted = HEAD + "".join(lines)
    if os.environ.get("UVATRAIN_WRITE_OPTIONS"):
        TYPES.write_text(wanted)
    assert TYPES.read_text() == wanted, "UVATRAIN_WRITE_OPTIONS=1 writes it anew"


def test_the_signature_and_the_documentation_have_every_option():
    parameters = inspect.signature(uvatrain.Loader).parameters
    assert parameters["batch_size"].default == 1024 and parameters["slots"].default == 3
    assert parameters["samplers"].default is None and parameters["fanouts"].default == (15, 10, 5)
    for option in _core._loader_options():
        assert option["name"] in parameters
        assert f"\n{option['name']}: " in uvatrain.Loader.__doc__


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
        ("walks", dict(walks=3), "leave walks out, or use sampler_kind=walk"),
        ("gather_threads", dict(prepare="whole", gather_threads=2), "leave gather_threads out, or use prepare=roles"),
        ("slots", dict(prepare="whole", slots=1), "slots=1: with prepare=whole"),
        ("pin_cores", dict(pin_cores="all"), "use prepare=whole"),
        ("rank", dict(rank=2, world_size=2), "rank=2: of world_size=2"),
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
