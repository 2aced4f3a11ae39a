"""The datasets that compare.py measures, put together of a graph's files: links where that can be."""
import array
import json
import os
import random
import re
import shutil
import sys


def npy_shape(path):
    """The shape of a .npy file's array."""
    with open(path, "rb") as file:
        return [int(one) for one in re.findall(rb"\d+", re.search(rb"'shape': \(([^)]*)\)", file.read(256))[1])]


def npy_head(kind, shape):
    header = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': ({''.join(f'{one}, ' for one in shape).rstrip()}), }}"
    header = header.ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode()


def link(path, target):
    """The same file at another place, unless it is there."""
    there = target.stat() if target.exists() else None
    if there is None or (there.st_size, there.st_mtime_ns) != (path.stat().st_size, path.stat().st_mtime_ns):
        target.parent.mkdir(parents=True, exist_ok=True)
        target.unlink(missing_ok=True)
        try:
            os.link(path, target)
        except OSError:
            shutil.copy2(path, target)


def prepare(source, folder):
    """A dataset of a graph's files, with nothing to validate and nothing to test. `source` is a dataset, or a folder of
    indptr.npy, indices.npy, feat.npy, label.npy and train_idx.npy or seeds.npy."""
    if (source / "edges").is_dir():
        return prepare_typed(source, folder)
    train = "train_idx" if (source / "train_idx.npy").exists() else "seeds"
    for name, of in [*((name, name) for name in ("indptr", "indices", "feat", "label")), ("train_idx", train)]:
        path = source / f"{of}.npy"
        if not path.exists():
            sys.exit(f"peers: {path} is not there")
        link(path, folder / f"{name}.npy")
    for split in ("valid", "test"):
        (folder / f"{split}_idx.npy").write_bytes(npy_head("<i8", [0]))
    meta = source / "meta.json"
    kept = json.loads(meta.read_text()) if meta.exists() else {}
    kept = {name: kept[name] for name in ("classes", "feat_dtype") if name in kept}
    (folder / "meta.json").write_text(json.dumps({"name": source.name, **kept}))
    return folder


def prepare_typed(source, folder):
    """A typed dataset with rows of three types: those of the target, and of the two largest types without any, which get
    random ones of the same width. It has nothing to validate and nothing to test."""
    meta = json.loads((source / "meta.json").read_text())
    for path in [*source.glob("nodes/*/*.npy"), *source.glob("edges/*/*.npy")]:
        link(path, folder / path.relative_to(source))
    for split in ("valid", "test"):
        path = folder / "nodes" / meta["target"] / f"{split}_idx.npy"
        # The file of the source may be the same one.
        path.unlink(missing_ok=True)
        path.write_bytes(npy_head("<i8", [0]))
    width = npy_shape(source / "nodes" / meta["target"] / "feat.npy")[1]
    bare = [of for of in meta["nodes"] if not (source / "nodes" / of["type"] / "feat.npy").exists()]
    for of in sorted(bare, key=lambda of: -of["num"])[:2]:
        path = folder / "nodes" / of["type"] / "feat.npy"
        of["feat_dtype"] = "f32"
        if not path.exists() or npy_shape(path) != [of["num"], width]:
            path.parent.mkdir(parents=True, exist_ok=True)
            drawn = random.Random(of["type"])
            with open(path, "wb") as file:
                file.write(npy_head("<f4", [of["num"], width]))
                for _ in range(of["num"]):
                    array.array("f", [drawn.random() for _ in range(width)]).tofile(file)
    (folder / "meta.json").write_text(json.dumps(meta))
    return folder


def with_types(source, folder):
    """A prepared dataset of format 1 as one of format 2 with one type and one relation."""
    for name in ("feat", "label", "train_idx", "valid_idx", "test_idx"):
        link(source / f"{name}.npy", folder / "nodes/node" / f"{name}.npy")
    for name in ("indptr", "indices"):
        link(source / f"{name}.npy", folder / "edges/node__to__node" / f"{name}.npy")
    meta = json.loads((source / "meta.json").read_text())
    nodes = {"type": "node", "num": npy_shape(source / "indptr.npy")[0] - 1, **meta}
    name = nodes.pop("name")
    (folder / "meta.json").write_text(json.dumps({
        "name": name, "version": 2, "nodes": [nodes], "edges": [{"type": ["node", "to", "node"]}], "target": "node"}))
