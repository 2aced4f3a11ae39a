"""One rank of test_ddp.py's runs: trains a small model and writes down what it saw. Started by torchrun, and under a
launcher with "attach" instead of a dataset."""

import json
import os
import signal
import sys
from pathlib import Path

import torch
import torch.distributed as dist
import torch.nn.functional as F

import uvatrain


def model_for(dataset: "uvatrain.Dataset") -> torch.nn.Module:
    torch.manual_seed(5)
    return torch.nn.Linear(dataset.feature_dim, dataset.num_classes)


def loss_of(model: torch.nn.Module, batch: "uvatrain.Batch") -> torch.Tensor:
    """Every seed's own row and the mean of its picks: small, and any wrong row or pick shows."""
    block = batch.blocks[0]
    source, destination = block.edge_index
    x = batch.x.float()
    picked = x.new_zeros(block.num_dst, x.shape[1]).index_add_(0, destination, x[source])
    degree = block.indptr.diff().clamp(min=1).unsqueeze(1)
    return F.cross_entropy(model(x[: block.num_dst] + picked / degree), batch.y, ignore_index=-1)


def main() -> None:
    data, out, epochs, dies_at = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    seen = []
    options = dict(fanouts=[4, 3], batch_size=64, seed=3)
    with uvatrain.attach() if data == "attach" else uvatrain.Loader(data, **options) as loader:
        assert (loader.rank, loader.world_size) == (rank, dist.get_world_size())
        model = model_for(loader.dataset)
        together = torch.nn.parallel.DistributedDataParallel(model)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for epoch in range(epochs):
            loader.set_epoch(epoch)
            for batch in loader:
                if rank == 1 and len(seen) == dies_at:
                    os.kill(os.getpid(), signal.SIGKILL)
                seen.append([batch.epoch, batch.index, batch.hash])
                loss = loss_of(together, batch)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
        parameters = [p.detach().flatten().tolist() for p in model.parameters()]
        record = {"rank": rank, "batches": len(loader), "seen": seen, "parameters": parameters}
        (out / f"rank{rank}.json").write_text(json.dumps(record))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
