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
    "typed-sampling": ("million edges/s", True),
    "typed-loading": ("batches/s", True),
    "typed-rsage": ("seconds an epoch", False),
    "typed-rgat": ("seconds an epoch", False),
    "formats": ("milliseconds a batch", False),
}
# Sections that train, whose figure is an epoch.
TRAINING = ("training", "typed-rsage", "typed-rgat")
# Sections of format 2, where uvatrain is compared with each of the others.
TYPED = ("typed-sampling", "typed-loading", "typed-rsage", "typed-rgat", "formats")


def figure(section, record):
    """What one round comes to."""
    if section in ("sampling", "formats"):
        return 1e3 * record["seconds"] / record["batches"]
    if section == "typed-sampling":
        return record["edges"] / record["seconds"] / 1e6
    if section == "gather":
        # The median, as `uvatrain bench gather` reports it.
        return record["bytes"] / record["batches"] / record["batch_ms"]["median"] / 1e6
    if section in ("loading", "typed-loading"):
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

    if section in TYPED:
        cell["ratios"] = {runtime: found for runtime in runtimes(cell) if (found := ratio_to(cell, runtime))}
        return cell
    ours = best(one for one in cell["contenders"] if one["runtime"] == "uvatrain")
    theirs = best(one for one in cell["contenders"] if one["runtime"] not in ("uvatrain", "memcpy"))
    cell.pop("beside_the_fastest", None)
    if ours and theirs:
        ratio = ours["figure"]["median"] / theirs["figure"]["median"]
        cell["beside_the_fastest"] = {"ours": ours["name"], "peer": theirs["name"],
                                      "times_as_fast": ratio if more_is_better else 1 / ratio}
    return cell


def best_of(cell, runtime, expand=None):
    """A runtime's fastest way, of those that expand the same nodes where `expand` says which."""
    found = [one for one in cell["contenders"] if one["runtime"] == runtime and "figure" in one]
    found = [one for one in found if expand is None or one["expand"] == expand]
    pick = max if SECTIONS[cell["section"]][1] else min
    return pick(found, key=lambda one: one["figure"]["median"], default=None)


def runtimes(cell):
    return list(dict.fromkeys(one["runtime"] for one in cell["contenders"]))


def ratio_to(cell, runtime):
    """How many times as fast as a runtime uvatrain is. In loading it expands the same nodes. Alone, it samples for all nodes
    so far, so that its batches have more edges than those of a runtime that samples for new nodes, and fewer than of one that
    makes a tree a seed: there the smaller counts of what edges and what batches a second give."""
    theirs = best_of(cell, runtime)
    ours = best_of(cell, "uvatrain", theirs.get("expand")) if theirs and runtime != "uvatrain" else None
    if ours is None:
        return None
    ratio = ours["figure"]["median"] / theirs["figure"]["median"]
    found = {"ours": ours["name"], "peer": theirs["name"], "times_as_fast": ratio if SECTIONS[cell["section"]][1] else 1 / ratio}
    if cell["section"] == "typed-sampling":
        by_batches = ratio * theirs["edges_a_batch"] / ours["edges_a_batch"]
        found |= {"times_as_fast": min(ratio, by_batches), "by_edges": ratio, "by_batches": by_batches}
    return found


def title(cell):
    """A cell's graph, with its fanouts where the section has several."""
    fanouts = ",".join(map(str, cell["fanouts"]))
    return f"{cell['graph']}, {fanouts}" if cell["section"].startswith("typed") else cell["graph"]


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
    found = list(dict.fromkeys(runtime for cell in cells for runtime in runtimes(cell)))
    head = [f"{title(cell)}, {cell['cores']} core{'s' if cell['cores'] > 1 else ''}" for cell in cells]
    lines = [f"| {section}: {SECTIONS[section][0]} | " + " | ".join(head) + " |", "|---" * (1 + len(cells)) + "|"]
    for runtime in found:
        lines.append(f"| {runtime} | " + " | ".join(entry(best_of(cell, runtime)) for cell in cells) + " |")
    if section in TYPED:
        for runtime in found:
            ratios = [cell["ratios"].get(runtime) for cell in cells]
            if any(ratios):
                shown = [f"**{ratio['times_as_fast']:.2f}**" if ratio else "–" for ratio in ratios]
                lines.append(f"| times as fast as {runtime} | " + " | ".join(shown) + " |")
    else:
        lines.append(fastest(cells))
    if section in ("sampling", "typed-sampling"):
        for runtime in found:
            shown = [f"{one['edges_per_second'] / 1e6:.1f} M ({one['edges_a_batch'] / 1e3:.0f} k)" if one else "–"
                     for one in (best_of(cell, runtime) for cell in cells)]
            lines.append(f"| edges/s (edges a batch): {runtime} | " + " | ".join(shown) + " |")
    return lines


def fastest(cells):
    ratios = [cell.get("beside_the_fastest") for cell in cells]
    shown = [f"**{ratio['times_as_fast']:.2f}**" if ratio else "–" for ratio in ratios]
    return "| times as fast as the fastest of the others | " + " | ".join(shown) + " |"


def losses(results):
    """Lines of Markdown: the training loss of each epoch, side by side."""
    cells = [cell for cell in results["cells"] if cell["section"] in TRAINING]
    lines = []
    for cell in cells:
        for contender in cell["contenders"]:
            if contender["rounds"]:
                falling = " ".join(f"{loss:.3f}" for loss in contender["rounds"][0]["losses"])
                lines.append(f"| {cell['section']}, {cell['graph']}, {cell['cores']} | {contender['name']} | {falling} |")
    return ["| section, graph, cores | runtime | loss, epoch by epoch |", "|---|---|---|", *lines] if lines else []


def ratios(results):
    """Lines of Markdown: how many times as fast as the fastest of the others, a row a section."""
    columns = [(graph, cores) for graph in ("small", "medium") for cores in (1, 2)]
    cells = {(cell["section"], cell["graph"], cell["cores"]): cell for cell in results["cells"]}
    lines = []
    for section in SECTIONS:
        if section in TYPED:
            continue
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
