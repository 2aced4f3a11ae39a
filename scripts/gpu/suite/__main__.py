"""The profiles of suite.sh, which says what they are for and how they are called."""
import argparse
import json
import os
import shutil
import signal
import statistics
import stat
import sys
import tarfile
import tempfile
import time
from pathlib import Path

import correctness
import figures
import surroundings
from suite import HERE, SIMULATED, Failed, Skipped, Suite, Unfinished

# name: the step, the file of its results, whether all that follows rests on it
STEPS = {
    "warm": (surroundings.warm, "machine.json", False),
    "machine": (surroundings.machine, "machine.json", True),
    "link": (figures.link, "smoke.json", False),
    "startup": (figures.startup, "smoke.json", False),
    "wide": (correctness.wide, "smoke.json", True),
    "partitions": (correctness.partitions, "smoke.json", True),
    "mps": (correctness.mps, "smoke.json", False),
    "kernels": (correctness.kernels, "correctness.json", True),
    "conformance": (correctness.conformance, "correctness.json", True),
    # Not one of those that all rests on: it holds streams in ways that only the tests do, and `training` fills slots too.
    "slots": (correctness.slots, "correctness.json", False),
    "sampling": (correctness.sampling, "correctness.json", True),
    "models": (correctness.models, "correctness.json", True),
    "training": (correctness.training, "correctness.json", True),
    "python": (correctness.python, "correctness.json", False),
    "sanitizer": (correctness.sanitizer, "correctness.json", True),
    "pcie": (figures.pcie, "pcie.json", False),
    "mps-sweep": (figures.mps_sweep, "training.json", False),
    "epoch-time": (figures.epoch_time, "training.json", False),
    "caches": (figures.caches, "training.json", False),
    "memory": (figures.memory, "training.json", False),
    "peers": (figures.peers, "peers.json", False),
    "loaders": (figures.loaders, "loaders.json", False),
    "faults": (correctness.faults, "correctness.json", True),
}
# name: its steps in their order, with the seconds that each may take. A profile's seconds add up to 500 at most, so that
# it ends within ten minutes even where the last step has to be ended. What uses MPS comes last in `smoke`.
PROFILES = {
    "smoke": {"warm": 60, "machine": 40, "link": 50, "startup": 35, "wide": 80, "partitions": 145, "mps": 90},
    "correct": {"warm": 20, "machine": 25, "kernels": 30, "conformance": 160, "slots": 40, "sampling": 40, "models": 25,
                "training": 90, "python": 30, "sanitizer": 40},
    "measure": {"warm": 20, "machine": 25, "pcie": 125, "mps-sweep": 55, "epoch-time": 65, "caches": 70, "memory": 65},
    # What `carry.sh --peers` carries is enough for these.
    "peers": {"warm": 20, "machine": 25, "peers": 150, "loaders": 200},
}
FAULTS_SECONDS = 120


def profile(name):
    """The steps of a profile with their seconds; of all of them a step of several comes once, with its longest time."""
    chosen = {}
    for steps in PROFILES.values() if name == "all" else [PROFILES[name]]:
        for step, seconds in steps.items():
            chosen[step] = max(seconds, chosen.get(step, 0))
    return chosen


def stored(path):
    try:
        return json.loads(path.read_text())
    except (OSError, ValueError):
        return {}


def store(path, value):
    partial = path.with_suffix(".partial")
    partial.write_text(json.dumps(value, indent=1) + "\n")
    partial.replace(path)


def own_folder(path):
    """Makes the folder, or takes one that is this user's already: others must not lead its writes elsewhere."""
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = path.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
        raise argparse.ArgumentTypeError(f"{path} is not a folder of this user's")
    return path


def publish(state, out, summary):
    """Writes the results so far: the summary, and all other files in one archive. Both are complete after every step."""
    store(state / "summary.json", summary)
    store(out / "summary.json", summary)
    partial = out / "results.partial"
    with tarfile.open(partial, "w:gz") as archive:
        for path in sorted(state.iterdir()):
            if path.is_file() and path.suffix in (".json", ".svg", ".txt"):
                archive.add(path, f"results/{path.name}")
    partial.replace(out / "results.tar.gz")


def run_step(suite, name, seconds):
    """One step; gives its entry in the summary, and what it found, be it ever so little."""
    began = time.monotonic()
    suite.step_end = began + seconds
    suite.note(f"\n===== {name}\n")
    found, entry = {}, {"status": "passed"}
    try:
        STEPS[name][0](suite, found)
    except Skipped as why:
        entry = {"status": "skipped", "why": str(why)}
    except Unfinished as why:
        entry = {"status": "unfinished", "why": str(why)}
    except Failed as why:
        entry = {"status": "failed", "why": str(why)}
    except (OSError, ValueError, KeyError, IndexError, TypeError, ZeroDivisionError, statistics.StatisticsError) as error:
        entry = {"status": "failed", "why": f"{type(error).__name__}: {error}"}
    entry["seconds"] = round(time.monotonic() - began, 1)
    suite.step_end = suite.end
    return entry, found


def run(suite, steps, summary, out):
    # A run may be divided: what failed in an earlier part, and isn't tried again, counts on.
    failed = [name for name, (_, _, basic) in STEPS.items()
              if basic and name not in steps and summary["steps"].get(name, {}).get("status") == "failed"]
    stopped = f"{failed[0]} failed in an earlier run, and correctness comes first" if failed else None
    for name, seconds in steps.items():
        left = suite.end - time.monotonic()
        found = None
        if stopped:
            entry = {"status": "left out", "why": stopped, "seconds": 0}
        elif left < min(seconds, 20):
            entry = {"status": "left out", "why": f"{left:.0f} s of the whole were left", "seconds": 0}
        else:
            entry, found = run_step(suite, name, seconds)
        _, file, basic = STEPS[name]
        if entry["status"] == "failed" and basic:
            stopped = f"{name} failed, and correctness comes first"
        if found:
            path = suite.state / file
            store(path, {**stored(path), name: found})
        summary["steps"][name] = entry
        statuses = {step: each["status"] for step, each in summary["steps"].items()}
        for status in ("failed", "unfinished"):
            summary[status] = [step for step, each in statuses.items() if each == status]
        publish(suite.state, out, summary)
        print(f"{name:12} {entry['status']:10} {entry['seconds']:6.1f} s  {entry.get('why', '')}", flush=True)


class List(argparse.Action):
    """Prints the profiles and ends, as --help does."""

    def __call__(self, *_):
        print(json.dumps(PROFILES, indent=1))
        sys.exit(0)


def arguments():
    def steps(text):
        chosen = text.split(",")
        unknown = [name for name in chosen if name not in STEPS]
        if unknown:
            raise argparse.ArgumentTypeError(f"no step {unknown[0]}; there are {', '.join(STEPS)}")
        return chosen

    parser = argparse.ArgumentParser(prog="suite.sh", description="All that only a GPU can show.")
    parser.add_argument("out", type=Path, metavar="OUTDIR", help="where the results go: two files")
    parser.add_argument("--profile", choices=[*PROFILES, "all"], default="all", help="which steps [all]")
    parser.add_argument("--state", type=Path, metavar="DIR", help="what one call found, for the next one to add to")
    parser.add_argument("--bin", type=Path, default=HERE / "bin", help="the programs that scripts/gpu/carry.sh made")
    parser.add_argument("--only", type=steps, metavar="STEP,…", help=f"these steps: {', '.join(STEPS)}")
    parser.add_argument("--without", type=steps, metavar="STEP,…", default=[])
    parser.add_argument("--with-faults", action="store_true", help="kill roles in the middle of runs, after all other steps")
    parser.add_argument("--seconds", type=float, help="for all of it [what its steps may take]")
    parser.add_argument("--step-seconds", type=float, help="for each step at most [as --list has it]")
    parser.add_argument("--list", action=List, nargs=0, help="print the profiles, their steps and seconds")
    parser.add_argument("--simulate", action="store_true", help="under cuda-sim, small, without a GPU")
    chosen = parser.parse_args()
    chosen.bin = chosen.bin.resolve()
    known = {**profile("all"), "faults": FAULTS_SECONDS}
    chosen.steps = profile(chosen.profile) if chosen.only is None else {name: known[name] for name in known if name in chosen.only}
    if chosen.with_faults:
        chosen.steps["faults"] = FAULTS_SECONDS
    for name in chosen.without:
        chosen.steps.pop(name, None)
    needed = ["uvatrain"] + (["libcuda_sim.so"] if chosen.simulate else [])
    needed += [] if set(chosen.steps) <= set(PROFILES["peers"]) else ["uvatrain-consumer"]
    for name in needed:
        if not (chosen.bin / name).exists():
            parser.error(f"{chosen.bin / name} is missing: scripts/gpu/carry.sh makes it")
    if chosen.simulate:
        chosen.steps = {name: SIMULATED * seconds for name, seconds in chosen.steps.items()}
    chosen.seconds = chosen.seconds or sum(chosen.steps.values())
    if chosen.step_seconds is not None:
        chosen.steps = {name: min(seconds, chosen.step_seconds) for name, seconds in chosen.steps.items()}
    try:
        chosen.out.mkdir(parents=True, exist_ok=True)
        chosen.kept = chosen.state is not None
        chosen.state = own_folder(chosen.state.absolute()) if chosen.kept else Path(tempfile.mkdtemp(prefix="gpu-suite-state-"))
    except (OSError, argparse.ArgumentTypeError) as error:
        parser.error(str(error))
    return chosen


def main():
    # A shell that starts this in the background has SIGINT ignored, and every command of a step would inherit that.
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    chosen = arguments()
    summary = stored(chosen.state / "summary.json")
    summary.update(simulator=chosen.simulate, profiles=[*summary.get("profiles", []), chosen.profile])
    summary.setdefault("steps", {})
    suite = Suite(chosen, chosen.state, chosen.seconds)
    try:
        run(suite, chosen.steps, summary, chosen.out)
        report = stored(chosen.state / "pcie.json").get("pcie", {})
    finally:
        suite.close()
        if not chosen.kept:
            shutil.rmtree(chosen.state, ignore_errors=True)
    for goal in report.get("reach", []):
        print(f"{'reached' if goal['met'] else 'NOT reached':12} {goal['measured']:.1%} of {goal['wanted']:.0%}  {goal['what']} ({goal['at']})")
    if summary.get("unfinished"):
        print(f"UNFINISHED, which is not a failure: {', '.join(summary['unfinished'])}")
    if chosen.simulate:
        print("SIMULATED: nothing was measured")
    if suite.no_gpu:
        sys.exit(3)
    sys.exit(1 if summary.get("failed") else 0)


if __name__ == "__main__":
    main()
