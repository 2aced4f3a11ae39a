"""The snippets of README.md and docs/**/*.md: each page's are run in their order, in an empty folder.

A snippet that needs a GPU, several machines, a download or a script of the reader's own has a line before its fence
that says so, `<!-- not run: REASON -->`. It is parsed only. That the program knows each option of every snippet is
checked by tests/integration/project/docs.rs.
"""

import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import NamedTuple

import pytest
from conftest import REPOSITORY, WATCHDOG
from forked import Forked

PAGES = [REPOSITORY / "README.md", *sorted((REPOSITORY / "docs").rglob("*.md"))]
SNIPPET = re.compile(r"^(?:<!-- not run: (?P<reason>[^\n]+) -->\n)?```(?P<language>sh|python|py)\n(?P<text>.*?)^```$", re.M | re.S)


class Snippet(NamedTuple):
    """A block of a page: where it stands, its language and text, and why it is not run."""

    place: str
    language: str
    text: str
    reason: str | None


def snippets(page):
    text = page.read_text()
    found = []
    for match in SNIPPET.finditer(text):
        line = text.count("\n", 0, match.start("text")) + 1
        language = "sh" if match["language"] == "sh" else "python"
        found.append(Snippet(f"{page.name}:{line}", language, textwrap.dedent(match["text"]), match["reason"]))
    return found


def run(snippet, folder, environment):
    if snippet.language == "python":
        process = Forked(snippet.text, [], folder, environment)
        try:
            output = "".join(process.communicate(timeout=WATCHDOG))
        finally:
            process.kill()
            process.wait()
        code = process.returncode
    else:
        # In a shell that ends with the first command that fails, as a reader would stop.
        ended = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", snippet.text], cwd=folder, env=environment, stdin=subprocess.DEVNULL,
            text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=WATCHDOG)  # fmt: skip
        output, code = ended.stdout, ended.returncode
    assert code == 0, f"{snippet.place}\n{snippet.text}\n{output}"


def test_every_mark_precedes_a_snippet():
    for page in PAGES:
        marks = page.read_text().count("<!-- not run")
        assert marks == sum(snippet.reason is not None for snippet in snippets(page)), page.name


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_snippets_parse(page):
    for snippet in snippets(page):
        if snippet.language == "python":
            compile(snippet.text, snippet.place, "exec")
        else:
            checked = subprocess.run(["bash", "-n"], input=snippet.text, text=True, capture_output=True)
            assert checked.returncode == 0, f"{snippet.place}\n{checked.stderr}"


@pytest.mark.skipif("UVATRAIN_PROGRAM" not in os.environ, reason="needs the program")
@pytest.mark.parametrize("page", [page for page in PAGES if any(not s.reason for s in snippets(page))], ids=lambda page: page.stem)
def test_a_page_runs_from_its_first_snippet_on(page, tmp_path):
    for name in ("examples", "scripts"):
        (tmp_path / name).symlink_to(REPOSITORY / name)
    folders = [Path(os.environ["UVATRAIN_PROGRAM"]).parent, Path(sys.executable).parent, os.environ["PATH"]]
    environment = dict(os.environ, PATH=os.pathsep.join(map(str, folders)))
    for snippet in snippets(page):
        if not snippet.reason:
            run(snippet, tmp_path, environment)
