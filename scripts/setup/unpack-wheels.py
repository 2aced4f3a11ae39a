#!/usr/bin/env python3
"""The part of scripts/setup/python.sh that reads wheels. It runs before anything is installed: the standard library only.

    unpack-wheels.py missing LIST FOLDER…              the requirements of LIST that no wheel in a folder satisfies
    unpack-wheels.py unpack LIST ROOT KEPT FOLDER…     unpacks LIST's wheels into the virtual environment ROOT

A wheel fits where its file name says so for the Python that runs this. KEPT is an expression over `name` that says which
members are unpacked. Programs search their own folder for Python, so that ROOT may be renamed.
"""
import configparser
import platform
import re
import sys
import zipfile
from pathlib import Path

MINOR = sys.version_info.minor
PROGRAM = """#!/bin/sh
'''exec' "$(dirname "$(readlink -f "$0")")/python3" "$0" "$@"
' '''
import sys
from {module} import {function}
sys.exit({call}())
"""


def requirements(path):
    """(name, version) of each line that applies to this Python."""
    for number, line in enumerate(Path(path).read_text().splitlines(), 1):
        line = line.partition("#")[0].strip()
        if not line:
            continue
        found = re.fullmatch(r'([\w.-]+)==([\w.]+)(?:; python_version < "3\.(\d+)")?', line)
        if not found:
            sys.exit(f"{path}:{number}: not NAME==VERSION: {line}")
        name, version, below = found.groups()
        if below is None or MINOR < int(below):
            yield name, version


def fits(file):
    """Whether a wheel's tags are for this Python and this machine."""
    *_, pythons, abis, platforms = file.name[:-len(".whl")].split("-")
    machine = platform.machine()
    if not any(tag == "any" or "linux" in tag and tag.endswith(machine) for tag in platforms.split(".")):
        return False
    for python in pythons.split("."):
        if python == "py3" or python == f"cp3{MINOR}" and abis in ("none", "abi3", python):
            return True
        stable = re.fullmatch(r"cp3(\d+)", python)
        if stable and abis == "abi3" and int(stable[1]) <= MINOR:
            return True
    return False


def wheel_of(name, version, folders):
    """The first wheel of a requirement that fits, or None."""
    spelled = re.compile(r"[-_.]+".join(map(re.escape, re.split(r"[-_.]+", name))), re.IGNORECASE)
    for folder in folders:
        for file in sorted(Path(folder).glob(f"*-{version}-*.whl")):
            if spelled.fullmatch(file.name.split("-")[0]) and fits(file):
                return file
    return None


def unpack(wheel, root, kept):
    """One wheel, as its format says: what is in NAME.data goes to the place that its folder names."""
    site = root / f"lib/python3.{MINOR}/site-packages"
    with zipfile.ZipFile(wheel) as archive:
        for member in archive.infolist():
            if member.is_dir() or not kept(member.filename):
                continue
            data = re.fullmatch(r"[^/]+\.data/(scripts|purelib|platlib|data|headers)/(.+)", member.filename)
            if data is None or data[1] in ("purelib", "platlib"):
                target, inside = site, data[2] if data else member.filename
            else:
                target = {"scripts": root / "bin", "data": root, "headers": root / "include"}[data[1]]
                inside = data[2]
            path = target / inside
            if not path.resolve().is_relative_to(root.resolve()):
                sys.exit(f"{wheel}: {member.filename} would lie outside of the environment")
            path.parent.mkdir(parents=True, exist_ok=True)
            # Reading a member checks its CRC.
            with archive.open(member) as source, open(path, "wb") as copy:
                while chunk := source.read(1 << 20):
                    copy.write(chunk)
            if target.name == "bin" or member.external_attr >> 16 & 0o111:
                path.chmod(0o755)
        points = configparser.ConfigParser(delimiters="=", interpolation=None)
        points.optionxform = str
        names = [name for name in archive.namelist() if name.endswith(".dist-info/entry_points.txt")]
        points.read_string("".join(archive.read(name).decode() for name in names))
        programs = points["console_scripts"] if points.has_section("console_scripts") else {}
        for program, value in programs.items():
            module, _, call = value.partition("[")[0].strip().partition(":")
            path = root / "bin" / program
            path.write_text(PROGRAM.format(module=module, function=call.split(".")[0], call=call))
            path.chmod(0o755)


def main():
    mode, listed, *rest = sys.argv[1:]
    folders = rest if mode == "missing" else rest[2:]
    wheels = {(name, version): wheel_of(name, version, folders) for name, version in requirements(listed)}
    missing = [f"{name}=={version}" for (name, version), wheel in wheels.items() if wheel is None]
    if mode == "missing":
        print("\n".join(missing))
        return
    if missing:
        sys.exit(f"no wheel for this Python of {', '.join(missing)}")
    kept = eval("lambda name: " + rest[1])
    for wheel in wheels.values():
        try:
            unpack(wheel, Path(rest[0]), kept)
        except (OSError, zipfile.BadZipFile) as error:
            sys.exit(f"{wheel}: {error}")


if __name__ == "__main__":
    main()
