#!/usr/bin/env python3
"""Looks at what a release would publish, without building anything, and says what is wrong.

    scripts/release/packages.py [--unreleased]

- one version everywhere: crates, their dependencies on each other, Cargo.lock, CHANGELOG.md, what the Python module's
  extras ask of uvatrain's other wheels
- metadata of every crate that is published; what it takes of this workspace is published too, and in a version
- what `cargo package` would put into each: both licences, the README, all files that its code includes, nothing large
- no path of a machine in what is shipped

--unreleased lets CHANGELOG.md have a section "Unreleased" in the place of the version's own, as between releases.

Exit code 1 and a line for each thing that is wrong.
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
#: Home folders, as no text of the project has a reason to name them. Tests invent some.
MACHINE = re.compile(r"(?<![\w.$}\"])/(?:home|Users)/\w+/|(?<![\w.$}/])/root/\w")
INVENTED = re.compile(r"/home/(?:somebody|user|me|you)/")
#: Includes of Rust, as far as their path is written out.
INCLUDE = re.compile(r"include_(?:str|bytes)!\(\s*(?:concat!\(\s*)?\"([^\"]*)\"")


def cargo(*arguments):
    command = ["cargo", *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"release: {' '.join(command)}\nended with {done.returncode}:\n{done.stderr}")
    return done.stdout


def is_published(package):
    return package["publish"] is None or bool(package["publish"])


def version_problems(packages, version, unreleased):
    problems = [f"{one['name']} has version {one['version']}, and the workspace has {version}"
                for one in packages.values() if one["version"] != version]
    lock = (ROOT / "Cargo.lock").read_text()
    for name in packages:
        locked = re.search(rf'^name = "{re.escape(name)}"\nversion = "([^"]+)"', lock, re.MULTILINE)
        if locked is None or locked[1] != version:
            problems.append(f"Cargo.lock has {locked[1] if locked else 'no version'} of {name}, not {version}: cargo update --workspace")
    for asked, its in re.findall(r'"(uvatrain[\w-]*)==([^"]+)"', (ROOT / PYPROJECT).read_text()):
        if its != version:
            problems.append(f"{PYPROJECT} asks for {asked} {its}, and the workspace has {version}")
    headings = re.findall(r"^## (.+)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    own = re.compile(rf"\[?{re.escape(version)}\]? [-–] \d{{4}}-\d\d-\d\d")
    if not any(own.fullmatch(heading) for heading in headings):
        if not unreleased:
            problems.append(f"CHANGELOG.md has no section '## {version} - YYYY-MM-DD', only {', '.join(headings)}")
        elif "Unreleased" not in headings:
            problems.append("CHANGELOG.md has no section '## Unreleased'")
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
            # Without a version, what only tests use is left out of the package.
            if other is None or dependency["kind"] == "dev" and dependency["req"] == "*":
                continue
            if dependency["req"] == "*":
                problems.append(f"{name}: its dependency {other['name']} has no version: give it in the workspace's Cargo.toml")
            elif dependency["req"] != f"^{version}":
                problems.append(f"{name}: wants {other['name']} {dependency['req']}, not ^{version}")
            if not is_published(other):
                problems.append(f"{name}: depends on {other['name']}, which is not published")
    return problems


def package_problems(package):
    """What is wrong with the files that a crate's package would have, and their bytes."""
    name, folder = package["name"], Path(package["manifest_path"]).parent
    # Without the lock file nothing is looked up in the registry's index, which a clean machine does not have yet.
    files = cargo("package", "--list", "--allow-dirty", "--offline", "--exclude-lockfile", "--package", name).splitlines()
    problems = [f"{name}: its package has no {needed}" for needed in IN_EVERY_PACKAGE if needed not in files]
    total = 0
    for file in files:
        path = folder / file
        # Cargo writes a few files itself.
        if not path.is_file():
            continue
        total += (size := path.stat().st_size)
        if size > MOST_FILE:
            problems.append(f"{name}: {file} has {size} bytes, and {MOST_FILE} is the bound")
        if path.suffix == ".rs" and (file.startswith("src/") or file == "build.rs"):
            problems += include_problems(name, folder, file, files)
    if total > MOST_CRATE:
        problems.append(f"{name}: its files have {total} bytes, and {MOST_CRATE} is the bound")
    return problems, total


def include_problems(name, folder, file, files):
    """Includes of files that are not in the package."""
    problems = []
    for included in INCLUDE.findall((folder / file).read_text()):
        # Not resolved, as a link within the crate leads out of it.
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
    """Paths of somebody's machine in files that git tracks."""
    problems = []
    if shutil.which("git") is None or not (ROOT / ".git").exists():
        print("release: paths are not looked at: that takes git and a clone", file=sys.stderr)
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
    parser.add_argument("--unreleased", action="store_true", help="the changelog may still say Unreleased")
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
