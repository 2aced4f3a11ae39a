#!/usr/bin/env python3
"""Checks that arrows between modules go down: in each crate, no module imports from a module above it, and no two
modules import each other, directly or around a circle.

A path (`use` or in an expression) is followed through re-exports to the file that defines the item. Two rules hold:

1. Down: a module takes nothing that the file of a module around it defines. Parents import children, not the reverse.
2. No circles: the modules of one folder, each with everything below it, form a graph without circles.

Test modules (`#[cfg(test)]`) are not checked. Prints the number of arrows of each crate, and every one that breaks a rule.
"""

import argparse
import re
import sys
from collections import defaultdict
from pathlib import Path

DEFINITION = (
    r"(?:^|\n)[ \t]*(?:#\[[^\n]*\][ \t]*\n?[ \t]*)*(?:pub(?:\([^)]*\))?[ \t]+)?(?:default[ \t]+)?(?:const[ \t]+)?(?:async[ \t]+)?"
    r"(?:unsafe[ \t]+)?(?:extern[ \t]+\"[^\"]*\"[ \t]+)?"
    r"(?:fn|struct|enum|trait|type|const|static|union|macro_rules!)[ \t]+(?:mut[ \t]+)?(\w+)"
)
MODULE = re.compile(r"(?:^|\n)[ \t]*(?:pub(?:\([^)]*\))?[ \t]+)?mod[ \t]+(\w+)[ \t]*([;{])")


def without_comments(text):
    """The text with comments, string contents and test modules blanked, so that only code is left."""
    pattern = re.compile(
        r"""//[^\n]*|/\*.*?\*/|b?r(#*)".*?"\1|b?"(?:\\.|[^"\\])*"|b?'(?:\\[^\n']+|[^\\'\n])'""", re.DOTALL
    )
    return pattern.sub(lambda found: '""' if found[0][0] not in "/'" else " ", text)


def block_end(text, opening):
    """The position after the brace that closes the one at `opening`."""
    depth = 0
    for at in range(opening, len(text)):
        depth += {"{": 1, "}": -1}.get(text[at], 0)
        if depth == 0:
            return at + 1
    return len(text)


def without_tests(text):
    """The text without items marked `#[cfg(test)]`, and the names of the modules among them."""
    dropped = set()
    while found := re.search(r"#\[cfg\((?:all\()?test\b[^\]]*\]\s*(?:#\[[^\]]*\]\s*)*", text):
        rest = text[found.end() :]
        if name := re.match(r"(?:pub(?:\([^)]*\))?\s+)?mod\s+(\w+)", rest):
            dropped.add(name[1])
        brace, semicolon = rest.find("{"), rest.find(";")
        if brace == -1 and semicolon == -1:
            end = len(rest)
        elif brace == -1 or -1 < semicolon < brace:
            end = semicolon + 1
        else:
            end = block_end(rest, brace)
        text = text[: found.start()] + rest[end:]
    return text, dropped


def leaves(tree):
    """The paths of a `use` tree, as (segments, name in this module)."""
    tree = tree.strip()
    depth, start, parts = 0, 0, []
    for at, char in enumerate(tree):
        depth += {"{": 1, "}": -1}.get(char, 0)
        if char == "," and depth == 0:
            parts.append(tree[start:at])
            start = at + 1
    parts.append(tree[start:])
    for part in (part.strip() for part in parts if part.strip()):
        if "{" in part:
            prefix, inner = part.split("{", 1)
            head = [word for word in prefix.split("::") if word]
            for segments, name in leaves(inner.rsplit("}", 1)[0]):
                if segments[:1] == ["self"] and head:
                    yield head, name if name != "self" else head[-1]
                else:
                    yield head + segments, name
        else:
            path, _, alias = part.partition(" as ")
            segments = [word.strip() for word in path.split("::") if word.strip()]
            yield segments, alias.strip() or segments[-1]


class Module:
    """One module: its path in the crate, the file that holds it, what it defines, and its imports by local name."""

    def __init__(self, path, file, text):
        self.path, self.file = path, file
        self.defines = set(re.findall(DEFINITION, text))
        self.uses = {}
        self.globs = []
        self.mentions = []
        for found in re.finditer(r"(?:^|\n)[ \t]*(?:pub(?:\([^)]*\))?[ \t]+)?use[ \t]+([^;]+);", text):
            for segments, name in leaves(re.sub(r"\s+", " ", found[1])):
                if segments[-1] == "*":
                    self.globs.append(segments[:-1])
                else:
                    self.uses[name] = segments
        code = re.sub(r"(?:^|\n)[ \t]*(?:pub(?:\([^)]*\))?[ \t]+)?use[ \t]+[^;]+;", "\n", text)
        for found in re.finditer(r"(?<![\w:])(\w+)((?:::\w+)+)", code):
            self.mentions.append([found[1], *found[2].split("::")[1:]])


class Crate:
    """The module tree of one crate and the arrows between its modules."""

    def __init__(self, root):
        self.modules = {}
        self.read((), root)

    def read(self, path, file, text=None, folder=None):
        """Reads a module and those declared in it."""
        if text is None:
            text, dropped = without_tests(without_comments(file.read_text()))
            folder = file.parent if file.name in ("mod.rs", "lib.rs", "main.rs") else file.parent / file.stem
        own = []
        start = 0
        children = []
        for found in MODULE.finditer(text):
            if found.start() < start:
                continue
            if found[2] == "{":
                end = block_end(text, found.end() - 1)
                own.append(text[start : found.start()])
                children.append((found[1], None, text[found.end() : end - 1]))
                start = end
            else:
                before = text[max(0, found.start() - 120) : found.start() + 1]
                named = re.search(r'#\[path = ""\]\s*$', before)
                candidates = [folder / f"{found[1]}.rs", folder / found[1] / "mod.rs"]
                here = next((each for each in candidates if each.is_file()), None)
                if here is None and not named:
                    raise SystemExit(f"imports: {file}: no file for the module {found[1]}")
                if here:
                    children.append((found[1], here, None))
        own.append(text[start:])
        self.modules[path] = Module(path, file, "\n".join(own))
        for name, child, inner in children:
            if child:
                self.read((*path, name), child)
            else:
                self.read((*path, name), file, inner, folder / name)

    def resolve(self, module, segments, seen=()):
        """The module that defines what the path means in `module`; None where that is another crate's or unknown."""
        if (module, tuple(segments)) in seen:
            return None
        seen = (*seen, (module, tuple(segments)))
        head, rest = segments[0], list(segments[1:])
        if head == "crate":
            at = ()
        elif head == "self":
            at = module
        elif head == "super":
            at = module[:-1]
            while rest[:1] == ["super"]:
                at, rest = at[:-1], rest[1:]
        elif (*module, head) in self.modules:
            at = (*module, head)
        elif self.modules[module].uses.get(head, [head])[0] != head:
            return self.resolve(module, self.modules[module].uses[head] + rest, seen)
        else:
            return None
        while rest and (*at, rest[0]) in self.modules:
            at, rest = (*at, rest[0]), rest[1:]
        if not rest:
            return at
        return self.item(at, rest, seen)

    def item(self, at, rest, seen):
        """The module that defines the item `rest[0]` seen in the module `at`."""
        module = self.modules[at]
        if rest[0] in module.defines:
            return at
        if rest[0] in module.uses:
            return self.resolve(at, module.uses[rest[0]] + rest[1:], seen)
        for glob in module.globs:
            target = self.resolve(at, glob, seen)
            if target is not None and target != at:
                if found := self.item(target, rest, (*seen, (at, tuple(glob)))):
                    return found
        return None

    def arrows(self):
        """(from, to) for each pair of different modules of which the first takes something from the second."""
        found = set()
        for path, module in self.modules.items():
            wanted = [*module.uses.values(), *module.globs, *module.mentions]
            for segments in wanted:
                target = self.resolve(path, segments)
                if target is not None and target != path:
                    found.add((path, target))
        return found


def name(path):
    return "::".join(path) or "(the crate's root)"


def circles(nodes, edges):
    """The strongly connected components of more than one node, by Tarjan's algorithm."""
    index, low, stack, on, found = {}, {}, [], set(), []

    def visit(node):
        index[node] = low[node] = len(index)
        stack.append(node)
        on.add(node)
        for other in sorted(edges[node]):
            if other not in index:
                visit(other)
                low[node] = min(low[node], low[other])
            elif other in on:
                low[node] = min(low[node], index[other])
        if low[node] == index[node]:
            component = []
            while True:
                other = stack.pop()
                on.discard(other)
                component.append(other)
                if other == node:
                    break
            if len(component) > 1:
                found.append(sorted(component))

    for node in sorted(nodes):
        if node not in index:
            visit(node)
    return found


def check(crate):
    """What breaks a rule in the crate, a line each."""
    arrows = crate.arrows()
    problems = []
    for start, end in sorted(arrows):
        if len(end) < len(start) and start[: len(end)] == end:
            problems.append(f"upward: {name(start)} takes from {name(end)}, which is around it")
    for parent in sorted({path[:-1] for path in crate.modules if path}):
        depth = len(parent)
        edges, examples = defaultdict(set), {}
        for start, end in sorted(arrows):
            if start[:depth] != parent or end[:depth] != parent or len(start) == depth or len(end) == depth:
                continue
            first, second = start[depth], end[depth]
            if first != second:
                edges[first].add(second)
                examples.setdefault((first, second), (start, end))
        for circle in circles({path[depth] for path in crate.modules if path[:depth] == parent and len(path) > depth}, edges):
            lines = [
                f"  {name(examples[a, b][0])} -> {name(examples[a, b][1])}"
                for a in circle for b in circle if b in edges[a]
            ]
            problems.append(f"circle in {name(parent)}: {', '.join(circle)}\n" + "\n".join(lines))
    return len(arrows), problems


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("crates", nargs="*", help="folders of crates; without any, all of crates/")
    parser.add_argument("--arrows", action="store_true", help="print every arrow too")
    arguments = parser.parse_args()
    root = Path(__file__).resolve().parents[2]
    folders = [Path(each) for each in arguments.crates] or sorted((root / "crates").iterdir())
    broken = 0
    for folder in folders:
        for top in ("lib.rs", "main.rs"):
            file = folder / "src" / top
            if not file.is_file():
                continue
            crate = Crate(file)
            if arguments.arrows:
                for start, end in sorted(crate.arrows()):
                    print(f"{folder.name}: {name(start)} -> {name(end)}")
            count, problems = check(crate)
            print(f"{folder.name} ({top}): {len(crate.modules)} modules, {count} arrows, {len(problems)} broken rules")
            for problem in problems:
                print(f"  {problem}")
            broken += len(problems)
    if broken:
        print(f"imports: {broken} rules are broken: move what is shared into a module below both", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
