#!/usr/bin/env bash
# Runs the checks of a kit (scripts/gpu-kit.sh) on the GPU machine: bash run.sh [ARGUMENT OF gpu_check.py...]
# Results go to $OUT, else to out/ beside this file. KIT_LIMIT (470): seconds for everything. PYTHON (python3): the Python whose
# torch the kit was built for. Exit codes: those of gpu_check.py; 2 also where the kit does not run here.
set -uo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cd "$here" || exit 2
export PATH=$PATH:/usr/sbin:/sbin OUT=${OUT:-$here/out} PYTHONUNBUFFERED=1
die() {
  printf 'run.sh | error: %s\n' "$*" >&2
  exit 2
}
python=$(command -v "${PYTHON:-python3}") || die "there is no ${PYTHON:-python3} here; set PYTHON"
site=$("$python" -c 'import importlib.util, os
print(os.path.dirname(importlib.util.find_spec("torch").submodule_search_locations[0]))' 2>/dev/null) ||
  die "$python has no torch; set PYTHON"
wanted=$(cat torch-version)
found=$("$python" -c 'from importlib.metadata import version; print(version("torch").split("+")[0])')
[[ $wanted == "$found" ]] || printf 'run.sh | warning: the kit is for torch %s, %s has %s\n' "$wanted" "$python" "$found"
# The programs look for libtorch beside themselves.
ln -sfn "$site/torch" lib/ddprun/torch
ln -sfn "$site/nvidia" lib/ddprun/nvidia
for packed in share/ddprun/mnist/*.gz; do
  [[ -f ${packed%.gz} ]] ||
    { gzip -dc "$packed" >"$packed.part" && mv "$packed.part" "${packed%.gz}"; } || die "cannot unpack $packed"
done
# The driver's own libraries and tools, where the loader does not know them.
for folder in /usr/local/nvidia/lib64 /usr/local/nvidia/lib; do
  if [[ -e $folder/libcuda.so.1 && :${LD_LIBRARY_PATH:-}: != *:$folder:* ]] && ! ldconfig -p 2>/dev/null | grep -q 'libcuda\.so\.1'; then
    export LD_LIBRARY_PATH=$folder${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
  fi
done
for folder in /usr/local/nvidia/bin /usr/local/cuda/bin; do
  [[ ! -d $folder ]] || export PATH=$PATH:$folder
done
chmod +x bin/*
for program in bin/*; do
  "$program" --version || die "$program does not start"
done
limit=${KIT_LIMIT:-470}
timeout -k 10 $((limit + 25)) "$python" tests/gpu/gpu_check.py --bin=bin --out="$OUT" --limit="$limit" "$@"
