"""The steps of gpu-suite.sh, which says what they are for and how they are called."""
import argparse
import glob
import importlib.util
import json
import os
import platform
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROLES = ("sampler", "producer", "consumer", "planner", "janitor")
LOG_BYTES = 8 << 20
PART_BYTES = 64 << 10


class Failed(Exception):
    """A step that did not show what it has to."""


class Skipped(Exception):
    """A step that this machine cannot do."""


class Suite:
    def __init__(self, chosen):
        self.out, self.bin, self.simulate = chosen.out, chosen.bin, chosen.simulate
        self.end = time.monotonic() + chosen.seconds
        self.work = Path(tempfile.mkdtemp(prefix="gpu-suite-"))
        self.out.mkdir(parents=True, exist_ok=True)
        self.log = open(self.out / "log.txt", "ab")
        self.step_end = self.end
        self.env = self.environment()

    def environment(self):
        runtime = self.work / "run"
        runtime.mkdir(mode=0o700)
        env = dict(os.environ, XDG_CACHE_HOME=str(self.work / "cache"), XDG_RUNTIME_DIR=str(runtime), NO_COLOR="1")
        folders = []
        if self.simulate:
            simulator = self.work / "cuda-sim"
            simulator.mkdir()
            for name in ("libcuda.so", "libcuda.so.1"):
                (simulator / name).symlink_to((self.bin / "libcuda_sim.so").resolve())
            folders.append(str(simulator))
            # The stand-in for the control program of MPS.
            env["PATH"] = f"{self.bin}:{env.get('PATH', '')}"
        else:
            # Where containers have the driver's half and CUDA's tools, on no path.
            env["PATH"] = f"{env.get('PATH', '')}:/usr/local/nvidia/bin:/usr/local/cuda/bin"
        torch = os.environ.get("GPU_SUITE_TORCH")
        if torch:
            site = Path(torch).parent
            folders += [str(Path(torch) / "lib"), *sorted(glob.glob(str(site / "nvidia/*/lib")))]
            nvrtc = glob.glob(str(site / "nvidia/cu13/lib/libnvrtc.so.13"))
            if nvrtc:
                env.setdefault("UVATRAIN_NVRTC", nvrtc[0])
        if env.get("LD_LIBRARY_PATH"):
            folders.append(env["LD_LIBRARY_PATH"])
        if not self.simulate and Path("/usr/local/nvidia/lib64").is_dir():
            folders.append("/usr/local/nvidia/lib64")
        if folders:
            env["LD_LIBRARY_PATH"] = ":".join(folders)
        return env

    def which(self, program):
        return shutil.which(program, path=self.env.get("PATH"))

    def note(self, text):
        if self.log.tell() < LOG_BYTES:
            self.log.write(text.encode(errors="replace"))
            self.log.flush()

    def left(self):
        return max(1.0, min(self.step_end, self.end) - time.monotonic())

    def start(self, *command, env=None):
        """Starts a command in a process group of its own, its output in files."""
        outputs = [tempfile.TemporaryFile(dir=self.work) for _ in range(2)]
        process = subprocess.Popen([str(word) for word in command], stdin=subprocess.DEVNULL, stdout=outputs[0],
                                   stderr=outputs[1], cwd=self.work, env={**self.env, **(env or {})},
                                   start_new_session=True)
        process.outputs = outputs
        process.line = " ".join(str(word) for word in command)
        return process

    def finish(self, process, limit=None):
        """Waits for it, or kills its group; gives its exit code and what it printed."""
        limit = min(limit or self.left(), self.left())
        late = False
        try:
            process.wait(limit)
        except subprocess.TimeoutExpired:
            late = True
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        texts = []
        for file in process.outputs:
            file.seek(0)
            texts.append(file.read().decode(errors="replace"))
            file.close()
        shown = "".join(text if len(text) < PART_BYTES else text[:PART_BYTES] + "…\n" for text in texts)
        self.note(f"\n$ {process.line}\n{shown}[{'killed after %.0f s' % limit if late else process.returncode}]\n")
        if late:
            raise Failed(f"{process.line}: not done after {limit:.0f} s")
        return process.returncode, texts[0], texts[1]

    def run(self, *command, env=None, limit=None, codes=(0,)):
        code, stdout, stderr = self.finish(self.start(*command, env=env), limit)
        if code not in codes:
            last = (stderr.strip() or stdout.strip()).splitlines()[-3:]
            raise Failed(f"{' '.join(map(str, command))}: exit code {code}: {' | '.join(last)}")
        return stdout, stderr

    def uvatrain(self, *arguments, **options):
        return self.run(self.bin / "uvatrain", *arguments, **options)

    def graph(self, name, nodes, degree, features=100):
        path = self.work / name
        if not path.exists():
            self.uvatrain("generate", path, "--nodes", nodes, "--avg-degree", degree, "--feat-dim", features,
                          "--classes", 8, "--seed", 7)
        return path

    def train_command(self, graph, metrics, *options):
        return [self.bin / "uvatrain", "train", graph, "--metrics", metrics, "--fanouts", "10,5", "--hidden", "64",
                "--train-threads", "1", *options]


def last_line(text):
    lines = text.strip().splitlines()
    return lines[-1][-400:] if lines else "nothing on stderr"


def events(path, kind):
    found = []
    for line in Path(path).read_text().splitlines() if Path(path).exists() else []:
        try:
            value = json.loads(line)
        except ValueError:  # a line that is still being written
            break
        if value.get("event") == kind:
            found.append(value)
    return found


# --- the steps, in their order; each gives what goes into its file ---


def machine(suite):
    """Where this is: the driver, the device, libtorch, the host."""
    code, stdout, stderr = suite.finish(suite.start(suite.bin / "uvatrain", "probe"))
    if code != 0:
        raise Failed(f"uvatrain probe: exit code {code}: {last_line(stderr)}")
    probe = json.loads(stdout)
    if probe.get("unavailable") or not probe.get("devices"):
        suite.no_gpu = probe.get("unavailable") or "the driver shows no device"
        raise Failed(f"no GPU: {suite.no_gpu}")
    doctor = json.loads(suite.uvatrain("doctor", "--json", codes=(0, 1, 3))[0])
    found = {"probe": probe, "doctor": doctor, "kernel": platform.release(), "cores": os.cpu_count()}
    query = "name,driver_version,pcie.link.gen.max,pcie.link.gen.current,pcie.link.width.current,memory.total"
    if suite.which("nvidia-smi"):
        found["nvidia_smi"] = suite.run("nvidia-smi", f"--query-gpu={query}", "--format=csv", codes=(0, 1, 9))[0]
    for name, path in (("transparent_huge_pages", "/sys/kernel/mm/transparent_hugepage/enabled"),
                       ("shmem_huge_pages", "/sys/kernel/mm/transparent_hugepage/shmem_enabled")):
        found[name] = Path(path).read_text().strip() if Path(path).exists() else None
    memory = [line for line in open("/proc/meminfo") if line.startswith(("MemTotal", "MemAvailable", "HugePages_Total"))]
    found["memory"] = "".join(memory)
    found["torch"] = os.environ.get("GPU_SUITE_TORCH") or None
    return found


def tests(suite, program, *filters, env=None, limit=None):
    """Runs a test program; gives how many of its tests passed, and which were left out."""
    path = suite.bin / program
    if not path.exists():
        raise Failed(f"{path} is missing: scripts/gpu-carry.sh makes it")
    env = dict(env or {})
    if not suite.simulate:
        env["UVATRAIN_REQUIRE_GPU"] = "1"
    stdout, stderr = suite.run(path, "--test-threads=1", "--nocapture", *filters, env=env, limit=limit)
    passed = sum(int(line.split("ok. ")[1].split()[0]) for line in stdout.splitlines() if line.startswith("test result: ok."))
    if not passed:
        raise Failed(f"{program} {' '.join(filters)}: no test of that name")
    lines = (stdout + stderr).splitlines()
    return {"passed": passed, "not_run": sorted({line.strip() for line in lines if "not run" in line})}


def kernels(suite):
    """Every gather against a plain loop, batches against the CPU's, on this device; the models."""
    gathers = ("every_kernel", "rows_with_a_slot", "an_id_out_of_range", "no_ids")
    found = {"kernels": tests(suite, "test-uva-cuda", *gathers)}
    found["conformance"] = tests(suite, "test-uva-gather", "wide_kernel_conforms" if suite.simulate else "conforms")
    sampling = ("batches_are_those", "any_grid") if suite.simulate else ()
    found["sampling"] = tests(suite, "test-uva-sample-cuda", *sampling)
    kinds = ("edge_ids_say",) if suite.simulate else ()
    found["kinds"] = tests(suite, "test-uva-sample-cuda-kinds", *kinds)
    if suite.simulate:
        return found
    found["models"] = tests(suite, "test-uva-train", "tests::cuda")
    if found["models"]["not_run"]:
        raise Failed(f"the models were not tested on the GPU: {found['models']['not_run'][0]}")
    return found


def slots(suite):
    """Slots filled in turns while a consumer reads, in every mode."""
    names = ("a_split_is_right",) if suite.simulate else (
        "two_slots", "a_split_is_right", "pieces_on_their_way", "on_a_partition", "a_bad_id", "slots_filled_with_cached",
        "a_fifo_cache_in_slots", "a_cache_of_several_pieces")
    return tests(suite, "test-uva-gather", *names)


def sanitizer(suite):
    """compute-sanitizer over the kernels."""
    if suite.simulate:
        raise Skipped("there is no machine code to look at under the simulator")
    program = suite.which("compute-sanitizer") or next(iter(glob.glob("/usr/local/cuda*/bin/compute-sanitizer")), None)
    if not program:
        raise Skipped("compute-sanitizer is not on this machine")
    found, env = {}, {"UVATRAIN_REQUIRE_GPU": "1"}
    for tool in ("memcheck", "racecheck", "initcheck"):
        stdout, stderr = suite.run(program, "--tool", tool, "--error-exitcode", "9", suite.bin / "test-uva-cuda",
                                   "--test-threads=1", "every_kernel", "rows_with_a_slot", env=env,
                                   codes=(0, 1, 9) if tool == "initcheck" else (0,))
        found[tool] = next((line.strip("= ") for line in (stdout + stderr).splitlines() if "SUMMARY" in line), None)
    # Told, not judged: the shim's poison is what shows unwritten outputs, and initcheck has known false alarms on copies.
    return found


VARIANTS = [
    ("none", ("--partition", "none")),
    ("none, shift, legacy handles, one slot", ("--partition", "none", "--kernel", "shift", "--ipc", "legacy", "--slots", "1")),
    ("none, naive, descriptors, two samplers", ("--partition", "none", "--kernel", "naive", "--ipc", "vmm", "--samplers", "2")),
    ("none, copies", ("--partition", "none", "--gather", "dma")),
    ("none, split", ("--partition", "none", "--gather", "split")),
    ("none, the CPU", ("--partition", "none", "--gather", "cpu")),
    ("green", ("--partition", "green")),
    ("grid", ("--partition", "grid")),
    ("mps", ("--partition", "mps", "--mps", "require")),
]


def training(suite):
    """Batches by every way and partition, against those of the CPU."""
    graph = suite.graph("small", 4000 if suite.simulate else 40000, 12, 24 if suite.simulate else 100)
    common = ("--epochs", "2", "--batch-size", "200", "--seed", "3")
    cpu = suite.work / "cpu.jsonl"
    suite.run(*suite.train_command(graph, cpu, "--device", "cpu", *common))
    wanted = [(e["epoch"], e["batch"], e["hash"]) for e in events(cpu, "batch")]
    losses = [e["loss"] for e in events(cpu, "batch")]
    if not wanted:
        raise Failed("the run on the CPU trained no batch")
    found = {"batches": len(wanted), "ways": {}}
    for name, options in VARIANTS:
        metrics = suite.work / f"way-{len(found['ways'])}.jsonl"
        code, _, stderr = suite.finish(
            suite.start(*suite.train_command(graph, metrics, "--device", "cuda:0", *options, *common)), 60)
        if code == 3 and options[-1] in ("require", "green"):
            found["ways"][name] = {"skipped": last_line(stderr)}
            continue
        if code != 0:
            raise Failed(f"{name}: exit code {code}: {last_line(stderr)}")
        batches = events(metrics, "batch")
        if [(e["epoch"], e["batch"], e["hash"]) for e in batches] != wanted:
            raise Failed(f"{name}: other batches than on the CPU")
        farthest = max(abs(e["loss"] - loss) / max(abs(loss), 1e-6) for e, loss in zip(batches, losses))
        if farthest > 0.02:
            raise Failed(f"{name}: a loss is {farthest:.1%} from that of the CPU")
        start = events(metrics, "start")[0]
        found["ways"][name] = {"farthest_loss": farthest, "in_force": start.get("in_force")}
    return found


def children(parent):
    """The roles among a launcher's children, by name."""
    found = {}
    for stat in glob.glob("/proc/[0-9]*/stat"):
        try:
            text, folder = Path(stat).read_text(), Path(stat).parent
            words = (folder / "cmdline").read_bytes().split(b"\0")
        except OSError:  # it has ended meanwhile
            continue
        ppid = int(text.rsplit(")", 1)[1].split()[1])
        if ppid == parent and len(words) > 1 and words[1].decode(errors="replace") in ROLES:
            found[words[1].decode()] = int(folder.name)
    return found


def wait_for(what, so, limit):
    end = time.monotonic() + limit
    while True:
        value = so()
        if value:
            return value
        if time.monotonic() > end:
            raise Failed(f"waited {limit:.0f} s in vain for this: {what}")
        time.sleep(0.02)


def faults(suite):
    """A role killed in the middle of a run: the run ends with its name, and the next one works."""
    graph = suite.graph("small", 4000 if suite.simulate else 40000, 12, 24 if suite.simulate else 100)
    found = {}
    partitions = [("none", ("--partition", "none"))]
    if suite.which("nvidia-cuda-mps-control"):
        partitions.append(("mps", ("--partition", "mps", "--mps", "require")))
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
                wait_for("20 batches", trained, 60)
                roles = children(process.pid)
                if role not in roles:
                    raise Failed(f"{name}: no {role} among the launcher's children: {sorted(roles)}")
                os.kill(roles[role], signal.SIGKILL)
                code, _, stderr = suite.finish(process, 40)
            finally:
                if process.poll() is None:
                    os.killpg(process.pid, signal.SIGKILL)
            if code != 1 or role not in stderr:
                raise Failed(f"{name}: {role} killed: exit code {code}: {last_line(stderr)}")
            wait_for("the other roles' end", lambda: not any(Path(f"/proc/{pid}").exists() for pid in roles.values()), 20)
            again = suite.work / f"after-{name}-{role}.jsonl"
            suite.run(*suite.train_command(graph, again, "--device", "cuda:0", "--epochs", "1", "--batch-size", "200",
                                           *options), limit=60)
            found[f"{role} killed, partition {name}"] = {"exit_code": code, "said": last_line(stderr),
                                                         "next_run": "works"}
    return found


def pcie(suite):
    """`uvatrain bench pcie`."""
    reserved, pages = None, Path("/proc/sys/vm/nr_hugepages")
    size = ["--table-size", "2MiB,1MiB"] if suite.simulate else []
    if not suite.simulate and os.access(pages, os.W_OK):
        # Reserved huge pages for one of the tables, given back afterwards.
        reserved = pages.read_text()
        try:
            pages.write_text("2100\n")
        except OSError:
            reserved = None
    try:
        stdout, _ = suite.uvatrain("bench", "pcie", *size, "--seconds", int(max(20, suite.left() - 30)), "--svg",
                                   suite.out.resolve() / "pcie.svg", "--json")
    finally:
        if reserved is not None:
            pages.write_text(reserved)
    return json.loads(stdout)


def mps_sweep(suite):
    """Rates under shares of the multiprocessors that MPS gives."""
    if not suite.which("nvidia-cuda-mps-control"):
        raise Skipped("no nvidia-cuda-mps-control in PATH")
    size = "1MiB" if suite.simulate else "4GiB"
    started = json.loads(suite.uvatrain("mps", "start", "--json")[0])
    found = {"shares": []}
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
        suite.uvatrain("mps", "stop", codes=(0, 2, 3))
    return found


def epochs(suite, graph, name, *options):
    metrics = suite.work / f"epochs-{name}.jsonl"
    common = ("--epochs", "3", "--batch-size", "200" if suite.simulate else "1024")
    suite.run(*suite.train_command(graph, metrics, *options, *common))
    seconds = [event["seconds"] for event in events(metrics, "epoch")]
    # The first epoch holds the start of everything.
    ends = events(metrics, "end")[0]
    return {"epoch_seconds": seconds, "median": statistics.median(seconds[1:]), "bottleneck": ends.get("bottleneck"),
            "roles": ends.get("roles"), "in_force": events(metrics, "start")[0].get("in_force")}


def epoch_time(suite):
    """An epoch through slots, beside one with all features in GPU memory under the same cap, and one without a cap."""
    graph = suite.graph("large", 4000 if suite.simulate else 1000000, 12, 24 if suite.simulate else 128)
    def run(name, *options):
        return epochs(suite, graph, name, "--device", "cuda:0", *options)

    found = {"through_slots": run("auto", "--partition", "auto"),
             "all_features_in_gpu_memory": run("device", "--partition", "auto", "--gather", "device"),
             "uncapped": run("none", "--partition", "none", "--gather", "device")}
    for name, other in (("ratio_to_gpu_memory", "all_features_in_gpu_memory"), ("ratio_to_uncapped", "uncapped")):
        found[name] = found["through_slots"]["median"] / found[other]["median"]
    return found


def caches(suite):
    """Batch times without caches, with one of rows, with both; and where `auto` samples."""
    shape = ("4000", "12", "24", "600KiB") if suite.simulate else ("1000000", "14", "128", "160MiB")
    nodes, degree, features, budget = shape
    graph = suite.work / "citation"
    suite.uvatrain("generate", graph, "--kind", "citation", "--nodes", nodes, "--avg-degree", degree, "--feat-dim", features,
                   limit=suite.left())
    found = {"budget": budget, "runs": {}}
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
    return found


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


def python(suite):
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
    return {"said": last_line(stdout)}


def memory(suite):
    """Many batches: memory of every role, and of the device, has to stay flat."""
    graph = suite.graph("small", 4000 if suite.simulate else 40000, 12, 24 if suite.simulate else 100)
    wanted, metrics = (300 if suite.simulate else 10000), suite.work / "many.jsonl"
    process = suite.start(*suite.train_command(graph, metrics, "--device", "cuda:0", "--epochs", "100000", "--batch-size",
                                               "64" if suite.simulate else "32"))
    samples, batches = [], 0
    try:
        while batches < wanted and suite.left() > 25:
            time.sleep(0.2 if suite.simulate else 0.7)
            if process.poll() is not None:
                raise Failed(f"the run ended with {process.returncode} after {batches} batches")
            batches = len(events(metrics, "batch"))
            roles = children(process.pid)
            if batches:
                samples.append({"batches": batches, "device": None if suite.simulate else device_memory(),
                                **{role: resident(pid) for role, pid in sorted(roles.items())}})
        process.send_signal(signal.SIGINT)
        code, _, _ = suite.finish(process, 25)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
    found = {"batches": batches, "wanted": wanted, "samples": samples, "exit_code": code}
    if code != 130:
        raise Failed(f"after SIGINT: exit code {code}, not 130")
    if batches < wanted:
        raise Failed(f"only {batches} of {wanted} batches in the time there was")
    quarter = max(1, len(samples) // 4)
    found["growth_bytes"] = {}
    for what in samples[-1]:
        early = [s[what] for s in samples[quarter:2 * quarter] or samples[:1] if s.get(what)]
        late = [s[what] for s in samples[-quarter:] if s.get(what)]
        if what == "batches" or not early or not late:
            continue
        growth = statistics.median(late) - statistics.median(early)
        found["growth_bytes"][what] = growth
        if not suite.simulate and growth > max(16 << 20, 0.02 * statistics.median(early)):
            raise Failed(f"{what} grew by {growth / 2**20:.0f} MiB between the second and the last quarter of the run")
    return found


def peers(suite):
    """Others' gathers on the same rows and ids."""
    if suite.simulate:
        raise Skipped("peers need a GPU")
    out = suite.work / "peers.json"
    code, _, stderr = suite.finish(suite.start(sys.executable, "-B", HERE / "peers-gpu", "--uvatrain", suite.bin / "uvatrain",
                                               "--seconds", int(max(20, suite.left() - 15)), "--out", out))
    if code == 3:
        raise Skipped(last_line(stderr))
    if code != 0:
        raise Failed(f"peers-gpu: exit code {code}: {last_line(stderr)}")
    return json.loads(out.read_text())


# name, step, its file, seconds that it may take, whether all that follows rests on it
STEPS = [
    ("machine", machine, "machine.json", 60, True),
    ("kernels", kernels, "correctness.json", 100, True),
    # Not one of those that all rests on: it holds streams in ways that only the tests do, and `training` fills slots too.
    ("slots", slots, "correctness.json", 60, False),
    ("sanitizer", sanitizer, "correctness.json", 90, True),
    ("training", training, "correctness.json", 120, True),
    ("faults", faults, "correctness.json", 120, True),
    ("pcie", pcie, "pcie.json", 130, False),
    ("mps-sweep", mps_sweep, "training.json", 60, False),
    ("epoch-time", epoch_time, "training.json", 60, False),
    ("caches", caches, "training.json", 90, False),
    ("python", python, "correctness.json", 90, False),
    ("memory", memory, "training.json", 90, False),
    ("peers", peers, "peers.json", 60, False),
]


def stored(path):
    try:
        return json.loads(path.read_text())
    except (OSError, ValueError):
        return {}


def store(path, value):
    partial = path.with_suffix(".partial")
    partial.write_text(json.dumps(value, indent=1) + "\n")
    partial.replace(path)


def main():
    names = [name for name, *_ in STEPS]

    def steps(text):
        chosen = text.split(",")
        unknown = [name for name in chosen if name not in names]
        if unknown:
            raise argparse.ArgumentTypeError(f"no step {unknown[0]}; there are {', '.join(names)}")
        return chosen

    arguments = argparse.ArgumentParser(prog="gpu-suite.sh", description="All that only a GPU can show.")
    arguments.add_argument("out", type=Path, metavar="OUTDIR", help="where the results go")
    arguments.add_argument("--bin", type=Path, default=HERE / "bin", help="the programs that gpu-carry.sh made")
    arguments.add_argument("--only", type=steps, metavar="STEP,…", default=names, help=", ".join(names))
    arguments.add_argument("--without", type=steps, metavar="STEP,…", default=[])
    arguments.add_argument("--seconds", type=float, default=570, help="for all of it [570]")
    arguments.add_argument("--simulate", action="store_true", help="under cuda-sim, small, without a GPU")
    chosen = arguments.parse_args()
    chosen.bin = chosen.bin.resolve()
    needed = ["uvatrain"] + (["libcuda_sim.so"] if chosen.simulate else [])
    for name in needed:
        if not (chosen.bin / name).exists():
            arguments.error(f"{chosen.bin / name} is missing: scripts/gpu-carry.sh makes it")
    suite = Suite(chosen)
    summary = stored(suite.out / "summary.json")
    summary.update(simulator=chosen.simulate)
    summary.setdefault("steps", {})
    # A run may be divided: what failed in an earlier part, and isn't tried again, counts on.
    failed = [name for name, _, _, _, basic in STEPS
              if basic and name not in chosen.only and summary["steps"].get(name, {}).get("status") == "failed"]
    stopped = f"{failed[0]} failed in an earlier run, and correctness comes first" if failed else None
    try:
        for name, step, file, limit, basic in STEPS:
            if name not in chosen.only or name in chosen.without:
                continue
            began = time.monotonic()
            left = suite.end - began
            suite.step_end = began + limit
            suite.note(f"\n===== {name}\n")
            result, entry = None, {}
            if stopped:
                entry = {"status": "left out", "why": stopped}
            elif left < min(limit, 20):
                entry = {"status": "left out", "why": f"{left:.0f} s of the whole were left"}
            else:
                try:
                    result = step(suite)
                    entry = {"status": "passed"}
                except Skipped as why:
                    entry = {"status": "skipped", "why": str(why)}
                except Failed as why:
                    entry = {"status": "failed", "why": str(why)}
                except (OSError, ValueError, KeyError, IndexError, TypeError, statistics.StatisticsError) as error:
                    entry = {"status": "failed", "why": f"{type(error).__name__}: {error}"}
            entry["seconds"] = round(time.monotonic() - began, 1)
            if entry["status"] == "failed" and basic:
                stopped = f"{name} failed, and correctness comes first"
            path = suite.out / file
            shared = sum(1 for other in STEPS if other[2] == file) > 1
            if result is not None:
                store(path, {**stored(path), name: result} if shared else result)
            summary["steps"][name] = entry
            store(suite.out / "summary.json", summary)
            print(f"{name:12} {entry['status']:9} {entry['seconds']:6.1f} s  {entry.get('why', '')}", flush=True)
            suite.step_end = suite.end
    finally:
        suite.log.close()
        shutil.rmtree(suite.work, ignore_errors=True)
    report = stored(suite.out / "pcie.json")
    for goal in report.get("reach", []):
        print(f"{'reached' if goal['met'] else 'NOT reached':12} {goal['measured']:.1%} of {goal['wanted']:.0%}  {goal['what']} ({goal['at']})")
    if chosen.simulate:
        print("SIMULATED: nothing was measured")
    if getattr(suite, "no_gpu", None):
        sys.exit(3)
    sys.exit(1 if any(entry["status"] == "failed" for entry in summary["steps"].values()) else 0)


if __name__ == "__main__":
    main()
