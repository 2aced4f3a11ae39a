#!/usr/bin/env bash
# Puts NVRTC 13.0.88 and the two tools that read its machine code (nvdisasm, cuobjdump) where uvatrain and
# scripts/check-kernels.py look for them, about 115 MB unpacked:
#
#   ${UVATRAIN_CACHE:-${XDG_CACHE_HOME:-~/.cache}/uvatrain}/nvrtc-13.0.88/nvidia/cu13/{lib,bin}
#
# They come from three PyPI wheels, downloaded by pip, or taken from the cache's folder `wheels` where somebody has put
# them there (a machine without a network). No GPU and no CUDA installation is needed. A second run changes nothing and
# uses no network. Several runs at once are safe: the folder appears by rename.
set -euo pipefail

readonly NVRTC_VERSION=13.0.88
# PyPI has the tools since 13.2 only; they read what every NVRTC 13 writes. Small ones first, so that a network that
# fails fails early.
readonly WHEELS=("nvidia-cuda-cuobjdump==13.2.51" "nvidia-cuda-nvdisasm==13.2.51" "nvidia-cuda-nvrtc==$NVRTC_VERSION")

cache=${UVATRAIN_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/uvatrain}
installed=$cache/nvrtc-$NVRTC_VERSION

say() { printf 'nvrtc: %s\n' "$*" >&2; }
fail() { say "$*"; exit 3; }

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
  for platform in manylinux_2_28 manylinux_2_25 manylinux_2_17 manylinux2014 manylinux_2_12 manylinux2010; do
    platforms+=(--platform "${platform}_$machine")
  done
  pip_python=$(python_with_pip "$folder") || fail "python3 has neither pip nor venv, and they are needed once to" \
    "download NVRTC: install python3-pip (apt install python3-pip), or put the wheels of ${WHEELS[*]} into $cache/wheels"
  say "downloading $requirement"
  PIP_REQUIRE_VIRTUALENV=false PIP_DISABLE_PIP_VERSION_CHECK=1 "$pip_python" -m pip download --quiet --no-deps \
    --no-cache-dir --only-binary=:all: "${platforms[@]}" --dest "$folder/wheels" "$requirement" >&2 ||
    fail "could not download $requirement; run again when the network is there, or put its wheel into $cache/wheels"
}

# Fills the cache folder: everything is unpacked beside it, then renamed.
install() {
  local partial=$installed.partial-$$ requirement pattern
  local -a found wheels=()
  command -v python3 >/dev/null || fail "python3 is needed once to download and unpack NVRTC"
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
  # Without the second builds of the libraries, which nobody asks for. Reading a member checks its CRC. A wheel keeps
  # which files are programs in a place that zipfile does not look at.
  python3 - "$partial/root" "${wheels[@]}" <<'PYTHON' || fail "could not unpack the wheels (disk full, or a damaged file)"
import sys, zipfile
for wheel in sys.argv[2:]:
    try:
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(sys.argv[1], [name for name in archive.namelist() if ".alt.so" not in name])
    except (OSError, zipfile.BadZipFile) as error:
        sys.exit(f"nvrtc: {wheel}: {error}")
PYTHON
  chmod +x "$partial/root/nvidia/cu13/bin"/*
  for file in lib/libnvrtc.so.13 lib/libnvrtc-builtins.so.13.0 bin/nvdisasm bin/cuobjdump; do
    [[ -e $partial/root/nvidia/cu13/$file ]] || fail "the wheels have no nvidia/cu13/$file"
  done
  mv -T "$partial/root" "$installed"
}

how="using"
if [[ ! -d $installed ]]; then
  mkdir -p "$cache"
  if command -v flock >/dev/null; then
    exec 9>"$cache/nvrtc.lock"
    flock 9
  fi
  if [[ ! -d $installed ]]; then
    install
    how="installed"
  fi
fi
say "$how $installed"
