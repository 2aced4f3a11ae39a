#!/usr/bin/env python3
"""Measures the cost of handing batches over: alone, and as the share of its time that a pipeline's slowest stage is idle.

    scripts/measure/handover.py [--data data/demo] [--binary target/release/uvatrain] [--bench PROGRAM] [--rounds 3]
                        [--out docs/results/handover.json]

The first is `cargo bench -p uva-mem --bench handover` (--bench: the program that this has built), the second what
`bench pipeline` and `train` say of their roles, by size of the batches. Each figure is of the median round; all are in --out.
Needs only Python, a release build and the demo's graph (scripts/demo.sh makes both).
"""
import argparse
import json
import re
import statistics
import subprocess
import sys
from pathlib import Path

from host import run
from watched import machine

ROOT = Path(__file__).resolve().parents[2]
# Batches of a quarter of a second or more in all, so that the start of the roles is not what is measured.
PIPELINES = [
    (("bench", "pipeline"), "10,5", 1024, 10),
    (("bench", "pipeline"), "15,10,5", 1024, 2),
    (("bench", "pipeline"), "10,5", 128, 4),
    (("bench", "pipeline"), "5,5", 16, 4),
    (("train", "--train-threads", 1, "--hidden", 64), "10,5", 1024, 2),
    (("train", "--train-threads", 1, "--hidden", 1), "15,10,5", 1024, 1),
]


def rings(bench):
    command = [bench] if bench else ["cargo", "bench", "--quiet", "-p", "uva-mem", "--bench", "handover"]
    said = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    if said.returncode != 0:
        sys.exit(f"{command} ended with {said.returncode}")
    print(said.stdout, end="")
    row = re.compile(r"(\d) cores? +([a-z ]+?) +([\d.]+) +\(([\d.]+), ([\d.]+)\)")
    return [{"cores": int(cores), "batches": mode, "microseconds": float(median), "least": float(least),
             "most": float(most)} for cores, mode, median, least, most in row.findall(said.stdout)]


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--data", type=Path, default=ROOT / "data/demo")
    arguments.add_argument("--binary", type=Path, default=ROOT / "target/release/uvatrain")
    arguments.add_argument("--bench", type=Path)
    arguments.add_argument("--rounds", type=int, default=3)
    arguments.add_argument("--out", type=Path)
    chosen = arguments.parse_args()
    found = {"machine": machine(), "rings": rings(chosen.bench), "pipelines": []}
    for command, fanouts, size, epochs in PIPELINES:
        words = [*command, chosen.data, "--fanouts", fanouts, "--batch-size", size, "--epochs", epochs]
        rounds = []
        for _ in range(chosen.rounds):
            one = run(chosen.binary, *words)
            times = {role: [of["working_s"], of["waiting_input_s"], of["waiting_output_s"]]
                     for role, of in one["roles"].items()}
            slowest = times[one["bottleneck"]]
            rounds.append({"bottleneck": one["bottleneck"], "busy": slowest[0] / sum(slowest), "roles": times,
                           "batches": one["batches"], "batches_per_second": one["batches_per_second"],
                           "foreign_load": one["foreign_load"]})
        rounds.sort(key=lambda one: one["busy"])
        median = rounds[len(rounds) // 2]
        shown = " ".join(map(str, words)).replace(str(ROOT) + "/", "")
        found["pipelines"].append({"command": shown, "rounds": rounds, "busy": median["busy"]})
        print(f"{shown}\n    the {median['bottleneck']} {100 * median['busy']:.1f} % busy, "
              f"{median['batches_per_second']:.1f} batches/s   foreign load "
              f"{statistics.median(one['foreign_load'] for one in rounds):.2f}", flush=True)
    if chosen.out:
        chosen.out.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
