#!/usr/bin/env bash
# Runs the Python module's tests under AddressSanitizer. The module and its Rust crates are instrumented; Python and torch
# are not. It finds accesses by Rust code to freed memory and beyond a block's ends, and double frees by any code: an
# exporter that is used after its deleter ran, a capsule freed twice. It does not track slots, which are mapped memory: the
# tests check that a kept tensor keeps its slot.
#
#   scripts/check/python-asan.sh [pytest's arguments…]
#
# scripts/test.sh does not run it: the build takes six minutes of CPU time, and the tests five and a half. Requires
# rustup's compiler, whose standard library has the sanitizer's runtime, or gcc's libasan. RUSTC_BOOTSTRAP permits the
# compiler option.
#
# Does not search for leaks, since Python and torch keep much memory until they exit. crates/uva-py/tests/process/faults.py and the tests
# of slots count leaks.
set -euo pipefail

checkout=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd -P)
fail() { echo "python-asan: $*" >&2; exit 3; }
triple=$(rustc -vV | sed -n 's/^host: //p')
python=$("$checkout/scripts/setup/python.sh")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
target=$(cd "$checkout" && cargo metadata --format-version 1 --no-deps |
  "$python" -c 'import json, sys; print(json.load(sys.stdin)["target_directory"])')
export PYTHONDONTWRITEBYTECODE=1

# With --target build scripts and macros are built without it: they run inside the compiler.
(cd "$checkout" && CARGO_TARGET_DIR=$target/asan RUSTC_BOOTSTRAP=1 RUSTFLAGS="-Zsanitizer=address -Cforce-frame-pointers=yes" \
  cargo build -p uva-py --target "$triple")
mkdir "$work/site"
cp -r "$checkout/crates/uva-py/python/uvatrain" "$work/site/"
cp "$target/asan/$triple/debug/lib_core.so" "$work/site/uvatrain/_core.abi3.so"

# The runtime has to be there before Python: as a library of its own, which the compiler's archive is not yet. Its
# preinit object is for programs only.
archive=$(rustc --print sysroot)/lib/rustlib/$triple/lib/librustc-stable_rt.asan.a
# The sanitizer refuses to work under the name of the shared runtime library.
runtime=$work/rust-sanitizer.so
if [[ -e $archive ]]; then
  mkdir "$work/objects"
  (cd "$work/objects" && ar x "$archive" && rm -f asan_preinit*.o)
  # With C++'s library, or it comes too late for the runtime to find what throws exceptions there.
  c++ -shared -o "$runtime" "$work"/objects/*.o -Wl,--no-as-needed -lstdc++ -lpthread -lrt -lm -ldl -lresolv
else
  runtime=$(cc -print-file-name=libasan.so)
  [[ -e $runtime ]] || fail "neither $archive nor gcc's libasan.so is there: rustup's toolchain has the first"
fi

# Reports go to files, so that none is lost in the output of a process that a test runs.
export ASAN_OPTIONS=detect_leaks=0:alloc_dealloc_mismatch=0:detect_stack_use_after_return=1:exitcode=99:log_path=$work/report
export PYTHONPATH=$work/site OMP_WAIT_POLICY=passive
# Python's pools would reuse a freed block and hide the error.
export PYTHONMALLOC=malloc
UVATRAIN_PROGRAM=${UVATRAIN_PROGRAM:-$target/debug/uvatrain}
export UVATRAIN_PROGRAM UVATRAIN=$UVATRAIN_PROGRAM
cd "$work"
code=0
# Without pytest's fault handler: the sanitizer has one. The tests of tools, and those that only run examples, say nothing
# about memory.
LD_PRELOAD=$runtime "$python" -m pytest -p no:cacheprovider -p no:faulthandler --rootdir "$checkout" --durations 10 \
  --ignore "$checkout/crates/uva-py/tests/package/test_doctor.py" --ignore "$checkout/crates/uva-py/tests/package/test_check_wheel.py" \
  --ignore "$checkout/crates/uva-py/tests/package/test_examples.py" "$@" "$checkout/crates/uva-py/tests" || code=$?
shopt -s nullglob
reports=("$work"/report.*)
if ((${#reports[@]})); then
  cat "${reports[@]}"
  echo "python-asan: ${#reports[@]} processes were reported, the reports are above" >&2
  exit 1
fi
echo "python-asan: no report of the sanitizer" >&2
exit "$code"
