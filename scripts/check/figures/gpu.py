"""A GPU: the link, gathers, runs, the division of a GPU."""
from .markdown import GIB, load, machine, number, paragraph, percent, size, table, topic


def gib(count):
    return f"{count // GIB} GiB" if count >= GIB else size(count)


def machines():
    one = load("gpu/runs-h100.json")["machine"], load("gpu/runs-h200.json")["machine"]
    words = [f"*{machine(of)}* is an {of['gpu']}" for of in one]
    rest = dict.fromkeys(f"{of['link']}, driver {of['driver']}, CUDA {of['cuda']}, {of['host']}" for of in one)
    return paragraph("; ".join([*words, f"both have {'; '.join(rest)}."])), []


def correctness():
    names = ["gpu/correctness-h100.json", "gpu/correctness-h200.json"]
    files = [load(name) for name in names]
    found = [one for raw in files for one in (*raw.get("found", {}).values(), *(step.get("found", {}) for step in raw["steps"].values()))]
    farthest = max(way["farthest_loss"] for one in found for way in one.get("ways", {}).values())

    def steps(raw):
        others = [f"{step} is {one['status']}" for step, one in raw["steps"].items() if one["status"] != "passed"]
        return f"{machine(raw)}: {len(raw['steps']) - len(others)} steps passed" + "".join(f"; {one}" for one in others)

    return topic("Correctness", names, "scripts/gpu/suite.sh --profile correct",
                 f"{'. '.join(map(steps, files))}. A step that exceeds its time is unfinished. Losses of all ways of gathering, "
                 f"sharing and partitioning are within {percent(farthest, 3)} of the CPU's.")


def translation():
    cells = sorted((cell for cell in load("gpu/translation-h100.json")["cells"] if cell["what"] == "size" and cell["row"] == 512 and
                    cell["gib"] in (0.5, 1, 2, 4, 16, 48)),
                   key=lambda cell: cell["gib"])
    rates = "; ".join(f"{number(cell['gib'])} GiB {number(cell['random_mrows'])} and {number(cell['sorted_mrows'])}" for cell in cells)
    buckets = [cell for cell in load("gpu/translation-h100.json")["cells"] if cell["what"] == "bucket"]
    most = max(cell["rows"] for cell in buckets)
    buckets = [cell for cell in buckets if cell["rows"] == most]
    by = {(cell["gib"], cell["bucket_log2"]): cell["mrows"] for cell in buckets}
    regions = {log2: {0: "sorted", 63: "batch order"}.get(log2) or size(2**log2) for log2 in sorted({cell["bucket_log2"] for cell in buckets})
               if log2 in (0, 18, 21, 24, 63)}
    by_size = "; ".join(f"{at} GiB: " + ", ".join(f"{name} {number(by[at, log2])}" for log2, name in regions.items())
                        for at in sorted({cell["gib"] for cell in buckets}))
    return topic("Address translation", ["gpu/translation-h100.json"], "a probe of scattered reads",
                 "Million rows of 512 bytes a second from pinned host memory by all multiprocessors, by the size of the table, with "
                 f"random and with sorted ids: {rates}. The same for {most:,} random rows that are read region by region, {by_size}.")


def cells_of(name):
    return load(name)["report"]["cells"]


def regions():
    cells = cells_of("gpu/regions-h100.json")
    found = {(cell["table_bytes"], cell["multiprocessors"], cell["row_bytes"], cell["ids"]): cell["gb_per_second"] for cell in cells}
    tables = sorted({cell["table_bytes"] for cell in cells})

    def of(row):
        return lambda at: "; ".join(", ".join(number(found.get((at, count, row, ids))) for count in (None, 8))
                                    for ids in ("random", "by-region"))

    return topic("The order of reads", ["gpu/regions-h100.json"], "uvatrain bench pcie --full",
                 "GB/s of `wide` in the batch's order by all and by 8 multiprocessors; then by region by all and by 8.",
                 table(tables, {"table": gib, **{f"{row} bytes": of(row) for row in sorted({cell["row_bytes"] for cell in cells})}}))


def rows_of_a_gather():
    raw = load("gpu/rows-h200.json")
    found = {}
    for name, of in raw["by_region_gb_per_second"].items():
        bytes_of, by = name.removesuffix(" multiprocessors").split(", ")
        found.setdefault(bytes_of, {})[by] = of
    counts = [count for count in found["4 GiB"]["8"] if int(count) > 131072]
    small = ", ".join(f"{number(one['by-region'])} and {number(one['random'])} ({int(count):,} rows)"
                      for count, one in raw["small_gb_per_second"].items())
    return topic("Rows of a gather", ["gpu/rows-h200.json"], "a plain kernel, and uvatrain bench pcie",
                 "GB/s of rows of 512 bytes, sorted by regions of 256 KiB beforehand, by 8 and by all multiprocessors:",
                 table(found, {"table": lambda at: at,
                               **{f"{int(count):,} rows": lambda at, count=count: ", ".join(number(found[at][by][count]) for by in ("8", "all"))
                                  for count in counts}}),
                 "Small gathers of a table of 4 GiB by `bench pcie`, the launches that order the reads included, by region and in the "
                 f"batch's order: {small}.")


def link():
    names = ["gpu/pcie-near-h100.json", "gpu/pcie-h100.json"]
    reports = [load(name)["report"] for name in names]

    def reach(report):
        ways = ", ".join(f"{way['way']} {number(way['gb_per_second'])}" for way in report["ways"])
        return (f"{gib(report['base']['table_bytes'])}: copy engine {number(report['copy_engine']['peak_gb_per_second'])}, zero-copy "
                f"reads of whole lines {number(report['zero_copy_ceiling'])}; rows of 512 bytes: {ways}")

    near = [cell for cell in cells_of("gpu/pcie-near-h100.json") if cell["row_bytes"] == 512 and cell["axis"] != "row-bytes"]
    found = {(cell["kernel"], cell["multiprocessors"]): cell["gb_per_second"] for cell in near}
    counts = sorted({count for _, count in found if count})
    few = "; ".join(f"`{kernel}` " + ", ".join(number(found[kernel, count]) for count in counts) for kernel in ("naive", "wide"))
    pages = [cell["gb_per_second"] for cell in cells_of("gpu/pcie-h100.json")
             if cell["row_bytes"] == 512 and cell["axis"] in ("pages", "hints") and cell["table_bytes"] == 4 * GIB]
    return topic("The link", names, "uvatrain bench pcie",
                 f"GB/s of tables of {'. Of '.join(map(reach, reports))}. Rows of 512 bytes of the smaller table by "
                 f"{', '.join(map(str, counts))} multiprocessors: {few}. From 4 GiB, all kinds of pages and hints give "
                 f"{number(min(pages))} to {number(max(pages))}. [The goals](../guide/performance.md#the-goals) has the targets.")


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
    new = load("gpu/runs-h200.json")
    # Three and four slots give what two give, and `auto` chose zero-copy.
    of_new = [(f"{name.replace('-slots2', '')}, {when}", run) for when, found in new["runs"].items() for name, run in found.items()
              if not name.endswith(("-slots3", "-slots4", "auto"))]
    return topic("Whole runs", ["gpu/runs-h200.json"], "scripts/gpu/suite.sh --profile measure",
                 f"{new['graph']}, `{new['options'].split(' --dropout')[0]}`; the raw file has all options. A rehearsal is a step on "
                 "zeros before the first batch.",
                 table(of_new, {"run": lambda row: row[0], "gather, ms": lambda row: number(row[1]["gather_us"] / 1e3),
                                "training, ms": lambda row: number(row[1]["train_us"] / 1e3),
                                "a batch every, ms": lambda row: number(row[1]["interval_us"] / 1e3),
                                "epochs, s": lambda row: ", ".join(map(number, row[1]["epoch_seconds"]))}))


def division():
    raw = load("gpu/training-h100.json")
    epochs = ", ".join(f"{name.replace('_', ' ')} {number(of['median'])}" for name, of in raw["epoch_time"].items() if isinstance(of, dict))
    counts = sorted(raw["shares"][0]["gb_per_second"], key=int)
    by_share = "; ".join(f"{row['percentage']} %: {', '.join(number(row['gb_per_second'][count]) for count in counts)}"
                         for row in (raw["shares"][0], raw["shares"][-1]))
    cached = "; ".join(f"{name.replace('_', ' ')} {', '.join(number(of[field] / 1e3) for field in ('sample_us', 'gather_us', 'train_us'))}"
                       for name, of in raw["caches"]["runs"].items())
    hits = raw["caches"]["runs"]["both"]["cache"]
    pairs = {name: figures for name, *figures in shared(load("gpu/probe-h100.json")["cells"])}

    def both(gathers, other, absent=None, computes=None):
        """What the process that gathers reaches next to one with the share `other`, and what the other reaches."""
        return (f"{number(pairs[f'{gathers} and {other}'][0])} GB/s and "
                f"{number(pairs[f'{absent or gathers} and {computes or other}'][1])} TFLOP/s")

    return topic("A GPU that two processes share", ["gpu/training-h100.json", "gpu/probe-h100.json"],
                 "scripts/gpu/suite.sh --profile measure, and a probe",
                 f"GB/s of gathers by a share of MPS, rows of {', '.join(counts)} bytes: {by_share}. Seconds of an epoch: {epochs}. "
                 f"Milliseconds a batch to sample, gather and train with caches of {raw['caches']['budget']}, whose hits are "
                 f"{percent(hits['row_hit_rate'])} of the rows and {percent(hits['list_hit_rate'])} of the lists: {cached}. One "
                 "process gathers, one computes: without MPS "
                 f"{both('no MPS', 'no MPS')}, alone {both('no MPS', 'absent', 'absent', 'no MPS')}; with MPS shares of 10 % and 90 % "
                 f"{both('10 %', '90 %')}, alone {both('10 %', 'absent', 'absent', '90 %')}.")


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


TOPICS = {"On a GPU": [machines, correctness, link, translation, regions, rows_of_a_gather, gathers, runs, division]}
