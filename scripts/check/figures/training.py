"""What training gives and takes: accuracy, caches, orders, parts, ranks."""
import statistics

from .markdown import load, machine, number, percent, size, table, topic


def mean(row):
    return f"{row['mean']:.2f} ± {row['stdev']:.2f}"


def accuracy():
    rows = load("accuracy.json")["rows"]
    # A model over hops reads hops under this name; the raw file has which.
    plain = [row for row in rows if row.get("hops") or not (row.get("sampler") or row.get("features"))]
    graphs = list(dict.fromkeys(row["graph"] for row in plain))
    found, others = {}, {}

    def shown(row):
        return mean(row) + (f" ({row['reference']:.2f})" if row["reference"] else "")

    for row in plain:
        found.setdefault(row["model"], {})[row["graph"]] = shown(row)
    for row in rows:
        if row not in plain:
            kind = next(row[name] for name in ("sampler", "features") if row.get(name)).split()[0].strip("-")
            others.setdefault(f"`{row['model']}` on {row['graph']}", []).append(f"`{kind}` {shown(row)}")
    return topic("Accuracy of the built-in models", ["accuracy.json"], "scripts/measure/accuracy.py",
                 "Per cent, mean and standard deviation of five seeds, tested at the epoch with the best validation "
                 "(reference). Minesweeper: area under the ROC curve. The raw file has the options, such as fanouts and hops.",
                 table(found, {"model": lambda model: f"`{model}`",
                               **{graph: lambda model, graph=graph: found[model].get(graph, "–") for graph in graphs}}),
                 "With a kind of sampler or features of float8 (reference, or the same with `neighbor` or float32): "
                 f"{'. '.join(f'{where}: ' + ', '.join(of) for where, of in others.items())}.")


def orders():
    raw, chunks = load("orders.json"), load("chunk-effect.json")
    names = list(dict.fromkeys(name for of in raw.values() for name in of["orders"]))
    text, files = topic("Orders of seeds", ["orders.json"], "scripts/measure/orders.py", "Test accuracy in per cent, three seeds.",
                        table(raw, {"graph": lambda graph: graph,
                                    **{f"`{name}`": lambda graph, name=name: mean(raw[graph]["orders"][name]) for name in names}}))
    sizes = list(dict.fromkeys(row["chunk"] for row in chunks["rows"]))
    found = {(row["row_order"], row["chunk"]): row for row in chunks["rows"]}
    by = "; ".join(f"`--row-order {order}` {', '.join(mean(found[order, size]) for size in sizes)}" for order in ("shuffled", "file"))
    more = topic("Chunks of rows", ["chunk-effect.json"], "scripts/measure/chunk_effect.py",
                 f"`sign` on {chunks['graph']}, `{chunks['options']}`, with the training nodes sorted by class first: test accuracy "
                 f"in per cent with `--chunk` {', '.join(map(str, sizes))}: {by}.")
    return f"{text}\n\n{more[0]}", [*files, *more[1]]


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
    graphs = {name: of for name, of in {**raw["shapes"], **raw["real"]}.items() if of["train_nodes"] > 9000}
    policies = ("presample", "degree", "analytic", "random", "fifo", "optimal")
    over = {name: [one[f"over_{name}"] for one in raw["allocations"]] for name in ("best", "single")}
    plan = raw["planning"]

    def dependent(policy):
        return ", ".join(rate(row, policy, "row_hit_rate") for row in raw["dependency"])

    accuracies = ", ".join(f"{100 * statistics.mean(row['test_accuracy']):.1f}" for row in raw["dependency"])

    return topic("Caches", ["caches.json"], "scripts/measure/caches.py",
                 "Hit rates in per cent: of rows in a cache of 10 % of all rows, and of lists in one of 10 % of their bytes. The "
                 "raw file also has smaller graphs.",
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

    ends = {}
    for run in load("parts-accuracy.json")["runs"]:
        ends.setdefault(run["data"], []).append(run["valid_accuracy_by_epoch"][-1])
    accuracies = "; ".join(f"{data} {statistics.mean(of):.2f} % ({min(of):.2f} to {max(of):.2f})" for data, of in ends.items())
    return topic("Partitions", ["partitions.json", "parts-accuracy.json"], "scripts/measure/partitions.py",
                 "Share of list reads and of rows that a batch takes from the other three of four parts:",
                 table(methods, {"method": lambda name: name, **{graph: of(graph) for graph in raw}}),
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


TOPICS = {
    "Accuracy": [accuracy, orders],
    "Caches, parts, ranks": [caches, partitions, first_layer, ddp],
}
