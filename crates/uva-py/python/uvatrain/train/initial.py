"""First values of a model's parameters: those of `uvatrain train` with the same seed."""

from __future__ import annotations

import math

import torch

from ..models import Model

_GOLDEN = 0x9E37_79B9_7F4A_7C15
_MASK = 2**64 - 1


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
    """Which parameters are drawn first: those of the input, then layer by layer, then those of the output."""
    if not name.startswith("layers."):
        return (0 if name.startswith("input.") else 2), 0, 0
    _, layer, own = name.split(".", 2)
    # Attention's vector for edges comes behind their matrix, and a residual layer's second map behind all of its first.
    return 1, int(layer), 1 if own == "attention.edge" else 2 if own.startswith("second.") else 0


@torch.no_grad()
def initialise(model: Model, seed: int) -> None:
    """Draws matrices uniformly in ±√(6 / (inputs + outputs)) (Glorot & Bengio 2010). What normalises begins as nothing, and
    all else is 0."""
    stream = _Stream(seed)
    for name, parameter in sorted(model.named_parameters(), key=lambda named: _order(named[0])):
        if ".norm." in name:
            parameter.fill_(1.0 if name.endswith("weight") else 0.0)
        elif parameter.dim() < 2:
            parameter.zero_()
        else:
            # Of attention each row is a vector of its own, to one number.
            fans = parameter.shape[1] + (1 if ".attention." in name else parameter.shape[0])
            drawn = math.sqrt(6 / fans) * stream.take(parameter.numel())
            parameter.copy_(drawn.view(parameter.shape))
