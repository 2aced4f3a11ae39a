#!/usr/bin/env python3
"""Records the behaviour of a build of uvatrain for comparison with another build: batch hashes, losses to the last digit, the
fields of --json output and of metrics, option names, defaults and values, exit codes and the options that errors name.
Prose is not recorded, and neither are times.

    scripts/check/goldens.py record PROGRAM FILE      run PROGRAM over small graphs, and write what it did
    scripts/check/goldens.py compare BEFORE AFTER     print every difference; exit code 1 if there is one

Both recordings have to come from one machine: losses differ in their last digits between kinds of processor.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

KINDS = ["neighbor", "labor", "ladies", "fastgcn", "saint-node", "saint-edge", "walk"]
LIMIT_S = 300


class Program:
    """The build under test, run in a folder of its own."""

    def __init__(self, path, folder):
        self.path = str(Path(path).resolve())
        self.folder = folder
        self.environment = {
            "HOME": str(folder), "PATH": os.environ["PATH"], "NO_COLOR": "1", "COLUMNS": "100",
            "XDG_CACHE_HOME": str(folder / "cache"), "UVATRAIN_CACHE": os.environ.get(
                "UVATRAIN_CACHE", str(Path.home() / ".cache/uvatrain")),
        }

    def run(self, *words):
        return subprocess.run(
            [self.path, *words], cwd=self.folder, env=self.environment, capture_output=True, text=True, timeout=LIMIT_S
        )

    def done(self, *words):
        outcome = self.run(*words)
        if outcome.returncode != 0:
            raise SystemExit(f"goldens: {' '.join(words)}: code {outcome.returncode}\n{outcome.stderr}")
        return outcome.stdout


def shape(value):
    """The fields and kinds of a JSON value, without what it says."""
    if isinstance(value, dict):
        return {name: shape(each) for name, each in sorted(value.items())}
    if isinstance(value, list):
        kinds = []
        for each in map(shape, value):
            if each not in kinds:
                kinds.append(each)
        return kinds
    return type(value).__name__.replace("int", "number").replace("float", "number")


def metrics(path):
    """The fields of each kind of event, and hash and loss of each batch."""
    fields, batches = {}, []
    for line in path.read_text().splitlines():
        event = json.loads(line)
        kind = event.get("event", "?")
        for name in shape(event):
            fields.setdefault(kind, set()).add(name)
        if "hash" in event:
            batches.append([event.get("epoch"), event.get("batch"), event["hash"], repr(event.get("loss"))])
        for name in ("train_accuracy", "valid_accuracy", "test_accuracy", "accuracy"):
            if name in event:
                batches.append([kind, event.get("epoch"), name, repr(event[name])])
    return {"fields": {kind: sorted(names) for kind, names in fields.items()}, "batches": batches}


def options(text):
    """Each option of a --help page with its default and its values."""
    found = {}
    for block in re.split(r"\n(?=\s{2,8}-)", text):
        head = re.match(r"\s*(?:-\w, )?(--[\w-]+|-\w)( [<\[][^\n]*?[>\]](?:\.\.\.)?)?(?=\s|$)", block)
        if not head:
            continue
        words = " ".join(block.split())
        default = re.search(r"\[default: ([^\]]*)\]", words)
        values = re.findall(r"\n\s+- ([\w.-]+):", block)
        given = re.search(r"\[possible values: ([^\]]*)\]", words)
        found[head[1]] = {
            "takes": bool(head[2]),
            "default": default and default[1],
            "values": values or (given and given[1].split(", ")),
        }
    return found


def pages(program):
    """The options of every command."""
    found = {}
    pending = [()]
    while pending:
        words = pending.pop()
        text = program.done(*words, "--help")
        found[" ".join(words)] = options(text)
        listed = re.search(r"\nCommands:\n(.*?)\n\n", text, re.DOTALL)
        for name in re.findall(r"^  ([a-z][\w-]*)", listed[1], re.MULTILINE) if listed else []:
            if name != "help":
                pending.append((*words, name))
    return found


MISTAKES = [
    "train", "train nothing", "train graph --batch-size 0", "train graph --fanouts 0", "train graph --fanouts -2",
    "train graph --fanouts x", "train graph --samplers 0", "train graph --samplers 121", "train graph --slots 0",
    "train graph --slots 100000", "train graph --batch-slots 1", "train graph --gather-threads 0",
    "train graph --gather-threads 100000", "train graph --batch-dependency 0", "train graph --sampler-kind neighbour",
    "train graph --model sagee", "train graph --slot-bytes 1", "train graph --epochs 0", "train graph --hidden 0",
    "train graph --heads 0 --model gat", "train graph --dropout 1", "train graph --dropout -1", "train graph --lr 0",
    "train graph --lr nan", "train graph --device cuda:7", "train graph --device gpu", "train graph --gather dma --device cpu",
    "train graph --feature-type int4", "train graph --resume", "train graph --metric roc-auc", "train graph --patience 0",
    "train graph --gpu-cache 1", "train graph --gpu-cache 1PB", "train graph --eval none --patience 1",
    "train graph --sampler-kind weighted", "train graph --sampler-kind walk --walks 0",
    "train graph --sampler-kind ladies --replace", "train graph --config missing.toml", "train graph --config bad.toml",
    "train graph --config known.toml", "run graph", "run graph -- ./missing", "bench sample nothing", "bench sample graph --batches 0",
    "bench gather graph --threads 0", "bench pipeline graph --samplers 0", "generate graph", "generate new --nodes 0",
    "generate new --nodes 10 --avg-degree -1", "generate new --nodes 10 --classes 0", "import nothing new",
    "import graph new --format ogb", "import graph new --format unknown", "export graph", "export graph out --format x",
    "info nothing", "info bad.toml", "plan graph", "plan graph --fanouts 10,5 --gpu-cache 0", "report nothing.jsonl", "report bad.toml",
    "mps start --device 9", "top 1", "unknown", "train graph --unknown 1", "bench pcie", "doctor --unknown",
]


def errors(program):
    """Code of each mistake, and the options and files that its error names."""
    (program.folder / "bad.toml").write_text("[train]\nbatch-sizes = 3\n")
    (program.folder / "known.toml").write_text("[train]\nbatch-size = \"x\"\n")
    found = {}
    for words in MISTAKES:
        outcome = program.run(*words.split())
        said = outcome.stderr.split("\n\nUsage:")[0]
        named = set(re.findall(r"--[a-z][\w-]*", said)) & set(re.findall(r"--[a-z][\w-]*", words)) | set(
            re.findall(r"[\w-]+\.(?:toml|npy|jsonl)", said)
        )
        found[words] = {"code": outcome.returncode, "names": sorted(named)}
    return found


def trained(program, name, *words, epochs=2):
    """Metrics of a training run."""
    path = f"{name}.jsonl"
    program.done(
        "train", "graph", "--epochs", str(epochs), "--batch-size", "300", "--hidden", "16", "--train-threads", "1", "--metrics",
        path, *words,
    )
    return metrics(program.folder / path)


def record(program):
    graph = ["--nodes", "6000", "--avg-degree", "15", "--feat-dim", "50", "--classes", "4", "--seed", "7"]
    program.done("generate", "graph", *graph)
    found = {"options": pages(program), "errors": errors(program)}
    found["info"] = shape(json.loads(program.done("info", "graph", "--json")))
    found["files"] = {
        path.name: path.stat().st_size for path in sorted((program.folder / "graph").iterdir()) if path.suffix == ".npy"
    }
    runs = found["trained"] = {}
    for kind in KINDS:
        fanouts = {"ladies": "400,400", "fastgcn": "400,400", "saint-node": "1,1", "saint-edge": "1,1"}.get(kind, "10,5")
        runs[f"kind {kind}"] = trained(program, f"kind-{kind}", "--sampler-kind", kind, "--fanouts", fanouts)
    for model in ["sage", "gcn", "gat"]:
        runs[f"model {model}"] = trained(program, f"model-{model}", "--model", model, "--fanouts", "10,5", "--eval", "full")
    for name, words in {
        "replace": "--fanouts 10,5 --replace", "dependent": "--fanouts 10,5 --batch-dependency 4",
        "expand new": "--fanouts 10,5 --expand new", "samplers": "--fanouts 10,5 --samplers 3",
        "in process": "--fanouts 10,5 --in-process", "fifo": "--fanouts 10,5 --gpu-cache 100KiB --cache-policy fifo",
        "cached": "--fanouts 10,5 --gpu-cache 200KiB", "residual": "--fanouts 5,5 --residual --norm layer",
        "checkpointed": "--fanouts 5,5 --checkpoint kept",
    }.items():
        runs[name] = trained(program, name.replace(" ", "-"), *words.split())
    runs["resumed"] = trained(program, "resumed", *"--fanouts 5,5 --checkpoint kept --resume".split(), epochs=3)
    for name, words in {
        "bench sample": "bench sample graph --fanouts 10,5 --batch-size 300 --json",
        "bench gather": "bench gather graph --json", "doctor": "doctor --json",
        "bench pipeline": "bench pipeline graph --fanouts 10,5 --batch-size 300 --json",
        "plan": "plan graph --gpu-cache 1MiB --out planned.json --fanouts 10,5 --json",
    }.items():
        outcome = program.run(*words.split())
        said = outcome.stdout.strip()
        found[name] = {"code": outcome.returncode, "fields": shape(json.loads(said)) if said.startswith("{") else None}
    return found


def differences(before, after, path=""):
    """Lines that say where two recordings differ."""
    if isinstance(before, dict) and isinstance(after, dict):
        for name in sorted(before.keys() | after.keys()):
            here = f"{path} / {name}" if path else name
            if name not in after:
                yield f"{here}: gone"
            elif name not in before:
                yield f"{here}: new"
            else:
                yield from differences(before[name], after[name], here)
    elif before != after:
        yield f"{path}: {str(before)[:300]} -> {str(after)[:300]}"


def main():
    if len(sys.argv) != 4 or sys.argv[1] not in ("record", "compare"):
        raise SystemExit(__doc__)
    if sys.argv[1] == "record":
        with tempfile.TemporaryDirectory() as folder:
            found = record(Program(sys.argv[2], Path(folder)))
        Path(sys.argv[3]).write_text(json.dumps(found, indent=1) + "\n")
        batches = sum(len(run["batches"]) for run in found["trained"].values() if isinstance(run, dict))
        print(f"{sys.argv[3]}: {batches} batches and results, {len(found['errors'])} mistakes, {len(found['options'])} pages")
        return 0
    lines = list(differences(*(json.loads(Path(path).read_text()) for path in sys.argv[2:])))
    print("\n".join(lines) or "no difference")
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
