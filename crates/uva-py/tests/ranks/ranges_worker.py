"""One rank of test_ranges.py's runs: takes batches of a partition in ranges, or of the whole dataset, and writes down what
they are. A fault may happen to rank 1 in the second epoch, or rank 0 is slow."""

import hashlib
import json
import os
import signal
import sys
import time
from pathlib import Path

import torch.distributed as dist

import uvatrain

EPOCHS = 2


def digest(tensor) -> str:
    return hashlib.sha1(tensor.numpy().tobytes()).hexdigest()


def of_dataset(dataset: "uvatrain.Dataset") -> list:
    """What a rank's dataset says of itself."""
    try:
        table = "a table"
        assert dataset.features is not None
    except uvatrain.UvatrainError as error:
        table = str(error)
    return [dataset.fingerprint, dataset.num_nodes, dataset.feature_dim, table]


def happens(fault: str) -> None:
    if fault == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    elif fault == "stop":
        os.kill(os.getpid(), signal.SIGSTOP)
    elif fault == "raise":
        raise ValueError("of the user's own")


def main() -> None:
    path, out, options = sys.argv[1], Path(sys.argv[2]), json.loads(sys.argv[3])
    fault, aggregated = options.pop("fault", None), "aggregate" in options
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    seen, said, exchanged, lists = [], None, None, None
    began = time.monotonic()
    refused = options.pop("refused", [])
    options = dict(fanouts=[4, 3], seed=3, **options)
    for more in refused:
        try:
            uvatrain.Loader(path, **options, **more).close()
            seen.append("accepted")
        except (uvatrain.UvatrainError, ValueError) as error:
            seen.append(str(error))
    if refused:
        with uvatrain.Loader(path, **options) as loader:
            seen.append(of_dataset(loader.dataset))
        (out / f"rank{rank}.json").write_text(json.dumps({"seen": seen}))
        return
    try:
        with (
            uvatrain.Loader(path, **options) as train,
            uvatrain.Loader(path, **options, split="valid") as valid,
        ):
            for epoch in range(EPOCHS):
                for number, batch in enumerate(train):
                    if fault and rank == 1 and (epoch, number) == (1, 1):
                        happens(fault)
                        if fault == "close":
                            train.close()
                            valid.close()
                            break
                    if fault == "slow" and rank == 0:
                        # A model that takes longer than the other rank's.
                        time.sleep(0.1)
                    told = [batch.split, batch.epoch, batch.index, batch.hash, digest(batch.x)]
                    seen.append(told + ([digest(batch.aggregated)] if aggregated else []))
                    began = time.monotonic()
                else:
                    seen.extend([b.split, b.epoch, b.index, b.hash, digest(b.x)] for b in valid)
                    continue
                break
            if fault is None:
                exchanged, lists = (train.stats().get(name) for name in ("exchange", "lists"))
    except (uvatrain.UvatrainError, ValueError) as error:
        said = [type(error).__name__, str(error), time.monotonic() - began]
    record = {"seen": seen, "said": said, "batches": [len(train), len(valid)], "exchanged": exchanged, "lists": lists}
    (out / f"rank{rank}.json").write_text(json.dumps(record))
    if fault is None:
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
