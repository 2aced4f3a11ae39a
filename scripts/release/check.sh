#!/usr/bin/env bash
# Runs the checks of a release (docs/reference/stability.md) that a script can do. scripts/test.sh runs the tests.
#
#   scripts/release/check.sh [--unreleased] [--verify]
#
#   --unreleased   between releases: the changelog may lack the version's section, and the checkout may have changes
#   --verify       also builds each crate from its package, which requires libtorch and takes half an hour
#
# Skips the step of a tool that is not installed (cargo-deny, pyright, actionlint, hadolint, systemd-analyze) and names
# the tool. Runs all steps, then exits with 1 if one failed.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/../.."
unreleased=() verify=(--no-verify)
while (($#)); do
  case $1 in
    --unreleased) unreleased=(--unreleased) ;;
    --verify) verify=() ;;
    -h | --help) sed -n '2,/^set /{/^#/s/^# \{0,1\}//p}' "$0"; exit 0 ;;
    *) echo "release: unknown option $1" >&2; exit 2 ;;
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
# A step whose program is optional.
step_by() {
  local name=$1 program=$2
  shift 2
  if command -v "$program" >/dev/null; then
    step "$name" "$@"
  else
    printf '\n== %s: skipped: %s is not installed\n' "$name" "$program"
  fi
}
clean_checkout() {
  local changes
  changes=$(git status --porcelain)
  [[ -z $changes ]] || { printf 'release: the checkout has changes:\n%s\n' "$changes" >&2; return 1; }
}
# Checks the unit in mps/ with systemd. NVIDIA's program is replaced, because it may not be installed.
unit() {
  local folder ended=0
  folder=$(mktemp -d)
  sed 's|/usr/bin/nvidia-cuda-mps-control|/bin/true|' mps/nvidia-mps.service >"$folder/nvidia-mps.service"
  # --recursive-errors=yes makes ignored lines errors.
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
# Packs every crate in the order of publication, without uploading.
step "cargo publish" cargo publish --workspace --dry-run --locked "${verify[@]}" "${dirty[@]}"
step "least versions" scripts/check/minimal-versions.sh
step "wheels" scripts/release/wheels.py --try
step_by "licences and sources of dependencies" cargo-deny cargo deny --offline check licenses bans sources
# The module's tests run mypy.
step_by "types" pyright scripts/check/types.sh pyright
step_by "workflows" actionlint actionlint
step_by "Dockerfiles" hadolint hadolint --config packaging/docker/hadolint.yaml packaging/docker/*.Dockerfile
step_by "systemd unit" systemd-analyze unit

if ((${#failed[@]})); then
  printf '\n== FAILED: %s\n' "${failed[@]}" >&2
  exit 1
fi
printf '\n== all checks passed\n'
