#!/usr/bin/env bash
# Fills a cache folder with a Python that has moto, a server that speaks S3, and prints the path of that Python on stdout:
#
#   ${UVATRAIN_CACHE:-${XDG_CACHE_HOME:-~/.cache}/uvatrain}/moto-3.11-0123456789ab/bin/python3
#
# The tests of crates/uva-fetch start the server where UVATRAIN_MOTO_PYTHON names this Python. moto.txt beside this script
# says what is installed, some 30 MB to download and 140 MB unpacked; the folder's name holds a hash of the file. UVATRAIN_PYTHON names
# another Python than python3.
#
# A second run changes nothing and uses no network. Several runs at once are safe, and so is one that is killed. What is
# missing is told, with exit code 3.
set -euo pipefail

setup=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)
list=$setup/moto.txt
cache=${UVATRAIN_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/uvatrain}
label=moto
what="moto, a server of S3"
python=${UVATRAIN_PYTHON:-python3}
# shellcheck source=scripts/setup/wheels.sh
source "$setup/wheels.sh"
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_REQUIRE_VIRTUALENV=false

# Instead of wheels.sh's own. Nothing in the folder names its own path but programs that are not used.
fill() {
  local partial=$installed.partial-$$
  # Nobody else works here while we hold the lock: what lies about is from a run that was killed.
  rm -rf "$installed".partial-*
  trap 'rm -rf "$installed.partial-$$"' EXIT
  "$python" -m venv "$partial" >&2 || fail "$python has no module venv: install it (apt install python3-venv)"
  say "downloading what $list lists, once"
  "$partial/bin/python3" -m pip install --quiet --no-cache-dir --no-deps --only-binary=:all: --requirement "$list" >&2 ||
    fail "could not install what $list lists; the lines above say why"
  "$partial/bin/python3" -c 'import moto.server, moto.s3.responses' >&2 ||
    fail "what was installed cannot be imported; the lines above say why"
  mv -T "$partial" "$installed"
}

version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])') || fail "$python could not be run"
hash=$(sha256sum "$list")
installed=$cache/moto-$version-${hash:0:12}
fill_once
say "$how $installed"
echo "$installed/bin/python3"
