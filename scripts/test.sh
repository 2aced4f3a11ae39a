#!/usr/bin/env bash
# Runs every check that has to pass: formatting, counts, clippy, a build without libtorch, documentation, the kernels' machine
# code, and the tests of Rust and Python, several programs at a time (scripts/check/tests.py). Installs libtorch, NVRTC and
# PyTorch into their cache folder first, if they are not there. Works from any folder, and requires no variables and no GPU.
# scripts/measure/long_tests.sh runs the tests that take longer.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."

started=$SECONDS
declare -a took=()

# step NAME COMMAND… runs a command and remembers how long it took; the first that fails ends the script.
step() {
  local name=$1 since=$SECONDS
  shift
  printf '\n== %s: %s\n' "$name" "$*"
  if ! "$@"; then
    printf '\n== FAILED: %s (after %d s): %s\n' "$name" $((SECONDS - since)) "$*" >&2
    exit 1
  fi
  took+=("$(printf '%5d s  %s' $((SECONDS - since)) "$name")")
}

# Checks all crates except the models and their program as users without libtorch build them: without the features that
# tests add to other crates. With a LIBTORCH that does not exist, a crate that needs libtorch fails to build.
without_libtorch() {
  LIBTORCH=/nonexistent/libtorch cargo clippy --workspace --exclude uva-train --exclude uvatrain-consumer \
    --no-default-features -- -D warnings
}

# The tests of Rust and Python and the kernels' machine code, at the same time: most tests wait for processes. Tests the
# Python module that cargo builds with its tests; scripts/measure/long_tests.sh tests the wheel.
tests() {
  local target python
  target=$(cargo metadata --format-version 1 --no-deps | sed 's/.*"target_directory":"\([^"]*\)".*/\1/')
  python="env 'UVATRAIN_PROGRAM=$target/debug/uvatrain' 'UVATRAIN_CUDA_SIM=$target/debug/deps/libcuda_sim.so' scripts/check/python.sh --module '$target/debug/deps/lib_core.so' --at-once 2 --quiet"
  scripts/check/tests.py \
    --beside "Python module=$python" \
    --beside "kernels compile for old and new GPUs=scripts/check/kernels.py --require --architectures 75,90,120"
}

# What the later steps require is downloaded and unpacked while cargo checks what needs none of it.
downloads=$(mktemp)
scripts/setup.sh >"$downloads" 2>&1 &
setup=$!
trap 'kill "$setup" 2>/dev/null || true; rm -f "$downloads"' EXIT

set_up() {
  local code=0
  wait "$setup" || code=$?
  cat "$downloads"
  return "$code"
}

step "format" cargo fmt --all --check
step "imports" scripts/check/imports.py
step "house" scripts/check/house.py
step "words" scripts/check/words.py
step "packages" scripts/release/packages.py --unreleased
step "builds without libtorch" without_libtorch
step "libtorch, Python, NVRTC, real graphs" set_up
step "clippy" cargo clippy --workspace --all-targets -- -D warnings
step "book" scripts/check/book.sh
step "second implementation" python3 tests/reference/reference.py --check docs/test-vectors.json
step "second implementation, typed" python3 tests/reference/typed.py --check docs/test-vectors.json
step "second implementation, trees" python3 tests/reference/trees.py --check docs/test-vectors.json
step "tests" tests

printf '\n== all passed in %d s\n' $((SECONDS - started))
printf '%s\n' "${took[@]}"
