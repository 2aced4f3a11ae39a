"""What training gives and takes: accuracy, caches, orders, parts, ranks, faults."""
import statistics

from .markdown import load, machine, number, percent, size, table, topic


def mean(row):
    return f"{row['mean']:.2f} ± {row['stdev']:.2f}"


def accuracy():
    rows = load("accuracy.json")["rows"]
    graphs = list(dict.fromkeys(row["graph"] for row in rows))
    found = {}
    for row in rows:
        condition = next((row[name] for name in ("sampler", "features", "hops") if row.get(name)), "")
        kind = condition.split()[0].strip("-") if condition else ""
        # The hops of a model over hops are in the raw file.
        name = f"`{row['model']}`" if row.get("hops") or not kind else f"`{kind}`"
        reference = f" ({row['reference']:.2f})" if row["reference"] else ""
        model = f"{row['model']} " if kind and not row.get("hops") else ""
        found.setdefault(name, {})[row["graph"]] = f"{model}{mean(row)}{reference}"
    return topic("Accuracy of the built-in models", ["accuracy.json"], "scripts/measure/accuracy.py",
                 "Per cent, mean and standard deviation of five seeds, tested at the epoch with the best validation "
                 "(reference). Minesweeper: area under the ROC curve. The raw file has the options of each cell, such as "
                 "fanouts and hops.",
                 table(found, {"model, sampler or features": lambda name: name,
                               **{graph: lambda name, graph=graph: found[name].get(graph, "–") for graph in graphs}}))


def orders():
    raw, chunks, classes = load("orders.json"), load("chunk-effect.json"), load("planted.json")
    names = list(dict.fromkeys(name for of in raw.values() for name in of["orders"]))
    text, files = topic("Orders of seeds", ["orders.json"], "scripts/measure/orders.py", "Test accuracy in per cent, three seeds.",
                        table(raw, {"graph": lambda graph: graph,
                                    **{f"`{name}`": lambda graph, name=name: mean(raw[graph]["orders"][name]) for name in names}}))
    sizes = list(dict.fromkeys(row["chunk"] for row in chunks["rows"]))
    found = {(row["row_order"], row["chunk"]): row for row in chunks["rows"]}
    more = topic("Chunks of rows", ["chunk-effect.json"], "scripts/measure/chunk_effect.py",
                 f"`sign` on {chunks['graph']}, `{chunks['options']}`: test accuracy in per cent by `--chunk`. The training "
                 "nodes are sorted by class first.",
                 table(("shuffled", "file"), {"`--row-order`": lambda order: f"`{order}`",
                                              **{str(size): lambda order, size=size: mean(found[order, size]) for size in sizes}}),
                 f"Planted classes, `scripts/measure/planted.py` ([raw](../results/planted.json)): GraphSAGE "
                 f"{statistics.mean(classes['graphsage']):.2f} %, an MLP on the features alone "
                 f"{statistics.mean(classes['mlp']):.2f} %.")
    return f"{text}\n\n{more[0]}", [*files, *more[1], "planted.json"]


def rate(workload, policy, kind, at=10):
    """A policy's hit rate in per cent, in a cache of `at` per cent of the rows or of the lists' bytes."""
    for one in workload["policies"]:
        if one["policy"] == policy:
            for point in one["points"]:
                if point["size_percent"] == at and point.get(kind) is not None:
                    return f"{100 * point[kind]:.1f}"
    return "–"


def caches():
    raw = load("caches.json")
    graphs = {**raw["shapes"], **raw["real"]}
    policies = ("presample", "degree", "analytic", "random", "fifo", "optimal")
    over = {name: [one[f"over_{name}"] for one in raw["allocations"]] for name in ("best", "single")}
    plan = raw["planning"]

    def dependent(policy):
        return ", ".join(rate(row, policy, "row_hit_rate") for row in raw["dependency"])

    accuracies = ", ".join(f"{100 * statistics.mean(row['test_accuracy']):.1f}" for row in raw["dependency"])

    return topic("Caches", ["caches.json"], "scripts/measure/caches.py",
                 "Hit rates in per cent: of rows in a cache of 10 % of all rows, and of lists in one of 10 % of their bytes.",
                 table(graphs.items(), {"graph": lambda row: row[0], "training nodes": lambda row: number(row[1]["train_nodes"]),
                                        **{policy: lambda row, policy=policy: f"{rate(row[1], policy, 'row_hit_rate')}, "
                                                                              f"{rate(row[1], policy, 'list_hit_rate')}"
                                           for policy in policies}}),
                 f"A budget for lists and rows together, {len(raw['allocations'])} cases: bytes over the link are "
                 f"{number(min(over['best']))} to {number(max(over['best']))} of the best of eleven fixed divisions, and "
                 f"{number(min(over['single']))} to {number(max(over['single']))} of the better of a cache of lists alone and of "
                 f"rows alone. Planning for {plan['nodes']:,} nodes and {plan['edges']:,} edges takes {number(plan['plan_s'])} s, "
                 f"{number(plan['epochs_of_sampling'])} times an epoch's sampling, and {size(plan['peak_own_bytes'])}, "
                 f"{number(plan['adjacencies_of_memory'])} times the adjacency. "
                 f"With `--batch-dependency` of {', '.join(str(row['kappa']) for row in raw['dependency'])}, hit rates of rows in a "
                 f"cache of 10 %: fifo {dependent('fifo')}; presample {dependent('presample')}. Test accuracy: "
                 f"{accuracies}.")


def partitions():
    raw = {graph: of for graph, of in load("partitions.json").items() if isinstance(of, dict)}
    # The raw file has each method followed by passes of refinement as well.
    methods = [name for name in dict.fromkeys(name for of in raw.values() for name in of["methods"]) if "+" not in name]

    def of(graph):
        def cell(name):
            one = raw[graph]["methods"].get(name)
            return f"{percent(one['remote_lists'])}, {percent(one['remote_rows'])}" if one else "–"
        return cell

    cached = {}
    for row in load("part-caches.json"):
        cached.setdefault((row["graph"], row["parts"]), []).append(row)
    hits = "; ".join(f"{graph} ({parts} parts, {number(rows[0]['copies'])} copies of a node) "
                     + ", ".join(f"{100 * row['hit_rate_whole']:.1f} and {100 * row['hit_rate_parts']:.1f}" for row in rows)
                     for (graph, parts), rows in cached.items())
    shares = ", ".join(str(row["share_percent"]) for row in next(iter(cached.values())))
    ends = {}
    for run in load("parts-accuracy.json")["runs"]:
        ends.setdefault(run["data"], []).append(run["valid_accuracy_by_epoch"][-1])
    accuracies = "; ".join(f"{data} {statistics.mean(of):.2f} % ({min(of):.2f} to {max(of):.2f})" for data, of in ends.items())
    files = ["partitions.json", "part-caches.json", "parts-accuracy.json"]
    return topic("Partitions", files, "scripts/measure/partitions.py` and `part_caches.py",
                 "Share of list reads and of rows that a batch takes from the other three of four parts:",
                 table(methods, {"method": lambda name: name, **{graph: of(graph) for graph in raw}}),
                 f"Hit rates in per cent of caches of {shares} % of the rows, over the whole dataset and over a part: {hits}. "
                 f"Validation of `examples/python/ddp.py` after 20 epochs: {accuracies}.")


def first_layer():
    raw = load("first-layer.json")
    found = {}
    for row in raw["cells"]:
        found.setdefault(row["graph"], {})[row["model"]] = row

    def of(model):
        def cell(graph):
            row = found[graph][model]
            was, now = row["medians"]["sampled"], row["medians"]["given"]
            return (f"{number(was['epoch_s'])}, {number(now['epoch_s'])} s; {number(row['times_fewer_bytes'])}; "
                    f"{100 * was['test_accuracy']:.2f}, {100 * now['test_accuracy']:.2f} %; {number(row['propagate_s'])} s")
        return cell

    return topic("A first layer from a hop set", ["first-layer.json"], "scripts/measure/first_layer.py",
                 f"`train {raw['train']}`, sampled and with `--first-layer`: seconds an epoch; how many times fewer bytes; "
                 "test accuracy; and the seconds of `propagate`.",
                 table(found, {"graph": lambda graph: graph, "`sage`": of("sage"), "`gcn`": of("gcn")}))


def ddp():
    raw = load("ddp.json")
    words = {"plain": "batches already in memory", "uvatrain": "`uvatrain.Loader` over the whole dataset",
             "parts": "each on its part", "ranges": "ranges of rows, exchanged"}
    scaling = ", ".join(f"{words[name]} {number(of['2'])}" for name, of in raw["scaling"].items())
    one = load("exchange.json")
    exchanged = "; ".join(f"{percent(row['cache_share'], 0)}: {percent(row['remote'])} remote (at least {percent(row['least'])}), "
                          f"{number(row['bytes_per_second'] / 1e6)} MB/s ({percent(row['of_gloo'], 0)} of gloo's)"
                          for row in one["rows"])
    text, files = topic("DistributedDataParallel over two ranks", ["ddp.json"], "scripts/measure/ddp.py",
                        f"Fanouts {','.join(map(str, raw['fanouts']))}, batches of {raw['batch_size']}, hidden "
                        f"{raw['hidden']}, a core a rank. Times as fast as one rank: {scaling}. The loop waits for the loader "
                        f"for {percent(raw['waiting_share']['2'])} of the time; with ranges, the exchange takes "
                        f"{percent(raw['exchange_share'])}.",
                        f"Rows exchanged, `scripts/measure/exchange.py` ([raw](../results/exchange.json)) on "
                        f"{machine(one)}, {one['nodes']:,} nodes, rows of {4 * one['dim']} bytes, by the share of the rows that "
                        f"each rank caches: {exchanged}.")
    return text, [*files, "exchange.json"]


def standby():
    raw, again = load("standby.json"), load("recovery.json")
    words = {"alone": "without standby", "auto": "`--switch auto`", "throughout": "`--switch 0`"}
    found = ", ".join(f"{words[name]} {number(of)}" for name, of in raw["epoch_s"].items())
    simulated = ", ".join(f"{words[name]} {number(of)}" for name, of in raw["simulated_s"].items())
    of = again["median"]
    return topic("Standby trainers", ["standby.json", "recovery.json"], "scripts/measure/standby.py` and `recovery.py",
                 f"Two cores in place of two GPUs, fanouts {raw['fanouts']}, batches of {raw['batch_size']}, "
                 f"{raw['batches']} an epoch, `--batch-slots {raw['batch_slots']}`. Seconds an epoch: {found}; simulated: "
                 f"{simulated}. Of {again['ranks']} ranks that `torchrun` restarts after SIGKILL of one, the first batch is trained "
                 f"{number(of['recovery_s'])} s later, and {of['steps']} lost steps are repeated {number(of['replay_s'])} s "
                 "after that.")


def faults():
    fuzz, random, python, soak = map(load, ("fuzz.json", "random-faults.json", "python-faults.json", "soak.json"))
    files = ["fuzz.json", "random-faults.json", "python-faults.json", "soak.json"]
    steady = all(one[what][0] == one[what][1] for one in soak["processes"].values() for what in ("descriptors", "threads"))
    return topic("Runs with faults", files, "scripts/check/fuzz.sh`, `tests/integration/faults/`, `scripts/measure/soak.py",
                 f"{len(fuzz['targets'])} fuzzing targets ran {fuzz['seconds_each']} s each, "
                 f"{sum(one['inputs'] for one in fuzz['targets']):,} inputs; what was found is fixed. Roles were killed and stopped "
                 f"at random in {random['rounds']:,} runs of {random['batches']:,} batches: no process or file is left, and batches "
                 f"equal those of an undisturbed run. Of {python['rounds']:,} runs of the Python module, killed, forked or "
                 f"interrupted, {python['failed']} failed. In {soak['seconds'] // 60} minutes of training, {soak['batches']:,} "
                 f"batches, descriptors and threads of each process {'stay the same' if steady else 'change'}.")


TOPICS = {
    "Accuracy": [accuracy, orders],
    "Caches, parts, ranks, faults": [caches, partitions, first_layer, ddp, standby, faults],
}
