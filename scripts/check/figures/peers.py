"""Other libraries on the same machine. scripts/peers/compare.py --check FILE prints all tables of the comparison."""
import re
import statistics
import sys

from .markdown import ROOT, load, number, percent, table, topic

sys.path.append(str(ROOT / "scripts/peers"))
from report import SECTIONS, best_of  # noqa: E402

FILES = ["peers.json", "peers-epyc.json"]


def others():
    files = [load(name) for name in FILES]
    of = [{(cell["section"], cell["graph"], cell["cores"]): cell for cell in raw["cells"]} for raw in files]
    columns = [(graph, cores) for graph in ("small", "medium") for cores in (1, 2)]
    rows = []
    for section, (unit, _) in SECTIONS.items():
        cells = [[cells[section, *column] for cells in of if (section, *column) in cells] for column in columns]
        runtimes = dict.fromkeys(one["runtime"] for both in cells for cell in both for one in cell["contenders"])

        def figures(runtime, both):
            text = ", ".join(entry(best_of(cell, runtime)) for cell in both) or "–"
            ratios = ", ".join(f"{cell['beside_the_fastest']['times_as_fast']:.2f}" for cell in both)
            return f"{text} (**{ratios}**)" if ratios and runtime == "uvatrain" else text

        rows += [(f"{section}, {unit}: {runtime}", [figures(runtime, both) for both in cells]) for runtime in runtimes]
    losses, edges = {}, {}
    for raw in files:
        for cell in raw["cells"]:
            for runtime in ("uvatrain", "DGL", "GraphBolt", "PyG"):
                best = best_of(cell, runtime)
                if cell["section"] == "training":
                    losses.setdefault(runtime, set()).add(f"{best['rounds'][0]['losses'][-1]:.3f}")
                elif cell["section"] == "sampling":
                    edges.setdefault(runtime, {}).setdefault(cell["graph"], []).append(best["edges_a_batch"])
    versions = ", ".join(f"{key} {value}" for key, value in files[0]["versions"].items())
    graphs = "; ".join(f"*{key}* {of['nodes']:,} nodes, {of['edges']:,} edges" for key, of in sorted(files[0]["graphs"].items()))
    sizes = "; ".join(f"{runtime} " + ", ".join(f"{statistics.mean(of) / 1e3:.0f} k" for of in found.values())
                      for runtime, found in edges.items() if runtime in ("uvatrain", "PyG"))
    return topic("Other libraries", FILES, "scripts/peers/compare.sh",
                 f"{versions}. {graphs}. Each cell has the Xeon's figure and then the EPYC's, of a runtime's fastest way, "
                 "and in bold how many times as fast as the fastest other `uvatrain` is ([how they are "
                 "compared](../guide/peers.md)). Edges a batch on *small* and *medium*: "
                 f"{sizes}. Losses of the last epoch: "
                 f"{', '.join(f'{runtime} ' + ' and '.join(sorted(of)) for runtime, of in losses.items())}. "
                 "`python3 scripts/peers/compare.py --check FILE` prints the spreads, ways and losses.",
                 table(rows, {"": lambda row: row[0],
                              **{f"{graph}, {cores} core{'s' if cores > 1 else ''}": lambda row, place=place: row[1][place]
                                 for place, (graph, cores) in enumerate(columns)}}))


def entry(contender):
    """A star marks what other work disturbed in every round."""
    return number(contender["figure"]["median"]) + ("\\*" if contender["disturbed"] else "") if contender else "–"


def divided():
    raw = load("distributed-peers.json")
    graph = raw["graph"]
    fastest = {}
    for row in raw["found"]:
        kind = re.sub(r"(, )?(no|1) sampler process|own process|1 worker", "", f"{row['system']}, {row['way']}")
        if row["batches_per_second"] > fastest.get(kind, {"batches_per_second": 0})["batches_per_second"]:
            fastest[kind] = row
    return topic("Two ranks with divided features", ["distributed-peers.json"], "scripts/measure/distributed_peers.py",
                 f"{graph['kind']}, {graph['nodes']:,} nodes, {graph['edges']:,} edges, rows of {4 * graph['dim']} "
                 f"bytes, nodes assigned by `{graph['method']}`; fanouts {','.join(map(str, raw['fanouts']))}, "
                 f"batches of {raw['batch_size']}, {raw['batches_per_epoch']} an epoch over {raw['ranks']} ranks, "
                 f"each on {raw['cores_a_rank']} core. Of ways with and without a process that samples, the "
                 "faster is shown.",
                 table(fastest.values(), {"system": lambda row: f"{row['system']}, {row['way']}",
                                      "batches/s (slowest to fastest epoch)": epochs,
                                      "input nodes, edges a batch": lambda row: f"{number(row['input_nodes_per_batch'])}, "
                                                                                f"{number(row['edges_per_batch'])}",
                                      "features, MB/s": lambda row: number(row["feature_bytes_per_second"] / 1e6)}))


def epochs(row):
    rates = [one["batches"] / one["seconds"] for one in row["rounds"]]
    return f"{number(row['batches_per_second'])} ({number(min(rates))} to {number(max(rates))})"


def pyg():
    cells, raw = load("pyg.json")["cells"], load("pyg-oewn.json")
    graph = load("pyg.json")["graph"]
    loaders = list(dict.fromkeys(name.rsplit(", ", 1)[0] for name in cells))

    def of(threads):
        def cell(loader):
            one = cells[f"{loader}, {threads} threads"]
            return f"{number(one['epoch_s'])} ({number(one['waited_s'])}; {number(one['compute_alone_s'])})"
        return cell

    def accuracy(loader):
        one = raw["cells"].get(f"{loader}, 1 threads")
        return f"{percent(one['accuracy'], 2)} ({', '.join(f'{100 * seed:.2f}' for seed in one['accuracies'])})" if one else "–"

    return topic("PyG's loader under the same model", ["pyg.json", "pyg-oewn.json"], "scripts/measure/pyg.py",
                 f"GraphSAGE of PyG on the graph *{graph['name']}*, fanouts {','.join(map(str, graph['fanouts']))}, "
                 f"batches of {graph['batch_size']}, hidden {graph['hidden']}. Seconds an epoch (of it waiting; the model "
                 "alone). *Trimmed* layers omit nodes that the seeds no longer need.",
                 table(loaders, {"loader": lambda loader: loader, "1 thread": of(1), "2 threads": of(2),
                                 f"accuracy on {raw['graph']['name']} (seeds)": accuracy}))


def layers():
    runs = load("layers.json")["runs"]

    def seconds(place, ratio=None):
        def cell(run):
            text = number(list(run["median"]["epoch_s"].values())[place])
            return f"{text} ({number(run['median'][ratio])})" if ratio else text
        return cell

    return topic("Layers for PyTorch", ["layers.json"], "scripts/measure/layers.py",
                 "Seconds an epoch (times as fast as PyG).",
                 table(runs, {"layer, workers of PyG's loader": lambda run: f"{run['conditions']['layer']}, {run['conditions']['workers']}",
                              "PyG": seconds(0), "our loader": seconds(1, "times_as_fast_with_our_loader"),
                              "our loader and `uvatrain.nn`": seconds(2, "times_as_fast_with_our_layers_too")}))


def migration():
    raw = load("migration.json")

    def mean(of):
        return f"{100 * of['mean']:.2f} ± {100 * of['deviation']:.2f} %"

    pairs = ", ".join(f"`{name}` {mean(of['theirs'])} and {mean(of['ours'])}" for name, of in raw["pairs"].items())
    return topic("Accuracy of migrated scripts", ["migration.json"], "scripts/measure/migration.py",
                 f"{raw['graph']}, {raw['epochs']} epochs, three seeds; theirs and ours: {pairs}.")


def python_step():
    raw = load("python-step.json")

    def words(field):
        return f"{number(raw[field]['python'])} in Python, {number(raw[field]['rust'])} in Rust"

    return topic("A step from Python", ["python-step.json"], "crates/uva-py/benches/step_cost.py",
                 f"Microseconds a step that makes {raw['tensors']} tensors, where the batch is ready: {words('ready_us')}; in a "
                 f"loop: {words('loop_us')}. {raw['steps']:,} steps, Python {raw['python']}, torch {raw['torch']}.")


TOPICS = {"Comparison with other libraries": [others, divided, pyg, layers, migration, python_step]}
