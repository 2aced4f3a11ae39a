#!/usr/bin/env bash
# Builds what a machine with a GPU needs to run scripts/gpu/suite.sh, and puts it into one folder: no Rust, no compiler
# and no network are needed there.
#
#   scripts/gpu/carry.sh FOLDER [--capability X.Y]… [--with-simulator | --peers]
#
# FOLDER is inside the checkout and is copied with it. It must not exist, or be one that this script made. The script adds it
# to .git/info/exclude unless git ignores it. FOLDER and the files that git tracks or does not ignore may have 64 MiB
# together.
# The kernels are compiled for GPUs of compute capability 9.0, or of those given: other GPUs compile them with NVRTC. --with-simulator adds cuda-sim and the stand-in for MPS, for `suite.sh --simulate`.
# The two programs are release builds. The test programs are cargo's usual ones: optimised too, with their checks left on.
# libtorch is not carried: the suite takes the one of the machine's PyTorch.
# --peers includes only what the profile `peers` needs: the program, the Python module, torch-sparse, which PyG
# samples by, and WholeGraph's libraries from PyPI, which leave no room for the tests. It needs a network here.
set -euo pipefail

readonly MOST_BYTES=$((64 << 20))

say() { printf 'carry: %s\n' "$*" >&2; }
usage() { printf 'usage: scripts/gpu/carry.sh FOLDER [--capability X.Y]… [--with-simulator | --peers]\n' >&2; exit 2; }
mib() { awk -v bytes="$1" 'BEGIN { printf "%.1f MiB", bytes / 1048576 }'; }

folder= simulator= peers=
capabilities=()
while (($#)); do
  case $1 in
    --with-simulator) simulator=1 ;;
    --peers) peers=1 ;;
    --capability) [[ ${2:-} =~ ^[0-9]+\.[0-9]$ ]] || usage; capabilities+=("$2"); shift ;;
    -*) usage ;;
    *) [[ -z $folder ]] || usage; folder=$(realpath -m "$1") ;;
  esac
  shift
done
[[ -n $folder && -z ${simulator:+$peers} ]] || usage
if [[ -e $folder && ! -e $folder/suite.sh ]]; then
  say "$folder is there already, and is none that this script made"
  exit 2
fi

cd "$(dirname "${BASH_SOURCE[0]}")/../.."
root=$(pwd -P)
if [[ $folder != "$root"/* ]]; then
  say "$folder is not inside $root: only what lies in the checkout travels"
  exit 2
fi
if ! git check-ignore -q "$folder/suite.sh"; then
  exclude=$(git rev-parse --git-path info/exclude)
  mkdir -p "$(dirname "$exclude")"
  printf '/%s/\n' "${folder#"$root"/}" >>"$exclude"
  git check-ignore -q "$folder/suite.sh" || { say "git does not ignore $folder, although $exclude names it"; exit 2; }
fi
# The size of the other files that are copied: those that git tracks or does not ignore, and shared/.
others=$({ git ls-files -z --cached --others --exclude-standard; [[ ! -d shared ]] || find shared -type f -print0; } | python3 -c '
import os, sys
paths = set(sys.stdin.buffer.read().split(b"\0")) - {b""}
print(sum(os.lstat(path).st_size for path in paths if os.path.lexists(path)))')
if ((others >= MOST_BYTES)); then
  say "what git tracks or does not ignore takes $(mib "$others") already, and $(mib $MOST_BYTES) may travel"
  exit 1
fi
scripts/setup/libtorch.sh
scripts/setup/nvrtc.sh

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
    sys.exit(f"carry: cargo made no {kind} of {name}")
print(found)' "$@"
}

build() {
  local name=$1 kind=$2 to=$3 path
  shift 3
  path=$(cargo "$@" --message-format=json-render-diagnostics | made "$name" "$kind")
  install -D -m 755 "$path" "$partial/bin/$to"
  strip --strip-unneeded "$partial/bin/$to"
}

partial=$root/target/gpu-carry-$$
trap 'rm -rf "$partial"' EXIT
mkdir -p "$partial"
build uvatrain executable uvatrain build --release -p uvatrain
if [[ -z $peers ]]; then
  build uvatrain-consumer executable uvatrain-consumer build --release -p uvatrain
  build integration executable test-uva-cuda test --no-run -p uva-cuda --test integration
  build integration executable test-uva-rows test --no-run -p uva-rows --test integration
  build integration executable test-uva-sample test --no-run -p uva-sample --test integration
  build uva_train executable test-uva-train test --no-run -p uva-train --lib
  if [[ -n $simulator ]]; then
    build cuda_sim .so libcuda_sim.so build -p cuda-sim
    install -m 755 crates/cuda-sim/nvidia-cuda-mps-control "$partial/bin/"
  fi
fi
cp -r scripts/gpu/suite.sh scripts/gpu/suite scripts/gpu/peers.py "$partial/"
# The kernels, compiled by this machine's NVRTC: the program and the tests search their own folder for them.
compiler=$(cargo build -p uva-cuda --example carry_kernels --message-format=json-render-diagnostics | made carry_kernels executable)
"$compiler" "$partial/bin/kernels" "${capabilities[@]}"
if [[ -n $peers ]]; then
  # What WholeGraph's gather loads: of its wheels' 110 MiB half is headers.
  "$(scripts/setup/python.sh)" - "$partial/peers.tar.xz" pylibwholegraph-cu13==26.10.0 libwholegraph-cu13==26.10.0 \
    libraft-cu13==26.10.0 librmm-cu13==26.10.0 rmm-cu13==26.10.0 rapids-logger==0.3.0 <<'PYTHON'
import subprocess, sys, tarfile, tempfile, zipfile
from pathlib import Path

archive, *packages = sys.argv[1:]
with tempfile.TemporaryDirectory() as place:
    wheels, site = Path(place, "wheels"), Path(place, "site")
    wanted = ["--no-deps", "--only-binary=:all:", "--implementation", "cp", "--python-version", "3.12"]
    for glibc in ("2_17", "2_24", "2_27", "2_28"):
        wanted += ["--platform", f"manylinux_{glibc}_x86_64"]
    subprocess.run([sys.executable, "-m", "pip", "download", "--quiet", *wanted, "--dest", wheels, *packages], check=True)
    for wheel in wheels.iterdir():
        zipfile.ZipFile(wheel).extractall(site)
    headers = {"include", "cmake"}
    with tarfile.open(archive, "w:xz") as into:
        into.add(site, ".", filter=lambda entry: None if headers & set(Path(entry.name).parts) else entry)
PYTHON
  cp scripts/gpu/loaders.py "$partial/"
  site=$("$(scripts/peers/environment.sh pyg)" -c 'import pathlib, torch_sparse; print(pathlib.Path(torch_sparse.__file__).parent.parent)')
  tar cJf "$partial/pyg.tar.xz" -C "$site" torch_sparse torch_scatter
fi
# The Python module; its tests on a GPU, and pytest, which a machine with torch need not have.
build _core .so _core.abi3.so build --release -p uva-py
python=$partial/python
mkdir -p "$python/tests"
cp -r crates/uva-py/python/uvatrain "$python/"
mv "$partial/bin/_core.abi3.so" "$python/uvatrain/"
if [[ -z $peers ]]; then
  cp crates/uva-py/tests/{conftest,graphs,loader/test_cuda}.py "$python/tests/"
  packages=$("$(scripts/setup/python.sh)" -c 'import pathlib, pytest; print(pathlib.Path(pytest.__file__).parent.parent)')
  for package in pytest _pytest pluggy iniconfig packaging pygments; do
    cp -r "$packages/$package" "$python/"
  done
fi
find "$partial" -name __pycache__ -prune -exec rm -rf {} +
# Three megabytes travel as one. suite.sh unpacks them.
(cd "$partial" && python3 - programs.tar.xz bin python) <<'PYTHON'
import shutil, sys, tarfile

archive, *folders = sys.argv[1:]
with tarfile.open(archive, "w:xz") as into:
    for folder in folders:
        into.add(folder)
for folder in folders:
    shutil.rmtree(folder)
PYTHON
size=$(du -sb "$partial" | cut -f1)
if ((size + others > MOST_BYTES)); then
  say "the folder takes $(mib "$size") and the other files $(mib "$others"): more than $(mib $MOST_BYTES)"
  exit 1
fi
rm -rf "$folder"
mkdir -p "$(dirname "$folder")"
mv -T "$partial" "$folder"
profile=${peers:+peers}
say "$folder: $(mib "$size"), and $(mib "$others") of other files. On the machine with the GPU: bash suite.sh OUTDIR --profile ${profile:-smoke} --state DIR"
