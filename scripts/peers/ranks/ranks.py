"""What the ranks of scripts/measure/distributed_peers.py share: epochs of a loader, their times and counts. Needs numpy and
torch alone, since each system runs it in an environment of its own."""
import json
import os
import time
from pathlib import Path

import numpy as np
import torch

# Batches of the warm-up whose rows are compared with the table.
CHECKED = 4


def joined():
    """This rank and how many there are, once all of them are joined by gloo."""
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo")
    return torch.distributed.get_rank(), torch.distributed.get_world_size()


def even(seeds, parts, rank, ranks):
    """The rank's share of the seeds: as many as each other rank has, and of its own part as far as that goes."""
    seeds = seeds[np.argsort(parts[seeds], kind="stable")]
    each = len(seeds) // ranks
    return seeds[rank * each : (rank + 1) * each]


class Table:
    """The feature table by original ids, to compare with what a system gathered."""

    def __init__(self, data):
        self.rows = np.load(Path(data, "feat.npy"), mmap_mode="r")
        self.checked = 0

    def check(self, ids, x):
        wanted = torch.from_numpy(self.rows[ids.numpy() if isinstance(ids, torch.Tensor) else ids])
        if x.shape != wanted.shape or not torch.equal(x, wanted):
            raise SystemExit("the rows of a batch are not those of the table")
        self.checked += len(x)


def measure(epoch, seen, data, rounds, out, versions):
    """One epoch to warm up, then `rounds` epochs one after the other; writes the results.

    `epoch()` gives an epoch's batches, `seen(batch)` a function of its original ids, its rows, and how many edges it has.
    Ends of epochs are of the clock that all processes of a machine have. None begins with a barrier: a loader that is ahead
    of its loop is as far ahead at the end of an epoch as at its beginning.
    """
    table, ends, counts = Table(data), [], []
    for number in range(rounds + 1):
        count = {"batches": 0, "input_nodes": 0, "edges": 0, "bytes": 0}
        for batch in epoch():
            ids, x, edges = seen(batch)
            if number == 0 and count["batches"] < CHECKED:
                table.check(ids(), x)
            count["batches"] += 1
            count["input_nodes"] += len(x)
            count["edges"] += edges
            count["bytes"] += x.numel() * x.element_size()
            del batch, x
        if number == 0:
            torch.distributed.barrier()
        else:
            counts.append(count)
        ends.append(time.monotonic())
    rank = int(os.environ["RANK"])
    found = {"ends": ends, "counts": counts, "checked_rows": table.checked, "versions": versions | {"torch": torch.__version__}}
    partial = Path(out, f"rank{rank}.partial")
    partial.write_text(json.dumps(found))
    partial.rename(Path(out, f"rank{rank}.json"))
    torch.distributed.barrier()
