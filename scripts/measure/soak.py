#!/usr/bin/env python3
"""Trains for an hour and watches the memory, descriptors and threads of every process of the run.

    scripts/measure/soak.py [--binary target/release/uvatrain] [--seconds 3600] [--every 5] [--out docs/results/soak.json]

The run has two samplers, validates and writes a checkpoint after every epoch, writes metrics, and answers a scrape of
them with every sample. The first tenth of the time is the warm-up; the rest is divided into two halves. Usage is flat if
in every process

- the most descriptors and the most threads of the second half are no more than those of the first, and
- the median of the anonymous memory (what the process allocated, without mapped files and shared slots) has grown by at most
  two percent, or 1 MiB where that is more.

Exit code 1 if it is not, or if the run fails after an interrupt. Needs only Python and a release build.
"""
import argparse
import json
import os
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
GRAPH = "generate graph --nodes 100000 --avg-degree 20 --feat-dim 100 --classes 12"
TRAIN = (
    "train graph --fanouts 10,10 --batch-size 1000 --hidden 32 --samplers 2 --train-threads 1 --gather-threads 1 "
    "--epochs 1000000 --checkpoint kept --metrics run.jsonl"
)
WARM_UP = 0.1
GROWTH, GROWTH_BYTES = 0.02, 1 << 20


def children(launcher):
    """The launcher and its roles, by name; two of a role have numbers."""
    found = {"launcher": launcher}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            parent = int(entry.joinpath("stat").read_text().rpartition(")")[2].split()[1])
            role = entry.joinpath("cmdline").read_text().split("\0")[1]
        except (OSError, IndexError):
            continue
        if parent == launcher:
            names = [role] + [f"{role} {number}" for number in range(2, 10)]
            found[next(name for name in names if name not in found)] = int(entry.name)
    return found


def look(pid):
    status = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    size = lambda name: int(status[name].split()[0]) * 1024
    return {
        "anonymous": size("RssAnon"),
        "shared": size("RssShmem"),
        "descriptors": len(os.listdir(f"/proc/{pid}/fd")),
        "threads": int(status["Threads"]),
    }


def scrape(port):
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60) as answer:
        if b"\nuvatrain_" not in answer.read():
            sys.exit("the run's metrics are empty")


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def judge(looks):
    """What one process held in the two halves, and what of it is not flat."""
    halves = looks[: len(looks) // 2], looks[len(looks) // 2 :]
    reported, wrong = {}, []
    for name in ("descriptors", "threads"):
        first, second = (max(look[name] for look in half) for half in halves)
        reported[name] = [first, second]
        if second > first:
            wrong.append(f"{name} rose from {first} to {second}")
    for name in ("anonymous", "shared"):
        reported[f"{name}_bytes"] = [int(statistics.median(look[name] for look in half)) for half in halves]
    first, second = reported["anonymous_bytes"]
    if second - first > max(GROWTH * first, GROWTH_BYTES):
        wrong.append(f"its memory grew from {first / 2**20:.1f} to {second / 2**20:.1f} MiB")
    return reported, wrong


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--binary", type=Path, default=ROOT / "target/release/uvatrain")
    arguments.add_argument("--seconds", type=float, default=3600)
    arguments.add_argument("--every", type=float, default=5)
    arguments.add_argument("--out", type=Path)
    chosen = arguments.parse_args()

    with tempfile.TemporaryDirectory() as directory:
        subprocess.run([chosen.binary, *GRAPH.split()], cwd=directory, check=True, stderr=subprocess.DEVNULL)
        port = free_port()
        command = [chosen.binary, *TRAIN.split(), "--metrics-listen", f"127.0.0.1:{port}"]
        run = subprocess.Popen(command, cwd=directory, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        metrics = Path(directory, "run.jsonl")
        while not metrics.exists() or '"batch"' not in metrics.read_text():
            if run.poll() is not None:
                sys.exit(f"the run ended before its first batch:\n{run.stderr.read().decode()}")
            time.sleep(0.1)
        processes = children(run.pid)
        looks = {name: [] for name in processes}
        since = time.monotonic()
        while (passed := time.monotonic() - since) < chosen.seconds:
            if run.poll() is not None:
                sys.exit(f"the run ended after {passed:.0f} s:\n{run.stderr.read().decode()}")
            for name, pid in processes.items():
                looks[name].append(look(pid))
            scrape(port)
            time.sleep(chosen.every)
        if children(run.pid) != processes:
            sys.exit(f"other processes than at the beginning: {children(run.pid)} instead of {processes}")
        run.send_signal(signal.SIGINT)
        errors = run.communicate(timeout=120)[1].decode()
        if run.returncode != 130:
            sys.exit(f"the interrupted run ended with {run.returncode}:\n{errors}")
        batches = sum('"event":"batch"' in line for line in metrics.open())
        kept = sorted(file.name for file in Path(directory, "kept").iterdir())

    reported, failed = {}, []
    for name, seen in looks.items():
        reported[name], wrong = judge(seen[int(len(seen) * WARM_UP) :])
        failed += [f"{name}: {what}" for what in wrong]
        anonymous, shared = reported[name]["anonymous_bytes"], reported[name]["shared_bytes"]
        print(f"{name:<10} anonymous {anonymous[0] / 2**20:7.1f} -> {anonymous[1] / 2**20:7.1f} MiB  "
              f"shared {shared[0] / 2**20:6.1f} -> {shared[1] / 2**20:6.1f} MiB  "
              f"descriptors {reported[name]['descriptors']}  threads {reported[name]['threads']}")
    print(f"{batches} batches in {chosen.seconds:.0f} s; checkpoint files: {', '.join(kept)}")
    if chosen.out:
        about = "Made by scripts/measure/soak.py: medians (bytes) and maxima of the two halves of the time after the warm-up."
        result = {"about": about, "seconds": chosen.seconds, "looks": len(looks["launcher"]), "batches": batches,
                  "processes": reported}
        chosen.out.write_text(json.dumps(result, indent=2) + "\n")
    for what in failed:
        print(f"NOT FLAT: {what}", file=sys.stderr)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
