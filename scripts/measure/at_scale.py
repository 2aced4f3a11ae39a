#!/usr/bin/env python3
"""Shows that a graph larger than memory is generated, checked, trained from disk and propagated within a memory limit.

    scripts/measure/at_scale.py [--binary target/release/uvatrain] [--preset papers100m] [--scale 0.25] [--memory 6GiB]
                                [--cache 3GiB] [--batches 300] [--dir DIR] [--out docs/results/at-scale.json]

The graph has the preset's shape, float16 features, and as many of its training nodes as the batches need. Each step runs in a
control group of its own whose limit covers the page cache, too: without the limit, files that were just written would be
read from memory. The steps are:

  generate    the dataset
  verify      `info --verify`: every list, every value
  train       GraphSAGE by sampled neighbours, rows from disk, with a host cache of --cache
  propagate   one hop, of which the rows of the splits are kept
  uncached    training without a cache, of the first --uncached-batches batches: each row is read for each batch

Printed for each are its time and the peak of its memory, with and without pages of files; for both trainings also the reads
from disk. Everything is made in a folder of DIR and removed at the end. The full preset (--scale 1) takes 45 GB there, a
quarter of it 12 GB. Needs the right to make control groups (root), version 1 or 2, and only Python.
"""
import argparse
import contextlib
import json
import os
import sys
import tempfile
import time
from pathlib import Path

from splits import shorten
from watched import machine, watched

ROOT = Path(__file__).resolve().parents[2]
UNITS = {"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
BATCH = 1024


def size(text):
    """Bytes of a size such as `6GiB`."""
    for unit, factor in UNITS.items():
        if text.endswith(unit):
            return int(float(text[: -len(unit)]) * factor)
    raise argparse.ArgumentTypeError(f"{text}: a size is a number and one of {', '.join(UNITS)}, such as 6GiB")


class Group:
    """A control group that limits memory, page cache included. Processes started while it is entered are in it."""

    def __init__(self, limit):
        first = Path("/sys/fs/cgroup/memory")
        self.version, root = (1, first) if first.is_dir() else (2, Path("/sys/fs/cgroup"))
        self.root, self.folder = root, root / f"uvatrain-at-scale-{os.getpid()}"
        try:
            if self.version == 2:
                (root / "cgroup.subtree_control").write_text("+memory")
            self.folder.mkdir()
            name = "memory.limit_in_bytes" if self.version == 1 else "memory.max"
            (self.folder / name).write_text(str(limit))
        except OSError as error:
            sys.exit(f"at_scale: no control group can limit memory here: {error}; it takes root, and a writable {root}")

    def peak(self):
        """The most memory that the group had, page cache included. None where the kernel does not say."""
        file = self.folder / ("memory.max_usage_in_bytes" if self.version == 1 else "memory.peak")
        return int(file.read_text()) if file.exists() else None

    def __enter__(self):
        # Children inherit the group of their parent, whose own few pages count, too.
        (self.folder / "cgroup.procs").write_text(str(os.getpid()))
        return self

    def __exit__(self, *_):
        (self.root / "cgroup.procs").write_text(str(os.getpid()))
        # A janitor may outlive its run by a moment; a group with processes cannot be removed.
        for _ in range(100):
            with contextlib.suppress(OSError):
                self.folder.rmdir()
                return
            time.sleep(0.05)


def trained(lines):
    """What the metrics of a run say of its batches and of its reads."""
    start, end = lines[0], lines[-1]
    batches = [line for line in lines if line["event"] == "batch"]
    found = {
        "batches": len(batches),
        "batches_per_second": end["batches_per_second"],
        "nodes_a_batch": round(sum(line["input_nodes"] for line in batches) / len(batches)),
        "losses": [batches[0]["loss"], batches[-1]["loss"]],
        "bottleneck": end["bottleneck"],
        "features": start["in_force"]["features"],
        "disk": end["disk"],
        "cache": end.get("cache"),
        "process_peak_bytes": {one["process"]: one["peak_bytes"] for one in end["memory"]},
    }
    found["disk"]["reads_per_second"] = round(end["disk"]["reads"] / end["training_seconds"])
    return found


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--binary", type=Path, default=ROOT / "target/release/uvatrain")
    arguments.add_argument("--preset", default="papers100m")
    arguments.add_argument("--scale", type=float, default=0.25)
    arguments.add_argument("--memory", default="6GiB", help="the limit of each step")
    arguments.add_argument("--cache", default="3GiB", help="host memory that caches rows")
    arguments.add_argument("--fanouts", default="10,10")
    arguments.add_argument("--batches", type=int, default=300, help="training batches")
    arguments.add_argument("--uncached-batches", type=int, default=60, help="training batches without a cache")
    arguments.add_argument("--dir", type=Path, help="where the graph is made: not on a tmpfs")
    arguments.add_argument("--out", type=Path)
    chosen = arguments.parse_args()
    limit = size(chosen.memory)

    found = {"machine": machine(), "preset": chosen.preset, "scale": chosen.scale, "limit_bytes": limit}
    with tempfile.TemporaryDirectory(dir=chosen.dir, prefix="uvatrain-at-scale-") as temporary:
        folder = Path(temporary)
        data = folder / "data"

        def step(name, *command):
            with Group(limit) as group:
                said, taken = watched([chosen.binary, *command])
                peak = group.peak()
            found[name] = {"command": " ".join(map(str, command)).replace(temporary, "DIR"), **taken,
                           "group_peak_bytes": peak}
            print(f"{name:<10} {taken['seconds']:>9.1f} s {taken['cpu_seconds']:>9.1f} s CPU  "
                  f"{taken['own_peak_bytes'] / 2**20:>8.0f} MiB own  "
                  f"{(peak or taken['peak_bytes']) / 2**20:>8.0f} MiB with files", flush=True)
            return said

        preset = ["--preset", chosen.preset, "--scale", chosen.scale]
        step("generate", "generate", data, *preset, "--feat-dtype", "f16")
        shorten(data / "train_idx.npy", chosen.batches * BATCH)
        for split in ("valid", "test"):
            shorten(data / f"{split}_idx.npy", 64)
        info = json.loads(step("verify", "info", data, "--verify", "--json"))
        found["graph"] = {key: info[key] for key in ("nodes", "edges")}
        found["table_bytes"] = (data / "feat.npy").stat().st_size

        def train(name, *more):
            metrics = folder / f"{name}.jsonl"
            step(name, "train", data, "--fanouts", chosen.fanouts, "--batch-size", BATCH, "--epochs", 1, "--features",
                 "disk", *more, "--metrics", metrics)
            found[name] |= trained([json.loads(line) for line in metrics.read_text().splitlines()])
            disk = found[name]["disk"]
            print(f"{'':10} {found[name]['batches']} batches, {found[name]['batches_per_second']:.2f} a second; "
                  f"{disk['reads']:,} reads, {disk['reads_per_second']:,} a second, "
                  f"{disk['bytes_read'] / 2**30:.2f} GiB for {disk['bytes_asked'] / 2**30:.2f} GiB of rows", flush=True)

        train("train", "--host-cache", chosen.cache)
        step("propagate", "propagate", data, folder / "hops", "--hops", 1, "--type", "f16", "--memory", limit * 2 // 3)
        shorten(data / "train_idx.npy", chosen.uncached_batches * BATCH)
        train("uncached", "--look-ahead", 2)
    if chosen.out:
        chosen.out.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
