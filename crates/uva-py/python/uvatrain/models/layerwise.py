"""Layer-wise inference: `infer` computes one layer for all nodes, then the next one from its rows."""

from __future__ import annotations

import contextlib
import json
import mmap
import operator
import os
import shutil
import tempfile
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import torch

from .. import _core
from ..datasets import Dataset, opened
from ..errors import about, warn
from ..interop.in_memory import dataset_of
from ..loader import Loader
from ..loader.batch import Batch

if TYPE_CHECKING:
    from torch_geometric.data import Data

__all__ = ["infer"]

#: What a table may hold, as `.npy` names it. The format has no name for bfloat16: its bits are uint16.
_NAMES = {
    torch.float32: "<f4",
    torch.float16: "<f2",
    torch.bfloat16: "<u2",
    torch.uint8: "|u1",
    torch.int8: "|i1",
    torch.float64: "<f8",
    torch.int64: "<i8",
    torch.int32: "<i4",
    torch.bool: "|b1",
}
#: Those of a dataset's features, and so of a table between layers.
_FEATURES = [torch.float32, torch.float16, torch.bfloat16, torch.uint8, torch.int8]
#: Files of a dataset that do not depend on its features: those that it cannot be opened without, and others.
_NEEDED = ["indptr.npy", "indices.npy", "train_idx.npy", "valid_idx.npy", "test_idx.npy"]
_OTHERS = ["label.npy", "edge_feat.npy"]


def infer(
    layers: Iterable[Callable[..., torch.Tensor]],
    dataset: str | os.PathLike[str] | Dataset | Data | Mapping[str, Any],
    *,
    activation: Callable[[torch.Tensor], torch.Tensor] | None = None,
    call: Callable[[Any, Batch], torch.Tensor] | None = None,
    output: str | os.PathLike[str] | None = None,
    overwrite: bool = False,
    device: Any = "cpu",
    batch_size: int = 4096,
    slot_bytes: int = 64 << 20,
    edge_ids: bool = False,
    edge_attr: bool = False,
    progress: Callable[[int, int], object] | None = None,
) -> torch.Tensor:
    """The last layer's rows for all nodes, by whole neighbourhoods: row `i` belongs to node `i`.

        model.eval()
        logits = uvatrain.infer(model.convs, "data/graph", activation=torch.relu)

    Each layer goes over all nodes before the next one begins, so no node's row is computed twice. The rows between
    two layers are a mapped file, never held as a whole in memory. At most two such tables exist at a time, in the folder
    of `output`, else in TMPDIR. They are removed at the end, errors and interrupts included; those of a killed process by the
    next call.

    The result is a tensor over a mapped file: that of `output`, or one that is removed with the tensor. Writes to the tensor
    do not reach the file. No gradients are computed.

    layers: callables, the one that reads the features first: `layer((x, x_dst), edge_index)`, as PyG's layers are
        called for a bipartite graph. x: [num_src, columns], rows of all sources; x_dst: the first num_dst of them, the
        destinations'; edge_index: int64 [2, edges]. With `edge_attr`, the features of these edges come third. Each returns [num_dst, columns], and the last one may return
        [num_dst].
    dataset: as in `Loader`.
    activation: applied to the rows of each layer but the last.
    call: `call(layer, batch)` calls a layer in another manner. `batch` is a `Batch` of one block; its seeds are the
        destinations. For DGL: `call=lambda layer, batch: layer(batch.to_dgl()[0], batch.x)`.
    output: a `.npy` file for the result. It gets its name when it is complete.
    overwrite: replace a file at `output`.
    device: where batches come to be, and where the layers have to be: "cpu", "cuda" or "cuda:1".
    batch_size: most destinations of a batch. Nodes with many neighbours come in smaller batches.
    slot_bytes: most bytes of a batch's ids and edges, and again of its feature rows. A single node whose neighbourhood
        needs more gets it.
    edge_ids: give `batch.blocks[0].edge_ids`, each edge's position in the dataset, for data per edge.
    edge_attr: give each layer the features of its edges, [num_edges, features], from the dataset's edge_feat.npy.
    progress: called with the rows done and the rows of all layers, after each batch.

    Raises FileExistsError for an `output` that exists; ValueError and TypeError for options, and for rows of another
    count, width or type than needed; OSError where the system refuses a file, such as on a full disk.
    """
    stack = _checked(layers)
    columns = {"edge_ids": edge_ids, "edge_attr": edge_attr}
    for name, function in (("activation", activation), ("call", call), ("progress", progress)):
        if function is not None and not callable(function):
            raise about(name, TypeError(f"{name} is a {type(function).__name__}: a function is needed"))
    batch_size, slot_bytes = _positive("batch_size", batch_size), _positive("slot_bytes", slot_bytes)
    if output is not None:
        output = os.path.abspath(output)
        if os.path.isdir(output):
            raise about("output", IsADirectoryError(f"output: {output} is a directory"))
        if os.path.lexists(output) and not overwrite:
            raise about("output", FileExistsError(f"output: {output} exists; overwrite=True replaces it"))
    if not isinstance(dataset, str | os.PathLike | Dataset):
        dataset = dataset_of("infer", "dataset", dataset, with_splits=False)
    source = given = opened(dataset)
    if output is not None:
        _core._check_output("output", output, [str(given.path)])
    nodes = given.num_nodes
    if nodes == 0:
        raise about("dataset", ValueError("dataset: it has no nodes"))
    folder = None if output is None else os.path.dirname(output)
    table = None
    # What killed processes left there goes first.
    directory = _core.TemporaryDirectory(tempfile.gettempdir() if folder is None else folder, ".uvatrain-infer")
    with contextlib.closing(directory):
        work = directory.path
        for number, layer in enumerate(stack):
            last = number + 1 == len(stack)
            table = _Table(f"layers[{number}]", os.path.join(work, f"{number}.npy"), nodes, last)
            done = number * nodes
            # On an error too, the threads end before their files go.
            with contextlib.closing(_batches(source, device, batch_size, slot_bytes, columns)) as batches:
                for batch in batches:
                    with torch.no_grad():
                        rows = (call or _bipartite)(layer, batch)
                        if activation is not None and not last:
                            rows = activation(rows)
                        table.put(batch, rows)
                    # Rows that view their batch would keep its slot.
                    del rows
                    done += batch.num_seeds
                    if progress is not None:
                        progress(done, len(stack) * nodes)
            if source is not given:
                shutil.rmtree(source.path)
            if not last:
                source = table.as_features_of(given, os.path.join(work, str(number)))
        # There is a layer at least.
        assert table is not None
        result = table.finish()
        if output is not None:
            _rename(table.path, output, overwrite)
    return result


def _rename(path: str, output: str, overwrite: bool) -> None:
    """Renames the file; one that another process put at `output` meanwhile stays, unless it is to be replaced."""
    if overwrite:
        os.replace(path, output)
        return
    try:
        # The first name is removed with its folder.
        os.link(path, output)
    except FileExistsError:
        message = f"output: {output} was created meanwhile; overwrite=True replaces it"
        raise about("output", FileExistsError(message)) from None
    except OSError:
        # The file system has no second names.
        os.replace(path, output)


def _checked(layers: Any) -> list[Any]:
    """The layers as a list. Warns of those that would drop values at random."""
    if isinstance(layers, str | bytes | Mapping) or not isinstance(layers, Iterable):
        kind = type(layers).__name__
        raise about("layers", TypeError(f"layers is a {kind}: a sequence of layers is needed, such as model.convs"))
    stack = list(layers)
    if not stack:
        raise about("layers", ValueError("layers is empty: at least one is needed"))
    for number, layer in enumerate(stack):
        if not callable(layer):
            raise about("layers", TypeError(f"layers[{number}] is a {type(layer).__name__}: it cannot be called"))
    training = [str(number) for number, layer in enumerate(stack) if getattr(layer, "training", False)]
    if training:
        warn(
            f"layers {', '.join(training)} are in training mode, in which dropout drops values: call model.eval() "
            "before infer"
        )
    return stack


def _positive(name: str, value: Any) -> int:
    try:
        number = operator.index(value)
    except TypeError:
        raise about(name, TypeError(f"{name} is a {type(value).__name__}: an integer is needed")) from None
    if number < 1 or isinstance(value, bool):
        raise about(name, ValueError(f"{name}={value!r}: 1 or more is needed"))
    return number


def _bipartite(layer: Any, batch: Batch) -> torch.Tensor:
    x = batch.x
    edge_attr = [batch.blocks[0].edge_attr] if batch.has_edge_attr else []
    rows: torch.Tensor = layer((x, x[: batch.num_seeds]), batch.edge_index[0], *edge_attr)
    return rows


def _batches(
    dataset: Dataset, device: Any, batch_size: int, slot_bytes: int, columns: Mapping[str, bool]
) -> Generator[Batch, None, None]:
    """Each node once, with all its neighbours, in batches that fit their slots."""
    for nodes, size, needed in _groups(dataset, batch_size, slot_bytes, columns):
        loader = Loader(
            dataset,
            device=device,
            input_nodes=nodes,
            shuffle=False,
            fanouts=(-1,),
            batch_size=size,
            slot_bytes=needed,
            edge_ids=columns["edge_ids"],
            edge_attr=columns["edge_attr"],
            # Every process does all of it: none has the others' rows.
            rank=0,
            world_size=1,
        )
        with loader:
            yield from loader


def _groups(
    dataset: Dataset, batch_size: int, slot_bytes: int, columns: Mapping[str, bool]
) -> Iterator[tuple[Any, int, int]]:
    """The nodes by degree, and for each group the batch size and the bytes of a slot that holds its largest batch.

    The first group has the nodes of which `batch_size` fit `slot_bytes`. From group to group degrees double and the
    batch size halves. So a hub makes its own batch large, and not those of all nodes.
    """
    degrees = dataset.indptr.diff()
    largest = int(degrees.max())

    def needs(size: int, degree: int) -> int:
        return _slot_bytes(dataset, size, size * degree, columns)

    size = min(batch_size, dataset.num_nodes)
    while size > 1 and needs(size, 1) > slot_bytes:
        size //= 2
    # The largest degree of the first group.
    bound, above = 1, largest + 1
    while above - bound > 1:
        middle = (bound + above) // 2
        bound, above = (middle, above) if needs(size, middle) <= slot_bytes else (bound, middle)
    if largest <= bound:
        yield "all", size, needs(size, largest)
        return
    below = -1
    while below < largest:
        ids = ((degrees > below) & (degrees <= bound)).nonzero().flatten()
        if len(ids):
            size = min(size, len(ids))
            yield ids, size, needs(size, min(bound, largest))
        below, bound, size = bound, 2 * bound, max(size // 2, 1)


def _slot_bytes(dataset: Dataset, size: int, edges: int, columns: Mapping[str, bool]) -> int:
    """The `slot_bytes` with which a batch of `size` seeds and `edges` edges fits its slot.

    The loader divides them between nodes and edges as the whole graph does, by one factor in 32 bits. A batch's share
    of the nodes is never below its share of the edges, so the nodes decide. Feature rows of nodes have as many bytes of
    their own, and those of edges too.
    """
    edges = min(edges, dataset.num_edges)
    nodes, most_nodes = (min(dataset.num_nodes, size + count) for count in (edges, dataset.num_edges))
    factor = -(-(nodes << 32) // most_nodes)
    nodes_that_fit, edges_that_fit = (count * factor >> 32 for count in (most_nodes, dataset.num_edges))
    of_edge = 3 if any(columns.values()) else 1
    words = 2 * nodes_that_fit + size + 1 + edges_that_fit * of_edge
    of_edges = _row_bytes(dataset.edge_attr) if columns["edge_attr"] else 0
    return max(4 * words, nodes * _row_bytes(dataset.features), edges * of_edges)


def _row_bytes(table: torch.Tensor) -> int:
    return table[:1].numel() * table.element_size()


def _bytes(dtype: torch.dtype) -> int:
    # `dtype.itemsize` came with torch 2.1.
    return torch.empty(0, dtype=dtype).element_size()


class _Table:
    """A layer's rows in a `.npy` file, which is made when the first ones arrive, since they have the width and type."""

    def __init__(self, layer: str, path: str, nodes: int, last: bool) -> None:
        self.layer, self.path, self._nodes, self._last = layer, path, nodes, last
        self._rows: torch.Tensor | None = None
        self._mapped: mmap.mmap | None = None

    def put(self, batch: Batch, rows: Any) -> None:
        """Writes the rows of a batch's seeds."""
        if not isinstance(rows, torch.Tensor):
            raise TypeError(f"{self.layer} returned a {type(rows).__name__}: a tensor is needed")
        form = f"{str(rows.dtype).removeprefix('torch.')} {list(rows.shape)}"
        fitting = "[num_dst, columns] or [num_dst]" if self._last else "[num_dst, columns]"
        if rows.dim() != 2 and not (self._last and rows.dim() == 1):
            raise ValueError(f"{self.layer} returned {form}: {fitting} is needed")
        if len(rows) != batch.num_seeds:
            raise ValueError(
                f"{self.layer} returned {form} for {batch.num_seeds} destinations among {batch.num_nodes} sources: a "
                "row for each destination is needed (they are the first of the sources)"
            )
        if self._rows is None:
            allowed = list(_NAMES) if self._last else _FEATURES
            if rows.dtype not in allowed:
                names = ", ".join(str(dtype).removeprefix("torch.") for dtype in allowed)
                raise TypeError(f"{self.layer} returned {form}: possible are {names}")
            self._rows = self._make((self._nodes, *rows.shape[1:]), rows.dtype)
        if (self._rows.shape[1:], self._rows.dtype) != (rows.shape[1:], rows.dtype):
            was = f"{str(self._rows.dtype).removeprefix('torch.')} {[len(rows), *self._rows.shape[1:]]}"
            raise ValueError(f"{self.layer} returned {form}, and {was} would fit its rows of the batches before")
        self._rows.index_copy_(0, batch.seeds.cpu(), rows.detach().cpu())
        # On a GPU the rows are here only now.
        batch.confirm()

    def _make(self, shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
        header = f"{{'descr': '{_NAMES[dtype]}', 'fortran_order': False, 'shape': {shape}, }}".ljust(117) + "\n"
        begin = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode()
        size = len(begin) + torch.Size(shape).numel() * _bytes(dtype)
        with open(self.path, "xb+") as file:
            # A page that finds no room on the disk would end the process.
            os.posix_fallocate(file.fileno(), 0, size)
            file.write(begin)
            file.flush()
            self._mapped = mmap.mmap(file.fileno(), size)
        return self._view(self._mapped, shape, dtype)

    @staticmethod
    def _view(mapped: mmap.mmap, shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
        count = torch.Size(shape).numel()
        if count == 0:
            return torch.empty(shape, dtype=dtype)
        begin = len(mapped) - count * _bytes(dtype)
        return torch.frombuffer(mapped, dtype=dtype, count=count, offset=begin).view(shape)

    def as_features_of(self, dataset: Dataset, path: str) -> Dataset:
        """A dataset at `path` with these rows as features: its other files are links. The table moves there."""
        assert self._rows is not None
        os.mkdir(path)
        for name in [*_NEEDED, *_OTHERS]:
            original = os.path.realpath(os.path.join(dataset.path, name))
            if name in _NEEDED or os.path.exists(original):
                os.symlink(original, os.path.join(path, name))
        os.rename(self.path, os.path.join(path, "feat.npy"))
        meta = {"feat_dtype": "bf16"} if self._rows.dtype == torch.bfloat16 else {}
        if dataset.edge_attr is not None and dataset.edge_attr.dtype == torch.bfloat16:
            meta["edge_feat_dtype"] = "bf16"
        with open(os.path.join(path, "meta.json"), "w", encoding="utf-8") as file:
            json.dump(meta, file)
        return Dataset(path)

    def finish(self) -> torch.Tensor:
        """Writes the rows to the disk, and maps them again for the caller, whose writes stay in this process."""
        assert self._rows is not None and self._mapped is not None
        self._mapped.flush()
        with open(self.path, "rb") as file:
            mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
        return self._view(mapped, tuple(self._rows.shape), self._rows.dtype)
