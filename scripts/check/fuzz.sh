#!/usr/bin/env bash
# Runs libFuzzer over the targets of fuzz/: the readers of foreign files and of messages from other processes.
#
#   scripts/check/fuzz.sh [--runs N | --seconds S] [--train] [TARGET…]
#
# Each target takes N inputs (default 20,000), or inputs for S seconds, from the same seed every time. Default: all targets;
# --train adds `checkpoint`, which requires libtorch and two more minutes to build. An input that crashes a target is kept
# under target/fuzz/findings, and the script exits with 1.
#
# The crates are built again with coverage counters, under target/fuzz. Works with any stable Rust.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/../.."
limit=-runs=20000
features=libfuzzer
targets=()
while (($#)); do
  case $1 in
    --runs) limit=-runs=${2:?--runs needs a number}; shift ;;
    --seconds) limit=-max_total_time=${2:?--seconds needs a number}; shift ;;
    --train) features+=,train ;;
    -h | --help) sed -n '2,/^set /{/^#/s/^# \{0,1\}//p}' "$0"; exit 0 ;;
    -*) echo "fuzz: there is no option $1" >&2; exit 2 ;;
    *) targets+=("$1") ;;
  esac
  shift
done

triple=$(rustc -vV | sed -n 's/^host: //p')
target=$(cargo metadata --format-version 1 --no-deps | sed 's/.*"target_directory":"\([^"]*\)".*/\1/')/fuzz
# With --target build scripts and macros are built without the counters, which libFuzzer alone defines.
RUSTFLAGS="--cfg fuzzing -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
  -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
  -Cllvm-args=-sanitizer-coverage-trace-compares" \
  CARGO_PROFILE_DEV_DEBUG=0 cargo build --quiet -p uva-fuzz --bin fuzz --features "$features" \
  --target "$triple" --target-dir "$target"
built=$target/$triple/debug
rm -rf "$target/seeds"
mapfile -t all < <(UVATRAIN_FUZZ_SEEDS=$target/seeds "$built/fuzz" 2>/dev/null)
((${#targets[@]})) || targets=("${all[@]}")

failed=()
for name in "${targets[@]}"; do
  [[ " ${all[*]} " == *" $name "* ]] || { echo "fuzz: no target $name: there are ${all[*]}" >&2; exit 2; }
  findings=$target/findings/$name corpus=$target/corpus/$name
  rm -rf "$corpus"
  mkdir -p "$findings" "$corpus"
  # Longer than ten seconds counts as hanging, more than 2 GiB as allocating without bound.
  if UVATRAIN_FUZZ_TARGET=$name "$built/fuzz" "$limit" -seed=1 -max_len=65536 -timeout=10 -rss_limit_mb=2048 \
    -print_final_stats=1 -artifact_prefix="$findings/" "$corpus" "$target/seeds/$name" >"$findings/log" 2>&1; then
    runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$findings/log")
    reached=$(grep -o 'cov: [0-9]*' "$findings/log" | tail -1)
    echo "$name: $runs inputs, ${reached#cov: } edges of the code reached, $(find "$corpus" -type f | wc -l) inputs kept for them"
  else
    failed+=("$name")
    tail -n 40 "$findings/log" >&2
    echo "$name: FAILED; the input lies in $findings" >&2
  fi
done
((${#failed[@]} == 0)) || { echo "fuzz: ${failed[*]} failed" >&2; exit 1; }
