#!/usr/bin/env bash
# Runs the tests of scripts/check/python.sh with the newest PyTorch, PyG and numpy of PyPI instead of the pinned ones, as a
# new installation has them. CI does not run it, so that a release of another project cannot fail CI.
#
#   scripts/check/python-newest.sh [pytest's arguments…]
#
# Installs about 6 GB into a temporary folder (under TMPDIR), and requires the network.
# UVATRAIN_PYTHON selects a Python other than python3.
set -euo pipefail

checkout=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd -P)
fail() { echo "python-newest: $*" >&2; exit 3; }
python=${UVATRAIN_PYTHON:-python3}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

"$python" -m venv "$work/venv" || fail "$python cannot make a virtual environment: apt install python3-venv"
python=$work/venv/bin/python3
"$python" -m pip install --quiet --no-cache-dir --disable-pip-version-check --upgrade \
  pip torch torch-geometric numpy networkx pytest maturin abi3info lightning nbclient ipykernel mypy >&2 ||
  fail "pip could not install the newest packages: the lines above say why"
"$python" -c '
import sys, torch, torch_geometric, numpy
print(f"python-newest: Python {sys.version.split()[0]}, torch {torch.__version__},",
      f"torch-geometric {torch_geometric.__version__}, numpy {numpy.__version__}")'
"$checkout/scripts/check/python.sh" --python "$python" "$@"
