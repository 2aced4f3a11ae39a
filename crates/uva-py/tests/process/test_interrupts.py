"""What happens from outside: SIGINT while a batch is waited for, forks, and the end of the interpreter."""

import signal

import pytest
from conftest import run_python, run_python_well

# A batch of all training nodes with all their neighbours, eight hops deep, takes seconds.
SLOW = "fanouts=(-1,) * 8, batch_size=150_000, slot_bytes=2**30"

# Sends the signal once the main thread waits within the module: a thread of Python's gets to run there only
# because the wait has let go of the interpreter's lock.
SENDER = """
import os, signal, sys, threading, uvatrain

def send(number):
    main = threading.main_thread().ident
    while sys._current_frames()[main].f_code.co_name != "_receive":
        pass
    os.kill(os.getpid(), number)

def send_when_waiting(number):
    threading.Thread(target=send, args=(number,), daemon=True).start()

def waits(loader):
    # During the wait the loader is in use; after the wait it is not.
    try:
        loader.stats()
    except uvatrain.UvatrainError as error:
        return "waits for a batch" in str(error)
    return False
"""


def test_a_sigint_ends_the_wait_for_a_batch(big_graph):
    script = f"""{SENDER}
loader = uvatrain.Loader(sys.argv[1], {SLOW})
waited = []
def handler(number, frame):
    waited.append(waits(loader))
    signal.default_int_handler(number, frame)
signal.signal(signal.SIGINT, handler)
send_when_waiting(signal.SIGINT)
try:
    for batch in loader:
        print("a batch")
except KeyboardInterrupt:
    print("interrupted", waited, loader.state_dict()["batch"])
signal.signal(signal.SIGINT, signal.default_int_handler)
# Nothing is lost: the same batch still comes.
print(next(iter(loader)).epoch)
loader.load_state_dict(dict(loader.state_dict(), epoch=0, batch=0))
print(next(iter(loader)).index)
"""
    assert run_python_well(script, big_graph).split("\n")[:3] == ["interrupted [True] 0", "1", "0"]


def test_a_handler_may_close_the_loader_that_is_waited_for(big_graph):
    script = f"""{SENDER}
loader = uvatrain.Loader(sys.argv[1], {SLOW})
signal.signal(signal.SIGUSR1, lambda number, frame: loader.close())
send_when_waiting(signal.SIGUSR1)
try:
    next(iter(loader))
except uvatrain.UvatrainError as error:
    print("closed" in str(error), loader._source.closed)
"""
    assert run_python_well(script, big_graph).strip() == "True True"


def test_a_handler_that_raises_nothing_does_not_end_the_wait(big_graph):
    script = f"""{SENDER}
loader = uvatrain.Loader(sys.argv[1], {SLOW})
waited = []
signal.signal(signal.SIGUSR1, lambda number, frame: waited.append(waits(loader)))
send_when_waiting(signal.SIGUSR1)
print(next(iter(loader)).index, waited)
"""
    assert run_python_well(script, big_graph).strip() == "0 [True]"


def test_whatever_a_handler_raises_ends_the_wait(big_graph):
    script = f"""{SENDER}
class Enough(Exception): pass
loader = uvatrain.Loader(sys.argv[1], {SLOW})
def handler(number, frame):
    raise Enough(waits(loader))
signal.signal(signal.SIGUSR1, handler)
send_when_waiting(signal.SIGUSR1)
try:
    next(iter(loader))
except Enough as enough:
    print(enough)
"""
    assert run_python_well(script, big_graph).strip() == "True"


def test_an_interrupted_script_ends_as_python_does(big_graph):
    script = f"""{SENDER}
send_when_waiting(signal.SIGINT)
for batch in uvatrain.Loader(sys.argv[1], {SLOW}):
    print("a batch")
"""
    ended = run_python(script, big_graph)
    assert ended.returncode == -signal.SIGINT and ended.stdout == ""
    assert ended.stderr.rstrip().endswith("KeyboardInterrupt") and "panicked" not in ended.stderr


# --- Forks --------------------------------------------------------------------------------------------------


def test_a_fork_is_refused_with_the_reason_and_its_parent_continues(graph):
    script = """
import gc, os, sys, uvatrain, torch
loader = uvatrain.Loader(sys.argv[1], fanouts=(4, 3), batch_size=64, slots=1)
iteration = iter(loader)
batch = next(iteration)
kept = batch.x
values = kept.clone()
child = os.fork()
if child == 0:
    for use in (lambda: next(iteration), lambda: next(iter(loader)), loader.stats):
        try:
            use()
        except uvatrain.UvatrainError as error:
            assert "fork" in str(error) and "num_workers=0" in str(error), error
        else:
            os._exit(1)
    # What it has of the parent's is let go of, and that takes nothing from the parent.
    loader.close()
    del kept, batch, iteration, loader
    gc.collect()
    sys.exit(7)
_, status = os.waitpid(child, 0)
assert os.waitstatus_to_exitcode(status) == 7, status
try:
    next(iteration)
except uvatrain.SlotInUse:
    print("still kept")
assert torch.equal(kept, values)
del kept, batch
print(next(iteration).index)
"""
    assert run_python_well(script, graph).split("\n")[:2] == ["still kept", "1"]


def test_a_forked_worker_of_a_data_loader_raises_the_reason(graph):
    script = """
import sys, torch, uvatrain
class Wrapped(torch.utils.data.IterableDataset):
    def __init__(self, loader): self.loader = loader
    def __iter__(self): return (batch.hash for batch in self.loader)
loader = uvatrain.Loader(sys.argv[1], fanouts=(4, 3), batch_size=64)
wrapped = Wrapped(loader)
workers = torch.utils.data.DataLoader(wrapped, batch_size=None, num_workers=1, multiprocessing_context="fork")
try:
    for hash in workers:
        print("a batch")
except uvatrain.UvatrainError as error:
    assert "in its fork" in str(error) and "num_workers=0" in str(error), error
    print("raised")
print(list(torch.utils.data.DataLoader(wrapped, batch_size=None)) == list(wrapped))
loader.set_epoch(0)
first = list(wrapped)
with uvatrain.Loader(sys.argv[1], fanouts=(4, 3), batch_size=64) as again:
    print(first == [batch.hash for batch in again])
"""
    assert run_python_well(script, graph).split() == ["raised", "False", "True"]


def test_a_fork_while_another_thread_waits_is_refused_with_the_reason(big_graph):
    script = f"""{SENDER}
loader = uvatrain.Loader(sys.argv[1], {SLOW})
thread = threading.Thread(target=lambda: next(iter(loader)))
thread.start()
while sys._current_frames()[thread.ident].f_code.co_name != "_receive":
    pass
child = os.fork()
if child == 0:
    try:
        loader.stats()
    except uvatrain.UvatrainError as error:
        os._exit(0 if "in its fork" in str(error) else 1)
    os._exit(2)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
thread.join()
"""
    assert run_python_well(script, big_graph).strip() == "0"


def test_a_loader_can_be_created_in_a_fork_of_a_process_without_one(graph):
    script = """
import os, sys, uvatrain
def hashes():
    with uvatrain.Loader(sys.argv[1], fanouts=(4, 3), batch_size=64) as loader:
        return [batch.hash for batch in loader]
child = os.fork()
if child == 0:
    print(hashes(), flush=True)
    os._exit(0)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
print(hashes())
"""
    child, parent = run_python_well(script, graph).splitlines()
    assert child == parent and len(child) > 5


def test_a_loader_in_a_fork_of_a_process_with_one_is_refused(graph):
    script = """
import os, sys, uvatrain
uvatrain.Loader(sys.argv[1], fanouts=(4, 3), batch_size=64).close()
child = os.fork()
if child == 0:
    try:
        uvatrain.Loader(sys.argv[1], fanouts=(4, 3), batch_size=64)
    except uvatrain.UvatrainError as error:
        print(error, flush=True)
    os._exit(0)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
"""
    assert 'multiprocessing_context="spawn"' in run_python_well(script, graph)


# --- The end of the interpreter -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "end",
    [
        "",
        "sys.exit(0)",
        "loader.kept = x; loader.itself = loader",
        "sys.modules['kept'] = (loader, iteration, batch, x)",
        "del loader",
        "import atexit; atexit.register(lambda: print(next(iteration).index))",
        "threading.Thread(target=drain, daemon=True).start()",
        "torch.kept = x, batch, batch.blocks",
    ],
)
def test_the_interpreter_ends_cleanly_with_a_loader_that_was_not_closed(graph, end):
    script = f"""
import sys, threading, torch, uvatrain
def drain():
    for batch in loader: pass
loader = uvatrain.Loader(sys.argv[1], fanouts=(4, 3), batch_size=64, samplers=2)
iteration = iter(loader)
batch = next(iteration)
x = batch.x
{end}
"""
    run_python_well(script, graph)


def test_a_script_that_fails_in_its_loop_ends_with_its_own_exception(graph):
    script = """
import sys, uvatrain
for batch in uvatrain.Loader(sys.argv[1], fanouts=(4, 3), batch_size=64):
    batch.x[10**6]
"""
    ended = run_python(script, graph)
    assert ended.returncode == 1 and ended.stderr.rstrip().split("\n")[-1].startswith("IndexError")


def test_a_daemon_thread_that_waits_does_not_hold_up_the_end(big_graph):
    script = f"""{SENDER}
loader = uvatrain.Loader(sys.argv[1], {SLOW})
thread = threading.Thread(target=lambda: next(iter(loader)), daemon=True)
thread.start()
while sys._current_frames()[thread.ident].f_code.co_name != "_receive":
    pass
"""
    ended = run_python(script, big_graph)
    # It prints nothing either: it would print while the interpreter destroys the objects that print.
    assert (ended.returncode, ended.stderr) == (0, "")
