#!/usr/bin/env python3
"""Runs the tests of the workspace as `cargo test --workspace` does, but several test programs at a time.

cargo runs one test program after another. Many of ours wait for processes, and the last test of a program runs alone:
cores idle. Here each program, the doc tests and each command given by --beside is a job; as many jobs run at a time as
there are cores, and one more.

    scripts/check/tests.py [--jobs N] [--only PATTERN] [--beside NAME=COMMAND]…

Each job's output goes to a file of target/tests. The output of a failed job is printed when it ends. At the end,
prints a list of jobs with their wall time, CPU time and tests. Exit code: 0, or 1 if a job failed.
"""

import argparse
import json
import os
import pathlib
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
# The tests that drive the program. They take longer than all commands of --beside together.
LONGEST = "uvatrain integration"
CARGO = [os.environ.get("CARGO", "cargo"), "test", "--workspace"]


class Job:
    """A command with its folder and environment, and its result."""

    def __init__(self, name, command, folder=ROOT, environment=None):
        self.name, self.command, self.folder, self.environment = name, command, folder, environment
        self.process = self.log = self.status = None
        self.since = self.wall = self.cpu = 0.0

    def start(self, logs):
        self.log = logs / f"{re.sub(r'[^A-Za-z0-9]+', '-', self.name)}.log"
        self.since = time.monotonic()
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                self.command, cwd=self.folder, env=self.environment,
                stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT,
                # A group of its own, so that `stop` reaches what it has started.
                preexec_fn=os.setpgrp)

    def ended(self, status, usage):
        # With a return code Popen neither waits for the process nor warns that it still runs.
        self.status = self.process.returncode = os.waitstatus_to_exitcode(status)
        self.wall = time.monotonic() - self.since
        # The process and what it has waited for.
        self.cpu = usage.ru_utime + usage.ru_stime

    def text(self):
        return self.log.read_text(errors="replace")

    def counts(self):
        """Passed, failed and ignored tests of libtest or pytest, else None. Test programs that a test starts print sums
        too: they pass one test and filter the others out."""
        sums = re.findall(r"^test result: .*? (\d+) passed; (\d+) failed; (\d+) ignored; \d+ measured; (\d+) filtered",
                          self.text(), re.MULTILINE)
        found = [tuple(map(int, line[:3])) for line in sums if line[3] == "0"]
        for line in re.findall(r"^(?:=+ )?(\d+ (?:passed|failed|skipped).*) in [\d.]+s", self.text(), re.MULTILINE):
            of = {word: int(number) for number, word in re.findall(r"(\d+) (passed|failed|errors?|skipped)", line)}
            found.append((of.get("passed", 0), of.get("failed", 0) + of.get("error", 0) + of.get("errors", 0),
                          of.get("skipped", 0)))
        return tuple(map(sum, zip(*found))) if found else None


def note(folder):
    """What cargo runs in place of a test program: writes down how it would have run it."""
    reported = {"command": sys.argv[3:], "folder": os.getcwd(), "environment": dict(os.environ)}
    with open(os.path.join(folder, str(os.getpid())), "x") as file:
        json.dump(reported, file)


def test_programs():
    """A job for each test program, in the folder and the environment in which cargo runs it. The longest comes first,
    then the largest, which are those of whole programs: the last to end should be short ones."""
    with tempfile.TemporaryDirectory() as folder:
        runner = [sys.executable, str(pathlib.Path(__file__).resolve()), "--note", folder]
        configured = f"target.'cfg(all())'.runner = {json.dumps(runner)}"
        reported = subprocess.run([*CARGO, "--lib", "--bins", "--tests", "--config", configured],
                              cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True, text=True)
        if reported.returncode != 0:
            sys.exit(f"tests: cargo did not list the test programs:\n{reported.stdout}{reported.stderr}")
        noted = [json.loads(path.read_text()) for path in pathlib.Path(folder).iterdir()]
    # One that cargo names below its "Running" and that noted nothing would be a program that is not run.
    running = len(re.findall(r"^ +Running ", reported.stderr, re.MULTILINE))
    if not noted or running != len(noted):
        sys.exit(f"tests: cargo names {running} test programs, and {len(noted)} were noted:\n{reported.stderr}")

    def size(one):
        return os.stat(os.path.join(one["folder"], one["command"][0])).st_size

    def name(one):
        package = one["environment"]["CARGO_PKG_NAME"]
        program = pathlib.Path(one["command"][0]).name.rpartition("-")[0]
        # A test program of the library or of a binary has the name of its crate.
        return f"{package} {program}"

    noted.sort(key=lambda one: (name(one) == LONGEST, size(one)), reverse=True)
    return [Job(name(one), one["command"], one["folder"], one["environment"]) for one in noted]


def stop(jobs):
    """Ends jobs that still run, for example after Ctrl-C."""
    for job in jobs:
        os.killpg(job.process.pid, signal.SIGTERM)
    for job in jobs:
        job.process.wait()


def run(jobs, at_once, logs):
    """Runs the jobs in their order, `at_once` at a time. Prints one line for each that ends."""
    waiting, running = list(jobs), {}
    try:
        while waiting or running:
            while waiting and len(running) < at_once:
                job = waiting.pop(0)
                job.start(logs)
                running[job.process.pid] = job
            pid, status, usage = os.wait4(-1, 0)
            job = running.pop(pid, None)
            if job is None:
                continue
            job.ended(status, usage)
            if job.status == 0:
                print(f"   ok  {job.name}", flush=True)
            else:
                ending = f"exit code {job.status}" if job.status > 0 else signal.Signals(-job.status).name
                print(f"\n-- {job.name}: {shlex.join(job.command)}\n{job.text()}", flush=True)
                print(f"FAILED  {job.name} ({ending})", flush=True)
    finally:
        stop(running.values())


def summary(jobs):
    print("\n   wall    CPU  passed  failed  ignored")
    total = [0, 0, 0]
    for job in sorted(jobs, key=lambda job: -job.wall):
        counts = job.counts()
        total = [before + more for before, more in zip(total, counts or (0, 0, 0))]
        shown = "{:8}{:8}{:9}".format(*counts) if counts else " " * 25
        print(f"{job.wall:5.0f} s{job.cpu:5.0f} s{shown}  {job.name}{'' if job.status == 0 else '  FAILED'}")
    cpu = sum(job.cpu for job in jobs)
    print(f"       {cpu:5.0f} s{total[0]:8}{total[1]:8}{total[2]:9}  in all")


def main():
    if sys.argv[1:2] == ["--note"]:
        return note(sys.argv[2])
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)) + 1, help="jobs at a time")
    parser.add_argument("--beside", action="append", default=[], metavar="NAME=COMMAND",
                        help="another job, started right after the longest test program")
    parser.add_argument("--only", default="", metavar="PATTERN", help="only jobs whose names match")
    options = parser.parse_args()
    # As cargo does before it runs anything; examples are built too.
    if subprocess.run([*CARGO, "--no-run"], cwd=ROOT).returncode != 0:
        return 1
    target = json.loads(subprocess.run([CARGO[0], "metadata", "--format-version", "1", "--no-deps"], cwd=ROOT,
                                       check=True, capture_output=True).stdout)["target_directory"]
    logs = pathlib.Path(target) / "tests"
    logs.mkdir(exist_ok=True)
    # NVRTC takes seconds for each kernel, and most tests of kernels have a process of their own: each kernel is compiled
    # once for all of them. The folder starts empty, so that each run compiles them.
    kernels = logs / "kernels"
    shutil.rmtree(kernels, ignore_errors=True)
    kernels.mkdir()
    os.environ.setdefault("UVATRAIN_TEST_KERNELS", str(kernels))
    longest, *others = test_programs()
    beside = [Job(name, shlex.split(command)) for name, _, command in (one.partition("=") for one in options.beside)]
    jobs = [longest, *beside, *others]
    jobs.append(Job("doc tests", [*CARGO, "--doc", "--no-fail-fast"]))
    jobs = [job for job in jobs if re.search(options.only, job.name)]
    since = time.monotonic()
    run(jobs, max(options.jobs, 1), logs)
    summary(jobs)
    failed = [job.name for job in jobs if job.status != 0]
    print(f"tests: {len(jobs)} jobs in {time.monotonic() - since:.0f} s; their output is in {logs}")
    if failed:
        print(f"tests: FAILED: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    # SIGTERM ends the jobs as Ctrl-C does.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    sys.exit(main())
