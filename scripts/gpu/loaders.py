#!/usr/bin/env python3
"""Trains one PyG model on a GPU with the batches of PyG's NeighborLoader and of uvatrain's loader.

    scripts/gpu/loaders.py DATA [--fanouts 10,5] [--batch-size 1024] [--hidden 64] [--workers N] [--rounds 2] [--seconds 8]
                           [--gather zero-copy,…] [--pyg FOLDER] [--out FILE]

DATA is a dataset that does not have to fit into the GPU's memory. Loaders:

- pyg: `NeighborLoader` with `--workers` processes over a `Data` in memory, pinned, and `PrefetchLoader`, which copies the
  next batch to the GPU while the model works. It needs pyg-lib or torch-sparse: where python3 has neither, --pyg names a
  folder with torch-sparse;
- uvatrain: `uvatrain.Loader(device="cuda:0")`, which samples on the CPU and gathers by zero-copy, and `batch.to_pyg()`;
- uvatrain-blocks: the same batches, each layer over its own block, as the built-in models have it.

Each runs in a new process in each round, interleaved with the others. A batch's time is measured from the one before it, training step
included; a synchronisation ends the measurement. The first batches do not count. Rows of the first batch are compared
with the table. Prints a table, and JSON to --out. Exit codes: 0 done, 1 failure, 3 no GPU or no PyG.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

# Of the first batches none counts: libraries, processes and buffers start with them.
WARM_BATCHES = 4
LACKING = 3
LOADERS = ("pyg", "uvatrain", "uvatrain-blocks")


def lacking(message):
    print(f"gpu-loaders: {message}", file=sys.stderr)
    sys.exit(LACKING)


def check(arguments):
    try:
        import torch
        import torch_geometric.typing as pyg
    except ImportError as error:
        lacking(f"python3 cannot import {error.name}")
    if not torch.cuda.is_available():
        lacking("no GPU that PyTorch can use")
    if arguments.work == "pyg" and not (pyg.WITH_PYG_LIB or pyg.WITH_TORCH_SPARSE):
        lacking("PyG's NeighborLoader needs pyg-lib or torch-sparse: --pyg FOLDER")


def table(arguments, name):
    import numpy as np
    import torch

    return torch.from_numpy(np.load(Path(arguments.data, name + ".npy")))


def pyg_batches(arguments):
    import torch
    from torch_geometric.data import Data
    from torch_geometric.loader import NeighborLoader, PrefetchLoader

    indptr, indices = table(arguments, "indptr"), table(arguments, "indices").long()
    targets = torch.repeat_interleave(torch.arange(len(indptr) - 1), indptr.diff())
    data = Data(x=table(arguments, "feat"), y=table(arguments, "label"), edge_index=torch.stack([indices, targets]))
    loader = NeighborLoader(data, num_neighbors=arguments.fanouts, input_nodes=table(arguments, "train_idx"),
                            batch_size=arguments.batch_size, shuffle=True, drop_last=True, is_sorted=True,
                            num_workers=arguments.workers, persistent_workers=True)
    loader = PrefetchLoader(loader, device=torch.device("cuda:0"))
    while True:
        yield from loader


def our_batches(arguments):
    import uvatrain

    options = {"gather": arguments.gather} if arguments.gather else {}
    # As PyG does: a hop expands the nodes that the one before found.
    loader = uvatrain.Loader(arguments.data, device="cuda:0", fanouts=arguments.fanouts, expand="new",
                             batch_size=arguments.batch_size, drop_last=True, **options)
    while True:
        for batch in loader:
            yield batch


def work(arguments):
    """One loader, in this process: prints its batches a second as JSON."""
    check(arguments)
    import numpy as np
    import torch
    import torch.nn.functional as F
    from torch_geometric.nn import SAGEConv

    name = arguments.work
    by_blocks = name == "uvatrain-blocks"
    features = np.load(Path(arguments.data, "feat.npy"), mmap_mode="r")
    classes = int(np.load(Path(arguments.data, "label.npy"), mmap_mode="r")[:100000].max()) + 1
    widths = [features.shape[1], *[arguments.hidden] * (len(arguments.fanouts) - 1), classes]
    torch.manual_seed(0)
    layers = torch.nn.ModuleList([SAGEConv(*ends) for ends in zip(widths, widths[1:])]).cuda()
    optimizer = torch.optim.Adam(layers.parameters(), 3e-3, fused=True)

    def step(batch):
        if by_blocks:
            x, y, seeds = batch.x, batch.y, len(batch.y)
            hops = zip(reversed(batch.blocks), reversed(batch.edge_index))
            for number, (layer, (block, edges)) in enumerate(zip(layers, hops)):
                x = layer((x, x[: block.num_dst]), edges)
                x = x.relu() if number + 1 < len(layers) else x
        else:
            batch = batch if name == "pyg" else batch.to_pyg()
            x, y, seeds = batch.x, batch.y, batch.batch_size
            for number, layer in enumerate(layers):
                x = layer(x, batch.edge_index)
                x = x.relu() if number + 1 < len(layers) else x
        loss = F.cross_entropy(x[:seeds], y[:seeds])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    batches = pyg_batches(arguments) if name == "pyg" else our_batches(arguments)
    warm = WARM_BATCHES + 2 * arguments.workers
    started = time.perf_counter()
    count = rows = 0
    for number, batch in enumerate(batches):
        if number == 0:
            nodes = batch.n_id if name == "pyg" else batch.input_nodes
            same = np.array_equal(features[nodes.cpu().numpy()], batch.x.cpu().numpy())
            assert same, "rows are not those of the input nodes"
            del nodes
        if number == warm:
            torch.cuda.synchronize()
            begin = time.perf_counter()
        loss = step(batch)
        if number >= warm:
            count, rows = count + 1, rows + len(batch.x)
            if time.perf_counter() - begin > arguments.seconds and count > 2 * arguments.workers:
                break
    torch.cuda.synchronize()
    seconds = time.perf_counter() - begin
    answer = {"batches": count, "seconds": seconds, "batches_per_second": count / seconds, "rows": rows / count,
              "loss": loss.item(), "until_warm_s": begin - started, "torch": torch.__version__}
    print(json.dumps(answer), flush=True)
    # Ends the loader processes, which would continue otherwise.
    os._exit(0)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", metavar="DATA")
    parser.add_argument("--fanouts", type=lambda text: [int(part) for part in text.split(",")], default=[10, 5])
    parser.add_argument("--batch-size", type=int, default=1024)
    parser.add_argument("--hidden", type=int, default=64)
    parser.add_argument("--workers", type=int, default=max(1, (os.cpu_count() or 2) - 2))
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=8)
    parser.add_argument("--gather")
    parser.add_argument("--only", type=lambda text: text.split(","), default=list(LOADERS), help="of " + ", ".join(LOADERS))
    parser.add_argument("--pyg")
    parser.add_argument("--out")
    parser.add_argument("--work", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.work:
        return work(arguments)
    found = {name: [] for name in arguments.only}
    env = dict(os.environ)
    if arguments.pyg:
        env["PYTHONPATH"] = f"{env.get('PYTHONPATH', '')}:{arguments.pyg}"
    failed = False
    for _ in range(arguments.rounds):
        for name in arguments.only:
            worker = subprocess.run([sys.executable, "-B", __file__, *sys.argv[1:], "--work", name], env=env,
                                    stdout=subprocess.PIPE, text=True)
            if worker.returncode == LACKING:
                return LACKING
            if worker.returncode != 0 or not worker.stdout.strip():
                print(f"gpu-loaders: {name}: exit code {worker.returncode}", file=sys.stderr)
                failed = True
                continue
            found[name].append(json.loads(worker.stdout.splitlines()[-1]))
    report = {"options": {key: value for key, value in vars(arguments).items() if key in (
        "fanouts", "batch_size", "hidden", "workers", "gather", "rounds", "seconds")}, "loaders": found}
    for name, rounds in found.items():
        if rounds:
            rate = statistics.median(each["batches_per_second"] for each in rounds)
            print(f"{name:12} {rate:8.1f} batches/s, {rounds[0]['rows']:.0f} rows each")
    if arguments.out:
        Path(arguments.out).write_text(json.dumps(report, indent=1) + "\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
