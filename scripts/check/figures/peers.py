"""Other libraries on the same machine. scripts/peers/compare.py --check FILE prints all tables of the comparison."""
import re
import statistics
import sys

from .markdown import RESULTS, ROOT, load, number, percent, table, topic

sys.path.append(str(ROOT / "scripts/peers"))
from report import SECTIONS, TYPED, best_of, runtimes, title  # noqa: E402

FILES = ["peers.json", "peers-epyc.json"]


def has_types(cell):
    return cell["section"] in TYPED


#: Those with typed cells, which a run of those sections alone writes.
TYPED_FILES = [path.name for path in sorted(RESULTS.glob("peers*.json")) if any(map(has_types, load(path.name)["cells"]))]


def sizes(raw):
    return "; ".join(f"*{key}* {of['nodes']:,} nodes, {of['edges']:,} edges" for key, of in sorted(raw["graphs"].items()))


def others():
    files = [load(name) for name in FILES]
    found, losses, edges = {}, {}, {}
    for raw in files:
        for cell in raw["cells"]:
            if has_types(cell):
                continue
            found.setdefault((cell["section"], cell["graph"]), {}).setdefault(cell["cores"], []).append(cell)
            for runtime in ("uvatrain", "DGL", "GraphBolt", "PyG", "pyg-lib"):
                best = best_of(cell, runtime)
                if best is None:
                    continue
                if cell["section"] == "training":
                    losses.setdefault(runtime, set()).add(f"{best['rounds'][0]['losses'][-1]:.3f}")
                elif cell["section"] == "sampling":
                    edges.setdefault(runtime, {}).setdefault(cell["graph"], []).append(best["edges_a_batch"])

    def of(runtime):
        def cell(key):
            by_cores = [[entry(best_of(one, runtime)) for one in both] for _, both in sorted(found[key].items())]
            return "; ".join(map(", ".join, by_cores)) if set(by_cores[0]) != {"–"} else "–"
        return cell

    def ratios(key):
        return "; ".join(", ".join(f"{one['beside_the_fastest']['times_as_fast']:.2f}" for one in both)
                         for _, both in sorted(found[key].items()))

    versions = ", ".join(f"{key} {value}" for key, value in files[0]["versions"].items())
    graphs = sizes(files[0])
    batches = "; ".join(f"{runtime} " + ", ".join(f"{statistics.mean(of) / 1e3:.0f} k" for of in by.values())
                      for runtime, by in edges.items() if runtime in ("uvatrain", "pyg-lib"))
    return topic("Other libraries", FILES, "scripts/peers/compare.sh",
                 f"{versions}. {graphs}. Each cell has the figures of the Xeon and the EPYC on one core; then on two, of a "
                 "runtime's fastest way. *Times* is how many times as fast as the fastest other `uvatrain` is ([how they are "
                 f"compared](../guide/peers.md)). Edges a batch on *small* and *medium*: {batches}. Losses of the last epoch: "
                 f"{', '.join(f'{runtime} ' + ' and '.join(sorted(by)) for runtime, by in losses.items())}. "
                 "`python3 scripts/peers/compare.py --check FILE` prints spreads, ways and further runtimes.",
                 table(found, {"": lambda key: f"{key[0]}, {key[1]}: {SECTIONS[key[0]][0]}", "uvatrain": of("uvatrain"),
                               "times": ratios, **{name: of(name) for name in ("DGL", "GraphBolt", "PyG", "pyg-lib", "numpy", "torch", "memcpy")}}))


def entry(contender):
    """A star marks what other work disturbed in every round."""
    return number(contender["figure"]["median"]) + ("\\*" if contender["disturbed"] else "") if contender else "–"


def typed():
    files = [load(name) for name in TYPED_FILES]
    cells = [cell for raw in files for cell in raw["cells"] if has_types(cell)]
    names = list(dict.fromkeys(name for cell in cells for name in runtimes(cell)))

    def of(runtime):
        def column(cell):
            ratio = cell["ratios"].get(runtime)
            return entry(best_of(cell, runtime)) + (f" ({ratio['times_as_fast']:.2f})" if ratio else "")
        return column

    versions = ", ".join(f"{key} {value}" for raw in files[:1] for key, value in raw["versions"].items())
    graphs = sizes(files[0])
    left_out = " ".join(f"{peer} is left out, because {why}." for raw in files for peer, why in raw["left_out"].items())
    return topic("Typed graphs of other libraries", TYPED_FILES, "scripts/peers/compare.sh",
                 f"{versions}. {graphs}. In brackets is how many times as fast `uvatrain` is ([how they are "
                 f"compared](../guide/peers.md#typed-graphs)). {left_out}",
                 table(cells, {"": lambda cell: f"{cell['section']}, {title(cell)}, {cell['cores']} "
                                                f"core{'s' if cell['cores'] > 1 else ''}: {SECTIONS[cell['section']][0]}",
                               **{name: of(name) for name in names}}))


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

    def words(run):
        of = run["median"]
        theirs, loader, both = map(number, of["epoch_s"].values())
        return (f"{run['conditions']['layer']}, {run['conditions']['workers']} workers: {theirs}, "
                f"{loader} ({number(of['times_as_fast_with_our_loader'])}), {both} ({number(of['times_as_fast_with_our_layers_too'])})")

    return topic("Layers for PyTorch", ["layers.json"], "scripts/measure/layers.py",
                 "Seconds an epoch with PyG, with our loader, and with our loader and `uvatrain.nn` (times as fast as PyG), by layer "
                 f"and workers of PyG's loader: {'; '.join(map(words, runs))}.")


def migration():
    raw = load("migration.json")

    def mean(of):
        return f"{100 * of['mean']:.2f} ± {100 * of['deviation']:.2f} %"

    pairs = ", ".join(f"`{name}` {mean(of['theirs'])} and {mean(of['ours'])}" for name, of in raw["pairs"].items())
    return topic("Accuracy of migrated scripts", ["migration.json"], "scripts/measure/migration.py",
                 f"{raw['graph']}, {raw['epochs']} epochs, three seeds; theirs and ours: {pairs}.")


TOPICS = {"Comparison with other libraries": [others, *[typed] * bool(TYPED_FILES), divided, pyg, layers, migration]}
