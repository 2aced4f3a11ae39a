"""Processes that are forked from one that has imported torch, which takes 3 s of a core each time."""

import atexit
import multiprocessing
import os
import runpy
import signal
import sys
import tempfile
import types
from pathlib import Path

CONTEXT = multiprocessing.get_context("forkserver")
# An optimizer imports torch._dynamo, which takes as long again.
PRELOADED = ["torch", "torch.distributed", "torch._dynamo", "numpy", "torch_geometric.data", "torch_geometric.loader"]
CONTEXT.set_forkserver_preload(PRELOADED)


def become(program: str, arguments: list[str], folder: Path, environment: dict[str, str], streams: list[str]) -> None:
    """Runs a module, a script (`*.py`) or lines of Python as the main program of this process, with its output in two
    files."""
    for number, path in enumerate(streams, start=1):
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(descriptor, number)
        os.close(descriptor)
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    sys.argv = [program, *arguments]
    # torch read this variable when it was imported.
    import torch

    if "OMP_NUM_THREADS" in environment:
        torch.set_num_threads(int(environment["OMP_NUM_THREADS"]))
    try:
        if "\n" in program:
            # Its functions are found by their names there, as a pool needs it.
            sys.modules["__main__"] = main = types.ModuleType("__main__")
            exec(compile(program, "<string>", "exec"), main.__dict__)
        elif program.endswith(".py"):
            sys.path.insert(0, os.path.dirname(program))
            runpy.run_path(program, run_name="__main__")
        else:
            runpy.run_module(program, run_name="__main__", alter_sys=True)
    finally:
        # The server's children do not run these.
        atexit._run_exitfuncs()


class Forked:
    """Such a process, with the methods of `subprocess.Popen` that tests use."""

    def __init__(self, program: str, arguments: list[str], folder: Path, environment: dict[str, str]) -> None:
        # Removed with this object.
        self.folder = tempfile.TemporaryDirectory(prefix="uvatrain-forked-")
        self.streams = [os.path.join(self.folder.name, name) for name in ("stdout", "stderr")]
        for path in self.streams:
            Path(path).touch()
        self.process = CONTEXT.Process(target=become, args=(program, arguments, folder, environment, self.streams))
        self.process.start()
        self.pid = self.process.pid

    @property
    def returncode(self) -> int | None:
        return self.process.exitcode

    def send_signal(self, number: int) -> None:
        if self.process.exitcode is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def wait(self, timeout: float | None = None) -> int | None:
        self.process.join(timeout)
        return self.process.exitcode

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        if self.wait(timeout) is None:
            raise TimeoutError(f"{self.process.name} still runs after {timeout} s")
        printed, complained = (Path(path).read_text() for path in self.streams)
        return printed, complained
