"""Random faults: a script iterates, something goes wrong at a random point, and nothing may be left of it.

    python crates/uva-py/tests/process/faults.py --rounds 1000 --out docs/results/python-faults.json

A round is decided by its number alone: what is iterated over (a Loader of the script's own process, or the place of the
consumer under `uvatrain run`), what happens (fault_victim.py has the list; or a signal for one of the processes), and
after which batch. Then it checks whether

- exit code and message are the right ones, and there is no word of a panic or a fatal error
- no process of the round is left, the launcher's roles included, and so none of its memory files
- nothing is left in /dev/shm, among the named sockets, or in the folder for temporary files
- where the script continues after the fault, its own process has no thread, memory file or mapping of the module's left

A round that fails is played again by --first N --rounds 1. The module has to be importable; UVATRAIN_PROGRAM names the
command line.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from graphs import write_graph  # noqa: E402

#: How long a round may take before it counts as stuck. No round that is well comes near it.
WATCHDOG = 120
MARK = "UVATRAIN_FAULT_ROUND"

# What happens, how often of all, and in which of the two modes.
ACTIONS = {
    "raise": (3, ("loader", "run")),
    "exit": (2, ("loader", "run")),
    "leave": (2, ("loader", "run")),
    "abort": (1, ("loader", "run")),
    "keep": (2, ("loader", "run")),
    "cycle": (1, ("loader", "run")),
    "close": (2, ("loader", "run")),
    "close_from_thread": (2, ("loader", "run")),
    "daemon": (2, ("loader", "run")),
    "fork": (2, ("loader", "run")),
    "two": (1, ("loader",)),
    "catch_interrupt": (2, ("loader", "run")),
    "restart": (1, ("loader", "run")),
    "nothing": (10, ("loader", "run")),
}
SURVIVED = {"keep", "close", "close_from_thread", "fork", "two", "catch_interrupt", "restart"}
# What a signal may be for; "all" is what a terminal does on Ctrl-C.
TARGETS = {"loader": ["consumer"], "run": ["consumer", "sampler", "producer", "launcher", "janitor", "all"]}


@dataclass
class Case:
    """One round, decided by its number."""

    number: int
    mode: str
    action: str
    #: After which batch; -1: as soon as the processes are there.
    at: int
    #: What batches are made of: "torch" or "numpy".
    arrays: str
    code: int = 0
    target: str = ""
    signal: str = ""
    samplers: int = 1
    options: dict = field(default_factory=dict)

    @property
    def name(self) -> str:
        """For people."""
        strike = f"-{self.signal}-{self.target}" if self.target else ""
        return f"{self.number}-{self.mode}-{self.action}{strike}-at-{self.at}"


def case(number: int, modes: tuple[str, ...] = ("loader", "run")) -> Case:
    """The round of this number."""
    chance = random.Random(number)
    mode = chance.choice(modes)
    names = [name for name, (_, where) in ACTIONS.items() if mode in where]
    action = chance.choices(names, [ACTIONS[name][0] for name in names])[0]
    made = Case(number, mode, action, at=chance.choice([0, chance.randrange(5), chance.randrange(100)]), arrays="numpy")
    # Importing torch is most of a round's time, and tensors of both kinds are views of the same slots.
    made.arrays = chance.choices(["torch", "numpy"], [1, 3])[0]
    made.code = chance.choice([0, 3, 7])
    made.samplers = chance.randint(1, 3)
    made.options = {
        "fanouts": chance.choice([(4, 3), (3,), (5, 4, 3)]),
        "batch_size": chance.choice([8, 50]),
        "slots": chance.randint(2, 4),
        "seed": number,
    }
    if action == "nothing":
        made.target = chance.choice(TARGETS[mode])
        made.signal = chance.choices(["SIGKILL", "SIGINT", "SIGTERM"], [3, 2, 1])[0]
        if made.target in ("sampler", "producer", "janitor"):
            # They leave the others to their launcher.
            made.signal = "SIGKILL"
        elif made.target == "all":
            made.signal = "SIGINT"
        if mode == "run" and chance.random() < 0.15:
            made.at = -1
    return made


# --- Processes and what they leave ---------------------------------------------------------------------------------


def marked(token: str) -> dict[int, list[str]]:
    """The command lines of all processes that have the round's mark in their environment."""
    wanted = f"{MARK}={token}".encode()
    found = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            if wanted in (entry / "environ").read_bytes().split(b"\0"):
                arguments = (entry / "cmdline").read_bytes().split(b"\0")
                if arguments != [b""]:
                    found[int(entry.name)] = [part.decode(errors="replace") for part in arguments if part]
        except OSError:
            # Gone meanwhile, or a zombie, or another user's.
            continue
    return found


def role(arguments: list[str]) -> str:
    """What a process of the round is."""
    if arguments[0].endswith("uvatrain"):
        return arguments[1] if arguments[1] in ("sampler", "producer", "janitor") else "launcher"
    return "consumer"


def memory_files(pids: dict[int, list[str]]) -> list[str]:
    """The module's and the runtime's memory files that these processes have open."""
    found = []
    for pid in pids:
        try:
            found += [os.readlink(one) for one in Path(f"/proc/{pid}/fd").iterdir()]
        except OSError:
            continue
    return sorted({one for one in found if "memfd:uva" in one})


def names() -> set[str]:
    """What of ours has a name outside of any process."""
    found = {f"/dev/shm/{one}" for one in os.listdir("/dev/shm") if "uva" in one}
    with open("/proc/net/unix") as sockets:
        for line in sockets:
            fields = line.split()
            if len(fields) > 7 and "uva" in fields[7]:
                found.add(f"socket {fields[7]}")
    return found


def until(what: str, so) -> None:
    """Waits until it is so; an error when that takes until the watchdog's time."""
    since = time.monotonic()
    while not so():
        if time.monotonic() - since > WATCHDOG:
            raise AssertionError(f"waited {WATCHDOG} s for this: {what}")
        time.sleep(0.01)


# --- A round -------------------------------------------------------------------------------------------------------


def expected(one: Case) -> tuple[set[int], list[str]]:
    """The exit codes that are right, and words of which the output has to have one."""
    under = one.mode == "run"
    if one.action == "raise":
        return {1}, ["Planted: raised in the middle"]
    if one.action == "abort":
        return ({1}, ["SIGABRT"]) if under else ({-signal.SIGABRT}, [""])
    if one.action in ("exit", "leave"):
        if under and one.code:
            return {1}, [f"{one.code}"]
        return {one.code}, [""]
    if one.action in ("cycle", "daemon"):
        return {0}, [""]
    if one.action != "nothing":
        return {0}, ["clean"]
    number = signal.Signals[one.signal]
    if not under:
        return {-number}, ["KeyboardInterrupt"] if number == signal.SIGINT and one.at >= 0 else [""]
    if one.target in ("sampler", "producer"):
        return {1}, [f"the {one.target}"]
    if one.target == "launcher" and number == signal.SIGKILL:
        return {-number}, [""]
    if one.target in ("launcher", "all") and one.at < 0:
        # It may be struck before it listens for signals: then it has started nothing, and its shell says 128 + number.
        return {128 + number, -number}, [""]
    if number == signal.SIGINT:
        return {130}, ["SIGINT", "interrupted"]
    if one.target in ("launcher", "janitor"):
        return {143}, ["SIGTERM"]
    return {1}, [one.signal]


def command(one: Case, graph: Path, program: str | None) -> list[str]:
    """What is started."""
    told = dict(asdict(one), graph=str(graph), options=dict(one.options, samplers=one.samplers))
    script = [sys.executable, str(HERE / "fault_victim.py"), json.dumps(told)]
    if one.mode == "loader":
        return script
    if not program:
        raise ValueError("rounds under the launcher need its program: UVATRAIN_PROGRAM")
    options = one.options
    return [
        program, "run", str(graph), "--fanouts", ",".join(map(str, options["fanouts"])), "--batch-size",
        str(options["batch_size"]), "--seed", str(options["seed"]), "--samplers", str(one.samplers), "--slots",
        str(options["slots"]), "--device", "cpu", "--", *script,
    ]


def strike(one: Case, token: str, child: subprocess.Popen) -> None:
    """Sends the signal of the round."""
    number = signal.Signals[one.signal]

    def there() -> list[int]:
        return [pid for pid, arguments in marked(token).items() if one.target in ("all", role(arguments))]

    until(f"there is a {one.target}", lambda: there() or child.poll() is not None)
    found = there()
    random.Random(one.number).shuffle(found)
    for pid in found if one.target == "all" else found[:1]:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            # Another of them has ended it already.
            continue
    if one.target == "janitor":
        # The run continues without it, until it gets a signal.
        child.send_signal(signal.SIGTERM)


def play(one: Case, graph: Path, program: str | None) -> dict:
    """Plays a round. Returns what was seen; AssertionError where that is not right."""
    token = f"{os.getpid()}-{one.number}-{time.monotonic_ns()}"
    before = names()
    with tempfile.TemporaryDirectory(prefix="fault-") as folder:
        temporary, complaints = Path(folder) / "tmp", Path(folder) / "stderr"
        temporary.mkdir()
        environment = {**os.environ, MARK: token, "TMPDIR": str(temporary), "PYTHONDONTWRITEBYTECODE": "1",
                       "OMP_NUM_THREADS": "1"}
        since = time.monotonic()
        with open(complaints, "wb") as errors:
            child = subprocess.Popen(
                command(one, graph, program), stdout=subprocess.PIPE, stderr=errors, stdin=subprocess.DEVNULL,
                text=True, env=environment, start_new_session=True,
            )
        stuck = threading.Timer(WATCHDOG, end, [token, child])
        stuck.start()
        try:
            said, struck = [], one.target == ""
            if one.at < 0:
                strike(one, token, child)
                struck = True
            for line in child.stdout:
                said.append(line)
                if not struck and line.strip() == f"batch {one.at}":
                    strike(one, token, child)
                    struck = True
            code = child.wait()
        finally:
            stuck.cancel()
        told = "".join(said) + complaints.read_text(errors="replace")
        shown = told if len(told) < 8000 else f"{told[:4000]}\n…\n{told[-4000:]}"
        where = f"round {one.name}: {one}\nended with {code}, and said:\n{shown}"
        assert time.monotonic() - since < WATCHDOG, f"it did not end; {where}"
        assert struck, f"it ended before its time; {where}"
        codes, words = expected(one)
        assert code in codes, f"the exit code is {code}, not {codes}; {where}"
        assert any(word in told for word in words), f"no message has one of {words}; {where}"
        for bad in ("panicked", "Fatal Python error", "AssertionError", "Segmentation"):
            assert bad not in told, f"{bad}; {where}"
        complaint = complaints.read_text()
        if code == 0 and one.mode == "loader":
            assert complaint == "", f"a complaint; {where}"
        try:
            until("all processes of the round are gone", lambda: not marked(token))
        except AssertionError as error:
            left = marked(token)
            raise AssertionError(f"{error}: {left} with {memory_files(left)}; {where}") from None
        # Other runs of the machine come and go: what is new and stays is ours.
        new = names() - before
        until("no name is left", lambda: not new & names())
        assert not list(temporary.iterdir()), f"left in the temporary folder: {list(temporary.iterdir())}; {where}"
    return {"mode": one.mode, "action": one.action, "target": one.target, "signal": one.signal,
            "arrays": one.arrays, "code": code, "seconds": round(time.monotonic() - since, 2)}


def end(token: str, child: subprocess.Popen) -> None:
    """Ends a round that is stuck: its own processes only."""
    for pid in [*marked(token), *([child.pid] if child.poll() is None else [])]:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue


# --- Many rounds ---------------------------------------------------------------------------------------------------


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--first", type=int, default=0, help="the first round's number")
    parser.add_argument("--modes", default="loader,run", type=lambda text: tuple(text.split(",")))
    parser.add_argument("--jobs", type=int, default=1, help="rounds at a time")
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    program = os.environ.get("UVATRAIN_PROGRAM")
    failures, played, since = [], [], time.monotonic()

    def told(number: int) -> None:
        one = case(number, arguments.modes)
        try:
            played.append(play(one, graph, program))
        except AssertionError as error:
            failures.append(str(error))
            print(f"FAILED {error}", file=sys.stderr, flush=True)
        done = len(played) + len(failures)
        print(f"{done} of {arguments.rounds}, {len(failures)} failed: {one.name}", flush=True)

    with tempfile.TemporaryDirectory(prefix="faults-") as folder, ThreadPoolExecutor(arguments.jobs) as pool:
        graph = write_graph(Path(folder) / "graph")
        # Gone through, so that an error of this script's own ends it.
        list(pool.map(told, range(arguments.first, arguments.first + arguments.rounds)))
    seconds = time.monotonic() - since
    count = Counter()
    for one in played:
        what = f"{one['signal']} to the {one['target']}" if one["target"] else one["action"].replace("_", " ")
        count[f"{one['mode']}: {what} -> {one['code']}"] += 1
    print(f"{len(played)} rounds well, {len(failures)} failed, in {seconds:.0f} s")
    if arguments.out:
        sys.path.insert(0, str(HERE.parents[3] / "scripts/measure"))
        from watched import machine

        report = {
            "about": "Made by crates/uva-py/tests/process/faults.py: how many rounds ended how, with nothing left.",
            "machine": machine(), "python": sys.version.split()[0], "first": arguments.first,
            "rounds": arguments.rounds, "at_a_time": arguments.jobs, "modes": arguments.modes, "well": len(played), "failed": len(failures),
            "failures": failures, "seconds": round(seconds), "arrays": Counter(one["arrays"] for one in played),
            "outcomes": dict(sorted(count.items())),
        }
        arguments.out.parent.mkdir(parents=True, exist_ok=True)
        arguments.out.write_text(json.dumps(report, indent=1) + "\n")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    # As conftest.py says of tests.
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    main()
