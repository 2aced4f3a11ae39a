"""What compare.py's rounds give: medians, ratios and tables. Everything is worked out from
the rounds alone, so that `compare.py --check FILE` can do it again."""
import statistics

# A round counts as undisturbed where others used less than this many cores meanwhile.
FOREIGN = 0.12

# What a section is judged by, and whether more of it is better.
SECTIONS = {
    "sampling": ("milliseconds a batch", False),
    "gather": ("GB/s", True),
    "loading": ("batches/s", True),
    "training": ("seconds an epoch", False),
}


def figure(section, record):
    """What one round comes to."""
    if section == "sampling":
        return 1e3 * record["seconds"] / record["batches"]
    if section == "gather":
        # The median, as `uvatrain bench gather` reports it.
        return record["bytes"] / record["batches"] / record["batch_ms"]["median"] / 1e6
    if section == "loading":
        return record["batches"] / record["seconds"]
    return record["epoch_s"]["median"]


def summarise(cell):
    """Puts medians and ratios into a cell, from its contenders' rounds."""
    section, more_is_better = cell["section"], SECTIONS[cell["section"]][1]
    for contender in cell["contenders"]:
        rounds = contender["rounds"]
        if not rounds:
            continue
        quiet = [one for one in rounds if one["foreign_load"] < FOREIGN]
        values = [figure(section, one) for one in quiet or rounds]
        contender["figure"] = {"median": statistics.median(values), "min": min(values), "max": max(values)}
        contender["disturbed"] = not quiet
        if "edges" in rounds[0]:
            edges, batches, seconds = (sum(one[name] for one in quiet or rounds)
                                       for name in ("edges", "batches", "seconds"))
            contender["edges_a_batch"], contender["edges_per_second"] = edges / batches, edges / seconds

    def best(contenders):
        found = [one for one in contenders if "figure" in one]
        pick = max if more_is_better else min
        return pick(found, key=lambda one: one["figure"]["median"], default=None)

    ours = best(one for one in cell["contenders"] if one["runtime"] == "uvatrain")
    theirs = best(one for one in cell["contenders"] if one["runtime"] not in ("uvatrain", "memcpy"))
    cell.pop("beside_the_fastest", None)
    if ours and theirs:
        ratio = ours["figure"]["median"] / theirs["figure"]["median"]
        cell["beside_the_fastest"] = {"ours": ours["name"], "peer": theirs["name"],
                                      "times_as_fast": ratio if more_is_better else 1 / ratio}
    return cell


def best_of(cell, runtime):
    found = [one for one in cell["contenders"] if one["runtime"] == runtime and "figure" in one]
    pick = max if SECTIONS[cell["section"]][1] else min
    return pick(found, key=lambda one: one["figure"]["median"], default=None)


def number(value):
    return f"{value:.3g}" if abs(value) < 100 else f"{value:.0f}"


def entry(contender):
    """A figure with its spread, which of the runtime's ways it is, and a star where it was always disturbed."""
    if contender is None:
        return "–"
    value = contender["figure"]
    way = f", {contender['way']}" if contender["way"] else ""
    star = "\\*" if contender["disturbed"] else ""
    return f"{number(value['median'])}{star} ({number(value['min'])} to {number(value['max'])}{way})"


def table(results, section):
    """Lines of Markdown: a row a runtime, each in its fastest way; a column a graph and number of cores."""
    cells = [cell for cell in results["cells"] if cell["section"] == section]
    if not cells:
        return []
    runtimes = list(dict.fromkeys(one["runtime"] for cell in cells for one in cell["contenders"]))
    head = [f"{cell['graph']}, {cell['cores']} core{'s' if cell['cores'] > 1 else ''}" for cell in cells]
    lines = [f"| {section}: {SECTIONS[section][0]} | " + " | ".join(head) + " |", "|---" * (1 + len(cells)) + "|"]
    for runtime in runtimes:
        lines.append(f"| {runtime} | " + " | ".join(entry(best_of(cell, runtime)) for cell in cells) + " |")
    ratios = [cell.get("beside_the_fastest") for cell in cells]
    shown = [f"**{ratio['times_as_fast']:.2f}**" if ratio else "–" for ratio in ratios]
    lines.append("| times as fast as the fastest of the others | " + " | ".join(shown) + " |")
    if section == "sampling":
        for runtime in runtimes:
            found = [best_of(cell, runtime) for cell in cells]
            shown = [f"{one['edges_per_second'] / 1e6:.1f} M ({one['edges_a_batch'] / 1e3:.0f} k)" if one else "–"
                     for one in found]
            lines.append(f"| edges/s (edges a batch): {runtime} | " + " | ".join(shown) + " |")
    return lines


def losses(results):
    """Lines of Markdown: the training loss of each epoch, side by side."""
    cells = [cell for cell in results["cells"] if cell["section"] == "training"]
    lines = []
    for cell in cells:
        for contender in cell["contenders"]:
            if contender["rounds"]:
                falling = " ".join(f"{loss:.3f}" for loss in contender["rounds"][0]["losses"])
                lines.append(f"| {cell['graph']}, {cell['cores']} | {contender['name']} | {falling} |")
    return ["| graph, cores | runtime | loss, epoch by epoch |", "|---|---|---|", *lines] if lines else []


def ratios(results):
    """Lines of Markdown: how many times as fast as the fastest of the others, a row a section."""
    columns = [(graph, cores) for graph in ("small", "medium") for cores in (1, 2)]
    cells = {(cell["section"], cell["graph"], cell["cores"]): cell for cell in results["cells"]}
    lines = []
    for section in SECTIONS:
        found = [cells.get((section, *column), {}).get("beside_the_fastest") for column in columns]
        if any(found):
            shown = [f"{one['times_as_fast']:.2f} ({one['peer'].split(',')[0]})" if one else "–" for one in found]
            lines.append(f"| {section}, {results['machine']['cpu']} | " + " | ".join(shown) + " |")
    return lines


def markdown(results):
    parts = [table(results, section) for section in SECTIONS] + [losses(results)]
    text = "\n\n".join("\n".join(part) for part in parts if part)
    for peer, why in results["left_out"].items():
        text += f"\n\n{peer} is left out, because {why}."
    return text
