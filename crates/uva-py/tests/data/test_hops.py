"""Hop sets: made from Python and from the command line, opened, interrupted and resumed."""

import json
import os
import signal
import subprocess

import numpy as np
import pytest
import torch
from conftest import run_python_well
from graphs import Tables, write_graph

import uvatrain


def arrays_in(path):
    """The bytes of every array of a hop set."""
    return {file.name: file.read_bytes() for file in path.glob("*.npy")}


def gcn_sums(tables, rows):
    """One application of `sym`, in float64."""
    nodes = len(tables.indptr) - 1
    degrees = np.diff(tables.indptr) + 1.0
    out = rows / degrees[:, None]
    destinations = np.repeat(np.arange(nodes), np.diff(tables.indptr))
    weights = 1 / np.sqrt(degrees[destinations] * degrees[tables.indices])
    np.add.at(out, destinations, rows[tables.indices] * weights[:, None])
    return out


def test_a_hop_set_has_the_rows_of_the_splits_after_each_hop(graph, tmp_path):
    made = uvatrain.propagate(graph, tmp_path / "hops", hops=2)
    tables = Tables(graph)
    nodes = made.node_idx.numpy()
    assert (made.num_rows, made.num_hops, made.feature_dim) == (420, 3, 5)
    assert made.operators == {"sym": 2} and made.num_classes == 4
    assert {name: (part.start, part.stop) for name, part in made.splits.items()} == {
        "train": (0, 300),
        "valid": (300, 370),
        "test": (370, 420),
    }
    for split, part in made.splits.items():
        assert sorted(nodes[part]) == sorted(tables.splits[split])
    assert np.array_equal(made.labels.numpy(), tables.labels[nodes])
    expected = tables.features.astype(np.float64)
    for hop in made.hops:
        assert hop.dtype == torch.float32
        assert np.allclose(hop.numpy(), expected[nodes], rtol=1e-5)
        expected = gcn_sums(tables, expected)


def test_python_and_the_command_line_make_the_same_bytes(graph, tmp_path, uvatrain_program):
    options = dict(operator=["row", "ppr:0.1,2"], hops=2, row_order="file", type="f16", memory="64MiB", threads=2)
    uvatrain.propagate(uvatrain.Dataset(graph), tmp_path / "python", **options)
    command = [uvatrain_program, "propagate", graph, tmp_path / "command", "--operator", "row,ppr:0.1,2"]
    subprocess.run([*command, "--hops", "2", "--row-order", "file", "--type", "f16"], check=True)
    assert arrays_in(tmp_path / "python") == arrays_in(tmp_path / "command")


@pytest.mark.parametrize("type, kind", [("f32", torch.float32), ("f16", torch.float16), ("bf16", torch.bfloat16)])
def test_rows_side_by_side_are_those_of_hops_in_files_of_their_own(graph, tmp_path, type, kind):
    apart = uvatrain.propagate(graph, tmp_path / "apart", operator="sym,row", hops=2, type=type)
    together = uvatrain.propagate(graph, tmp_path / "together", operator="sym,row", hops=2, type=type, layout="rows")
    assert together.rows.shape == (420, 5, 5) and together.rows.dtype == kind
    assert len(apart.hops) == 5
    for one, other in zip(apart.hops, together.hops, strict=True):
        assert torch.equal(one, other)
    with pytest.raises(ValueError, match="layout='hops'"):
        _ = apart.rows


def test_labels_of_several_classes_keep_their_columns(tmp_path):
    path = write_graph(tmp_path / "graph", multi_label=True)
    made = uvatrain.propagate(path, tmp_path / "hops", hops=1, nodes="all")
    assert made.num_rows == 600 and made.multi_label and made.num_targets is None
    assert np.array_equal(made.labels.numpy(), Tables(path).labels[made.node_idx.numpy()])


def test_an_exception_of_progress_ends_the_work_and_resume_continues(graph, tmp_path):
    class Enough(Exception):
        pass

    told = []

    def stop(what, done, total):
        assert 0 < done <= total
        told.append(what)
        if what == "row":
            raise Enough

    whole = uvatrain.propagate(graph, tmp_path / "whole", operator="sym,row")
    out = tmp_path / "hops"
    with pytest.raises(Enough):
        uvatrain.propagate(graph, out, operator="sym,row", progress=stop)
    assert told[0] == "features" and "sym" in told and not out.exists()
    with pytest.raises(ValueError, match="resume"):
        uvatrain.propagate(graph, out, operator="sym,row")
    with pytest.raises(ValueError, match="hops"):
        uvatrain.propagate(graph, out, operator="sym,row", hops=2, resume=True)
    uvatrain.propagate(graph, out, operator="sym,row", resume=True)
    assert arrays_in(out) == arrays_in(tmp_path / "whole")
    assert uvatrain.HopSet(out, verify=True).meta["files"] == whole.meta["files"]


def test_a_sigint_ends_the_work_and_keeps_what_is_finished(graph, tmp_path):
    script = """
import os, signal, sys, uvatrain
out = sys.argv[2]
def interrupt(what, done, total):
    if what == "row":
        os.kill(os.getpid(), signal.SIGINT)
try:
    uvatrain.propagate(sys.argv[1], out, operator="sym,row", progress=interrupt)
except KeyboardInterrupt:
    print("interrupted", os.path.exists(out), os.path.isdir(out + ".propagating"))
"""
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert run_python_well(script, graph, tmp_path / "hops").split() == ["interrupted", "False", "True"]


def test_a_sigint_ends_the_check_of_all_bytes(graph, tmp_path):
    hops = uvatrain.propagate(graph, tmp_path / "hops", hops=1)
    meta = hops.meta
    # Files with holes in place of rows: hours of zeros.
    rows = 1 << 37
    meta["rows"], meta["splits"] = rows, {"train": [0, rows], "valid": [rows, rows], "test": [rows, rows]}
    del meta["files"]["label.npy"]
    (tmp_path / "hops" / "label.npy").unlink()
    for name, facts in meta["files"].items():
        kind, columns = ("<i8", ()) if name == "node_idx.npy" else ("<f4", (meta["dim"],))
        header = str({"descr": kind, "fortran_order": False, "shape": (rows, *columns)}).encode()
        begin = 4096 if columns else 128
        header = b"\x93NUMPY\x01\x00" + (begin - 10).to_bytes(2, "little") + header.ljust(begin - 11) + b"\n"
        (tmp_path / "hops" / name).write_bytes(header)
        facts["bytes"] = begin + rows * int(kind[2]) * (columns[0] if columns else 1)
        os.truncate(tmp_path / "hops" / name, facts["bytes"])
    (tmp_path / "hops" / "hops.json").write_text(json.dumps(meta))
    script = """
import os, signal, sys, threading, uvatrain
hops = uvatrain.HopSet(sys.argv[1])
threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
try:
    hops._core.verify()
except KeyboardInterrupt:
    print("interrupted")
"""
    assert run_python_well(script, tmp_path / "hops").split() == ["interrupted"]


@pytest.mark.parametrize(
    "options, field",
    [
        (dict(operator="cube"), "operator"),
        (dict(operator="ppr:2"), "operator"),
        (dict(hops=0), "hops"),
        (dict(hops=-1), "hops"),
        (dict(hops="many"), "hops"),
        (dict(type="f64"), "type"),
        (dict(nodes="none"), "nodes"),
        (dict(memory="4G"), "memory"),
        (dict(threads=0), "threads"),
        (dict(seed=-1), "seed"),
        (dict(weighted=True), "weighted"),
    ],
)
def test_an_option_that_cannot_be_is_named(graph, tmp_path, options, field):
    with pytest.raises(ValueError, match=field) as raised:
        uvatrain.propagate(graph, tmp_path / "hops", **options)
    assert "--" not in str(raised.value)
    assert raised.value.field.lstrip("-").replace("-", "_") == field
    assert not list(tmp_path.iterdir())


def test_files_that_are_not_a_hop_set_are_refused_by_name(graph, tmp_path):
    made = tmp_path / "hops"
    with pytest.raises(FileNotFoundError, match=r"hops\.json"):
        uvatrain.HopSet(graph)
    uvatrain.propagate(graph, made, hops=1)
    with pytest.raises(ValueError, match="exists"):
        uvatrain.propagate(graph, made, hops=1)
    with (made / "sym.1.npy").open("r+b") as file:
        file.seek(5000)
        file.write(b"\x00\x00\x80\x7f")
    uvatrain.HopSet(made)
    with pytest.raises(ValueError, match=r"sym\.1\.npy.*changed"):
        uvatrain.HopSet(made, verify=True)
    with (made / "sym.1.npy").open("r+b") as file:
        file.truncate(5000)
    with pytest.raises(ValueError, match=r"sym\.1\.npy.*truncated"):
        uvatrain.HopSet(made)


def test_arrays_outlive_the_hop_set_and_writing_to_them_changes_no_file(graph, tmp_path):
    made = tmp_path / "hops"
    hop = uvatrain.propagate(graph, made, hops=1).hops[1]
    before = hop.clone()
    hop.zero_()
    assert torch.equal(uvatrain.HopSet(made).hops[1], before)
