#!/usr/bin/env python3
"""Makes docs/reference/results.md from docs/results/*.json.

    scripts/check/results.py            compare the page with the files; ends with 1 and a difference
    scripts/check/results.py --write    rewrite it

A file that no topic of scripts/check/figures/ shows fails as well, unless `RAW_ONLY` has it.
"""
import argparse
import difflib
import sys

sys.dont_write_bytecode = True

from figures import gpu, host, peers, training  # noqa: E402
from figures.markdown import RESULTS, ROOT  # noqa: E402

PAGE = ROOT / "docs/reference/results.md"
#: Files that the page does not show: another page has all that a reader needs of them, or they are sources of a comment in the
#: code, or records of tests.
RAW_ONLY = {"cores.json", "fuzz.json", "gpu/captured-h200.json", "gpu/loaders-h200.json", "gpu/runs-h100.json", "part-caches.json",
            "planted.json", "python-faults.json", "python-step.json", "random-faults.json", "recovery.json", "soak.json", "standby.json"}
HEAD = """# Results

`scripts/check/results.py --write` makes this page from the raw results in `docs/results/`, which have every round. Each
topic names the script that measures it, its raw files and its machine: *Xeon* and *EPYC* are two cores of a shared
virtual machine with 24 GiB. Figures are medians, with the least and the most in brackets where they are shown. A dash
stands for what was not measured. [Performance](../guide/performance.md) says what the figures mean.
"""


def page():
    """The text, and the names of the files whose figures are in it."""
    parts, shown = [HEAD.rstrip()], set()
    for topics in (host.TOPICS, peers.TOPICS, training.TOPICS, gpu.TOPICS):
        for shelf, found in topics.items():
            parts.append(f"## {shelf}")
            for topic in found:
                text, files = topic()
                parts.append(text)
                shown.update(files)
    return "\n\n".join(parts) + "\n", shown


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--check", action="store_true", help="the default")
    arguments = parser.parse_args()
    text, shown = page()
    absent = {str(path.relative_to(RESULTS)) for path in RESULTS.rglob("*.json")} - shown
    if absent != RAW_ONLY:
        sys.exit(f"results: no topic shows {', '.join(sorted(absent - RAW_ONLY))}; RAW_ONLY has {', '.join(sorted(RAW_ONLY - absent))}")
    if arguments.write:
        PAGE.write_text(text)
        return
    there = PAGE.read_text() if PAGE.exists() else ""
    if there != text:
        sys.stderr.writelines(difflib.unified_diff(there.splitlines(True), text.splitlines(True), str(PAGE), "docs/results", n=0))
        sys.exit("results: docs/reference/results.md is not what docs/results/ has; scripts/check/results.py --write")


if __name__ == "__main__":
    main()
