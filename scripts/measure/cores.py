#!/usr/bin/env python3
"""Shows how near `train --cores auto` comes to the best division of the cores, on four graphs.

    scripts/measure/cores.py [--binary target/release/uvatrain] [--rounds 5] [--most 2] [--kept 0/0/1 …]
                             [--out docs/results/cores.json]

Each graph is trained with `--cores auto`, with the usual numbers of threads, and with every division of 1 to `--most`
samplers, gather threads and training threads, in turn, as often as there are rounds; each round begins with another one. So
does each list of `--kept`, whose stages are kept on cores of their own.

It prints the medians of milliseconds a batch: as predicted, of the division that `auto` chose (the slowest, if it chose several),
as usual, and of the best division. After them come the times of `auto` and of the usual numbers over the best one's. Runs with
equal numbers of threads are one division, whatever chose them: their times count together. The trial is not counted, but reported
separately, in seconds. The graphs are generated into a temporary folder, or once into `--data`. Needs only Python.
"""
import argparse
import itertools
import json
import statistics
import tempfile
import time
from pathlib import Path

from aggregate_choice import GRAPHS, ROOT, graph, run
from watched import machine

NAMES = ["--samplers", "--gather-threads", "--train-threads"]


def trained(binary, data, options, batches, more, metrics):
    """Milliseconds a batch, the division of the cores, what a trial found, and the seconds before the training."""
    # 8 bytes a node, after a header of 128 at most.
    nodes = (data / "train_idx.npy").stat().st_size // 8 - 16
    in_epoch = max(1, nodes // int(options.split()[-1]))
    epochs = ["--epochs", str(-(-batches // in_epoch)), "--aggregate", "off", "--device", "cpu"]
    began = time.monotonic()
    run([binary, "train", data, *options.split(), *epochs, *more, "--metrics", metrics])
    seconds = time.monotonic() - began
    lines = [json.loads(line) for line in metrics.read_text().splitlines()]
    in_force = lines[0]["in_force"]
    threads = [in_force[name] for name in ("samplers", "gather_threads", "train_threads")]
    found = in_force.get("cores")
    division = " ".join(map(str, threads)) + (f", kept on {more[1]}" if "/" in "".join(more[1:2]) else "")
    division += ", kept apart" if found and found["kept_on"] else ""
    return 1e3 / lines[-1]["batches_per_second"], division, found, seconds - lines[-1]["seconds"]


def measure(binary, data, options, batches, rounds, most, kept, folder):
    ways = {"auto": ["--cores", "auto"], "usual": []}
    for division in itertools.product(range(1, most + 1), repeat=3):
        ways[" ".join(map(str, division))] = [str(word) for pair in zip(NAMES, division) for word in pair]
    ways |= {cores: ["--cores", cores] for cores in kept}
    times, divisions, choices, before = {}, {}, [], []
    names = list(ways)
    for number in range(rounds):
        first = number * len(names) // rounds
        for way in names[first:] + names[:first]:
            ms, division, found, seconds = trained(binary, data, options, batches, ways[way], folder / "run.jsonl")
            times.setdefault(division, []).append(ms)
            divisions.setdefault(way, []).append(division)
            if way == "auto":
                choices.append(found)
                before.append(seconds)
    medians = {division: statistics.median(of) for division, of in times.items()}
    best = min(medians, key=medians.get)

    def slowest(way):
        """A way may have had another division in each round."""
        return max(divisions[way], key=medians.get)

    return {
        "options": options,
        "ms": times,
        "medians": medians,
        "best": best,
        "chosen": divisions["auto"],
        "auto_ms": medians[slowest("auto")],
        "usual_ms": medians[slowest("usual")],
        "auto_over_best": round(medians[slowest("auto")] / medians[best], 3),
        "usual_over_best": round(medians[slowest("usual")] / medians[best], 3),
        "trial_seconds": round(statistics.median(before), 2),
        "choices": choices,
    }


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--binary", type=Path, default=ROOT / "target/release/uvatrain")
    arguments.add_argument("--data", type=Path, help="a folder that keeps the graphs")
    arguments.add_argument("--graphs", nargs="+", choices=list(GRAPHS), default=list(GRAPHS))
    arguments.add_argument("--batches", type=int, default=300, help="training batches of a run, at least")
    arguments.add_argument("--rounds", type=int, default=5)
    arguments.add_argument("--most", type=int, default=2, help="threads of a stage at most")
    arguments.add_argument("--kept", nargs="*", default=[], metavar="LIST/LIST/LIST", help="cores of each stage")
    arguments.add_argument("--out", type=Path)
    chosen = arguments.parse_args()
    found = {}
    print(f"{'graph':10} {'predicted':>9} {'auto':>8} {'usual':>8} {'best':>8}  auto/best usual/best  chosen; best")
    with tempfile.TemporaryDirectory() as temporary:
        for name in chosen.graphs:
            generated, options = GRAPHS[name]
            data = graph(chosen.binary, name, chosen.data or Path(temporary))
            folder = Path(temporary)
            result = measure(chosen.binary, data, options, chosen.batches, chosen.rounds, chosen.most, chosen.kept, folder)
            found[name] = {"graph": generated, **result}
            predicted = statistics.median(choice["batch_ms"] for choice in result["choices"])
            print(
                f"{name:10} {predicted:9.1f} {result['auto_ms']:8.1f} {result['usual_ms']:8.1f} "
                f"{result['medians'][result['best']]:8.1f}  {result['auto_over_best']:9.3f} {result['usual_over_best']:10.3f}  "
                f"{'; '.join(sorted(set(result['chosen'])))}; best {result['best']}",
                flush=True,
            )
            if chosen.out:
                chosen.out.write_text(json.dumps({"machine": machine(), "graphs": found}, indent=1) + "\n")


if __name__ == "__main__":
    main()
