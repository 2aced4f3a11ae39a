"""What training gives and takes: accuracy, caches, orders, parts, ranks, faults."""
import statistics

from .markdown import load, number, percent, size, table, topic


def accuracy():
    rows = load("accuracy.json")["rows"]

    def condition(row):
        found = [row.get("sampler"), row.get("features"), row.get("hops")]
        return ", ".join(f"`{one}`" for one in found if one)

    return topic("Accuracy of the built-in models", ["accuracy.json"], "scripts/measure/accuracy.py",
                 "Mean and standard deviation of five seeds, tested at the epoch with the best validation. "
                 "Minesweeper: area under the ROC curve. The raw file has the options of each row.",
                 table(rows, {"graph": lambda row: row["graph"], "model": lambda row: row["model"],
                              "sampler, features or hops": condition,
                              "test, %": lambda row: f"{row['mean']:.2f} ± {row['stdev']:.2f}",
                              "reference, %": lambda row: f"{row['reference']:.2f}" if row["reference"] else "–"}))


def planted():
    raw = load("planted.json")
    return topic("Planted classes", ["planted.json"], "scripts/measure/planted.py",
                 f"`train {raw['options']}`: GraphSAGE {statistics.mean(raw['graphsage']):.2f} %, an MLP on the "
                 f"features alone {statistics.mean(raw['mlp']):.2f} %, {raw['points_between']} points between them.")


def chunks():
    raw = load("chunk-effect.json")
    sizes = list(dict.fromkeys(row["chunk"] for row in raw["rows"]))
    found = {(row["row_order"], row["chunk"]): row for row in raw["rows"]}

    def of(order):
        return lambda chunk: f"{found[order, chunk]['mean']:.2f} ± {found[order, chunk]['stdev']:.2f}"

    return topic("Chunks of rows", ["chunk-effect.json"], "scripts/measure/chunk_effect.py",
                 f"`sign` on {raw['graph']}, `{raw['options']}`: test accuracy in per cent. The training nodes are "
                 "sorted by class first.",
                 table(sizes, {"`--chunk`": lambda chunk: chunk,
                               **{f"`--row-order {order}`": of(order) for order in ("shuffled", "file")}}))


def orders():
    raw = load("orders.json")
    names = list(dict.fromkeys(name for of in raw.values() for name in of["orders"]))

    def of(graph):
        def cell(name):
            one = raw[graph]["orders"].get(name)
            return f"{one['mean']:.2f} ± {one['stdev']:.2f}" if one else "–"
        return cell

    return topic("Orders of seeds", ["orders.json"], "scripts/measure/orders.py", "Test accuracy in per cent, three seeds.",
                 table(names, {"`--seed-order`": lambda name: f"`{name}`", **{graph: of(graph) for graph in raw}}))


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
    blocks = []
    for kind, what, of in (("row_hit_rate", "rows", "of all rows"), ("list_hit_rate", "lists", "of the bytes of all lists")):
        policies = [policy for policy in ("presample", "degree", "analytic", "random", "fifo", "optimal")
                    if any(rate(graph, policy, kind) != "–" for graph in graphs.values())]
        blocks += [f"Hit rate of {what} in per cent, in a cache of 10 % {of}:",
                   table(graphs.items(), {"graph": lambda row: row[0],
                                          "training nodes": lambda row: number(row[1]["train_nodes"]),
                                          **{policy: lambda row, policy=policy, kind=kind: rate(row[1], policy, kind)
                                             for policy in policies}})]
    blocks += ["A budget for lists and rows together. Cost is bytes over the link, to the best of eleven fixed divisions and to the "
               "better of a cache of lists alone and of rows alone:",
               table(raw["allocations"], {"shape": lambda row: row["kind"],
                                          "row": lambda row: f"{4 * row['feature_dim']} bytes",
                                          "fanouts": lambda row: row["fanouts"],
                                          "budget": lambda row: size(row["budget_bytes"]),
                                          "lists": lambda row: number(row["lists"]),
                                          "rows": lambda row: number(row["rows"]),
                                          "to the best of 11": lambda row: number(row["over_best"]),
                                          "to the better single": lambda row: number(row["over_single"])})]
    blocks += ["`--batch-dependency κ`: hit rates of rows in per cent, and test accuracy:",
               table(raw["dependency"], {"κ": lambda row: row["kappa"],
                                         **{f"{policy}, {at} %": lambda row, policy=policy, at=at: rate(row, policy, "row_hit_rate", at)
                                            for policy in ("fifo", "presample") for at in (5, 10, 20)},
                                         "accuracy": lambda row: percent(statistics.mean(row["test_accuracy"]))})]
    plan = raw["planning"]
    blocks += [f"Planning for {plan['nodes']:,} nodes and {plan['edges']:,} edges takes {number(plan['plan_s'])} s, "
               f"{number(plan['epochs_of_sampling'])} times an epoch's sampling, and {size(plan['peak_own_bytes'])}, "
               f"{number(plan['adjacencies_of_memory'])} times the adjacency."]
    return topic("Caches", ["caches.json"], "scripts/measure/caches.py", *blocks)


def part_caches():
    rows = load("part-caches.json")
    return topic("Caches of parts", ["part-caches.json"], "scripts/measure/part_caches.py",
                 table(rows, {"graph": lambda row: row["graph"], "parts": lambda row: row["parts"],
                              "copies of a node": lambda row: number(row["copies"]),
                              "cache, % of rows": lambda row: row["share_percent"],
                              "hit rate, whole dataset": lambda row: percent(row["hit_rate_whole"]),
                              "own part": lambda row: percent(row["hit_rate_parts"])}))


def partitions():
    raw = {graph: of for graph, of in load("partitions.json").items() if isinstance(of, dict)}
    methods = list(dict.fromkeys(name for of in raw.values() for name in of["methods"]))

    def of(graph):
        def cell(name):
            one = raw[graph]["methods"].get(name)
            return f"{percent(one['remote_lists'])}, {percent(one['remote_rows'])}" if one else "–"
        return cell

    return topic("Partitions", ["partitions.json"], "scripts/measure/partitions.py",
                 "Four parts: share of list reads and of rows that a batch takes from other parts.",
                 table(methods, {"method": lambda name: name, **{graph: of(graph) for graph in raw}}))


def parts_accuracy():
    raw = load("parts-accuracy.json")
    found = {}
    for run in raw["runs"]:
        found.setdefault(run["data"], []).append(run["valid_accuracy_by_epoch"][-1])
    return topic("Accuracy on parts", ["parts-accuracy.json"], raw["command"],
                 table(found.items(), {"dataset": lambda row: row[0],
                                       "validation after the last epoch, %": lambda row: f"{statistics.mean(row[1]):.2f}",
                                       "seeds": lambda row: ", ".join(f"{one:.2f}" for one in row[1])}))


def first_layer():
    raw = load("first-layer.json")
    return topic("A first layer from a hop set", ["first-layer.json"], "scripts/measure/first_layer.py",
                 f"`train {raw['train']}`: seconds an epoch.",
                 table(raw["cells"], {"graph": lambda row: row["graph"], "model": lambda row: row["model"],
                                      "sampled": lambda row: number(row["medians"]["sampled"]["epoch_s"]),
                                      "`--first-layer`": lambda row: number(row["medians"]["given"]["epoch_s"]),
                                      "times as fast": lambda row: number(row["times_as_fast"]),
                                      "times fewer bytes": lambda row: number(row["times_fewer_bytes"]),
                                      "accuracy, %": lambda row: f"{100 * row['medians']['sampled']['test_accuracy']:.2f}, "
                                                                 f"{100 * row['medians']['given']['test_accuracy']:.2f}",
                                      "`propagate`, s": lambda row: number(row["propagate_s"])}))


def ddp():
    raw = load("ddp.json")
    words = {"plain": "batches already in memory", "uvatrain": "`uvatrain.Loader`, the whole dataset",
             "parts": "each on its part",
             "ranges": "ranges of rows, exchanged"}
    return topic("DistributedDataParallel over two ranks", ["ddp.json"], "scripts/measure/ddp.py",
                 f"Fanouts {','.join(map(str, raw['fanouts']))}, batches of {raw['batch_size']}, hidden "
                 f"{raw['hidden']}, a core a rank. The loop waits for the loader for "
                 f"{percent(raw['waiting_share']['2'])} of the time; with ranges, the exchange takes "
                 f"{percent(raw['exchange_share'])}.",
                 table(raw["scaling"].items(), {"two ranks": lambda row: words[row[0]],
                                                "times as fast as one": lambda row: number(row[1]["2"])}))


def exchange():
    raw = load("exchange.json")
    return topic("Rows exchanged between ranks", ["exchange.json"], "scripts/measure/exchange.py",
                 f"{raw['ranks']} ranks, {raw['nodes']:,} nodes, rows of {4 * raw['dim']} bytes.",
                 table(raw["rows"], {"cached rows": lambda row: percent(row["cache_share"], 0),
                                     "remote rows": lambda row: percent(row["remote"]),
                                     "the least possible": lambda row: percent(row["least"]),
                                     "MB/s": lambda row: number(row["bytes_per_second"] / 1e6),
                                     "of gloo's": lambda row: percent(row["of_gloo"], 0)}))


def standby():
    raw = load("standby.json")
    return topic("Standby trainers", ["standby.json"], "scripts/measure/standby.py",
                 f"Two cores in place of two GPUs, fanouts {raw['fanouts']}, batches of {raw['batch_size']}, "
                 f"{raw['batches']} an epoch, `--batch-slots {raw['batch_slots']}`. Seconds an epoch.",
                 table(raw["epoch_s"].items(), {"ranks that stand by": lambda row: {"alone": "none",
                                                "auto": "`--switch auto`",
                                                                                    "throughout": "`--switch 0`"}[row[0]],
                                                "measured": lambda row: number(row[1]),
                                                "simulated": lambda row: number(raw["simulated_s"].get(row[0]))}))


def recovery():
    raw = load("recovery.json")
    of = raw["median"]
    return topic("Recovery of a rank", ["recovery.json"], "scripts/measure/recovery.py",
                 f"{raw['ranks']} ranks: {number(of['recovery_s'])} s until they train on, of which "
                 f"{number(of['replay_s'])} s repeat {of['steps']} steps (medians of {len(raw['rounds'])}).")


def faults():
    fuzz, random, python, soak = map(load, ("fuzz.json", "random-faults.json", "python-faults.json", "soak.json"))
    files = ["fuzz.json", "random-faults.json", "python-faults.json", "soak.json"]
    steady = all(one[what][0] == one[what][1] for one in soak["processes"].values() for what in ("descriptors", "threads"))
    counts = [
        (f"fuzzing, {len(fuzz['targets'])} targets", f"{sum(one['inputs'] for one in fuzz['targets']):,} inputs",
         f"{fuzz['seconds_each']} s each; what was found is fixed"),
        ("roles killed and stopped at random", f"{random['rounds']:,} runs, {random['batches']:,} batches",
         "no process or file left; batches equal those of an undisturbed run"),
        ("the Python module, killed, forked, interrupted", f"{python['rounds']:,} runs", f"{python['failed']} failed"),
        (f"{soak['seconds'] // 60} minutes of training", f"{soak['batches']:,} batches",
         f"descriptors and threads of each process {'stay the same' if steady else 'change'}"),
    ]
    return topic("Runs with faults", files, "scripts/check/fuzz.sh`, `tests/integration/faults/`, `scripts/measure/soak.py",
                 table(counts, {"test": lambda row: row[0], "extent": lambda row: row[1],
                                "result": lambda row: row[2]}))


TOPICS = {
    "Accuracy": [accuracy, planted, chunks, orders],
    "Caches, parts, ranks": [caches, part_caches, partitions, parts_accuracy, first_layer, ddp, exchange, standby, recovery],
    "Faults": [faults],
}
