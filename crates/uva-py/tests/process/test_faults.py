"""Forty random faults (faults.py says which), the same ones every time: nothing is left of any."""

import os

import pytest
from faults import case, play
from graphs import write_graph

CASES = [case(number) for number in range(40)]


@pytest.fixture(scope="module")
def fault_graph(tmp_path_factory):
    """What the scripts iterate over: 38 batches of 8 seeds, or six of 50."""
    return write_graph(tmp_path_factory.mktemp("faults") / "graph")


@pytest.mark.parametrize("one", CASES, ids=lambda one: one.name)
def test_a_fault_at_a_random_point_leaves_nothing(one, fault_graph, request):
    program = None
    if one.mode == "run":
        program = os.environ.get("UVATRAIN_PROGRAM") or str(request.getfixturevalue("uvatrain_program"))
    play(one, fault_graph, program)


def test_the_rounds_are_of_both_kinds_and_strike_every_process():
    assert {one.mode for one in CASES} == {"loader", "run"}
    assert {one.target for one in CASES} >= {"", "consumer", "sampler", "producer", "launcher"}
