#!/usr/bin/env bash
# Checks that the workspace compiles with the oldest release of each dependency that its Cargo.toml allows. Indirect
# dependencies have the newest compatible versions.
#
#   scripts/check/minimal-versions.sh
#
# Works in a copy of the checkout, so Cargo.lock does not change, and compiles into target/minimal-versions. Requires git
# and the registry. Works with any stable Rust.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/../.."
if (($#)); then
  [[ $1 == -h || $1 == --help ]] && { sed -n '2,/^set /{/^#/s/^# \{0,1\}//p}' "$0"; exit 0; }
  echo "minimal-versions: there is no option $1" >&2
  exit 2
fi

scripts/setup/libtorch.sh
export LIBTORCH=$PWD/.libtorch/torch
target=$(cargo metadata --format-version 1 --no-deps | sed 's/.*"target_directory":"\([^"]*\)".*/\1/')/minimal-versions
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
git ls-files -z --cached --others --exclude-standard |
  tar --create --null --files-from=- | tar --extract --directory "$copy"

cd "$copy"
# The one step that stable Rust keeps from users: the choice of old releases. Compiling is as always.
RUSTC_BOOTSTRAP=1 cargo update -Z direct-minimal-versions
# All features, as each brings dependencies of its own.
cargo check --locked --workspace --all-targets --all-features --target-dir "$target"
