#!/usr/bin/env python3
"""Shows what an order of the seeds costs in accuracy: `train --seed-order` compared with shuffled seeds, on real graphs.

    scripts/measure/orders.py [--binary target/release/uvatrain] [--seeds 3] [--orders shuffle segments:16 …]
                              [--out docs/results/orders.json]

GraphSAGE with the options of scripts/measure/accuracy.py trains on each graph in each order, with every seed. A figure is the
mean over the seeds of the test accuracy of the model that is best by validation, and how many points that is from `shuffle`. The
file has the curves: validation accuracy by epoch. An order within 0.5 points of `shuffle` on every graph would do as a
default. Times are not measured, so the machine may be busy. Needs only Python and the graphs
(scripts/setup/datasets.sh unpacks them).
"""
import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from accuracy import CITATION, LARGER, ROOT, cache

GRAPHS = {
    # Its 140 training nodes in two batches: in one batch any order is the same.
    "cora": f"{CITATION} --batch-size 70",
    "oewn": f"{LARGER} --batch-size 1024 --dropout 0.5 --epochs 40 --patience 8",
    "cnr2000_web": f"{LARGER} --batch-size 4096 --dropout 0.2 --epochs 30 --patience 5",
}
ORDERS = ["shuffle", "segments:16", "proximity:64", "proximity:1", "proximity"]


def trained(binary, graph, options, order, seed, metrics):
    """Test accuracy in per cent, and the validation accuracy of each epoch."""
    more = ["--seed-order", order, "--seed", str(seed), "--device", "cpu", "--metrics", metrics]
    command = [binary, "train", graph, "--model", "sage", *options.split(), *more]
    ended = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if ended.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}\nended with {ended.returncode}:\n{ended.stderr}")
    lines = [json.loads(line) for line in metrics.read_text().splitlines()]
    curve = [round(100 * line["valid_accuracy"], 2) for line in lines if line["event"] == "epoch"]
    return 100 * lines[-1]["test_accuracy"], curve


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--binary", type=Path, default=ROOT / "target/release/uvatrain")
    arguments.add_argument("--graphs", nargs="+", choices=list(GRAPHS), default=list(GRAPHS))
    arguments.add_argument("--orders", nargs="+", default=ORDERS, help="the first is what the others are compared with")
    arguments.add_argument("--seeds", type=int, default=3)
    arguments.add_argument("--data", type=Path, default=cache() / "datasets", help="the folder of the graphs")
    arguments.add_argument("--out", type=Path)
    chosen = arguments.parse_args()
    found = {}
    print(f"{'graph':<12} {'order':<14} {'mean':>6} {'± std':>6} {'points':>7}  seeds")
    with tempfile.TemporaryDirectory() as temporary:
        for name in chosen.graphs:
            found[name] = {"options": GRAPHS[name], "orders": {}}
            for order in chosen.orders:
                runs = [
                    trained(chosen.binary, chosen.data / name, GRAPHS[name], order, seed, Path(temporary) / "run.jsonl")
                    for seed in range(chosen.seeds)
                ]
                values = [accuracy for accuracy, _ in runs]
                mean, spread = statistics.mean(values), statistics.stdev(values) if len(values) > 1 else 0.0
                rows = found[name]["orders"]
                points = mean - (rows[chosen.orders[0]]["mean"] if rows else mean)
                rows[order] = {
                    "mean": round(mean, 3),
                    "stdev": round(spread, 3),
                    "points": round(points, 3),
                    "test_accuracy": [round(value, 3) for value in values],
                    "valid_accuracy_by_epoch": [curve for _, curve in runs],
                }
                shown = " ".join(f"{value:.2f}" for value in values)
                print(f"{name:<12} {order:<14} {mean:6.2f} {spread:6.2f} {points:+7.2f}  {shown}", flush=True)
                if chosen.out:
                    chosen.out.write_text(json.dumps(found) + "\n")


if __name__ == "__main__":
    main()
