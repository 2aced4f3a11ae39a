"""Other libraries on the same machine. scripts/peers/report.py makes the tables that compare.py prints and checks."""
import sys

from .markdown import ROOT, load, number, percent, table, topic

sys.path.append(str(ROOT / "scripts/peers"))
from report import markdown, ratios  # noqa: E402

FILES = ["peers.json", "peers-epyc.json"]


def summary():
    columns = [f"{graph}, {cores} core{'s' if cores > 1 else ''}" for graph in ("small", "medium") for cores in (1, 2)]
    lines = ["| | " + " | ".join(columns) + " |", "|---" * 5 + "|"]
    for name in FILES:
        lines += ratios(load(name))
    return topic("Other libraries", FILES, "scripts/peers/compare.sh",
                 "How many times as fast `uvatrain` is as the fastest of DGL, GraphBolt, PyG, numpy and torch, which "
                 "the table "
                 "names. [How they are compared](../guide/peers.md).", "\n".join(lines))


def one(name):
    raw = load(name)
    versions = ", ".join(f"{key} {value}" for key, value in raw["versions"].items())
    parameters = ", ".join(f"{key.replace('_', ' ')} {words(value)}" for key, value in raw["parameters"].items())
    graphs = "; ".join(f"*{key}* {of['nodes']:,} nodes, {of['edges']:,} edges" for key, of in sorted(raw["graphs"].items()))
    cpu = raw["machine"]["cpu"].replace("(R)", "")
    return topic(f"Compared on {cpu}", [name], "scripts/peers/compare.sh",
                 f"{versions}. {graphs}. Parameters: {parameters}. A figure is the median of its rounds, with the "
                 "lowest and the "
                 "highest; a star marks one that other work disturbed in every round.", markdown(raw))


def words(value):
    return ",".join(map(str, value)) if isinstance(value, list) else value


def divided():
    raw = load("distributed-peers.json")
    graph = raw["graph"]
    return topic("Two ranks with divided features", ["distributed-peers.json"], "scripts/measure/distributed_peers.py",
                 f"{graph['kind']}, {graph['nodes']:,} nodes, {graph['edges']:,} edges, rows of {4 * graph['dim']} "
                 f"bytes, nodes assigned by `{graph['method']}`; fanouts {','.join(map(str, raw['fanouts']))}, "
                 f"batches of {raw['batch_size']}, {raw['batches_per_epoch']} an epoch over {raw['ranks']} ranks, "
                 f"each on {raw['cores_a_rank']} core. {versions_of(raw)}.",
                 table(raw["found"], {"system": lambda row: f"{row['system']}, {row['way']}",
                                      "batches/s": lambda row: number(row["batches_per_second"]),
                                      "slowest and fastest epoch": epochs,
                                      "input nodes a batch": lambda row: number(row["input_nodes_per_batch"]),
                                      "edges a batch": lambda row: number(row["edges_per_batch"]),
                                      "features, MB/s": lambda row: number(row["feature_bytes_per_second"] / 1e6)}))


def versions_of(raw):
    return "; ".join(f"{system}: " + ", ".join(f"{name} {value}" for name, value in of.items())
                     for system, of in raw["versions"].items())


def epochs(row):
    rates = [one["batches"] / one["seconds"] for one in row["rounds"]]
    return f"{number(min(rates))} to {number(max(rates))}"


def pyg():
    cells = load("pyg.json")["cells"]
    graph = load("pyg.json")["graph"]
    return topic("PyG's loader under the same model", ["pyg.json"], "scripts/measure/pyg.py",
                 f"GraphSAGE of PyG on the graph *{graph['name']}*, fanouts {','.join(map(str, graph['fanouts']))}, "
                 f"batches of {graph['batch_size']}, hidden {graph['hidden']}. *Trimmed* layers omit nodes that "
                 "the seeds no longer need.",
                 table(cells.items(), {"loader, training threads": lambda row: row[0],
                                       "epoch, s": lambda row: number(row[1]["epoch_s"]),
                                       "of it waiting, s": lambda row: number(row[1]["waited_s"]),
                                       "model alone, s": lambda row: number(row[1]["compute_alone_s"])}))


def pyg_accuracy():
    raw = load("pyg-oewn.json")
    return topic("Accuracy under PyG's loader and ours", ["pyg-oewn.json"], "scripts/measure/pyg.py",
                 f"The same on {raw['graph']['name']}. Other work ran meanwhile, so times of this file are not shown.",
                 table(raw["cells"].items(), {"loader": lambda row: row[0],
                                              "test accuracy": lambda row: percent(row[1]["accuracy"], 2),
                                              "seeds": lambda row: ", ".join(percent(one, 2) for one in row[1]["accuracies"])}))


def layers():
    runs = load("layers.json")["runs"]

    def conditions(run):
        of = run["conditions"]
        return f"{of['layer']}, {of['workers']} workers, `{of['peer']}`"

    def seconds(place):
        return lambda run: number(list(run["median"]["epoch_s"].values())[place])

    return topic("Layers for PyTorch", ["layers.json"], "scripts/measure/layers.py",
                 "Seconds an epoch, medians. The third has `uvatrain.nn` in place of PyG's layers.",
                 table(runs, {"layer": conditions, "PyG": seconds(0), "our loader": seconds(1),
                              "our loader and layers": seconds(2),
                              "times as fast with the loader": lambda run: number(run["median"]["times_as_fast_with_our_loader"]),
                              "with both": lambda run: number(run["median"]["times_as_fast_with_our_layers_too"])}))


def migration():
    raw = load("migration.json")

    def mean(side):
        return lambda row: f"{percent(row[1][side]['mean'], 2)} ± {percent(row[1][side]['deviation'], 2)}"

    return topic("Accuracy of migrated scripts", ["migration.json"], "scripts/measure/migration.py",
                 f"{raw['graph']}, {raw['epochs']} epochs, three seeds. {versions_of(raw)}.",
                 table(raw["pairs"].items(), {"script": lambda row: row[0], "theirs": mean("theirs"), "ours": mean("ours")}))


def python_step():
    raw = load("python-step.json")
    return topic("A step from Python", ["python-step.json"], "crates/uva-py/benches/step_cost.py",
                 f"Microseconds a step that makes {raw['tensors']} tensors, {raw['steps']:,} steps; Python "
                 f"{raw['python']}, torch {raw['torch']}.",
                 table(("ready_us", "loop_us"), {"": lambda row: {"ready_us": "the batch is ready",
                                                 "loop_us": "in a loop"}[row],
                                                 "Python": lambda row: number(raw[row]["python"]),
                                                 "Rust": lambda row: number(raw[row]["rust"]),
                                                 "difference": lambda row: number(raw[row]["difference"])}))


TOPICS = {"Comparison with other libraries": [summary, *(lambda name=name: one(name) for name in FILES), divided, pyg, pyg_accuracy,
                                     layers, migration, python_step]}
