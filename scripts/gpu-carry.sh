#!/usr/bin/env bash
# Builds what a machine with a GPU needs to run scripts/gpu-suite.sh, and puts it into one folder: no Rust, no compiler
# and no network are needed there.
#
#   scripts/gpu-carry.sh FOLDER [--with-simulator]
#
# FOLDER must not exist, or be one that this script made. --with-simulator adds cuda-sim and the stand-in for MPS, for
# `gpu-suite.sh --simulate`.
# The program is a release build. The test programs are cargo's usual ones: optimised too, with their checks left on.
# libtorch is not carried: the suite takes the one of the machine's PyTorch.
set -euo pipefail

readonly MOST_MIB=64

say() { printf 'gpu-carry: %s\n' "$*" >&2; }
usage() { printf 'usage: scripts/gpu-carry.sh FOLDER [--with-simulator]\n' >&2; exit 2; }

folder= simulator=
for argument in "$@"; do
  case $argument in
    --with-simulator) simulator=1 ;;
    -*) usage ;;
    *) [[ -z $folder ]] || usage; folder=$(realpath -m "$argument") ;;
  esac
done
[[ -n $folder ]] || usage
if [[ -e $folder && ! -e $folder/gpu-suite.sh ]]; then
  say "$folder is there already, and is none that this script made"
  exit 2
fi

cd "$(dirname "${BASH_SOURCE[0]}")/.."
scripts/libtorch.sh

# The file that cargo made for the target of that name: executable or library.
made() {
  python3 -c '
import json, sys
name, kind, found = sys.argv[1], sys.argv[2], None
for line in sys.stdin:
    message = json.loads(line) if line.startswith("{") else {}
    target = message.get("target") or {}
    if message.get("reason") == "compiler-artifact" and target.get("name") == name:
        if kind == "executable":
            found = message.get("executable") or found
        else:
            found = next((file for file in message["filenames"] if file.endswith(kind)), found)
if not found:
    sys.exit(f"gpu-carry: cargo made no {kind} of {name}")
print(found)' "$@"
}

build() {
  local name=$1 kind=$2 to=$3 path
  shift 3
  path=$(cargo "$@" --message-format=json-render-diagnostics | made "$name" "$kind")
  install -D -m 755 "$path" "$partial/bin/$to"
  strip --strip-unneeded "$partial/bin/$to"
}

partial=$folder.partial-$$
trap 'rm -rf "$partial"' EXIT
mkdir -p "$partial"
build uvatrain executable uvatrain build --release -p uvatrain
build gather executable test-uva-cuda test --no-run -p uva-cuda --test gather
build cuda executable test-uva-gather test --no-run -p uva-gather --test cuda
build equal executable test-uva-sample-cuda test --no-run -p uva-sample-cuda --test equal
build kinds executable test-uva-sample-cuda-kinds test --no-run -p uva-sample-cuda --test kinds
build uva_train executable test-uva-train test --no-run -p uva-train --lib
if [[ -n $simulator ]]; then
  build cuda_sim .so libcuda_sim.so build -p cuda-sim
  install -m 755 crates/cuda-sim/nvidia-cuda-mps-control "$partial/bin/"
fi
cp scripts/gpu-suite.sh scripts/gpu_suite.py scripts/peers-gpu "$partial/"
# The Python module, its tests on a GPU, and pytest, which a machine with torch need not have.
build _core .so _core.abi3.so build --release -p uva-py
python=$partial/python
mkdir -p "$python/tests"
cp -r crates/uva-py/python/uvatrain "$python/"
mv "$partial/bin/_core.abi3.so" "$python/uvatrain/"
cp crates/uva-py/tests/{conftest,graphs,test_cuda}.py "$python/tests/"
packages=$("$(scripts/python.sh)" -c 'import pathlib, pytest; print(pathlib.Path(pytest.__file__).parent.parent)')
for package in pytest _pytest pluggy iniconfig packaging pygments; do
  cp -r "$packages/$package" "$python/"
done
find "$python" -name __pycache__ -prune -exec rm -rf {} +
size=$(du -sm "$partial" | cut -f1)
if ((size > MOST_MIB)); then
  say "what is to be carried takes $size MiB, more than $MOST_MIB"
  exit 1
fi
rm -rf "$folder"
mv -T "$partial" "$folder"
say "$folder: $size MiB. There: bash gpu-suite.sh OUTDIR"
