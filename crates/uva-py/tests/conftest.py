"""What the tests share: datasets, and running Python or the command line beside themselves."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(Path(__file__).parent))


def program():
    """The command line: UVATRAIN of the environment, else what cargo has built last in this repository."""
    if given := os.environ.get("UVATRAIN"):
        return Path(given)
    target = Path(os.environ.get("CARGO_TARGET_DIR", REPOSITORY / "target"))
    built = [path for path in (target / kind / "uvatrain" for kind in ("debug", "release")) if path.exists()]
    return max(built, key=lambda path: path.stat().st_mtime) if built else None


@pytest.fixture(scope="session")
def uvatrain_program():
    """The path of the `uvatrain` command line."""
    found = program() or (Path(which) if (which := shutil.which("uvatrain")) else None)
    if found is None:
        pytest.skip("needs the command line: cargo build -p uvatrain, or UVATRAIN=its path")
    return found
