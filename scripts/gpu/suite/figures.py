"""The steps that measure."""
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tarfile
import time
from pathlib import Path

from suite import HERE, Failed, Skipped, Unfinished, children, end, events, last_line


def link(suite, found):
    """What the link gives to long copies and to gathers by the usual kernel."""
    size = "1MiB" if suite.simulate else "1GiB"
    stdout, _ = suite.uvatrain("bench", "pcie", "--kernels", "wide", "--row-bytes", "188,512", "--multiprocessors", "all",
                               "--pages", "transparent-huge", "--ids", "random", "--table-size", size, "--samples", "3",
                               "--zero-copy-only", "--seconds", int(max(10, suite.left() - 20)), "--json")
    found.update(json.loads(stdout))


def startup(suite, found):
    """What `auto` options choose by: the measurement of a first start, the choices, and what `doctor` shows of it."""
    # More than an L2 cache holds.
    graph = suite.graph("startup", 4000 if suite.simulate else 200000, 4, 24 if suite.simulate else 128)
    _, stderr = suite.run(*suite.train_command(graph, suite.work / "startup.jsonl", "--device", "cuda:0", "--partition", "none",
                                               "--epochs", "1", "--batch-size", "200" if suite.simulate else "2048", "--remeasure"))
    found["notes"] = [line for line in stderr.splitlines() if "measured" in line]
    files = sorted((Path(suite.env["XDG_CACHE_HOME"]) / "uvatrain/measured").glob("*.json"))
    if not files:
        raise Failed(f"no measurement was kept: {found['notes'] or last_line(stderr)}")
    found.update(json.loads(files[0].read_text()))
    checks = json.loads(suite.uvatrain("doctor", "--json")[0])["checks"]
    found["doctor"] = [check["finding"] for check in checks if check["name"] == "measured gathers"]


def pcie(suite, found):
    """`uvatrain bench pcie`."""
    reserved, pages = None, Path("/proc/sys/vm/nr_hugepages")
    size = ["--table-size", "2MiB,1MiB"] if suite.simulate else []
    svg = suite.state / "pcie.svg"
    if not suite.simulate and os.access(pages, os.W_OK):
        # Reserved huge pages for one of the tables, given back afterwards.
        reserved = pages.read_text()
        try:
            pages.write_text("2100\n")
        except OSError:
            reserved = None
    try:
        stdout, _ = suite.uvatrain("bench", "pcie", *size, "--seconds", int(max(20, suite.left() - 30)), "--svg", svg, "--json")
    finally:
        if reserved is not None:
            pages.write_text(reserved)
    found.update(json.loads(stdout))


def mps_sweep(suite, found):
    """Rates under shares of the multiprocessors that MPS gives."""
    if not suite.which("nvidia-cuda-mps-control"):
        raise Skipped("no nvidia-cuda-mps-control in PATH")
    size = "1MiB" if suite.simulate else "4GiB"
    started = json.loads(suite.uvatrain("mps", "start", "--json")[0])
    found["shares"] = []
    try:
        for percentage in (7, 10, 20, 50, 100):
            env = {**started["environment"], "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": str(percentage)}
            stdout, _ = suite.uvatrain("bench", "pcie", "--kernels", "wide", "--row-bytes", "188,512,4096", "--multiprocessors",
                                       "all", "--pages", "transparent-huge", "--ids", "random", "--table-size", size,
                                       "--zero-copy-only", "--json", env=env)
            report = json.loads(stdout)
            if not report["device"]["mps_enabled"]:
                raise Failed(f"{percentage} %: the driver says that MPS does not serve this process")
            found["shares"].append({
                "percentage": percentage, "multiprocessors": report["device"]["multiprocessors"],
                "copy_engine": report["copy_engine"]["peak_gb_per_second"],
                "gb_per_second": {cell["row_bytes"]: cell["gb_per_second"] for cell in report["cells"]}})
    finally:
        # Also where the time is over: the daemon is this step's.
        suite.step_end = suite.end = max(suite.end, time.monotonic() + 10)
        suite.uvatrain("mps", "stop", codes=(0, 2, 3))


def epochs(suite, graph, name, *options):
    metrics = suite.work / f"epochs-{name}.jsonl"
    common = ("--epochs", "3", "--batch-size", "200" if suite.simulate else "1024")
    suite.run(*suite.train_command(graph, metrics, *options, *common))
    seconds = [event["seconds"] for event in events(metrics, "epoch")]
    # The first epoch holds the start of everything.
    ends = events(metrics, "end")[0]
    return {"epoch_seconds": seconds, "median": statistics.median(seconds[1:]), "bottleneck": ends.get("bottleneck"),
            "roles": ends.get("roles"), "in_force": events(metrics, "start")[0].get("in_force")}


def epoch_time(suite, found):
    """An epoch through slots, one with all features in GPU memory under the same cap, and one without a cap."""
    # A table beyond the reach of a GPU's translations, which is read region by region.
    graph = suite.graph("large", 4000 if suite.simulate else 4000000, 12, 24 if suite.simulate else 128)
    for name, options in (("through_slots", ("--partition", "auto")),
                          ("all_features_in_gpu_memory", ("--partition", "auto", "--gather", "device")),
                          ("uncapped", ("--partition", "none", "--gather", "device"))):
        found[name] = epochs(suite, graph, name, "--device", "cuda:0", *options)
    for name, other in (("ratio_to_gpu_memory", "all_features_in_gpu_memory"), ("ratio_to_uncapped", "uncapped")):
        found[name] = found["through_slots"]["median"] / found[other]["median"]


def caches(suite, found):
    """Batch times without caches, with one of rows, with both; and where `auto` samples."""
    shape = ("4000", "12", "24", "600KiB") if suite.simulate else ("1000000", "14", "128", "160MiB")
    nodes, degree, features, budget = shape
    graph = suite.work / "citation"
    suite.uvatrain("generate", graph, "--kind", "citation", "--nodes", nodes, "--avg-degree", degree, "--feat-dim", features,
                   limit=suite.left())
    found.update(budget=budget, runs={})
    for name, options in (
        ("no_cache", ("--sampler", "cpu")),
        ("rows", ("--sampler", "cpu", "--gpu-cache", budget)),
        ("gpu_sampler", ("--sampler", "gpu")),
        ("both", ("--sampler", "gpu", "--gpu-cache", budget)),
        ("auto", ("--gpu-cache", "auto")),
    ):
        metrics = suite.work / f"caches-{name}.jsonl"
        command = suite.train_command(graph, metrics, "--device", "cuda:0", *options, "--epochs", "3", "--batch-size",
                                      "100" if suite.simulate else "1000", "--seed", "1")
        _, stderr = suite.run(*command)
        batches = events(metrics, "batch")
        found["runs"][name] = {
            "batches": len(batches), "hash": batches[-1]["hash"], "cache": events(metrics, "end")[0].get("cache"),
            "in_force": {key: events(metrics, "start")[0]["in_force"].get(key) for key in ("sampler", "caches")},
            "notes": [line for line in stderr.splitlines() if "auto:" in line or line.startswith("caches:")],
            **{key: statistics.median(batch[key] for batch in batches) for key in ("sample_us", "gather_us", "train_us")}}
    hashes = {run["hash"] for run in found["runs"].values()}
    if len(hashes) != 1:
        raise Failed(f"the last batch differs between runs: {hashes}")


def resident(pid):
    try:
        for line in open(f"/proc/{pid}/status"):
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) << 10
    except OSError:
        pass
    return None


def device_memory():
    if not shutil.which("nvidia-smi"):
        return None
    shown = subprocess.run(["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits"],
                           capture_output=True, text=True)
    return int(shown.stdout.splitlines()[0]) << 20 if shown.returncode == 0 and shown.stdout.strip() else None


def memory(suite, found):
    """Many batches: memory of every role, and of the device, has to stay flat."""
    graph = suite.small_graph()
    wanted, metrics = (300 if suite.simulate else 10000), suite.work / "many.jsonl"
    process = suite.start(*suite.train_command(graph, metrics, "--device", "cuda:0", "--epochs", "100000", "--batch-size",
                                               "64" if suite.simulate else "32"))
    found.update(batches=0, wanted=wanted, samples=[])
    samples = found["samples"]
    try:
        while found["batches"] < wanted and suite.left() > 25:
            time.sleep(0.2 if suite.simulate else 0.7)
            if process.poll() is not None:
                raise Failed(f"the run ended with {process.returncode} after {found['batches']} batches")
            found["batches"] = len(events(metrics, "batch"))
            roles = children(process.pid)
            if found["batches"]:
                samples.append({"batches": found["batches"], "device": None if suite.simulate else device_memory(),
                                **{role: resident(pid) for role, pid in sorted(roles.items())}})
        process.send_signal(signal.SIGINT)
        found["exit_code"], _, _ = suite.finish(process, suite.patience(25))
    finally:
        end(process)
    if found["exit_code"] != 130:
        raise Failed(f"after SIGINT: exit code {found['exit_code']}, not 130")
    quarter = max(1, len(samples) // 4)
    found["growth_bytes"] = {}
    for what in samples[-1] if samples else ():
        early = [s[what] for s in samples[quarter:2 * quarter] or samples[:1] if s.get(what)]
        late = [s[what] for s in samples[-quarter:] if s.get(what)]
        if what == "batches" or not early or not late:
            continue
        growth = statistics.median(late) - statistics.median(early)
        found["growth_bytes"][what] = growth
        if not suite.simulate and growth > max(16 << 20, 0.02 * statistics.median(early)):
            raise Failed(f"{what} grew by {growth / 2**20:.0f} MiB between the second and the last quarter of the run")
    if found["batches"] < wanted:
        raise Unfinished(f"{found['batches']} of {wanted} batches in the time there was, and nothing grew in those")


def peers(suite, found):
    """Others' gathers on the same rows and ids, of two sizes."""
    if suite.simulate:
        raise Skipped("peers need a GPU")
    out = suite.work / "peers.json"
    code, _, stderr = suite.finish(suite.start(sys.executable, "-B", HERE / "peers.py", "--uvatrain", suite.bin / "uvatrain",
                                               "--row-bytes", "400,512", "--seconds", int(max(20, suite.left() - 15)),
                                               "--out", out))
    if code == 3:
        raise Skipped(last_line(stderr))
    if code != 0:
        raise Failed(f"gpu-peers: exit code {code}: {last_line(stderr)}")
    found.update(json.loads(out.read_text()))


def loaders(suite, found):
    """The same model over PyG's loader and over ours, on a table beyond the reach of a GPU's translations."""
    if suite.simulate:
        raise Skipped("loaders need a GPU")
    graph = suite.graph("loaders", 8000000, 8, 128)
    out, site = suite.work / "loaders.json", HERE / "pyg.tar.xz"
    options = []
    if site.exists():
        with tarfile.open(site) as archive:
            archive.extractall(suite.work / "pyg", filter="data")
        options = ["--pyg", suite.work / "pyg"]
    code, _, stderr = suite.finish(suite.start(
        sys.executable, "-B", HERE / "loaders.py", graph, "--batch-size", "4096", *options, "--out", out,
        env={"PYTHONPATH": f"{HERE / 'python'}:{os.environ.get('PYTHONPATH', '')}"}))
    if code == 3:
        raise Skipped(last_line(stderr))
    if code != 0:
        raise Failed(f"gpu-loaders: exit code {code}: {last_line(stderr)}")
    found.update(json.loads(out.read_text()))
