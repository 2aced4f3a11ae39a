"""The tools of the steps of suite.sh: the environment, processes under a limit, graphs."""
import glob
import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path

# The folder of suite.sh.
HERE = Path(__file__).resolve().parent.parent
ROLES = ("sampler", "producer", "consumer", "planner", "janitor")
LOG_BYTES = 8 << 20
PART_BYTES = 64 << 10
# Under the stand-in, a CPU does a GPU's work and may be busy: time limits are multiplied by this factor.
SIMULATED = 5
# How long a process has for its own end after each signal, before it is killed. A client of MPS that is killed with work
# under way can take the server with it, and everybody else's.
ENDS = ((signal.SIGINT, 12), (signal.SIGTERM, 8))


class Failed(Exception):
    """A step that showed something wrong."""


class Skipped(Exception):
    """A step that this machine cannot do."""


class Unfinished(Exception):
    """A step whose time was over before it had shown all."""


class Suite:
    def __init__(self, chosen, state, seconds):
        self.bin, self.simulate, self.state = chosen.bin, chosen.simulate, state
        self.end = time.monotonic() + seconds
        self.step_end = self.end
        self.no_gpu = None
        self.work = Path(tempfile.mkdtemp(prefix="gpu-suite-"))
        self.log = open(state / "log.txt", "ab")
        self.env = self.environment()

    def close(self):
        self.log.close()
        shutil.rmtree(self.work, ignore_errors=True)

    def environment(self):
        runtime = self.work / "run"
        runtime.mkdir(mode=0o700)
        # One folder of compiled kernels for the program and all programs of tests.
        cache = self.state / "cache"
        env = dict(os.environ, XDG_CACHE_HOME=str(cache), XDG_RUNTIME_DIR=str(runtime), NO_COLOR="1",
                   UVATRAIN_TEST_KERNELS=str(cache / "uvatrain/kernels"), UVATRAIN_TESTS="all")
        env.pop("UVATRAIN_CACHE", None)
        if (self.bin / "kernels").is_dir():
            env["UVATRAIN_KERNELS"] = str(self.bin / "kernels")
        folders = []
        if self.simulate:
            simulator = self.work / "cuda-sim"
            simulator.mkdir()
            for name in ("libcuda.so", "libcuda.so.1"):
                (simulator / name).symlink_to((self.bin / "libcuda_sim.so").resolve())
            folders.append(str(simulator))
            # Detects calls that would never return on a GPU, and draws dropout as a GPU does.
            env.setdefault("CUDA_SIM_WATCHDOG", "1")
            env.setdefault("CUDA_SIM_STRICT", "green_events,green_groups,mps")
            env.setdefault("CUDA_SIM_DROPOUT", "device")
            # The stand-in for the control program of MPS.
            env["PATH"] = f"{self.bin}:{env.get('PATH', '')}"
        else:
            # Where containers have the driver's half and CUDA's tools, on no path.
            env["PATH"] = f"{env.get('PATH', '')}:/usr/local/nvidia/bin:/usr/local/cuda/bin"
        torch = os.environ.get("GPU_SUITE_TORCH")
        if torch:
            env.setdefault("UVATRAIN_LIBTORCH", torch)
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

    def patience(self, seconds):
        """How long one of several commands of a step may take."""
        return seconds * (SIMULATED if self.simulate else 1)

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
        """Waits for it, or ends it; gives its exit code and what it printed."""
        limit = min(limit or self.left(), self.left())
        ended = None
        try:
            process.wait(limit)
        except subprocess.TimeoutExpired:
            ended = end(process)
        texts = []
        for file in process.outputs:
            file.seek(0)
            texts.append(file.read().decode(errors="replace"))
            file.close()
        shown = "".join(text if len(text) < PART_BYTES else text[:PART_BYTES] + "…\n" for text in texts)
        how = f"ended by {ended} after {limit:.0f} s" if ended else process.returncode
        self.note(f"\n$ {process.line}\n{shown}[{how}]\n")
        if ended:
            raise Unfinished(f"{process.line}: not done after {limit:.0f} s, and ended by {ended}")
        return process.returncode, texts[0], texts[1]

    def run(self, *command, env=None, limit=None, codes=(0,)):
        code, stdout, stderr = self.finish(self.start(*command, env=env), limit)
        if code not in codes:
            last = (stderr.strip() or stdout.strip()).splitlines()[-3:]
            raise Failed(f"{' '.join(map(str, command))}: exit code {code}: {' | '.join(last)}")
        return stdout, stderr

    def uvatrain(self, *arguments, **options):
        return self.run(self.bin / "uvatrain", *arguments, **options)

    def graph(self, name, nodes, degree, features=100, kind="f32"):
        path = self.work / name
        if not path.exists():
            self.uvatrain("generate", path, "--nodes", nodes, "--avg-degree", degree, "--feat-dim", features,
                          "--feat-dtype", kind, "--classes", 8, "--seed", 7)
        return path

    def small_graph(self, kind="f32"):
        """A graph for a few seconds of training, with its features stored as this type."""
        return self.graph(f"small-{kind}", 4000 if self.simulate else 40000, 12, 24 if self.simulate else 100, kind)

    def train_command(self, graph, metrics, *options):
        # Without dropout: for one seed a GPU draws other numbers than a CPU, and losses could not be compared.
        return [self.bin / "uvatrain", "train", graph, "--metrics", metrics, "--fanouts", "10,5", "--hidden", "64",
                "--dropout", "0", "--train-threads", "1", *options]


def end(process):
    """Ends a command by signals that it can answer, and kills its group only where it does not; names what ended it."""
    by = None
    for number, patience in ENDS:
        if process.poll() is None:
            # To the command alone: a launcher ends its roles in order, and takes a client of MPS off the server first.
            process.send_signal(number)
            by = signal.Signals(number).name
            try:
                process.wait(patience)
            except subprocess.TimeoutExpired:
                continue
        break
    if process.poll() is None:
        by = "SIGKILL"
        kill_group(process, signal.SIGKILL)
        process.wait()
    elif kill_group(process, signal.SIGTERM):
        # The command has ended, and other processes of its group still run.
        until = time.monotonic() + 3
        while kill_group(process, 0) and time.monotonic() < until:
            time.sleep(0.05)
        kill_group(process, signal.SIGKILL)
    return by


def kill_group(process, number):
    try:
        os.killpg(process.pid, number)
        return True
    except (ProcessLookupError, PermissionError):
        return False


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
    until = time.monotonic() + limit
    while True:
        value = so()
        if value:
            return value
        if time.monotonic() > until:
            raise Failed(f"{what}: no result after {limit:.0f} s")
        time.sleep(0.02)
