#!/usr/bin/env python3
"""Measures how training with DistributedDataParallel scales over the cores, with uvatrain's loader and with none.

    scripts/measure/ddp.py DATA [--parts PARTS] [--ranges RANGES] [--rounds 5] [--out docs/results/ddp.json]

Every rank has one core to itself, loader and training together: one rank on one core, then two on two, and so on. Each
step trains one batch a rank, so that N ranks need an N-th of the steps for the same batches. `plain` trains on batches
that are in memory before the clock starts: the cost of PyTorch's own engine, and the best possible scaling.
Rounds are interleaved; each figure is the median over them. The losses of the first steps show that both train on the
same batches. `--parts` and `--ranges` are folders that `uvatrain partition DATA FOLDER --parts N` wrote, the second with `--layout
ranges`, with a part for each of N cores. Then N ranks also train on a part each, and on ranges of rows which they exchange. Their
speed is compared with that of one rank on the whole dataset, and the time of exchange calls with that of the steps.

Needs a Python with torch and the module uvatrain (scripts/check/python.sh says how), and an idle machine.
"""

import argparse
import importlib.util
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FANOUTS, BATCH_SIZE, HIDDEN, WARM_UP = [10, 10], 1000, 128, 4


class Kept:
    """A batch copied out of its slot, with the attributes that the model reads."""

    def __init__(self, batch):
        self.x, self.y = batch.x.clone(), batch.y.clone()
        self.blocks = [KeptBlock(block) for block in batch.blocks]


class KeptBlock:
    def __init__(self, block):
        self.num_dst, self.indptr, self.edge_index = block.num_dst, block.indptr.clone(), block.edge_index


KINDS = ["plain", "uvatrain", "parts", "ranges"]


def rank(data: Path, kind: str, batches: int, out: Path) -> None:
    """One rank: trains its share of `batches` batches, and writes the time."""
    own = int(os.environ["RANK"])
    os.sched_setaffinity(0, {sorted(os.sched_getaffinity(0))[own]})
    import torch
    import torch.distributed as dist
    import torch.nn.functional as F
    import uvatrain

    sys.path.insert(0, str(ROOT / "examples/python"))
    from sage import Sage

    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    ranks = dist.get_world_size()
    torch.manual_seed(0)
    part = "rank" if kind in ("parts", "ranges") else None
    loader = uvatrain.Loader(data, fanouts=FANOUTS, batch_size=BATCH_SIZE, samplers=1, gather_threads=1, part=part)
    dataset = loader.dataset
    model = Sage(dataset.feature_dim, HIDDEN, dataset.num_classes, len(FANOUTS))
    together = torch.nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.003)
    steps = batches // ranks

    def endless():
        while True:
            yield from loader

    source = endless()
    if kind == "plain":
        kept = [Kept(next(source)) for _ in range(WARM_UP + min(steps, 12))]
        loader.close()
        source = (kept[i % len(kept)] for i in range(WARM_UP + steps))
    losses = []

    def train(count: int) -> float:
        waited = 0.0
        for _ in range(count):
            since = time.perf_counter()
            batch = next(source)
            waited += time.perf_counter() - since
            loss = F.cross_entropy(together(batch), batch.y, ignore_index=-1)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        return waited

    train(WARM_UP)
    dist.barrier()
    since = time.perf_counter()
    waited = train(steps)
    dist.barrier()
    seconds = time.perf_counter() - since
    if own == 0:
        record = {"seconds": seconds, "waited_s": waited, "steps": steps, "first_losses": losses[:WARM_UP]}
        if kind == "ranges":
            # Passing rows on, without waiting for the other ranks; of all batches so far, the warm-up's included.
            exchange = loader.stats()["exchange"]
            record["exchange_s"] = (exchange["waited_s"] - exchange["met_s"]) * steps / (steps + WARM_UP)
        out.write_text(json.dumps(record))
    loader.close()
    dist.destroy_process_group()


def run(data: Path, kind: str, ranks: int, batches: int, folder: Path) -> dict:
    out = folder / "record.json"
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    common = dict(os.environ, OMP_NUM_THREADS="1", GLOO_SOCKET_IFNAME="lo", MASTER_ADDR="127.0.0.1")
    command = [sys.executable, __file__, str(data), "--rank", kind, "--batches", str(batches), "--out", str(out)]
    processes = [
        subprocess.Popen(command, env=dict(common, MASTER_PORT=str(port), RANK=str(own), WORLD_SIZE=str(ranks)))
        for own in range(ranks)
    ]
    if any([process.wait() for process in processes]):
        sys.exit(f"a rank of {kind} with {ranks} ranks failed; what it said is above")
    return json.loads(out.read_text())


def measure_module():
    """scripts/measure/host.py, for its description of the machine."""
    spec = importlib.util.spec_from_file_location("host", ROOT / "scripts/measure/host.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("data", type=Path)
    arguments.add_argument("--rounds", type=int, default=5)
    arguments.add_argument("--batches", type=int, default=48)
    arguments.add_argument("--out", type=Path)
    arguments.add_argument("--parts", type=Path, help="the dataset in as many parts as there are cores")
    arguments.add_argument("--ranges", type=Path, help="the same in ranges")
    arguments.add_argument("--rank", choices=KINDS, help=argparse.SUPPRESS)
    chosen = arguments.parse_args()
    if chosen.rank:
        return rank(chosen.data, chosen.rank, chosen.batches, chosen.out)

    cores = len(os.sched_getaffinity(0))
    folders = {kind: path for kind, path in (("parts", chosen.parts), ("ranges", chosen.ranges)) if path}
    rounds: dict[str, list[dict]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for number in range(chosen.rounds):
            cells = [(kind, ranks) for kind in ("plain", "uvatrain") for ranks in range(1, cores + 1)]
            cells += [(kind, cores) for kind in folders]
            for kind, ranks in cells if number % 2 == 0 else reversed(cells):
                record = run(folders.get(kind, chosen.data), kind, ranks, chosen.batches, Path(folder))
                rounds.setdefault(f"{kind} {ranks}", []).append(record)
                print(f"round {number}, {kind}, {ranks} ranks: {record['seconds']:.2f} s", file=sys.stderr)
    for ranks in range(1, cores + 1):
        plain, ours = (rounds[f"{kind} {ranks}"][0]["first_losses"] for kind in ("plain", "uvatrain"))
        assert plain == ours, f"{ranks} ranks trained on different batches: {plain} and {ours}"

    def median(kind: str, ranks: int, what: str = "seconds") -> float:
        return statistics.median(record[what] for record in rounds[f"{kind} {ranks}"])

    result = {
        "machine": measure_module().machine(),
        "fanouts": FANOUTS,
        "batch_size": BATCH_SIZE,
        "hidden": HIDDEN,
        "batches": chosen.batches,
        "seconds": {name: [round(r["seconds"], 3) for r in records] for name, records in rounds.items()},
        "scaling": {
            kind: {ranks: round(median(kind, 1) / median(kind, ranks), 3) for ranks in range(2, cores + 1)}
            for kind in ("plain", "uvatrain")
        },
        "waiting_share": {
            ranks: round(median("uvatrain", ranks, "waited_s") / median("uvatrain", ranks), 4)
            for ranks in range(1, cores + 1)
        },
    }
    for kind in folders:
        result["scaling"][kind] = {cores: round(median("uvatrain", 1) / median(kind, cores), 3)}
    if chosen.ranges:
        share = median("ranges", cores, "exchange_s") / median("ranges", cores)
        result["exchange_share"] = round(share, 4)
    text = json.dumps(result, indent=1)
    if chosen.out:
        chosen.out.write_text(text + "\n")
    print(text)


if __name__ == "__main__":
    main()
