"""Datasets made for tests, and the contract of docs/spec/reproducible-batches.md recomputed with numpy."""

import json
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "tests" / "reference"))

import reference  # noqa: E402

#: The options of most loaders, and how many batches an epoch of the small graph has with them.
OPTIONS = dict(fanouts=(4, 3), batch_size=64, seed=3)
BATCHES = 5

FEATURES = {
    "float32": np.float32,
    "float16": np.float16,
    "bfloat16": np.uint16,
    "float8_e4m3fn": np.uint8,
    "uint8": np.uint8,
    "int8": np.int8,
}


def write_graph(
    path,
    *,
    nodes=600,
    degree=6,
    dim=5,
    classes=4,
    dtype="float32",
    multi_label=False,
    reordered=False,
    weighted=False,
    splits=(300, 70, 50),
    seed=0,
):
    """A random graph as a dataset: each node has 0 to 2 * degree in-neighbours."""
    random = np.random.default_rng(seed)
    path.mkdir(parents=True)
    indptr = np.concatenate([[0], random.integers(0, 2 * degree + 1, nodes).cumsum()]).astype(np.int64)
    np.save(path / "indptr.npy", indptr)
    np.save(path / "indices.npy", random.integers(0, nodes, indptr[-1], dtype=np.int32))
    features = random.integers(0, 100, (nodes, dim))
    if dtype == "bfloat16":
        # The upper half of a float32.
        np.save(path / "feat.npy", (features.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16))
    elif dtype == "float8_e4m3fn":
        # Any bits but 127 are a value.
        np.save(path / "feat.npy", features.astype(np.uint8))
    else:
        np.save(path / "feat.npy", features.astype(FEATURES[dtype]))
    if multi_label:
        np.save(path / "label.npy", random.integers(0, 2, (nodes, classes)).astype(np.uint8))
    else:
        np.save(path / "label.npy", random.integers(-1, classes, nodes))
    order, begin = random.permutation(nodes), 0
    for name, count in zip(("train", "valid", "test"), splits):
        np.save(path / f"{name}_idx.npy", order[begin : begin + count])
        begin += count
    if reordered:
        np.save(path / "orig_id.npy", random.permutation(nodes))
    if weighted:
        # Drawn last, so that the rest is the same graph. Every tenth edge or so has no weight.
        weights = random.random(indptr[-1], dtype=np.float32) * 4
        np.save(path / "weight.npy", np.where(random.random(indptr[-1]) < 0.1, np.float32(0), weights))
    meta = {"name": path.name, "classes": classes}
    if dtype == "bfloat16":
        meta["feat_dtype"] = "bf16"
    if dtype == "float8_e4m3fn":
        meta["feat_dtype"] = "e4m3"
    (path / "meta.json").write_text(json.dumps(meta))
    return path


TYPED_RELATIONS = [
    ("paper", "cites", "paper"),
    ("author", "writes", "paper"),
    ("topic", "covers", "paper"),
    ("paper", "rev_writes", "author"),
]
TYPED_NODES = {"paper": 60, "author": 40, "topic": 7}


def write_typed_graph(path):
    """A typed graph: its path, and the sources and destinations of each relation in the order of its lists.

    Papers and topics have features, authors have none.
    """
    random = np.random.default_rng(1)
    edges = {}
    for names in TYPED_RELATIONS:
        source, _, destination = names
        folder = path / "edges" / "__".join(names)
        folder.mkdir(parents=True)
        counts = random.integers(0, 6, TYPED_NODES[destination])
        sources = random.integers(0, TYPED_NODES[source], counts.sum()).astype(np.int32)
        np.save(folder / "indptr.npy", np.concatenate([[0], np.cumsum(counts)]).astype(np.int64))
        np.save(folder / "indices.npy", sources)
        edges[names] = sources, np.repeat(np.arange(TYPED_NODES[destination]), counts)
    rows = random.permutation(len(edges[TYPED_RELATIONS[1]][0]))
    np.save(path / "edges" / "author__writes__paper" / "edge_id.npy", rows.astype(np.int64))
    for name in TYPED_NODES:
        (path / "nodes" / name).mkdir(parents=True)
    np.save(path / "nodes/paper/feat.npy", random.standard_normal((60, 5)).astype(np.float32))
    np.save(path / "nodes/topic/feat.npy", random.standard_normal((7, 3)).astype(np.float16))
    np.save(path / "nodes/paper/label.npy", random.integers(0, 4, 60))
    np.save(path / "nodes/paper/train_idx.npy", random.permutation(60)[:30])
    meta = {
        "version": 2,
        "target": "paper",
        "nodes": [{"type": name, "num": count} for name, count in TYPED_NODES.items()],
        "edges": [{"type": list(names)} for names in TYPED_RELATIONS],
    }
    (path / "meta.json").write_text(json.dumps(meta))
    return path, edges


class Tables:
    """A dataset as numpy sees it."""

    def __init__(self, path):
        def load(name):
            return np.load(path / f"{name}.npy")

        self.indptr, self.indices = load("indptr"), load("indices")
        self.features, self.labels = load("feat"), load("label")
        self.splits = {split: load(f"{split}_idx") for split in ("train", "valid", "test")}
        self.weights = load("weight") if (path / "weight.npy").exists() else None
        self.original = (
            load("orig_id") if (path / "orig_id.npy").exists() else np.arange(len(self.indptr) - 1)
        )

    def lists(self):
        """For the reference implementation, which knows Python's lists only."""
        lists = dict(
            indptr=self.indptr.tolist(), indices=self.indices.tolist(), orig_id=self.original.tolist()
        )
        if self.weights is not None:
            lists["weight_bits"] = self.weights.view(np.uint32).tolist()
        return lists


def mix(z):
    with np.errstate(over="ignore"):
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def hash_array(tag, values):
    values = np.asarray(values).astype(np.int64).view(np.uint64)
    with np.errstate(over="ignore"):
        places = mix(np.uint64(tag << 56) + np.arange(len(values), dtype=np.uint64))
        return int(mix(places ^ values).sum(dtype=np.uint64))


def hash_of(batch, original):
    """The hash of what a batch's tensors hold."""
    total = hash_array(0, original[np.asarray(batch.seeds)]) + hash_array(
        1, original[np.asarray(batch.input_nodes)]
    )
    for layer, block in enumerate(batch.blocks):
        total += hash_array(16 + 2 * layer, block.indptr) + hash_array(17 + 2 * layer, block.indices)
        if batch.weighs_edges:
            total += hash_array(128 + layer, np.asarray(block.weights).view(np.uint32))
    return format(total % 2**64, "016x")


def hashes(loader):
    """Hashes of what an iteration hands out."""
    return [batch.hash for batch in loader]
