#!/usr/bin/env bash
# Gets all that building, tests and checks need beyond Rust, a C++ compiler and python3, from PyPI into the cache folder
# (${UVATRAIN_CACHE:-~/.cache/uvatrain}). A second run changes nothing.
#
#   scripts/setup.sh              all of it
#   scripts/setup.sh libtorch     what training needs: about 530 MB to download
#   scripts/setup.sh python       PyTorch, PyG, numpy and pytest, for the Python module's tests
#   scripts/setup.sh nvrtc        NVIDIA's run-time compiler, for the kernels' checks
#   scripts/setup.sh datasets     the real graphs that some tests train on, where ../shared has them
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
parts=("$@")
((${#parts[@]})) || parts=(libtorch python nvrtc datasets)
for part in "${parts[@]}"; do
  if [[ ! $part =~ ^(libtorch|python|nvrtc|datasets)$ ]]; then
    printf 'setup: unknown part %s: expected libtorch, python, nvrtc or datasets\n' "$part" >&2
    exit 2
  fi
done
for part in "${parts[@]}"; do
  "scripts/setup/$part.sh"
done
