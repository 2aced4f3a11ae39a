#!/usr/bin/env python3
"""Measures the host path on this machine and writes the raw figures that docs/reference/results.md shows.

    scripts/measure/host.py [--data data/demo] [--out docs/results/host.json] [--rounds 3]

Runs the program's own benches and a training run of the demo graph, several rounds of each, and keeps every round.
Nothing else should be running; the load of other processes is measured and recorded, too.
Needs only Python, a release build and the demo's graph (scripts/demo.sh makes both).
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

from watched import machine

ROOT = Path(__file__).resolve().parents[2]


def cpu_seconds():
    """Seconds of CPU time that the whole machine has spent at work since it started, and that its host has taken from it."""
    fields = [int(field) for field in open("/proc/stat").readline().split()[1:9]]
    return (sum(fields) - fields[3] - fields[4]) / os.sysconf("SC_CLK_TCK")


def run(binary, *arguments):
    before, since = cpu_seconds(), time.monotonic()
    children = os.times()
    command = [str(binary), *map(str, arguments), "--json"]
    ended = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if ended.returncode != 0:
        sys.exit(f"{' '.join(command)}\nended with {ended.returncode}:\n{ended.stderr}")
    after = os.times()
    own = after.children_user + after.children_system - children.children_user - children.children_system
    seconds = time.monotonic() - since
    result = json.loads(ended.stdout)
    # Cores' worth of work by anybody else, on average over the run.
    result["foreign_load"] = round(max(0.0, cpu_seconds() - before - own) / seconds, 3)
    return result


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--data", type=Path, default=ROOT / "data/demo")
    arguments.add_argument("--binary", type=Path, default=ROOT / "target/release/uvatrain")
    arguments.add_argument("--rounds", type=int, default=3)
    arguments.add_argument("--out", type=Path)
    chosen = arguments.parse_args()
    cores = os.cpu_count() or 1
    rows = []

    def measure(name, figure, *command):
        rounds = [run(chosen.binary, *command) for _ in range(chosen.rounds)]
        values = [figure(one) for one in rounds]
        loads = max(one["foreign_load"] for one in rounds)
        rows.append({"name": name, "command": " ".join(map(str, command)), "median": statistics.median(values),
                     "values": values, "rounds": rounds})
        print(f"{name:<46} {statistics.median(values):12.4g}   of {' '.join(f'{v:.4g}' for v in values)}"
              f"   foreign load {loads:.2f}", flush=True)

    for threads in sorted({1, cores}):
        sample = ("bench", "sample", chosen.data, "--fanouts", "15,10,5", "--batch-size", 1000, "--threads", threads)
        measure(f"sampling, {threads} threads, M edges/s", lambda one: one["edges_per_second"] / 1e6, *sample)
    for threads in sorted({1, cores}):
        gather = ("bench", "gather", chosen.data, "--threads", threads)
        measure(f"gather, {threads} threads, GB/s", lambda one: one["gb_per_second"], *gather)
        rows[-1]["share_of_memcpy"] = statistics.median(one["share_of_memcpy"] for one in rows[-1]["rounds"])
        print(f"{'':<46} {100 * rows[-1]['share_of_memcpy']:11.1f} % of memcpy in the same run")
    pipeline = ("bench", "pipeline", chosen.data, "--fanouts", "10,5", "--batch-size", 1024)
    measure("pipeline without training, batches/s", lambda one: one["batches_per_second"], *pipeline)
    with tempfile.TemporaryDirectory() as folder:
        metrics = Path(folder) / "run.jsonl"
        epochs = []

        def epoch_seconds(_):
            lines = [json.loads(line) for line in open(metrics)]
            seconds = [line["seconds"] for line in lines if line["event"] == "epoch"]
            epochs.append(seconds)
            # The first epoch holds the start of libtorch and the first touch of every slot.
            return statistics.median(seconds[1:])

        def train(*command):
            one = run(chosen.binary, *command)
            one["epoch_seconds"] = epoch_seconds(one)
            return one

        command = ("train", chosen.data, "--model", "sage", "--fanouts", "10,5", "--batch-size", 1024, "--epochs", 3,
                   "--metrics", metrics)
        rounds = [train(*command) for _ in range(chosen.rounds)]
        values = [one["epoch_seconds"] for one in rounds]
        rows.append({"name": "demo epoch, seconds", "command": " ".join(map(str, command[:-2])),
                     "median": statistics.median(values), "values": values, "rounds": rounds, "epochs": epochs})
        print(f"{'demo epoch (training and validation), seconds':<46} {statistics.median(values):12.4g}   "
              f"of {' '.join(f'{v:.4g}' for v in values)}   foreign load "
              f"{max(one['foreign_load'] for one in rounds):.2f}")
    if chosen.out:
        for row in rows:
            row["command"] = row["command"].replace(str(ROOT) + "/", "")
            for one in row["rounds"]:
                one.pop("dataset", None)
        chosen.out.parent.mkdir(parents=True, exist_ok=True)
        chosen.out.write_text(json.dumps({"machine": machine(), "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
