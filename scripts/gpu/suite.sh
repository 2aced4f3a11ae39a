#!/usr/bin/env bash
# Runs the tests and measurements that require a GPU, in parts of at most ten minutes each: correctness first.
#
#   suite.sh OUTDIR [--profile NAME] [--state DIR] [--bin DIR] [--only STEP,…] [--without STEP,…] [--with-faults]
#                       [--seconds N] [--step-seconds N] [--list] [--simulate]
#
# Needs python3 and the folder that scripts/gpu/carry.sh made (this script lies in it), no Rust. libtorch is that of the
# python3 that imports torch. --profile is one of these, each done within 500 s:
#
#   smoke     is the path alive: the link, the wide kernel against a plain loop, an epoch by each partition, MPS last
#   correct   every kernel, sampler, model and way of training against the CPU, the Python module, compute-sanitizer
#   measure   `bench pcie`, shares of MPS, epochs, caches, memory over many batches
#   peers     others on the same rows, and PyG's loader under the same model: `carry.sh --peers` carries what they need
#
# and `all`, the default, is the four in this order. --with-faults also kills roles in the middle of runs, after all other
# steps: under MPS that can leave the GPU unusable for later programs.
#
# OUTDIR gets two files: summary.json has the state of every step (passed, failed, skipped, left out or unfinished);
# results.tar.gz has the figures and the output of every command. A step that exceeds its time is unfinished, which is not a
# failure. DIR of --state keeps the results of one call for the next one, which adds to them: OUTDIR may differ each time,
# or be emptied between them.
#
# --simulate runs the same steps under cuda-sim, with small sizes, on a machine without a GPU. It tests this script and does
# not measure.
# Exit codes: 0 nothing failed, 1 something failed, 2 bad usage, 3 no GPU.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)
command -v python3 >/dev/null || { echo "suite: python3 is needed" >&2; exit 3; }
# Renamed when complete.
if [[ -e $here/programs.tar.xz && ! -e $here/bin ]]; then
  unpacked=$(mktemp -d "$here/unpacked-XXXXXX")
  python3 -c 'import sys, tarfile; tarfile.open(sys.argv[1]).extractall(sys.argv[2], filter="fully_trusted")' \
    "$here/programs.tar.xz" "$unpacked"
  mv "$unpacked"/* "$here/"
  rmdir "$unpacked"
fi
# While no process has the driver open, it initialises the device for each new process, which takes seconds.
for device in /dev/nvidia[0-9]; do
  if [[ -r $device ]]; then
    { exec 9<"$device"; } 2>/dev/null || true
    break
  fi
done
# Neither torch's presence nor its absence is this line's to judge: the steps that need it say so.
torch=$(python3 -c 'import importlib.util as u; s = u.find_spec("torch"); print(s.submodule_search_locations[0] if s else "")' 2>/dev/null || true)
export GPU_SUITE_TORCH=$torch
exec python3 -B "$here/suite" "$@"
