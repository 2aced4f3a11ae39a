#!/usr/bin/env python3
"""Measures the exchange of feature rows between ranks compared with torch.distributed alone, and what copies of hot rows spare.

    PYTHON scripts/measure/exchange.py [--binary target/release/uvatrain] [--ranks 2] [--nodes 400000] [--dim 128]
                                       [--batches 40] [--out docs/results/exchange.json]

The graph is a power law, divided into as many ranges as there are ranks, which are processes of this machine joined by gloo
over loopback. Each takes the batches of an epoch without a model, with caches of 0, 5, 10 and 20 % of the table for rows of
others. Printed for each share:

  remote       of the rows of the batches those that came from another rank
  least        the same if the cache held the rows of others that these very batches read most: none can have fewer
  rows/s       rows of others a second, of the time in the calls that pass ids and rows on
  of gloo      these bytes a second over those of `all_to_all_single` with as many bytes a call, in the same run
  alone        the same of the three calls of a batch by uvatrain's exchange without sampling and gathering
  met          share of the pass in which a rank waited until the others had reached the same batch

While a rank gathers the rows that others requested, they wait in those calls, too. PYTHON has this checkout's module (scripts/check/python.sh says how).
Nothing else should be running.
"""
import argparse
import collections
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts/measure"))
from splits import shorten  # noqa: E402
from watched import machine  # noqa: E402

BATCH = 1024
SHARES = [0, 0.05, 0.1, 0.2]
ROUNDS = 3


def rank_main(data, out):
    """One rank: takes the epoch once for each share, and then exchanges as many bytes by torch alone."""
    import torch
    import torch.distributed as dist
    import uvatrain
    from uvatrain.loader.exchange import Exchange

    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    found = []
    for share in SHARES:
        options = dict(part="rank", fanouts=[10, 10], batch_size=BATCH, drop_last=True)
        with uvatrain.Loader(data, **options, remote_cache=0) as probe:
            table = probe.dataset.num_nodes * probe.dataset.feature_dim * 4
            own, nodes = probe.dataset._core.own_rows, probe.dataset.num_nodes
        cache = int(table * share) + 4 * nodes if share else 0
        reads, rows = collections.Counter(), 0
        # Not in a timed pass: counting in Python would keep the interpreter from the calls of the exchange.
        with uvatrain.Loader(data, **options, remote_cache=cache) as loader:
            for batch in loader:
                rows += len(batch.input_nodes)
                others = batch.input_nodes[(batch.input_nodes < own[0]) | (batch.input_nodes >= own[1])]
                reads.update(others.tolist())
        passes = []
        for _ in range(ROUNDS):
            with uvatrain.Loader(data, **options, remote_cache=cache) as loader:
                began = time.perf_counter()
                for batch in loader:
                    del batch
                counts = loader.stats()["exchange"] | {"seconds": time.perf_counter() - began}
                dim = loader.dataset.feature_dim
            passes.append(counts)
        room = int(table * share) // (dim * 4)
        spared = sum(count for _, count in reads.most_common(room))
        calls = len(loader)
        # The mean of a call on any rank: as many bytes everywhere.
        mean = torch.tensor(counts["received_bytes"] // calls // (dist.get_world_size() - 1))
        dist.all_reduce(mean)
        each = int(mean) // dist.get_world_size()
        given = torch.zeros(each * dist.get_world_size(), dtype=torch.uint8)
        got = torch.empty_like(given)
        times, alone = [], []
        ids = [each // (dim * 4) * 8] * dist.get_world_size()
        rows_of_each = [each] * dist.get_world_size()
        exchange = Exchange(60)
        for _ in range(3 * calls):
            dist.barrier()
            start = time.perf_counter()
            dist.all_to_all_single(got, given)
            times.append(time.perf_counter() - start)
            dist.barrier()
            start = time.perf_counter()
            exchange.counts(ids)
            for bytes_of_each in (ids, rows_of_each):
                exchange.lend(sum(bytes_of_each))
                exchange.exchange(bytes_of_each, bytes_of_each)
            alone.append(time.perf_counter() - start)
        exchange.leave()
        passed = statistics.median(one["waited_s"] - one["met_s"] for one in passes)
        gloo = each * (dist.get_world_size() - 1) / statistics.median(times)
        of_ids = (ids[0] + 8) / each
        total = sum(counts[name] for name in ("own_rows", "cached_rows", "remote_rows"))
        found.append({
            "cache_share": share, "remote": counts["remote_rows"] / total,
            "least": (sum(reads.values()) - spared) / max(rows, 1),
            "remote_rows_per_second": counts["remote_rows"] / passed,
            "bytes_per_second": counts["received_bytes"] / passed, "gloo_bytes_per_second": gloo,
            "alone": (1 + of_ids) * statistics.median(times) / statistics.median(alone),
            "met_share": statistics.median(one["met_s"] / one["seconds"] for one in passes),
        })
    Path(out, f"rank{dist.get_rank()}.json").write_text(json.dumps(found))
    dist.barrier()
    dist.destroy_process_group()


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--binary", type=Path, default=ROOT / "target/release/uvatrain")
    arguments.add_argument("--ranks", type=int, default=2)
    arguments.add_argument("--nodes", type=int, default=400_000)
    arguments.add_argument("--dim", type=int, default=128)
    arguments.add_argument("--batches", type=int, default=40, help="of an epoch, all ranks together")
    arguments.add_argument("--out", type=Path)
    arguments.add_argument("--rank-of", nargs=2, metavar=("DATA", "OUT"), help=argparse.SUPPRESS)
    chosen = arguments.parse_args()
    if chosen.rank_of:
        rank_main(*chosen.rank_of)
        return
    with tempfile.TemporaryDirectory(prefix="uvatrain-exchange-") as temporary:
        folder = Path(temporary)
        data, parts = folder / "data", folder / "parts"
        quiet = dict(check=True, stdout=subprocess.DEVNULL)
        subprocess.run([chosen.binary, "generate", data, "--kind", "powerlaw", "--nodes", str(chosen.nodes), "--feat-dim",
                        str(chosen.dim), "--train-share", "0.5"], **quiet)
        shorten(data / "train_idx.npy", chosen.batches * BATCH)
        subprocess.run([chosen.binary, "partition", data, parts, "--parts", str(chosen.ranks), "--layout", "ranges", "--method",
                        "random"], **quiet)
        command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(chosen.ranks), __file__,
                   "--rank-of", parts, folder]
        subprocess.run(command, check=True, env=dict(os.environ, GLOO_SOCKET_IFNAME="lo", OMP_NUM_THREADS="1"))
        each = [json.loads((folder / f"rank{rank}.json").read_text()) for rank in range(chosen.ranks)]
    rows = [{name: statistics.mean(rank[name] for rank in ranks) for name in ranks[0]} for ranks in zip(*each)]
    print(f"{'cache':>6} {'remote':>8} {'least':>8} {'rows/s':>12} {'of gloo':>8} {'alone':>6} {'met':>6}")
    for row in rows:
        row["of_gloo"] = row["bytes_per_second"] / row["gloo_bytes_per_second"]
        print(f"{row['cache_share']:>6.0%} {row['remote']:>8.1%} {row['least']:>8.1%} {row['remote_rows_per_second']:>12,.0f} "
              f"{row['of_gloo']:>8.2f} {row['alone']:>6.2f} {row['met_share']:>6.1%}")
    if chosen.out:
        found = {"machine": machine(), "ranks": chosen.ranks, "nodes": chosen.nodes, "dim": chosen.dim, "rows": rows}
        chosen.out.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
