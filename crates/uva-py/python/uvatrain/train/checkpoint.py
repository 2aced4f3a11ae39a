"""Checkpoints of a training over ranks: the files of `uvatrain train` (docs/reference/checkpoint-format.md)."""

from __future__ import annotations

import ctypes
import fcntl
import json
import os
import struct
from typing import Any, NamedTuple

import torch

from .. import _core
from ..errors import UvatrainError
from ..models import HopModel, Model, RelationModel, tensors_of

#: The file that a run locks while it may write.
_LOCK = ".uvatrain-lock"


class Place(NamedTuple):
    """Where a training stands. Every rank has the same."""

    epoch: int
    #: Batches of the epoch that are done, of all ranks.
    batch: int


class Saved(NamedTuple):
    """The content of a checkpoint without its tensors."""

    place: Place
    #: Of the epoch so far, over all ranks: the loss of all labelled seeds, seeds that were right, labelled seeds.
    sums: list[float]
    #: The best validation: its epoch and the share that was right.
    best: tuple[int, float] | None
    epochs_without_gain: int


class Folder:
    """A directory of checkpoints, which no other run writes to meanwhile."""

    def __init__(self, path: str) -> None:
        """ValueError where another run writes there."""
        self.path = path
        os.makedirs(path, mode=0o700, exist_ok=True)
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        self._lock = os.open(os.path.join(path, _LOCK), flags, 0o600)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._lock)
            raise ValueError(f"--checkpoint {path}: another run writes there: give another directory") from None

    def has_checkpoint(self) -> bool:
        """Whether a training was kept here before."""
        return os.path.exists(os.path.join(self.path, "checkpoint.json"))

    def close(self) -> None:
        """Lets others write."""
        os.close(self._lock)


def write(
    path: str,
    model: Model | HopModel | RelationModel,
    optimizer: torch.optim.Adam,
    best: dict[str, torch.Tensor] | None,
    fingerprint: dict[str, Any],
    keep: str,
    saved: Saved,
) -> None:
    """Makes this the directory's checkpoint."""
    named = {f"model.{name}": tensor for name, tensor in model.state_dict().items()}
    steps = 0
    for name, parameter in model.named_parameters():
        moments = optimizer.state.get(parameter)
        first, second = (moments["exp_avg"], moments["exp_avg_sq"]) if moments else [torch.zeros_like(parameter)] * 2
        named |= {f"adam.first.{name}": first, f"adam.second.{name}": second}
        steps = int(moments["step"]) if moments else 0
    named |= {f"best.{name}": tensor for name, tensor in (best or {}).items()}
    contents = {
        "trainer": {"model": model.options, "adam_steps": steps, "best": best is not None, "keep": keep},
        "fingerprint": fingerprint,
        "state": {
            "cursor": saved.place._asdict(),
            "sums": {"loss": saved.sums[0], "correct": int(saved.sums[1]), "labelled": int(saved.sums[2])},
            "best": None if saved.best is None else {"epoch": saved.best[0], "value": saved.best[1]},
            "epochs_without_gain": saved.epochs_without_gain,
            "train_threads": torch.get_num_threads(),
        },
    }
    _core._store_checkpoint(path, _packed(named), json.dumps(contents))


def _packed(named: dict[str, torch.Tensor]) -> bytes:
    """A safetensors file."""
    header: dict[str, Any] = {"__metadata__": {"written_by": "uvatrain"}}
    pieces, at = [], 0
    for name, tensor in named.items():
        if not torch.isfinite(tensor).all():
            raise UvatrainError(f"not kept: {name} holds NaN or infinity (training diverged); the last checkpoint stays")
        rows = tensor.detach().float().cpu().contiguous()
        piece = ctypes.string_at(rows.data_ptr(), rows.nbytes)
        header[name] = {"dtype": "F32", "shape": list(tensor.shape), "data_offsets": [at, at + len(piece)]}
        pieces.append(piece)
        at += len(piece)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + b"".join(pieces)


def read(
    path: str,
    model: Model | HopModel | RelationModel,
    optimizer: torch.optim.Adam,
    fingerprint: dict[str, Any],
    train_batches: int,
) -> tuple[Saved, dict[str, torch.Tensor] | None] | None:
    """Puts the checkpoint's tensors into model and optimizer. Where it stands, and the tensors of the best epoch; None: there is
    no checkpoint. train_batches: the most training batches of an epoch, of all ranks together.

    ValueError where it is damaged, or of another dataset, other options or another model.
    """
    found = _core._read_checkpoint(path, json.dumps(model.options), json.dumps(fingerprint), train_batches)
    if found is None:
        return None
    contents = json.loads(found[0])
    trainer, state = contents["trainer"], contents["state"]
    tensors = tensors_of(found[1], path)

    def group(name: str) -> dict[str, torch.Tensor]:
        return {key.removeprefix(name): value for key, value in tensors.items() if key.startswith(name)}

    model.load_state_dict(group("model."))
    first, second = group("adam.first."), group("adam.second.")
    if trainer["adam_steps"]:
        for name, parameter in model.named_parameters():
            optimizer.state[parameter] = {
                "step": torch.tensor(float(trainer["adam_steps"])),
                "exp_avg": first[name].to(parameter),
                "exp_avg_sq": second[name].to(parameter),
            }
    sums, best = state["sums"], state["best"]
    saved = Saved(
        Place(**state["cursor"]),
        [sums["loss"], sums["correct"], sums["labelled"]],
        None if best is None else (best["epoch"], best["value"]),
        state["epochs_without_gain"],
    )
    return saved, group("best.") if trainer["best"] else None
