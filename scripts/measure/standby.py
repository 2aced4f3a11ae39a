#!/usr/bin/env python3
"""Measures what a standby trainer saves, with cores in place of GPUs: the sampler of `--roles 1:1` has one core, the trainer
another, and the rank that stands by shares the sampler's.

    PYTHON scripts/measure/standby.py --data DATA [--rounds 3] [--epochs 4] [--out docs/results/standby.json]

Runs alternate, round by round:

  alone        --roles 1:1
  auto         the same with --switch auto and the metrics of the first run alone
  throughout   the same with --switch 0

Printed for each: seconds of an epoch of training (the median; the first of a run is left out), and those that `--switch auto`
simulates from the metrics. Every run has to train the same batches. Producers are kept on no core: they work a few per cent of the
time.

PYTHON has torch and this checkout's module (scripts/check/python.sh says how), and UVATRAIN_PROGRAM names the program.
"""
import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# Before this folder, which has another ddp.py.
sys.path[:0] = [str(ROOT / "examples/python"), str(ROOT / "scripts/measure")]
from watched import machine  # noqa: E402

LIMIT = 600
SAMPLER_CORE, TRAINER_CORE = 0, 1


def train(folder, epochs):
    """A rank: trains, and writes down its batches and how long each epoch took."""
    import torch
    import torch.distributed as dist
    import torch.nn.functional as F
    import uvatrain
    from sage import Sage
    from standby_run import average_gradients, bring_up_to_date

    dist.init_process_group("gloo")
    loader = uvatrain.attach()
    os.sched_setaffinity(0, {TRAINER_CORE if dist.get_rank() < loader.trainers else SAMPLER_CORE})
    trainers = dist.new_group(list(range(loader.trainers)))
    torch.manual_seed(0)
    model = Sage(loader.dataset.feature_dim, 64, loader.dataset.num_classes, layers=2)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    seconds, hashes = [], []
    for _ in range(epochs):
        dist.barrier()
        began, have_joined = time.perf_counter(), False
        for batch in loader:
            all_train = loader.step_ranks > loader.trainers
            if all_train and not have_joined:
                bring_up_to_date(model, optimizer)
                have_joined = True
            loss = F.cross_entropy(model(batch), batch.y, ignore_index=-1)
            optimizer.zero_grad()
            loss.backward()
            average_gradients(model, None if all_train else trainers, loader.step_ranks)
            optimizer.step()
            hashes.append((batch.epoch, batch.index, batch.hash))
        dist.barrier()
        seconds.append(time.perf_counter() - began)
    (folder / f"rank{dist.get_rank()}.json").write_text(json.dumps({"seconds": seconds, "hashes": hashes}))
    dist.destroy_process_group()


def run(chosen, folder, options, ranks):
    """Seconds of each epoch but the first, and all batches, of a run with these options."""
    for old in folder.glob("rank*.json"):
        old.unlink()
    worker = f"{sys.executable} -m torch.distributed.run --standalone --nproc-per-node $UVATRAIN_RANKS {__file__}"
    worker += f" --worker {folder} --epochs {chosen.epochs}"
    command = [chosen.program, "run", chosen.data, "--fanouts", chosen.fanouts, "--batch-size", str(chosen.batch_size),
               "--device", "cpu", "--gather-threads", "1", "--pin-samplers", "--batch-slots", str(chosen.batch_slots),
               "--roles", "1:1", *map(str, options), "--", "sh", "-c", worker]
    environment = dict(os.environ, GLOO_SOCKET_IFNAME="lo", OMP_NUM_THREADS="1", UVATRAIN_LOG="warn")
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=LIMIT)
    if ended.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}\nended with {ended.returncode}:\n{ended.stderr}")
    found = [json.loads(path.read_text()) for path in sorted(folder.glob("rank*.json"))]
    if len(found) not in ranks:
        sys.exit(f"{' '.join(map(str, command))}\nhad {len(found)} ranks:\n{ended.stderr}")
    said = [line for line in ended.stderr.splitlines() if "--switch auto: " in line]
    return found[0]["seconds"][1:], sorted(tuple(batch) for rank in found for batch in rank["hashes"]), said


def simulated(said):
    """Seconds of an epoch that `--switch auto` expects."""
    found = re.search(r"([0-9.]+) s an epoch in place of ([0-9.]+) s", " ".join(said))
    return {"auto": float(found[1]), "alone": float(found[2])} if found else {}


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--data")
    arguments.add_argument("--rounds", type=int, default=3)
    arguments.add_argument("--epochs", type=int, default=4)
    arguments.add_argument("--fanouts", default="15,10")
    arguments.add_argument("--batch-size", type=int, default=512)
    arguments.add_argument("--batch-slots", type=int, default=24)
    arguments.add_argument("--program", default=os.environ.get("UVATRAIN_PROGRAM", "uvatrain"))
    arguments.add_argument("--out", type=Path)
    arguments.add_argument("--worker", type=Path, help=argparse.SUPPRESS)
    chosen = arguments.parse_args()
    if chosen.worker:
        return train(chosen.worker, chosen.epochs)
    if chosen.data is None:
        arguments.error("give --data")
    seconds, said = {"alone": [], "auto": [], "throughout": []}, []
    with tempfile.TemporaryDirectory(prefix="uvatrain-standby-") as name:
        folder = Path(name)
        first = folder / "first.jsonl"
        _, batches, _ = run(chosen, folder, ["--metrics", first], (1,))
        of_each = {
            "alone": [],
            "auto": ["--switch", "auto", "--role-times", first],
            "throughout": ["--switch", "0"],
        }
        for _ in range(chosen.rounds):
            for what, options in of_each.items():
                found, same, reported = run(chosen, folder, options, (1,) if what == "alone" else (1, 2))
                said = reported or said
                # No batch is lost, with or without a standby trainer.
                if same != batches:
                    sys.exit(f"{what}: other batches than those of the first run")
                seconds[what] += found
                print(f"{what:<12}{statistics.median(found):8.2f} s an epoch", flush=True)
    expected = simulated(said)
    median = {what: statistics.median(of) for what, of in seconds.items()}
    print("\n".join(said))
    for what, of in median.items():
        by = f", simulated {expected[what]:.2f}" if what in expected else ""
        print(f"{what:<12}{of:8.2f} s an epoch{by}, {median['alone'] / of:.2f} times as fast as alone")
    if chosen.out:
        reported = {"machine": machine(), "fanouts": chosen.fanouts, "batch_size": chosen.batch_size,
                "batch_slots": chosen.batch_slots, "batches": len(batches) // chosen.epochs, "rounds": chosen.rounds,
                "epoch_s": median, "simulated_s": expected, "auto": said, "all_s": seconds}
        chosen.out.write_text(json.dumps(reported, indent=1) + "\n")
    return None


if __name__ == "__main__":
    main()
