"""`python -m uvatrain doctor`: what this Python has, what is missing, and the command that mends it.

It looks and never touches. Each check is one function that returns one `Check`, as in `uvatrain doctor`, which looks at
the machine. Packages are imported and CUDA is loaded by processes of their own, which may crash or hang without harm.
"""

from __future__ import annotations

import json
import os
import platform
import re
import shlex
import shutil
import signal
import subprocess
import sys
import sysconfig
from dataclasses import asdict, dataclass
from typing import Any

from . import __version__

OK, NOTE, MISSING = "ok", "note", "missing"
_MARKS = {OK: "✓", NOTE: "·", MISSING: "✗"}
# Seconds for another program to answer in. A driver that takes longer does not work.
_PATIENCE = 60

# The values of `--need`, and the check of each.
PARTS = {
    "torch": "PyTorch",
    "numpy": "numpy",
    "pyg": "PyG",
    "dgl": "DGL",
    "program": "uvatrain program",
    "gpu": "PyTorch on the GPU",
}


@dataclass
class Check:
    """One thing looked at: its name, how it stands, what was found, and what mends it unless all is well."""

    name: str
    status: str
    finding: str
    remedy: str | None = None


def _pip(*requirements: str) -> str:
    return shlex.join([sys.executable, "-m", "pip", "install", *requirements])


def _reason(error: BaseException) -> str:
    """The first line of an error, with its type where it says nothing itself."""
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__


_SAID = "uvatrain doctor: "
_IMPORT = """
import importlib, json, os, sys
sys.path[:] = json.loads(sys.argv[1])
# Or DGL writes its choice into the home folder.
os.environ.setdefault("DGLBACKEND", "pytorch")
for name in sys.argv[3:]:
    try:
        found = importlib.import_module(name)
        reported = {
            "version": str(getattr(found, "__version__", "of unknown version")),
            "folder": os.path.dirname(getattr(found, "__file__", None) or ""),
            "cuda": getattr(getattr(found, "version", None), "cuda", None),
        }
    except BaseException as error:
        reported = {
            "error": (str(error).strip().splitlines() or [type(error).__name__])[0],
            "lacks": error.name if isinstance(error, ModuleNotFoundError) else None,
        }
    print("\\n" + sys.argv[2] + json.dumps([name, reported]), flush=True)
"""


def _imports(modules: list[str]) -> dict[str, dict[str, Any]]:
    """Imports packages in a separate process, and returns the version of each or why it cannot be imported."""
    reported: dict[str, dict[str, Any]] = {}
    while left := [name for name in modules if name not in reported]:
        output, reason = _run(_IMPORT, _SAID, *left)
        for line in output.splitlines():
            if line.startswith(_SAID):
                name, about = json.loads(line[len(_SAID):])
                reported[name] = about
        # The process ended at the first package that is not reported, so its import failed.
        for name in left:
            if name not in reported:
                reported[name] = {"error": reason or "its import ended the process", "lacks": None}
                break
    return reported


def _package(name: str, module: str, without: str, requirement: str, reported: dict[str, dict[str, Any]]) -> Check:
    about = reported[module]
    if "version" in about:
        return Check(name, OK, f"{about['version']} in {about['folder']}")
    if about["lacks"] == module:
        return Check(name, NOTE, f"not installed: {without}", _pip(requirement))
    remedy = _pip(about["lacks"]) if about["lacks"] else _pip("--force-reinstall", requirement)
    return Check(name, MISSING, f"cannot be imported: {about['error']}", remedy)


def _older(version: str, least: tuple[int, int]) -> bool:
    found = re.match(r"(\d+)\.(\d+)", version)
    return found is not None and (int(found[1]), int(found[2])) < least


def module() -> Check:
    """The module itself, which is installed, since it runs this check."""
    return Check("module", OK, f"{__version__} in {os.path.dirname(os.path.abspath(__file__))}")


def python() -> Check:
    """The interpreter."""
    return Check("Python", OK, f"{platform.python_version()}, {sys.executable}")


def torch(reported: dict[str, dict[str, Any]]) -> Check:
    """PyTorch: without it batches are numpy arrays."""
    check = _package("PyTorch", "torch", "batches are numpy arrays", "torch", reported)
    if check.status == OK:
        about = reported["torch"]
        built = f"for CUDA {about['cuda']}" if about["cuda"] else "without CUDA"
        check.finding = f"{about['version']}, {built}, in {about['folder']}"
        if _older(about["version"], (2, 4)):
            check.status, check.remedy = NOTE, _pip("--upgrade", "torch>=2.4")
            check.finding += "; made for 2.4 and later"
    elif "version" not in reported["numpy"]:
        # Either will do; PyTorch is what most people want.
        check.status = MISSING
    return check


def torch_gpu(reported: dict[str, dict[str, Any]], probed: dict[str, Any], unknown: str | None) -> Check:
    """Whether PyTorch can use a GPU, or why not. It is asked only where there is one."""
    name = PARTS["gpu"]
    if "version" not in reported["torch"]:
        return Check(name, NOTE, "no: PyTorch is not there", _pip("torch"))
    if not probed.get("devices"):
        return Check(name, NOTE, f"no: {'what CUDA says is not known' if unknown else 'no GPU is seen'}", _NO_GPU)
    if reported["torch"]["cuda"] is None:
        return Check(name, NOTE, "no: this PyTorch is built without CUDA", _pip("--force-reinstall", "torch"))
    names, reason = _ask(_TORCH_PROBE)
    reason = reason or names.get("error")
    if reason is not None:
        return Check(name, NOTE, f"no: {reason}", "see the reason, then nvidia-smi")
    return Check(name, OK, f"yes: {'; '.join(names['devices'])}")


def numpy(reported: dict[str, dict[str, Any]]) -> Check:
    """numpy: what batches are made of without PyTorch, and what datasets are written from."""
    without = "batches need it where PyTorch is not there, and write_dataset takes its arrays"
    return _package("numpy", "numpy", without, "numpy", reported)


def pyg(reported: dict[str, dict[str, Any]]) -> Check:
    """PyG, for `to_pyg()` and the stores."""
    without = "batch.to_pyg(), from_pyg() and uvatrain.pyg need it"
    check = _package("PyG", "torch_geometric", without, "torch-geometric", reported)
    if check.status == OK and _older(reported["torch_geometric"]["version"], (2, 5)):
        check.status, check.remedy = NOTE, _pip("--upgrade", "torch-geometric>=2.5")
        check.finding += "; made for 2.5 and later"
    return check


def dgl(reported: dict[str, dict[str, Any]]) -> Check:
    """DGL, for `to_dgl()`."""
    check = _package("DGL", "dgl", "batch.to_dgl() needs it", "dgl", reported)
    if check.status != OK:
        check.remedy = _pip("torch==2.2.1", "dgl==2.1.0") + " (PyPI's newest DGL works with PyTorch 2.0 to 2.2 only)"
    return check


def program() -> Check:
    """The program `uvatrain`, which starts samplers and producer for `attach()`. Its version has to be this module's."""
    name = PARTS["program"]
    build = f"{_pip('--force-reinstall', '--no-deps', 'uvatrain')}: its wheel has the program"
    named = os.environ.get("UVATRAIN_PROGRAM")
    path = shutil.which(named or "uvatrain")
    beside = os.path.join(sysconfig.get_path("scripts"), "uvatrain")
    if path is None and not named and os.path.exists(beside):
        # Of an environment that is not active: pip has put it there, and a shell does not find it by its name.
        path = beside
    if path is None:
        if named:
            return Check(name, MISSING, f"UVATRAIN_PROGRAM is {named}, which is not a program", build)
        return Check(name, NOTE, "not in PATH: uvatrain.attach() needs it, Loader does not", build)
    try:
        reported = subprocess.run(
            [path, "--version"], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=_PATIENCE
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return Check(name, MISSING, f"{path} cannot be run: {_reason(error)}", build)
    version = re.fullmatch(r"uvatrain (\S+)", reported.stdout.strip())
    if reported.returncode != 0 or version is None:
        said = (reported.stderr or reported.stdout).strip().splitlines()
        reason = said[0] if said else f"exit code {reported.returncode}"
        return Check(name, MISSING, f"{path} does not print its version: {reason}", build)
    if version[1] != __version__:
        finding = f"{path} is {version[1]}, and this module {__version__}: they do not work together"
        return Check(name, MISSING, finding, "take both from one wheel, or from one checkout: " + _pip("./crates/uva-py"))
    return Check(name, OK, f"{version[1]}, {path}")


_NO_GPU = "nothing to do: without a GPU everything runs on the CPU"
_PROBE = """
import json, sys
sys.path[:] = json.loads(sys.argv[1])
from uvatrain import _core
probed = json.loads(_core.probe())
if probed.get("devices") and not (probed.get("nvrtc") or {}).get("found"):
    try:
        # PyTorch's own library is found next to it, once PyTorch is loaded.
        import torch
        probed = json.loads(_core.probe())
    except Exception:
        pass
print(json.dumps(probed))
"""


_TORCH_PROBE = """
import json, sys
sys.path[:] = json.loads(sys.argv[1])
import torch
try:
    # Where it fails, it says why; is_available() only says no.
    torch.cuda.init()
    reported = {"devices": [torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())]}
except Exception as error:
    reported = {"error": (str(error).strip().splitlines() or [type(error).__name__])[0]}
print(json.dumps(reported))
"""


def _run(code: str, *arguments: str) -> tuple[str, str | None]:
    """What code prints in a process of its own, which looks for packages where this one does; and why it failed."""
    command = [sys.executable, "-c", code, json.dumps(sys.path), *arguments]
    try:
        # A Python without site packages stays one without.
        command[1:1] = ["-S"] if sys.flags.no_site else []
        reported = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=_PATIENCE
        )
    except subprocess.TimeoutExpired as error:
        output = error.stdout or b""
        return output.decode(errors="replace") if isinstance(output, bytes) else output, f"no end in {_PATIENCE} s"
    except OSError as error:
        return "", _reason(error)
    if reported.returncode < 0:
        return reported.stdout, f"the process that looked was ended by {signal.Signals(-reported.returncode).name}"
    if reported.returncode != 0:
        lines = reported.stderr.strip().splitlines()
        return reported.stdout, lines[-1] if lines else f"the process that looked ended with {reported.returncode}"
    return reported.stdout, None


def _ask(code: str) -> tuple[dict[str, Any], str | None]:
    """The JSON that code prints last; or why there is none."""
    output, reason = _run(code)
    if reason is not None:
        return {}, reason
    try:
        return json.loads(output.strip().splitlines()[-1]), None
    except (ValueError, IndexError) as error:
        return {}, _reason(error)


def gpu(probed: dict[str, Any], unknown: str | None) -> list[Check]:
    """The driver, its devices, and what compiles the kernels for them, as the core sees them."""
    name = "NVIDIA GPU"
    if unknown is not None:
        return [Check(name, NOTE, f"what CUDA says is not known: {unknown}", "see the reason, then nvidia-smi")]
    devices = probed.get("devices") or []
    if not devices:
        return [Check(name, NOTE, f"none: {probed.get('unavailable') or 'the driver lists no device'}", _NO_GPU)]
    shown = [
        f"{one['name']} (compute capability {'.'.join(map(str, one['capability']))}, "
        f"{one['multiprocessors']} multiprocessors, {one['total_memory'] / 2**30:.1f} GiB)"
        for one in devices
    ]
    checks = [Check(name, OK, f"{'; '.join(shown)}; CUDA {probed.get('driver')}")]
    nvrtc = probed.get("nvrtc") or {}
    if nvrtc.get("found"):
        checks.append(Check("NVRTC", OK, f"{nvrtc.get('version')}, {nvrtc['found']}"))
    elif not probed.get("simulator"):
        remedy = _pip("nvidia-cuda-nvrtc==13.0.88") + " (needed with a GPU only)"
        checks.append(Check("NVRTC", NOTE, nvrtc.get("missing") or "not found", remedy))
    return checks


def look() -> dict[str, Any]:
    """Looks at everything. The shape of the JSON: `tensors` is what batches are made of, "torch", "numpy" or None."""
    probed, unknown = _ask(_PROBE)
    reported = _imports(["torch", "numpy", "torch_geometric", "dgl"])
    torch_on_gpu = torch_gpu(reported, probed, unknown)
    checks = [module(), python(), torch(reported), torch_on_gpu, numpy(reported), pyg(reported), dgl(reported), program()]
    checks += gpu(probed, unknown)
    return {
        "version": __version__,
        "tensors": next((name for name in ("torch", "numpy") if "version" in reported[name]), None),
        "gpu": torch_on_gpu.status == OK,
        "checks": [{key: value for key, value in asdict(one).items() if value is not None} for one in checks],
    }


def text(found: dict[str, Any]) -> str:
    """The findings for a person."""
    width = max(len(check["name"]) for check in found["checks"])
    lines = [f"uvatrain {found['version']} for Python", ""]
    for check in found["checks"]:
        lines.append(f"{_MARKS[check['status']]} {check['name']:<{width}}  {check['finding']}")
        if "remedy" in check:
            lines.append(f"  {'':<{width}}  → {check['remedy']}")
    lines.append("")
    if found["tensors"] is None:
        lines.append("This Python cannot take batches yet: install PyTorch, or numpy.")
    else:
        kind = "PyTorch tensors" if found["tensors"] == "torch" else "numpy arrays"
        where = "on its GPU and on the CPU" if found["gpu"] else "on the CPU"
        lines.append(f"This Python can take batches as {kind}, {where}.")
    lines.append("What the machine itself has: uvatrain doctor.")
    return "\n".join(lines)


def run(as_json: bool = False, need: list[str] | None = None) -> int:
    """Looks at everything and prints it.

    Args:
        as_json: print JSON instead of text.
        need: names of `PARTS` that have to be there.

    Returns:
        0; 3 where something of `need` is not as it should be.
    """
    found = look()
    print(json.dumps(found, indent=1, ensure_ascii=False) if as_json else text(found))
    states = {check["name"]: check["status"] for check in found["checks"]}
    lacking = [name for name in need or [] if states[PARTS[name]] != OK]
    if lacking:
        print(f"uvatrain: required but missing: {', '.join(lacking)}", file=sys.stderr)
        return 3
    return 0
