"""First values of a model's parameters: those of `uvatrain train` with the same seed."""

from __future__ import annotations

import math

import torch

from ..models import RelationModel

_GOLDEN = 0x9E37_79B9_7F4A_7C15
_MASK = 2**64 - 1
#: Biases of HOGA's attention.
_DRAWN_BIASES = ("query.bias", "out.bias")


def mix(z: int) -> int:
    """splitmix64's finaliser."""
    z = (z ^ z >> 30) * 0xBF58_476D_1CE4_E5B9 & _MASK
    z = (z ^ z >> 27) * 0x94D0_49BB_1331_11EB & _MASK
    return z ^ z >> 31


def batch_seed(seed: int, epoch: int, batch: int) -> int:
    """The seed of what is dropped in a batch, whichever rank has it."""
    return mix(mix(seed & _MASK) ^ (epoch << 32 | batch)) >> 1


def _signed(number: int) -> int:
    return number - 2**64 if number >= 2**63 else number


def _shifted(values: torch.Tensor, bits: int) -> torch.Tensor:
    """A logical shift to the right: int64's own keeps the sign."""
    shifted: torch.Tensor = (values >> bits) & (2 ** (64 - bits) - 1)
    return shifted


class _Stream:
    """SplitMix64's numbers in [-1, 1), many at a time. int64 wraps around as uint64 does."""

    def __init__(self, seed: int) -> None:
        self._seed, self._drawn = seed & _MASK, 0

    def take(self, count: int) -> torch.Tensor:
        first = self._drawn + 1
        self._drawn += count
        z = torch.arange(first, first + count) * _signed(_GOLDEN) + _signed(self._seed)
        z = (z ^ _shifted(z, 30)) * _signed(0xBF58_476D_1CE4_E5B9)
        z = (z ^ _shifted(z, 27)) * _signed(0x94D0_49BB_1331_11EB)
        z = z ^ _shifted(z, 31)
        return _shifted(z, 11).double() / 2.0**52 - 1


def _order(name: str) -> tuple[int, int, int]:
    """Which parameters are drawn first: those of the input or the hops, then layer by layer, then those of the output."""
    if not name.startswith("layers."):
        return (0 if name.startswith(("input.", "hops.")) else 2), 0, 0
    _, layer, own = name.split(".", 2)
    # Drawn biases come after all matrices, attention's vector for edges after their matrix, and a residual layer's second map
    # after all of its first.
    return 1, int(layer), 1 if own in (*_DRAWN_BIASES, "attention.edge") else 2 if own.startswith("second.") else 0


def _fans(name: str, parameter: torch.Tensor) -> int | None:
    """Inputs and outputs of a parameter, as its first values have them; None where it begins as 0."""
    if name.endswith(_DRAWN_BIASES):
        # ±√(6 / fans) is then ±1 / √inputs, as PyTorch has it.
        return 6 * len(parameter)
    if name == "readout.weight":
        return len(parameter) + 1
    if parameter.dim() < 2:
        return None
    # Of attention each row is a vector of its own, to one number.
    return parameter.shape[1] + (1 if ".attention." in name else parameter.shape[0])


@torch.no_grad()
def initialise(model: torch.nn.Module, seed: int) -> None:
    """Draws matrices uniformly in ±√(6 / (inputs + outputs)) (Glorot & Bengio 2010). Normalisation begins as the identity,
    slopes keep their value, and all else is 0. A model over relations says what it draws,
    and has been made with its other values."""
    stream = _Stream(seed)
    if isinstance(model, RelationModel):
        for drawn, bound in model.drawn():
            drawn.copy_((bound * stream.take(drawn.numel())).view(drawn.shape))
        return
    for name, parameter in sorted(model.named_parameters(), key=lambda named: _order(named[0])):
        fans = _fans(name, parameter)
        if ".norm." in name:
            parameter.fill_(1.0 if name.endswith("weight") else 0.0)
        elif fans is not None:
            drawn = math.sqrt(6 / fans) * stream.take(parameter.numel())
            parameter.copy_(drawn.view(parameter.shape))
        elif not name.endswith(".slope"):
            parameter.zero_()
