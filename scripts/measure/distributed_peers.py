#!/usr/bin/env python3
"""Measures uvatrain compared with PyG and DistDGL where ranks hold a part of the features each, and of the graph.

    PYTHON scripts/measure/distributed_peers.py [--pyg PYTHON] [--dgl PYTHON] [--binary target/release/uvatrain]
        [--method random] [--nodes 400000] [--dim 128] [--batches 40] [--fanouts 10,10] [--batch-size 1024]
        [--only uvatrain,pyg,dgl] [--timeout 240] [--out docs/results/distributed-peers.json]

The graph is a power law. `uvatrain partition` assigns each node to one of two parts, and all systems divide the graph by
this assignment. Two processes of this machine, the ranks, are joined over loopback. Each is pinned to a core, with all its
threads and helper processes. They take the batches of an epoch with their features, without a model:

  uvatrain   Loader(part="rank"): features divided, the graph with each rank, and graph="divided"; with both ways of
             expanding a hop, that of DGL (all nodes so far are drawn for again) and that of PyG (new ones only)
  PyG        torch_geometric.distributed.DistNeighborLoader: in the rank's own process, and with a worker
  DistDGL    DistNodeDataLoader with a server a rank: without and with a sampler process, over DGL's graph and GraphBolt's

Torch's allocator takes huge pages in all of them (THP_MEM_ALLOC_ENABLE=1), since the peers' rows come in fresh memory.
After an epoch to warm up, in which rows of batches are compared with the table, three epochs are timed, one after the
other. An epoch has ended when both ranks have. The figure is the median of the three.

PYTHON has this checkout's module (scripts/check/python.sh says how). A system whose interpreter is not given is left out:
--pyg needs torch_geometric with pyg_lib, --dgl the environment of `scripts/peers/environment.sh dgl`. Servers of DistDGL
share memory by fixed names, so each rank gets a /dev/shm of its own (unshare, which needs root or user namespaces).
Nothing else should be running.
"""
import argparse
import json
import os
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "scripts/measure"), str(ROOT / "scripts/peers/ranks")]
from splits import shorten  # noqa: E402
from watched import machine  # noqa: E402

RANKS = 2
ROUNDS = 3
ABOUT = "Made by scripts/measure/distributed_peers.py; docs/reference/results.md shows it."

UVATRAIN = [
    ("graph with each rank", {"graph": "whole", "expand": "all"}),
    ("graph divided", {"graph": "divided", "expand": "all"}),
    ("graph with each rank, new nodes only", {"graph": "whole", "expand": "new"}),
    ("graph divided, new nodes only", {"graph": "divided", "expand": "new"}),
]
PYG = [
    ("own process", {"workers": 0, "async": False, "concurrency": 1}),
    ("1 worker", {"workers": 1, "async": True, "concurrency": 4}),
]
DGL = [
    ("no sampler process", {"samplers": 0, "graphbolt": False}),
    ("1 sampler process", {"samplers": 1, "graphbolt": False}),
    ("GraphBolt, no sampler process", {"samplers": 0, "graphbolt": True}),
    ("GraphBolt, 1 sampler process", {"samplers": 1, "graphbolt": True}),
]
# An own /dev/shm, and then the command.
OWN_SHM = ["unshare", *([] if os.geteuid() == 0 else ["--user", "--map-root-user"]), "--mount", "--propagation", "private", "sh",
           "-c", 'mount -t tmpfs tmpfs /dev/shm && exec "$@"', "sh"]


class Failed(Exception):
    pass


def rank_main(data, parts, out, options):
    """One rank of uvatrain's."""
    import numpy as np
    import torch

    import uvatrain
    from ranks import joined, measure

    joined()
    original = np.load(Path(parts, "graph/orig_id.npy"))

    def drawn(batch):
        # The outermost block has the edges of the others again where only new nodes are drawn for.
        return batch.blocks[-1].num_edges if options["expand"] == "new" else sum(block.num_edges for block in batch.blocks)

    how = {"graph": "divided"} if options["graph"] == "divided" else {}
    with uvatrain.Loader(parts, part="rank", fanouts=options["fanouts"], batch_size=options["batch_size"], drop_last=True,
                         expand=options["expand"], remote_cache=0, **how) as loader:
        measure(lambda: loader, lambda batch: (lambda: original[batch.input_nodes], batch.x, drawn(batch)), data,
                options["rounds"], out, {"uvatrain": uvatrain.__version__})
    torch.distributed.destroy_process_group()


def environment(ours, **variables):
    """This process's, which for a peer names neither our module nor our torch."""
    kept = os.environ if ours else {name: value for name, value in os.environ.items()
                                    if name not in ("PYTHONPATH", "LD_LIBRARY_PATH")}
    return dict(kept, GLOO_SOCKET_IFNAME="lo", TP_SOCKET_IFNAME="lo", OMP_NUM_THREADS="1", OMP_WAIT_POLICY="passive",
                THP_MEM_ALLOC_ENABLE="1", PYTHONUNBUFFERED="1", **variables)


def free_ports(count):
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


def run_all(commands, folder, timeout, environments):
    """Runs commands side by side, each in a session of its own; ends them all when one fails or the time is up."""
    processes, logs = [], []
    for number, (command, environment) in enumerate(zip(commands, environments)):
        logs.append(folder / f"log{number}.txt")
        with logs[-1].open("w") as log:
            processes.append(subprocess.Popen(list(map(str, command)), stdout=log, stderr=subprocess.STDOUT, env=environment,
                                              start_new_session=True))
    why = None
    deadline = time.monotonic() + timeout
    while any(process.poll() is None for process in processes):
        if any(process.poll() not in (None, 0) for process in processes):
            why = "a process failed"
            time.sleep(1)
            break
        if time.monotonic() > deadline:
            why = f"not done after {timeout:.0f} s"
            break
        time.sleep(0.05)
    for process in processes:
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        process.wait()
    if why or any(process.returncode != 0 for process in processes):
        tails = ["\n".join(log.read_text(errors="replace").splitlines()[-12:]) for log in logs]
        raise Failed("\n".join([why or "a process failed", *tails]))


def ranks_of(command_of, options, folder, timeout, prefix, ours):
    """Runs the ranks of a system one way, and returns what they found."""
    folder.mkdir()
    ports = free_ports(2 + RANKS)
    (folder / "addresses.txt").write_text("".join(f"127.0.0.1 {port}\n" for port in ports[2:]))
    cores = sorted(os.sched_getaffinity(0))
    commands, environments = [], []
    for rank in range(RANKS):
        pin = ["taskset", "--cpu-list", cores[rank % len(cores)]]
        commands.append([*pin, *prefix, *command_of(folder, options)])
        environments.append(environment(
            ours, RANK=str(rank), WORLD_SIZE=str(RANKS), LOCAL_RANK=str(rank), MASTER_ADDR="127.0.0.1",
            MASTER_PORT=str(ports[0]), RPC_PORT=str(ports[1])))
    run_all(commands, folder, timeout, environments)
    return [json.loads((folder / f"rank{rank}.json").read_text()) for rank in range(RANKS)]


def figures(ranks):
    """What the ranks' counts and ends of epochs come to."""
    ends = [max(rank["ends"][number] for rank in ranks) for number in range(ROUNDS + 1)]
    rounds = []
    for number in range(ROUNDS):
        total = {name: sum(rank["counts"][number][name] for rank in ranks) for name in ranks[0]["counts"][number]}
        rounds.append(total | {"seconds": ends[number + 1] - ends[number]})
    batches = sum(one["batches"] for one in rounds)
    return {
        "batches_per_second": statistics.median(one["batches"] / one["seconds"] for one in rounds),
        "feature_bytes_per_second": statistics.median(one["bytes"] / one["seconds"] for one in rounds),
        "input_nodes_per_batch": sum(one["input_nodes"] for one in rounds) / batches,
        "edges_per_batch": sum(one["edges"] for one in rounds) / batches,
        "batches_per_epoch": rounds[0]["batches"], "checked_rows": sum(rank["checked_rows"] for rank in ranks),
        "rounds": rounds,
    }


def table(found):
    lines = ["| system | batches/s | slowest and fastest epoch | input nodes a batch | edges a batch | features, MB/s |",
             "|---|---|---|---|---|---|"]
    for one in found:
        if "error" in one:
            lines.append(f"| {one['system']}, {one['way']} | failed | | | | |")
            continue
        rates = sorted(epoch["batches"] / epoch["seconds"] for epoch in one["rounds"])
        lines.append(f"| {one['system']}, {one['way']} | {one['batches_per_second']:.3g} | {rates[0]:.3g} to {rates[-1]:.3g} | "
                     f"{one['input_nodes_per_batch']:,.0f} | {one['edges_per_batch']:,.0f} | "
                     f"{one['feature_bytes_per_second'] / 1e6:,.0f} |")
    return "\n".join(lines)


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--binary", type=Path, default=ROOT / "target/release/uvatrain")
    arguments.add_argument("--pyg", type=Path, help="the python that imports torch_geometric and pyg_lib")
    arguments.add_argument("--dgl", type=Path, help="the python that imports dgl")
    arguments.add_argument("--only", type=lambda text: text.split(","), default=["uvatrain", "pyg", "dgl"])
    arguments.add_argument("--method", default="random", help="of uvatrain partition")
    arguments.add_argument("--nodes", type=int, default=400_000)
    arguments.add_argument("--dim", type=int, default=128)
    arguments.add_argument("--batches", type=int, default=40, help="of an epoch, all ranks together")
    arguments.add_argument("--fanouts", type=lambda text: [int(one) for one in text.split(",")], default=[10, 10])
    arguments.add_argument("--batch-size", type=int, default=1024)
    arguments.add_argument("--timeout", type=float, default=240, help="seconds for each way of a system")
    arguments.add_argument("--keep", type=Path, metavar="FOLDER", help="keep graph, parts and logs there")
    arguments.add_argument("--out", type=Path)
    arguments.add_argument("--rank-of", nargs=4, metavar=("DATA", "PARTS", "OUT", "OPTIONS"), help=argparse.SUPPRESS)
    chosen = arguments.parse_args()
    if chosen.rank_of:
        rank_main(*chosen.rank_of[:3], json.loads(chosen.rank_of[3]))
        return
    temporary = Path(tempfile.mkdtemp(prefix="uvatrain-distributed-")) if chosen.keep is None else chosen.keep
    temporary.mkdir(exist_ok=True)
    try:
        measure_all(chosen, temporary)
    finally:
        if chosen.keep is None:
            shutil.rmtree(temporary, ignore_errors=True)


def measure_all(chosen, folder):
    data, parts = folder / "data", folder / "parts"
    quiet = dict(check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=chosen.timeout)
    subprocess.run([chosen.binary, "generate", data, "--kind", "powerlaw", "--nodes", str(chosen.nodes), "--feat-dim",
                    str(chosen.dim), "--train-share", "0.5"], **quiet)
    shorten(data / "train_idx.npy", chosen.batches * chosen.batch_size)
    subprocess.run([chosen.binary, "partition", data, parts, "--parts", str(RANKS), "--layout", "ranges", "--method",
                    chosen.method], **quiet)
    described = json.loads((parts / "partition.json").read_text())
    common = {"fanouts": chosen.fanouts, "batch_size": chosen.batch_size, "rounds": ROUNDS}
    scripts = ROOT / "scripts/peers/ranks"
    systems, found, versions, left_out = [], [], {}, {}
    if "uvatrain" in chosen.only:
        systems.append(("uvatrain", UVATRAIN, None, lambda out, options: [
            sys.executable, __file__, "--rank-of", data, parts, out, json.dumps(options)], ()))
    for name, title, ways, python, script, prefix in (
            ("pyg", "PyG", PYG, chosen.pyg, scripts / "pyg_ranks.py", ()),
            ("dgl", "DistDGL", DGL, chosen.dgl, scripts / "dgl_ranks.py", OWN_SHM)):
        if name not in chosen.only:
            continue
        if python is None:
            left_out[title] = f"--{name} names no interpreter"
            print(f"{title} is left out: {left_out[title]}")
            continue
        divided = folder / name
        systems.append((title, ways, [python, script, "divide", data, parts, divided],
                        lambda out, options, python=python, script=script, divided=divided: [
                            python, script, "rank", data, parts, divided, out, json.dumps(options)], prefix))
    for system, ways, division, command_of, prefix in systems:
        if division:
            place = folder / f"{system}-divide"
            place.mkdir()
            began = time.monotonic()
            try:
                run_all([division], place, chosen.timeout, [environment(ours=False)])
            except Failed as failed:
                print(f"{system} is left out: it did not divide the graph: {failed}")
                left_out[system] = str(failed).splitlines()[0]
                continue
            print(f"{system}: graph divided in {time.monotonic() - began:.0f} s", flush=True)
        for number, (way, options) in enumerate(ways):
            one = {"system": system, "way": way, "options": options}
            began = time.monotonic()
            try:
                ranks = ranks_of(command_of, options | common, folder / f"{system}-{number}", chosen.timeout, prefix,
                                 ours=division is None)
            except Failed as failed:
                # What the logs say names paths of this machine.
                one["error"] = str(failed).splitlines()[0]
                print(f"{system}, {way}: {failed}", flush=True)
            else:
                one |= figures(ranks)
                versions[system] = ranks[0]["versions"]
                print(f"{system}, {way}: {one['batches_per_second']:.3g} batches/s; {time.monotonic() - began:.0f} s for all",
                      flush=True)
            found.append(one)
    print(table(found))
    if chosen.out:
        result = {
            "about": ABOUT, "machine": machine(), "versions": versions,
            "graph": {"kind": "powerlaw", "nodes": chosen.nodes, "edges": described["graph"]["edges"], "dim": chosen.dim,
                      "method": described["method"], "edge_cut": described["edge_cut"]},
            "ranks": RANKS, "cores_a_rank": 1, "batches_per_epoch": chosen.batches, **common, "left_out": left_out,
            "found": found,
        }
        chosen.out.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
