#!/usr/bin/env python3
"""Checks what a release would publish, without building anything.

    scripts/release/packages.py [--unreleased]

- One version in all crates, their dependencies on each other, Cargo.lock, CHANGELOG.md, and the extras of the Python
  module that name uvatrain's other wheels.
- Every published crate has its metadata; its dependencies in this workspace are published too, and have a version.
- `cargo package` would put both licences, the README and all included files into each package, and no large file.
- No tracked file contains a path of a developer's machine.

Without --unreleased, CHANGELOG.md needs a dated section for the version, and its section "Unreleased" must be empty.
With --unreleased, as between releases, it needs either of the two sections.

Prints each problem on a line and exits with 1 if there is one.
"""
import argparse
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
#: A published package may be 10 MB compressed. Ours are source text: a larger file or crate is a mistake.
MOST_FILE, MOST_CRATE = 400_000, 4_000_000
IN_EVERY_PACKAGE = ["Cargo.toml", "LICENSE-APACHE", "LICENSE-MIT", "README.md"]
PYPROJECT = "crates/uva-py/pyproject.toml"
METADATA = ["description", "license", "readme", "keywords", "categories", "rust_version"]
#: Home folders of real users, which no file needs to name. Tests use the invented ones.
MACHINE = re.compile(r"(?<![\w.$}\"])/(?:home|Users)/\w+/|(?<![\w.$}/])/root/\w")
INVENTED = re.compile(r"/home/(?:somebody|user|me|you)/")
#: `include_str!` and `include_bytes!` with a literal path.
INCLUDE = re.compile(r"include_(?:str|bytes)!\(\s*(?:concat!\(\s*)?\"([^\"]*)\"")


def cargo(*arguments):
    command = ["cargo", *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"release: {' '.join(command)}\nexited with {done.returncode}:\n{done.stderr}")
    return done.stdout


def is_published(package):
    return package["publish"] is None or bool(package["publish"])


def version_problems(packages, version, unreleased):
    problems = [f"{one['name']} has version {one['version']}, but the workspace has {version}"
                for one in packages.values() if one["version"] != version]
    lock = (ROOT / "Cargo.lock").read_text()
    for name in packages:
        locked = re.search(rf'^name = "{re.escape(name)}"\nversion = "([^"]+)"', lock, re.MULTILINE)
        if locked is None or locked[1] != version:
            problems.append(f"Cargo.lock has {locked[1] if locked else 'no version'} of {name}, not {version}: cargo update --workspace")
    for asked, its in re.findall(r'"(uvatrain[\w-]*)==([^"]+)"', (ROOT / PYPROJECT).read_text()):
        if its != version:
            problems.append(f"{PYPROJECT} requires {asked} {its}, but the workspace has {version}")
    text = (ROOT / "CHANGELOG.md").read_text()
    headings = re.findall(r"^## (.+)$", text, re.MULTILINE)
    own = re.compile(rf"\[?{re.escape(version)}\]? [-–] \d{{4}}-\d\d-\d\d")
    if not any(own.fullmatch(heading) for heading in headings):
        if not unreleased:
            problems.append(f"CHANGELOG.md has no section '## {version} - YYYY-MM-DD', only {', '.join(headings)}")
        elif "Unreleased" not in headings:
            problems.append(f"CHANGELOG.md has neither a section '## Unreleased' nor one of {version}")
    elif not unreleased and re.search(r"^## Unreleased\n+(?!\n|## |\Z)", text, re.MULTILINE):
        problems.append(f"CHANGELOG.md has changes under '## Unreleased': move them to the section of {version}")
    return problems


def metadata_problems(packages, version):
    problems = []
    for package in packages.values():
        name = package["name"]
        if not is_published(package):
            continue
        problems += [f"{name}: Cargo.toml has no {field.replace('_', '-')}" for field in METADATA if not package[field]]
        if len(package["keywords"]) > 5 or any(len(word) > 20 for word in package["keywords"]):
            problems.append(f"{name}: at most five keywords of at most 20 characters")
        for dependency in package["dependencies"]:
            other = packages.get(dependency["name"])
            # Cargo drops a development dependency without a version from the package.
            if other is None or dependency["kind"] == "dev" and dependency["req"] == "*":
                continue
            if dependency["req"] == "*":
                problems.append(f"{name}: its dependency {other['name']} has no version: set it in the workspace's Cargo.toml")
            elif dependency["req"] != f"^{version}":
                problems.append(f"{name}: wants {other['name']} {dependency['req']}, not ^{version}")
            if not is_published(other):
                problems.append(f"{name}: depends on {other['name']}, which is not published")
    return problems


def package_problems(package):
    """The problems with the files of a crate's package, and their size in bytes."""
    name, folder = package["name"], Path(package["manifest_path"]).parent
    # The lock file would require the registry's index, which a clean machine does not have yet.
    files = cargo("package", "--list", "--allow-dirty", "--offline", "--exclude-lockfile", "--package", name).splitlines()
    problems = [f"{name}: its package has no {needed}" for needed in IN_EVERY_PACKAGE if needed not in files]
    total = 0
    for file in files:
        path = folder / file
        # Cargo generates a few files.
        if not path.is_file():
            continue
        total += (size := path.stat().st_size)
        if size > MOST_FILE:
            problems.append(f"{name}: {file} has {size} bytes; the limit is {MOST_FILE}")
        if path.suffix == ".rs" and (file.startswith("src/") or file == "build.rs"):
            problems += include_problems(name, folder, file, files)
    if total > MOST_CRATE:
        problems.append(f"{name}: its files have {total} bytes; the limit is {MOST_CRATE}")
    return problems, total


def include_problems(name, folder, file, files):
    """Included files that are not in the package."""
    problems = []
    for included in INCLUDE.findall((folder / file).read_text()):
        # `Path.resolve` would follow the crate's links out of it.
        parts = []
        for part in (*Path(file).parent.parts, *Path(included).parts):
            if part == ".." and not parts:
                problems.append(f"{name}: {file} includes {included}, outside of the crate")
                break
            parts = parts[:-1] if part == ".." else [*parts, part]
        else:
            path = "/".join(parts)
            if path not in files and not any(one.startswith(path.rstrip("/") + "/") for one in files):
                problems.append(f"{name}: {file} includes {included}, which its package lacks")
    return problems


def licence_problems(packages):
    problems = []
    for licence in ("LICENSE-MIT", "LICENSE-APACHE"):
        text = (ROOT / licence).read_text()
        for package in packages.values():
            copy = Path(package["manifest_path"]).parent / licence
            if copy.exists() and copy.read_text() != text:
                problems.append(f"{copy.relative_to(ROOT)} is not the text of {licence}")
    return problems


def path_problems():
    """Paths of a developer's machine in tracked files."""
    problems = []
    if shutil.which("git") is None or not (ROOT / ".git").exists():
        print("release: skipping the check of paths, which requires git and a clone", file=sys.stderr)
        return problems
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for file in filter(None, listed.split("\0")):
        path = ROOT / file
        if path.is_symlink() or not path.is_file() or path == Path(__file__).resolve():
            continue
        try:
            text = path.read_text()
        except UnicodeDecodeError:
            continue
        for number, line in enumerate(text.splitlines(), 1):
            if MACHINE.search(INVENTED.sub("", line)):
                problems.append(f"{file}:{number}: a path of a machine: {line.strip()[:100]}")
    return problems


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--unreleased", action="store_true", help="accept a changelog without a section for the version")
    arguments = parser.parse_args()
    metadata = json.loads(cargo("metadata", "--no-deps", "--format-version", "1", "--offline"))
    packages = {package["name"]: package for package in metadata["packages"]}
    version = packages["uvatrain"]["version"]
    published = [package for package in packages.values() if is_published(package)]
    problems = version_problems(packages, version, arguments.unreleased)
    problems += metadata_problems(packages, version)
    total = 0
    for package in published:
        more, size = package_problems(package)
        problems += more
        total += size
    problems += licence_problems(packages)
    problems += path_problems()
    for problem in problems:
        print(f"release: {problem}", file=sys.stderr)
    if not problems:
        kept = ", ".join(sorted(set(packages) - {package["name"] for package in published}))
        print(f"release: {len(published)} crates of version {version}, {total / 1e6:.1f} MB of files; not published: {kept}")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
