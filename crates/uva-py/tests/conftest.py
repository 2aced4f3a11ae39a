"""What the tests share: datasets, and runs of Python or the command line in other processes."""

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from forked import Forked  # noqa: E402
from graphs import BATCHES, OPTIONS, hashes, write_graph  # noqa: E402

# A shell that starts this in the background has SIGINT ignored, and so would every process of a test.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_configure(config):
    config.addinivalue_line("markers", "long: left out unless UVATRAIN_TESTS=all (scripts/measure/long_tests.sh)")


def pytest_runtest_setup(item):
    if item.get_closest_marker("long") and os.environ.get("UVATRAIN_TESTS") != "all":
        pytest.skip("takes long: scripts/measure/long_tests.sh has it")


# Of several pytest processes that share this folder, each runs the files that it was the first to claim there.
CLAIMS = os.environ.pop("UVATRAIN_PYTEST_CLAIMS", None)
claimed = {}


def pytest_runtest_protocol(item, nextitem):
    if CLAIMS is None:
        return None
    if item.path not in claimed:
        try:
            Path(CLAIMS, item.path.name).touch(exist_ok=False)
            claimed[item.path] = True
        except FileExistsError:
            claimed[item.path] = False
    if claimed[item.path]:
        return None
    # The item before it left set up what it shares with this one, such as their folder. The next one may not share it.
    item.session._setupstate.teardown_exact(nextitem)
    # True: this item has been seen to.
    return True


REPOSITORY = Path(__file__).resolve().parents[3]
#: How long a process of a test may take before it counts as stuck.
WATCHDOG = 120


@pytest.fixture(scope="session")
def graph(tmp_path_factory):
    """A small graph: 600 nodes, 5 features, 300 training nodes."""
    return write_graph(tmp_path_factory.mktemp("datasets") / "small")


@pytest.fixture
def loader(graph):
    """A loader over it, made for each test."""
    import uvatrain

    with uvatrain.Loader(graph, **OPTIONS) as loader:
        yield loader


@pytest.fixture(scope="session")
def epochs(graph):
    """Hashes of its first epochs."""
    import uvatrain

    with uvatrain.Loader(graph, **OPTIONS) as loader:
        epochs = [hashes(loader) for _ in range(6)]
    assert len({hash for epoch in epochs for hash in epoch}) == 6 * BATCHES
    return epochs


@pytest.fixture(scope="session")
def big_graph(tmp_path_factory):
    """A graph of whose nodes a batch of all, eight hops deep, takes seconds."""
    path = tmp_path_factory.mktemp("datasets") / "big"
    return write_graph(path, nodes=200_000, degree=30, dim=16, splits=(150_000, 10, 10))


@pytest.fixture(scope="session")
def uvatrain_program():
    """The command line: UVATRAIN of the environment, else what cargo has built last."""
    if given := os.environ.get("UVATRAIN"):
        return Path(given)
    target = Path(os.environ.get("CARGO_TARGET_DIR", REPOSITORY / "target"))
    built = [path for path in (target / kind / "uvatrain" for kind in ("debug", "release")) if path.exists()]
    if not built:
        pytest.skip("needs the command line: cargo build -p uvatrain, or UVATRAIN=its path")
    return max(built, key=lambda path: path.stat().st_mtime)


def run_python(script, *arguments, **environment):
    """Runs a script in another process, and returns how it ended, what it printed and complained of."""
    command = [sys.executable, "-c", script, *map(str, arguments)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), **environment}
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
        # A group of its own, so that a script that hangs is killed with its children.
        start_new_session=True,
    ) as process:
        try:
            printed, complained = process.communicate(timeout=WATCHDOG)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            printed, complained = process.communicate()
            pytest.fail(f"stuck for {WATCHDOG} s\n{printed}{complained}")
    return subprocess.CompletedProcess(command, process.returncode, printed, complained)


def run_python_well(script, *arguments, **environment):
    """The same, of a script that ends well and complains of nothing. Returns what it printed."""
    ended = run_python(script, *arguments, **environment)
    assert (ended.returncode, ended.stderr) == (0, ""), ended.stdout + ended.stderr
    return ended.stdout


def run_forked_well(script, *arguments, **environment):
    """The same, in a process forked from one that has imported torch and PyG, which takes 5 s of a core each time."""
    environment = {name: str(value) for name, value in {**os.environ, **environment}.items()}
    process = Forked(script, list(map(str, arguments)), Path.cwd(), environment)
    try:
        printed, complained = process.communicate(timeout=WATCHDOG)
    finally:
        process.kill()
        process.wait()
    assert (process.returncode, complained) == (0, ""), printed + complained
    return printed


@pytest.fixture
def simulator(tmp_path):
    """The environment in which the stand-in driver is found."""
    target = Path(os.environ.get("CARGO_TARGET_DIR", REPOSITORY / "target"))
    if "UVATRAIN_CUDA_SIM" in os.environ:
        built = [Path(os.environ["UVATRAIN_CUDA_SIM"])]
    else:
        built = list(target.glob("*/libcuda_sim.so"))
    if not built:
        pytest.skip("needs the stand-in driver: cargo build -p cuda-sim")
    folder = tmp_path / "driver"
    folder.mkdir()
    for name in ("libcuda.so", "libcuda.so.1"):
        (folder / name).symlink_to(max(built, key=lambda path: path.stat().st_mtime).resolve())
    return {"LD_LIBRARY_PATH": f"{folder}:{os.environ.get('LD_LIBRARY_PATH', '')}"}


def a_free_port() -> int:
    """A port of 127.0.0.1 that nothing listens at."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
