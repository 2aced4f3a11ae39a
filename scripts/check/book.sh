#!/usr/bin/env bash
# Builds the pages of docs/ as a book in target/book. Fails where mdBook warns, a link of the book leads nowhere, the
# glossary has a fault, or docs/reference/results.md shows other figures than docs/results/.
# mdBook is built once, without its server and optimisation, into
# ${UVATRAIN_CACHE:-${XDG_CACHE_HOME:-~/.cache}/uvatrain}/mdbook-VERSION.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/../.."

readonly VERSION=0.5.4
cache=${UVATRAIN_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/uvatrain}
installed=$cache/mdbook-$VERSION

if [[ ! -x $installed/bin/mdbook ]]; then
  printf 'book: building mdBook %s into %s\n' "$VERSION" "$installed" >&2
  mkdir -p "$cache"
  building=$(mktemp -d "$cache/mdbook-$VERSION.partial-XXXXXX")
  trap 'rm -rf "$building"' EXIT
  # A temporary target folder, which is removed afterwards.
  CARGO_TARGET_DIR=$building/target CARGO_PROFILE_DEV_DEBUG=0 cargo install --debug --quiet --locked --root "$building/root" \
    --no-default-features --features search "mdbook@$VERSION"
  # If another run has installed it meanwhile, this one uses that, and the trap removes this build.
  mv -T "$building/root" "$installed" 2>/dev/null || [[ -x $installed/bin/mdbook ]]
fi

scripts/check/results.py
said=$("$installed/bin/mdbook" build 2>&1) || { printf '%s\n' "$said" >&2; exit 1; }
if grep -E '^ *(WARN|ERROR)|\[(WARN|ERROR)\]' <<<"$said" >&2; then
  printf 'book: mdBook printed the warnings above\n' >&2
  exit 1
fi
python3 scripts/check/book-links.py target/book docs
python3 scripts/check/glossary.py docs
printf 'book: target/book/index.html\n'
