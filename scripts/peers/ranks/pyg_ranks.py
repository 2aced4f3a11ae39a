#!/usr/bin/env python3
"""torch_geometric.distributed for scripts/measure/distributed_peers.py: divides a graph, or is one rank of a pass over it.

    pyg_ranks.py divide DATA PARTS OUT
    pyg_ranks.py rank DATA PARTS DIVIDED OUT OPTIONS      OPTIONS: JSON
"""
import json
import os
import sys
from pathlib import Path

import numpy as np
import torch
import torch_geometric
import torch_geometric.distributed.dist_neighbor_loader
import torch_geometric.distributed.dist_neighbor_sampler
from torch_geometric.data import Data
from torch_geometric.distributed import DistContext, DistNeighborLoader, LocalFeatureStore, LocalGraphStore, Partitioner
from torch_geometric.loader import ClusterData

from ranks import even, joined, measure

PART_FILE = "partition.npy"


def divide(data, parts, out):
    """By the parts of `uvatrain partition`, where Partitioner would ask METIS."""
    assigned = torch.from_numpy(np.load(Path(parts, PART_FILE)).astype(np.int64))
    ClusterData._metis = lambda self, edge_index, num_nodes: assigned
    indptr = torch.from_numpy(np.load(Path(data, "indptr.npy")))
    sources = torch.from_numpy(np.load(Path(data, "indices.npy")).astype(np.int64))
    destinations = torch.repeat_interleave(torch.arange(len(indptr) - 1), indptr.diff())
    graph = Data(x=torch.from_numpy(np.load(Path(data, "feat.npy"))), edge_index=torch.stack([sources, destinations]),
                 num_nodes=len(indptr) - 1)
    Partitioner(graph, num_parts=int(assigned.max()) + 1, root=str(out)).generate_partition()


def rank_main(data, parts, divided, out, options):
    import pyg_lib

    # PyG 2.7 and 2.8 call warn() with an argument that it does not have, to say that this module is deprecated.
    for module in ("dist_neighbor_loader", "dist_neighbor_sampler"):
        if hasattr(getattr(torch_geometric.distributed, module), "warn"):
            getattr(torch_geometric.distributed, module).warn = lambda *_, **__: None
    rank, ranks = joined()
    stores = LocalFeatureStore.from_partition(divided, rank), LocalGraphStore.from_partition(divided, rank)
    seeds = even(np.load(Path(data, "train_idx.npy")), np.load(Path(parts, PART_FILE)), rank, ranks)
    context = DistContext(world_size=ranks, rank=rank, global_world_size=ranks, global_rank=rank, group_name="loading")
    workers = options["workers"]
    loader = DistNeighborLoader(
        stores, num_neighbors=options["fanouts"], input_nodes=torch.from_numpy(seeds), batch_size=options["batch_size"],
        current_ctx=context, master_addr="127.0.0.1", master_port=int(os.environ["RPC_PORT"]), shuffle=True, drop_last=True,
        num_workers=workers, persistent_workers=workers > 0, async_sampling=options["async"],
        concurrency=options["concurrency"], device=torch.device("cpu"),
    )
    versions = {"torch_geometric": torch_geometric.__version__, "pyg_lib": pyg_lib.__version__}
    measure(lambda: loader, lambda batch: (lambda: batch.n_id, batch.x, batch.edge_index.shape[1]), data, options["rounds"],
            out, versions)
    # What it registers to run at exit waits for threads that have ended.
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    if sys.argv[1] == "divide":
        divide(*sys.argv[2:])
    else:
        rank_main(*sys.argv[2:6], json.loads(sys.argv[6]))
