"""Several processes, each with its own loader, trained together by PyTorch's DistributedDataParallel.

    torchrun --nproc-per-node 2 ddp.py DATA [--epochs 5] [--seed 0]
    torchrun --nproc-per-node 2 ddp.py PARTS --parts

Each rank gets every world_size-th batch of the epoch, and all get as many. What is in a batch depends on the seed, the
epoch and its number only, not on the ranks. On several machines every one has its own copy of DATA.

With --parts PARTS is the directory that `uvatrain partition` wrote, with as many parts as there are ranks. Each rank trains
on a part of its own; a machine needs the parts of its ranks and partition.json. If the parts are ranges (--layout ranges),
ranks divide the batches of the whole graph, and get feature rows from each other; a machine needs `graph` too.
"""

import argparse
import os
from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
import uvatrain
from sage import Sage

Batches = uvatrain.Loader | uvatrain.Session


@torch.no_grad()
def accuracy(model: Sage, batches: Batches, device: str) -> float:
    """Over all ranks. Their numbers of validation batches may differ by one, so the bare model is called: DDP's own
    forward would wait for the others."""
    model.eval()
    counts = torch.zeros(2, dtype=torch.int64, device=device)
    for batch in batches:
        known = batch.y >= 0
        counts[0] += (model(batch).argmax(1) == batch.y)[known].sum()
        counts[1] += known.sum()
    dist.all_reduce(counts)
    return int(counts[0]) / max(int(counts[1]), 1)


def device_of_rank() -> str:
    """The GPU or the CPU of this rank, which joins the others."""
    gpu = torch.cuda.is_available()
    device = f"cuda:{os.environ['LOCAL_RANK']}" if gpu else "cpu"
    if gpu:
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if gpu else "gloo")
    return device


def fit(train: Batches, valid: Batches, epochs: int, device: str, seed: int = 0) -> None:
    torch.manual_seed(seed)
    dataset = train.dataset
    model = Sage(dataset.feature_dim, 64, dataset.num_classes, layers=2).to(device)
    together = torch.nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for epoch in range(epochs):
        together.train()
        loss_sum = 0.0
        for batch in train:
            loss = F.cross_entropy(together(batch), batch.y, ignore_index=-1)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            loss_sum += loss.item()
        valid_accuracy = accuracy(model, valid, device)
        if dist.get_rank() == 0:
            mean_loss = loss_sum / len(train)
            print(
                f"epoch {epoch}: {len(train)} batches a rank, loss {mean_loss:.6f}, validation {valid_accuracy:.4f}",
                flush=True,
            )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("data")
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--batch-size", type=int, default=256)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--parts", action="store_true")
    args = parser.parse_args()

    device = device_of_rank()
    part = "rank" if args.parts else None
    options: dict[str, Any] = dict(
        fanouts=[10, 5], batch_size=args.batch_size, seed=args.seed, device=device, part=part
    )
    with (
        uvatrain.Loader(args.data, **options) as train,
        uvatrain.Loader(args.data, split="valid", **options) as valid,
    ):
        fit(train, valid, args.epochs, device, args.seed)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
