#!/usr/bin/env python3
"""Measures what it costs that feature slots lie on pages of 4 KiB: to write them, and to read them.

    scripts/measure/slot_pages.py [--binary target/release/uvatrain] [--rounds 3] [--cores 0,1] [--out FILE]

A graph like ogbn-products trains with fanouts 12,8,6 and batches of 700, in four ways whose batches are the same:

- processes            slots are shared memory, on 4 KiB pages unless the system has huge pages for it
- threads              slots are anonymous memory, on 2 MiB pages
- threads, small       the same without huge pages (PR_SET_THP_DISABLE)
- threads, summed      the producer sums (`--aggregate host`), so that the slot has sums and own rows alone

Printed are medians of a batch's sampling, gather and training in milliseconds. `threads` against `threads, small` is the
cost of the slots' pages; small pages also hold the sampler's local ids there, and the map of the table. So what the gather
pays is better seen against `processes`, where both have the pages of `threads`. On one core the stages take turns, and a
stage's time has what others took meanwhile: the last column, batches a second, is what counts then. Nothing else should be
running. Needs only Python.
"""
import argparse
import ctypes
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from splits import shorten
from watched import machine

ROOT = Path(__file__).resolve().parents[2]
PR_SET_THP_DISABLE = 41
WAYS = {
    "processes": ["--aggregate", "off"],
    "threads": ["--aggregate", "off", "--in-process"],
    "threads, small": ["--aggregate", "off", "--in-process"],
    "threads, summed": ["--aggregate", "host", "--in-process"],
}


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--binary", type=Path, default=ROOT / "target/release/uvatrain")
    arguments.add_argument("--rounds", type=int, default=3)
    arguments.add_argument("--cores", default="0", help="of the program, separated by commas")
    arguments.add_argument("--batches", type=int, default=60)
    arguments.add_argument("--graph", default="--preset products --seed 7", help="options of generate")
    arguments.add_argument("--out", type=Path)
    chosen = arguments.parse_args()
    cores = [int(core) for core in chosen.cores.split(",")]
    prctl = ctypes.CDLL(None).prctl

    with tempfile.TemporaryDirectory() as temporary:
        data, metrics = Path(temporary) / "products", Path(temporary) / "run.jsonl"
        subprocess.run([chosen.binary, "generate", data, *chosen.graph.split()], check=True, capture_output=True)
        for split, nodes in (("train", 700 * chosen.batches), ("valid", 64), ("test", 64)):
            shorten(data / f"{split}_idx.npy", nodes)

        def trained(way):
            def before():
                os.sched_setaffinity(0, cores)
                if way.endswith("small"):
                    prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0)

            command = [chosen.binary, "train", data, "--fanouts", "12,8,6", "--batch-size", "700", "--epochs", "2", "--hidden",
                       "64", "--samplers", "1", "--gather-threads", "1", "--train-threads", "1", "--metrics", metrics]
            ended = subprocess.run([*command, *WAYS[way]], capture_output=True, text=True, preexec_fn=before)
            if ended.returncode != 0:
                sys.exit(f"{way}: ended with {ended.returncode}:\n{ended.stderr}")
            lines = [json.loads(line) for line in metrics.read_text().splitlines()]
            # The first epoch brings the table's pages into memory.
            batches = [line for line in lines if line["event"] == "batch" and line["epoch"] == 1]
            stages = {f"{stage}_ms": statistics.median(line[f"{stage}_us"] for line in batches) / 1e3
                      for stage in ("sample", "gather", "train")}
            span = (batches[-1]["train_at_us"] - batches[0]["train_at_us"]) / 1e6
            return {**stages, "batches_per_second": (len(batches) - 1) / span}, [line["hash"] for line in batches]

        rounds, hashes = {way: [] for way in WAYS}, None
        for number in range(chosen.rounds):
            for way in list(WAYS)[:: 1 if number % 2 == 0 else -1]:
                taken, of = trained(way)
                if (hashes := hashes or of) != of:
                    sys.exit(f"{way}: other batches")
                rounds[way].append(taken)
    medians = {way: {key: round(statistics.median(one[key] for one in found), 3) for key in found[0]}
               for way, found in rounds.items()}
    print(f"{'':18} {'sample ms':>10} {'gather ms':>10} {'train ms':>10} {'batches/s':>10}")
    for way, found in medians.items():
        print(f"{way:18} " + " ".join(f"{value:10.2f}" for value in found.values()))
    if chosen.out:
        chosen.out.write_text(json.dumps({"machine": machine(), "graph": chosen.graph, "cores": cores, "medians": medians,
                                          "rounds": rounds}, indent=1) + "\n")


if __name__ == "__main__":
    main()
