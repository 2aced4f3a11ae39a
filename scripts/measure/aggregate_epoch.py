#!/usr/bin/env python3
"""What the producer's sums save of an epoch on the CPU: `train --aggregate host` compared with `--aggregate off`.

    scripts/measure/aggregate_epoch.py DATA [--binary target/release/uvatrain] [--rounds 5] [--epochs 3] [--out epoch.json]

DATA is a dataset, such as the small graph of scripts/peers/compare.py. Models of two layers train in both ways in turn, and
each round begins with the other way. It prints the medians of training batches a second, an epoch's time with `host` as a
share of that with `off`, the same of each round, and the bytes of a feature slot likewise. The first layer must sum before
it multiplies: then batches and losses have to be equal, and are compared. Needs only Python and a release build.
Nothing else should be running.
"""
import argparse
import json
import statistics
import tempfile
from pathlib import Path

from aggregate_choice import ROOT, run
from watched import machine

MODELS, FANOUTS, WAYS = ("sage", "gcn"), ("10,10", "15,10"), ("off", "host")


def trained(binary, data, options, way, metrics):
    """Batches a second, what was learned, and the bytes of all feature slots with sums and without."""
    run([binary, "train", data, "--device", "cpu", *options, "--aggregate", way, "--metrics", metrics])
    lines = [json.loads(line) for line in metrics.read_text().splitlines()]
    batches = [line for line in lines if line["event"] == "batch"]
    learned = [(line["hash"], line["loss"]) for line in batches]
    slots = [sum(line["aggregate"][name] for line in batches if way == "host") for name in ("slot_bytes", "raw_slot_bytes")]
    return lines[-1]["batches_per_second"], learned, slots


def measure(chosen, model, fanouts, metrics):
    options = ["--model", model, "--fanouts", fanouts, "--batch-size", "1000", "--hidden", "128"]
    options += ["--epochs", str(chosen.epochs)]
    speeds, expected = {way: [] for way in WAYS}, None
    for number in range(chosen.rounds):
        for way in WAYS if number % 2 == 0 else WAYS[::-1]:
            speed, learned, slots = trained(chosen.binary, chosen.data, options, way, metrics)
            expected = expected or learned
            assert learned == expected, f"{model} {fanouts}: batches or losses of --aggregate {way} are others"
            speeds[way].append(speed)
            if way == "host":
                with_sums, without = slots
    medians = {way: statistics.median(found) for way, found in speeds.items()}
    return {
        "model": model,
        "fanouts": fanouts,
        "batches_per_second": speeds,
        "medians": medians,
        "epoch_of_off": round(medians["off"] / medians["host"], 3),
        "rounds": [round(off / host, 3) for off, host in zip(*(speeds[way] for way in WAYS))],
        "slot_bytes_of_off": round(with_sums / without, 3),
    }


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("data", type=Path)
    arguments.add_argument("--binary", type=Path, default=ROOT / "target/release/uvatrain")
    arguments.add_argument("--rounds", type=int, default=5)
    arguments.add_argument("--epochs", type=int, default=3)
    arguments.add_argument("--out", type=Path)
    chosen = arguments.parse_args()
    cells = []
    print(f"{'model':5} {'fanouts':8} {'off':>8} {'host':>8}  epoch  slots  rounds")
    with tempfile.TemporaryDirectory() as temporary:
        for model in MODELS:
            for fanouts in FANOUTS:
                cell = measure(chosen, model, fanouts, Path(temporary) / "run.jsonl")
                cells.append(cell)
                speeds = " ".join(f"{cell['medians'][way]:8.1f}" for way in WAYS)
                rounds = ", ".join(map(str, cell["rounds"]))
                print(f"{model:5} {fanouts:8} {speeds}  {cell['epoch_of_off']:5}  {cell['slot_bytes_of_off']:5}  {rounds}", flush=True)
    if chosen.out:
        chosen.out.write_text(json.dumps({"machine": machine(), "epochs": chosen.epochs, "cells": cells}, indent=1) + "\n")


if __name__ == "__main__":
    main()
