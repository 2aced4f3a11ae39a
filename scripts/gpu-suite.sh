#!/usr/bin/env bash
# All that only a GPU can show, in under ten minutes: correctness first, and nothing else where that fails.
#
#   gpu-suite.sh OUTDIR [--bin DIR] [--only STEP,…] [--without STEP,…] [--seconds N] [--simulate]
#
# Needs python3 and the folder that scripts/gpu-carry.sh made (this script lies in it), no Rust. libtorch is that of the
# python3 that imports torch. Writes at most eight files into OUTDIR, each far smaller than 16 MiB:
#
#   summary.json    every step: passed, failed, skipped or left out, seconds, why
#   machine.json    what the machine is          correctness.json  kernels, sanitizer, training, faults, the Python module
#   pcie.json .svg  `uvatrain bench pcie`        training.json     shares of MPS, epochs, caches, memory over many batches
#   peers.json      others on the same rows      log.txt           what every command printed
#
# --simulate runs the same steps under cuda-sim, with small sizes, on a machine without a GPU: it tests this script, and
# measures nothing. A run may be divided by --only; a step's results replace those in OUTDIR.
# Exit codes: 0 all passed or skipped, 1 something failed, 2 bad usage, 3 there is no GPU.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)
command -v python3 >/dev/null || { echo "gpu-suite: python3 is needed" >&2; exit 3; }
# Neither torch's presence nor its absence is this line's to judge: the steps that need it say so.
torch=$(python3 -c 'import importlib.util as u; s = u.find_spec("torch"); print(s.submodule_search_locations[0] if s else "")' 2>/dev/null || true)
export GPU_SUITE_TORCH=$torch
exec python3 -B "$here/gpu_suite.py" "$@"
