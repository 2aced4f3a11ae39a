#!/usr/bin/env python3
"""Checks that a wheel of the Python package supports every Python and torch, as it promises.

    scripts/check/wheel.py WHEEL [--most-bytes N] [--json]

- its tag: CPython 3.10 and later by the stable ABI, Linux on this kind of processor
- its size, and those of the library and the program in it, against a bound
- what the library is linked to: the C library and the compiler's, nothing of torch, Python, CUDA or C++
- what the program is linked to: the same, or the C++ library
- the newest version of the C library that both require, against the one that a manylinux tag promises
- that the library uses only the stable ABI of Python 3.10, by the list in the package abi3info
- that type stubs, py.typed, the Python files, the program and the licences are inside, and no other file; that pip can run
  the program, and that the wheel's list has every file with its hash

Prints each problem on a line and exits with 1 if there is one. Requires readelf (binutils) and abi3info, which the
environment of scripts/setup/python.sh has.
"""
import argparse
import base64
import csv
import hashlib
import json
import os
import platform
import re
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

# A release has 4.3 MB of module and 8.8 MB of program in it. A quarter of the module are the loops over rows, for
# each type and processor. A libtorch, or debug information, would be far beyond the bound.
MOST_BYTES = 14_000_000
ALLOWED = re.compile(r"(libc|libm|libgcc_s|libpthread|libdl|librt)\.so\.\d+|ld-linux-[\w-]+\.so\.\d+")
LEAST_PYTHON = (3, 10)
INSIDE = {
    "the package": r"uvatrain/__init__\.py",
    "type stubs of the core": r"uvatrain/_core\.pyi",
    "py.typed": r"uvatrain/py\.typed",
    "the doctor": r"uvatrain/doctor\.py",
    "the core": r"uvatrain/_core\.abi3\.so",
    "the MIT licence": r"uvatrain-[^/]+\.dist-info/(licenses/)?LICENSE-MIT",
    "the Apache licence": r"uvatrain-[^/]+\.dist-info/(licenses/)?LICENSE-APACHE",
    "its metadata": r"uvatrain-[^/]+\.dist-info/METADATA",
    "the program": r"uvatrain-[^/]+\.data/scripts/uvatrain",
}
# A software bill of materials is maturin's own addition.
BELONGS = re.compile(
    r"uvatrain/([\w/]+\.pyi?|py\.typed|_core\.abi3\.so)|uvatrain-[^/]+\.(dist-info/.+|data/scripts/uvatrain)")
CXX_LIBRARY = re.compile(r"libstdc\+\+\.so\.\d+")


def readelf(*arguments):
    command = ["readelf", "--wide", *map(str, arguments)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "LC_ALL": "C"})
    except FileNotFoundError:
        sys.exit("wheel: readelf is needed: install binutils")
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}\nended with {done.returncode}:\n{done.stderr}")
    return done.stdout


def tag_problems(name):
    found = re.fullmatch(r"uvatrain-([^-]+)-([^-]+)-([^-]+)-([^-]+)\.whl", name)
    if not found:
        return [f"{name} is not the name of a uvatrain wheel"], None
    _, python, abi, platforms = found.groups()
    problems = []
    if (python, abi) != ("cp310", "abi3"):
        problems.append(f"it is for {python}-{abi}, not for cp310-abi3: other Pythons would not take it")
    system = re.compile(r"(manylinux\w+|linux)_" + re.escape(platform.machine()))
    if not all(system.fullmatch(one) for one in platforms.split(".")):
        problems.append(f"its platform is {platforms}, not manylinux or linux on {platform.machine()}")
    return problems, f"{python}-{abi}-{platforms}"


def stable_symbols():
    """Every name that an extension for the oldest Python may use, and the version of each that came later."""
    try:
        from abi3info import DATAS, FUNCTIONS
    except ImportError:
        sys.exit("wheel: the package abi3info is needed; $(scripts/setup/python.sh) has it")
    known = {}
    for table in (FUNCTIONS, DATAS):
        for symbol, about in table.items():
            known[symbol.name] = (about.added.major, about.added.minor)
    return known


def binary_problems(file, may_be_linked):
    """What is wrong with a library or program wherever it is for, what it is linked to, and its C library."""
    problems = []
    needed = re.findall(r"\(NEEDED\).*\[(.+)\]", readelf("--dynamic", file))
    for one in needed:
        if not may_be_linked(one):
            problems.append(f"it is linked to {one}, which is not the C library's or the compiler's")
    run_paths = re.findall(r"\((?:RPATH|RUNPATH)\).*\[(.+)\]", readelf("--dynamic", file))
    problems += [f"it looks for libraries in {path}, a folder of the machine that built it" for path in run_paths]
    if ".debug_info" in readelf("--section-headers", file):
        problems.append("it has debug information, which is most of its size")
    wanted = {tuple(map(int, one.split("."))) for one in re.findall(r"GLIBC_([\d.]+)", readelf("--version-info", file))}
    return problems, needed, max(wanted, default=())


def program_problems(program):
    """The same of the program. A manylinux tag promises the C++ library, too."""
    problems, needed, glibc = binary_problems(program, lambda one: ALLOWED.fullmatch(one) or CXX_LIBRARY.fullmatch(one))
    return [f"the program: {one}" for one in problems], {
        "program_linked_to": needed, "program_glibc": dotted(glibc), "program_bytes": program.stat().st_size}


def dotted(version):
    return ".".join(map(str, version)) or None


def list_problems(archive):
    """Where the wheel's list, by which pip installs and removes, differs from what is inside."""
    names = archive.namelist()
    (record,) = [name for name in names if name.endswith(".dist-info/RECORD")] or [None]
    if record is None:
        return ["its list of files, RECORD, is not inside"]
    listed = {path: digest for path, digest, _ in csv.reader(archive.read(record).decode().splitlines())}
    problems = [f"{name} is not in its list of files" for name in names if name not in listed]
    for path, digest in listed.items():
        if path != record and path in names:
            found = base64.urlsafe_b64encode(hashlib.sha256(archive.read(path)).digest()).rstrip(b"=").decode()
            if digest != f"sha256={found}":
                problems.append(f"{path} is not the file of its list: its hash is another")
    return problems + [f"{path} is in its list of files and not inside" for path in listed if path not in names]


def library_problems(library):
    problems, needed, glibc = binary_problems(library, ALLOWED.fullmatch)
    # "  Num:    Value          Size Type    Bind   Vis      Ndx Name"; a version follows the name after an @.
    symbols = [line.split() for line in readelf("--dyn-syms", library).splitlines()]
    symbols = [(fields[6], fields[7]) for fields in symbols if len(fields) >= 8 and fields[0].endswith(":")]
    undefined = sorted({name.partition("@")[0] for index, name in symbols if index == "UND"})
    of_python = [name for name in undefined if re.match(r"_?Py[A-Z_]", name)]
    known = stable_symbols()
    for name in of_python:
        if name not in known:
            problems.append(f"it uses {name}, which is not in Python's stable ABI")
        elif known[name] > LEAST_PYTHON:
            problems.append(f"it uses {name}, in the stable ABI since {'.'.join(map(str, known[name]))} only")
    if not of_python:
        problems.append("it uses nothing of Python's: it cannot be an extension module")
    defined = {name.partition("@")[0] for index, name in symbols if index != "UND"}
    if "PyInit__core" not in defined:
        problems.append("it has no PyInit__core: Python cannot load it")
    return problems, {"linked_to": needed, "glibc": dotted(glibc), "python_symbols": len(of_python),
                      "library_bytes": library.stat().st_size}


def look(wheel, most_bytes):
    problems, tag = tag_problems(wheel.name)
    size = wheel.stat().st_size
    if size > most_bytes:
        problems.append(f"it has {size} bytes, and {most_bytes} is the bound")
    found = {"wheel": wheel.name, "tag": tag, "bytes": size}
    with zipfile.ZipFile(wheel) as archive, tempfile.TemporaryDirectory() as folder:
        names = archive.namelist()
        for what, pattern in INSIDE.items():
            if not any(re.fullmatch(pattern, name) for name in names):
                problems.append(f"{what} is not inside ({pattern})")
        problems += [f"{name} does not belong inside" for name in names if not BELONGS.fullmatch(name)]
        found["files"] = len(names)
        if "uvatrain/_core.abi3.so" in names:
            library = Path(archive.extract("uvatrain/_core.abi3.so", folder))
            more, about = library_problems(library)
            problems += more
            found.update(about)
        for member in archive.infolist():
            if re.fullmatch(INSIDE["the program"], member.filename):
                if not member.external_attr >> 16 & 0o111:
                    problems.append("the program: pip would not make it executable")
                more, about = program_problems(Path(archive.extract(member, folder)))
                problems += more
                found.update(about)
        problems += list_problems(archive)
    promised = re.search(r"manylinux_(\d+)_(\d+)_", wheel.name)
    for what in ("glibc", "program_glibc") if promised else ():
        asked = found.get(what) or "0"
        if tuple(map(int, asked.split("."))) > tuple(map(int, promised.groups())):
            problems.append(f"{what.replace('_', ' ')} {asked} is required, but its tag promises {'.'.join(promised.groups())}")
    return problems, found


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("wheel", type=Path)
    parser.add_argument("--most-bytes", type=int, default=MOST_BYTES)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    try:
        problems, found = look(arguments.wheel, arguments.most_bytes)
    except (OSError, zipfile.BadZipFile) as error:
        sys.exit(f"wheel: {arguments.wheel}: {error}")
    if arguments.json:
        print(json.dumps({**found, "problems": problems}, indent=1))
    else:
        for key, value in found.items():
            print(f"{key.replace('_', ' '):<15} {', '.join(value) if isinstance(value, list) else value}")
    for problem in problems:
        print(f"wheel: {problem}", file=sys.stderr)
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main()
