"""For the scripts that measure: the machine, and what a command took of it."""
import os
import platform
import subprocess
import sys
import threading
import time
from pathlib import Path


def machine():
    """The description of the machine that is stored with figures."""
    def find(path, key):
        try:
            lines = Path(path).read_text().splitlines()
        except OSError:
            return None
        values = (line.partition(":") for line in lines)
        return next((value.strip() for name, _, value in values if name.strip() == key), None)

    pages = Path("/sys/kernel/mm/transparent_hugepage/enabled")
    return {
        "cpu": find("/proc/cpuinfo", "model name") or platform.processor(),
        "cores": os.cpu_count(),
        "memory": find("/proc/meminfo", "MemTotal"),
        "kernel": platform.release().split("-")[0],
        "transparent_huge_pages": pages.read_text().strip() if pages.exists() else None,
    }


def watched(command):
    """Runs a command: what it printed, its times, and the peaks of its memory (`own`: pages of no file). One that fails
    ends the script."""
    start = time.perf_counter()
    process = subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    peak, ended = {"own": 0, "all": 0}, threading.Event()

    def look():
        while not ended.wait(0.005):
            try:
                lines = Path(f"/proc/{process.pid}/status").read_text().splitlines()
            except (FileNotFoundError, ProcessLookupError):
                return
            found = {line.split(":")[0]: int(line.split()[1]) * 1024 for line in lines if line.endswith(" kB")}
            if "VmHWM" in found:
                peak["own"] = max(peak["own"], found["RssAnon"] + found["RssShmem"])
                peak["all"] = max(peak["all"], found["VmHWM"])

    watcher = threading.Thread(target=look)
    watcher.start()
    # What it says on stderr is a few lines, which a pipe holds.
    said = process.stdout.read()
    complaint = process.stderr.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = code = os.waitstatus_to_exitcode(status)
    seconds = time.perf_counter() - start
    ended.set()
    watcher.join()
    if code != 0:
        sys.exit(f"{' '.join(map(str, command))}\nended with {code}:\n{complaint}")
    return said, {
        "seconds": round(seconds, 4),
        "cpu_seconds": round(usage.ru_utime + usage.ru_stime, 4),
        "own_peak_bytes": peak["own"],
        # What was resident for less than a look is in the system's own account.
        "peak_bytes": max(peak["all"], usage.ru_maxrss * 1024),
    }
