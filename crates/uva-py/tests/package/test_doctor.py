"""`python -m uvatrain`, run as people run it."""

import json
import os
import re
import shutil
import subprocess
import sys
import venv
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import pytest
import uvatrain

PACKAGE = Path(uvatrain.__file__).parents[1]


def run(*arguments, first=None, python=(), executable=sys.executable, **environment):
    """The module as a program. An environment variable that is None is taken away; `first` is looked in before all else."""
    folders = [first, PACKAGE, os.environ.get("PYTHONPATH")]
    environment["PYTHONPATH"] = os.pathsep.join(str(folder) for folder in folders if folder)
    changed = {name: str(value) for name, value in {**os.environ, **environment}.items() if value is not None}
    command = [executable, *python, "-m", "uvatrain", *arguments]
    return subprocess.run(command, capture_output=True, text=True, env=changed, timeout=300)


def look(*arguments, **options):
    """The whole report, and its checks by name."""
    done = run("doctor", "--json", *arguments, **options)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    return report, {check["name"]: check for check in report["checks"]}


def fake_package(folder, name, text):
    (folder / name).mkdir(parents=True)
    (folder / name / "__init__.py").write_text(text)
    return folder


def fake_program(folder, text):
    folder.mkdir(exist_ok=True)
    path = folder / "uvatrain"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def test_without_arguments_it_explains_itself():
    done = run()
    assert done.returncode == 0
    for word in ("uvatrain.Loader(", "uvatrain run ", "uvatrain.attach()", "doctor"):
        assert word in done.stdout
    assert run("--version").stdout.strip() == f"uvatrain {uvatrain.__version__}"


@pytest.fixture(scope="module")
def here():
    """Its report on this Python."""
    return look()


def test_it_finds_what_this_python_has(here):
    report, checks = here
    assert report["version"] == uvatrain.__version__
    assert checks["Python"]["finding"].startswith(".".join(map(str, sys.version_info[:3])))
    for name, distribution in (("PyTorch", "torch"), ("numpy", "numpy"), ("PyG", "torch-geometric")):
        try:
            expected = version(distribution)
        except PackageNotFoundError:
            assert checks[name]["status"] != "ok"
        else:
            assert checks[name]["status"] == "ok" and checks[name]["finding"].startswith(expected), checks[name]
    assert report["tensors"] == "torch"


def test_every_finding_but_ok_has_a_remedy_and_the_text_shows_both(here):
    report, _ = here
    for check in report["checks"]:
        assert check["finding"]
        assert ("remedy" in check) == (check["status"] != "ok"), check
    text = run("doctor").stdout
    for check in report["checks"]:
        assert re.search(rf"[✓·✗] {re.escape(check['name'])} +{re.escape(check['finding'])}\n", text), text
        if "remedy" in check:
            assert f"→ {check['remedy']}\n" in text


def test_a_python_without_packages_is_advised_what_to_install():
    report, checks = look(python=("-S",))
    assert report["tensors"] is None
    assert checks["PyTorch"]["status"] == "missing"
    assert checks["PyTorch"]["remedy"] == f"{sys.executable} -m pip install torch"
    assert "cannot take batches yet" in run("doctor", python=("-S",)).stdout


def test_a_broken_package_is_a_finding_and_no_traceback(tmp_path):
    fake_package(tmp_path, "torch", "raise OSError('libcudart.so.13: cannot open shared object file')")
    report, checks = look(python=("-S",), first=tmp_path)
    assert report["tensors"] is None
    assert checks["PyTorch"]["status"] == "missing"
    assert "cannot be imported: libcudart.so.13" in checks["PyTorch"]["finding"]
    assert "--force-reinstall" in checks["PyTorch"]["remedy"]


def test_a_package_that_lacks_a_dependency_names_it(tmp_path):
    fake_package(tmp_path, "dgl", "import torchdata_that_is_not_there")
    _, checks = look(python=("-S",), first=tmp_path)
    assert checks["DGL"]["status"] == "missing"
    assert "torchdata_that_is_not_there" in checks["DGL"]["finding"]


def test_a_version_that_is_too_old_is_noted(tmp_path):
    fake_package(tmp_path, "torch_geometric", "__version__ = '2.3.1'")
    _, checks = look(python=("-S",), first=tmp_path)
    assert checks["PyG"]["status"] == "note" and "2.3.1" in checks["PyG"]["finding"]
    assert "torch-geometric>=2.5" in checks["PyG"]["remedy"]


@pytest.mark.parametrize(
    ("script", "status", "words"),
    [
        (f"echo uvatrain {uvatrain.__version__}", "ok", uvatrain.__version__),
        ("echo uvatrain 0.0.7", "missing", f"is 0.0.7, and this module {uvatrain.__version__}"),
        ("echo libtorch is gone >&2; exit 127", "missing", "libtorch is gone"),
        ("echo something else", "missing", "does not print its version: something else"),
    ],
)
def test_the_program_has_to_be_of_the_modules_version(tmp_path, script, status, words):
    program = fake_program(tmp_path / "bin", script)
    for environment in ({"UVATRAIN_PROGRAM": program}, {"UVATRAIN_PROGRAM": None, "PATH": program.parent}):
        _, checks = look(python=("-S",), **environment)
        check = checks["uvatrain program"]
        assert check["status"] == status and words in check["finding"] and str(program) in check["finding"], check


def test_a_missing_program_is_a_note_unless_it_was_named(tmp_path):
    _, checks = look(python=("-S",), UVATRAIN_PROGRAM=None, PATH=tmp_path)
    assert checks["uvatrain program"]["status"] == "note"
    _, checks = look(python=("-S",), UVATRAIN_PROGRAM=tmp_path / "nothing")
    assert checks["uvatrain program"]["status"] == "missing"
    assert "UVATRAIN_PROGRAM" in checks["uvatrain program"]["finding"]


def test_the_program_of_an_environment_that_is_not_active_is_found(tmp_path):
    venv.create(tmp_path / "environment")
    folder = tmp_path / "environment/bin"
    program = fake_program(folder, f"echo uvatrain {uvatrain.__version__}")
    _, checks = look(executable=folder / "python", UVATRAIN_PROGRAM=None, PATH=tmp_path)
    check = checks["uvatrain program"]
    assert (check["status"], check["finding"]) == ("ok", f"{uvatrain.__version__}, {program}")


def test_a_requested_but_missing_package_exits_with_3(tmp_path):
    assert run("doctor", "--need", "torch,numpy", "--need", "pyg").returncode == 0
    done = run("doctor", "--need", "torch,program", python=("-S",), UVATRAIN_PROGRAM=tmp_path / "nothing")
    assert done.returncode == 3
    assert done.stderr == "uvatrain: required but missing: torch, program\n"
    done = run("doctor", "--need", "tensorflow")
    assert done.returncode == 2 and "tensorflow: not one of torch, numpy, pyg" in done.stderr


def test_a_driver_that_crashes_is_a_finding_and_the_doctor_continues(tmp_path):
    compiler = shutil.which("cc") or shutil.which("c++")
    if compiler is None:
        pytest.skip("needs a C compiler")
    source = tmp_path / "driver.c"
    source.write_text("#include <stdlib.h>\n__attribute__((constructor)) static void load(void) { abort(); }\n")
    subprocess.run([compiler, "-shared", "-fPIC", "-o", tmp_path / "libcuda.so.1", source], check=True)
    folders = f"{tmp_path}{os.pathsep}{os.environ.get('LD_LIBRARY_PATH', '')}"
    report, checks = look(LD_LIBRARY_PATH=folders)
    assert "ended by SIGABRT" in checks["NVIDIA GPU"]["finding"]
    # Importing PyTorch loads the driver too.
    assert "ended by SIGABRT" in checks["PyTorch"]["finding"]
    assert checks["numpy"]["status"] == "ok"
    assert report["tensors"] == "numpy" and not report["gpu"]
