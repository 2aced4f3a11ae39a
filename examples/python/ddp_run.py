"""The same training as ddp.py under the launcher: one for all ranks of the machine, each of which attaches.

    uvatrain run DATA --fanouts 10,5 --batch-size 256 --ranks 2 -- torchrun --standalone --nproc-per-node 2 ddp_run.py

Samplers and producers of each rank are processes of their own. Only the loaders differ. With
`--devices cuda:0-1` the launcher gives each rank a GPU: then the model has to be on `batch.x.device`, too.
"""

import argparse

import torch.distributed as dist
import uvatrain
from ddp import fit


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=5)
    args = parser.parse_args()

    # Without --devices the launcher's ranks have their batches in host memory.
    dist.init_process_group("gloo")
    train, valid = uvatrain.attach(), uvatrain.attach("valid")
    fit(train, valid, args.epochs, "cpu")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
