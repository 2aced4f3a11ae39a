"""The two kinds of contenders that compare.py measures: a peer's worker, which runs for all rounds, and the program, which
is started for each round. Both answer `measure(request)` with a record that includes their own CPU time."""
import json
import os
import selectors
import signal
import subprocess
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
TICKS = os.sysconf("SC_CLK_TCK")
# Batches of a loading pipeline before those that are counted: each starts a process, whose first batches touch its slots and
# the graph's pages. The peers' processes stay, and have touched theirs.
WARM_UP = 16


class Failed(Exception):
    """A runtime that could not be measured, with why."""


def environment(cores, more):
    """Threads that wait for work spin otherwise, and a loader process or a busy neighbour then costs an OpenMP library its
    cores (DGL's fused sampling took 230 to 450 ms a batch instead of 14 to 44): unless OMP_WAIT_POLICY says otherwise they
    wait asleep, on all sides."""
    threads = str(len(cores))
    return {"OMP_WAIT_POLICY": "passive", **os.environ, "OMP_NUM_THREADS": threads, "MKL_NUM_THREADS": threads,
            "PYTHONDONTWRITEBYTECODE": "1", **more}


class Worker:
    """A peer's process. Started by the constructor; `ready` waits until it has loaded its graph."""

    def __init__(self, python, script, arguments, cores, variables, limit=600):
        self.limit = limit
        self.errors = tempfile.TemporaryFile()
        self.process = subprocess.Popen(
            [str(python), str(HERE / script), *map(str, arguments)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=self.errors, env=environment(cores, variables), start_new_session=True,
            preexec_fn=lambda: os.sched_setaffinity(0, cores))
        self.selector = selectors.DefaultSelector()
        self.selector.register(self.process.stdout, selectors.EVENT_READ)

    def _answer(self):
        # An answer is a line, written at once.
        if not self.selector.select(self.limit):
            self.close(kill=True)
            raise Failed(f"no answer within {self.limit} s")
        line = self.process.stdout.readline()
        if not line:
            self.errors.seek(0)
            said = self.errors.read().decode(errors="replace").strip()
            # Results are for others too, whose homes are elsewhere.
            said = said[-500:].replace(str(Path.home()), "~")
            raise Failed(f"ended with {self.process.wait()}: {said}")
        answer = json.loads(line)
        if "error" in answer:
            raise Failed(answer["error"])
        return answer

    def ready(self):
        return self._answer()["versions"]

    def measure(self, request):
        if self.process.poll() is None:
            self.process.stdin.write(json.dumps(request).encode() + b"\n")
            self.process.stdin.flush()
        return self._answer()

    def cpu_seconds(self):
        """Work so far of all processes of the worker's session, loader processes that have ended included."""
        ticks = 0
        for folder in os.listdir("/proc"):
            if folder.isdigit():
                try:
                    fields = Path(f"/proc/{folder}/stat").read_text().rsplit(")", 1)[1].split()
                except OSError:
                    continue
                if int(fields[3]) == self.process.pid:
                    ticks += sum(map(int, fields[11:15]))
        return ticks / TICKS

    def close(self, kill=False):
        if self.process.poll() is None:
            self.process.stdin.close()
            try:
                if kill:
                    raise subprocess.TimeoutExpired("", 0)
                self.process.wait(10)
            except subprocess.TimeoutExpired:
                # The session is the worker's own.
                os.killpg(self.process.pid, signal.SIGKILL)
                self.process.wait()


class Program:
    """`uvatrain` itself. All that it is started with is here."""

    def __init__(self, binary, graph, cores, limit=600):
        self.binary, self.graph, self.cores, self.limit = binary, graph, cores, limit
        # How long a batch (a gather, an epoch) took last, so that the next measurement takes about the requested time.
        self.last = {}

    def _run(self, *arguments):
        command = [str(self.binary), *map(str, arguments), "--json"]
        try:
            ended = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                   timeout=self.limit, env=environment(self.cores, {}),
                                   preexec_fn=lambda: os.sched_setaffinity(0, self.cores))
        except subprocess.TimeoutExpired:
            raise Failed(f"{' '.join(command)}: no end within {self.limit} s") from None
        if ended.returncode != 0:
            raise Failed(f"{' '.join(command)}\nended with {ended.returncode}: {ended.stderr.strip()[-500:]}")
        return json.loads(ended.stdout)

    def ready(self):
        return {}

    def cpu_seconds(self):
        """Its processes are waited for, and counted with the driver's children."""
        return 0.0

    def close(self):
        pass

    def measure(self, request):
        operation = request["operation"]
        record = getattr(self, operation)(request)
        if "batches" in record:
            self.last[operation] = record["seconds"] / record["batches"]
        return record

    def _times(self, operation, request, first):
        """How many operations to request. Files are mapped, so the first operations of a process cause page faults, as loading
        does in the peers: `first` is large enough that these do not dominate."""
        return max(first, round(request["seconds"] / self.last[operation])) if operation in self.last else first

    def check(self, request):
        """The bench compares a batch with the graph, and ends in an error where something differs."""
        report = self._run("bench", "sample", self.graph, "--fanouts", words(request["fanouts"]), "--batch-size",
                           request["batch_size"], "--batches", 1)
        return report["verified"]

    def sampling(self, request):
        report = self._run("bench", "sample", self.graph, "--fanouts", words(request["fanouts"]), "--batch-size",
                           request["batch_size"], "--threads", len(self.cores), "--batches",
                           self._times("sampling", request, 96), "--seed", request["seed"])
        return {name: report[name] for name in ("batches", "seconds", "batch_ms", "edges", "input_nodes")}

    def gather(self, request):
        report = self._run("bench", "gather", self.graph, "--bytes", request["bytes"], "--threads", len(self.cores),
                           "--repeats", self._times("gather", request, 257), "--seed", request["seed"])
        moved = report["rows"] * report["row_bytes"]
        seconds = moved / report["gb_per_second"] / 1e9
        return {"batches": report["repeats"], "bytes": moved * report["repeats"], "batch_ms": {"median": 1e3 * seconds},
                "seconds": seconds * report["repeats"], "memcpy_gb_per_second": report["memcpy_gb_per_second"]}

    def loading(self, request):
        batches = self._times("loading", request, 32)
        # Without the warm-up, and with as many batches more as the rings hold: work begun before or not finished does not count.
        epochs = 1 + (batches + 2 * WARM_UP) // max(1, request["epoch_batches"])
        makers = ["--prepare", request["prepare"]] if "prepare" in request else ["--gather-threads", request["gather_threads"]]
        makers += ["--expand", request["expand"]] if "expand" in request else []
        report = self._run("bench", "pipeline", self.graph, "--fanouts", words(request["fanouts"]), "--batch-size",
                           request["batch_size"], "--drop-last", "--samplers", request["samplers"], *makers,
                           "--warm-up", WARM_UP, "--batches", batches, "--epochs", epochs, "--seed", request["seed"])
        return {"batches": report["batches"], "seconds": report["seconds"], "edges": report["edges"],
                "input_nodes": report["input_nodes"], "bytes": report["feature_bytes"], "batch_ms": report["batch_ms"]}

    def training(self, request):
        with tempfile.TemporaryDirectory() as folder:
            metrics = Path(folder) / "run.jsonl"
            model = request.get("model", "sage")
            more = ["--heads", request["heads"]] if model == "rgat" else []
            more += ["--expand", request["expand"]] if "expand" in request else []
            self._run("train", self.graph, "--model", model, *more, "--hidden", request["hidden"], "--dropout", 0,
                      "--fanouts", words(request["fanouts"]), "--batch-size", request["batch_size"], "--drop-last",
                      "--lr", request["rate"], "--epochs", 1 + request["epochs"], "--train-threads", request["train_threads"],
                      "--samplers", 1, "--device", "cpu", "--seed", request["seed"], "--metrics", metrics)
            epochs = [json.loads(line) for line in open(metrics)]
        epochs = [line for line in epochs if line["event"] == "epoch"]
        seconds = sorted(epoch["seconds"] for epoch in epochs[1:])
        return {"batches": request["epoch_batches"] * len(seconds), "seconds": sum(seconds),
                "epoch_s": {"min": seconds[0], "median": seconds[len(seconds) // 2], "max": seconds[-1]},
                "losses": [epoch["train_loss"] for epoch in epochs]}


def words(numbers):
    return ",".join(map(str, numbers))
