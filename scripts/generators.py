#!/usr/bin/env python3
"""Measures the memory and the time that `uvatrain generate` takes, kind by kind, at growing numbers of edges.

    scripts/generators.py [--binary target/release/uvatrain] [--dir DIR] [--out docs/results/generators.json]
                          [--edges 1e6,1e7,1e8] [--kinds powerlaw,rmat,sbm,citation,web]

Each graph has 20 edges a node and one feature, so that lists are what is written, and is removed again; the largest
needs about 6 bytes an edge in DIR. What --out holds already of other kinds or sizes stays in it. Memory is the peak
of the process's resident pages, as wait4 tells it: pages of the files themselves are the kernel's and not counted.
Needs nothing but Python.
"""
import argparse
import json
import os
import platform
import shutil
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DEGREE = 20


def measure(binary, directory, kind, edges):
    out = directory / f"{kind}-{edges}"
    command = [str(binary), "generate", str(out), "--kind", kind, "--nodes", str(edges // DEGREE), "--avg-degree",
               str(DEGREE), "--feat-dim", "1"]
    start = time.monotonic()
    pid = os.fork()
    if pid == 0:
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 2)
        os.execv(command[0], command)
    _, status, usage = os.wait4(pid, 0)
    seconds = time.monotonic() - start
    if status != 0:
        sys.exit(f"{' '.join(command)}\nended with status {status}")
    size = lambda name: (out / name).stat().st_size
    found = {
        "kind": kind,
        "nodes": edges // DEGREE,
        "edges": (size("indices.npy") - 128) // 4,
        "seconds": round(seconds, 3),
        "cpu_seconds": round(usage.ru_utime + usage.ru_stime, 3),
        "peak_rss_bytes": usage.ru_maxrss * 1024,
        "disk_bytes": sum(file.stat().st_size for file in out.iterdir()),
    }
    shutil.rmtree(out)
    return found


def cpu():
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor()


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--binary", type=Path, default=ROOT / "target/release/uvatrain")
    arguments.add_argument("--dir", type=Path)
    arguments.add_argument("--out", type=Path)
    arguments.add_argument("--edges", default="1e6,1e7,1e8")
    arguments.add_argument("--kinds", default="powerlaw,rmat,sbm,citation,web")
    chosen = arguments.parse_args()

    runs = []
    with tempfile.TemporaryDirectory(dir=chosen.dir) as directory:
        for edges in (int(float(edges)) for edges in chosen.edges.split(",")):
            for kind in chosen.kinds.split(","):
                runs.append(measure(chosen.binary, Path(directory), kind, edges))
                run = runs[-1]
                print(f"{kind:<10} {run['edges']:>13,} edges  {run['seconds']:>8.2f} s  "
                      f"{run['peak_rss_bytes'] / 2**20:>7.1f} MiB", flush=True)
    if chosen.out:
        machine = {"cpu": cpu(), "cores": os.cpu_count()}
        measured = {(run["kind"], run["nodes"]) for run in runs}
        if chosen.out.exists():
            before = json.loads(chosen.out.read_text())["runs"]
            runs += [run for run in before if (run["kind"], run["nodes"]) not in measured]
        runs.sort(key=lambda run: (run["kind"], run["nodes"]))
        chosen.out.write_text(json.dumps({"machine": machine, "runs": runs}, indent=1) + "\n")


if __name__ == "__main__":
    main()
