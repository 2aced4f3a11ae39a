#!/usr/bin/env python3
"""Checks every link of a book: book-links.py BOOK DOCS. Files of the checkout that pages link to, such as examples, are copied
into the book. Prints page and target of each broken link, and exits with 1 if there is one."""

import html.parser
import os
import pathlib
import shutil
import sys
import urllib.parse


class Page(html.parser.HTMLParser):
    """The links of a page and the places that links may lead to."""

    def __init__(self, path):
        super().__init__()
        self.links, self.places = [], set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attrs):
        for name, value in attrs:
            if name in ("id", "name") and value:
                self.places.add(value)
            elif name in ("href", "src") and value and tag != "base":
                self.links.append(value)


def main(book, docs):
    book, docs = pathlib.Path(book), pathlib.Path(docs)
    # All pages in one, under other addresses; and the page for addresses that there are not.
    left_out = {"print.html", "404.html", "toc.html"}
    pages = {path: Page(path) for path in sorted(book.rglob("*.html")) if path.name not in left_out}
    broken = []
    for path, page in pages.items():
        text = path.read_text(encoding="utf-8")
        changed = text
        for link in page.links:
            parts = urllib.parse.urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / urllib.parse.unquote(parts.path)) if parts.path else path
            outside = docs / path.parent.relative_to(book) / urllib.parse.unquote(parts.path)
            kept = parts.path
            # mdBook takes every link to a .md file for one to a page.
            if outside.suffix == ".html" and not outside.exists() and outside.with_suffix(".md").is_file():
                outside, kept = outside.with_suffix(".md"), kept.removesuffix(".html") + ".md"
            if parts.path.startswith("../") and not target.exists() and outside.is_file():
                inside = "checkout/" + kept.replace("../", "")
                (book / inside).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(outside, book / inside)
                leads = os.path.relpath(book / inside, path.parent)
                changed = changed.replace(f'href="{link}"', f'href="{leads}"')
            elif not target.exists():
                broken.append(f"{path.name}: {link}")
            elif parts.fragment and target in pages:
                if urllib.parse.unquote(parts.fragment) not in pages[target].places:
                    broken.append(f"{path.name}: {link} (no such place there)")
        if changed != text:
            path.write_text(changed, encoding="utf-8")
    if len(pages) < 2:
        broken.append(f"{book}: no book")
    for line in broken:
        print(f"book: a link leads nowhere: {line}", file=sys.stderr)
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
