"""Exceptions, whose messages say what to do.

Wrong options are ValueError, and what the system refuses of a file is OSError (FileNotFoundError where it is
missing). The rest is here, and the warnings.
"""

import os
import sys
import warnings

__all__ = ["BatchGone", "PeerDied", "SlotInUse", "Unavailable", "UvatrainError", "UvatrainWarning"]


class UvatrainError(RuntimeError):
    """A run failed, or a call came at the wrong time. Every exception of uvatrain's own is one."""


class Unavailable(UvatrainError):
    """This machine lacks a requested GPU, driver or library. The message names the remedy."""


class PeerDied(UvatrainError):
    """A process or thread that prepares batches has ended, so no more will come."""


class SlotInUse(UvatrainError):
    """A tensor of an earlier batch is still there and keeps the slot that the next batch needs.

    Clone what is kept beyond a step (`batch.x.clone()`), or give the loader more slots.
    """


class BatchGone(UvatrainError):
    """A batch was used after the next one was requested. Clone what is needed longer than a step."""


class UvatrainWarning(UserWarning):
    """A call succeeded, but with an effect that is easily overlooked."""


def warn(message: str) -> None:
    """Warns by UvatrainWarning, at the line that called into this package."""
    package = os.path.dirname(__file__) + os.sep
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(package):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, UvatrainWarning, level)


def about(option: str, error: Exception) -> Exception:
    """The exception with the name of the option that it is about."""
    error.field = option  # type: ignore[attr-defined]
    return error


# Messages show the name that people import.
for _class in (UvatrainError, Unavailable, PeerDied, SlotInUse, BatchGone, UvatrainWarning):
    _class.__module__ = "uvatrain"
del _class
