"""`load_model` reads a checkpoint of `uvatrain train` into a `torch.nn.Module`."""

from __future__ import annotations

import json
import mmap
import os
from pathlib import Path

import torch

from .. import _core
from .hop_model import KINDS, HopModel
from .model import Model
from .relation_model import RelationModel

__all__ = ["load_model", "load_tensors"]


def load_tensors(path: str | os.PathLike[str]) -> dict[str, torch.Tensor]:
    """The tensors of a safetensors file, by name."""
    return tensors_of(Path(path).read_bytes(), path)


def tensors_of(content: bytes, path: str | os.PathLike[str]) -> dict[str, torch.Tensor]:
    """The same of its content. `path` is for messages."""
    data = bytearray(content)
    length = int.from_bytes(data[:8], "little")
    if len(data) < 8 or length > len(data) - 8:
        raise ValueError(f"{path}: it is not a safetensors file")
    header = json.loads(bytes(data[8 : 8 + length]))
    types = {"F32": torch.float32, "F64": torch.float64}
    tensors = {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        if entry["dtype"] not in types:
            raise ValueError(f"{path}: {name} is of type {entry['dtype']}, and {' or '.join(types)} is read here")
        first, end = entry["data_offsets"]
        part = data[8 + length + first : 8 + length + end]
        # An empty tensor has no buffer.
        flat = torch.frombuffer(part, dtype=types[entry["dtype"]]) if part else torch.empty(0)
        try:
            tensors[name] = flat.reshape(entry["shape"])
        except (RuntimeError, TypeError) as error:
            raise ValueError(f"{path}: {name} has {len(flat)} numbers: {error}") from None
    return tensors


def load_model(
    checkpoint: str | os.PathLike[str],
    *,
    keep: str | None = None,
    device: torch.device | str = "cpu",
) -> Model | HopModel | RelationModel:
    """The model of a checkpoint that `uvatrain train --checkpoint` wrote, ready to predict (in `eval()` mode).

    A model of a hop set (`--model sign`, for example) is a `uvatrain.models.HopModel`, one of a typed graph (`--model
    rsage`, `rgcn`, `rgat` or `hgt`) a `RelationModel`, any other a `Model`.

    checkpoint: the directory. keep: "best" for the parameters of the best epoch by validation, "last" for those after
    the last batch; None for what `train --keep` said. `model.metadata` has `kept`, `epoch` (from 0) and
    `fingerprint`, what the batches of the training depended on. The trained rows of node types without features are in
    `model.embeddings`, over private mappings of their files: they stay in host memory.

    Raises FileNotFoundError where there is no checkpoint, and ValueError for one that is damaged or of another version.
    """
    if keep not in (None, "best", "last"):
        raise ValueError(f"keep={keep!r}: 'best' or 'last' is possible")
    opened = _core._open_checkpoint(checkpoint)
    if opened is None:
        raise FileNotFoundError(f"{checkpoint}: there is no checkpoint in it (no checkpoint.json)")
    contents = json.loads(opened[0])
    trainer = contents["trainer"]
    options, has_best = trainer["model"], trainer["best"]
    if keep == "best" and not has_best:
        raise ValueError(f"keep='best': {checkpoint} has no best model, since its training was not validated")
    kept = (keep or trainer["keep"]) if has_best else "last"
    kind = RelationModel if "graph" in options else KINDS.get(options["model"], Model)
    model = kind(options)
    if isinstance(model, RelationModel):
        for name, shape, begin, of_last, of_best in opened[2]:
            chosen = of_best if kept == "best" and of_best is not None else of_last
            model.embeddings[name] = _rows(chosen, begin, shape)
    group = "best." if kept == "best" else "model."
    found = tensors_of(opened[1], checkpoint)
    own = {name.removeprefix(group): value for name, value in found.items() if name.startswith(group)}
    try:
        model.load_state_dict(own)
    except RuntimeError as error:
        raise ValueError(f"{checkpoint}: its tensors are of another model: {error}") from None
    state = contents.get("state") or {}
    cursor, best = state.get("cursor") or {}, state.get("best") or {}
    last = cursor.get("epoch", 0) - (0 if cursor.get("batch", 0) else 1)
    model.metadata = {
        "kept": kept,
        "epoch": best.get("epoch") if kept == "best" else (last if last >= 0 else None),
        "fingerprint": contents.get("fingerprint"),
    }
    return model.to(device).eval()


def _rows(path: Path, begin: int, shape: tuple[int, int]) -> torch.Tensor:
    """The float32 rows of a file from this byte on. What is written to them does not reach the file."""
    if 0 in shape:
        return torch.empty(shape)
    with path.open("rb") as file:
        mapping = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
    return torch.frombuffer(mapping, dtype=torch.float32, offset=begin).reshape(shape)
