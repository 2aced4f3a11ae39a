"""Datasets from the files that the Open Graph Benchmark unpacks."""

from __future__ import annotations

import gzip
import os
import stat
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from .. import _core
from .._arrays import lent
from ..datasets import Dataset, write_dataset

# Those with one type of node and of edge, and whether their files hold one direction of each edge of an
# undirected graph.
_ONE_DIRECTION = {"ogbn-arxiv": False, "ogbn-products": True, "ogbn-proteins": True, "ogbn-papers100M": False}

# Text that is parsed at a time.
_CHUNK = 1 << 25


def from_ogb(
    name: str,
    root: str | os.PathLike[str],
    path: str | os.PathLike[str],
    *,
    add_inverse_edge: bool | None = None,
    overwrite: bool = False,
    **meta: Any,
) -> Dataset:
    """Writes a node property prediction dataset of OGB (`ogbn-arxiv`, ...) as a dataset, and gives it back opened.

    Nothing is downloaded: `root` holds what the `ogb` package has downloaded and unpacked there. Its files are
    read directly, so the package is not needed for that. Edges keep their direction and order. A label that
    is missing or NaN is -1.

    name: OGB's name.
    root: the directory that was given to ogb as `root`.
    add_inverse_edge: whether each edge gets its other direction too. None: what ogb does for this dataset.
    Everything else as in `write_dataset`.
    """
    import numpy

    from .from_pyg import labels_of

    if name not in _ONE_DIRECTION and (name == "ogbn-mag" or not name.startswith("ogbn-")):
        raise ValueError(
            f"name={name!r}: a node property prediction dataset of one type of node and of edge is needed: "
            f"{', '.join(_ONE_DIRECTION)}"
        )
    if add_inverse_edge is None:
        if name not in _ONE_DIRECTION:
            raise ValueError(
                f"name={name!r} is not known here: say with add_inverse_edge=True or False what ogb does"
            )
        add_inverse_edge = _ONE_DIRECTION[name]
    directory = Path(root) / name.replace("-", "_")
    splits = _splits(directory, name, root)
    edges, features, labels = (_binary if (directory / "raw/data.npz").exists() else _text)(
        directory, name, root
    )
    nodes = features.shape[0]
    if add_inverse_edge:
        # As ogb does: each edge, then its other direction.
        both = numpy.repeat(edges, 2, axis=1)
        both[:, 1::2] = edges[::-1]
        edges = both
    indptr, indices, _ = _core.lists_of_edges(
        numpy.ascontiguousarray(edges[0]), numpy.ascontiguousarray(edges[1]), nodes, False
    )
    del edges
    dataset: Dataset = write_dataset(
        path,
        indptr=lent(indptr),
        indices=lent(indices),
        features=features,
        labels=labels_of("node-label", labels, nodes, regression=False),
        **splits,
        name=meta.pop("name", name),
        overwrite=overwrite,
        **meta,
    )
    return dataset


def _missing(file: Path, name: str, root: Any) -> FileNotFoundError:
    arguments = f"{name!r}, {os.fspath(root)!r}"
    command = (
        f'python -c "from ogb.nodeproppred import NodePropPredDataset; NodePropPredDataset({arguments})"'
    )
    return FileNotFoundError(
        f"{file}: not there, and nothing is downloaded here. ogb gets it: pip install ogb; {command}"
    )


def _found(file: Path, name: str, root: Any) -> Path:
    if not file.exists():
        raise _missing(file, name, root)
    return file


def _text(directory: Path, name: str, root: Any) -> tuple[Any, Any, Any]:
    """Edges [2, edges], features [nodes, F] and labels of `raw/*.csv.gz`."""
    import numpy

    raw = directory / "raw"
    edge, label = _found(raw / "edge.csv.gz", name, root), _found(raw / "node-label.csv.gz", name, root)
    if not (raw / "node-feat.csv.gz").exists():
        if name == "ogbn-proteins":
            raise ValueError(
                "ogbn-proteins has edge features only, and a dataset needs a row for each node: make one"
            )
        raise _missing(raw / "node-feat.csv.gz", name, root)
    counts = raw / "num-node-list.csv.gz"
    if counts.exists():
        graphs = _numbers(counts, numpy.int64)
        if graphs.shape[0] != 1:
            raise ValueError(f"{counts}: it counts {graphs.shape[0]} graphs, one is needed")
    return (
        _numbers(edge, numpy.int64).T,
        _numbers(raw / "node-feat.csv.gz", numpy.float32),
        _numbers(label, numpy.float64),
    )


def _binary(directory: Path, name: str, root: Any) -> tuple[Any, Any, Any]:
    """The same of `raw/data.npz` and `raw/node-label.npz`: how ogb keeps its largest."""
    import numpy

    with _open_regular(_found(directory / "raw/node-label.npz", name, root)) as file:
        labels = numpy.load(file)["node_label"]
    with _open_regular(directory / "raw/data.npz") as file, numpy.load(file) as data:
        return data["edge_index"], data["node_feat"], labels


def _splits(directory: Path, name: str, root: Any) -> dict[str, Any]:
    import numpy

    kinds = sorted(kind for kind in (directory / "split").glob("*") if kind.is_dir())
    if not kinds:
        raise _missing(directory / "split", name, root)
    if len(kinds) > 1:
        raise ValueError(f"{directory / 'split'}: {len(kinds)} kinds of split, one is needed")
    splits = {}
    for argument, file in (("train_idx", "train"), ("valid_idx", "valid"), ("test_idx", "test")):
        found = _found(kinds[0] / f"{file}.csv.gz", name, root)
        splits[argument] = _numbers(found, numpy.int64).reshape(-1)
    return splits


def _numbers(file: Path, dtype: Any) -> Any:
    """The numbers of a table without a header, [lines, columns]."""
    import numpy

    pieces, columns = [], None
    for number, text in enumerate(_lines(file)):
        if columns is None:
            columns = text.split(b"\n", 1)[0].count(b",") + 1
        # An empty field is a missing value.
        for _ in range(2):
            text = text.replace(b",,", b",nan,").replace(b"\n,", b"\nnan,").replace(b",\n", b",nan\n")
        flat = text.replace(b"\n", b",").decode("ascii", "replace").strip(",")
        with warnings.catch_warnings():
            # numpy's warning about text that is not a number.
            warnings.simplefilter("error", DeprecationWarning)
            try:
                values = numpy.fromstring(flat, dtype, sep=",")
            except (DeprecationWarning, ValueError) as error:
                raise ValueError(
                    f"{file}: a value is missing or not a number: {error}"
                ) from None
        if values.size % columns:
            raise ValueError(
                f"{file}: its lines are not all of {columns} values (piece {number} of {_CHUNK} bytes)"
            )
        pieces.append(values)
    if columns is None:
        return numpy.empty((0, 1), dtype)
    return numpy.concatenate(pieces).reshape(-1, columns)


def _open_regular(file: Path) -> BinaryIO:
    """Opens a file without waiting: a named pipe would be waited for without end, and a device never ends."""
    descriptor = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise ValueError(f"{file}: it is not a regular file")
    return os.fdopen(descriptor, "rb")


def _lines(file: Path) -> Iterator[bytes]:
    """The text in pieces of whole lines."""
    rest = b""
    try:
        with _open_regular(file) as compressed, gzip.open(compressed, "rb") as text:
            while piece := text.read(_CHUNK):
                rest += piece
                end = rest.rfind(b"\n") + 1
                if end:
                    yield rest[:end]
                    rest = rest[end:]
    except (EOFError, gzip.BadGzipFile, OSError) as error:
        if isinstance(error, FileNotFoundError):
            raise
        raise ValueError(f"{file}: not a whole gzip file: {error}") from None
    if rest:
        yield rest
