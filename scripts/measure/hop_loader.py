#!/usr/bin/env python3
"""Compares batches of a hop set by `uvatrain bench loader` with PyTorch's DataLoader on the same files.

    scripts/measure/hop_loader.py HOPSET [--batch-size 8000] [--seconds 20] [--out FILE]

What is compared is loading alone: random batches of all training rows, with every hop, and a consumer that drops them.

- `rows`: a map-style dataset that gives one row of each hop, collated by DataLoader, in 2 worker processes. This is
  the baseline of pre-propagation models (MLSys'25), and DataLoader's default.
- `batches`: the same DataLoader with `sampler=BatchSampler(...)`, so that a worker takes a batch of rows by one index
  call a hop. This is the fairest form of it.
- `uvatrain`: `bench loader` with one worker and with two, all rows shuffled and in chunks, with its own plain copy.

Each pass of DataLoader is warm: workers persist, and one epoch, or a part of it, comes before those that are timed. All
read mapped files, whose pages are in the system's cache by then. The order of the sorts alternates, so that whatever slows
the machine down for a while hits all of them. Run it on a machine that does nothing else. Needs torch and numpy, and a
release build of the program. `--out` writes the figures as JSON.
"""
import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import torch
from torch.utils.data import BatchSampler, DataLoader, Dataset, RandomSampler

ROOT = Path(__file__).resolve().parents[2]
WORKERS = 2
ROUNDS = 3


class Rows(Dataset):
    """The training rows: one item is a row of each hop, or with a list of places a batch of them."""

    def __init__(self, folder):
        self.folder, self.meta = folder, json.loads((folder / "hops.json").read_text())
        self.first, end = self.meta["splits"]["train"]
        self.length = end - self.first
        self.tables = None

    def open(self):
        # In the worker: each maps the files itself.
        kind = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}[self.meta["dtype"]]
        names = sorted(set(self.meta["files"]) - {"node_idx.npy", "label.npy"})
        mapped = [np.load(self.folder / name, mmap_mode="c") for name in names]
        tables = [torch.from_numpy(array).view(kind) for array in mapped]
        self.labels = torch.from_numpy(np.load(self.folder / "label.npy", mmap_mode="c"))
        self.tables = tables

    def __len__(self):
        return self.length

    def __getitem__(self, place):
        if self.tables is None:
            self.open()
        rows = self.first + (torch.tensor(place) if isinstance(place, list) else place)
        return [table[rows] for table in self.tables], self.labels[rows]


def loader(folder, batch_size, by_batches):
    rows = Rows(folder)
    common = dict(num_workers=WORKERS, persistent_workers=True)
    if by_batches:
        order = BatchSampler(RandomSampler(rows), batch_size, drop_last=False)
        return DataLoader(rows, sampler=order, batch_size=None, **common)
    return DataLoader(rows, batch_size=batch_size, shuffle=True, **common)


def epochs(batches, seconds):
    """Rows a second of whole epochs, or of as much of one as this time allows. The first batch is not counted."""
    rows, began, ends = 0, None, time.monotonic() + seconds
    while time.monotonic() < ends:
        for _, labels in batches:
            if began is None:
                began = time.monotonic()
                continue
            rows += len(labels)
            if time.monotonic() >= ends:
                break
    return rows / (time.monotonic() - began)


def ours(binary, folder, batch_size, workers):
    command = [binary, "bench", "loader", folder, "--batch-size", batch_size, "--samplers", workers, "--json"]
    return json.loads(subprocess.run(list(map(str, command)), stdout=subprocess.PIPE, check=True).stdout)


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("hop_set", type=Path)
    arguments.add_argument("--batch-size", type=int, default=8000)
    arguments.add_argument("--seconds", type=float, default=20, help="of each measurement of DataLoader")
    arguments.add_argument("--binary", type=Path, default=ROOT / "target/release/uvatrain")
    arguments.add_argument("--out", type=Path)
    chosen = arguments.parse_args()
    if not (chosen.hop_set / "label.npy").exists():
        sys.exit(f"{chosen.hop_set}: it has no label.npy, which batches of DataLoader have too")
    torch.set_num_threads(1)
    found = {"rows": [], "batches": [], "uvatrain": {}}
    for _ in range(ROUNDS):
        for kind in ("rows", "batches"):
            batches = loader(chosen.hop_set, chosen.batch_size, kind == "batches")
            epochs(batches, min(5, chosen.seconds / 2))
            found[kind].append(epochs(batches, chosen.seconds))
            del batches
        for workers in (1, 2):
            reported = ours(chosen.binary, chosen.hop_set, chosen.batch_size, workers)
            for order in reported["orders"]:
                name = f"{order['shuffle']}, chunks of {order['chunk']}" if order["chunk"] > 1 else order["shuffle"]
                entry = found["uvatrain"].setdefault(f"{name}, {workers} worker(s)", {"rows": [], "memcpy": []})
                entry["rows"].append(order["rows_per_second"])
                entry["memcpy"].append(order["share_of_memcpy"])
    base = statistics.median(found["rows"])
    print(f"{'':<40} {'rows/s':>14} {'of DataLoader':>14} {'of memcpy':>10}")
    for kind in ("rows", "batches"):
        rate = statistics.median(found[kind])
        print(f"{'DataLoader, ' + kind:<40} {rate:>14,.0f} {rate / base:>13.2f}×")
    for name, entry in found["uvatrain"].items():
        rate, share = statistics.median(entry["rows"]), statistics.median(entry["memcpy"])
        print(f"{'uvatrain, ' + name:<40} {rate:>14,.0f} {rate / base:>13.2f}× {100 * share:>9.1f}%")
    if chosen.out:
        meta = json.loads((chosen.hop_set / "hops.json").read_text())
        reported = {key: meta[key] for key in ("dim", "dtype", "rows", "layout", "operators", "splits")}
        machine = {"system": platform.system(), "machine": platform.machine(), "cores": os.cpu_count()}
        report = {
            "machine": machine, "torch": torch.__version__, "hop_set": reported, "batch_size": chosen.batch_size,
            "workers": WORKERS, "rows_per_second": found,
        }
        chosen.out.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
