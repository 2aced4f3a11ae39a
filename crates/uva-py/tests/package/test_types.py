"""Type checkers know the module where it is installed, and find no mistake in the examples or in the module itself."""

import os
import subprocess
import sys

import pytest
from conftest import REPOSITORY, run_python_well

import uvatrain

pytest.importorskip("torch")
#: mypy takes 13 s of one core, and other tests have the cores too.
LONGEST = 600


def test_the_names_of_the_package_are_its_own_and_import_no_torch():
    script = """
import sys, uvatrain
print(*(name for name in dir(uvatrain) if not name.startswith("_")))
assert "torch" not in sys.modules
assert uvatrain.nn.SAGEConv and uvatrain.infer and uvatrain.load_model and "torch" in sys.modules
assert all(getattr(uvatrain, name) is not None for name in dir(uvatrain))
"""
    names = run_python_well(script).split()
    assert names == sorted(name for name in uvatrain.__all__ if name != "__version__")
    assert {"infer", "nn", "load_model", "Loader"} <= set(names) and "Any" not in names


def test_mypy_accepts_the_examples_against_the_installed_module():
    pytest.importorskip("mypy")
    command = [REPOSITORY / "scripts/check/types.sh", "--python", sys.executable, "mypy"]
    # A terminal's colours would be in the message.
    environment = {**os.environ, "NO_COLOR": "1"}
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=LONGEST)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert ended.stdout.count("Success: no issues found") == 2, ended.stdout
