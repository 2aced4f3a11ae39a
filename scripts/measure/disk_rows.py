#!/usr/bin/env python3
"""Measures rows from disk compared with the device itself, mapped tables and GraphBolt on the same files.

    PYTHON scripts/measure/disk_rows.py [--binary target/release/uvatrain] [--graphbolt-python PYTHON] [--dir DIR]
                                        [--nodes 4000000] [--rounds 3] [--limited-rounds 1] [--without-limit]
                                        [--out docs/results/disk-rows.json]

The graph is a power law whose rows take 1 KiB. `limit` is a control group with a quarter of the table's bytes, page cache
included; before each run under it the table's pages are dropped from the system's cache. Compared are:

  device     reads a second of `bench pipeline --features disk`, and those of fio: random reads with O_DIRECT by io_uring,
             of the mean size of ours, 64 under way
  training   `train` under the limit: the table mapped (`--features memory`), and from disk with a host cache
  loading    batches without a model under the limit: uvatrain.Loader from disk, which looks ahead and has no host cache, and
             GraphBolt's DataLoader over a TorchBasedFeature of the mapped table. Its release for pip has neither a cache in host
             memory nor a feature on disk
  in memory  `train` without a limit: the table in memory, and from disk with a host cache of 40 % of the table. Epochs from the
             third on count, since the cache is planned by the first two. Once with the model that is the default, and once with
             one whose steps take longer

Rounds are interleaved, and medians count. A batch of a mapped table under the limit takes about a minute, since each missing
page brings its neighbours: so there are few batches and rounds with the limit. GraphBolt's cell took more than ten minutes
on two cores. PYTHON has this checkout's module (scripts/check/python.sh says how), and --graphbolt-python is what `scripts/peers/environment.sh dgl` prints. Needs root for the control group, and fio.
"""
import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts/measure"))
from at_scale import Group  # noqa: E402
from splits import shorten  # noqa: E402
from watched import machine  # noqa: E402

DIM = 256
FANOUTS = "10,10"
EPOCHS = 4
MODELS = {"": [], ", hidden 512": ["--hidden", 512]}


def dropped(data):
    """Drops the pages of the table from the system's cache."""
    with open(data / "feat.npy", "rb") as file:
        os.fdatasync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def run(command, limit=None, data=None):
    command = list(map(str, command))
    if limit is None:
        ended = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    else:
        dropped(data)
        with Group(limit):
            ended = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if ended.returncode != 0:
        sys.exit(f"{' '.join(command)}\nended with {ended.returncode}:\n{ended.stderr}")
    return ended.stdout


def device(binary, data, batch):
    """Reads a second: ours, and fio's of the same mean size."""
    dropped(data)
    reported = json.loads(run([binary, "bench", "pipeline", data, "--fanouts", FANOUTS, "--batch-size", batch, "--features", "disk",
                           "--json"]))
    disk = reported["disk"]
    size = max(512, round(disk["bytes_read"] / disk["reads"] / 512) * 512)
    dropped(data)
    fio = json.loads(run(["fio", "--name=rows", f"--filename={data / 'feat.npy'}", "--readonly", "--rw=randread", f"--bs={size}",
                          "--direct=1", "--ioengine=io_uring", "--iodepth=64", "--runtime=8", "--time_based", "--registerfiles",
                          "--fixedbufs", "--norandommap", "--output-format=json"]))
    return reported, fio["jobs"][0]["read"]["iops"], size


def trained(binary, data, folder, batch, options, limit=None, epochs=1):
    """Batches a second of a run, and of its epochs after the second, if any: from when the first of them is
    trained to the end of the last."""
    metrics = folder / "metrics.jsonl"
    run([binary, "train", data, "--fanouts", FANOUTS, "--batch-size", batch, "--epochs", epochs, "--metrics", metrics, *options],
        limit, data)
    lines = [json.loads(line) for line in metrics.read_text().splitlines()]
    found = {"batches_per_second": lines[-1]["batches_per_second"], "disk": lines[-1].get("disk"),
             "reader": lines[0]["in_force"]["features"]}
    later = [line for line in lines if line["event"] == "batch" and line["epoch"] >= 2]
    if later:
        seconds = (later[-1]["train_at_us"] + later[-1]["train_us"] - later[0]["train_at_us"]) / 1e6
        found |= {"of_whole_run": found["batches_per_second"], "batches_per_second": len(later) / seconds}
        if "disk" in later[0]:
            found["reads_per_batch"] = sum(line["disk"]["reads"] for line in later) / len(later)
    return found


def loading(data, batch):
    """A pass of our loader: batches a second. Runs in a process of its own, under the limit."""
    import uvatrain

    loader = uvatrain.Loader(str(data), fanouts=[int(one) for one in FANOUTS.split(",")], batch_size=batch, features="disk",
                             drop_last=True)
    passed = 0
    for number, one in enumerate(loader):
        if number == 0:
            start = time.perf_counter()
        passed += one.x.shape[0]
    print(number / (time.perf_counter() - start))


GRAPHBOLT = """
import sys, time, numpy, torch, dgl.graphbolt as bolt
data, batch, fanouts = sys.argv[1], int(sys.argv[2]), [int(one) for one in sys.argv[3].split(",")]
def mapped(name): return torch.from_numpy(numpy.load(f"{data}/{name}.npy", mmap_mode="c"))
torch.set_num_threads(1)
graph = bolt.fused_csc_sampling_graph(mapped("indptr").long(), mapped("indices").int())
feature = bolt.TorchBasedFeature(mapped("feat"))
store = bolt.BasicFeatureStore({("node", None, "feat"): feature})
seeds = mapped("train_idx").int()
pipe = bolt.ItemSampler(bolt.ItemSet(seeds, names="seed_nodes"), batch_size=batch, shuffle=True, drop_last=True)
pipe = pipe.sample_neighbor(graph, fanouts[::-1]).fetch_feature(store, node_feature_keys=["feat"])
passed = 0
for number, one in enumerate(bolt.DataLoader(pipe, num_workers=0)):
    if number == 0:
        start = time.perf_counter()
    passed += len(one.node_features["feat"])
print(number / (time.perf_counter() - start))
"""


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--binary", type=Path, default=ROOT / "target/release/uvatrain")
    arguments.add_argument("--graphbolt-python", type=Path)
    arguments.add_argument("--dir", type=Path, help="where the graph is made: not on a tmpfs")
    arguments.add_argument("--nodes", type=int, default=4_000_000)
    arguments.add_argument("--batch-size", type=int, default=512)
    arguments.add_argument("--batches", type=int, default=60, help="of a run without a limit")
    arguments.add_argument("--rounds", type=int, default=3)
    arguments.add_argument("--limited-batches", type=int, default=4)
    arguments.add_argument("--limited-rounds", type=int, default=1)
    arguments.add_argument("--without-limit", action="store_true", help="skip the cells that require a control group")
    arguments.add_argument("--out", type=Path)
    arguments.add_argument("--loading", metavar="DATA", help=argparse.SUPPRESS)
    chosen = arguments.parse_args()
    if chosen.loading:
        loading(Path(chosen.loading), chosen.batch_size)
        return
    if shutil.which("fio") is None:
        sys.exit("disk_rows: fio is not installed (apt install fio)")
    table = chosen.nodes * DIM * 4
    limit = table // 4
    # Half of the limit: the rest is for the roles themselves and the graph.
    cache = f"{limit // 2 >> 20}MiB"
    found = {"machine": machine(), "nodes": chosen.nodes, "table_bytes": table, "limit_bytes": limit, "cells": {}}

    def cell(name, value):
        found["cells"].setdefault(name, []).append(value)
        shown = value["batches_per_second"] if isinstance(value, dict) else value
        print(f"{name:<46} {shown:12.3f}", flush=True)
        # What was measured is kept even where a later cell is given up.
        if chosen.out:
            chosen.out.write_text(json.dumps(found, indent=1) + "\n")

    with tempfile.TemporaryDirectory(dir=chosen.dir, prefix="uvatrain-disk-rows-") as temporary:
        folder = Path(temporary)
        data = folder / "data"
        run([chosen.binary, "generate", data, "--kind", "powerlaw", "--nodes", chosen.nodes, "--avg-degree", 10, "--feat-dim",
             DIM, "--train-share", "0.1"])
        shorten(data / "train_idx.npy", chosen.batches * chosen.batch_size)
        for split in ("valid", "test"):
            shorten(data / f"{split}_idx.npy", 64)
        for _ in range(chosen.rounds):
            reported, fio, size = device(chosen.binary, data, chosen.batch_size)
            found["device_read_bytes"] = size
            cell("device: ours, reads/s", reported["disk"]["reads_per_second"])
            cell(f"device: fio, {size} bytes, reads/s", fio)
        # The table is in the system's cache from here on.
        with open(data / "feat.npy", "rb") as file:
            while file.read(1 << 24):
                pass
        for _ in range(chosen.rounds):
            for model, options in MODELS.items():
                def of(*more):
                    return trained(chosen.binary, data, folder, chosen.batch_size, [*options, *more], epochs=EPOCHS)

                cell(f"in memory: memory{model}", of("--features", "memory"))
                disk = ["--features", "disk", "--host-cache", f"{table * 2 // 5 >> 20}MiB"]
                cell(f"in memory: disk, cache of 40 %{model}", of(*disk))
        if chosen.without_limit:
            return
        shorten(data / "train_idx.npy", chosen.limited_batches * chosen.batch_size)
        for _ in range(chosen.limited_rounds):
            cell("training: mapped", trained(chosen.binary, data, folder, chosen.batch_size, ["--features", "memory"], limit))
            disk = ["--features", "disk", "--host-cache", cache]
            cell("training: disk", trained(chosen.binary, data, folder, chosen.batch_size, disk, limit))
            ours = [sys.executable, __file__, "--loading", data, "--batch-size", chosen.batch_size]
            cell("loading: uvatrain", float(run(ours, limit, data)))
            if chosen.graphbolt_python:
                theirs = [chosen.graphbolt_python, "-c", GRAPHBOLT, data, chosen.batch_size, FANOUTS]
                cell("loading: graphbolt, mapped", float(run(theirs, limit, data)))


if __name__ == "__main__":
    main()
