"""`python -m uvatrain.train`: reads the options, joins the ranks, trains, and ends with an exit code."""

from __future__ import annotations

import sys

from ..errors import UvatrainError
from .loop import train
from .options import Options, parse
from .ranks import Disagreement, RankFailed, Ranks


def main(arguments: list[str] | None = None) -> int:
    """Trains on this rank.

    Args:
        arguments: the arguments of `-m uvatrain.train`; None: those of this process.

    Returns:
        0; 1 where the training failed; 2 where an option, a file or another rank does not fit.
    """
    options = parse(arguments)
    try:
        ranks = Ranks(options.device, options.timeout)
    except ValueError as error:
        return _said("not started", error, 2)
    except RuntimeError as error:
        return _said("not started", error, 1)
    try:
        return _code_of(options, ranks)
    finally:
        ranks.leave()


def _code_of(options: Options, ranks: Ranks) -> int:
    try:
        train(options, ranks)
    except UvatrainError as error:
        if options.is_parts:
            # Where ranks exchange rows it may be about another one.
            ranks.note_failure()
        return _said(ranks.name, error, 1)
    except (RankFailed, RuntimeError) as error:
        return _said(ranks.name, error, 1)
    except (Disagreement, ValueError, TypeError, OSError) as error:
        return _said(ranks.name, error, 2)
    return 0


def _said(who: str, error: Exception, code: int) -> int:
    print(f"uvatrain.train: {who}: {error}", file=sys.stderr, flush=True)
    return code


if __name__ == "__main__":
    sys.exit(main())
