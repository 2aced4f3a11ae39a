"""The same model under the launcher: sampler and producer are processes, this script is the consumer.

    uvatrain run DATA --fanouts 10,5 --batch-size 512 --expand new -- python pyg_sage_run.py [--epochs 5]

The launcher determines how batches are made, the script which pass comes next. Only the loaders differ.
"""

import argparse

import uvatrain
from pyg_sage import fit


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=5)
    args = parser.parse_args()

    train, valid, test = (uvatrain.attach(split) for split in ("train", "valid", "test"))
    fit(train, valid, test, args.epochs)


if __name__ == "__main__":
    main()
