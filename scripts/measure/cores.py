#!/usr/bin/env python3
"""Shows how near `train --cores auto` comes to the best division of the cores, on four graphs.

    scripts/measure/cores.py [--binary target/release/uvatrain] [--rounds 5] [--most 2] [--out cores.json]

Each graph is trained with `--cores auto`, with the usual numbers of threads, and with every division of 1 to `--most`
samplers, gather threads and training threads, in turn, as often as there are rounds; each round begins with another one.
It prints the medians of milliseconds a batch: as predicted, as `auto` came out, as usual, and of the best division; and how
many times the best one's time `auto` and the usual numbers take. The trial is not counted: it is told apart, in seconds. The
graphs are generated into a temporary folder, or once into `--data`. Needs nothing but Python.
"""
import argparse
import itertools
import json
import statistics
import tempfile
import time
from pathlib import Path

from aggregate_choice import GRAPHS, ROOT, graph, run

STAGES = ["sampling", "gathering", "training"]
NAMES = ["--samplers", "--gather-threads", "--train-threads"]


def trained(binary, data, options, batches, more, metrics):
    """Milliseconds a batch, how the cores were divided, and the seconds of the whole command."""
    # 8 bytes a node, behind a header of 128 at most.
    nodes = (data / "train_idx.npy").stat().st_size // 8 - 16
    in_epoch = max(1, nodes // int(options.split()[-1]))
    epochs = ["--epochs", str(-(-batches // in_epoch)), "--aggregate", "off", "--device", "cpu"]
    began = time.monotonic()
    run([binary, "train", data, *options.split(), *epochs, *more, "--metrics", metrics])
    seconds = time.monotonic() - began
    lines = [json.loads(line) for line in metrics.read_text().splitlines()]
    return 1e3 / lines[-1]["batches_per_second"], lines[0]["in_force"].get("cores"), seconds - lines[-1]["seconds"]


def measure(binary, data, options, batches, rounds, most, folder):
    divisions = list(itertools.product(range(1, most + 1), repeat=3))
    ways = {"auto": ["--cores", "auto"], "usual": []}
    for division in divisions:
        ways[" ".join(map(str, division))] = [str(word) for pair in zip(NAMES, division) for word in pair]
    times, choices, before = {way: [] for way in ways}, [], []
    names = list(ways)
    for number in range(rounds):
        first = number * len(names) // rounds
        for way in names[first:] + names[:first]:
            ms, cores, seconds = trained(binary, data, options, batches, ways[way], folder / "run.jsonl")
            times[way].append(ms)
            if way == "auto":
                choices.append(cores)
                before.append(seconds)
    medians = {way: statistics.median(found) for way, found in times.items()}
    best = min((way for way in names if way not in ("auto", "usual")), key=medians.get)
    return {
        "options": options,
        "ms": times,
        "medians": medians,
        "best": best,
        "auto_over_best": round(medians["auto"] / medians[best], 3),
        "usual_over_best": round(medians["usual"] / medians[best], 3),
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
    arguments.add_argument("--out", type=Path)
    chosen = arguments.parse_args()
    found = {}
    print(f"{'graph':10} {'predicted':>9} {'auto':>8} {'usual':>8} {'best':>8}  auto/best usual/best  chosen; best")
    with tempfile.TemporaryDirectory() as temporary:
        for name in chosen.graphs:
            generated, options = GRAPHS[name]
            data = graph(chosen.binary, name, chosen.data or Path(temporary))
            folder = Path(temporary)
            result = measure(chosen.binary, data, options, chosen.batches, chosen.rounds, chosen.most, folder)
            found[name] = {"graph": generated, **result}
            predicted = statistics.median(choice["batch_ms"] for choice in result["choices"])
            medians = result["medians"]
            threads = ", ".join(
                " ".join(str(choice["threads"][stage]) for stage in STAGES) for choice in result["choices"]
            )
            print(
                f"{name:10} {predicted:9.1f} {medians['auto']:8.1f} {medians['usual']:8.1f} "
                f"{medians[result['best']]:8.1f}  {result['auto_over_best']:9.3f} {result['usual_over_best']:10.3f}  "
                f"{threads}; {result['best']}",
                flush=True,
            )
    if chosen.out:
        chosen.out.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
