"""A GPU: the link, gathers, runs, the division of a GPU, loaders."""
from .markdown import GIB, load, machine, number, paragraph, percent, size, table, topic


def gib(count):
    return f"{count // GIB} GiB" if count >= GIB else size(count)


def machines():
    one = load("gpu/runs-h100.json")["machine"], load("gpu/runs-h200.json")["machine"]
    words = [f"{machine(of)}: {of['gpu']}, {of['link']}, driver {of['driver']}, CUDA {of['cuda']}, {of['host']}." for of in one]
    return "\n".join(f"- {paragraph(word)}".replace("\n", "\n  ") for word in words), []


def correctness():
    names = ["gpu/correctness-h100.json", "gpu/correctness-h200.json"]
    files = [load(name) for name in names]
    steps = list(dict.fromkeys(step for raw in files for step in raw["steps"]))

    def of(raw):
        def cell(step):
            one = raw["steps"].get(step)
            return one["status"] if one else "–"
        return cell

    found = [one for raw in files for one in (*raw.get("found", {}).values(), *(step.get("found", {}) for step in raw["steps"].values()))]
    farthest = max(way["farthest_loss"] for one in found for way in one.get("ways", {}).values())
    return topic("Correctness", names, "scripts/gpu/suite.sh --profile correct",
                 f"Losses of all ways of gathering, sharing and partitioning are within {percent(farthest, 3)} of the "
                 "CPU's. `unfinished`: the time of the step was over.",
                 table(steps, {"step": lambda step: step,
                               **{machine(raw): of(raw) for raw in files}}))


def translation():
    cells = [cell for cell in load("gpu/translation-h100.json")["cells"] if cell["what"] == "size"]
    tables = sorted({cell["gib"] for cell in cells})
    rows = sorted({cell["row"] for cell in cells})
    found = {(cell["gib"], cell["row"]): cell for cell in cells}

    def of(row, order):
        return lambda at: number(found[at, row][f"{order}_mrows"]) if (at, row) in found else "–"

    buckets = [cell for cell in load("gpu/translation-h100.json")["cells"] if cell["what"] == "bucket"]
    most = max(cell["rows"] for cell in buckets)
    buckets = [cell for cell in buckets if cell["rows"] == most]
    regions = sorted({cell["bucket_log2"] for cell in buckets})
    by = {(cell["gib"], cell["bucket_log2"]): cell["mrows"] for cell in buckets}
    return topic("Address translation", ["gpu/translation-h100.json"], "a probe of scattered reads",
                 "Million rows a second from pinned host memory, by all multiprocessors:",
                 table(tables, {"table, GiB": lambda at: number(at),
                                **{f"{row} bytes, {order}": of(row, order) for row in rows for order in ("random", "sorted")}}),
                 f"The same for {most:,} random rows of 512 bytes that are read region by region:",
                 table(regions, {"region": lambda log2: {0: "sorted", 63: "batch order"}.get(log2) or size(2**log2),
                                 **{f"table of {at} GiB": lambda log2, at=at: number(by.get((at, log2)))
                                    for at in sorted({cell["gib"] for cell in buckets})}}))


def cells_of(name):
    return load(name)["report"]["cells"]


def regions():
    cells = cells_of("gpu/regions-h100.json")
    found = {(cell["table_bytes"], cell["multiprocessors"], cell["row_bytes"], cell["ids"]): cell["gb_per_second"] for cell in cells}
    rows = [(bytes_of, count) for count in (None, 8) for bytes_of in sorted({cell["table_bytes"] for cell in cells})]
    columns = [(row, ids) for row in sorted({cell["row_bytes"] for cell in cells}) for ids in ("random", "by-region")]
    return topic("The order of reads", ["gpu/regions-h100.json"], load("gpu/regions-h100.json")["command"],
                 "GB/s of `wide`, in the batch's order (random) and by region.",
                 table(rows, {"table": lambda at: gib(at[0]), "multiprocessors": lambda at: at[1] or "all",
                              **{f"{row} bytes, {ids}": lambda at, row=row, ids=ids: number(found.get((*at, row, ids)))
                                 for row, ids in columns}}))


def rows_of_a_gather():
    raw = load("gpu/rows-h200.json")
    of = raw["by_region_gb_per_second"]
    counts = [count for count in next(iter(of.values())) if int(count) > 131072]
    return topic("Rows of a gather", ["gpu/rows-h200.json"], "a plain kernel, and uvatrain bench pcie",
                 "GB/s of rows of 512 bytes, sorted by regions of 256 KiB beforehand:",
                 table(of.items(), {"table, multiprocessors": lambda row: row[0],
                                    **{f"{int(count):,} rows": lambda row, count=count: number(row[1][count]) for count in counts}}),
                 "Small gathers of a table of 4 GiB by `bench pcie`, the launches that order the reads included:",
                 table(raw["small_gb_per_second"].items(), {"rows": lambda row: f"{int(row[0]):,}",
                                                            "by region": lambda row: number(row[1]["by-region"]),
                                                            "batch order": lambda row: number(row[1]["random"])}))


def link():
    names = ["gpu/pcie-near-h100.json", "gpu/pcie-h100.json"]
    blocks, reports = [], [load(name)["report"] for name in names]
    for report in reports:
        ways = ", ".join(f"{way['way']} {number(way['gb_per_second'])}" for way in report["ways"])
        blocks.append(f"A table of {gib(report['base']['table_bytes'])}: the copy engine reaches "
                      f"{number(report['copy_engine']['peak_gb_per_second'])} GB/s, zero-copy reads of whole lines "
                      f"{number(report['zero_copy_ceiling'])}; rows of 512 bytes: {ways}.")
    targets = list(zip(*(report["reach"] for report in reports)))
    blocks += ["Targets, which hold for tables within reach of the GPU's translations, and the least of all row sizes:",
               table(targets, {"measurement": lambda row: row[0]["what"],
                               "target": lambda row: percent(row[0]["wanted"], 0),
                               **{gib(report["base"]["table_bytes"]): lambda row, place=place: least(row[place])
                                  for place, report in enumerate(reports)}})]
    near = [cell for cell in cells_of("gpu/pcie-near-h100.json") if cell["row_bytes"] == 512 and cell["axis"] != "row-bytes"]
    found = {(cell["kernel"], cell["multiprocessors"]): cell["gb_per_second"] for cell in near}
    counts = sorted({count for _, count in found if count})
    blocks += ["Rows of 512 bytes of the smaller table by few multiprocessors, GB/s:",
               table(("naive", "shift", "wide"), {"kernel": lambda kernel: f"`{kernel}`",
                                                  **{str(count or "all"): lambda kernel, count=count: number(found.get((kernel, count)))
                                                     for count in (*counts, None)}})]
    pages = {}
    for cell in cells_of("gpu/pcie-h100.json"):
        if cell["row_bytes"] == 512 and cell["axis"] in ("base", "pages", "hints") and cell["table_bytes"] == 4 * GIB:
            pages.setdefault(f"{cell['pages']}, `{cell['kernel']}`", cell["gb_per_second"])
    blocks += ["Pages and hints, rows of 512 bytes of 4 GiB, GB/s:",
               table(pages.items(), {"pages, kernel": lambda row: row[0], "GB/s": lambda row: number(row[1])})]
    return topic("The link", names, load("gpu/pcie-near-h100.json")["command"], *blocks)


def least(of):
    rows = of["at"].split(", ")[1]
    return f"{percent(of['measured'], 0)} ({rows})"


def gathers():
    names = ["gpu/peers-h200.json", "gpu/peers-h100.json"]
    h200 = load(names[0])
    columns = {}
    for key, raw in [(f"H200, {key}", of) for key, of in h200.items() if "GiB" in key] + [("H100, 4 GiB", load(names[1]))]:
        for figure in raw["figures"]:
            columns[f"{key}, {figure['row_bytes']} bytes"] = figure["gb_per_second"]
    ways = list(dict.fromkeys(way for of in columns.values() for way in of))
    return topic("Gathers of other libraries", names, "scripts/gpu/peers.py",
                 f"GB/s, random rows, the same rows and ids. On the H200, {h200['note']}.",
                 table(ways, {"gather": lambda way: way,
                              **{name: lambda way, of=of: number(of.get(way)) for name, of in columns.items()}}))


def runs():
    blocks = []
    names = ["gpu/runs-h200.json", "gpu/runs-h100.json"]
    new, old = map(load, names)
    of_new = [(f"{name}, {when}", run) for when, found in new["runs"].items() for name, run in found.items()]
    blocks += [f"{new['graph']}, `{new['options']}`. A rehearsal is a step on zeros before the first batch.",
               table(of_new, {"run": lambda row: row[0], "gather, ms": lambda row: number(row[1]["gather_us"] / 1e3),
                              "training, ms": lambda row: number(row[1]["train_us"] / 1e3),
                              "a batch every, ms": lambda row: number(row[1]["interval_us"] / 1e3),
                              "epochs, s": lambda row: ", ".join(map(number, row[1]["epoch_seconds"]))}),
               "On the H100, one epoch; the launches that order the reads are in the epoch and not in the gather:",
               table(old["runs"].items(), {"run": lambda row: row[0],
                                           "gather, ms": lambda row: number(row[1]["gather_us"] / 1e3),
                                           "training, ms": lambda row: number(row[1]["train_us"] / 1e3),
                                           "epoch, s": lambda row: number(row[1]["epoch_seconds"])}),
               "What `auto` chose at a first start on the H100:",
               table(old["first_start"].items(), {"order": lambda row: row[0], "line": lambda row: row[1]})]
    return topic("Whole runs", names, "scripts/gpu/suite.sh --profile measure", *blocks)


def division():
    raw = load("gpu/training-h100.json")
    epochs = {name: of for name, of in raw["epoch_time"].items() if isinstance(of, dict)}
    cached = raw["caches"]["runs"]
    pairs = list(shared(load("gpu/probe-h100.json")["cells"]))
    return topic("A GPU that two processes share", ["gpu/training-h100.json", "gpu/probe-h100.json"],
                 "scripts/gpu/suite.sh --profile measure, and a probe",
                 "Gathers by a share of MPS, GB/s by the bytes of a row:",
                 table(raw["shares"], {"share, %": lambda row: row["percentage"],
                                       "multiprocessors": lambda row: row["multiprocessors"],
                                       **{count: lambda row, count=count: number(row["gb_per_second"].get(count))
                                          for count in sorted(raw["shares"][0]["gb_per_second"], key=int)}}),
                 "One process gathers, one computes:",
                 table(pairs, {"MPS shares, gathering and computing": lambda row: row[0],
                               "gather, GB/s": lambda row: number(row[1]),
                               "arithmetic, TFLOP/s": lambda row: number(row[2]),
                               "copies, GB/s": lambda row: number(row[3])}),
                 "An epoch:",
                 table(epochs.items(), {"features": lambda row: row[0].replace("_", " "),
                                        "median, s": lambda row: number(row[1]["median"]),
                                        "bottleneck": lambda row: row[1]["bottleneck"]}),
                 f"Caches of {raw['caches']['budget']}, milliseconds a batch:",
                 table(cached.items(), {"run": lambda row: row[0].replace("_", " "),
                                        **{name: lambda row, field=field: number(row[1][field] / 1e3) for name, field in
                                           (("sampling", "sample_us"), ("gathering", "gather_us"), ("training", "train_us"))},
                                        "hits of rows": lambda row: percent((row[1]["cache"] or {}).get("row_hit_rate")),
                                        "of lists": lambda row: percent((row[1]["cache"] or {}).get("list_hit_rate"))}))


def shared(cells):
    """The pairs of the probe: shares, and what each process reached."""
    shares, found = None, {}
    for cell in [*cells, {"probe": "pair"}]:
        if cell.get("probe") == "pair":
            if shares and found:
                yield (shares, found.get("gbps"), found.get("tflops"), found.get("hbm_gbps"))
            found = {}
            shares = " and ".join(words(cell[f"{side}_share"]) for side in ("producer", "consumer")) if "producer_share" in cell else None
        elif "role" in cell:
            found.update(cell)


def words(share):
    return {"0": "no MPS", "-": "absent"}.get(share, f"{share} %")


def loaders():
    raw = load("gpu/loaders-h200.json")
    options = raw["options"]
    return topic("PyG's loader on a GPU", ["gpu/loaders-h200.json"], "scripts/gpu/loaders.py",
                 "Two SAGEConv of PyG on the graph of the whole runs, fanouts "
                 f"{','.join(map(str, options['fanouts']))}, batches of {options['batch_size']}, hidden "
                 f"{options['hidden']}; PyG has {options['workers']} processes, `PrefetchLoader`, and torch-sparse.",
                 table(raw["loaders"].items(), {"loader": lambda row: row[0],
                                                "batches/s, rounds": lambda row: ", ".join(number(one["batches_per_second"]) for one in row[1]),
                                                "rows a batch": lambda row: number(row[1][0]["rows"])}))


def captured():
    raw = load("gpu/captured-h200.json")
    return topic("A captured step", ["gpu/captured-h200.json"], "scripts/gpu/captured.py", f"{raw['graph']}.",
                 table(raw["runs"], {"steps": lambda run: "captured" if run["captured"] else "each enqueued",
                                     "epochs, s": lambda run: ", ".join(map(number, run["epoch_s"])),
                                     "last loss": lambda run: f"{run['losses'][-1]:.4f}",
                                     "batches": lambda run: number(run["batches"])}))


TOPICS = {"On a GPU": [machines, correctness, link, translation, regions, rows_of_a_gather, gathers, runs, division, loaders, captured]}
