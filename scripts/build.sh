#!/usr/bin/env bash
# Sets up what is missing, then configures and builds Release into build/ (binaries: build/bin).
#   scripts/build.sh [--all | --target=NAME...] [--no-trainer] [--cuda] [CMAKE ARGUMENT...]
# --all also builds the tests. --target builds those alone. --cuda also builds the trainer's plug-in for GPUs: 2.4 GB to download,
# nothing where -DLibtorch_ROOT=DIR names the site-packages of a PyTorch for GPUs. Compiled files are
# cached with the libtorch that setup.sh fetched, so that a second clone, in whatever folder,
# compiles nothing again.
# DDPRUN_BUILD_DIR (build) and DDPRUN_JOBS (cores, or fewer where memory is short) change the rest.
set -euo pipefail
script_name=build
# shellcheck source=lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
started=$EPOCHREALTIME

targets=(bin/ddprun) named=() trainer=ON cuda=no own_torch=no setup_flags=() cmake_arguments=()
for argument in "$@"; do
  case $argument in
    -h | --help) sed -n '2,9s/^# //p' "$0"; exit 0 ;;
    --all) targets=(all) ;;
    --target=?*) named+=("${argument#*=}") ;;
    --cuda) cuda=yes ;;
    -DLibtorch_ROOT=?*) own_torch=yes cmake_arguments+=("$argument") ;;
    --no-trainer) trainer=OFF setup_flags=(--no-libtorch) ;;
    *) cmake_arguments+=("$argument") ;;
  esac
done
[[ $trainer == OFF ]] || [[ ${targets[0]} == all ]] || targets+=(bin/ddprun-train bin/ddprun-bench-comm)
[[ ${#named[@]} -eq 0 ]] || targets=("${named[@]}")

if [[ $own_torch == yes ]]; then
  setup_flags=(--no-libtorch)
elif [[ $cuda == yes ]]; then
  setup_flags+=(--cuda)
fi
[[ $cuda == no || ${targets[0]} == all ]] || targets+=(ddprun_cuda)
"$root/scripts/setup.sh" "${setup_flags[@]}"
cuda_arguments=(-DDDPRUN_CUDA=AUTO)
if [[ $cuda == yes ]]; then
  cuda_arguments=(-DDDPRUN_CUDA=ON)
  # After setup.sh, which may have made the folder.
  [[ $own_torch == yes ]] || cuda_arguments+=(-DLibtorch_CUDA_ROOT="$(torch_packages)")
fi

# A file that includes libtorch takes 1.3 GB to compile.
jobs_for_this_machine() {
  local memory cores
  cores=$(nproc)
  memory=$(awk '/^MemAvailable:/ { print int($2 / 1500000) }' /proc/meminfo)
  [[ $memory -ge 1 ]] || memory=1
  echo $((cores < memory ? cores : memory))
}

build=$root/${DDPRUN_BUILD_DIR:-build}
jobs=${DDPRUN_JOBS:-$(jobs_for_this_machine)}
# Carried by the compile commands themselves, so that a plain ninja finds the same cache.
# BASEDIR and NOHASHDIR leave the clone's own folder out of what is compared.
launcher="env;CCACHE_DIR=$cache/ccache;CCACHE_MAXSIZE=5G;CCACHE_BASEDIR=$root;CCACHE_NOHASHDIR=1"

say "configuring $build"
cmake -S "$root" -B "$build" -G Ninja -U 'Libtorch_*' --log-level=NOTICE --no-warn-unused-cli \
  -DCMAKE_BUILD_TYPE=Release -DCMAKE_CXX_COMPILER_LAUNCHER="$launcher;ccache" -DLibtorch_ROOT="$libtorch" \
  -DDDPRUN_WITH_TRAINER="$trainer" "${cuda_arguments[@]}" "${cmake_arguments[@]}" >/dev/null ||
  die 1 "configuring failed (CMake's message is above)"
say "building with $jobs jobs"
NINJA_STATUS='[%f/%t %es] ' cmake --build "$build" -j "$jobs" --target "${targets[@]}" ||
  die 1 "the build failed (the compiler's message is above)"
say "built in $(seconds_since "$started"): $build/bin"
