#!/usr/bin/env python3
"""Measures how soon ranks train again after one of them was killed: torchrun restarts all, and they resume from the last
checkpoint.

    PYTHON scripts/measure/recovery.py --data DATA [--ranks 2] [--rounds 3] [--out docs/results/recovery.json]

Each round starts `torchrun --max-restarts 1 -m uvatrain.train` with a checkpoint every 20 steps, kills a rank by SIGKILL when the
checkpoint is ten steps old, and waits until the batches have come again that were lost. Printed for each round:

  recovery     seconds from the kill to the first batch that is trained again
  replay       seconds from there until all lost batches are trained again, and how many steps those were

PYTHON has this checkout's module (scripts/check/python.sh says how).
"""
import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts/measure"))
from watched import machine  # noqa: E402

EVERY = 20
#: Steps after the checkpoint at which a rank is killed.
LOST = 10
LIMIT = 300


def batches(path):
    """The batches that the metrics have so far, each as (epoch, batch)."""
    if not path.exists():
        return []
    lines = (line for line in path.read_text().splitlines(keepends=True) if line.endswith("\n"))
    reported = (json.loads(line) for line in lines)
    return [(line["epoch"], line["batch"]) for line in reported if line.get("event") == "batch"]


def wait_for(what, found):
    until = time.monotonic() + LIMIT
    while time.monotonic() < until:
        value = found()
        if value:
            return value
        time.sleep(0.01)
    sys.exit(f"recovery.py: waited {LIMIT} s until {what}")


def worker_of(torchrun, rank):
    """The process of this rank."""
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            variables = (entry / "environ").read_bytes().split(b"\0")
            parent = int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1])
        except (OSError, IndexError):
            continue
        if parent == torchrun and f"RANK={rank}".encode() in variables:
            return int(entry.name)
    return None


def one_round(chosen, folder):
    metrics = folder / "run.jsonl"
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(chosen.ranks),
               "--max-restarts", "1", "-m", "uvatrain.train", chosen.data, "--fanouts", "10,5", "--batch-size", "256",
               "--epochs", "50", "--checkpoint", folder / "run", "--checkpoint-every", str(EVERY), "--metrics", metrics]
    environment = dict(os.environ, GLOO_SOCKET_IFNAME="lo", OMP_NUM_THREADS="1")
    with (folder / "said").open("w") as said:
        run = subprocess.Popen(command, env=environment, stdout=said, stderr=said, start_new_session=True)
        try:
            before = wait_for("ranks train", lambda: (now := batches(metrics)) and len(now) >= 3 * EVERY + LOST and now)
            victim = worker_of(run.pid, chosen.ranks - 1)
            os.kill(victim, signal.SIGKILL)
            killed = time.monotonic()
            # Lines that were buffered.
            lost = wait_for("a batch is trained again", lambda: again(metrics, len(before)))
            recovered = time.monotonic()
            wait_for("all lost batches are trained again", lambda: batches(metrics).count(lost[-1]) > 1)
            replayed = time.monotonic()
        finally:
            # Its workers have sessions of their own: torchrun ends them, and then itself.
            run.terminate()
            run.wait(60)
    return {"recovery_s": recovered - killed, "replay_s": replayed - recovered, "steps": len(lost)}


def again(metrics, before):
    """The batches that are to be trained again: from the first that the metrics have twice; none before that."""
    now = batches(metrics)
    twice = next((at for at in range(before, len(now)) if now[at] in now[:at]), None)
    return [] if twice is None else now[now.index(now[twice]):twice]


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--data", required=True)
    arguments.add_argument("--ranks", type=int, default=2)
    arguments.add_argument("--rounds", type=int, default=3)
    arguments.add_argument("--out", type=Path)
    chosen = arguments.parse_args()
    rounds = []
    for _ in range(chosen.rounds):
        with tempfile.TemporaryDirectory(prefix="uvatrain-recovery-") as folder:
            rounds.append(one_round(chosen, Path(folder)))
        print("recovery {recovery_s:.1f} s, replay {replay_s:.1f} s of {steps} steps".format(**rounds[-1]), flush=True)
    median = {name: statistics.median(one[name] for one in rounds) for name in rounds[0]}
    print("median: recovery {recovery_s:.1f} s, replay {replay_s:.1f} s of {steps} steps".format(**median))
    if chosen.out:
        found = {"machine": machine(), "ranks": chosen.ranks, "rounds": rounds, "median": median}
        chosen.out.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
