"""Sampling, gathering, the hand-over, files: what a CPU does."""
import statistics

from .markdown import GIB, MIB, load, machine, median, millions, number, percent, size, spread, table, topic


def cores(count):
    return f"{count} core{'s' if count > 1 else ''}"


def host_path():
    rows = load("host.json")["rows"]
    return topic("The host path", ["host.json"], "scripts/measure/host.py", table(rows, {
        "measurement": lambda row: row["name"], "median": lambda row: number(row["median"]),
        "rounds": lambda row: ", ".join(map(number, row["values"])),
        "`uvatrain …`": lambda row: f"`{row['command']}`"}))


def loading():
    cells = load("loading.json")["cells"]
    ways = list(dict.fromkeys(way for cell in cells for way in cell["ways_ms"]))

    def of(way):
        return lambda cell: (f"{number(cell['ways_ms'][way])} ms, {percent(cell['share_of_allowed'][way], 0)}"
                             if way in cell["ways_ms"] else "–")

    return topic("Loading and its stages alone", ["loading.json"], "scripts/measure/loading.py",
                 "Fanouts 15,10,5, batches of 1000. Percentages are of the rate that the stages alone allow. `small` "
                 "and `medium` are the graphs of [the comparison](#other-libraries).",
                 table(cells, {"graph, cores": lambda cell: f"{cell['graph']}, {cell['cores']}",
                               "sampled, ms": lambda cell: number(cell["sample_ms"]),
                               "gathered, ms": lambda cell: number(cell["gather_ms"]),
                               **{way: of(way) for way in ways}}))


def slot_pages():
    raw = load("slot-pages.json")
    rows = [(len(one["cores"]), way, of) for one in raw["cores"] for way, of in one["medians"].items()]
    return topic("Pages of slots and of the table", ["slot-pages.json"], "scripts/measure/slot_pages.py",
                 f"`{raw['graph']} {raw['options']}`, medians in milliseconds a batch. `small`: no huge pages; "
                 "`summed`: the producer aggregates the first layer.",
                 table(rows, {"cores": lambda row: row[0], "way": lambda row: row[1],
                              "sampling": lambda row: number(row[2]["sample_ms"]),
                              "gather": lambda row: number(row[2]["gather_ms"]),
                              "training": lambda row: number(row[2]["train_ms"]),
                              "batches/s": lambda row: number(row[2]["batches_per_second"])}))


def handover():
    raw = load("handover.json")

    def slowest(pipeline):
        return " and ".join(sorted({one["bottleneck"] for one in pipeline["rounds"]}))

    return topic("Hand-over between stages", ["handover.json"], "scripts/measure/handover.py",
                 "A batch of 512 bytes through both rings, in microseconds:",
                 table(raw["rings"], {"cores": lambda row: row["cores"], "batches": lambda row: row["batches"],
                                      "median": lambda row: number(row["microseconds"]),
                                      "least to most": lambda row: f"{number(row['least'])} to {number(row['most'])}"}),
                 "Share of the time in which the slowest stage works:",
                 table(raw["pipelines"], {"`uvatrain …`": lambda row: f"`{row['command']}`", "slowest stage": slowest,
                                          "busy": lambda row: percent(row["busy"])}))


def formats():
    raw = load("formats.json")
    kinds = [one["what"] for one in next(iter(raw["edges"].values()))]
    by_edges = {edges: {one["what"]: one for one in of} for edges, of in raw["edges"].items()}

    def of(edges):
        def cell(kind):
            one = by_edges[edges][kind]
            return (f"{number(one['seconds'])} s, {number(one['own_peak_bytes'] / MIB)} "
                    f"({number(one['peak_bytes'] / MIB)})")
        return cell

    return topic("Importing and exporting", ["formats.json"], "scripts/measure/formats.py",
                 f"Graphs of mean degree {raw['degree']} with {raw['features']} float32 features, `--memory "
                 f"{raw['memory']}`. Seconds, and the peak of the process's own memory in MiB (with pages of mapped "
                 "files).",
                 table(kinds, {"command": lambda kind: kind,
                               **{f"{millions(int(edges))} edges": of(edges) for edges in by_edges}}),
                 on=f"{cores(raw['machine']['cores'])} (load {number(raw['machine']['load_1min'])})")


def generators():
    raw = load("generators.json")
    kinds = list(dict.fromkeys(run["kind"] for run in raw["runs"]))
    nodes = sorted({run["nodes"] for run in raw["runs"]})
    by_kind = {(run["kind"], run["nodes"]): run for run in raw["runs"]}

    def of(count):
        def cell(kind):
            run = by_kind.get((kind, count))
            return f"{size(run['peak_rss_bytes'])}, {number(run['cpu_seconds'])} s" if run else "–"
        return cell

    return topic("Generators", ["generators.json"], "scripts/measure/generators.py",
                 "About 20 edges a node, one feature. Peak of resident memory, CPU time of all threads.",
                 table(kinds, {"`--kind`": lambda kind: f"`{kind}`",
                               **{f"{millions(count)} nodes": of(count) for count in nodes}}),
                 on=f"{raw['machine']['cpu']}, {cores(raw['machine']['cores'])} while other work ran")


def growth():
    runs = load("growth.json")["runs"]
    steps = {"generate": "`generate`", "open-first": "`info`, the first time", "open": "`info`, again",
             "verify": "`info --verify`", "plan": "`plan`", "sample": "`bench sample`, an edge sampled"}

    def of(run):
        def cell(step):
            one = run[step]
            time = (f"{1e9 * one['cpu_seconds'] / one['sampled_edges']:.0f} ns" if step == "sample"
                    else f"{number(one['cpu_seconds'])} s")
            return f"{time}, {number(one['own_peak_bytes'] / MIB)} MiB"
        return cell

    return topic("Growth", ["growth.json"], "scripts/measure/growth.py",
                 "20 edges a node, 4 features, 2 % of the nodes train; fanouts 15,10,5, batches of 1000. CPU time of "
                 "all threads and memory of the process's own. Other work ran meanwhile.",
                 "![CPU time per edge and memory of the process's own, against edges, for generate, open, verify, "
                 "sample and plan](../growth.svg)",
                 table(steps, {"step": lambda step: steps[step],
                               **{f"{millions(run['edges'])} edges": of(run) for run in runs}}))


def summation():
    cells = load("sums.json")["cells"]
    return topic("Aggregation while gathering", ["sums.json"], "scripts/measure/sums.py",
                 "Milliseconds a batch on one thread: aggregated while reading (`host`), gathered and then "
                 "aggregated, by torch (`bag`) and by DGL; and how many times as fast `host` is.",
                 table(cells, {"table": lambda cell: cell["data"],
                               "fanouts": lambda cell: ",".join(map(str, cell["fanouts"])),
                               **{name: lambda cell, name=name: number(cell["milliseconds"].get(name))
                                  for name in ("host", "gathered", "bag", "dgl")},
                               "to gather and aggregate": lambda cell: number(cell["over_gathered"]),
                               "to torch": lambda cell: number(cell["over_torch"]),
                               "to DGL": lambda cell: number(cell.get("over_dgl"))}))


def aggregate_choice():
    raw = load("aggregate-choice.json")
    return topic("Choice of `--aggregate auto`", ["aggregate-choice.json"], "scripts/measure/aggregate_choice.py",
                 "Training batches a second, medians.",
                 table(raw.items(), {"graph": lambda row: row[0], "rounds": lambda row: row[1]["rounds"],
                                     **{way: lambda row, way=way: number(row[1]["medians"][way])
                                        for way in ("off", "host", "auto")},
                                     "auto to the better": lambda row: number(row[1]["auto_over_best"])}))


def core_shares():
    raw = load("cores.json")["graphs"]
    return topic("Cores for each stage", ["cores.json"], "scripts/measure/cores.py",
                 "Milliseconds a batch; threads are those of sampling, gathering and training.",
                 table(raw.items(), {"graph": lambda row: f"`{row[1]['graph']} {row[1]['options']}`",
                                     "usual threads": lambda row: number(row[1]["usual_ms"]),
                                     "`--cores auto`": lambda row: number(row[1]["auto_ms"]),
                                     "chosen": lambda row: "; ".join(row[1]["chosen"]),
                                     "best": lambda row: f"{number(row[1]['medians'][row[1]['best']])} ({row[1]['best']})"}))


def propagation():
    names = ["propagation.json", "propagation-epyc.json"]
    files = [load(name) for name in names]
    what = list(dict.fromkeys(cell for raw in files for cell in raw["cells"]))
    return topic("Propagation", names, "scripts/measure/propagation.py",
                 f"{millions(files[0]['edges'])} edges, rows of {files[0]['row_bytes']} bytes, {files[0]['threads']} "
                 "threads; medians.",
                 table([*what, "GB of rows/s", "fastest other to ours"], {
                     "measurement": lambda cell: cell,
                     **{machine(raw): lambda cell, raw=raw: (
                         number(raw["gb_per_second"]) if cell == "GB of rows/s" else number(raw["over_fastest_other"])
                         if cell == "fastest other to ours" else median(raw["cells"][cell])) for raw in files}}),
                 on="two machines")


def hop_loader():
    raw = load("hop-loader.json")
    rates = raw["rows_per_second"]
    rows = [("DataLoader, a row at a time", rates["rows"], None), ("DataLoader, BatchSampler", rates["batches"], None)]
    rows += [(f"bench loader, {way.removeprefix('chunks, ')}", of["rows"], of["memcpy"]) for way, of in rates["uvatrain"].items()]
    best = statistics.median(rates["rows"])
    return topic("Loading a hop set from memory", ["hop-loader.json"], "scripts/measure/hop_loader.py",
                 f"{raw['hop_set']['rows']:,} rows, three hops of {raw['hop_set']['dim']} float32 values, batches of "
                 f"{raw['batch_size']:,}, {raw['workers']} workers of `DataLoader`, torch {raw['torch']}.",
                 table(rows, {"loader": lambda row: row[0], "rows/s": lambda row: millions(statistics.median(row[1])),
                              "to the first": lambda row: number(statistics.median(row[1]) / best),
                              "of a plain copy": lambda row: percent(statistics.median(row[2]), 0) if row[2] else "–"}))


def hop_disk():
    raw = load("hop-disk.json")
    disk, limited = raw["beside_the_disk"], raw["under_a_limit"]
    return topic("A hop set on disk", ["hop-disk.json"], "scripts/measure/hop_disk.py",
                 f"Rows of {disk['row_bytes']:,} bytes in {disk['tables']} tables, batches of {disk['batch_size']:,}, "
                 f"`--reader {disk['reader']}`. fio reads 1 MiB at random places. A virtual disk, whose rate varies.",
                 table(disk["cells"].items(), {"way": lambda row: row[0], "GB/s": lambda row: median(row[1]),
                                               "to fio": lambda row: number(disk["of_fio"][row[0]])}),
                 f"Under a limit of {size(limited['limit_bytes'])}, a hop set of {size(limited['hop_set_bytes'])}:",
                 steps(limited))


def steps(raw):
    """The commands of a run at scale."""
    found = {name: of for name, of in raw.items() if isinstance(of, dict) and "command" in of}
    return table(found.values(), {"`uvatrain …`": lambda one: f"`{one['command']}`",
                                  "seconds": lambda one: number(one["seconds"]),
                                  "own memory": lambda one: size(one["own_peak_bytes"]),
                                  "with pages of files": lambda one: size(one["group_peak_bytes"]),
                                  "batches/s": lambda one: number(one.get("batches_per_second")),
                                  "reads from disk": lambda one: number((one.get("disk") or {}).get("reads"))})


def disk_rows():
    names = ["disk-rows.json", "disk-rows-epyc.json"]
    files = [load(name) for name in names]

    def figure(value):
        return value["batches_per_second"] if isinstance(value, dict) else value

    cells = list(dict.fromkeys(cell for raw in files for cell in raw["cells"]))
    first = files[0]
    return topic("Rows from disk", names, "scripts/measure/disk_rows.py",
                 f"{first['nodes']:,} nodes, a table of {first['table_bytes'] / 1e9:.1f} GB; *training* and *loading* "
                 f"under a limit of {first['limit_bytes'] / 1e9:.1f} GB. Batches a second, or reads a second; "
                 "medians. The second machine counts epochs from the third on, the first one epoch from a cold start.",
                 table(cells, {"measurement": lambda cell: cell,
                               **{machine(raw): lambda cell, raw=raw: (spread([figure(one) for one in raw["cells"][cell]])
                                                                       if cell in raw["cells"] else "–") for raw in files}}),
                 on="two machines with virtual disks")


def at_scale():
    names = ["at-scale-quarter.json", "at-scale-full.json"]
    blocks = []
    for raw in map(load, names):
        blocks += [f"`--preset {raw['preset']} --scale {raw['scale']}`: {millions(raw['graph']['nodes'])} nodes, "
                   f"{number(raw['graph']['edges'] / 1e6)} M edges, a table of {raw['table_bytes'] / GIB:.1f} GiB, "
                   "under a limit of "
                   f"{size(raw['limit_bytes'])}:", steps(raw)]
    return topic("A graph larger than memory", names, "scripts/measure/at_scale.py", *blocks)


TOPICS = {
    "On the CPU": [host_path, loading, slot_pages, handover, core_shares, summation, aggregate_choice],
    "Files, memory, disk": [formats, generators, growth, disk_rows, at_scale, propagation, hop_loader, hop_disk],
}
