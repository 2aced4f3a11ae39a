#!/usr/bin/env python3
"""Counts what makes additions expensive, and fails if a count is above its limit.

| count | what it is |
|---|---|
| row predicates | calls of methods that decide where a row of a batch comes from, one case at a time |
| hop set branches | questions whether a dataset, batch or model is of a hop set, outside the modules of hop sets |
| crowded folders | folders of product code with more than 15 entries |
| shared names | names that more than one public type of the workspace has; modules for instruction sets count as one |
| long files | product files with more than 500 lines of code, tests left out |
| flags in library strings | strings of library crates with a `--flag`, tests and commands between backticks left out |
| long test names | tests in Rust and Python whose function has a name of more than 70 characters |

    scripts/check/house.py             compare with the limits below
    scripts/check/house.py --show      print each place as well
    scripts/check/house.py --lines     print lines of product code by crate

Lower a limit with each change that lowers its count. Test modules and comments are not counted, and strings only where
a row is about them.
"""

import argparse
import re
import sys
from collections import defaultdict
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from imports import block_end, without_comments, without_tests  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
MOST_ENTRIES = 15
MOST_LINES = 500
LONGEST_TEST_NAME = 70

LIMITS = {
    "row predicates": 9,
    "hop set branches": 10,
    "crowded folders": 0,
    "shared names": 5,
    "long files": 0,
    "flags in library strings": 12,
    "long test names": 0,
}

PREDICATES = [
    "are_before_disk", "by_cufile", "continues_sums", "copies_rows", "cufile_might_read", "reads_by_cufile",
    "reads_table_from_disk", "splices", "sums_made",
]  # fmt: skip
CALL = re.compile(r"[.:](?:" + "|".join(PREDICATES) + r")\(")
# Modules that are only about hop sets.
OF_HOPS = re.compile(r"/(hop|hops)[_/.]|uva-propagate/|/hop_\w+\.rs|hop_model|hop_rows|uva-sample/src/hops/")
# Each way to ask: by the dataset, by the batches of a run, by the model, and by whether there is a graph. `--hops` of a
# partition (`cut.hops`) is the hops around training nodes that a part has.
HOP_BRANCH = re.compile(
    r"\breads_hops\(|(?<!cut\.)\bhops(?:\(\))?\s*\.is_(?:some|none)\b|Some\(hops\).*=(?!=)|HopRun::of\(|RunData::Hops\("
    r"|\bgraph\(\)(?:\s*\.is_(?:some|none)\b| \{|\s*else\b)|\bNone => .*HopSet|HopSet::is_at\("
)
# Modules with the same loops for another instruction set: equal names there are one type.
TWINS = re.compile(r"/avx(?:2|512)\.rs$")
TYPE = re.compile(r"(?:^|\n)[ \t]*pub(?:\([^)]*\))?[ \t]+(?:struct|enum|trait|type)[ \t]+(\w+)")
# The command line's own crates know how options are spelled. A library names them between backticks, and a front end
# writes them in its own way (`uva_options::Spelling`).
FRONT_ENDS = {"uvatrain", "uvatrain-consumer"}
COMMENT_OR_STRING = re.compile(
    r"""//[^\n]*|/\*.*?\*/|b?r(#*)".*?"\1|b?"(?:\\.|[^"\\])*"|b?'(?:\\[^\n']+|[^\\'\n])'""", re.DOTALL
)
FLAG = re.compile(r"(?<![\w-])--[a-z][a-z-]*[a-z]")
BETWEEN_BACKTICKS = re.compile(r"`[^`]*`")
# A function after #[test], with other attributes and comments between them, or one that pytest collects.
RUST_TEST = re.compile(r"#\[test\](?:\s*(?:#\[[^\]]*\]|//[^\n]*))*\s*fn (\w+)")
PYTHON_TEST = re.compile(r"\bdef (test_\w+)")


def sources():
    """Each product file with its code: no comments, strings and test modules."""
    for path, text in product_files():
        code, _ = without_tests(without_comments(text))
        yield path, code


def product_files():
    """Each product file, with its text."""
    for path in sorted((ROOT / "crates").glob("*/src/**/*.rs")):
        relative = path.relative_to(ROOT).as_posix()
        if re.search(r"/tests(/|\.rs$)|/testing\.rs$|/conformance/", relative) or relative.startswith("crates/cuda-sim/"):
            continue
        yield relative, path.read_text()


def flags(path, text):
    """The strings of a library's file that have a `--flag`."""
    if path.split("/")[1] in FRONT_ENDS:
        return
    # Test modules are found in code alone: what braces a string has do not count.
    blanked = COMMENT_OR_STRING.sub(lambda found: " " * len(found[0]), text)
    kept = [True] * len(text)
    for found in re.finditer(r"#\[cfg\((?:all\()?test\b[^\]]*\]", blanked):
        brace, semicolon = blanked.find("{", found.end()), blanked.find(";", found.end())
        end = block_end(blanked, brace) if -1 < brace and not -1 < semicolon < brace else semicolon + 1
        kept[found.start() : end] = [False] * (end - found.start())
    for found in COMMENT_OR_STRING.finditer(text):
        if found[0][0] not in "/'" and not found[0].startswith("b'") and kept[found.start()]:
            if FLAG.search(BETWEEN_BACKTICKS.sub(lambda quoted: "" if " " in quoted[0] else quoted[0], found[0])):
                yield f"{path}:{text.count(chr(10), 0, found.start()) + 1}: {' '.join(found[0].split())}"


def tests():
    """Each test of the checkout with its file."""
    for root in ("crates", "tests", "scripts", "fuzz", "benches", "examples"):
        for path in sorted((ROOT / root).rglob("*")):
            pattern = {".rs": RUST_TEST, ".py": PYTHON_TEST}.get(path.suffix)
            if pattern and path.is_file() and "target" not in path.parts:
                for name in pattern.findall(path.read_text()):
                    yield path.relative_to(ROOT).as_posix(), name


def count():
    """The places of each count."""
    found = defaultdict(list)
    types = defaultdict(list)
    lines = defaultdict(int)
    for path, code in sources():
        for number, line in enumerate(code.splitlines(), 1):
            if CALL.search(line) and not re.search(r"\bfn\b", line):
                found["row predicates"] += [f"{path}: {line.strip()}"] * len(CALL.findall(line))
            if HOP_BRANCH.search(line) and not OF_HOPS.search(path) and not re.search(r"\bfn\b", line):
                found["hop set branches"].append(f"{path}: {line.strip()}")
        for name in TYPE.findall(code):
            if not (TWINS.search(path) and any(TWINS.search(other) for other in types[name])):
                types[name].append(path)
        length = sum(1 for line in code.splitlines() if line.strip())
        lines[path.split("/")[1]] += length
        if length > MOST_LINES:
            found["long files"].append(f"{path}: {length} lines")
    for path, text in product_files():
        found["flags in library strings"] += flags(path, text)
    found["shared names"] = [f"{name}: {', '.join(paths)}" for name, paths in sorted(types.items()) if len(paths) > 1]
    for folder in sorted(path for path in ROOT.glob("crates/*/src/**") if path.is_dir()):
        entries = sum(1 for _ in folder.iterdir())
        if entries > MOST_ENTRIES:
            found["crowded folders"].append(f"{folder.relative_to(ROOT).as_posix()}: {entries} entries")
    found["long test names"] = [
        f"{path}: {name}: {len(name)} characters" for path, name in tests() if len(name) > LONGEST_TEST_NAME
    ]
    return found, lines


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--show", action="store_true", help="print each place as well")
    parser.add_argument("--lines", action="store_true", help="print lines of product code by crate")
    arguments = parser.parse_args()
    found, lines = count()
    if arguments.lines:
        for name, number in sorted(lines.items()):
            print(f"{number:7} {name}")
        print(f"{sum(lines.values()):7} all")
    above = 0
    for name, limit in LIMITS.items():
        places = found[name]
        verdict = "" if len(places) <= limit else ": ABOVE THE LIMIT"
        above += len(places) > limit
        print(f"{len(places):5} of {limit:5}  {name}{verdict}")
        if arguments.show or verdict:
            print("\n".join(f"             {place}" for place in places))
    return 1 if above else 0


if __name__ == "__main__":
    sys.exit(main())
