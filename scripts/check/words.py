#!/usr/bin/env python3
"""Checks that prose uses the plain phrases of technical English, and fails where an area has more banned phrases than its
limit.

| area | what is read |
|---|---|
| rust | comments and strings of Rust sources outside of test folders; comments of kernels, Cargo.toml and the report's page |
| docs | Markdown without generated parts, Dockerfiles, the systemd unit; in blocks of code only comments |
| python | comments, docstrings and strings of the Python package and the examples |
| scripts | shell scripts as a whole; comments, docstrings and strings of Python scripts; workflows |
| tests | comments and strings in test folders, and the names of all tests, with spaces for underscores |

    scripts/check/words.py                    compare with the limits below
    scripts/check/words.py --show             print each place as well
    scripts/check/words.py --area docs        one area
    scripts/check/words.py --table            print the phrases and what to write instead

Names in backticks and placeholders in braces are code, and code is not read. Lower a limit with each change that lowers
its count. A phrase with a correct use needs a narrower pattern, not an exception for a file.
"""

import argparse
import io
import re
import subprocess
import sys
import tokenize
from bisect import bisect_right
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from house import PYTHON_TEST, RUST_TEST  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
AREAS = ["rust", "docs", "python", "scripts", "tests"]

LIMITS = {area: 0 for area in AREAS}

#: Places of an area above its limit that are printed without --show.
MOST_SHOWN = 40

END = r"(?= ?[.,;:)!?|]|$)"
#: Banned phrase → plain phrase. A space of a pattern stands for any white space, with a comment's marker in it or not.
PHRASES = {
    r"told": "reported, specified; 'by default' for 'unless told otherwise'",
    r"tells?(?! .{0,60}\b(?:apart|from)\b)|telling(?! .{0,40}\bapart\b)": "reports, shows, specifies",
    r"nobody|no one(?! of)": "no process, no user; a passive sentence",
    r"somebody(?!\||/)|someone": "a user, another process",
    r"whoever": "the process that, a user who",
    r"(?<!there )(?:is|are|was|were) no(?! (?:longer|more|less|fewer|\w+er than)\b)(?= \w)": "is not a; 'invalid value: expected a or b'; has no",
    r"(?:is|are|was|were|be) none of": "is not one of; 'invalid value: expected a or b'",
    r"leav(?:e|es|ing) (?:[\w'-]+ ){0,4}out(?! of)": "omit; 'not supported with', 'only valid with'",
    r"ask(?:s|ed|ing)? for": "request, require",
    r"asks? (?:\w+ )?of": "require, send requests to",
    r"(?:go|goes|going|gone|went) on(?! the\b)": "continue, resume",
    r"is nothing without": "requires",
    r"nothing but": "only",
    r"(?:nothing|something|much|little) of (?:it|its|them|the|this|that|what)": "no part of, part of, most of",
    r"in vain|for nothing": "without result; at no cost",
    r"of (?:its|their) own accord": "automatically",
    r"(?:without|not|sends?|gets?|has|with) a word": "without a message; a message",
    r"word for word|to the letter": "exactly, literally",
    r"the like" + END: "similar, such as",
    r"alike": "in the same way, both, the same",
    r"so many(?! \w+ that\b)": "this many, n",
    r"by (?:itself|themselves)": "alone, automatically, without …",
    r"(?<![-\w])besides?": "next to, with, together with, in addition to",
    r"(?<!fall )(?<!falls )(?<!lag )(?<!lags )(?<!far )(?<!left )(?<!leave )(?<!leaves )behind(?! (?:(?:an?|the|its|one) )?(?:[\w-]+ )?(?:trait|interface|link|symlink|feature|lock|mutex|flag|pointer|cfg|attribute|proxy|firewall)\b)": "after, following",
    r"(?<!cache )(?<!caches )in front of": "before",
    r"comes? to(?= (?:\d|about|more|less|nothing|the same|_))": "is, amounts to",
    r"what (?:it|they|that) takes?": "what it requires",
    r"(?:is|are|be) had": "available, obtained",
    r"as (?:it is|they are|it was|they were)" + END: "unchanged",
    r"stays? (?:as|what) (?:it|they) (?:is|was|are|were)": "does not change",
    r"in the place of": "instead of, in place of",
    r"anew": "again, from the start",
    r"for ever": "indefinitely, without end",
    r"for want of": "without, for lack of",
    r"(?:it|that|which|this) is of (?:--[\w-]+|_+|another)": "only valid with, belongs to",
    r"(?:is|are|was|were|be) said": "reported, printed, documented",
    r"no more" + END: "no longer",
    r"(?:on|in) (?:its|their) way": "in flight, being sent",
    r"at hand": "available",
    r"whose (?:it is|they are)": "that owns it",
    r"(?:is|are) for what": "what it is for",
    r"stands? (?:in(?! for)|at|on|there|before|after)": "is in, is at",
    r"nowhere in particular": "arbitrary",
    r"trouble[sd]?": "error, failure, problem",
    r"(?:in|by) turns": "alternately, interleaved",
    r"once more": "again",
    r"(?:do|does|did|done|doing) without": "work without, not need",
    r"all the same" + END: "anyway, nevertheless",
    r"lest": "so that … not",
    r"(?:hears?|heard|hearing)": "receives, is notified of",
    r"(?:learns?|learned|learning|know|knows|knew) of": "has information on, receives",
    r"apiece": "each",
    r"(?:is|are|was|were|be|been) looked (?:at|for|into|up by)": "checked, searched for, read",
    r"(?:go|goes|gone|went) with (?:it|its|them|their|the)": "is removed with, belongs to",
    r"dear(?:er|est|ly)?": "expensive",
    r"of no (?:use|avail|account|consequence|matter)": "unused, without effect",
    r"hitherto|thereof|therein|thereby|whereof|wherein|whereby|hence|thence|whence|henceforth": "so, of it, in which",
    r"now and then|by and by": "occasionally, later",
    r"in one go": "at once, in one call",
    r"a good (?:many|deal|part|half)": "many, most",
    r"the whole of": "all of, the whole",
    r"(?:takes?|taking|took) (?:no |its |their |much |up )?room": "uses memory, uses space",
    r"make(?:s|ing)? do with|has to do for": "uses, is enough for",
    r"(?:as|how|what) it likes|as they like|at will": "in any order, freely",
    r"it is (?:as|so) with": "the same holds for",
    r"wishes|wished": "requests, options",
    r"what (?:there is|is there)": "what exists, the content",
    r"out of hand|out of the way of|in the way of": "immediately; without blocking",
}  # fmt: skip
# Hyphens join words: an option '--beside' is not the word.
ANY = re.compile(r"(?<![\w-])(?:" + "|".join(f"(?:{phrase})(?!-?\\w)" for phrase in PHRASES) + ")", re.IGNORECASE)
EACH = [(re.compile(rf"(?:{phrase})(?!-?\w)", re.IGNORECASE), plain) for phrase, plain in PHRASES.items()]

#: A string or comment of Rust or C++; lifetimes and characters are passed over.
RUST_PROSE = re.compile(
    r"(?P<line>//[^\n]*)|(?P<block>/\*.*?\*/)|b?r(?P<hashes>#*)\"(?P<raw>.*?)\"(?P=hashes)"
    r"|b?c?\"(?P<string>(?:\\.|[^\"\\])*)\"|b?'(?:\\[^\n']+|[^\\'\n])'",
    re.DOTALL,
)
FENCE = re.compile(r"^ *(?:```|~~~).*?(?:^ *(?:```|~~~) *$|\Z)", re.MULTILINE | re.DOTALL)

#: A part of a page that tests derive from declarations.
GENERATED = re.compile(r"<!-- generated: .*?<!-- end -->", re.DOTALL)


def blank(text):
    """As many characters that match no phrase, on the same lines."""
    return re.sub(r"[^\n]", "\0", text)


def without_code(prose):
    """Prose without names in backticks, placeholders, addresses and options' values."""
    prose = re.sub(r"``[^`]+``|`[^`\n]*(?:\n[^`\n]*)?`", lambda found: re.sub(r"[^\n]", "_", found[0]), prose)
    return re.sub(r"\{[^{}\s]*\}|\]\([^)\s]*\)|https?://\S+", lambda found: "_" * len(found[0]), prose)


def kept(text, spans):
    """The text with all but the spans blanked; white space between two spans stays, so that they are read as one."""
    parts, at = [], 0
    for start, end in spans:
        between = text[at:start]
        parts += [between if between.isspace() else blank(between), text[start:end]]
        at = end
    return "".join(parts) + blank(text[at:])


def rust_prose(text):
    spans = []
    for found in RUST_PROSE.finditer(text):
        for group in ("line", "block", "raw", "string"):
            if found[group] is not None:
                spans.append(found.span(group))
    text = kept(text, spans)
    text = re.sub(r"(?m)^([ \t\0]*)(//[/!]?|\*(?!\*))", lambda found: found[1] + " " * len(found[2]), text)
    return re.sub(r"\\[nt]", "  ", text.replace("\\\n", " \n"))


def python_prose(text):
    lines = [0]
    for line in text.splitlines(keepends=True):
        lines.append(lines[-1] + len(line))
    spans = []
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type in (tokenize.STRING, tokenize.COMMENT):
            spans.append((lines[token.start[0] - 1] + token.start[1], lines[token.end[0] - 1] + token.end[1]))
    text = kept(text, spans)
    text = re.sub(r"(?m)^([ \t\0]*)(#:?)", lambda found: found[1] + " " * len(found[2]), text)
    # Two literals one after the other are one string.
    text = re.sub(r"[\"'](\s+)[rbfRBF]*[\"']", lambda found: re.sub(r"\S", " ", found[0]), text)
    return re.sub(r"\\[nt]", "  ", text.replace("\\\n", " \n"))


def page_prose(text):
    def comments(found):
        keep = [(part.start(2), part.end(2)) for part in re.finditer(r"(?m)(^|\s)((?:#|//) .*)$", found[0])]
        return kept(found[0], keep)

    # Its text is read where it is declared.
    text = GENERATED.sub(lambda found: blank(found[0]), text)
    return re.sub(r"(?m)^ *>", lambda found: " " * len(found[0]), FENCE.sub(comments, text))


def marked_prose(text):
    """A file of shell, YAML or TOML: all of it, without the marks of comments."""
    return re.sub(r"(?m)^([ \t]*)#!?", lambda found: found[1] + " ", text)


def files():
    """Each file with its area and its prose."""
    listed = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True, check=True)  # fmt: skip
    for name in filter(None, sorted(set(listed.stdout.split("\0")))):
        path = ROOT / name
        # The table of phrases has every one.
        if not path.is_file() or path.is_symlink() or path == Path(__file__).resolve():
            continue
        suffix, script = path.suffix, name.startswith(("scripts/", ".ci/", ".github/"))
        if suffix in (".rs", ".cu", ".cuh", ".h", ".cpp"):
            area, prose = "tests" if re.search(r"(^|/)tests?(/|\.rs$)", name) else "rust", rust_prose
        elif suffix in (".py", ".pyi"):
            area = "scripts" if script else "tests" if re.search(r"(^|/)tests/", name) else "python"
            prose = python_prose
        elif suffix == ".md":
            area, prose = "docs", page_prose
        elif suffix in (".sh", ".yml", ".yaml", ".toml", ".service", ".html", ".ipynb", ".Dockerfile"):
            area, prose = "scripts" if script or suffix == ".sh" else "docs", marked_prose
            area = {".toml": "rust", ".html": "rust", ".ipynb": "python"}.get(suffix, area)
        else:
            continue
        text = path.read_text()
        yield name, area, text, prose(text)


def flattened(prose):
    """Prose with one space for any white space and one mark for any code, and where each piece was: in it, in the file."""
    pieces, here, there, length = [], [], [], 0
    for found in re.finditer(r"\s+|\0+|[^\s\0]+", prose):
        first = found[0][0]
        piece = "\0" if first == "\0" else " " if first.isspace() else found[0]
        here.append(length)
        there.append(found.start())
        pieces.append(piece)
        length += len(piece)
    return re.sub(r"(?:\0 )+\0", lambda run: "\0" * len(run[0]), "".join(pieces)), here, there


def banned(text):
    """Each banned phrase of a text as (where, phrase, plain phrase)."""
    for found in ANY.finditer(text):
        plain = next(plain for phrase, plain in EACH if phrase.match(text, found.start()))
        yield found.span(), found[0].strip(), plain


def places():
    """Each banned phrase as (area, place, words around it, phrase, plain phrase)."""
    for name, area, text, prose in files():
        flat, here, there = flattened(without_code(prose))
        lines = [0] + [found.end() for found in re.finditer("\n", text)]
        for (start, end), phrase, plain in banned(flat):
            piece = bisect_right(here, start) - 1
            line = bisect_right(lines, there[piece] + start - here[piece])
            around = flat[max(0, start - 40) : end + 40].replace("\0", "").strip()
            yield area, f"{name}:{line}", f"…{around}…", phrase, plain
        pattern = {".rs": RUST_TEST, ".py": PYTHON_TEST}.get(Path(name).suffix)
        for test in pattern.findall(text) if pattern else []:
            for _, phrase, plain in banned(test.replace("_", " ")):
                yield "tests", name, test, phrase, plain


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--area", choices=[*AREAS, "all"], default="all", help="the area to check")
    parser.add_argument("--show", action="store_true", help="print each place as well")
    parser.add_argument("--table", action="store_true", help="print the phrases and what to write instead")
    arguments = parser.parse_args()
    if arguments.table:
        for phrase, plain in PHRASES.items():
            print(f"{phrase.replace(END, '')}\n    {plain}")
        return 0
    found = {area: [] for area in AREAS}
    for area, *place in places():
        found[area].append(place)
    above = 0
    for area in AREAS if arguments.area == "all" else [arguments.area]:
        verdict = "" if len(found[area]) <= LIMITS[area] else ": ABOVE THE LIMIT"
        above += bool(verdict)
        print(f"{len(found[area]):5} of {LIMITS[area]:5}  {area}{verdict}")
        if verdict and not arguments.show and len(found[area]) > MOST_SHOWN:
            print(f"             --area {area} --show prints all places")
        elif arguments.show or verdict:
            for place, around, phrase, plain in found[area]:
                print(f"             {place}: '{phrase}': {plain}\n                 {around}")
    return 1 if above else 0


if __name__ == "__main__":
    sys.exit(main())
