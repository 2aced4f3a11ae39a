"""The steps that compare: with a plain loop, with the CPU, with the same run a second time."""
import glob
import importlib.util
import os
import signal
import sys
from pathlib import Path

from suite import Failed, Skipped, Unfinished, children, end, events, last_line, wait_for


def tests(suite, program, *filters, env=None, limit=None):
    """Runs a test program; gives how many of its tests passed, and which were left out."""
    path = suite.bin / program
    if not path.exists():
        raise Failed(f"{path} is missing: scripts/gpu/carry.sh makes it")
    env = dict(env or {})
    if not suite.simulate:
        env["UVATRAIN_REQUIRE_GPU"] = "1"
    stdout, stderr = suite.run(path, "--test-threads=1", "--nocapture", *filters, env=env, limit=limit)
    passed = sum(int(line.split("ok. ")[1].split()[0]) for line in stdout.splitlines() if line.startswith("test result: ok."))
    if not passed:
        raise Failed(f"{program} {' '.join(filters)}: no test of that name")
    lines = (stdout + stderr).splitlines()
    return {"passed": passed, "not_run": sorted({line.strip() for line in lines if "not run" in line})}


def wide(suite, found):
    """The default kernel, against a plain loop."""
    found["every_kernel"] = tests(suite, "test-uva-cuda", "every_kernel")
    found["conformance"] = tests(suite, "test-uva-rows", "the_wide_kernel_conforms")


def kernels(suite, found):
    """Every gather against a plain loop, and what it reports."""
    found.update(tests(suite, "test-uva-cuda", "every_kernel", "rows_with_a_slot", "an_id_out_of_range", "no_ids"))


def conformance(suite, found):
    """Every kernel on rows, ids and tables of every shape."""
    names = ["cuda::conformance::the_wide_kernel_conforms"]
    if not suite.simulate:
        listed, _ = suite.run(suite.bin / "test-uva-rows", "--list", "cuda::")
        tests_of = [line.removesuffix(": test") for line in listed.splitlines() if line.endswith(": test")]
        names = [name for name in tests_of if "conform" in name or "region_by_region" in name]
    # Each in a process of its own, all at the same time: most of the work is the CPU's, which compares.
    env = {} if suite.simulate else {"UVATRAIN_REQUIRE_GPU": "1"}
    running = {name: suite.start(suite.bin / "test-uva-rows", "--exact", "--include-ignored", "--nocapture", name, env=env) for name in names}
    found["passed"], failed, unfinished = [], [], []
    for name, process in running.items():
        try:
            code, stdout, stderr = suite.finish(process)
        except Unfinished as why:
            unfinished.append(str(why))
            continue
        if code == 0 and "1 passed" in stdout and "not run" not in stdout + stderr:
            found["passed"].append(name)
        else:
            failed.append(f"{name}: exit code {code}: {last_line(stderr.strip() or stdout)}")
    if failed or unfinished:
        raise (Failed(failed[0]) if failed else Unfinished(unfinished[0]))


def sampling(suite, found):
    """Batches sampled on this device against the CPU's, of every kind."""
    found["equal"] = tests(suite, "test-uva-sample", *(("any_grid",) if suite.simulate else ("equal::",)))
    found["kinds"] = tests(suite, "test-uva-sample", "edge_ids_say" if suite.simulate else "kinds::")


def models(suite, found):
    """A trainer on this device against one on the CPU."""
    if suite.simulate:
        raise Skipped("libtorch has no device under the simulator")
    found.update(tests(suite, "test-uva-train", "tests::devices::cuda", "tests::trainer::late_results"))
    if found["not_run"]:
        raise Failed(f"the models were not tested on the GPU: {found['not_run'][0]}")


def slots(suite, found):
    """Slots filled one after another while a consumer reads, in every mode."""
    names = ("a_split_is_right",) if suite.simulate else (
        "two_slots", "a_split_is_right", "pieces_in_flight", "on_a_partition", "a_bad_id", "slots_filled_with_cached",
        "a_fifo_cache_in_slots", "a_cache_of_several_pieces")
    found.update(tests(suite, "test-uva-rows", "--skip=host::", *names))


def sanitizer(suite, found):
    """compute-sanitizer over the kernels."""
    if suite.simulate:
        raise Skipped("there is no machine code to look at under the simulator")
    program = suite.which("compute-sanitizer") or next(iter(glob.glob("/usr/local/cuda*/bin/compute-sanitizer")), None)
    if not program:
        raise Skipped("compute-sanitizer is not on this machine")
    # initcheck is reported but cannot fail the step: the shim's poison shows unwritten outputs, and it has known false alarms on
    # copies.
    for tool in ("memcheck", "racecheck", "initcheck"):
        stdout, stderr = suite.run(program, "--tool", tool, "--error-exitcode", "9", suite.bin / "test-uva-cuda",
                                   "--test-threads=1", "every_kernel", "rows_with_a_slot", env={"UVATRAIN_REQUIRE_GPU": "1"},
                                   codes=(0, 1, 9) if tool == "initcheck" else (0,))
        found[tool] = next((line.strip("= ") for line in (stdout + stderr).splitlines() if "SUMMARY" in line), None)


NONE, GREEN, GRID = (("--partition", name) for name in ("none", "green", "grid"))
MPS = ("--partition", "mps", "--mps", "require")
PARTITIONS = [("none", NONE), ("green", GREEN), ("grid", GRID)]
# Each way of sharing between processes by name, so that none falls back to another.
SHARING = [
    ("none, descriptors and events", (*NONE, "--ipc", "vmm", "--ipc-signals", "events")),
    ("none, descriptors and stamps", (*NONE, "--ipc", "vmm", "--ipc-signals", "stamps")),
    ("none, handles and events", (*NONE, "--ipc", "legacy", "--ipc-signals", "events")),
    ("none, handles and stamps", (*NONE, "--ipc", "legacy", "--ipc-signals", "stamps")),
]
WAYS = [
    ("none", NONE),
    ("none, shift, legacy handles, one slot", (*NONE, "--kernel", "shift", "--ipc", "legacy", "--slots", "1")),
    ("none, naive, descriptors, two samplers", (*NONE, "--kernel", "naive", "--ipc", "vmm", "--samplers", "2")),
    ("none, stamps", (*NONE, "--ipc-signals", "stamps")),
    ("none, copies", (*NONE, "--gather", "dma")),
    ("none, copies and cached rows",
     (*NONE, "--gather", "dma", "--sampler", "cpu", "--gpu-cache", "300KiB")),
    ("none, rows from disk", (*NONE, "--features", "disk", "--host-cache", "300KiB")),
    ("none, rows from disk and cached ones", (*NONE, "--features", "disk", "--gpu-cache", "300KiB")),
    ("none, split", (*NONE, "--gather", "split")),
    ("none, the CPU", (*NONE, "--gather", "cpu")),
    ("none, a sampler on the GPU", (*NONE, "--sampler", "gpu")),
    ("none, slots for the largest batch", (*NONE, "--gpu-slots", "largest")),
    ("none, sums of a kernel", (*NONE, "--aggregate", "device")),
    ("none, copied sums of the CPU", (*NONE, "--aggregate", "host", "--gather", "dma")),
    ("none, sums of the CPU continued with cached rows",
     (*NONE, "--aggregate", "host", "--gather", "dma", "--sampler", "cpu", "--gpu-cache", "300KiB")),
    ("green", GREEN),
    ("grid", GRID),
    ("grid, a sampler on the GPU", (*GRID, "--sampler", "gpu")),
    ("mps", MPS),
    # Its last option is the one that names what the machine may lack.
    ("mps, a sampler on the GPU", ("--sampler", "gpu", *MPS)),
]


def compare(suite, found, ways, epochs, kind="f32"):
    """Batches by each of these ways, against those of the CPU; features are stored as `kind`."""
    graph = suite.small_graph(kind)
    common = ("--epochs", str(epochs), "--batch-size", "200", "--seed", "3")
    cpu = suite.work / f"cpu-{kind}-{epochs}.jsonl"
    if not cpu.exists():
        suite.run(*suite.train_command(graph, cpu, "--device", "cpu", *common))
    identity = lambda event: (event["epoch"], event["batch"], event["hash"])
    wanted = [identity(event) for event in events(cpu, "batch")]
    losses = [event["loss"] for event in events(cpu, "batch")]
    if not wanted:
        raise Failed("the run on the CPU trained no batch")
    found["batches"], late = len(wanted), []
    done = found.setdefault("ways", {})
    for number, (name, options) in enumerate(ways):
        metrics = suite.work / f"way-{kind}-{epochs}-{len(ways)}-{number}.jsonl"
        try:
            code, _, stderr = suite.finish(
                suite.start(*suite.train_command(graph, metrics, "--device", "cuda:0", *options, *common)), suite.patience(60))
        except Unfinished as why:
            done[name] = {"unfinished": str(why), "batches": len(events(metrics, "batch"))}
            late.append(name)
            if suite.left() < 5:
                break
            continue
        # A way that this machine does not support is refused with a message if it is requested by name.
        by_name = any(f"{option} {value}: " in stderr for option, value in zip(options, options[1:]))
        if (code in (1, 3) and by_name) or (code == 3 and options[-1] in ("require", "green")):
            done[name] = {"skipped": last_line(stderr)}
            continue
        if code != 0:
            raise Failed(f"{name}: exit code {code}: {last_line(stderr)}")
        batches = events(metrics, "batch")
        if [identity(event) for event in batches] != wanted:
            raise Failed(f"{name}: other batches than on the CPU")
        farthest = max(abs(e["loss"] - loss) / max(abs(loss), 1e-6) for e, loss in zip(batches, losses))
        if farthest > 0.02:
            raise Failed(f"{name}: a loss is {farthest:.1%} from that of the CPU")
        start, last = events(metrics, "start")[0], events(metrics, "epoch")[-1]
        done[name] = {"farthest_loss": farthest, "last_epoch_seconds": last["seconds"],
                      "in_force": start.get("in_force"),
                      "fell_back": [line for line in stderr.splitlines() if " instead" in line]}
    if late:
        raise Unfinished(f"not done in time: {'; '.join(late)}; {len(done)} of {len(ways)} ways were tried")


def partitions(suite, found):
    """One epoch by each partition that works without MPS, and by each way of sharing."""
    compare(suite, found, PARTITIONS + SHARING, 1)
    if found["ways"]["green"].get("fell_back"):
        raise Failed("--partition green fell back, though it was requested by name")


def mps(suite, found):
    """One epoch under MPS."""
    if not suite.which("nvidia-cuda-mps-control"):
        raise Skipped("no nvidia-cuda-mps-control in PATH")
    compare(suite, found, [("mps", MPS)], 1)


def training(suite, found):
    """Batches by every way and partition, and of a table of float8."""
    compare(suite, found, WAYS, 2)
    compare(suite, found, [("none, float8", NONE)], 2, "e4m3")


def faults(suite, found):
    """A role killed in the middle of a run: the run ends with its name, and the next one works."""
    graph = suite.small_graph()
    partitions = [("none", NONE)]
    if suite.which("nvidia-cuda-mps-control"):
        partitions.append(("mps", MPS))
    for name, options in partitions:
        for role in ("producer", "consumer"):
            metrics = suite.work / f"killed-{name}-{role}.jsonl"
            command = suite.train_command(graph, metrics, "--device", "cuda:0", "--epochs", "10000", "--batch-size",
                                          "200", *options)
            process = suite.start(*command)
            try:
                def trained():
                    if process.poll() is not None:
                        raise Failed(f"{name}: the run ended before it had trained 20 batches")
                    return len(events(metrics, "batch")) >= 20
                wait_for("20 batches", trained, suite.patience(60))
                roles = children(process.pid)
                if role not in roles:
                    raise Failed(f"{name}: no {role} among the launcher's children: {sorted(roles)}")
                os.kill(roles[role], signal.SIGKILL)
                code, _, stderr = suite.finish(process, suite.patience(40))
            finally:
                end(process)
            if code != 1 or role not in stderr:
                raise Failed(f"{name}: {role} killed: exit code {code}: {last_line(stderr)}")
            wait_for("the other roles' end", lambda: not any(Path(f"/proc/{pid}").exists() for pid in roles.values()),
                     suite.patience(20))
            again = suite.work / f"after-{name}-{role}.jsonl"
            suite.run(*suite.train_command(graph, again, "--device", "cuda:0", "--epochs", "1", "--batch-size", "200",
                                           *options), limit=suite.patience(60))
            found[f"{role} killed, partition {name}"] = {"exit_code": code, "said": last_line(stderr),
                                                         "next_run": "works"}


def python(suite, found):
    """The Python module on the GPU: batches as tensors of torch's, on its streams."""
    folder = suite.bin.parent / "python"
    if not folder.is_dir():
        raise Skipped("the module was not carried")
    if not os.environ.get("GPU_SUITE_TORCH") or importlib.util.find_spec("numpy") is None:
        raise Skipped("python3 has no torch, or no numpy")
    env = {"PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}
    if suite.simulate:
        env["UVATRAIN_CUDA_SIM"] = str(suite.bin / "libcuda_sim.so")
    stdout, _ = suite.run(sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-q", "-rs", folder / "tests/test_cuda.py",
                          env=env)
    found["said"] = last_line(stdout)
