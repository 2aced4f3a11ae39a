#!/usr/bin/env bash
# Checks the types of the examples and the Python module with `mypy --strict` and pyright.
#
#   scripts/check/types.sh [--python PYTHON] [mypy] [pyright]
#
#   --python PYTHON   the Python whose packages are used; default: that of scripts/setup/python.sh
#   mypy, pyright     only this checker
#
# Examples, and crates/uva-py/tests/package/typed.py, are checked as user code: against the uvatrain that PYTHON imports,
# installed or on PYTHONPATH, which has a py.typed, or else against the one of the checkout. mypy is that of PYTHON, pyright
# that of PATH. If a checker is missing, the script says so and exits with 3.
#
# DGL is in no environment of this repository, and PyG has no types for mypy, so their names are Any in examples.
set -euo pipefail

checkout=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd -P)
python='' checkers=()
while (($#)); do
  case $1 in
    --python)
      [[ -n ${2:-} ]] || { echo "types: --python needs a value" >&2; exit 2; }
      python=$2
      shift
      ;;
    mypy | pyright) checkers+=("$1") ;;
    -h | --help) sed -n '2,/^set /{/^#/s/^# \{0,1\}//p}' "${BASH_SOURCE[0]}"; exit 0 ;;
    *) echo "types: there is no option or checker $1" >&2; exit 2 ;;
  esac
  shift
done
((${#checkers[@]})) || checkers=(mypy pyright)
[[ -n $python ]] || python=$("$checkout/scripts/setup/python.sh")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

module=$checkout/crates/uva-py/python
checked=(examples/python examples/migration crates/uva-py/tests/package/typed.py)
cd "$checkout"
if ! "$python" -c 'import importlib.util, sys; sys.exit(importlib.util.find_spec("uvatrain") is None)'; then
  PYTHONPATH=$module${PYTHONPATH:+:$PYTHONPATH}
fi
mkdir -p "$work/stubs/dgl-stubs"
for part in __init__ graphbolt nn; do
  printf 'from typing import Any\n\ndef __getattr__(name: str) -> Any: ...\n' >"$work/stubs/dgl-stubs/$part.pyi"
done
export PYTHONPATH=${PYTHONPATH:+$PYTHONPATH:}$work/stubs

failed=0
missing() { echo "types: $*" >&2; exit 3; }
run() {
  printf '== %s\n' "$*"
  "$@" || failed=1
}
for checker in "${checkers[@]}"; do
  case $checker in
    mypy)
      "$python" -c 'import mypy' 2>/dev/null || missing "$python has no mypy: pip install mypy"
      # Both share what is known of PyTorch then, most of the work.
      mypy=("$python" -m mypy --strict --config-file "$checkout/scripts/check/mypy.ini" --cache-dir "$work/mypy")
      run "${mypy[@]}" "${checked[@]}"
      run env MYPYPATH="$module" "${mypy[@]}" --package uvatrain
      ;;
    pyright)
      command -v pyright >/dev/null || missing "there is no pyright in PATH: pip install 'pyright[nodejs]'"
      run pyright --level error --pythonpath "$python" "${checked[@]}"
      run pyright --project "$checkout/scripts/check/pyright.json" --pythonpath "$python"
      ;;
  esac
done
exit "$failed"
