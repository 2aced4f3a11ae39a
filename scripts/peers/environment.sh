#!/usr/bin/env bash
# Fills a cache folder with a peer that scripts/peers/compare.sh measures, and prints the path of its python on stdout:
#
#   scripts/peers/environment.sh dgl    DGL 2.1.0 with GraphBolt, over the newest torch that its libraries fit, 2.2.1:
#                                       2.4 GB to download, 4.8 GB unpacked. Python 3.11 or 3.12.
#   scripts/peers/environment.sh pyg    torch-sparse over the torch 2.11 and PyG 2.8 of scripts/setup/python.sh; built from
#                                       source with a C++ compiler, some minutes on two cores.
#   scripts/peers/environment.sh pyg-lib   pyg-lib's samplers over the same; PyPI has no pyg-lib, so the first time
#                                       PYG_LIB_SOURCE names a checkout of pyg-team/pyg-lib with its submodule
#                                       parallel-hashmap, which is built with a C++ compiler, minutes on one core.
#   scripts/peers/environment.sh kumo   the relational engine of NVIDIA's Kumo, 75 MB to download.
#
# packages/ lists the packages; the cache folder's name contains a hash of the list:
#
#   ${UVATRAIN_CACHE:-${XDG_CACHE_HOME:-~/.cache}/uvatrain}/peers/dgl-3.11-0123456789ab/bin/python3
#
# A second run changes nothing and uses no network. Several runs at once are safe, and so is one that is killed. If something
# is missing, the script says so and exits with 3.
set -euo pipefail

peers=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)
checkout=${peers%/scripts/peers}
peer=${1:-}
list=$peers/packages/$peer.txt
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

fill_kumo() {
  "$python" -m venv "$root" >&2 || fail "$python has no module venv: install it (apt install python3-venv)"
  install --only-binary=:all: --requirement "$list" || fail "could not install what $list lists; the lines above say why"
  "$root/bin/python3" -c 'import kumo_relational_engine.relationallib' >&2 ||
    fail "what was installed cannot be imported; the lines above say why"
}

# An environment of the same packages, to which more can be added. scripts/setup/python.sh does not install torch's headers;
# libtorch of the same version has them.
extend_base() {
  local purelib='import sysconfig; print(sysconfig.get_path("purelib"))'
  command -v c++ >/dev/null || fail "$1 is built from source: install a C++ compiler (apt install g++)"
  "$checkout/scripts/setup/libtorch.sh"
  libtorch=$checkout/.libtorch/torch
  "$base" -m venv --without-pip "$root" >&2
  site=$("$root/bin/python3" -c "$purelib")
  "$base" -c "$purelib" >"$site/base.pth"
}

# Without METIS and the operators of layers, which need more sources and most of the time: what samples, and the sort that PyG
# makes its lists with. The options are those of pyg-lib's own release build.
fill_pyg-lib() {
  local source=${PYG_LIB_SOURCE:-} csrc
  [[ -f $source/third_party/parallel-hashmap/parallel_hashmap/phmap.h ]] ||
    fail "PyPI has no pyg-lib: set PYG_LIB_SOURCE to a checkout of pyg-team/pyg-lib with third_party/parallel-hashmap"
  extend_base pyg-lib
  say "building pyg-lib's samplers, some minutes on one core and 4 GB of memory, once"
  cp -R "$source/pyg_lib" "$site/"
  csrc=$site/pyg_lib/csrc
  sed 's/@WITH_MKL_BLAS@/0/; s/@NO_METIS@/1/' "$csrc/config.h.in" >"$csrc/config.h"
  # As one file, since torch's headers are most of the work.
  printf '#include "%s"\n' "$csrc"/library.cpp "$csrc"/{sampler,sampler/cpu,random/cpu,utils}/*.cpp \
    "$csrc"/ops/{index_sort,cpu/index_sort_kernel}.cpp >"$partial/all.cpp"
  c++ -O3 -DNDEBUG -std=c++20 -fPIC -fopenmp -w -I"$site" -I"$source/third_party/parallel-hashmap" -I"$libtorch/include" \
    -I"$libtorch/include/torch/csrc/api/include" -shared -o "$site/pyg_lib/libpyg.so" "$partial/all.cpp" -L"$libtorch/lib" \
    -ltorch -ltorch_cpu -lc10 >&2 || fail "pyg-lib did not build; the lines above say why"
  rm -r "$csrc"
  "$root/bin/python3" -c 'import torch_geometric.typing as of; assert of.WITH_PYG_LIB' >&2 ||
    fail "what was built cannot be imported; the lines above say why"
}

fill_pyg() {
  local source build include
  extend_base torch-sparse
  include=$libtorch/include
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
  dgl | kumo) python=${UVATRAIN_PYTHON:-python3} ;;
  pyg | pyg-lib) python=$("$checkout/scripts/setup/python.sh") base=$python ;;
  *) echo "environment.sh: invalid peer '$peer': expected dgl, pyg, pyg-lib or kumo" >&2 && exit 2 ;;
esac
version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])') || fail "$python could not be run"
[[ -n ${base:-} || $version == 3.11 || $version == 3.12 ]] ||
  fail "$python is Python $version, and $peer's packages are listed for 3.11 and 3.12: set UVATRAIN_PYTHON to another"
# PyG's environments extend another one, whose folder's name identifies its content. pyg-lib has no list: its first source stays.
hash=$({ if [[ -e $list ]]; then cat "$list"; fi && echo "${base:-}"; } | sha256sum)
installed=$cache/$peer-$version-${hash:0:12}
fill_once
say "$how $installed"
echo "$installed/bin/python3"
