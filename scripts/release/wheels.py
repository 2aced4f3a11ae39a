#!/usr/bin/env python3
"""Builds the wheels and the source for PyPI, for this kind of processor, and checks them:

    scripts/release/wheels.py [--out DIR] [--glibc 2.28] [--no-consumer] [--no-source] [--try]

- uvatrain-VERSION-cp310-abi3-manylinux_…: the module and the program `uvatrain`, for every CPython from 3.10 on. zig
  links both against the C library of --glibc, independent of this machine's.
- uvatrain_consumer-VERSION-py3-none-manylinux_…: the program with the built-in models, which `uvatrain[train]` requires. It
  loads the environment's PyTorch. That is C++, so this machine's compiler decides the oldest C library that it runs with.
- uvatrain-VERSION.tar.gz: the source of both programs and of the module.

--try installs the wheels into a fresh environment without anything else, and runs the program of each (the consumer's with
the PyTorch of scripts/setup/libtorch.sh), then a loop over batches with numpy.

Requires Rust, a C++ compiler, readelf (binutils), Python 3.11 or later with venv, and a network: maturin, zig, cargo-zigbuild and
abi3info come from PyPI, into an environment that is made once (${UVATRAIN_CACHE:-~/.cache/uvatrain}/wheel-tools).
"""
import argparse
import importlib.util
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MODULE = ROOT / "crates/uva-py"
TOOLS = ["pip==26.3", "maturin==1.16.0", "ziglang==0.17.1", "cargo-zigbuild==0.24.1", "abi3info==2026.9.25"]
#: The C library of the first manylinux tag whose libstdc++ has these symbols (auditwheel's policies).
CXX = {(3, 4, 24): (2, 28), (3, 4, 28): (2, 31), (3, 4, 29): (2, 34), (3, 4, 30): (2, 35), (3, 4, 33): (2, 39)}


def libtorch_series():
    """The series of libtorch that the built-in models are made for."""
    return re.search(r'SERIES: &str = "([\d.]+)"', (ROOT / "crates/uva-cuda/src/code/libtorch.rs").read_text())[1]


def run(*command, **options):
    print("$", " ".join(map(str, command)), file=sys.stderr, flush=True)
    done = subprocess.run(list(map(str, command)), **options)
    if done.returncode != 0:
        sys.exit(f"wheels: {command[0]} ended with {done.returncode}")
    return done


def tools():
    """The environment with what builds wheels, made if it is not there yet."""
    cache = os.environ.get("UVATRAIN_CACHE") or os.path.join(
        os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "uvatrain")
    folder = Path(cache, "wheel-tools")
    listed = folder / "installed"
    if not listed.is_file() or listed.read_text().split() != TOOLS:
        shutil.rmtree(folder, ignore_errors=True)
        venv.create(folder, with_pip=True)
        run(folder / "bin/python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *TOOLS)
        listed.write_text("\n".join(TOOLS))
    return folder / "bin"


def executable_of(*cargo, **options):
    """Builds a program and returns its file."""
    command = [*cargo, "--message-format", "json-render-diagnostics"]
    built = run(*command, cwd=ROOT, stdout=subprocess.PIPE, text=True, **options)
    messages = [json.loads(line) for line in built.stdout.splitlines() if line.startswith("{")]
    (executable,) = [one["executable"] for one in messages if one.get("executable")]
    return Path(executable)


def oldest_c_library(program):
    """The C library that a program requires, directly and through its C++ library."""
    reported = subprocess.run(["readelf", "--wide", "--version-info", program], capture_output=True, text=True, check=True).stdout
    wanted = {tuple(map(int, one.split("."))) for one in re.findall(r"GLIBC_([\d.]+)", reported)}
    for one in re.findall(r"GLIBCXX_([\d.]+)", reported):
        version = tuple(map(int, one.split(".")))
        fitting = [library for least, library in sorted(CXX.items()) if version <= least]
        if not fitting:
            sys.exit(f"wheels: {program} requires GLIBCXX_{one}, which no manylinux tag allows yet")
        wanted.add(fitting[0])
    return max(wanted)


def consumer_wheel(build, program, version, out):
    """A wheel with this program alone, whose metadata requires the PyTorch that it was built with."""
    major, minor = oldest_c_library(program)[:2]
    name = f"uvatrain_consumer-{version}"
    tag = f"py3-none-manylinux_{major}_{minor}_{platform.machine()}"
    series = libtorch_series()
    first, second = map(int, series.split("."))
    metadata = (
        "Metadata-Version: 2.4\nName: uvatrain-consumer\n" f"Version: {version}\n"
        "Summary: The program that trains the built-in models of uvatrain\n"
        "License-Expression: MIT OR Apache-2.0\nLicense-File: LICENSE-MIT\nLicense-File: LICENSE-APACHE\n"
        f"Requires-Python: >=3.10\nRequires-Dist: torch<{first}.{second + 1},>={series}\nDescription-Content-Type: text/markdown\n\n"
        "`uvatrain train`, `predict` and `evaluate` start the program of this package. It has no Python module.\n"
        f"It loads the PyTorch {series} of its environment. Install it by `pip install 'uvatrain[train]'`.\n"
    )
    members = {
        "METADATA": metadata.encode(),
        "WHEEL": f"Wheel-Version: 1.0\nGenerator: wheels.py\nRoot-Is-Purelib: false\nTag: {tag}\n".encode(),
        **{f"licenses/{one}": (ROOT / one).read_bytes() for one in ("LICENSE-MIT", "LICENSE-APACHE")},
    }
    wheel = out / f"{name}-{tag}.whl"
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        record = ""
        for member, data in members.items():
            path = f"{name}.dist-info/{member}"
            archive.writestr(path, data)
            record += build.recorded(path, data)
        archive.writestr(f"{name}.dist-info/RECORD", f"{record}{name}.dist-info/RECORD,,\n")
    build.add_script(wheel, program)
    return wheel


def try_out(wheels, folder):
    """Installs the wheels into an environment that has nothing else, and runs what they brought."""
    venv.create(folder, with_pip=True)
    run(folder / "bin/python", "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", *wheels)
    # In another folder, so that no file of this checkout is found by its path.
    program = folder / "bin/uvatrain"
    for command in ([program, "--version"], [program, "generate", "graph", "--nodes", "2000", "--classes", "4"],
                    [program, "info", "graph", "--verify"], [folder / "bin/python", "-m", "uvatrain", "--version"]):
        run(*command, cwd=folder)
    if (folder / "bin/uvatrain-consumer").exists():
        torch = ROOT / ".libtorch/torch"
        run(program, "train", "graph", "--fanouts", "5,5", "--epochs", "1", "--libtorch", torch, cwd=folder)
    run(folder / "bin/python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "numpy")
    loop = "import uvatrain; print(sum(1 for batch in uvatrain.Loader('graph', fanouts=(5, 5), batch_size=100)), 'batches')"
    run(folder / "bin/python", "-c", loop, cwd=folder)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=ROOT / "target/wheels", help="where wheels and source go")
    parser.add_argument("--glibc", default="2.28", help="the C library that the module and the program are linked against")
    parser.add_argument("--no-consumer", action="store_true", help="without the consumer's wheel, which needs libtorch")
    parser.add_argument("--no-source", action="store_true", help="without the source distribution")
    parser.add_argument("--try", dest="tried", action="store_true", help="install the wheels and run what they bring")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    version = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]["version"]
    programs = tools()
    environment = {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    # maturin is imported by what pip calls, and lies in the tools' environment alone.
    sys.path += map(str, programs.parent.glob("lib/python3*/site-packages"))
    found = importlib.util.spec_from_file_location("uvatrain_build", MODULE / "uvatrain_build.py")
    build = importlib.util.module_from_spec(found)
    found.loader.exec_module(build)
    triple = f"{platform.machine()}-unknown-linux-gnu"
    with tempfile.TemporaryDirectory() as scratch:
        scratch = Path(scratch)
        program = executable_of("cargo", "zigbuild", "--release", "--locked", *build.BUILD,
                                "--target", f"{triple}.{options.glibc}", env=environment)
        run(programs / "maturin", "build", "--release", "--locked", "--zig", "--target", triple, "--compatibility",
            f"manylinux_{options.glibc.replace('.', '_')}", "--out", scratch / "wheel", "--manifest-path",
            MODULE / "Cargo.toml", env=environment)
        (built,) = (scratch / "wheel").iterdir()
        build.add_script(built, program)
        wheels = [Path(shutil.move(built, options.out / built.name))]
        run(programs / "python", ROOT / "scripts/check/wheel.py", *wheels)
        if not options.no_consumer:
            run(ROOT / "scripts/setup/libtorch.sh")
            consumer = executable_of("cargo", "build", "--release", "--locked", "--package", "uvatrain", "--bin",
                                     "uvatrain-consumer", "--no-default-features", "--features", "train")
            wheels.append(consumer_wheel(build, consumer, version, options.out))
        if not options.no_source:
            run(programs / "maturin", "sdist", "--out", options.out, "--manifest-path", MODULE / "Cargo.toml", env=environment)
        if options.tried:
            try_out(wheels, scratch / "fresh")
    for file in sorted(options.out.iterdir()):
        print(f"{file.stat().st_size / 1e6:6.2f} MB  {file}")


if __name__ == "__main__":
    main()
