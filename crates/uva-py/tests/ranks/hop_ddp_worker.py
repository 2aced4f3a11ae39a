"""One rank of test_ddp.py's runs over a hop set: trains a linear model on batches of 60 rows, of which each rank has its
part, and writes down the loss of every step. Started by torchrun."""

import json
import sys
from pathlib import Path

import torch
import torch.distributed as dist
import torch.nn.functional as F

import uvatrain

TOGETHER = 60
EPOCHS = 2


def main() -> None:
    hops, out = sys.argv[1], Path(sys.argv[2])
    dist.init_process_group("gloo")
    rank, ranks = dist.get_rank(), dist.get_world_size()
    losses = []
    with uvatrain.HopLoader(hops, batch_size=TOGETHER // ranks, seed=3) as loader:
        assert (loader.rank, loader.world_size) == (rank, ranks)
        of_set = loader.dataset
        torch.manual_seed(5)
        model = torch.nn.Linear(of_set.feature_dim * len(of_set.hops), of_set.num_classes)
        together = torch.nn.parallel.DistributedDataParallel(model)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(EPOCHS):
            for batch in loader:
                # Features are counts up to 100. Rows without a label count as rows whose loss is 0.
                values = together(torch.cat(batch.xs, dim=1) / 100)
                loss = F.cross_entropy(values, batch.y, ignore_index=-1, reduction="sum") / batch.num_seeds
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                # The mean over ranks, whose batches are equal in size, is that of all rows.
                mean = loss.detach()
                dist.all_reduce(mean)
                losses.append(mean.item() / ranks)
    (out / f"rank{rank}.json").write_text(json.dumps(losses))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
