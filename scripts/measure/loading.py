#!/usr/bin/env python3
"""How near loading comes to what sampling and gathering alone allow: the same batches, in one run, on the same cores.

    scripts/measure/loading.py SMALL MEDIUM [--binary target/release/uvatrain] [--rounds 5] [--batches 64]
                       [--out docs/results/loading.json]

A round runs three commands one after another, for each graph on one core and on two: `bench sample` with a thread a core, `bench
gather` of as many random bytes as a batch has with a thread a core, and `bench pipeline` after a warm-up, in each of its
ways. Sampling and gathering alone allow 1 / (seconds of a batch sampled + seconds of a batch gathered). A figure is the
median of its rounds. Graphs: `uvatrain generate small --nodes 100000 --avg-degree 20 --feat-dim 100 --classes 47
--train-share 0.5` and `uvatrain generate medium --preset products`. Needs only Python and a release build.
"""
import argparse
import json
import os
import statistics
from pathlib import Path

from host import run
from watched import machine

ROOT = Path(__file__).resolve().parents[2]
FANOUTS = ("--fanouts", "15,10,5", "--batch-size", 1000)
# Batches before those that are counted: memory of all slots and nearly all pages of the files are touched in them.
WARM_UP = 16


def ways(cores):
    """Ways of making batches, by name."""
    one = ("--gather-threads", 1, "--samplers")
    found = {"1 sampler": (*one, 1)}
    if cores > 1:
        found[f"{cores} samplers"] = (*one, cores)
    found["whole batches"] = ("--prepare", "whole", "--samplers", cores)
    return found


def measure(chosen, graph, cores):
    """The rounds of a cell: milliseconds a batch of each stage alone and of each way."""
    os.sched_setaffinity(0, range(cores))
    data = chosen.graphs[graph]
    rounds, bytes_a_batch = [], None
    for _ in range(chosen.rounds + 1):
        found, loads = {}, []

        def timed(name, *command):
            one = run(chosen.binary, "bench", *command)
            loads.append(one["foreign_load"])
            found[name] = one
            return one

        sampled = timed("sample", "sample", data, *FANOUTS, "--threads", cores, "--batches", chosen.batches)
        for name, options in ways(cores).items():
            timed(name, "pipeline", data, *FANOUTS, "--drop-last", *options, "--epochs", 100, "--warm-up", WARM_UP,
                  "--batches", chosen.batches)
        bytes_a_batch = bytes_a_batch or found["1 sampler"]["feature_bytes"] // found["1 sampler"]["batches"]
        gathered = timed("gather", "gather", data, "--bytes", bytes_a_batch, "--threads", cores, "--repeats", chosen.batches)
        moved = gathered["rows"] * gathered["row_bytes"]
        rounds.append({
            "sample_ms": 1e3 * sampled["seconds"] / sampled["batches"],
            "gather_ms": moved / gathered["gb_per_second"] / 1e6,
            "ways": {name: 1e3 * found[name]["seconds"] / found[name]["batches"] for name in ways(cores)},
            "foreign_load": max(loads),
        })
    # The first round brings the files into memory.
    return bytes_a_batch, rounds[1:]


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("small", type=Path)
    arguments.add_argument("medium", type=Path)
    arguments.add_argument("--binary", type=Path, default=ROOT / "target/release/uvatrain")
    arguments.add_argument("--rounds", type=int, default=5)
    arguments.add_argument("--batches", type=int, default=64)
    arguments.add_argument("--out", type=Path)
    chosen = arguments.parse_args()
    chosen.graphs = {"small": chosen.small, "medium": chosen.medium}
    cells = []
    for graph in chosen.graphs:
        for cores in sorted({1, min(2, os.cpu_count() or 1)}):
            bytes_a_batch, rounds = measure(chosen, graph, cores)
            sample, gather = (statistics.median(one[name] for one in rounds) for name in ("sample_ms", "gather_ms"))
            allowed = statistics.median(one["sample_ms"] + one["gather_ms"] for one in rounds)
            of_ways = {name: statistics.median(one["ways"][name] for one in rounds) for name in rounds[0]["ways"]}
            shares = {name: statistics.median((one["sample_ms"] + one["gather_ms"]) / one["ways"][name] for one in rounds)
                      for name in of_ways}
            cells.append({"graph": graph, "cores": cores, "bytes_a_batch": bytes_a_batch, "sample_ms": sample,
                          "gather_ms": gather, "allowed_ms": allowed, "ways_ms": of_ways, "share_of_allowed": shares,
                          "rounds": rounds})
            print(f"{graph}, {cores} cores: sampled {sample:.2f} ms, gathered {gather:.2f} ms; "
                  + ", ".join(f"{name} {of_ways[name]:.2f} ms ({100 * shares[name]:.0f} %)" for name in of_ways)
                  + f"   foreign load {max(one['foreign_load'] for one in rounds):.2f}", flush=True)
    if chosen.out:
        chosen.out.write_text(json.dumps({"machine": machine(), "cells": cells}, indent=1) + "\n")


if __name__ == "__main__":
    main()
