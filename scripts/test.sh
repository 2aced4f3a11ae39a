#!/usr/bin/env bash
# Everything that has to pass: formatting, clippy, the kernels' machine code, all tests, those of the Python module
# included, and that what needs no libtorch builds without one. Gets libtorch, NVRTC and PyTorch first, from their cache
# folder where they are there. Works from any folder, needs nothing exported and no GPU.
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

# The crates that must not need libtorch see a LIBTORCH that does not exist: asking for it would fail the build.
without_libtorch() {
  LIBTORCH=/nonexistent/libtorch cargo clippy --workspace --exclude uva-train --exclude uvatrain-consumer --exclude uvatrain -- -D warnings
  LIBTORCH=/nonexistent/libtorch cargo clippy -p uvatrain --no-default-features --all-targets -- -D warnings
  LIBTORCH=/nonexistent/libtorch cargo clippy -p uvatrain --no-default-features --features request-model --all-targets \
    -- -D warnings
}

step "libtorch" scripts/setup/libtorch.sh
step "Python" scripts/setup/python.sh
step "format" cargo fmt --all --check
step "imports" scripts/check/imports.py
step "builds without libtorch" without_libtorch
step "clippy" cargo clippy --workspace --all-targets -- -D warnings
step "book" scripts/check/book.sh
step "real graphs" scripts/setup/datasets.sh
step "NVRTC" scripts/setup/nvrtc.sh
step "kernels compile for every GPU" scripts/check/kernels.py --require
step "second implementation" python3 tests/reference/reference.py --check docs/test-vectors.json
step "tests" cargo test --workspace --no-fail-fast
step "fuzz" scripts/check/fuzz.sh
step "Python module" scripts/check/python.sh --quiet

printf '\n== all passed in %d s\n' $((SECONDS - started))
printf '%s\n' "${took[@]}"
