#!/usr/bin/env python3
"""Runs the pairs of scripts in examples/migration, theirs and ours, and compares their test accuracies.

    scripts/measure/migration.py --graph DATA [--dgl PYTHON] [--pyg PYTHON] [--seeds 3] [--epochs 10] [--out FILE.json]

DATA is a dataset. --dgl and --pyg name the Pythons that have DGL, and PyG with torch-sparse or pyg-lib:

    scripts/peers/environment.sh dgl
    scripts/peers/environment.sh pyg

Without one of them, the scripts that need it are left out, and the result says so. Ours of GraphBolt needs no DGL and
runs in PyG's. Each script is a process of its own. The module is the installed one or lies on PYTHONPATH, in both
environments. GraphBolt's scripts read what `uvatrain export --to graphbolt` makes of DATA, and what `uvatrain import`
makes of that.

Ends with 1 where the means of a pair differ by more than --within (default 0.01), or where a script fails.
"""
import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts/measure"))
from watched import machine  # noqa: E402

SCRIPTS = ROOT / "examples/migration"
#: Each pair: which environment theirs and ours run in.
PAIRS = {"dgl": ("dgl", "dgl"), "graphbolt": ("dgl", "pyg"), "pyg": ("pyg", "pyg")}
VERSIONS = """
import importlib, json
found = {}
for name in ("torch", "dgl", "torch_geometric", "torch_sparse", "pyg_lib"):
    try:
        found[name] = importlib.import_module(name).__version__
    except Exception:
        pass
print(json.dumps(found))
"""


def said(*command):
    """What a command prints; one that fails ends this script."""
    environment = {**os.environ, "OMP_WAIT_POLICY": "passive", "DGLBACKEND": "pytorch"}
    ended = subprocess.run(list(map(str, command)), capture_output=True, text=True, env=environment)
    if ended.returncode != 0:
        sys.exit(f"migration: {' '.join(map(str, command))}\nended with {ended.returncode}:\n{ended.stdout}{ended.stderr}")
    return ended.stdout


def accuracies(python, script, data, arguments):
    """The test accuracy of a script for each seed."""
    found = []
    for seed in range(arguments.seeds):
        text = said(python, SCRIPTS / script, data, "--epochs", arguments.epochs, "--seed", seed)
        accuracy = re.search(r"^test accuracy (\d\.\d+)$", text, re.MULTILINE)
        if accuracy is None:
            sys.exit(f"migration: {script} printed no test accuracy:\n{text}")
        found.append(float(accuracy[1]))
        print(f"{script:<22} seed {seed}  {found[-1]:.4f}", flush=True)
    return found


def summary(values):
    spread = statistics.stdev(values) if len(values) > 1 else None
    return {"mean": round(statistics.mean(values), 4), "deviation": spread and round(spread, 4), "seeds": values}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--graph", type=Path, required=True, help="a dataset with labels and all three splits")
    parser.add_argument("--dgl", help="a Python with DGL and GraphBolt")
    parser.add_argument("--pyg", default=sys.executable, help="a Python with PyG; default: the one that runs this")
    parser.add_argument("--program", default="uvatrain", help="the command line")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--within", type=float, default=0.01, help="how far the means of a pair may be apart")
    parser.add_argument("--only", choices=PAIRS, help="one pair")
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    pythons = {"dgl": arguments.dgl, "pyg": arguments.pyg}
    versions = {name: json.loads(said(python, "-c", VERSIONS)) for name, python in pythons.items() if python}
    sampler = {"torch_sparse", "pyg_lib"} & set(versions["pyg"])

    found, far = {}, []
    with tempfile.TemporaryDirectory(prefix="uvatrain-migration-") as folder:
        data = {name: (arguments.graph, arguments.graph) for name in PAIRS}
        if arguments.only in (None, "graphbolt"):
            exported, imported = Path(folder) / "ondisk", Path(folder) / "imported"
            said(arguments.program, "export", arguments.graph, exported, "--to", "graphbolt")
            said(arguments.program, "import", "--from", "graphbolt", exported, imported)
            data["graphbolt"] = (exported, imported)
        for name, environments in PAIRS.items():
            if arguments.only not in (None, name):
                continue
            of_pair = {}
            for side, environment, source in zip(("theirs", "ours"), environments, data[name]):
                script, python = f"{name}_{side}.py", pythons[environment]
                if python is None or script == "pyg_theirs.py" and not sampler:
                    lacking = "a Python with DGL (--dgl)" if python is None else "torch-sparse or pyg-lib"
                    print(f"{script:<22} left out: it needs {lacking}", flush=True)
                    continue
                of_pair[side] = summary(accuracies(python, script, source, arguments))
            if len(of_pair) == 2:
                difference = of_pair["ours"]["mean"] - of_pair["theirs"]["mean"]
                of_pair["difference"] = round(difference, 4)
                if abs(difference) > arguments.within:
                    far.append(f"{name}: {difference:+.4f}")
            found[name] = of_pair

    for name, of_pair in found.items():
        shown = "  ".join(f"{side} {of_pair[side]['mean']:.4f}" for side in ("theirs", "ours") if side in of_pair)
        print(f"{name:<10} {shown}" + (f"  difference {of_pair['difference']:+.4f}" if "difference" in of_pair else ""))
    if arguments.out:
        report = {
            "about": "Made by scripts/measure/migration.py; docs/guide/migration.md quotes it.",
            "machine": machine(), "versions": versions, "graph": arguments.graph.name,
            "epochs": arguments.epochs, "pairs": found,
        }
        # With --only, the other pairs of an earlier call stay, if they trained on the same graph for as long.
        if arguments.out.exists():
            before = json.loads(arguments.out.read_text())
            if all(before[name] == report[name] for name in ("graph", "epochs")):
                report["versions"] = {**before["versions"], **versions}
                report["pairs"] = {**before["pairs"], **found}
        arguments.out.write_text(json.dumps(report, indent=1) + "\n")
    if far:
        print(f"migration: means are further apart than {arguments.within}: {', '.join(far)}", file=sys.stderr)
    return 1 if far else 0


if __name__ == "__main__":
    sys.exit(main())
