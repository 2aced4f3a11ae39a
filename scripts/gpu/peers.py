#!/usr/bin/env python3
"""Measures how uvatrain and other libraries bring rows of host memory to a GPU, on the same table and the same ids.

    scripts/gpu/peers.py [--uvatrain PROGRAM] [--row-bytes R,R,…] [--table-size SIZE] [--rounds N] [--seconds S] [--out FILE]

- torch: PyTorch's index_select into a pinned buffer that is used again, then a copy to the GPU; and its index_select
  on the GPU out of pinned memory, which it reads over the link;
- dgl: DGL's kernel for features in pinned memory, reimplemented from its description, since DGL's wheels need a PyTorch
  of their own: a block of 256 threads takes as many rows as it has room for, a lane a value, and lanes of a row are
  shifted to begin at a line. Compiled by PyTorch;
- wholegraph: WholeGraph's gather out of its continuous host memory: out of peers.tar.xz in this folder, which
  `carry.sh --peers` makes of PyPI's wheels, or where python3 imports it;
- ours: `uvatrain bench pcie`: the kernel wide in the batch's order and by region, by all multiprocessors and by eight,
  the CPU's gather with copies, and the split.

Everyone gathers as many rows as ours by region and eight multiprocessors. Ours in other ways, which each take about as long
as it does, may gather fewer.

Interleaved, the order reversed every other round; medians over rounds of medians over samples. Table and ids are
computed by everyone from the same formulas (crates/uva-bench/src/pcie/ids.rs), sums of the ids are compared, and
what the peers gathered is compared with the table. Prints a table, and JSON to --out. Exit codes: 0 done, 1 something
was wrong, 2 bad usage, 3 no GPU, or no PyTorch that can use it.
"""
import argparse
import ctypes
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tarfile
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
MASK = (1 << 64) - 1
UNITS = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "kB": 10**3, "MB": 10**6, "GB": 10**9}


def signed(number):
    number &= MASK
    return number - (1 << 64) if number >> 63 else number


def size(text):
    for unit in sorted(UNITS, key=len, reverse=True):
        if text.endswith(unit) and text[: -len(unit)].strip().isdigit():
            return int(text[: -len(unit)]) * UNITS[unit]
    if text.isdigit():
        return int(text)
    raise argparse.ArgumentTypeError(f"'{text}' is not a size; expected a value like 512MiB or 4GiB")


def row_sizes(text):
    sizes = [int(part) if part.isdigit() else 0 for part in text.split(",")]
    if not all(4 <= each <= 1 << 20 and each % 4 == 0 for each in sizes):
        raise argparse.ArgumentTypeError(f"'{text}': bytes of a row are multiples of 4, separated by commas")
    return sizes


def positive(text):
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"'{text}' is not a whole number from 1")
    return int(text)


def lacking(message):
    print(f"gpu-peers: {message}", file=sys.stderr)
    sys.exit(3)


def shifted(x, by):
    """A logical shift to the right: torch's own keeps the sign."""
    return (x >> by) & ((1 << (64 - by)) - 1)


def mix(x):
    """splitmix64's step and finaliser, on int64 tensors, which wrap."""
    x = x + signed(0x9E3779B97F4A7C15)
    x = (x ^ shifted(x, 30)) * signed(0xBF58476D1CE4E5B9)
    x = (x ^ shifted(x, 27)) * signed(0x94D049BB133111EB)
    return x ^ shifted(x, 31)


class Bench:
    def __init__(self, torch, chosen):
        self.torch, self.chosen = torch, chosen
        self.device = torch.device("cuda", chosen.device)
        torch.cuda.set_device(self.device)
        self.table_bytes = chosen.table_size // (2 << 20) * (2 << 20) if chosen.table_size >= 2 << 20 else chosen.table_size
        self.threads = torch.get_num_threads()
        self.missing = {}

    def words(self, first, count):
        return mix(self.torch.arange(first, first + count, dtype=self.torch.int64, device=self.device))

    def fill(self, host):
        """Writes the table into a host tensor of bytes."""
        words = host.view(self.torch.int64)
        step = 1 << 24
        for first in range(0, words.numel(), step):
            count = min(step, words.numel() - first)
            words[first:first + count].copy_(self.words(first, count))
        self.torch.cuda.synchronize()

    def ids(self, seed, rows, count):
        """On the device: ⌊x · rows / 2⁶⁴⌋ in halves, so that nothing overflows."""
        x = mix(self.torch.arange(seed << 32, (seed << 32) + count, dtype=self.torch.int64, device=self.device))
        high, low = shifted(x, 32), x & 0xFFFFFFFF
        return shifted(high * rows + shifted(low * rows, 32), 32)

    def check_sum(self, ids):
        places = self.torch.arange(1, ids.numel() + 1, dtype=self.torch.int64, device=ids.device)
        return int(((ids + 1) * places).sum().item()) & MASK

    def verify(self, what, gathered, ids, row_bytes):
        """Compares the first and last rows, and some between, with the formula of the table."""
        torch = self.torch
        rows = ids.numel()
        some = sorted({0, rows - 1, *range(0, rows, max(1, rows // 2000))})
        places = torch.tensor(some, device=self.device)
        starts = ids[places] * row_bytes
        at = starts.unsqueeze(1) + torch.arange(row_bytes, device=self.device)
        expected = (mix(at // 8) >> (8 * (at % 8))) & 0xFF
        found = gathered.view(torch.uint8).view(rows, row_bytes)[places].to(torch.int64)
        if not torch.equal(found, expected):
            sys.exit(f"gpu-peers: {what} gathered other bytes than the table's, with rows of {row_bytes} bytes")

    def on_its_own(self, what, row_bytes, rows, gather):
        """The rates, in GB/s, of a gather that the GPU does alone: samples timed by events, the first not counted."""
        torch, rates = self.torch, []
        for seed in range(self.chosen.samples + 1):
            ids = self.ids(seed, self.table_bytes // row_bytes, rows)
            began, ended = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            torch.cuda.synchronize()
            began.record()
            out = gather(ids)
            ended.record()
            torch.cuda.synchronize()
            if seed:
                rates.append(rows * row_bytes / (began.elapsed_time(ended) / 1e3) / 1e9)
        self.verify(what, out, ids, row_bytes)
        return rates


class Torch:
    name = "torch index_select + copy"

    def __init__(self, bench):
        self.bench, torch = bench, bench.torch
        self.host = torch.empty(bench.table_bytes, dtype=torch.uint8, pin_memory=True)
        bench.fill(self.host)

    def measure(self, row_bytes, rows):
        bench, torch = self.bench, self.bench.torch
        torch.set_num_threads(bench.threads)
        width = row_bytes // 4
        all_rows = bench.table_bytes // row_bytes
        table = self.host[: all_rows * row_bytes].view(torch.float32).view(all_rows, width)
        staged = torch.empty(rows, width, dtype=torch.float32, pin_memory=True)
        out = torch.empty(rows, width, dtype=torch.float32, device=bench.device)
        rates = []
        for seed in range(bench.chosen.samples + 1):
            ids = bench.ids(seed, all_rows, rows)
            on_host = ids.cpu()
            began = time.perf_counter()
            torch.index_select(table, 0, on_host, out=staged)
            out.copy_(staged, non_blocking=True)
            torch.cuda.synchronize()
            if seed:
                rates.append(rows * row_bytes / (time.perf_counter() - began) / 1e9)
        bench.verify(self.name, out, ids, row_bytes)
        return rates


def on_device(torch, host, device):
    """The pinned host tensor as a tensor of the GPU: what its kernels read comes over the link.

    PyTorch trusts device and address of a DLPack tensor, and in CUDA's unified address space a pinned
    address is valid on the device.
    """
    class Tensor(ctypes.Structure):
        _fields_ = [
            ("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32),
            ("dimensions", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8),
            ("lanes", ctypes.c_uint16), ("shape", ctypes.c_void_p), ("strides", ctypes.c_void_p),
            ("offset", ctypes.c_uint64), ("manager", ctypes.c_void_p), ("deleter", ctypes.c_void_p),
        ]

    sizes = (ctypes.c_int64 * host.dim())(*host.shape)
    kind = {"cpu": 1, "cuda": 2}[device.type]
    code = {torch.uint8: 1, torch.float32: 2}[host.dtype]
    # No strides: rows one after another. No deleter: the host tensor outlives what is made here.
    lent = Tensor(host.data_ptr(), kind, device.index or 0, host.dim(), code, 8 * host.element_size(), 1,
                  ctypes.cast(sizes, ctypes.c_void_p), None, 0, None, None)
    capsule = ctypes.pythonapi.PyCapsule_New
    capsule.restype, capsule.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    tensor = torch.from_dlpack(capsule(ctypes.addressof(lent), b"dltensor", None))
    tensor.lent = (lent, sizes, host)
    return tensor


class OverTheLink:
    """What reads the pinned table from a kernel."""

    def __init__(self, bench, host):
        self.bench, self.host = bench, host

    def measure(self, row_bytes, rows):
        bench, torch = self.bench, self.bench.torch
        width, all_rows = row_bytes // 4, bench.table_bytes // row_bytes
        table = self.host[: all_rows * row_bytes].view(torch.float32).view(all_rows, width)
        table = on_device(torch, table, bench.device)
        out = torch.empty(rows, width, dtype=torch.float32, device=bench.device)
        return bench.on_its_own(self.name, row_bytes, rows, lambda ids: self.gather(table, ids, out))


class TorchOverTheLink(OverTheLink):
    name = "torch index_select of pinned"

    def gather(self, table, ids, out):
        return self.bench.torch.index_select(table, 0, ids, out=out)


class Dgl(OverTheLink):
    name = "dgl's kernel"
    THREADS = 256
    SOURCE = """
    extern "C" __global__ void shifted_rows(const float *table, const long long *ids, float *out, int rows, int width) {
        const int step = gridDim.x * blockDim.y;
        for (int row = blockIdx.x * blockDim.y + threadIdx.y; row < rows; row += step) {
            const float *from = table + ids[row] * width;
            // The lane of the row's first value is where that lies in its line of 128 bytes.
            const int shift = static_cast<int>((reinterpret_cast<unsigned long long>(from) & 127) / sizeof(float));
            for (int lane = static_cast<int>(threadIdx.x) - shift; lane < width; lane += blockDim.x) {
                if (lane >= 0) out[static_cast<long long>(row) * width + lane] = from[lane];
            }
        }
    }
    """

    def __init__(self, bench, host):
        super().__init__(bench, host)
        self.kernel = bench.torch.cuda._compile_kernel(self.SOURCE, "shifted_rows")

    def gather(self, table, ids, out):
        rows, width = out.shape
        across = self.THREADS
        while across >= 2 * width:
            across //= 2
        together = self.THREADS // across
        blocks = (rows + together - 1) // together
        self.kernel(grid=(blocks, 1, 1), block=(across, together, 1), args=[table, ids, out, rows, width])
        return out


class WholeGraph:
    name = "wholegraph gather"

    def __init__(self, bench):
        carried = HERE / "peers.tar.xz"
        if carried.exists():
            self.site = tempfile.TemporaryDirectory()
            with tarfile.open(carried) as archive:
                archive.extractall(self.site.name, filter="data")
            sys.path.insert(0, self.site.name)
        import pylibwholegraph.torch as wholegraph

        self.bench, self.wholegraph = bench, wholegraph
        os.environ.setdefault("MASTER_ADDR", "localhost")
        os.environ.setdefault("MASTER_PORT", "12335")
        self.communicator, _ = wholegraph.init_torch_env_and_create_wm_comm(0, 1, bench.chosen.device, 1)

    def measure(self, row_bytes, rows):
        bench, torch = self.bench, self.bench.torch
        all_rows, width = bench.table_bytes // row_bytes, row_bytes // 4
        table = self.wholegraph.create_wholememory_tensor(
            self.communicator, "continuous", "cpu", [all_rows, width], torch.float32, None)
        try:
            local, _ = table.get_local_tensor(host_view=True)
            flat = local.view(-1).view(torch.uint8)
            whole = flat.numel() // 8 * 8
            bench.fill(flat[:whole])
            if whole < flat.numel():
                last = bench.words(whole // 8, 1).view(torch.uint8).cpu()
                flat[whole:] = last[: flat.numel() - whole]
            return bench.on_its_own(self.name, row_bytes, rows, table.gather)
        finally:
            self.wholegraph.destroy_wholememory_tensor(table)


def ours(bench, row_bytes):
    """One call a row size, so that it has its own base point, and the ways with the CPU at that size."""
    chosen = bench.chosen
    command = [str(chosen.uvatrain), "bench", "pcie", "--json", "--device", str(chosen.device), "--kernels", "wide", "--full",
               "--row-bytes", str(row_bytes), "--multiprocessors", "all,8", "--pages", "transparent-huge",
               "--ids", "random,by-region", "--table-size", str(chosen.table_size), "--sample-bytes",
               str(chosen.sample_bytes), "--samples", str(max(3, chosen.samples)), "--threads", str(bench.threads)]
    ended = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if ended.returncode != 0:
        sys.exit(f"gpu-peers: {' '.join(command)}\nended with {ended.returncode}: {ended.stderr}")
    report = json.loads(ended.stdout)
    found, rows = {}, None
    for name, ids, multiprocessors in (("wide", "random", None), ("by region", "by-region", None),
                                       ("by region, 8 SMs", "by-region", 8)):
        wanted = (row_bytes, ids, multiprocessors)
        cells = [cell for cell in report["cells"] if (cell["row_bytes"], cell["ids"], cell["multiprocessors"]) == wanted]
        if not cells:
            sys.exit(f"gpu-peers: uvatrain did not measure {wanted}: {report['skipped']}")
        cell = cells[0]
        if cell["ids_check"] != bench.check_sum(bench.ids(1, bench.table_bytes // row_bytes, cell["rows"])):
            sys.exit("gpu-peers: uvatrain drew other ids than these")
        found[f"uvatrain {name}"] = cell["samples"]
        if name == "by region, 8 SMs":
            rows = cell["rows"]
    found.update({f"uvatrain {way['way']}": way["samples"] for way in report["ways"]})
    return found, rows, report


def main():
    arguments = argparse.ArgumentParser(prog="gpu-peers", description=__doc__.splitlines()[0])
    arguments.add_argument("--uvatrain", type=Path, help="the program [bin/ in this folder, target/release, PATH]")
    arguments.add_argument("--device", type=int, default=0)
    arguments.add_argument("--row-bytes", type=row_sizes, default=[128, 400, 512, 1024, 4096], metavar="R,R,…")
    arguments.add_argument("--table-size", type=size, default=4 << 30, metavar="SIZE")
    arguments.add_argument("--sample-bytes", type=size, default=128 << 20, metavar="SIZE")
    arguments.add_argument("--samples", type=positive, default=5, metavar="N", help="of each measurement")
    arguments.add_argument("--rounds", type=positive, default=3, metavar="N")
    arguments.add_argument("--seconds", type=positive, metavar="S", help="no round begins after this time")
    arguments.add_argument("--out", type=Path, metavar="FILE")
    chosen = arguments.parse_args()
    found = [HERE / "bin/uvatrain", HERE.parents[1] / "target/release/uvatrain", shutil.which("uvatrain")]
    chosen.uvatrain = chosen.uvatrain or next((Path(path) for path in found if path and Path(path).exists()), None)
    if chosen.uvatrain is None or not chosen.uvatrain.exists():
        arguments.error("uvatrain is not found: cargo build --release, or give --uvatrain")
    try:
        import torch
    except ImportError as error:
        lacking(f"python3 cannot import PyTorch ({error}): python3 -m pip install torch==2.11.0")
    if not torch.cuda.is_available() or chosen.device >= torch.cuda.device_count():
        lacking(f"PyTorch {torch.__version__} sees no GPU number {chosen.device}: nvidia-smi says whether there is one")
    began = time.monotonic()
    bench = Bench(torch, chosen)
    peers = [Torch(bench)]
    host = peers[0].host
    for kind, wanted in ((TorchOverTheLink, (bench, host)), (Dgl, (bench, host)), (WholeGraph, (bench,))):
        try:
            peers.append(kind(*wanted))
        except Exception as error:  # whatever a foreign library may raise while it starts
            bench.missing[kind.name] = f"{type(error).__name__}: {error}"
    rounds, report, rows = [], {}, {}
    for number in range(chosen.rounds):
        if number and chosen.seconds and time.monotonic() - began > chosen.seconds * number / (number + 1):
            break
        this = {}
        for row_bytes in chosen.row_bytes if number % 2 == 0 else chosen.row_bytes[::-1]:
            mine, rows[row_bytes], report = ours(bench, row_bytes)
            theirs = {}
            for peer in peers if number % 2 == 0 else peers[::-1]:
                try:
                    theirs[peer.name] = peer.measure(row_bytes, rows[row_bytes])
                except (RuntimeError, AttributeError, TypeError, ValueError) as error:
                    bench.missing[f"{peer.name}, {row_bytes} bytes"] = str(error).splitlines()[0]
            this[row_bytes] = {**mine, **theirs}
        rounds.append(this)
    figures = []
    for row_bytes in chosen.row_bytes:
        names = rounds[0][row_bytes]
        medians = {name: [statistics.median(r[row_bytes][name]) for r in rounds if name in r[row_bytes]] for name in names}
        figures.append({"row_bytes": row_bytes, "rows": rows[row_bytes], "rounds": medians,
                        "gb_per_second": {name: statistics.median(values) for name, values in medians.items()}})
    result = {
        "simulator": report.get("simulator"), "device": report.get("device"), "torch": torch.__version__,
        "python": platform.python_version(), "threads": bench.threads, "table_bytes": bench.table_bytes,
        "samples": chosen.samples, "rounds": len(rounds), "figures": figures, "missing": bench.missing,
        "copy_engine_gb_per_second": report["copy_engine"]["peak_gb_per_second"],
        "seconds": time.monotonic() - began,
    }
    if chosen.out:
        chosen.out.write_text(json.dumps(result, indent=1) + "\n")
    names = sorted({name for figure in figures for name in figure["gb_per_second"]})
    print(f"{'GB/s by row bytes':30}" + "".join(f"{figure['row_bytes']:>9}" for figure in figures))
    for name in names:
        values = (figure["gb_per_second"].get(name) for figure in figures)
        print(f"{name:30}" + "".join(f"{value:9.2f}" if value is not None else f"{'':9}" for value in values))
    for name, why in bench.missing.items():
        print(f"not measured: {name}: {why}")


if __name__ == "__main__":
    main()
