#!/usr/bin/env python3
"""What a first layer from a hop set saves: `train --first-layer` compared with the same model over sampled neighbours.

    scripts/measure/first_layer.py [--binary target/release/uvatrain] [--rounds 3] [--epochs 4] [--data FOLDER]
                                   [--out docs/results/first-layer.json]

On each graph a model of three layers trains with fanouts 15,10,5, and with 15,10 over the hop set, alternately. A figure is the
median epoch of a round, a validation of 1,000 nodes included and the first one left out, and of these the median. Bytes are those of the gathered rows. The hop set
is made once, and its time is printed. Accuracies are those of the test nodes after these epochs. The graphs are generated
into a temporary folder, or once into `--data`; real ones (`--real NAME`) lie in the cache of scripts/setup/datasets.sh. Needs
only Python and a release build.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from splits import shorten
from watched import machine

ROOT = Path(__file__).resolve().parents[2]
GRAPHS = {
    "powerlaw": "--kind powerlaw --nodes 500000 --feat-dim 100 --train-share 0.1",
    "products": "--preset products --scale 0.2",
    "citation": "--kind citation --nodes 500000 --feat-dim 128 --train-share 0.05",
}
MODELS = {"sage": "--operator row --layout rows", "gcn": "--operator sym"}
TRAIN = "--batch-size 1000 --hidden 128 --lr 0.003 --seed 1"


def call(binary, line):
    ended = subprocess.run([str(binary), *map(str, line)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if ended.returncode != 0:
        sys.exit(f"{' '.join(map(str, line))}\nended with {ended.returncode}:\n{ended.stderr}")
    return ended.stdout


def trained(binary, data, options, epochs, metrics):
    """A run: its median epoch but the first, the bytes of rows of an epoch, and the test accuracy."""
    call(binary, ["train", data, *TRAIN.split(), *options.split(), "--epochs", epochs, "--metrics", metrics])
    lines = [json.loads(line) for line in metrics.read_text().splitlines()]
    seconds = [line["seconds"] for line in lines if line["event"] == "epoch"]
    nodes = sum(line["input_nodes"] for line in lines if line["event"] == "batch") / epochs
    end = next(line for line in lines if line["event"] == "end")
    return {"epoch_s": statistics.median(seconds[1:]), "input_nodes": nodes, "test_accuracy": end["test_accuracy"]}


def measure(binary, data, model, rounds, epochs, folder):
    hop_set = folder / f"{data.name}-{model}"
    since = time.perf_counter()
    reported = json.loads(call(binary, ["propagate", data, hop_set, "--hops", 1, "--nodes", "all", "--row-order", "nodes",
                                    *MODELS[model].split(), "--json"]))
    made = time.perf_counter() - since
    ways = {"sampled": f"--model {model} --fanouts 15,10,5", "given": f"--model {model} --fanouts 15,10 --first-layer {hop_set}"}
    found = {way: [] for way in ways}
    for number in range(rounds):
        for way in list(ways)[:: 1 if number % 2 == 0 else -1]:
            found[way].append(trained(binary, data, ways[way], epochs, folder / "run.jsonl"))
    row = {way: reported["dim"] * 4 for way in ways}
    if model == "sage":
        row["given"] *= 2
    medians = {way: {
        "epoch_s": statistics.median(one["epoch_s"] for one in of),
        "gathered_bytes": of[0]["input_nodes"] * row[way],
        "test_accuracy": of[0]["test_accuracy"],
    } for way, of in found.items()}
    sampled, given = medians["sampled"], medians["given"]
    return {"graph": data.name, "model": model, "propagate_s": made, "set_bytes": reported["bytes"], "medians": medians,
            "times_as_fast": sampled["epoch_s"] / given["epoch_s"],
            "times_fewer_bytes": sampled["gathered_bytes"] / given["gathered_bytes"], "rounds": found}


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--binary", type=Path, default=ROOT / "target/release/uvatrain")
    arguments.add_argument("--data", type=Path, help="a folder that keeps the graphs")
    arguments.add_argument("--graphs", nargs="*", choices=list(GRAPHS), default=list(GRAPHS))
    arguments.add_argument("--real", nargs="*", default=[], metavar="NAME")
    arguments.add_argument("--rounds", type=int, default=3)
    arguments.add_argument("--epochs", type=int, default=4)
    arguments.add_argument("--out", type=Path)
    chosen = arguments.parse_args()
    cache = Path(os.environ.get("UVATRAIN_CACHE", Path.home() / ".cache/uvatrain")) / "datasets"
    cells = []
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        kept = chosen.data or folder
        places = [kept / name for name in chosen.graphs] + [cache / name for name in chosen.real]
        for data in places:
            if not data.exists():
                call(chosen.binary, ["generate", data, *GRAPHS[data.name].split()])
                # Their evaluation is not what is measured.
                shorten(data / "valid_idx.npy", 1000)
                shorten(data / "test_idx.npy", 10000)
            for model in MODELS:
                cell = measure(chosen.binary, data, model, chosen.rounds, chosen.epochs, folder)
                cells.append(cell)
                sampled, given = (cell["medians"][way] for way in ("sampled", "given"))
                print(f"{data.name}, {model}: an epoch {sampled['epoch_s']:.2f} s, given {given['epoch_s']:.2f} s "
                      f"({cell['times_as_fast']:.2f} x); {cell['times_fewer_bytes']:.2f} x fewer bytes; accuracy "
                      f"{100 * sampled['test_accuracy']:.1f} and {100 * given['test_accuracy']:.1f} %; hop set in "
                      f"{cell['propagate_s']:.1f} s", flush=True)
    if chosen.out:
        chosen.out.write_text(json.dumps({"machine": machine(), "train": TRAIN, "cells": cells}, indent=1) + "\n")


if __name__ == "__main__":
    main()
