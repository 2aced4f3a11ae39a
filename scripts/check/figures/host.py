"""Sampling, gathering, the hand-over, files: what a CPU does."""
import re
import statistics

from .markdown import GIB, MIB, load, machine, median, millions, number, percent, size, spread, table, topic


def host_path():
    rows, commands = {}, {}
    for row in load("host.json")["rows"]:
        what, *threads = row["name"].split(", ")
        name = f"{what}, {threads[-1]}" if threads else what
        count = threads[0].split()[0] if len(threads) > 1 else "2"
        rows.setdefault(name, {})[count] = spread(row["values"])
        commands[name] = row["command"].removesuffix(" --threads 1").removesuffix(" --threads 2")
    shares = [f"{number(of['usual_ms'])}, {number(of['auto_ms'])} and {number(of['medians'][of['best']])} ({name})"
              for name, of in load("cores.json")["graphs"].items()]
    text, files = topic("The host path", ["host.json"], "scripts/measure/host.py",
                 table(rows, {"measurement": lambda name: name, "1 thread": lambda name: rows[name].get("1", "–"),
                              "2 threads": lambda name: rows[name]["2"],
                              "`uvatrain …`": lambda name: f"`{commands[name]}`"}),
                 "Milliseconds a batch with the usual threads, with `--cores auto` and with the best division of the cores, "
                 f"`scripts/measure/cores.py` ([raw](../results/cores.json)) on {machine(load('cores.json'))}: "
                 f"{'; '.join(shares)}.")
    return text, [*files, "cores.json"]


def loading():
    cells = load("loading.json")["cells"]
    ways = list(dict.fromkeys(way for cell in cells for way in cell["ways_ms"]))

    def of(way):
        return lambda cell: (f"{number(cell['ways_ms'][way])}, {percent(cell['share_of_allowed'][way], 0)}"
                             if way in cell["ways_ms"] else "–")

    return topic("Loading and its stages alone", ["loading.json"], "scripts/measure/loading.py",
                 "Milliseconds a batch, fanouts 15,10,5, batches of 1000, graphs of [the comparison](#other-libraries). "
                 "Percentages are of the rate that the stages alone allow.",
                 table(cells, {"graph, cores": lambda cell: f"{cell['graph']}, {cell['cores']}",
                               "sampled": lambda cell: number(cell["sample_ms"]),
                               "gathered": lambda cell: number(cell["gather_ms"]),
                               **{way: of(way) for way in ways}}))


def slot_pages():
    raw = load("slot-pages.json")
    ways = list(raw["cores"][0]["medians"])

    def of(name):
        return lambda way: ", ".join(number(one["medians"][way][name]) for one in raw["cores"])

    return topic("Pages of slots and of the table", ["slot-pages.json"], "scripts/measure/slot_pages.py",
                 f"`{raw['graph']} {raw['options']}`, milliseconds a batch on one core and on two. `small`: no huge "
                 "pages; `summed`: the producer aggregates the first layer.",
                 table(ways, {"way": lambda way: way, "sampling": of("sample_ms"), "gather": of("gather_ms"),
                              "training": of("train_ms"), "batches/s": of("batches_per_second")}))


def handover():
    raw = load("handover.json")
    rings = ", ".join(f"{number(one['microseconds'])} {one['batches']} on {one['cores']} core{'s' if one['cores'] > 1 else ''}"
                      for one in raw["rings"])
    def words(one):
        command = re.sub(r"bench pipeline data/demo | data/demo|--train-threads \d | --epochs \d+", "", one["command"])
        return f"`{command}` {percent(one['busy'])}"

    return topic("Hand-over between stages", ["handover.json"], "scripts/measure/handover.py",
                 f"A batch of 512 bytes through both rings, in microseconds: {rings}. Share of the time in which the "
                 "slowest stage works, on the demo dataset, of `bench pipeline` and of `train` with one thread: "
                 f"{'; '.join(map(words, raw['pipelines']))}.")


def summation():
    cells = load("sums.json")["cells"]
    over = {name: [cell[f"over_{key}"] for cell in cells if cell.get(f"over_{key}")]
            for name, key in (("gathering first", "gathered"), ("torch's", "torch"), ("DGL's", "dgl"))}
    found = ", ".join(f"{number(min(of))} to {number(max(of))} of {name}" for name, of in over.items())
    raw = load("aggregate-choice.json")
    text, files = topic("Choice of `--aggregate auto`", ["aggregate-choice.json"], "scripts/measure/aggregate_choice.py",
                        "Training batches a second.",
                        table(raw.items(), {"graph": lambda row: row[0],
                                            **{way: lambda row, way=way: number(row[1]["medians"][way])
                                               for way in ("off", "host", "auto")},
                                            "auto to the better": lambda row: number(row[1]["auto_over_best"])}),
                        "Speed of aggregating while reading on one thread, `scripts/measure/sums.py` "
                        f"([raw](../results/sums.json)) on {machine(load('sums.json'))}: {found}.")
    return text, [*files, "sums.json"]


def conversions():
    raw = load("formats.json")
    most = max(raw["edges"], key=int)
    runs = {one["what"]: one for one in raw["edges"][most]}
    own = {way: max(one["own_peak_bytes"] for what, one in runs.items() if what.startswith(way)) for way in ("export", "import")}

    def seconds(way):
        found = ((what.removeprefix(f"{way} ").split(" export-")[0], one) for what, one in runs.items() if what.startswith(way))
        return ", ".join(f"{name} {number(one['seconds'])}" for name, one in found)

    return (f"Import and export, `scripts/measure/formats.py` ([raw](../results/formats.json)), in seconds for "
            f"{millions(int(most))} edges with {raw['features']} float32 features and `--memory {raw['memory']}`. Export: "
            f"{seconds('export')}. Import: {seconds('import')}. The process's own memory is at most {size(own['export'])} and "
            f"{size(own['import'])}.")


def generators():
    runs = load("generators.json")["runs"]
    largest = {}
    for run in runs:
        if run["nodes"] >= largest.get(run["kind"], run)["nodes"]:
            largest[run["kind"]] = run
    found = "; ".join(f"`{kind}` {millions(run['nodes'])} nodes, {number(run['cpu_seconds'])} s, {size(run['peak_rss_bytes'])}"
                      for kind, run in sorted(largest.items()))
    text, files = topic("Generators", ["generators.json"], "scripts/measure/generators.py",
                        f"About 20 edges a node, one feature; CPU time of all threads and peak of resident memory: {found}.",
                        conversions(), on="Xeon while other work ran")
    return text, [*files, "formats.json"]


def growth():
    runs = load("growth.json")["runs"]
    steps = {"generate": "`generate`", "open-first": "`info` the first time", "open": "`info` again",
             "verify": "`info --verify`", "plan": "`plan`", "sample": "`bench sample`"}

    def of(step, run):
        one = run[step]
        time = (f"{1e9 * one['cpu_seconds'] / one['sampled_edges']:.0f} ns an edge" if step == "sample"
                else f"{number(one['cpu_seconds'])} s")
        return f"{time}, {number(one['own_peak_bytes'] / MIB)} MiB"

    many = runs[-1]
    found = "; ".join(f"{name} {of(step, many)}" for step, name in steps.items())
    return topic("Growth", ["growth.json"], "scripts/measure/growth.py",
                 "20 edges a node, 4 features, 2 % of the nodes train; fanouts 15,10,5, batches of 1000; other work ran "
                 "meanwhile. CPU time of all threads and memory of the process's own, for "
                 f"{millions(many['edges'])} edges: {found}.",
                 "![CPU time per edge and memory of the process's own, against edges, for generate, open, verify, "
                 "sample and plan](../growth.svg)")


def disk_rows():
    names = ["disk-rows.json", "disk-rows-epyc.json"]
    files = [load(name) for name in names]

    def figure(value):
        return value["batches_per_second"] if isinstance(value, dict) else value

    def of(raw, cell):
        return spread([figure(one) for one in raw["cells"][cell]]) if cell in raw["cells"] else "–"

    cells = list(dict.fromkeys(cell for raw in files for cell in raw["cells"]))
    few = [cell for cell in cells if cell.startswith(("training", "loading"))]
    first = files[0]
    limited = ", ".join(f"{cell} {of(first, cell)}" for cell in few)
    names_of_scale, blocks = at_scale()
    text, shown = topic("Rows from disk", names, "scripts/measure/disk_rows.py",
                        f"{first['nodes']:,} nodes, a table of {first['table_bytes'] / 1e9:.1f} GB on a virtual disk; batches a "
                        "second, or reads a second. The EPYC counts epochs from the third on, the Xeon one epoch from a cold "
                        f"start. Under a limit of {first['limit_bytes'] / 1e9:.1f} GB on the {machine(first)}: {limited}.",
                        table([cell for cell in cells if cell not in few], {
                            "measurement": lambda cell: cell.removeprefix("in memory: "),
                            **{machine(raw): lambda cell, raw=raw: of(raw, cell) for raw in files}}), *blocks)
    return text, [*shown, *names_of_scale]


def step(one):
    """A command of a run at scale."""
    text = f"{number(one['seconds'])} s, {size(one['own_peak_bytes'])} ({size(one['group_peak_bytes'])})"
    if one.get("batches_per_second"):
        text += f", {number(one['batches_per_second'])} batches/s, {number(one['disk']['reads'])} reads"
    return text


def at_scale():
    names = ["at-scale-quarter.json", "at-scale-full.json"]
    files = [load(name) for name in names]
    steps = {"generate": "`generate --feat-dtype f16`", "verify": "`info --verify`",
             "train": "`train --features disk`, `--host-cache` of half the limit",
             "uncached": "the same with `--look-ahead 2` and no cache",
             "propagate": "`propagate --hops 1 --type f16`, `--memory` of 2/3 of the limit"}
    graphs = "; ".join(f"scale {raw['scale']} has {millions(raw['graph']['nodes'])} nodes, "
                       f"{number(raw['graph']['edges'] / 1e6)} M edges, a table of {raw['table_bytes'] / GIB:.1f} GiB and "
                       f"a limit of {size(raw['limit_bytes'])}" for raw in files)
    links = ", ".join(f"[{name.split('.')[0]}](../results/{name})" for name in names)
    return names, [f"A graph larger than memory, `scripts/measure/at_scale.py` ({links}), on the {machine(files[0])}. `--preset "
                   f"{files[0]['preset']}`: {graphs}. Memory is the process's own (with pages of files).",
                   table(steps, {"step": lambda name: steps[name],
                                 **{f"scale {raw['scale']}": lambda name, raw=raw: step(raw[name]) for raw in files}})]


def propagation():
    names = ["propagation.json", "propagation-epyc.json"]
    files = [load(name) for name in names]
    what = list(dict.fromkeys(cell for raw in files for cell in raw["cells"]))
    shown, more = hop_sets()
    text, first = topic("Propagation", names, "scripts/measure/propagation.py",
                        f"{millions(files[0]['edges'])} edges, rows of {files[0]['row_bytes']} bytes, {files[0]['threads']} "
                        "threads.",
                        table(files, {"machine": machine, **{cell: lambda raw, cell=cell: median(raw["cells"][cell]) for cell in what},
                                      "GB of rows/s": lambda raw: number(raw["gb_per_second"]),
                                      "fastest other to ours": lambda raw: number(raw["over_fastest_other"])}), *more)
    return text, [*first, *shown]


def hop_sets():
    raw = load("hop-loader.json")
    rates = raw["rows_per_second"]
    rows = [("a row at a time", rates["rows"], None), ("BatchSampler", rates["batches"], None)]
    rows += [(way.removeprefix("chunks, "), of["rows"], of["memcpy"]) for way, of in rates["uvatrain"].items()]

    def rate(row):
        copied = f" ({percent(statistics.median(row[2]), 0)} of a copy)" if row[2] else ""
        return f"{row[0].replace('(s)', 's').replace('1 workers', '1 worker')} {millions(statistics.median(row[1]))}{copied}"

    disk = load("hop-disk.json")["beside_the_disk"]
    limited = load("hop-disk.json")["under_a_limit"]
    ways = "; ".join(f"{way} {median(of)} ({number(disk['of_fio'][way])})" for way, of in disk["cells"].items())
    steps = "; ".join(f"`{name}` {step(limited[name])}" for name in ("propagate", "train"))
    hop_set = raw["hop_set"]
    return ["hop-loader.json", "hop-disk.json"], [
        f"Loading a hop set from memory, `scripts/measure/hop_loader.py` ([raw](../results/hop-loader.json)), "
        f"{hop_set['rows']:,} rows of three hops of {hop_set['dim']} float32 values, batches of {raw['batch_size']:,}. Rows a "
        f"second of `DataLoader` with {raw['workers']} workers: {'; '.join(map(rate, rows[:2]))}. Of `bench loader`: "
        f"{'; '.join(map(rate, rows[2:]))}.",
        "From a virtual disk, `scripts/measure/hop_disk.py` ([raw](../results/hop-disk.json)) on EPYC, rows of "
        f"{disk['row_bytes']:,} bytes in {disk['tables']} tables, GB/s (of fio's): {ways}. A hop set of "
        f"{size(limited['hop_set_bytes'])} under a limit of {size(limited['limit_bytes'])}: {steps}."]


TOPICS = {
    "On the CPU": [host_path, loading, slot_pages, handover, summation],
    "Files, memory, disk": [generators, growth, disk_rows, propagation],
}
