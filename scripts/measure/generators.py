#!/usr/bin/env python3
"""Measures the memory and the time that `uvatrain generate` takes, kind by kind, at growing numbers of edges.

    scripts/measure/generators.py [--binary target/release/uvatrain] [--dir DIR] [--out docs/results/generators.json]
                          [--edges 1e6,1e7,1e8] [--kinds powerlaw,rmat,sbm,citation,web]

Each graph has 20 edges a node and one feature, so that lists are what is written, and is removed again; the largest
needs about 6 bytes an edge in DIR. What --out holds already of other kinds or sizes stays in it. Memory is the peak
of the process's resident pages, from wait4: pages of the files themselves are the kernel's and not counted.
Needs only Python.
"""
import argparse
import json
import shutil
import tempfile
from pathlib import Path

from watched import machine, watched

ROOT = Path(__file__).resolve().parents[2]
DEGREE = 20


def measure(binary, directory, kind, edges):
    out = directory / f"{kind}-{edges}"
    _, took = watched([binary, "generate", out, "--kind", kind, "--nodes", edges // DEGREE, "--avg-degree", DEGREE,
                       "--feat-dim", "1"])
    size = lambda name: (out / name).stat().st_size
    found = {
        "kind": kind,
        "nodes": edges // DEGREE,
        "edges": (size("indices.npy") - 128) // 4,
        "seconds": took["seconds"],
        "cpu_seconds": took["cpu_seconds"],
        "peak_rss_bytes": took["peak_bytes"],
        "disk_bytes": sum(file.stat().st_size for file in out.iterdir()),
    }
    shutil.rmtree(out)
    return found


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
        measured = {(run["kind"], run["nodes"]) for run in runs}
        if chosen.out.exists():
            before = json.loads(chosen.out.read_text())["runs"]
            runs += [run for run in before if (run["kind"], run["nodes"]) not in measured]
        runs.sort(key=lambda run: (run["kind"], run["nodes"]))
        chosen.out.write_text(json.dumps({"machine": machine(), "runs": runs}, indent=1) + "\n")


if __name__ == "__main__":
    main()
