"""Type checkers know the module where it is installed, and find no mistake in the examples or in the module itself."""

import os
import subprocess
import sys

import pytest
from conftest import REPOSITORY

pytest.importorskip("torch")
#: mypy takes 13 s of one core, and other tests have the cores too.
LONGEST = 600


def test_mypy_finds_no_mistake_in_the_examples_against_the_installed_module():
    pytest.importorskip("mypy")
    command = [REPOSITORY / "scripts/check/types.sh", "--python", sys.executable, "mypy"]
    # A terminal's colours would be in the message.
    environment = {**os.environ, "NO_COLOR": "1"}
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=LONGEST)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert ended.stdout.count("Success: no issues found") == 2, ended.stdout
