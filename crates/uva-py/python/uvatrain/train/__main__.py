"""`python -m uvatrain.train`: reads the options, joins the ranks, trains, and ends with an exit code."""

from __future__ import annotations

import sys

from ..errors import UvatrainError
from .loop import train
from .options import Options, parse
from .ranks import Disagreement, Ranks


def main(arguments: list[str] | None = None) -> int:
    """Trains on this rank.

    Args:
        arguments: what stands behind `-m uvatrain.train`; that of this process where None.

    Returns:
        0; 1 where the training failed; 2 where an option, a file or another rank does not fit.
    """
    options = parse(arguments)
    ranks = Ranks(options.device, options.timeout)
    try:
        return _code_of(options, ranks)
    finally:
        ranks.leave()


def _code_of(options: Options, ranks: Ranks) -> int:
    try:
        train(options, ranks)
    except (Disagreement, ValueError, TypeError, OSError, UvatrainError, RuntimeError) as error:
        print(f"uvatrain.train: {ranks.name}: {error}", file=sys.stderr, flush=True)
        return 1 if isinstance(error, UvatrainError | RuntimeError) else 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
