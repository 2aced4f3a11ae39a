#!/usr/bin/env bash
# The whole way on one machine: gets libtorch, builds, generates a graph of 200,000 nodes and about 4 million edges,
# trains GraphSAGE on it with a sampler, a producer and a consumer process, and makes a page of what that was like.
# A second run downloads and builds nothing. Options given here go to `uvatrain train`:
#
#   ./scripts/demo.sh --epochs 10
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
readonly DATA=data/demo METRICS=data/demo.jsonl

say() { printf '\n== %s\n' "$*"; }
# Shows a command as one would type it, then runs it.
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
  echo "$DATA is there already"
else
  mkdir -p "$(dirname "$DATA")"
  run "$uvatrain" generate "$DATA" --nodes 200000 --avg-degree 20 --feat-dim 100 --classes 12
fi
run "$uvatrain" info "$DATA"

say "GraphSAGE, three processes"
# What is given here wins over what the demo would say, since an option is given once.
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
  say "where its time went, as a page"
  run "$uvatrain" report "$METRICS" --out data/demo.html
fi

say "to call it by its name in this shell"
printf 'export PATH="%s:$PATH"\n' "$(cd "$(dirname "$uvatrain")" && pwd)"
