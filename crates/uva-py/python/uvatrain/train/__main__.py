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
    except UvatrainError as error:
        return _said(ranks, str(error), 1)
    except RuntimeError as error:
        return _said(ranks, ranks.explained(error), 1)
    except (Disagreement, ValueError, TypeError, OSError) as error:
        return _said(ranks, str(error), 2)
    return 0


def _said(ranks: Ranks, message: str, code: int) -> int:
    print(f"uvatrain.train: {ranks.name}: {message}", file=sys.stderr, flush=True)
    return code


if __name__ == "__main__":
    sys.exit(main())
