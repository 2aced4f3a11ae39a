#!/usr/bin/env bash
# A complete run on one machine: installs libtorch, builds, generates a graph of 200,000 nodes and about 4 million edges,
# trains GraphSAGE on it with a sampler, a producer and a consumer process, and writes a report page.
# A second run downloads and builds nothing. Options are passed to `uvatrain train`:
#
#   ./scripts/demo.sh --epochs 10
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
readonly DATA=data/demo METRICS=data/demo.jsonl

say() { printf '\n== %s\n' "$*"; }
# Prints a command and runs it.
run() {
  printf '$ %s\n' "$*"
  "$@"
}

command -v cargo >/dev/null || { echo "demo: cargo is needed: https://rustup.rs" >&2; exit 3; }

say "libtorch (about 530 MB to download, the first time only)"
scripts/setup/libtorch.sh

say "build (some minutes, the first time only)"
run cargo build --release --package uvatrain
uvatrain=${CARGO_TARGET_DIR:-target}/release/uvatrain

say "a graph"
if [[ -d $DATA ]]; then
  echo "$DATA exists already"
else
  mkdir -p "$(dirname "$DATA")"
  run "$uvatrain" generate "$DATA" --nodes 200000 --avg-degree 20 --feat-dim 100 --classes 12
fi
run "$uvatrain" info "$DATA"

say "GraphSAGE, three processes"
# Given options replace the demo's, since an option may be given only once.
asked=" $* "
defaults=()
unless_asked() {
  [[ $asked == *" $1 "* || $asked == *" $1="* ]] || defaults+=("$@")
}
unless_asked --model sage
unless_asked --fanouts 10,5
unless_asked --batch-size 1024
unless_asked --epochs 3
unless_asked --metrics "$METRICS"
run "$uvatrain" train "$DATA" "${defaults[@]}" "$@"

if [[ " ${defaults[*]-} " == *" $METRICS "* ]]; then
  say "report: where the time went"
  run "$uvatrain" report "$METRICS" --out data/demo.html
fi

say "to put the program into the PATH of this shell"
printf 'export PATH="%s:$PATH"\n' "$(cd "$(dirname "$uvatrain")" && pwd)"
