# Sourced by the scripts that fill a cache folder from PyPI wheels: scripts/setup/libtorch.sh and scripts/setup/nvrtc.sh.
#
# A script sets, before it calls `fill_once`:
#   label      its name in messages                  cache       the cache folder
#   installed  the folder to fill, in the cache      what        what that is, for messages
#   WHEELS     the requirements, NAME==VERSION; small ones first, so that a network that fails fails early
#   KEPT       a python expression over `name` that says which members of a wheel are unpacked
#   PIP_TAGS   more options of `pip download`, where the wheels are for one Python
#   python     the Python that downloads, where it is not python3
# and defines `check_unpacked FOLDER`, which ends the script by `fail` where something is not there.
#
# The wheels are downloaded by pip, or taken from the cache's folder `wheels` if they are there (for a machine without
# a network). Everything is unpacked next to the folder and renamed, so several runs at once are safe.

say() { printf '%s: %s\n' "$label" "$*" >&2; }
fail() { say "$*"; exit 3; }

# Waits until no other run fills the folder, and keeps others waiting until this script ends.
lock() {
  command -v flock >/dev/null || return 0
  exec 9>"$cache/$label.lock"
  flock 9
}

# A python with pip: the one there is, else a throw-away venv in $1.
python_with_pip() {
  local python=${python:-python3}
  if "$python" -m pip --version >/dev/null 2>&1; then
    echo "$python"
  elif "$python" -m venv "$1/venv" >/dev/null 2>&1 && "$1/venv/bin/python3" -m pip --version >/dev/null 2>&1; then
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
    "download $what: install python3-pip (apt install python3-pip), or put the wheels of ${WHEELS[*]} into $cache/wheels"
  say "downloading $requirement"
  PIP_REQUIRE_VIRTUALENV=false PIP_DISABLE_PIP_VERSION_CHECK=1 "$pip_python" -m pip download --quiet --no-deps \
    --no-cache-dir --only-binary=:all: "${PIP_TAGS[@]}" "${platforms[@]}" --dest "$folder/wheels" "$requirement" >&2 ||
    fail "could not download $requirement; run again when the network is there, or put its wheel into $cache/wheels"
}

fill() {
  local partial=$installed.partial-$$ requirement pattern
  local -a found wheels=()
  command -v python3 >/dev/null || fail "python3 is needed once to download and unpack $what"
  # This run holds the lock, so partial folders are from a killed run.
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
  # Reading a member checks its CRC.
  python3 - "$KEPT" "$partial/root" "${wheels[@]}" <<'PYTHON' || fail "could not unpack the wheels (disk full, or a damaged file)"
import sys, zipfile
kept = eval("lambda name: " + sys.argv[1])
for wheel in sys.argv[3:]:
    try:
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(sys.argv[2], [name for name in archive.namelist() if kept(name)])
    except (OSError, zipfile.BadZipFile) as error:
        sys.exit(f"{wheel}: {error}")
PYTHON
  check_unpacked "$partial/root"
  mv -T "$partial/root" "$installed"
}

# Fills the folder unless it is there. Says in `how` which it was.
fill_once() {
  how="using"
  [[ -d $installed ]] && return
  mkdir -p "$cache"
  lock
  if [[ ! -d $installed ]]; then
    fill
    how="installed"
  fi
}
