"""What faults.py does harm to: a script that iterates, and in whose middle something happens.

    fault_victim.py JSON

Prints `batch N` for every batch up to that point, so that the watching process knows when to strike, and `clean` at its end,
when no object of the module is left in the process.
"""

import gc
import json
import os
import signal
import sys
import threading
from pathlib import Path

CASE = json.loads(sys.argv[1])
if CASE["arrays"] == "numpy":
    # As where torch is not installed.
    sys.modules["torch"] = None

import uvatrain  # noqa: E402


class Planted(Exception):
    """The exception that is raised on purpose."""


def open_loader():
    """What is iterated over: threads of this process, or the place of the consumer in a run."""
    if CASE["mode"] == "run":
        return uvatrain.attach()
    return uvatrain.Loader(CASE["graph"], **CASE["options"])


def touch(batch):
    """Reads every array to its end, as a training step would."""
    total = float(batch.x.sum()) + float(batch.y.sum()) + float(batch.input_nodes.sum())
    for block in batch.blocks:
        total += float(block.indices.sum()) + float(block.indptr[-1])
    if total != total:
        raise AssertionError("a feature is not a number")
    return total


def left_behind():
    """Threads of the module's in this process, and memory files that it has open or mapped."""
    found = []
    for task in Path("/proc/self/task").iterdir():
        try:
            name = (task / "comm").read_text().strip()
        except OSError:
            continue
        if name.startswith("uva-"):
            found.append(f"thread {name}")
    for descriptor in Path("/proc/self/fd").iterdir():
        try:
            target = os.readlink(descriptor)
        except OSError:
            continue
        if "memfd:uva" in target:
            found.append(f"descriptor {target}")
    with open("/proc/self/maps") as maps:
        found += [f"mapping {line.split()[-2]}" for line in maps if "memfd:uva" in line]
    return sorted(set(found))


def expect(kind, words, action):
    """That a call raises what it should, by type and words."""
    try:
        action()
    except kind as error:
        if not any(word in str(error) for word in words):
            raise AssertionError(f"{type(error).__name__} says none of {words}: {error}") from error
    else:
        raise AssertionError(f"nothing was raised, and {kind.__name__} was expected")


def endless(loader):
    """Batches of one epoch after another."""
    while True:
        yield from loader


def go_on(loader, batches=3):
    """Takes some more batches: what happened has done no harm to the loader."""
    for number, batch in enumerate(endless(loader)):
        touch(batch)
        if number == batches:
            break


def do_raise(loader, batch):
    raise Planted(f"raised in the middle, with a batch of {batch.num_nodes} nodes")


def do_exit(loader, batch):
    sys.exit(CASE["code"])


def do_leave(loader, batch):
    os._exit(CASE["code"])


def do_abort(loader, batch):
    os.abort()


def do_keep(loader, batch):
    kept, sums = [], []

    def keep_all():
        for one in endless(loader):
            kept.append(one.x)
            sums.append(float(one.x.sum()))
    expect(uvatrain.SlotInUse, ["clone()"], keep_all)
    if not kept or [float(one.sum()) for one in kept] != sums:
        raise AssertionError("a tensor that was kept has changed")
    del kept[:]
    go_on(loader)


def do_cycle(loader, batch):
    # What only the collector would find, at the interpreter's end.
    gc.disable()
    ring = [loader, batch, batch.x]
    ring.append(ring)
    sys.exit(0)


def do_close(loader, batch):
    kept, total = batch.x, float(batch.x.sum())
    loader.close()
    if float(kept.sum()) != total:
        raise AssertionError("a tensor that was kept over close() has changed")
    expect(uvatrain.UvatrainError, ["closed"], lambda: go_on(loader))
    loader.close()


def do_close_from_thread(loader, batch):
    del batch
    begun = threading.Event()

    def close():
        begun.wait()
        loader.close()
    closer = threading.Thread(target=close)
    closer.start()

    def take():
        for one in endless(loader):
            begun.set()
            touch(one)
    expect(uvatrain.UvatrainError, ["closed", "gone", "given back"], take)
    closer.join()


def do_daemon(loader, batch):
    del batch
    begun = threading.Event()

    def take():
        for one in endless(loader):
            begun.set()
            touch(one)
    threading.Thread(target=take, daemon=True).start()
    begun.wait()
    # The interpreter ends while the thread takes batches.
    sys.exit(0)


def do_fork(loader, batch):
    child = os.fork()
    if child == 0:
        try:
            expect(uvatrain.UvatrainError, ["fork"], lambda: batch.x)
            expect(uvatrain.UvatrainError, ["fork"], lambda: go_on(loader))
            loader.close()
        except BaseException as error:
            print(f"in the fork: {error!r}", file=sys.stderr)
            os._exit(1)
        os._exit(23)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if code != 23:
        raise AssertionError(f"the fork ended with {code}")
    go_on(loader)


def do_two(loader, batch):
    def fail():
        with open_loader() as other:
            for one, two in zip(endless(loader), endless(other)):
                touch(one)
                touch(two)
                raise Planted("raised over two loaders")
    expect(Planted, ["two loaders"], fail)
    go_on(loader)


def do_catch_interrupt(loader, batch):
    def interrupted():
        signal.raise_signal(signal.SIGINT)
        go_on(loader)
    expect(KeyboardInterrupt, [""], interrupted)
    go_on(loader)


def do_restart(loader, batch):
    state = loader.state_dict()
    del batch
    loader.load_state_dict(state)
    go_on(loader)


def do_nothing(loader, batch):
    """Another process strikes."""


ACTIONS = {name.removeprefix("do_"): value for name, value in list(globals().items()) if name.startswith("do_")}


def main():
    loader = open_loader()
    act = ACTIONS[CASE["action"]]
    for number, batch in enumerate(endless(loader)):
        touch(batch)
        if number <= CASE["at"]:
            print(f"batch {number}", flush=True)
        if number == CASE["at"]:
            act(loader, batch)
            if CASE["action"] != "nothing":
                break
    loader.close()
    del loader, batch
    gc.collect()
    found = left_behind()
    if found:
        raise AssertionError(f"left in the process: {', '.join(found)}")
    print("clean", flush=True)


if __name__ == "__main__":
    main()
