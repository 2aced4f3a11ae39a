#!/usr/bin/env bash
# The tests that scripts/test.sh leaves out for their time: every way of tests that do the same in many ways, of which
# scripts/test.sh runs some; tests marked as ignored that can run alone; the build of
# tests without libtorch; the fuzzer. Before a release, and before a run on a GPU. Needs what scripts/test.sh needs.
#
#   scripts/measure/long_tests.sh [PATTERN]     only tests whose names match, such as aggregate_gpu
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/../.."
scripts/setup/libtorch.sh >/dev/null
scripts/setup/datasets.sh >/dev/null
export UVATRAIN_TESTS=all
cargo test --workspace --test integration --test gpu_processes -- "$@"
# Of the ignored tests of other programs some are roles that tests start.
cargo test --workspace --test integration -- --ignored gpu_suite::
if (($# == 0)); then
  # The tests that are left without libtorch. scripts/test.sh looks at the rest of such a build.
  LIBTORCH=/nonexistent/libtorch cargo clippy --workspace --exclude uva-train --exclude uvatrain-consumer \
    --no-default-features --test integration -- -D warnings
  scripts/check/python.sh --profile dev --at-once 2 --quiet
  scripts/check/fuzz.sh
fi
