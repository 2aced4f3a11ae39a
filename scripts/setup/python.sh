#!/usr/bin/env bash
# Fills a cache folder with the Python that the module's tests run in, and prints the path of its python on stdout:
#
#   ${UVATRAIN_CACHE:-${XDG_CACHE_HOME:-~/.cache}/uvatrain}/python-3.11-0123456789ab/bin/python3
#
# It has what scripts/setup/python-environment.txt lists (torch 2.11, PyG 2.8, numpy, pytest, Lightning, a kernel of
# Jupyter's, mypy, maturin), and none of the packages of the Python that creates it. That Python is `python3`, or the one that
# UVATRAIN_PYTHON names; 3.10 to 3.13. The folder's name holds a hash of the list: another list gets another folder. About 2 GB to
# download and 3.2 GB unpacked. Bytecode is included: an import of torch takes twice as long without it, and dozens of
# tests start a Python of their own.
#
# A second run changes nothing and uses no network. Several runs at once are safe, and so is one that is killed.
# Wheels in the cache's folder `wheels` are used first; if all are there, neither pip nor a network is needed. Do not install
# packages into the environment: scripts/check/python.sh adds the module on the path.
#
# If something is missing, the script says how to get it and exits with 3.
set -euo pipefail

readonly LIST=$(dirname "${BASH_SOURCE[0]}")/python-environment.txt
# Not unpacked: C++ headers, tests' programs, and what only a GPU would load. cuDNN's first library, which torch is
# linked to, is there; the rest of cuDNN is a quarter of everything.
readonly KEPT='not (name.startswith(("torch/include/", "torch/bin/", "torch/share/", "nvidia/cudnn/include/"))
  and name != "torch/bin/torch_shm_manager"
  or "/libcudnn_" in name or "/libnvperf_" in name or name.endswith((".a", ".bc"))
  or name.startswith("nvidia/nvshmem/") and not ("/libnvshmem_host" in name or name.endswith(".py")))'

label=python
what="the Python environment"
cache=${UVATRAIN_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/uvatrain}
# shellcheck source=scripts/setup/wheels.sh
source "$(dirname "${BASH_SOURCE[0]}")/wheels.sh"

python=${UVATRAIN_PYTHON:-python3}
command -v "$python" >/dev/null || fail "there is no $python: install Python 3.10 or later (apt install python3)"
version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])') || fail "$python could not be run"
case $version in
  3.10 | 3.11 | 3.12 | 3.13) ;;
  *) fail "$python is Python $version, and the tests' packages are there for 3.10 to 3.13: name another by UVATRAIN_PYTHON" ;;
esac
hash=$({ cat "$LIST" && echo "$KEPT"; } | sha256sum)
installed=$cache/python-$version-${hash:0:12}

# Instead of wheels.sh's own: a virtual environment, whose packages pip finds again. Its python is a link to the real
# one and its programs search their own folder for it, so that the environment may be renamed.
fill() {
  local partial=$installed.partial-$$ pip_python missing folder
  rm -rf "$installed".partial-*
  trap 'rm -rf "$installed.partial-$$"' EXIT
  mkdir -p "$partial/wheels"
  missing=$("$python" "${BASH_SOURCE[0]%/*}/unpack-wheels.py" missing "$LIST" "$cache/wheels") || fail "could not read $LIST"
  if [[ -n $missing ]]; then
    pip_python=$(python_with_pip "$partial") || fail "$python has neither pip nor venv, and they are needed once to" \
      "download $what: install python3-pip (apt install python3-pip), or put the wheels of $LIST into $cache/wheels"
    say "downloading $(wc -w <<<"$missing") wheels for Python $version"
    # Word splitting is meant: one requirement a line.
    # shellcheck disable=SC2086
    TMPDIR=$partial PIP_REQUIRE_VIRTUALENV=false PIP_DISABLE_PIP_VERSION_CHECK=1 "$pip_python" -m pip download --quiet \
      --no-deps --no-cache-dir --only-binary=:all: --dest "$partial/wheels" $missing >&2 ||
      fail "could not download $what; run again when the network is there, or put its wheels into $cache/wheels"
  fi
  "$python" -m venv --without-pip "$partial/root" >&2 ||
    fail "$python has no module venv: install it (apt install python3-venv)"
  say "unpacking into $installed"
  "$python" "${BASH_SOURCE[0]%/*}/unpack-wheels.py" unpack "$LIST" "$partial/root" "$KEPT" "$partial/wheels" "$cache/wheels" ||
    fail "could not unpack the wheels (disk full, or a damaged file)"
  "$partial/root/bin/python3" -c 'import torch, torch_geometric, numpy, networkx, pytest
import ipykernel, lightning, mypy, nbclient' >&2 ||
    fail "what was unpacked cannot be imported; the lines above say why"
  # What `pip install ./crates/uva-py` gets for itself, so that it needs no network either.
  mkdir "$partial/root/wheels"
  for folder in "$partial/wheels" "$cache/wheels"; do
    cp -n "$folder"/{maturin,tomli}-*.whl "$partial/root/wheels" 2>/dev/null || true
  done
  mv -T "$partial/root" "$installed"
}

compiled() { [[ -e $installed/bytecode ]]; }
# Hashes in place of times, and unchecked: a cache that is copied stays valid, and the packages never change.
compile_packages() {
  say "compiling the packages to bytecode"
  # A few files of the packages are templates or for other Pythons, and do not compile.
  "$installed/bin/python3" -m compileall -qq -j 0 --invalidation-mode unchecked-hash \
    "$installed/lib/python$version/site-packages" >/dev/null || true
  touch "$installed/bytecode"
}

# Its python is a link to one of the system's, which may have been removed. Checked again under the lock, since another run
# may have refilled it.
gone() { [[ -d $installed ]] && ! "$installed/bin/python3" -c pass 2>/dev/null; }
if gone; then
  lock
  if gone; then
    say "$installed no longer runs (its Python was removed): filling it again"
    rm -rf "$installed"
  fi
fi
fill_once
if ! compiled; then
  lock
  compiled || compile_packages
fi
say "$how $installed"
echo "$installed/bin/python3"
