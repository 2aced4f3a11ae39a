#!/usr/bin/env python3
"""DistDGL for scripts/measure/distributed_peers.py: divides a graph, or is one rank of a pass over it: its server, its
samplers and its trainer.

    dgl_ranks.py divide DATA PARTS OUT
    dgl_ranks.py rank DATA PARTS DIVIDED OUT OPTIONS      OPTIONS: JSON
"""
import json
import os
import subprocess
import sys
from pathlib import Path

os.environ.setdefault("DGLBACKEND", "pytorch")
import dgl  # noqa: E402
import dgl.distributed  # noqa: E402
import numpy as np  # noqa: E402
import torch  # noqa: E402

from ranks import joined, measure  # noqa: E402

NAME = "graph"

# DGL takes a machine to be an address. The ranks of this one have the same, so each says which it is; the samplers, which
# DGL spawns, come by here too.
if "RANK" in os.environ:
    dgl.distributed.rpc_client.get_local_machine_id = lambda _: int(os.environ["RANK"])


def divide(data, parts, out):
    """By the parts of `uvatrain partition`, where partition_graph would draw them itself."""
    assigned = torch.from_numpy(np.load(Path(parts, "partition.npy")).astype(np.int64))
    dgl.distributed.partition.random_choice = lambda *_, **__: assigned
    indptr = torch.from_numpy(np.load(Path(data, "indptr.npy")))
    sources = torch.from_numpy(np.load(Path(data, "indices.npy")).astype(np.int64))
    destinations = torch.repeat_interleave(torch.arange(len(indptr) - 1), indptr.diff())
    graph = dgl.graph((sources, destinations), num_nodes=len(indptr) - 1)
    graph.ndata["feat"] = torch.from_numpy(np.load(Path(data, "feat.npy")))
    train = torch.zeros(len(indptr) - 1, dtype=torch.bool)
    train[torch.from_numpy(np.load(Path(data, "train_idx.npy")))] = True
    graph.ndata["train_mask"] = train
    nodes, _ = dgl.distributed.partition_graph(graph, NAME, int(assigned.max()) + 1, out, part_method="random",
                                               return_mapping=True, use_graphbolt=True)
    np.save(Path(out, "original.npy"), nodes.numpy())


def rank_main(data, divided, out, options):
    config, addresses = Path(divided, f"{NAME}.json"), Path(out, "addresses.txt")
    rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    os.environ.update(
        DGL_DIST_MODE="distributed", DGL_NUM_SERVER="1", DGL_NUM_SAMPLER=str(options["samplers"]),
        DGL_NUM_CLIENT=str(ranks * (1 + options["samplers"])), DGL_CONF_PATH=str(config), DGL_IP_CONFIG=str(addresses),
        DGL_GRAPH_FORMAT="csc",
    )
    bolt = str(int(options["graphbolt"]))
    server = subprocess.Popen([sys.executable, __file__, "server", bolt],
                              env=dict(os.environ, DGL_ROLE="server", DGL_SERVER_ID=str(rank)))
    os.environ["DGL_ROLE"] = "client"
    dgl.distributed.initialize(str(addresses), use_graphbolt=options["graphbolt"])
    joined()
    graph = dgl.distributed.DistGraph(NAME)
    seeds = dgl.distributed.node_split(graph.ndata["train_mask"], graph.get_partition_book(), force_even=True)
    original = np.load(Path(divided, "original.npy"))
    # Of a block's layers the first is read last.
    sampler = dgl.dataloading.NeighborSampler(options["fanouts"][::-1])
    loader = dgl.dataloading.DistNodeDataLoader(graph, seeds, sampler, batch_size=options["batch_size"], shuffle=True,
                                                drop_last=True)

    def seen(batch):
        nodes, _, blocks = batch
        return lambda: original[nodes], graph.ndata["feat"][nodes], sum(block.num_edges() for block in blocks)

    measure(lambda: loader, seen, data, options["rounds"], out, {"dgl": dgl.__version__})
    del loader
    torch.distributed.destroy_process_group()
    dgl.distributed.exit_client()
    server.wait(timeout=30)
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    if sys.argv[1] == "divide":
        divide(*sys.argv[2:])
    elif sys.argv[1] == "server":
        dgl.distributed.initialize(os.environ["DGL_IP_CONFIG"], use_graphbolt=bool(int(sys.argv[2])))
    else:
        rank_main(sys.argv[2], sys.argv[4], sys.argv[5], json.loads(sys.argv[6]))
