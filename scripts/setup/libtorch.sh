#!/usr/bin/env bash
# Makes `.libtorch` in this checkout lead to libtorch 2.11.0, so that plain `cargo build` finds it
# (.cargo/config.toml names .libtorch/torch). The first of these that applies is used:
#
#   LIBTORCH=DIR             the folder `torch` of a PyTorch 2.11 installation, or an unpacked libtorch
#   LIBTORCH_USE_PYTORCH=1   the PyTorch 2.11 that `python3` imports
#   otherwise                a cache folder filled once from three PyPI wheels, about 1.1 GB unpacked:
#                            ${UVATRAIN_CACHE:-${XDG_CACHE_HOME:-~/.cache}/uvatrain}/libtorch-2.11.0
#
# The wheels (scripts/setup/wheels.sh) are for one fixed Python, whichever runs here: only their C++ headers and libraries
# are used. A second run changes nothing and uses no network. Several runs at once are safe: the cache folder and the
# link appear by rename.
set -euo pipefail

readonly TORCH_VERSION=2.11.0
# libtorch_cpu.so of the CUDA 13 wheel needs libcudart and libcupti even on a machine without a GPU.
readonly WHEELS=("nvidia-cuda-runtime==13.0.96" "nvidia-cuda-cupti==13.0.85" "torch==$TORCH_VERSION")

# Headers, libraries and licences; the Python files of the wheel are not needed.
readonly KEPT='name.startswith(("torch/include/", "torch/lib/", "torch/version.py", "nvidia/")) or ".dist-info/" in name'
# Only C++ is used of them, so any one Python does.
readonly PIP_TAGS=(--implementation cp --python-version 3.11 --abi cp311)

label=libtorch
what=libtorch
checkout=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd -P)
cache=${UVATRAIN_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/uvatrain}
installed=$cache/libtorch-$TORCH_VERSION
# shellcheck source=scripts/setup/wheels.sh
source "$(dirname "${BASH_SOURCE[0]}")/wheels.sh"

check_unpacked() { check_torch "$1/torch" "the downloaded wheels"; }

# Refuses a folder that is not libtorch 2.11 with headers; the wheel keeps its version in version.py, a libtorch
# archive in build-version.
check_torch() {
  local folder=$1 origin=$2 version=
  [[ -e $folder/lib/libtorch_cpu.so ]] || fail "$origin: $folder/lib/libtorch_cpu.so does not exist"
  [[ -e $folder/include/torch/csrc/api/include/torch/torch.h ]] ||
    fail "$origin: $folder has no C++ headers (include/torch/csrc/api/include/torch/torch.h)"
  if [[ -e $folder/version.py ]]; then
    version=$(sed -n "s/^__version__ = ['\"]\([^'\"]*\)['\"].*/\1/p" "$folder/version.py")
  elif [[ -e $folder/build-version ]]; then
    version=$(<"$folder/build-version")
  fi
  case $version in
    2.11.* | "") ;;
    *) fail "$origin: $folder is PyTorch $version, and 2.11 is needed" ;;
  esac
}

# Points .libtorch at the folder that holds `torch`, replacing what was there in one step.
link_to() {
  local torch=$1 link=$checkout/.libtorch next=$checkout/.libtorch.$$
  local parent
  parent=$(dirname "$torch")
  if [[ $(basename "$torch") == torch ]]; then
    [[ -L $link && $(readlink "$link") == "$parent" ]] && return
    ln -s "$parent" "$next"
  else
    # An unpacked libtorch archive has another name: a folder with a link called `torch` in it.
    [[ ! -L $link && $(readlink "$link/torch" 2>/dev/null) == "$torch" ]] && return
    mkdir "$next"
    ln -s "$torch" "$next/torch"
  fi
  if [[ ! -L $link && -d $link ]] || [[ -d $next && ! -L $next ]]; then rm -rf "$link"; fi
  mv -T "$next" "$link"
}

# Under cargo LIBTORCH is our own link: no wish of the user's. Links are not followed, as what it leads to may be one.
if [[ -n ${LIBTORCH:-} && $(realpath -ms "$LIBTORCH") != "$checkout/.libtorch/torch" ]]; then
  torch=$(realpath -m "$LIBTORCH")
  check_torch "$torch" LIBTORCH
  link_to "$torch"
  say "using $torch (LIBTORCH)"
elif [[ ${LIBTORCH_USE_PYTORCH:-0} == 1 ]]; then
  torch=$(python3 -c 'import importlib.util as u; s = u.find_spec("torch"); print(s.submodule_search_locations[0] if s else "")') ||
    fail "LIBTORCH_USE_PYTORCH=1: python3 could not be run"
  [[ -n $torch ]] || fail "LIBTORCH_USE_PYTORCH=1: python3 ($(command -v python3)) has no package torch"
  check_torch "$torch" LIBTORCH_USE_PYTORCH
  link_to "$torch"
  say "using $torch (LIBTORCH_USE_PYTORCH)"
else
  fill_once
  link_to "$installed/torch"
  say "$how $installed"
fi
