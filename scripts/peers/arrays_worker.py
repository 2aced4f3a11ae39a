#!/usr/bin/env python3
"""Gathers of numpy and torch, and a plain copy: what a loader without a library would use. See worker.py."""
import ctypes
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import torch

from worker import load, measured, serve

# As many as the input nodes of a few hundred seeds; 40 MB of rows of 400 bytes.
ROWS = 100_000


def row_lists(arguments, nodes):
    """Lists of distinct rows, uniform, as `uvatrain bench gather` draws them; the same for every peer."""
    random = np.random.RandomState(1)
    return [random.permutation(nodes)[: min(ROWS, nodes)].astype(np.int64) for _ in range(8)]


def gathers(features, lists, gather):
    """An operation that gathers list after list and keeps what came last, as a loader's consumer would."""
    kept = [None]

    def operation(request):
        def step(number):
            rows = lists[number % len(lists)]
            kept[0] = gather(rows)
            return {"bytes": len(rows) * features.shape[1] * features.itemsize}

        return measured(request, step)

    return operation


def make(arguments):
    torch.set_num_threads(arguments.threads)
    features = load(arguments, "feat")
    lists = row_lists(arguments, len(features))
    as_tensors = [torch.from_numpy(rows) for rows in lists]
    table = torch.from_numpy(features)
    kept = np.empty((len(lists[0]), features.shape[1]), features.dtype)
    kept_tensor = torch.from_numpy(kept)
    threads = ThreadPoolExecutor(arguments.threads)

    def parts(length):
        cuts = [length * part // arguments.threads for part in range(arguments.threads + 1)]
        return list(zip(cuts, cuts[1:]))

    def take(rows):
        list(threads.map(lambda part: features.take(rows[slice(*part)], axis=0, out=kept[slice(*part)], mode="clip"),
                         parts(len(rows))))

    # Sources that lie far apart, so that no cache has them; the destination is one batch's, as of the others.
    source = features.reshape(-1).view(np.uint8)
    copied = kept.reshape(-1).view(np.uint8)
    places = max(1, len(source) // len(copied))

    def copy(request):
        def step(number):
            offset = number % places * len(copied)
            list(threads.map(lambda part: ctypes.memmove(copied.ctypes.data + part[0],
                                                         source.ctypes.data + offset + part[0], part[1] - part[0]),
                             parts(len(copied))))
            return {"bytes": len(copied)}

        return measured(request, step)

    return {
        "take": gathers(features, lists, take),
        "index_select_out": gathers(features, as_tensors,
                                    lambda rows: torch.index_select(table, 0, rows, out=kept_tensor)),
        "index_select": gathers(features, as_tensors, lambda rows: table.index_select(0, rows)),
        "memcpy": copy,
    }, {"numpy": np.__version__, "torch": torch.__version__}


if __name__ == "__main__":
    serve(make)
