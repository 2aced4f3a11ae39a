"""What every topic of docs/reference/results.md is written with: numbers, tables, machines."""
import json
import re
import statistics
import textwrap
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
RESULTS = ROOT / "docs/results"
MIB, GIB = 2**20, 2**30


def load(name):
    return json.loads((RESULTS / name).read_text())


def number(value):
    """Three digits, or all of a whole number's."""
    if value is None:
        return "–"
    if isinstance(value, int) or abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def percent(share, digits=1):
    return "–" if share is None else f"{100 * share:.{digits}f} %"


def millions(value):
    for unit, name in ((1e9, "G"), (1e6, "M")):
        if value >= 0.998 * unit:
            return f"{value / unit:.1f}".removesuffix(".0") + f" {name}"
    return number(value)


def size(count):
    for unit, name in ((GIB, "GiB"), (MIB, "MiB"), (2**10, "KiB")):
        if count >= unit:
            return f"{number(count / unit)} {name}"
    return f"{count} bytes"


def median(values):
    return number(statistics.median(values))


def spread(values):
    """The median, with the least and the most."""
    if len(values) == 1:
        return number(values[0])
    return f"{median(values)} ({number(min(values))} to {number(max(values))})"


def table(items, columns):
    """A row an item; `columns` has a function of the item for each heading."""
    def row(cells):
        return "| " + " | ".join(str(cell).replace("|", "\\|") for cell in cells) + " |"

    return "\n".join([row(columns), "|---" * len(columns) + "|",
                      *(row(cell(item) for cell in columns.values()) for item in items)])


#: CPUs under the names that the page's first lines explain.
CPUS = {"AMD EPYC": "EPYC", "Intel Xeon Processor": "Xeon"}


def machine(raw):
    """A machine in a word; the page describes each once."""
    one = raw.get("machine", raw)
    if "gpu" in one:
        return re.search(r"H\d+", one["gpu"])[0]
    cpu = one.get("cpu", "").replace("(R)", "")
    return CPUS.get(cpu, cpu) or f"{one['cores']} cores"


def paragraph(text):
    """Lines of 120 columns; tables and pictures do not change."""
    if text.startswith(("|", "!")):
        return text
    return textwrap.fill(text, 120, break_long_words=False, break_on_hyphens=False)


def topic(title, files, command, *blocks, on=None):
    """A section: the script or command that wrote its files, the files and the machines, and then sentences and tables. Returns
    the names of the files as well."""
    machines = [on] if on else list(dict.fromkeys(machine(raw) for raw in map(load, files) if "machine" in raw))
    labels = ["raw"] if len(files) == 1 else [Path(name).stem for name in files]
    head = f"`{command}` (" + ", ".join(f"[{label}](../results/{name})" for label, name in zip(labels, files)) + ")"
    head += f" on {' and '.join(machines)}." if machines else "."
    if blocks and not blocks[0].startswith(("|", "!")):
        head, blocks = f"{head} {blocks[0]}", blocks[1:]
    return "\n\n".join([f"### {title}", *map(paragraph, (head, *blocks))]), files
