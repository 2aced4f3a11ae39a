#!/usr/bin/env python3
"""Measures hop sets on disk: the loader compared with the disk itself, and a set larger than memory, from `propagate` to training.

    scripts/measure/hop_disk.py [--binary target/release/uvatrain] [--dir DIR] [--rounds 3] [--memory 4GiB] [--scale 0.1]
                                [--part disk|limit] [--out docs/results/hop-disk.json]

The first part makes a hop set of igb-tiny's shape: 100,000 nodes, rows of 4 KiB, three hops. `bench loader --reader uring`
takes its batches of 8,000 training rows from disk, in chunks, and compares with the same reader alone in the same run. fio reads the
same files, too: random reads of 1 MiB, what the shortest chunks span, with O_DIRECT by io_uring, 32 under way. Rounds
are interleaved, and medians count.

The second part makes one of igb-medium's shape at a tenth of its size, and trains on it. Each step runs in a control group of
its own, whose limit covers the page cache: `generate`, `propagate --hops 3` with half of the limit, `info --verify`, and an epoch
of `sign` in chunks, for which `--place auto` has to choose the disk. Takes 25 GB, removed at the end, root for the control
groups, and fio.
"""
import argparse
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from at_scale import Group, size
from watched import machine, watched

ROOT = Path(__file__).resolve().parents[2]
BATCH = 8000
CHUNKS = (250, 1000, 4000)
PIECE = "1m"


def run(*command):
    ended = subprocess.run(list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if ended.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}\nended with {ended.returncode}:\n{ended.stderr}")
    return ended.stdout


def beside_the_disk(binary, folder, rounds):
    """GB/s of each order of the rows, of the reader alone, and of fio."""
    run(binary, "generate", folder / "tiny", "--preset", "igb-tiny")
    hops = folder / "tiny-hops"
    run(binary, "propagate", folder / "tiny", hops, "--hops", 3)
    tables = ":".join(str(file) for file in sorted(hops.glob("*.npy")) if file.name not in ("node_idx.npy", "label.npy"))
    cells = {}

    def cell(name, value):
        cells.setdefault(name, []).append(round(value, 4))
        print(f"{name:<28} {value:8.3f} GB/s", flush=True)

    for _ in range(rounds):
        reported = json.loads(run(binary, "bench", "loader", hops, "--batch-size", BATCH, "--chunk", ",".join(map(str, CHUNKS)),
                              "--reader", "uring", "--epochs", 3, "--json"))
        cell("reader alone", reported["reads_gb_per_second"])
        for order in reported["orders"]:
            name = f"chunks of {order['chunk']}" if order["chunk"] > 1 else "all rows shuffled"
            cell(name, order["gb_per_second"])
        fio = json.loads(run("fio", "--name=runs", f"--filename={tables}", "--readonly", "--rw=randread", f"--bs={PIECE}", "--direct=1",
                             "--ioengine=io_uring", "--iodepth=32", "--runtime=8", "--time_based", "--registerfiles", "--fixedbufs",
                             "--norandommap", "--output-format=json"))
        cell(f"fio, {PIECE}", fio["jobs"][0]["read"]["bw_bytes"] / 1e9)
    medians = {name: statistics.median(values) for name, values in cells.items()}
    device = medians[f"fio, {PIECE}"]
    shares = {name: round(value / device, 3) for name, value in medians.items()}
    print("of fio's: " + ", ".join(f"{name} {share:.2f}" for name, share in shares.items()))
    return {"batch_size": BATCH, "row_bytes": reported["row_bytes"], "tables": reported["tables"], "reader": reported["reader"], "cells": cells,
            "of_fio": shares}


def under_a_limit(binary, folder, scale, memory):
    """Each step's time and peak, and how the training read."""
    limit, found = size(memory), {"limit_bytes": size(memory), "scale": scale}
    data, hops, metrics = folder / "data", folder / "hops", folder / "metrics.jsonl"

    def step(name, *command):
        with Group(limit) as group:
            said, taken = watched([binary, *command])
            peak = group.peak()
        found[name] = {"command": " ".join(map(str, command)).replace(str(folder), "DIR"), **taken, "group_peak_bytes": peak}
        print(f"{name:<10} {taken['seconds']:>9.1f} s  {taken['own_peak_bytes'] / 2**20:>8.0f} MiB own  "
              f"{(peak or taken['peak_bytes']) / 2**20:>8.0f} MiB with files", flush=True)
        return said

    step("generate", "generate", data, "--preset", "igb-medium", "--scale", scale)
    step("propagate", "propagate", data, hops, "--hops", 3, "--memory", limit // 2)
    found["hop_set_bytes"] = sum(file.stat().st_size for file in hops.iterdir())
    shutil.rmtree(data)
    step("verify", "info", hops, "--verify")
    step("train", "train", hops, "--model", "sign", "--hidden", 64, "--batch-size", BATCH, "--shuffle", "chunks", "--epochs", 1,
         "--device", "cpu", "--metrics", metrics)
    lines = [json.loads(line) for line in metrics.read_text().splitlines()]
    start, end = lines[0], lines[-1]
    batches = sum(line["event"] == "batch" for line in lines)
    found["train"] |= {"batches": batches, "batches_per_second": end["batches_per_second"], "bottleneck": end["bottleneck"],
                       "in_force": start["in_force"]["hops"], "disk": end["disk"],
                       "process_peak_bytes": {one["process"]: one["peak_bytes"] for one in end["memory"]}}
    print(f"{'':10} {batches} batches, {end['batches_per_second']:.2f} a second; {start['in_force']['hops']}; "
          f"{end['disk']['bytes_read'] / 2**30:.1f} GiB read for {end['disk']['bytes_asked'] / 2**30:.1f}", flush=True)
    return found


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--binary", type=Path, default=ROOT / "target/release/uvatrain")
    arguments.add_argument("--dir", type=Path, help="where the sets are made: not on a tmpfs")
    arguments.add_argument("--rounds", type=int, default=3)
    arguments.add_argument("--memory", default="4GiB", help="the limit of each step of the second part")
    arguments.add_argument("--scale", type=float, default=0.1)
    arguments.add_argument("--part", choices=("disk", "limit"), help="one part alone; what OUT has of the other stays")
    arguments.add_argument("--out", type=Path)
    chosen = arguments.parse_args()
    if shutil.which("fio") is None:
        sys.exit("hop_disk: fio is not installed (apt install fio)")
    found = json.loads(chosen.out.read_text()) if chosen.part and chosen.out and chosen.out.exists() else {}
    found["machine"] = machine()
    with tempfile.TemporaryDirectory(dir=chosen.dir, prefix="uvatrain-hop-disk-") as temporary:
        folder = Path(temporary)
        if chosen.part != "limit":
            found["beside_the_disk"] = beside_the_disk(chosen.binary, folder, chosen.rounds)
        if chosen.part != "disk":
            found["under_a_limit"] = under_a_limit(chosen.binary, folder, chosen.scale, chosen.memory)
    if chosen.out:
        chosen.out.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
