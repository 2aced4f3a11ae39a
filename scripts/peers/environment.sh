#!/usr/bin/env bash
# Fills a cache folder with a peer that scripts/peers/compare.sh measures, and prints the path of its python on stdout:
#
#   scripts/peers/environment.sh dgl    DGL 2.1.0 with GraphBolt, over the newest torch that its libraries fit, 2.2.1:
#                                       2.4 GB to download, 4.8 GB unpacked. Python 3.11 or 3.12.
#   scripts/peers/environment.sh pyg    torch-sparse over the torch 2.11 and PyG 2.8 of scripts/setup/python.sh; built from
#                                       source with a C++ compiler, some minutes on two cores.
#
# dgl.txt and pyg.txt in this folder list the packages; the cache folder's name contains a hash of the list:
#
#   ${UVATRAIN_CACHE:-${XDG_CACHE_HOME:-~/.cache}/uvatrain}/peers/dgl-3.11-0123456789ab/bin/python3
#
# A second run changes nothing and uses no network. Several runs at once are safe, and so is one that is killed. If something
# is missing, the script says so and exits with 3.
set -euo pipefail

peers=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)
checkout=${peers%/scripts/peers}
peer=${1:-}
list=$peers/$peer.txt
cache=${UVATRAIN_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/uvatrain}/peers
label=$peer
what="the peer $peer"
# shellcheck source=scripts/setup/wheels.sh
source "$checkout/scripts/setup/wheels.sh"
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_REQUIRE_VIRTUALENV=false

install() { "$root/bin/python3" -m pip install --quiet --no-cache-dir --no-deps "$@" >&2; }

fill_dgl() {
  "$python" -m venv "$root" >&2 || fail "$python has no module venv: install it (apt install python3-venv)"
  say "downloading 2.4 GB, once"
  install --only-binary=:all: --requirement "$list" || fail "could not install what $list lists; the lines above say why"
  DGLBACKEND=pytorch "$root/bin/python3" -c 'import dgl.graphbolt' >&2 ||
    fail "what was installed cannot be imported; the lines above say why"
}

# scripts/setup/python.sh does not install torch's headers; libtorch of the same version has them.
fill_pyg() {
  local include=$checkout/.libtorch/torch/include source build
  command -v c++ >/dev/null || fail "torch-sparse is built from source: install a C++ compiler (apt install g++)"
  "$checkout/scripts/setup/libtorch.sh"
  "$base" -m venv --without-pip "$root" >&2
  "$base" -c 'import sysconfig; print(sysconfig.get_path("purelib"))' \
    >"$("$root/bin/python3" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/base.pth"
  grep -v '^torch-' "$list" >"$partial/tools.txt"
  install --only-binary=:all: --requirement "$partial/tools.txt" || fail "could not install what $list lists"
  say "building torch-scatter and torch-sparse, some minutes on two cores, once"
  # Each compiles file by file, so side by side; without what only a debugger needs, which is most of the work.
  export CPATH=$include:$include/torch/csrc/api/include FORCE_ONLY_CPU=1 CFLAGS=-g0
  local -a builds=()
  for source in $(grep '^torch-' "$list"); do
    install --no-build-isolation --no-binary=:all: "$source" &
    builds+=($!)
  done
  for build in "${builds[@]}"; do
    wait "$build" || fail "torch-scatter or torch-sparse did not build; the lines above say why"
  done
  "$root/bin/python3" -c 'import torch_sparse, torch_geometric' >&2 ||
    fail "what was built cannot be imported; the lines above say why"
}

# Instead of wheels.sh's own. Nothing in the folder names its own path but programs that are not used.
fill() {
  partial=$installed.partial-$$ root=$installed.partial-$$/root
  # This run holds the lock, so partial folders are from a killed run.
  rm -rf "$installed".partial-*
  trap 'rm -rf "$installed.partial-$$"' EXIT
  mkdir -p "$partial"
  "fill_$peer"
  mv -T "$root" "$installed"
}

case $peer in
  dgl) python=${UVATRAIN_PYTHON:-python3} ;;
  pyg) python=$("$checkout/scripts/setup/python.sh") base=$python ;;
  *) echo "environment.sh: invalid peer '$peer': expected dgl or pyg" >&2 && exit 2 ;;
esac
version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])') || fail "$python could not be run"
[[ $peer != dgl || $version == 3.11 || $version == 3.12 ]] ||
  fail "$python is Python $version, and DGL's packages are listed for 3.11 and 3.12: set UVATRAIN_PYTHON to another"
# PyG's environment extends another one, whose folder's name identifies its content.
hash=$({ cat "$list" && echo "${base:-}"; } | sha256sum)
installed=$cache/$peer-$version-${hash:0:12}
fill_once
say "$how $installed"
echo "$installed/bin/python3"
