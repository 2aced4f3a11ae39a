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


def machine(raw):
    """A machine in words, of the fields that its script wrote. The page names those with a GPU once."""
    one = raw.get("machine", raw)
    if "gpu" in one:
        return re.search(r"H\d+", one["gpu"])[0]
    words = [(one.get("cpu") or one.get("machine") or one.get("system", "")).replace("(R)", ""), f"{one['cores']} cores"]
    bytes_of = one.get("memory_bytes") or 1024 * int(one.get("memory", "0").split()[0])
    if bytes_of:
        words.append(f"{bytes_of / GIB:.1f} GiB")
    return ", ".join(words)


def paragraph(text):
    """Lines of 120 columns; tables and pictures do not change."""
    if text.startswith(("|", "!")):
        return text
    return textwrap.fill(text, 120, break_long_words=False, break_on_hyphens=False)


def topic(title, files, command, *blocks, on=None):
    """A section: its files, the script or command that wrote them, the machines, and then tables and sentences. Returns the
    names of the files as well."""
    machines = [on] if on else list(dict.fromkeys(machine(raw) for raw in map(load, files) if "machine" in raw))
    head = f"`{command}` " + ", ".join(f"([{Path(name).stem}](../results/{name}))" for name in files)
    head += f" on {' and '.join(machines)}." if machines else "."
    return "\n\n".join([f"### {title}", *map(paragraph, (head, *blocks))]), files
