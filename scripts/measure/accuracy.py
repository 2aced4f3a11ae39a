#!/usr/bin/env python3
"""Trains the built-in models on real graphs and compares their test results with published references.

    scripts/measure/accuracy.py [--only NAME,…] [--seeds 5] [--out docs/results/accuracy.json]

Each row is a graph and a model, and in some a sampler or a type of stored features, trained with several seeds by the
real binary; the mean may be at most one point below the reference, which is a published figure, for a sampler the mean
of neighbour sampling, or for a narrower type the mean with float32 features. Rows of a hop set train on one that
`uvatrain propagate` makes with the row's options; their reference is a published figure, or the graph's best sampled model.
What is compared is the accuracy, or with `--metric roc-auc` among a row's options the area under the ROC curve.
Hyper-parameters are ours and chosen on the validation nodes; a run keeps the model that is best on them (--patience).
Needs only Python and the graphs (scripts/setup/datasets.sh unpacks them). Exit code 1 if a row falls short.
"""
import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# A mean this far below the reference, in points, still counts as reproduced.
TOLERANCE = 1.0

# Kipf & Welling's settings.
CITATION = (
    "--fanouts=-1,-1 --slot-bytes 256MiB --hidden 64 --feature-norm row --dropout 0.5 --input-dropout 0.5 "
    "--lr 0.01 --weight-decay 5e-4 --epochs 200 --patience 60 --eval full"
)
# Veličković et al.'s.
CITATION_GAT = (
    "--fanouts=-1,-1 --slot-bytes 256MiB --hidden 64 --heads 8 --output-heads 1 --feature-norm row --dropout 0.6 "
    "--input-dropout 0.6 --attention-dropout 0.6 --lr 0.005 --weight-decay 5e-4 --epochs 300 --patience 100 --eval full"
)
CITESEER_SAGE = (
    "--fanouts=-1,-1 --slot-bytes 256MiB --batch-size 120 --hidden 64 --feature-norm row --dropout 0.7 "
    "--input-dropout 0.7 --lr 0.005 --weight-decay 5e-3 --epochs 200 --patience 60 --eval full"
)
COMPUTERS = "--fanouts 25,25 --batch-size 200 --hidden 64 --feature-norm row --dropout 0.5 --eval full"
COMPUTERS_SAGE = (
    "--fanouts 25,25 --batch-size 200 --hidden 128 --feature-norm row --dropout 0.7 --input-dropout 0.3 --lr 0.03 "
    "--weight-decay 1e-5 --epochs 200 --patience 60 --eval full"
)
PHYSICS = (
    "--fanouts 15,15 --batch-size 100 --hidden 64 --feature-norm row --dropout 0.5 --lr 0.02 --weight-decay 5e-4 "
    "--epochs 50 --patience 25"
)
# Platonov et al.'s architecture, narrower and with a larger step than theirs; whole neighbourhoods.
MINESWEEPER = (
    "--fanouts=-1,-1,-1,-1 --slot-bytes 256MiB --batch-size 1250 --hidden 64 --residual --norm layer --dropout 0.2 "
    "--lr 0.003 --epochs 120 --patience 60 --metric roc-auc --eval full"
)
LARGER = "--fanouts 15,15 --hidden 128 --lr 0.01 --eval full"

SAMPLED_COMPUTERS = COMPUTERS_SAGE.replace("--fanouts 25,25", "")
SAMPLED_WEB = f"{LARGER} --batch-size 4096 --dropout 0.2 --epochs 30 --patience 5".replace("--fanouts 15,15", "")

# graph, model, reference in % (accuracy, or the area under the ROC curve with --metric roc-auc), options
PUBLISHED = [
    ("cora", "gcn", 81.5, f"{CITATION} --batch-size 140"),
    ("cora", "sage", 80.4, f"{CITATION} --batch-size 140"),
    ("cora", "gat", 83.0, f"{CITATION_GAT} --batch-size 140"),
    ("citeseer", "gcn", 70.3, f"{CITATION} --batch-size 120"),
    ("citeseer", "sage", 71.1, CITESEER_SAGE),
    ("citeseer", "gat", 72.5, f"{CITATION_GAT} --batch-size 120"),
    ("amazon_computers", "gcn", 82.1, f"{COMPUTERS} --lr 0.02 --weight-decay 1e-5 --epochs 300 --patience 100"),
    ("amazon_computers", "sage", 83.7, COMPUTERS_SAGE),
    ("minesweeper", "sage", 93.51, MINESWEEPER),
    ("minesweeper", "gcn", 89.75, MINESWEEPER),
    ("minesweeper", "gat", 92.01, MINESWEEPER),
    ("coauthor_physics", "gcn", 92.2, PHYSICS),
    ("oewn", "sage", 72.8, f"{LARGER} --batch-size 1024 --dropout 0.5 --epochs 40 --patience 8"),
    ("cnr2000_web", "sage", 62.8, f"{LARGER} --batch-size 4096 --dropout 0.2 --epochs 30 --patience 5"),
]
# graph, model, options, and what else each sampler gets. The first is the reference of those that stand for the same mean
# over all neighbours and claim its quality.
SAME_QUALITY = ("labor", "ladies", "fastgcn")
SAMPLERS = [
    ("cora", "gcn", CITATION.replace("--fanouts=-1,-1 ", "") + " --batch-size 140", [
        ("neighbor 10,10", "--fanouts 10,10"),
        ("labor 10,10", "--sampler-kind labor --fanouts 10,10"),
        ("ladies 512,512", "--sampler-kind ladies --fanouts 512,512"),
        ("fastgcn 512,512", "--sampler-kind fastgcn --fanouts 512,512"),
        ("saint-node 512,512", "--sampler-kind saint-node --fanouts 512,512"),
        ("saint-edge 512,512", "--sampler-kind saint-edge --fanouts 512,512"),
        ("walk 10,10", "--sampler-kind walk --fanouts 10,10 --eval sampled"),
    ]),
    ("amazon_computers", "sage", SAMPLED_COMPUTERS, [
        ("neighbor 10,10", "--fanouts 10,10"),
        ("labor 10,10", "--sampler-kind labor --fanouts 10,10"),
        ("ladies 2400,2400", "--sampler-kind ladies --fanouts 2400,2400 --slot-bytes 256MiB"),
    ]),
    ("cnr2000_web", "sage", SAMPLED_WEB, [
        ("neighbor 5,5", "--fanouts 5,5"),
        ("labor 5,5", "--sampler-kind labor --fanouts 5,5"),
    ]),
]
# Graphs whose features float8 rounds, counts up to 77 and logarithms; the other graphs' are zeros and ones.
FLOAT8 = [("coauthor_physics", "gcn"), ("cnr2000_web", "sage")]
# Models of hop sets: graph, model, options of `propagate`, reference in % or the model whose row is the reference, options.
SGC = "--lr 0.2 --epochs 100"
ROW = "--operator row --hops 3"
HOPS = [
    ("cora", "sgc", "--hops 2 --feature-norm row", 81.0, f"{SGC} --batch-size 140 --weight-decay 1e-4"),
    ("citeseer", "sgc", "--hops 2 --feature-norm row", 71.9, f"{SGC} --batch-size 120 --weight-decay 2e-4"),
    ("oewn", "sign", ROW, "sage", "--hidden 256 --batch-size 1024 --lr 0.01 --dropout 0.5 --epochs 20"),
    ("oewn", "hoga", ROW, "sage", "--hidden 128 --heads 4 --batch-size 1024 --lr 0.003 --dropout 0.2 --epochs 12"),
    ("cnr2000_web", "sign", ROW, "sage", "--hidden 128 --batch-size 4096 --lr 0.01 --dropout 0.2 --epochs 15"),
    ("cnr2000_web", "hoga", ROW, "sage", "--hidden 64 --heads 4 --batch-size 2048 --lr 0.005 --dropout 0.2 --epochs 15"),
]
# The same as rows: graph, model, sampler, stored type, options of `propagate`, reference, options. Instead of a reference
# in % there may be the row that is the reference: its model, sampler and stored type.
ROWS = [(graph, model, "", "", "", reference, options) for graph, model, reference, options in PUBLISHED] + [
    (
        graph,
        model,
        sampler,
        "",
        "",
        (model, samplers[0][0], "") if sampler.split()[0] in SAME_QUALITY else None,
        f"{options.replace('--eval full', '') if '--eval' in more else options} {more}",
    )
    for graph, model, options, samplers in SAMPLERS
    for sampler, more in samplers
] + [
    (graph, model, "", "e4m3", "", (model, "", ""), options)
    for graph, model, _, options in PUBLISHED
    if (graph, model) in FLOAT8
] + [
    (graph, model, "", "", hops, (reference, "", "") if isinstance(reference, str) else reference, options)
    for graph, model, hops, reference, options in HOPS
]


def cache():
    base = os.environ.get("UVATRAIN_CACHE")
    if base:
        return Path(base)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "uvatrain"


def stored_as(kind, binary, graph, folder):
    """The graph with its features stored as this type."""
    copy = Path(folder) / f"{graph.name}-{kind}"
    if not copy.is_dir():
        command = [binary, "import", "--from", "npy", graph, copy, "--feat-dtype", kind]
        subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
    return copy


def propagated(hops, binary, graph, folder):
    """The hop set that these options make of the graph."""
    made = Path(folder) / f"{graph.name} {hops}".replace("/", " ")
    if not made.is_dir():
        command = [binary, "propagate", graph, made, *hops.split()]
        subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
    return made


def train(binary, graph, model, options, seed):
    command = [binary, "train", graph, "--model", model, "--seed", str(seed), "--json", *options.split()]
    ended = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if ended.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}\nended with {ended.returncode}:\n{ended.stderr}")
    return json.loads(ended.stdout)


def key(row):
    """What tells a row from the others; rows of former runs may have no stored type and no hop set."""
    return row["graph"], row["model"], row["sampler"], row.get("features", ""), row.get("hops", "")


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--only", help="graphs with all their rows, or rows: graph/model, graph/model/sampler; by commas")
    arguments.add_argument("--seeds", type=int, default=5)
    arguments.add_argument("--graphs", type=Path, default=cache() / "datasets")
    arguments.add_argument("--binary", type=Path, default=ROOT / "target/release/uvatrain")
    arguments.add_argument("--out", type=Path, help="write the rows as JSON; rows of a former run that this one "
                           "has not measured are kept")
    chosen = arguments.parse_args()
    only = chosen.only.split(",") if chosen.only else None
    former = json.loads(chosen.out.read_text())["rows"] if chosen.out and chosen.out.exists() else []

    rows, short = [], []
    copies = tempfile.TemporaryDirectory()
    print(f"{'graph':<17} {'model':<5} {'sampler, type':<15} {'mean':>6} {'± std':>6} {'reference':>9} {'seconds':>8}  seeds")
    for name, model, sampler, features, hops, reference, options in ROWS:
        row = "/".join([name, model, *sampler.split()[:1], *features.split()])
        if only and not {name, row} & set(only):
            continue
        graph = chosen.graphs / name
        if not graph.is_dir():
            sys.exit(f"{graph} is not there: run scripts/setup/datasets.sh, or give --graphs")
        if isinstance(reference, tuple):
            same = [row["mean"] for row in former + rows if key(row) == (name, *reference, "")]
            if not same:
                other = f"{reference[0]} {reference[1] or 'with the features as they are'}"
                sys.exit(f"{row} is compared with {other}, which was not measured: add it to --only")
            reference = same[-1]
        if features:
            graph = stored_as(features, chosen.binary, graph, copies.name)
        if hops:
            graph = propagated(hops, chosen.binary, graph, copies.name)
        since = time.monotonic()
        ends = [train(chosen.binary, graph, model, options, seed) for seed in range(chosen.seeds)]
        seconds = time.monotonic() - since
        measure = "test_roc_auc" if "--metric roc-auc" in options else "test_accuracy"
        values = [100 * end[measure] for end in ends]
        mean = statistics.mean(values)
        spread = statistics.stdev(values) if len(values) > 1 else 0.0
        reached = reference is None or mean >= reference - TOLERANCE
        reported = "" if reference is None else f"{reference:.1f}"
        print(f"{name:<17} {model:<5} {sampler or features or hops[:15]:<15} {mean:6.2f} {spread:6.2f} {reported:>9} {seconds:8.1f}  "
              + " ".join(f"{value:.2f}" for value in values) + ("" if reached else "   SHORT"), flush=True)
        rows.append({
            "graph": name, "model": model, "sampler": sampler, "features": features, "hops": hops, "options": options, "reference": reference,
            "mean": round(mean, 3), "stdev": round(spread, 3), "measure": measure,
            "values": [round(value, 3) for value in values], "epochs": [end["epochs"] for end in ends],
            "seconds": round(seconds, 1), "reached": reached,
        })
        if not reached:
            short.append(f"{name}/{model} {sampler}{features}{hops}".strip())
    if chosen.out:
        machine = {"system": platform.system(), "machine": platform.machine(), "cores": os.cpu_count()}
        measured = {key(row): row for row in former + rows}
        rows = [measured[row[:5]] for row in ROWS if row[:5] in measured]
        chosen.out.parent.mkdir(parents=True, exist_ok=True)
        chosen.out.write_text(json.dumps({"tolerance": TOLERANCE, "machine": machine, "rows": rows}, indent=1) + "\n")
    if short:
        sys.exit(f"more than {TOLERANCE} point below the reference: {', '.join(short)}")


if __name__ == "__main__":
    main()
