"""What a step costs in Python beyond what it costs in Rust, as one JSON object.

    python crates/uva-py/benches/step_cost.py [DATASET] [--fanouts 3,3,3] [--batch-size 16] [--rounds 9]

Both loops run the same epochs of one loader. The one in Python touches x, y, seeds, input_nodes and every
block's indptr and indices, so that all tensors are made; the one in Rust makes no object at all.

Batches are small, so that what is counted is not their preparation; what Python costs does not depend on
their size.

"ready" is a step whose batch has been prepared already: before each, torch trains a small model for a while,
so that the threads are ahead. Medians over the steps. Its difference is Python's own cost. "loop" is the same
without training, medians over the epochs: the part of that cost that remains when batches are prepared in parallel.
"""

import argparse
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))


def touch(batch):
    batch.x, batch.y, batch.seeds, batch.input_nodes
    for block in batch.blocks:
        block.indptr, block.indices


def trainer(seconds):
    """Something that torch does between steps, as in a real loop: it leaves its code in the caches."""
    import torch

    model = torch.nn.Sequential(torch.nn.Linear(32, 32), torch.nn.ReLU(), torch.nn.Linear(32, 4))
    rows = torch.randn(64, 32)

    def train():
        end = time.perf_counter() + seconds
        while time.perf_counter() < end:
            model(rows).sum().backward()

    return train


def python_steps(loader, epoch, batches, train):
    """Nanoseconds of each step, as the core's `_pass` has them."""
    loader.set_epoch(epoch)
    iteration = iter(loader)
    steps = []
    for _ in range(batches):
        train()
        begin = time.perf_counter_ns()
        batch = next(iteration)
        touch(batch)
        steps.append(time.perf_counter_ns() - begin)
    return steps


def rust_steps(loader, epoch, batches, train):
    """The same without Python within a step."""
    steps = []
    for number in range(batches):
        train()
        # The batch of the last step of Python's.
        loader._let_go()
        steps += loader._source._pass(loader.split, epoch, number, 1)
    return steps


def python_epoch(loader, epoch):
    loader.set_epoch(epoch)
    begin = time.perf_counter_ns()
    for batch in loader:
        touch(batch)
    return (time.perf_counter_ns() - begin) / len(loader)


def rust_epoch(loader, epoch):
    begin = time.perf_counter_ns()
    loader._source._pass(loader.split, epoch, 0, len(loader))
    return (time.perf_counter_ns() - begin) / len(loader)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("dataset", nargs="?", help="a dataset; a random graph of 100,000 nodes otherwise")
    parser.add_argument("--fanouts", default="3,3,3")
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--batches", type=int, default=200, help="steps of a round")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--train-ms", type=float, default=2.0)
    options = parser.parse_args()

    import torch

    import uvatrain

    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as temporary:
        path = options.dataset
        if path is None:
            from graphs import write_graph

            path = write_graph(
                Path(temporary) / "graph", nodes=100_000, degree=10, dim=64, splits=(50_000, 10, 10)
            )
        fanouts = [int(fanout) for fanout in options.fanouts.split(",")]
        with uvatrain.Loader(path, fanouts=fanouts, batch_size=options.batch_size) as loader:
            batches = min(options.batches, len(loader))
            train = trainer(options.train_ms / 1000)
            rounds = []
            # The first round warms up.
            for number in range(options.rounds + 1):
                epoch = 4 * number
                in_python = python_steps(loader, epoch, batches, train)
                in_rust = rust_steps(loader, epoch + 1, batches, train)
                # The first step of a pass waits for its batch, since the pass before was left in the middle.
                row = [statistics.median(in_python[1:]), statistics.median(in_rust[1:])]
                row += [python_epoch(loader, epoch + 2), rust_epoch(loader, epoch + 3)]
                if number:
                    rounds.append(row)
            python, rust, python_loop, rust_loop = (
                statistics.median(column) / 1000 for column in zip(*rounds, strict=True)
            )
            result = {
                "benchmark": "step_cost",
                "dataset": loader.dataset.name,
                "fanouts": fanouts,
                "batch_size": options.batch_size,
                "tensors": 4 + 2 * len(fanouts),
                "steps": (batches - 1) * options.rounds,
                "ready_us": {"python": python, "rust": rust, "difference": python - rust},
                "loop_us": {"python": python_loop, "rust": rust_loop, "difference": python_loop - rust_loop},
                "torch": torch.__version__,
                "python": sys.version.split()[0],
            }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
