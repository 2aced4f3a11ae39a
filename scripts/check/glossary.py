#!/usr/bin/env python3
"""Checks that each term of the glossary is defined once: glossary.py [DOCS].

Rows of the table in reference/glossary.md are sorted, have a term and a meaning, and name a term once. Every term is used on
another page, and no other page defines it. A definition is a sentence that begins with the term in bold or italics, followed
by ":", "means", or "is"/"are" with an article. Prints page and line of each error, and exits with 1 if there is one."""

import pathlib
import re
import sys

ROW = re.compile(r"^\| *\*\*(?P<term>[^*|]+)\*\* *\| *(?P<meaning>.*?) *\|$")
# Where a sentence can begin: after a list's mark, a quote's, or the end of another sentence.
SENTENCE = r"(?:^[ >]*(?:[-*] |\d+\. )?|[.:] )(?:an? |the )?"
DEFINES = r"(?:,? (?:is|are) (?:an?|the|one|all|those|what|which|how)\b|,? means\b|:)"


def base(term):
    """A term without its plural and its capitals, under which it is listed once."""
    term = term.strip().lower()
    return term[:-1] if term.endswith("s") and not term.endswith("ss") and len(term) > 3 else term


def spelled(term):
    """The pattern of a term, any word of which may be in the plural."""
    return " ".join(re.escape(word) + "s?" for word in term.split())


def prose(text):
    """The lines of a page that are not code, with their numbers."""
    fenced = False
    for number, line in enumerate(text.splitlines(), 1):
        if line.lstrip().startswith("```"):
            fenced = not fenced
        elif not fenced:
            yield number, line


def main(docs):
    glossary = docs / "reference" / "glossary.md"
    faults, listed, before = [], {}, ""
    # The first two lines of the table are its head.
    table = [(number, line) for number, line in prose(glossary.read_text(encoding="utf-8")) if line.startswith("|")]
    for number, line in table[2:]:
        row = ROW.match(line)
        place = f"{glossary}:{number}"
        if row is None or not row["meaning"]:
            faults.append(f"{place}: a row needs a term in bold and a meaning: {line}")
            continue
        term = base(row["term"])
        if term in listed:
            faults.append(f"{place}: '{row['term']}' is already in line {listed[term][0]}")
        elif term < before:
            faults.append(f"{place}: '{row['term']}' is not in alphabetical order")
        before = term
        listed.setdefault(term, (number, row["term"]))
    if not listed:
        faults.append(f"{glossary}: no terms found")

    words = "|".join(spelled(term) for term in sorted(listed, key=len, reverse=True))
    defined = re.compile(rf"{SENTENCE}(\*\*|\*)(?P<term>{words})\1{DEFINES}", re.IGNORECASE)
    pages = {path: path.read_text(encoding="utf-8") for path in sorted(docs.rglob("*.md")) if path != glossary}
    for path, text in pages.items():
        for number, line in prose(text):
            if found := defined.search(line):
                faults.append(f"{path}:{number}: '{found['term']}' is defined in {glossary.name}: link to it")
    everything = re.sub(r"\s+", " ", " ".join(pages.values()))
    for term, (number, shown) in listed.items():
        if not re.search(rf"\b{spelled(term)}\b", everything, re.IGNORECASE):
            faults.append(f"{glossary}:{number}: no page uses '{shown}'")
    for fault in faults:
        print(f"glossary: {fault}", file=sys.stderr)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "docs")))
