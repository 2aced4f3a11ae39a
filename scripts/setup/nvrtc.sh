#!/usr/bin/env bash
# Puts NVRTC 13.0.88 and the two tools that read its machine code (nvdisasm, cuobjdump) where uvatrain and
# scripts/check/kernels.py look for them, about 115 MB unpacked:
#
#   ${UVATRAIN_CACHE:-${XDG_CACHE_HOME:-~/.cache}/uvatrain}/nvrtc-13.0.88/nvidia/cu13/{lib,bin}
#
# They come from three PyPI wheels (scripts/setup/wheels.sh). No GPU and no CUDA installation is needed. A second run changes
# nothing and uses no network. Several runs at once are safe.
set -euo pipefail

readonly NVRTC_VERSION=13.0.88
# PyPI has the tools since 13.2 only; they read what every NVRTC 13 writes.
readonly WHEELS=("nvidia-cuda-cuobjdump==13.2.51" "nvidia-cuda-nvdisasm==13.2.51" "nvidia-cuda-nvrtc==$NVRTC_VERSION")
# Without the alternative builds of the libraries, which are not used.
readonly KEPT='".alt.so" not in name'
readonly PIP_TAGS=()

label=nvrtc
what=NVRTC
cache=${UVATRAIN_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/uvatrain}
installed=$cache/nvrtc-$NVRTC_VERSION
# shellcheck source=scripts/setup/wheels.sh
source "$(dirname "${BASH_SOURCE[0]}")/wheels.sh"

check_unpacked() {
  local file
  for file in lib/libnvrtc.so.13 lib/libnvrtc-builtins.so.13.0 bin/nvdisasm bin/cuobjdump; do
    [[ -e $1/nvidia/cu13/$file ]] || fail "the wheels have no nvidia/cu13/$file"
  done
  # A wheel keeps which files are programs in a place that zipfile does not look at.
  chmod +x "$1/nvidia/cu13/bin"/*
}

fill_once
say "$how $installed"
