"""Where the suite runs, and getting it ready."""
import glob
import json
import os
import platform
import re
import time
from pathlib import Path

from suite import Failed, Skipped, Unfinished, last_line


def warm(suite, found):
    """Torch's libraries read once, so that no later step waits for the disk: libtorch's CUDA half is gigabytes."""
    torch = os.environ.get("GPU_SUITE_TORCH")
    if not torch:
        raise Skipped("python3 has no torch")
    lib = Path(torch) / "lib"
    files = {path.resolve() for path in lib.glob("*.so*")}
    top = next((lib / name for name in ("libtorch_cuda.so", "libtorch_cpu.so") if (lib / name).exists()), None)
    if top and suite.which("ldd"):
        found["ldd"] = suite.run("ldd", top, codes=(0, 1))[0]
        files |= {Path(path).resolve() for path in re.findall(r"=> (/\S+)", found["ldd"])}
    else:
        files |= {Path(path).resolve() for path in glob.glob(str(Path(torch).parent / "nvidia/*/lib/*.so*"))}
    found.update(files=len(files), bytes=0)
    began = time.monotonic()
    for path in sorted(files):
        try:
            with open(path, "rb") as file:
                while piece := file.read(16 << 20):
                    found["bytes"] += len(piece)
                    if suite.left() < 2:
                        raise Unfinished(f"{found['bytes'] >> 20} MiB were read")
        except OSError:
            continue
    found["seconds"] = round(time.monotonic() - began, 2)


def machine(suite, found):
    """Where this is: the driver, the device, libtorch, the host."""
    found["torch"] = os.environ.get("GPU_SUITE_TORCH") or None
    found["kernel"], found["cores"] = platform.release(), os.cpu_count()
    found["meminfo"] = Path("/proc/meminfo").read_text()
    for name, path in (("transparent_huge_pages", "/sys/kernel/mm/transparent_hugepage/enabled"),
                       ("shmem_huge_pages", "/sys/kernel/mm/transparent_hugepage/shmem_enabled")):
        found[name] = Path(path).read_text().strip() if Path(path).exists() else None
    folders = [*suite.env.get("PATH", "").split(":"), "/usr/bin", "/usr/local/nvidia/bin", *glob.glob("/usr/local/cuda*/bin")]
    found["mps_programs"] = sorted({path for folder in folders for path in glob.glob(f"{folder}/nvidia-cuda-mps-*")})
    found["carried_kernels"] = sorted(path.name for path in (suite.bin / "kernels").glob("*"))
    if suite.which("ldd"):
        found["ldd"] = suite.run("ldd", suite.bin / "uvatrain-consumer", codes=(0, 1))[0]
    code, stdout, stderr = suite.finish(suite.start(suite.bin / "uvatrain", "probe"))
    if code != 0:
        raise Failed(f"uvatrain probe: exit code {code}: {last_line(stderr)}")
    found["probe"] = probe = json.loads(stdout)
    if probe.get("unavailable") or not probe.get("devices"):
        suite.no_gpu = probe.get("unavailable") or "the driver shows no device"
        raise Failed(f"no GPU: {suite.no_gpu}")
    found["doctor"] = json.loads(suite.uvatrain("doctor", "--json", codes=(0, 1, 3))[0])
    query = "name,driver_version,pcie.link.gen.max,pcie.link.gen.current,pcie.link.width.current,memory.total"
    if suite.which("nvidia-smi"):
        found["nvidia_smi"] = suite.run("nvidia-smi", f"--query-gpu={query}", "--format=csv", codes=(0, 1, 9))[0]
