#!/usr/bin/env bash
# Compares uvatrain with DGL, GraphBolt, PyG over pyg-lib, Kumo, numpy and torch, interleaved on the same cores: sampling, the
# gather of feature rows, both end to end, GraphSAGE epochs, and typed graphs. Gets the peers (scripts/peers/environment.sh:
# 8 GB in the cache folder, the first time only), builds, makes the graphs, measures, writes docs/results/peers.json and prints
# the tables that docs/reference/results.md has. About an hour on two cores, and nothing else should be running meanwhile.
#
#   scripts/peers/compare.sh --only typed-sampling,typed-loading,formats --out docs/results/peers-typed.json
#                                                         typed graphs alone: about 20 minutes
#   scripts/peers/compare.sh --quick                      one graph a section, two short rounds: about 12 minutes
#   scripts/peers/compare.sh --only sampling,gather --graph small --peers dgl,graphbolt --cores 1
#   scripts/peers/compare.sh --append                     continues a stopped run, cell by cell
#   scripts/peers/compare.sh --graphs DIR                 other graphs than generated ones: DIR/small, DIR/medium, each with
#                                                         indptr, indices, feat, label and train_idx or seeds as .npy, and
#                                                         DIR/mag, a typed dataset
#
# `scripts/peers/compare.py --help` has the other options. UVATRAIN_PROGRAM names a program that is measured instead of a
# build. A peer that cannot be installed is skipped, and the results say why.
set -euo pipefail

checkout=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd -P)
cd "$checkout"
cache=${UVATRAIN_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/uvatrain}/peers
say() { printf 'peers: %s\n' "$*" >&2; }

asked=" $* "
[[ $asked == *" --help "* || $asked == *" -h "* ]] && exec python3 -B scripts/peers/compare.py --help
# Installs only the peers of --peers.
peers=,arrays,dgl,graphbolt,pyg-lib,kumo,
[[ $asked =~ \ --peers[=\ ]([^ ]*) ]] && peers=,${BASH_REMATCH[1]},
sections=,sampling,
[[ $asked =~ \ --only[=\ ]([^ ]*) ]] && sections=,${BASH_REMATCH[1]},

declare -a options=()
get() {
  local peer=$1 python said
  said=$(mktemp)
  if python=$(scripts/peers/environment.sh "$peer" 2> >(tee "$said" >&2)); then
    options+=("--$peer-python" "$python")
  else
    options+=(--left-out "$peer=$(tail -n 1 "$said" | tr '\n' ' ' | sed 's/ $//')")
  fi
  rm -f "$said"
}
if [[ $peers == *,dgl,* || $peers == *,graphbolt,* || $peers == *,arrays,* ]]; then get dgl; fi
for peer in pyg-lib kumo; do
  if [[ $peers == *,$peer,* ]]; then get "$peer"; fi
done

uvatrain=${UVATRAIN_PROGRAM:-}
if [[ -z $uvatrain ]]; then
  say "build"
  [[ -n ${LIBTORCH:-} ]] || scripts/setup/libtorch.sh
  cargo build --release --quiet --package uvatrain
  uvatrain=${CARGO_TARGET_DIR:-target}/release/uvatrain
fi

if [[ $asked != *" --graphs"[\ =]* ]]; then
  options+=(--graphs "$cache/graphs")
  mkdir -p "$cache/graphs"
  # The sizes of the peers' graphs: 2 M edges with half of the nodes to train on, and ogbn-products'.
  [[ -d $cache/graphs/small ]] || "$uvatrain" generate "$cache/graphs/small" --nodes 100000 --avg-degree 20 \
    --feat-dim 100 --classes 47 --train-share 0.5
  [[ -d $cache/graphs/medium || ! $sections =~ ,(sampling|gather|loading), ]] ||
    "$uvatrain" generate "$cache/graphs/medium" --preset products
  # ogbn-mag's seven relations, at a tenth.
  [[ -d $cache/graphs/mag ]] || "$uvatrain" generate "$cache/graphs/mag" --preset mag --scale 0.1
fi
python3 -B scripts/peers/compare.py --uvatrain "$uvatrain" --work "$cache/datasets" "${options[@]}" "$@"
