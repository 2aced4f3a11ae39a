"""Sampling, gathering, the hand-over, files: what a CPU does."""
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
    return topic("The host path", ["host.json"], "scripts/measure/host.py",
                 table(rows, {"measurement": lambda name: name, "1 thread": lambda name: rows[name].get("1", "–"),
                              "2 threads": lambda name: rows[name]["2"],
                              "`uvatrain …`": lambda name: f"`{commands[name]}`"}))


def loading():
    def words(cell):
        ways = ", ".join(f"{way} {number(of)} ({percent(cell['share_of_allowed'][way], 0)})" for way, of in cell["ways_ms"].items())
        return (f"*{cell['graph']}*, {cell['cores']} core{'s' if cell['cores'] > 1 else ''}: sampled {number(cell['sample_ms'])}, "
                f"gathered {number(cell['gather_ms'])}, {ways}")

    return topic("Loading and its stages alone", ["loading.json"], "scripts/measure/loading.py",
                 "Milliseconds a batch (share of the rate that the stages alone allow), fanouts 15,10,5, batches of 1000, graphs of "
                 f"[the comparison](#other-libraries). {'. '.join(map(words, load('loading.json')['cells']))}.")


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
        return f"`{one['command'].split('data/demo ')[1].split(' --epochs')[0]}` {percent(one['busy'])}"

    pipelines = [one for one in raw["pipelines"] if one["command"].startswith("bench")]
    return topic("Hand-over between stages", ["handover.json"], "scripts/measure/handover.py",
                 f"A batch of 512 bytes through both rings, in microseconds: {rings}. Share of the time in which the "
                 f"slowest stage works, of `bench pipeline` on the demo dataset: {'; '.join(map(words, pipelines))}.")


def summation():
    cells = load("sums.json")["cells"]
    over = {name: [cell[f"over_{key}"] for cell in cells if cell.get(f"over_{key}")]
            for name, key in (("gathering first", "gathered"), ("torch's", "torch"), ("DGL's", "dgl"))}
    found = ", ".join(f"{number(min(of))} to {number(max(of))} of {name}" for name, of in over.items())
    chosen = "; ".join(f"{graph} {', '.join(number(one['medians'][way]) for way in ('off', 'host', 'auto'))} "
                       f"({number(one['auto_over_best'])})" for graph, one in load("aggregate-choice.json").items())
    text, files = topic("Choice of `--aggregate auto`", ["aggregate-choice.json"], "scripts/measure/aggregate_choice.py",
                        f"Training batches a second with `off`, `host` and `auto` (`auto` ÷ the better): {chosen}.",
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

    first, second = files

    def both(cell):
        return f"{of(first, cell)} and {of(second, cell)}"

    names_of_scale, blocks = at_scale()
    text, shown = topic("Rows from disk", names, "scripts/measure/disk_rows.py",
                        f"{first['nodes']:,} nodes, a table of {first['table_bytes'] / 1e9:.1f} GB on a virtual disk. The EPYC counts "
                        "epochs from the third on, the Xeon one epoch from a cold start. Reads a second on these machines: "
                        f"{both('device: ours, reads/s')} by `uvatrain`, {both('device: fio, 1536 bytes, reads/s')} by fio. Batches a "
                        f"second: {both('in memory: memory')} from memory, {both('in memory: disk, cache of 40 %')} from disk with a "
                        f"cache of 40 %; on the EPYC with hidden 512 {of(second, 'in memory: memory, hidden 512')} and "
                        f"{of(second, 'in memory: disk, cache of 40 %, hidden 512')}. Under a limit of {first['limit_bytes'] / 1e9:.1f} "
                        f"GB on the {machine(first)}: training {of(first, 'training: mapped')} from the mapped table and "
                        f"{of(first, 'training: disk')} from disk, loading {of(first, 'loading: uvatrain')}.", *blocks)
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
    shown, more = hop_sets()

    def both(cell):
        return " and ".join(median(raw["cells"][cell]) for raw in files)

    hops = ", ".join(f"{name} {both(f'{name}, s' + (' a hop' if name == 'uvatrain' else ''))}"
                     for name in ("uvatrain", "torch", "scipy", "dgl"))
    text, first = topic("Propagation", names, "scripts/measure/propagation.py",
                        f"{millions(files[0]['edges'])} edges, rows of {files[0]['row_bytes']} bytes, {files[0]['threads']} "
                        f"threads. Seconds a hop on these machines: {hops}. `bench gather` reaches {both('bench gather, GB/s')} GB/s. "
                        f"Seconds for 30 training batches: `sage` {both('sage, s for 30 batches')}, `sign` over the hops "
                        f"{both('sign, s for 30 batches')}.", *more)
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
