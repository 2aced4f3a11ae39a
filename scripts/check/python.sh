#!/usr/bin/env bash
# Tests the Python package as users install it: `pip` builds a wheel with the program from this checkout,
# scripts/check/wheel.py checks it, and pytest tests it and the examples with PyTorch, PyG and numpy
# (scripts/setup/python.sh). Requires no network once those are cached. scripts/release/wheels.py builds a release's wheels.
#
#   scripts/check/python.sh [--wheel FILE | --module FILE | --profile NAME] [--python PYTHON] [--at-once N]
#                           [pytest's arguments…]
#
#   --wheel FILE      tests an existing wheel
#   --module FILE     tests a module that cargo has built with its tests, with the package's files. Saves the wheel's build,
#                     which compiles all crates with other features and takes ten minutes of CPU time
#   --profile NAME    builds with this profile of cargo: `dev` reuses most crates of cargo's tests
#   --python PYTHON   tests with the packages of another Python, and builds with its pip, which may require the network
#   --at-once N       N processes of pytest, which divide the files: most tests wait for other processes
#
# The cached environment is not changed: the module is in a temporary folder before it on the path.
set -euo pipefail

checkout=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd -P)
wheel='' module='' python='' profile=release at_once=1
while [[ ${1:-} == --wheel || ${1:-} == --module || ${1:-} == --python || ${1:-} == --profile || ${1:-} == --at-once ]]; do
  [[ -n ${2:-} ]] || { echo "check/python: $1 needs a value" >&2; exit 2; }
  case $1 in
    --wheel) wheel=$(realpath "$2") ;;
    --module) module=$(realpath "$2") ;;
    --python) python=$2 ;;
    --profile) profile=$2 ;;
    --at-once) at_once=$2 ;;
  esac
  shift 2
done
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_REQUIRE_VIRTUALENV=false PYTHONDONTWRITEBYTECODE=1

declare -a offline=()
if [[ -z $python ]]; then
  python=$("$checkout/scripts/setup/python.sh")
  # The build requires maturin, which is next to that Python.
  offline=(--no-index --find-links "$(dirname "$python")/../wheels")
fi

# The program, which starts samplers and producer for what attaches: the one that is named, as scripts/test.sh does, whose
# tests have built it; that of a wheel that is there already; else it is built here.
if [[ -z ${UVATRAIN_PROGRAM:-} && -n $wheel ]]; then
  UVATRAIN_PROGRAM=$work/site/bin/uvatrain
elif [[ -z ${UVATRAIN_PROGRAM:-} ]]; then
  # With `-p uvatrain` cargo would choose fewer features of shared crates, and compile them again.
  (cd "$checkout" && cargo build --quiet --workspace --bin uvatrain)
  target=$(cd "$checkout" && cargo metadata --format-version 1 --no-deps |
    "$python" -c 'import json, sys; print(json.load(sys.stdin)["target_directory"])')
  UVATRAIN_PROGRAM=$target/debug/uvatrain
fi
if [[ -z $wheel && -z $module ]]; then
  # The first half of `pip install ./crates/uva-py`; the second half is below. The wheel in between is checked.
  # pip's output is printed only if it fails.
  echo "check/python: building the wheel" >&2
  # The program goes into the wheel as a release has it: without symbols.
  mkdir "$work/program"
  strip -o "$work/program/uvatrain" "$UVATRAIN_PROGRAM"
  UVATRAIN_WHEEL_PROGRAM=$work/program/uvatrain MATURIN_PEP517_ARGS="--profile $profile" \
    "$python" -m pip wheel --quiet --no-deps "${offline[@]}" --wheel-dir "$work/wheel" "$checkout/crates/uva-py"
  wheel=$(echo "$work"/wheel/uvatrain-*.whl)
fi
if [[ -n $module ]]; then
  mkdir "$work/site"
  cp -r "$checkout/crates/uva-py/python/uvatrain" "$work/site/"
  cp "$module" "$work/site/uvatrain/_core.abi3.so"
else
  "$python" "$checkout/scripts/check/wheel.py" "$wheel"
  "$python" -m pip install --quiet --no-deps --no-index --target "$work/site" "$wheel"
  # For tests/test_check_wheel.py to spoil.
  export UVATRAIN_WHEEL=$wheel
fi

export UVATRAIN_PROGRAM
export UVATRAIN=$UVATRAIN_PROGRAM
export PYTHONPATH=$work/site
# Threads that wait for work spin otherwise, and take the cores from the samplers.
export OMP_WAIT_POLICY=passive

declare -a tests=()
for folder in crates/uva-py/tests examples/python; do
  [[ -d $checkout/$folder ]] && tests+=("$checkout/$folder")
done
# Nothing is written into the checkout; and from a folder without a `uvatrain` that Python could find first.
cd "$work"
declare -a pytest=("$python" -m pytest -p no:cacheprovider --rootdir "$checkout" --durations 10 "$@" "${tests[@]}")
if ((at_once == 1)); then
  "${pytest[@]}"
  exit
fi
mkdir claims
declare -a running=()
trap 'kill "${running[@]}" 2>/dev/null || true; rm -rf "$work"' EXIT
trap 'exit 143' TERM
for ((number = 1; number <= at_once; number++)); do
  UVATRAIN_PYTEST_CLAIMS=$work/claims "${pytest[@]}" >"pytest-$number.log" 2>&1 &
  running+=($!)
done
failed=0
for number in "${!running[@]}"; do
  wait "${running[$number]}" || failed=$?
  cat "pytest-$((number + 1)).log"
done
exit "$failed"
