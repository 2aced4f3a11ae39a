#!/usr/bin/env bash
# The checklist of a release (docs/reference/stability.md): what a script can look at. Tests are another matter: scripts/test.sh.
#
#   scripts/release/check.sh [--unreleased] [--verify]
#
#   --unreleased   between releases: the changelog may say Unreleased, and the checkout may have changes
#   --verify       builds each crate out of its package, as whoever depends on it does: libtorch is needed, and half an hour
#
# A tool that is not installed is named, and its step left out: cargo-deny, pyright, actionlint, hadolint, systemd-analyze.
# Any other thing that is wrong ends the script with 1, after all steps.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/../.."
unreleased=() verify=(--no-verify)
while (($#)); do
  case $1 in
    --unreleased) unreleased=(--unreleased) ;;
    --verify) verify=() ;;
    -h | --help) sed -n '2,/^set /{/^#/s/^# \{0,1\}//p}' "$0"; exit 0 ;;
    *) echo "release: there is no option $1" >&2; exit 2 ;;
  esac
  shift
done

failed=()
step() {
  local name=$1
  shift
  printf '\n== %s: %s\n' "$name" "$*"
  "$@" || failed+=("$name")
}
# A step by a program that not every machine has.
step_by() {
  local name=$1 program=$2
  shift 2
  if command -v "$program" >/dev/null; then
    step "$name" "$@"
  else
    printf '\n== %s: left out, as %s is not installed\n' "$name" "$program"
  fi
}
clean_checkout() {
  local changes
  changes=$(git status --porcelain)
  [[ -z $changes ]] || { printf 'release: the checkout has changes:\n%s\n' "$changes" >&2; return 1; }
}
# The unit in mps/ as systemd reads it. Its program is NVIDIA's, which this machine need not have.
unit() {
  local folder ended=0
  folder=$(mktemp -d)
  sed 's|/usr/bin/nvidia-cuda-mps-control|/bin/true|' mps/nvidia-mps.service >"$folder/nvidia-mps.service"
  # Without the last option a line that systemd would ignore is no error.
  XDG_RUNTIME_DIR=$folder systemd-analyze verify --user --man=no --recursive-errors=yes \
    "$folder/nvidia-mps.service" || ended=1
  rm -rf "$folder"
  return "$ended"
}

declare -a dirty=(--allow-dirty)
if ((!${#unreleased[@]})); then
  dirty=()
  step "checkout" clean_checkout
fi
step "packages" scripts/release/packages.py "${unreleased[@]}"
step "book" scripts/check/book.sh
# Every crate, in the order in which they are published; nothing is sent.
step "cargo publish" cargo publish --workspace --dry-run --locked "${verify[@]}" "${dirty[@]}"
step "least versions" scripts/check/minimal-versions.sh
step "wheels" scripts/release/wheels.py --try
step_by "licences and sources of dependencies" cargo-deny cargo deny --offline check licenses bans sources
# mypy's part is a test of the module.
step_by "types" pyright scripts/check/types.sh pyright
step_by "workflows" actionlint actionlint
step_by "Dockerfiles" hadolint hadolint --config packaging/docker/hadolint.yaml packaging/docker/*.Dockerfile
step_by "systemd unit" systemd-analyze unit

if ((${#failed[@]})); then
  printf '\n== FAILED: %s\n' "${failed[@]}" >&2
  exit 1
fi
printf '\n== the checklist is through\n'
