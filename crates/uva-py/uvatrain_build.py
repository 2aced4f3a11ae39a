"""Builds the Python package for pip (PEP 517): the module with maturin, and the program `uvatrain`.

The program becomes a script of the wheel, so that an environment has it in its `bin`. It is built without libtorch:
what trains the built-in models is the package uvatrain-consumer, which scripts/release/wheels.py makes.

UVATRAIN_WHEEL_PROGRAM names a program that is built already: tests take that of cargo's. The wheels of a release are
built by scripts/release/wheels.py, for older C libraries, and it adds the program by the function below.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import subprocess
import zipfile
from pathlib import Path
from typing import Any

import maturin
from maturin import (  # noqa: F401: pip calls these by their names.
    build_sdist,
    get_requires_for_build_editable,
    get_requires_for_build_sdist,
    get_requires_for_build_wheel,
    prepare_metadata_for_build_editable,
    prepare_metadata_for_build_wheel,
)

# All but the built-in models: no libtorch is needed to build it.
BUILD = ["--package", "uvatrain", "--bin", "uvatrain", "--no-default-features", "--features", "request-model,parquet"]
NAMED = "UVATRAIN_WHEEL_PROGRAM"


def build_wheel(folder: str, settings: Any = None, metadata: Any = None) -> str:
    name: str = maturin.build_wheel(folder, settings, metadata)
    add_script(Path(folder, name), program())
    return name


def build_editable(folder: str, settings: Any = None, metadata: Any = None) -> str:
    name: str = maturin.build_editable(folder, settings, metadata)
    add_script(Path(folder, name), program())
    return name


def program() -> Path:
    """The program that belongs into the wheel: the one that is named, else one that is built now."""
    if named := os.environ.get(NAMED):
        return Path(named)
    # Not --locked: a source distribution has fewer crates than Cargo.lock lists.
    command = ["cargo", "build", "--release", *BUILD, "--message-format", "json-render-diagnostics"]
    built = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    messages = map(json.loads, built.stdout.splitlines())
    (executable,) = [one["executable"] for one in messages if one.get("executable")]
    return Path(executable)


def recorded(path: str, data: bytes) -> str:
    """A member's line in a wheel's list."""
    digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
    return f"{path},sha256={digest},{len(data)}\n"


def add_script(wheel: Path, script: Path) -> None:
    """Rewrites the wheel with a script of this name, which pip puts into the environment's `bin`."""
    distribution = "-".join(wheel.name.split("-")[:2])
    record, path = f"{distribution}.dist-info/RECORD", f"{distribution}.data/scripts/{script.name}"
    data = script.read_bytes()
    anew = wheel.with_suffix(".partial")
    with zipfile.ZipFile(wheel) as source, zipfile.ZipFile(anew, "w", zipfile.ZIP_DEFLATED) as target:
        for member in source.infolist():
            if member.filename != record:
                target.writestr(member, source.read(member))
        executable = zipfile.ZipInfo(path)
        executable.external_attr = 0o100755 << 16
        target.writestr(executable, data, zipfile.ZIP_DEFLATED)
        # Packers of wheels leave their list for last.
        listed = source.read(record).decode()
        target.writestr(source.getinfo(record), listed + recorded(path, data))
    anew.replace(wheel)
