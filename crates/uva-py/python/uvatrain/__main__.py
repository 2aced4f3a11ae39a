"""`python -m uvatrain`: explains itself, and looks at what this Python has."""

from __future__ import annotations

import argparse
import sys

from . import __version__
from .doctor import PARTS, run

ABOUT = """\
uvatrain hands out mini-batches of graphs larger than GPU memory, sampled and gathered in parallel with training.

  In one process:
      for batch in uvatrain.Loader("data/mine", fanouts=(15, 10, 5), batch_size=1024): ...
  With sampler and producer in processes of their own:
      uvatrain run data/mine --fanouts 15,10,5 --batch-size 1024 -- python train.py
      # in train.py: for batch in uvatrain.attach(): ...
  Built-in models over ranks:
      torchrun --nproc-per-node 2 -m uvatrain.train data/mine --fanouts 15,10,5
"""


def main(arguments: list[str] | None = None) -> int:
    """Runs a command of the module.

    Args:
        arguments: the arguments of `python -m uvatrain`; None: those of this process.

    Returns:
        The exit code: 0, or 3 if a required part is missing.
    """
    parser = argparse.ArgumentParser(
        prog="python -m uvatrain", description=ABOUT, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--version", action="version", version=f"uvatrain {__version__}")
    commands = parser.add_subparsers(title="commands", dest="command")
    doctor = commands.add_parser(
        "doctor",
        help="what this Python has, what is missing, and the command that mends it",
        description="What this Python has, what is missing, and the command that mends it. Nothing is changed.",
    )
    doctor.add_argument("--json", action="store_true", help="print the findings as JSON")
    doctor.add_argument(
        "--need",
        metavar="NAME,…",
        type=lambda text: text.split(","),
        action="extend",
        default=[],
        help=f"end with exit code 3 unless these are there: {', '.join(PARTS)}",
    )
    chosen = parser.parse_args(arguments)
    if chosen.command is None:
        parser.print_help()
        return 0
    unknown = [name for name in chosen.need if name not in PARTS]
    if unknown:
        parser.error(f"--need {unknown[0]}: not one of {', '.join(PARTS)}")
    return run(as_json=chosen.json, need=chosen.need)


if __name__ == "__main__":
    sys.exit(main())
