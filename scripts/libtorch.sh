#!/usr/bin/env bash
# Makes `.libtorch` in this checkout lead to libtorch 2.11.0, so that plain `cargo build` finds it
# (.cargo/config.toml names .libtorch/torch). The first of these that applies is used:
#
#   LIBTORCH=DIR             the folder `torch` of a PyTorch 2.11 installation, or an unpacked libtorch
#   LIBTORCH_USE_PYTORCH=1   the PyTorch 2.11 that `python3` imports
#   otherwise                a cache folder filled once from three PyPI wheels, about 1.1 GB unpacked:
#                            ${UVATRAIN_CACHE:-${XDG_CACHE_HOME:-~/.cache}/uvatrain}/libtorch-2.11.0
#
# The wheels are downloaded by pip, or taken from the cache's folder `wheels` where somebody has put them there
# (a machine without a network). The wheels are for one fixed Python, whichever runs here: only their C++ headers
# and libraries are used. A second run changes nothing and uses no network. Several runs at once are safe: the
# cache folder and the link appear by rename.
set -euo pipefail

readonly TORCH_VERSION=2.11.0
# libtorch_cpu.so of the CUDA 13 wheel needs libcudart and libcupti even on a machine without a GPU.
# Small ones first, so that a network that fails fails early.
readonly WHEELS=("nvidia-cuda-runtime==13.0.96" "nvidia-cuda-cupti==13.0.85" "torch==$TORCH_VERSION")

checkout=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
cache=${UVATRAIN_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/uvatrain}
installed=$cache/libtorch-$TORCH_VERSION

say() { printf 'libtorch: %s\n' "$*" >&2; }
fail() { say "$*"; exit 3; }

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

# A python with pip: the one there is, else a throw-away venv in $1.
python_with_pip() {
  if python3 -m pip --version >/dev/null 2>&1; then
    echo python3
  elif python3 -m venv "$1/venv" >/dev/null 2>&1 && "$1/venv/bin/python3" -m pip --version >/dev/null 2>&1; then
    echo "$1/venv/bin/python3"
  else
    return 1
  fi
}

download() {
  local requirement=$1 folder=$2 machine pip_python platform
  local -a platforms=()
  machine=$(uname -m)
  # One tag each: pip does not conclude from manylinux_2_28 that older ones fit too.
  for platform in manylinux_2_28 manylinux_2_25 manylinux_2_17 manylinux2014; do
    platforms+=(--platform "${platform}_$machine")
  done
  pip_python=$(python_with_pip "$folder") || fail "python3 has neither pip nor venv, and they are needed once to" \
    "download libtorch: install python3-pip (apt install python3-pip), or put the wheels of ${WHEELS[*]} into $cache/wheels"
  say "downloading $requirement"
  PIP_REQUIRE_VIRTUALENV=false PIP_DISABLE_PIP_VERSION_CHECK=1 "$pip_python" -m pip download --quiet --no-deps \
    --no-cache-dir --only-binary=:all: --implementation cp --python-version 3.11 --abi cp311 "${platforms[@]}" \
    --dest "$folder/wheels" "$requirement" >&2 ||
    fail "could not download $requirement; run again when the network is there, or put its wheel into $cache/wheels"
}

# Fills the cache folder: everything is unpacked beside it, then renamed.
install() {
  local partial=$installed.partial-$$ requirement pattern
  local -a found wheels=()
  command -v python3 >/dev/null || fail "python3 is needed once to download and unpack libtorch"
  # Nobody else works here while we hold the lock: what lies about is from a run that was killed.
  rm -rf "$installed".partial-*
  trap 'rm -rf "$installed.partial-$$"' EXIT
  mkdir -p "$partial/wheels" "$partial/root"
  for requirement in "${WHEELS[@]}"; do
    pattern=${requirement/==/-}
    pattern=${pattern%-*}
    pattern=${pattern//-/_}-${requirement#*==}-*$(uname -m).whl
    found=("$cache/wheels"/$pattern)
    if [[ ! -e ${found[0]} ]]; then
      TMPDIR=$partial download "$requirement" "$partial"
      found=("$partial/wheels"/$pattern)
    fi
    [[ -e ${found[0]} ]] || fail "pip downloaded no file named $pattern"
    wheels+=("${found[0]}")
  done
  say "unpacking into $installed"
  # Headers, libraries and licences; the Python half of the wheel is of no use here. Reading a member checks its CRC.
  python3 - "$partial/root" "${wheels[@]}" <<'PYTHON' || fail "could not unpack the wheels (disk full, or a damaged file)"
import sys, zipfile
kept = ("torch/include/", "torch/lib/", "torch/version.py", "nvidia/")
for wheel in sys.argv[2:]:
    try:
        with zipfile.ZipFile(wheel) as archive:
            names = [n for n in archive.namelist() if n.startswith(kept) or ".dist-info/" in n]
            archive.extractall(sys.argv[1], names)
    except (OSError, zipfile.BadZipFile) as error:
        sys.exit(f"libtorch: {wheel}: {error}")
PYTHON
  check_torch "$partial/root/torch" "the downloaded wheels"
  mv -T "$partial/root" "$installed"
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
  how="using"
  if [[ ! -d $installed ]]; then
    mkdir -p "$cache"
    if command -v flock >/dev/null; then
      exec 9>"$cache/libtorch.lock"
      flock 9
    fi
    if [[ ! -d $installed ]]; then
      install
      how="installed"
    fi
  fi
  link_to "$installed/torch"
  say "$how $installed"
fi
