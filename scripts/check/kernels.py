#!/usr/bin/env python3
"""Compiles kernels/ with NVRTC for every supported architecture, and checks the machine code.

For each kernel and architecture:
  - it compiles, with warnings as errors;
  - no thread uses local memory: no stack, no spills, no LDL or STL in the machine code;
  - two blocks of 512 threads fit on a multiprocessor: 64 registers at most;
  - the table loads of `wide` are of 16 bytes, and it has no narrower ones;
  - its twins differ only in their hints: `wide_plain` has none, `wide_evict_first` has L2's from sm_80 on;
  - a thread sends as many table loads as the kernel's depth says before it uses the first.

NVRTC, nvdisasm and cuobjdump come from scripts/setup/nvrtc.sh. If they are missing, the script says so and exits with 0, or with 3
if --require is given. Prints a table of registers; --json prints it as JSON.
"""

import argparse
import ctypes
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ARCHITECTURES = [75, 80, 86, 89, 90, 100, 120]
KERNELS = pathlib.Path(__file__).resolve().parents[2] / "kernels"
# Each is a program of its own, with the headers of all.
ROOTS = ["gather.cu", "sample.cu", "train.cu"]
# OPTIONS of crates/uva-kernels, apart from the architecture.
OPTIONS = ["-std=c++17", "-lineinfo"]


def cache_folder():
    cache = os.environ.get("UVATRAIN_CACHE")
    if not cache:
        cache = os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "uvatrain")
    return pathlib.Path(cache) / "nvrtc-13.0.88"


class Nvrtc:
    def __init__(self, library_folder):
        # NVRTC opens its builtins by bare name and has no search path of its own: they must be there already.
        ctypes.CDLL(str(library_folder / "libnvrtc-builtins.so.13.0"), mode=ctypes.RTLD_GLOBAL)
        self.library = ctypes.CDLL(str(library_folder / "libnvrtc.so.13"))
        self.library.nvrtcGetErrorString.restype = ctypes.c_char_p

    def call(self, name, *arguments):
        code = getattr(self.library, name)(*arguments)
        return None if code == 0 else f"{name}: {self.library.nvrtcGetErrorString(code).decode()}"

    def text(self, program, what):
        size = ctypes.c_size_t()
        self.call(f"nvrtcGet{what}Size", program, ctypes.byref(size))
        buffer = ctypes.create_string_buffer(size.value)
        self.call(f"nvrtcGet{what}", program, buffer)
        return buffer.raw[: size.value]

    def compile(self, root, sources, options):
        """The cubin and the compiler's log; the cubin is None where it failed."""
        headers = [name for name in sources if name not in ROOTS]
        program = ctypes.c_void_p()
        encoded = {name: text.encode() for name, text in sources.items()}
        strings = lambda values: (ctypes.c_char_p * len(values))(*values)
        failure = self.call(
            "nvrtcCreateProgram", ctypes.byref(program), encoded[root], root.encode(), len(headers),
            strings([encoded[name] for name in headers]), strings([name.encode() for name in headers]))
        if failure:
            return None, failure
        given = [option.encode() for option in options]
        failure = self.call("nvrtcCompileProgram", program, len(given), strings(given))
        log = self.text(program, "ProgramLog").rstrip(b"\0\n").decode()
        cubin = None if failure else self.text(program, "CUBIN")
        self.call("nvrtcDestroyProgram", ctypes.byref(program))
        return cubin, "\n".join(part for part in (failure, log) if part)


def run(*command):
    return subprocess.run([str(part) for part in command], check=True, capture_output=True, text=True).stdout


def resources(cuobjdump, cubin_path):
    """Per function: registers, stack, shared and local bytes."""
    text = run(cuobjdump, "--dump-resource-usage", cubin_path)
    found = re.findall(r"Function (\w+):\s*(REG:\d+.*)", text)
    return {name: {key: int(value) for key, value in re.findall(r"(\w+)(?:\[\d+\])?:(\d+)", usage)} for name, usage in found}


def machine_code(nvdisasm, cubin_path):
    """Per function: the lines of its machine code."""
    functions, current = {}, None
    for line in run(nvdisasm, "--print-code", "--no-dataflow", cubin_path).splitlines():
        section = re.match(r"\s*\.section\s+\.text\.(\w+)", line)
        if section:
            current = functions.setdefault(section.group(1), [])
        elif current is not None and re.match(r"\s*/\*[0-9a-f]+\*/", line):
            current.append(line)
    return functions


def table_loads(name, code):
    """The loads of the table, by way of the intrinsics: they are not to be kept in L1, or in `wide_plain` of 16 bytes."""
    if "wide_plain" in name:
        return [line for line in code if re.search(r"\bLDG\.[\w.]*\b128\b", line)]
    return [line for line in code if re.search(r"\bLDG\.[\w.]*\bNA\b", line)]


def descriptors(lines):
    """Which descriptors, and so which policies of L2, these loads name."""
    return {found[1] if (found := re.search(r"desc\[(\w+)\]", line)) else None for line in lines}


def check(name, usage, code, depths, architecture):
    problems = []
    if not code:
        problems.append("no machine code found")
    for key in ("STACK", "LOCAL"):
        if usage.get(key, 0) != 0:
            problems.append(f"{usage[key]} bytes of {key.lower()} memory a thread")
    if any(re.search(r"\b(LDL|STL)\b", line) for line in code):
        problems.append("local memory is loaded or stored (a spill)")
    if usage.get("REG", 0) > 64:
        problems.append(f"{usage['REG']} registers, and 64 are the most")
    loads = table_loads(name, code)
    kernel = re.match(r"gather_(naive|shift|wide)", name)
    if not kernel:
        return problems
    if kernel.group(1) == "wide":
        depth, copies = depths["WIDE"], 1
        if any(".128" not in line for line in loads):
            problems.append("a table load is narrower than 16 bytes")
        if "wide_plain" in name and any(re.search(r"\bNA\b", line) for line in code):
            problems.append("a load has a hint, and none should")
        others = [line for line in code if re.search(r"\bLDG\b", line) and line not in loads]
        if "wide_evict_first" in name and architecture >= 80 and descriptors(loads) & descriptors(others):
            problems.append("its table loads have the policy of L2 that other loads have")
    else:
        # Once for each width of a lane.
        depth, copies = depths["NARROW"], 3
    if len(loads) != depth * copies:
        problems.append(f"{len(loads)} table loads, and {depth * copies} were expected")
    # In each group of loads none is used before the last has left: a use is a shuffle or a store.
    marks = ["load" if line in loads else "use" for line in code if line in loads or re.search(r"\b(SHFL|STG)\b", line)]
    places = [place for place, mark in enumerate(marks) if mark == "load"]
    if any(place - places[index - index % depth] != index % depth for index, place in enumerate(places)):
        problems.append(f"its table loads are not {depth} in a row")
    return problems


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--require", action="store_true", help="exit with 3 where NVRTC is not there, instead of 0")
    parser.add_argument("--json", action="store_true", help="print registers and loads as JSON")
    parser.add_argument("--architectures", metavar="LIST", default=ARCHITECTURES,
                        type=lambda text: [int(number) for number in text.split(",")],
                        help="those to compile for, such as 75,90; default: all")
    parser.add_argument("--folder", type=pathlib.Path, default=cache_folder(), help="where scripts/setup/nvrtc.sh put NVRTC")
    options = parser.parse_args()
    tools = options.folder / "nvidia" / "cu13"
    wanted = [tools / "lib" / "libnvrtc.so.13", tools / "bin" / "nvdisasm", tools / "bin" / "cuobjdump"]
    absent = [str(path) for path in wanted if not path.exists()]
    if absent:
        print(f"kernels: not checked, since {absent[0]} is not there; scripts/setup/nvrtc.sh gets it", file=sys.stderr)
        return 3 if options.require else 0

    sources = {path.name: path.read_text() for path in sorted(KERNELS.iterdir()) if path.suffix in (".cu", ".cuh")}
    depths = {which: int(number) for which, number in re.findall(r"#define UVA_GATHER_(\w+)_DEPTH (\d+)", sources["tuning.cuh"])}
    # crates/uva-kernels has the same names, and a test there compares them with these.
    definition = r"^(?:__global__ void|UVA_GATHER|UVA_SAMPLE|UVA_BLOCK) (\w+)\("
    expected = {name for root in ROOTS for name in re.findall(definition, sources[root], re.MULTILINE)}
    nvrtc = Nvrtc(tools / "lib")
    problems, results = [], {}
    with tempfile.TemporaryDirectory() as folder:
        for architecture in options.architectures:
            usages, codes = {}, {}
            for root in ROOTS:
                cubin, log = nvrtc.compile(root, sources, OPTIONS + [f"--gpu-architecture=sm_{architecture}"])
                if cubin is None or "warning" in log:
                    problems.append(f"sm_{architecture} {root}: {log}")
                if cubin is None:
                    continue
                path = pathlib.Path(folder) / f"{root}-sm_{architecture}.cubin"
                path.write_bytes(cubin)
                usages |= resources(tools / "bin" / "cuobjdump", path)
                codes |= machine_code(tools / "bin" / "nvdisasm", path)
            if set(usages) != expected:
                problems.append(f"sm_{architecture}: entry points {sorted(set(usages) ^ expected)} are missing or new")
            for name, usage in sorted(usages.items()):
                code = codes.get(name, [])
                problems += [f"sm_{architecture} {name}: {problem}" for problem in check(name, usage, code, depths, architecture)]
                widths = [re.search(r"\.(U8|U16|64|128)\b", line) for line in table_loads(name, code)]
                results.setdefault(name, {})[f"sm_{architecture}"] = {
                    "registers": usage.get("REG"), "stack": usage.get("STACK"), "shared": usage.get("SHARED"), "instructions": len(code),
                    "table_loads": sorted(width.group(1) if width else "32" for width in widths)}
    if options.json:
        print(json.dumps(results, indent=1))
    else:
        print(f"{'registers':<28}" + "".join(f"{f'sm_{architecture}':>8}" for architecture in options.architectures))
        for name, by_architecture in sorted(results.items()):
            print(f"{name:<28}" + "".join(f"{by_architecture.get(f'sm_{a}', {}).get('registers', '-'):>8}" for a in options.architectures))
    for problem in problems:
        print(f"kernels: {problem}", file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
