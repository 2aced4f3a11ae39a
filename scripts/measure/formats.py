#!/usr/bin/env python3
"""Time and memory of every importer and exporter, by number of edges.

    scripts/measure/formats.py [--edges 1000000 10000000] [--memory 256MiB] [--out docs/results/formats.json]

A graph is generated, exported, and its files are put together again as each format has them; then each is imported.
The edges of what comes back are compared with the ones that went in. Sizes that --out holds already and that are not
requested stay. Needs only Python, and room for about 120 bytes an edge under --work. Peak memory is what the
kernel counts (VmHWM), pages of mapped files among it; "own" is the most that was seen of the process's own pages
(RssAnon). Both are sampled every 5 ms: the figure of wait4 includes this script's own memory.
"""
import argparse
import gzip
import json
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from array import array
from pathlib import Path

from watched import machine, watched

ROOT = Path(__file__).resolve().parents[2]
DEGREE, FEATURES = 20, 16


def npy(path, descr, shape, data):
    header = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}"
    header += " " * (-(10 + len(header) + 1) % 64) + "\n"
    with open(path, "wb") as file:
        file.write(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode())
        file.write(data)


def elements(path, kind):
    """The elements of a .npy file, whose header is 128 bytes where we wrote it."""
    found = array(kind)
    with open(path, "rb") as file:
        file.seek(128)
        found.frombytes(file.read())
    return found


def sources(binary, work, dataset, measure):
    """Writes the source of every format; what is measured of each: format, file or directory, options."""
    exported = {}
    for to, options in (("npy", []), ("edgelist", ["--gzip"]), ("graphbolt", [])):
        exported[to] = work / f"export-{to}"
        measure(f"export {to}", [binary, "export", dataset, exported[to], "--to", to, *options])
    pairs = elements(exported["npy"] / "edge_index.npy", "q")
    edges = len(pairs) // 2
    feat = elements(dataset / "feat.npy", "f")
    nodes = len(feat) // FEATURES

    raw = work / "text"
    (raw / "raw").mkdir(parents=True)
    (raw / "split/random").mkdir(parents=True)

    def text(name, lines):
        with gzip.open(raw / f"{name}.csv.gz", "wt", compresslevel=1) as file:
            file.writelines(lines)

    text("raw/edge", (f"{pairs[i]},{pairs[edges + i]}\n" for i in range(edges)))
    text("raw/node-feat", (",".join(map(str, feat[i : i + FEATURES])) + "\n" for i in range(0, len(feat), FEATURES)))
    text("raw/node-label", (f"{label}\n" for label in elements(dataset / "label.npy", "q")))
    text("raw/num-node-list", [f"{nodes}\n"])
    text("raw/num-edge-list", [f"{edges}\n"])
    binary_raw = work / "binary"
    (binary_raw / "raw").mkdir(parents=True)
    for split in ("train", "valid", "test"):
        text(f"split/random/{split}", (f"{id}\n" for id in elements(dataset / f"{split}_idx.npy", "q")))
    shutil.copytree(raw / "split", binary_raw / "split")

    def npz(path, members):
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
            for name, file in members.items():
                archive.write(file, f"{name}.npy")

    npz(binary_raw / "raw/data.npz", {"edge_index": exported["npy"] / "edge_index.npy", "node_feat": dataset / "feat.npy"})
    npz(binary_raw / "raw/node-label.npz", {"node_label": dataset / "label.npy"})

    igb = work / "igb/processed"
    (igb / "paper").mkdir(parents=True)
    (igb / "paper__cites__paper").mkdir()
    os.link(dataset / "feat.npy", igb / "paper/node_feat.npy")
    os.link(dataset / "label.npy", igb / "paper/node_label_19.npy")
    both = array("q", bytes(16 * edges))
    both[0::2], both[1::2] = pairs[:edges], pairs[edges:]
    npy(igb / "paper__cites__paper/edge_index.npy", "<i8", (edges, 2), both.tobytes())

    # The lists of in-neighbours as compressed rows: every edge the other way round, which symmetrising makes up for.
    shape = work / "shape.npy"
    npy(shape, "<i8", (2,), array("q", [nodes, nodes]).tobytes())
    ones = work / "ones.npy"
    npy(ones, "<f4", (edges,), array("f", [1.0]).tobytes() * edges)
    npz(
        work / "graph.npz",
        {
            "adj_data": ones,
            "adj_indices": dataset / "indices.npy",
            "adj_indptr": dataset / "indptr.npy",
            "adj_shape": shape,
            "attr_matrix": dataset / "feat.npy",
            "labels": dataset / "label.npy",
        },
    )
    return [
        ("npy", exported["npy"], [], True),
        ("edgelist", exported["edgelist"], [], True),
        ("edgelist", exported["edgelist"] / "edges.tsv.gz", [], False),
        ("graphbolt", exported["graphbolt"], [], True),
        ("ogb", raw, ["--symmetrise=false"], True),
        ("ogb", binary_raw, ["--symmetrise=false"], True),
        ("igb", work / "igb", ["--self-loops", "keep"], True),
        ("gnn-npz", work / "graph.npz", [], False),
    ]


def run(binary, edges, memory, work):
    results = []

    def measure(name, command, **more):
        results.append({"what": name, **watched(command)[1], **more})
        print(f"{edges:>11,}  {name:<28}{results[-1]['seconds']:>8.2f} s  "
              f"{results[-1]['cpu_seconds']:>8.2f} s of the CPU  {results[-1]['peak_bytes'] / 2**20:>8.0f} MiB")

    dataset = work / "dataset"
    options = ["--nodes", edges // DEGREE, "--avg-degree", DEGREE, "--feat-dim", FEATURES, "--classes", "19"]
    subprocess.run(list(map(str, [binary, "generate", dataset, *options])), check=True, stderr=subprocess.DEVNULL)
    for format, source, more, same in sources(binary, work, dataset, measure):
        out = work / "out"
        name = f"{format} {source.name}"
        bytes_read = sum(file.stat().st_size for file in ([source] if source.is_file() else source.rglob("*")) if file.is_file())
        command = [binary, "import", "--from", format, source, out, "--memory", memory, *more]
        measure(f"import {name}", command, source_bytes=bytes_read)
        if same:
            for file in ("indptr.npy", "indices.npy", "feat.npy", "label.npy"):
                if subprocess.run(["cmp", "-s", dataset / file, out / file]).returncode != 0:
                    sys.exit(f"{name}: {file} is not what was exported")
        shutil.rmtree(out)
    return results


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--edges", type=int, nargs="+", default=[1_000_000, 10_000_000])
    arguments.add_argument("--memory", default="256MiB", help="what the imports are given")
    arguments.add_argument("--binary", type=Path, default=ROOT / "target/release/uvatrain")
    arguments.add_argument("--work", type=Path, help="where the files are written [default: the system's place]")
    arguments.add_argument("--busy", action="store_true", help="measure CPU times only: the machine is busy")
    arguments.add_argument("--out", type=Path)
    chosen = arguments.parse_args()
    former = json.loads(chosen.out.read_text())["edges"] if chosen.out and chosen.out.exists() else {}
    sizes = {}
    for edges in chosen.edges:
        with tempfile.TemporaryDirectory(dir=chosen.work) as work:
            sizes[str(edges)] = run(chosen.binary, edges, chosen.memory, Path(work))
    if chosen.busy:
        for results in sizes.values():
            for result in results:
                del result["seconds"]
    result = {
        "machine": machine() | {"load_1min": os.getloadavg()[0]},
        "memory": chosen.memory,
        "degree": DEGREE,
        "features": FEATURES,
        "edges": dict(sorted((former | sizes).items(), key=lambda size: int(size[0]))),
    }
    if chosen.out:
        chosen.out.parent.mkdir(parents=True, exist_ok=True)
        chosen.out.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
