#!/usr/bin/env bash
# Unpacks the real graphs that tests train on, once, into a cache folder, and prints that folder on stdout:
#   ${UVATRAIN_CACHE:-${XDG_CACHE_HOME:-~/.cache}/uvatrain}/datasets/NAME
# The archives are in datasets/ of the folder UVATRAIN_SHARED, or of `shared` next to this checkout. If there is none,
# the script says so and succeeds, and the tests that need the graphs are skipped.
# Unpacking needs numpy: that of python3, or else one in a venv in the cache folder.
set -euo pipefail

checkout=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd -P)
cache=${UVATRAIN_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/uvatrain}
packed=${UVATRAIN_SHARED:-$checkout/../shared}/datasets
readonly NUMPY=2.2.6

say() { printf 'datasets: %s\n' "$*" >&2; }

# A python with numpy: the one there is, else one in a venv that is made once.
python_with_numpy() {
  if python3 -c 'import numpy' 2>/dev/null; then
    echo python3
    return
  fi
  local venv=$cache/numpy-$NUMPY
  if ! "$venv/bin/python3" -c 'import numpy' 2>/dev/null; then
    say "installing numpy $NUMPY into $venv"
    rm -rf "$venv"
    python3 -m venv "$venv" >&2 &&
      "$venv/bin/python3" -m pip install --quiet --disable-pip-version-check --only-binary=:all: "numpy==$NUMPY" >&2 ||
      return 1
  fi
  echo "$venv/bin/python3"
}

if [[ ! -e $packed/unpack.py ]]; then
  say "no packed graphs in $packed: tests on real graphs skip"
  exit 0
fi

mkdir -p "$cache/datasets"
if command -v flock >/dev/null; then
  exec 9>"$cache/datasets.lock"
  flock 9
fi
python=
for archive in "$packed"/*.npz; do
  name=$(basename "$archive" .npz)
  folder=$cache/datasets/$name
  # The archive's and the unpacker's sum: a new version of either is unpacked again.
  sum=$(cat "$archive" "$packed/unpack.py" | sha256sum | cut -d' ' -f1)
  [[ -e $folder/.unpacked-from && $(<"$folder/.unpacked-from") == "$sum" ]] && continue
  if [[ -z $python ]]; then
    python=$(python_with_numpy) || {
      say "numpy is not there and could not be installed: tests on real graphs skip"
      exit 0
    }
  fi
  say "unpacking $name"
  rm -rf "$folder" "$folder".partial-*
  "$python" "$packed/unpack.py" "$archive" "$folder.partial-$$"
  printf '%s\n' "$sum" >"$folder.partial-$$/.unpacked-from"
  mv -T "$folder.partial-$$" "$folder"
done
say "in $cache/datasets"
echo "$cache/datasets"
