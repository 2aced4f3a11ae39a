#!/usr/bin/env bash
# Runs the tests that take too long for scripts/test.sh: all cases of tests of which scripts/test.sh runs some, ignored
# tests, the kernels for every architecture, the build of tests without libtorch, and the fuzzer. Run it before a release,
# and before a run on a GPU. Requires the same as scripts/test.sh.
#
#   scripts/measure/long_tests.sh [PATTERN]     only tests whose names match, such as aggregate_gpu
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/../.."
scripts/setup/libtorch.sh >/dev/null
scripts/setup/datasets.sh >/dev/null
scripts/setup/nvrtc.sh >/dev/null
export UVATRAIN_TESTS=all
# Ignored tests are long, except those that other tests run as processes.
processes=(gather::loads_the_kernels_as_tests_do gather::runs_every_step_and memory::importer objects::opens_an_event_of
  unavailable::prints_the_driver_report processes::peer_that_)
cargo test --workspace --test integration --test gpu_processes -- --include-ignored "${processes[@]/#/--skip=}" "$@"
if (($# == 0)); then
  scripts/check/kernels.py --require
  # The tests of a build without libtorch. scripts/test.sh checks the rest of that build.
  LIBTORCH=/nonexistent/libtorch cargo clippy --workspace --exclude uva-train --exclude uvatrain-consumer \
    --no-default-features --test integration -- -D warnings
  # In the wheel as a release has it.
  cargo build --release --workspace --bin uvatrain
  UVATRAIN_PROGRAM=$(realpath "${CARGO_TARGET_DIR:-target}/release/uvatrain") scripts/check/python.sh --at-once 2 --quiet
  scripts/check/fuzz.sh
fi
