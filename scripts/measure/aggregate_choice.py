#!/usr/bin/env python3
"""Compares the speed of `train --aggregate auto` with that of the best way, on four graphs.

    scripts/measure/aggregate_choice.py [--binary target/release/uvatrain] [--rounds 5] [--device cuda:0] [--out choice.json]

Each graph is trained with the consumer's sums (`off`), the producer's (`host`, on a GPU also `device`) and `auto`, one
after another, once a round; each round begins with another way. It prints the medians of training batches a
second, the trial and the search of `auto` included, how many times the speed of the best way `auto` has, and the shares
of the batches that it let the producer sum, one after another. All runs must have the same batches, and on the CPU the
same losses. The graphs are generated into a temporary folder, or once into `--data`. Needs only Python.
"""
import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from splits import shorten

ROOT = Path(__file__).resolve().parents[2]
ON_CPU, ON_GPU = ["off", "host", "auto"], ["off", "host", "device", "auto"]

# What generates a graph, and how it is trained. The dense one has few further nodes a destination: there a sum reads many
# more rows than a batch has.
GRAPHS = {
    "powerlaw": ("--kind powerlaw --nodes 1000000 --feat-dim 100", "--fanouts 10,10 --batch-size 1000"),
    "products": ("--preset products --scale 0.2", "--fanouts 15,10,5 --batch-size 256"),
    "citation": ("--kind citation --nodes 300000 --feat-dim 128", "--fanouts 10,10 --batch-size 512"),
    "dense": ("--kind powerlaw --nodes 20000 --avg-degree 200 --feat-dim 256", "--fanouts 15,10 --batch-size 512"),
}


def run(command):
    ended = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if ended.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}\nended with {ended.returncode}:\n{ended.stderr}")


def graph(binary, name, folder):
    """The graph of this name in the folder, where it is generated unless it is there."""
    data = folder / name
    if not data.exists():
        run([binary, "generate", data, *GRAPHS[name][0].split()])
        for split in ("valid", "test"):
            # They are not timed.
            shorten(data / f"{split}_idx.npy", 64)
    return data


def trained(binary, data, options, batches, way, metrics):
    """The lines of a run of at least `batches` batches. The batch size comes last in its options."""
    # 8 bytes a node, after a header of 128 at most.
    nodes = (data / "train_idx.npy").stat().st_size // 8 - 16
    in_epoch = max(1, nodes // int(options.split()[-1]))
    more = ["--epochs", str(-(-batches // in_epoch)), "--model", "sage", "--aggregate", way, "--metrics", metrics]
    run([binary, "train", data, *options.split(), *more])
    return [json.loads(line) for line in metrics.read_text().splitlines()]


def measure(binary, data, options, batches, rounds, folder, device):
    ways = ON_CPU if device == "cpu" else ON_GPU
    speeds, losses, choices = {way: [] for way in ways}, {}, []
    for number in range(rounds):
        turn = number % len(ways)
        for way in ways[turn:] + ways[:turn]:
            lines = trained(binary, data, f"--device {device} {options}", batches, way, folder / "run.jsonl")
            # Kernels of a GPU add in other orders.
            learned = [(line["hash"], line["loss"] if device == "cpu" else None) for line in lines if line["event"] == "batch"]
            if losses.setdefault("all", learned) != learned:
                sys.exit(f"{data.name}: the batches or losses of --aggregate {way} are others")
            speeds[way].append(lines[-1]["batches_per_second"])
            if way == "auto":
                reported = [lines[0], *(line for line in lines if line["event"] == "in_force")]
                choices.append([line["in_force"]["aggregate"] for line in reported])
    medians = {way: statistics.median(found) for way, found in speeds.items()}
    best = max(median for way, median in medians.items() if way != "auto")
    return {
        "options": options,
        "batches_per_second": speeds,
        "medians": medians,
        "auto_over_best": round(medians["auto"] / best, 3),
        "choices": choices,
    }


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--binary", type=Path, default=ROOT / "target/release/uvatrain")
    arguments.add_argument("--data", type=Path, help="a folder that keeps the graphs")
    arguments.add_argument("--graphs", nargs="+", choices=list(GRAPHS), default=list(GRAPHS))
    arguments.add_argument("--batches", type=int, default=2500, help="training batches of a run, at least")
    arguments.add_argument("--rounds", type=int, default=5)
    arguments.add_argument("--device", default="cpu", help="cpu, or a GPU such as cuda:0")
    arguments.add_argument("--out", type=Path)
    chosen = arguments.parse_args()
    found = {}
    ways = ON_CPU if chosen.device == "cpu" else ON_GPU
    print(f"{'graph':10} {' '.join(f'{way:>8}' for way in ways)}  auto/best  shares")
    with tempfile.TemporaryDirectory() as temporary:
        for name in chosen.graphs:
            generated, options = GRAPHS[name]
            data = graph(chosen.binary, name, chosen.data or Path(temporary))
            count = (chosen.batches, chosen.rounds)
            result = measure(chosen.binary, data, options, *count, Path(temporary), chosen.device)
            found[name] = {"graph": generated, **result}
            speeds = " ".join(f"{result['medians'][way]:8.1f}" for way in ways)
            # The first line names the role that sums. Without a trial it is the only line.
            shares = ([f"{reported['share']:g}" for reported in run[1:]] for run in result["choices"])
            shown = ", ".join("→".join(run) or "off" for run in shares)
            print(f"{name:10} {speeds}  {result['auto_over_best']:9.3f}  {shown}", flush=True)
    if chosen.out:
        chosen.out.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
