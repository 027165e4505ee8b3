#!/usr/bin/env bash
# Checks on a machine with a GPU what cannot be checked without one, and prints what it measures:
#   scripts/gpu-check.sh [--no-build | --bin=DIR] [--seconds=N] [ARGUMENT OF gpu_check.py or CMAKE ARGUMENT...]
# builds with the GPU plug-in (scripts/build.sh --cuda: give -DLibtorch_ROOT=DIR where a PyTorch for GPUs is there), then runs
# tests/gpu/gpu_check.py for at most 470 seconds, or N: trainings, NCCL, bits, recovery, hangs, and the same models in the
# PyTorch of python3, where it has one ($PYTHON names another). --no-build takes build/ as it is, --bin the programs of another
# folder. --only=WORD,... and --skip=WORD,... choose checks; results go to gpu-check/, or --out=DIR. Exit code 1: one failed.
# For a machine without a network or a compiler: scripts/gpu-kit.sh.
set -euo pipefail
script_name=gpu-check
# shellcheck source=lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

do_build=yes bin=$root/${DDPRUN_BUILD_DIR:-build}/bin seconds=470 cmake_arguments=() check_arguments=()
for argument in "$@"; do
  case $argument in
    -h | --help) sed -n '2,9s/^# //p' "$0"; exit 0 ;;
    --no-build) do_build=no ;;
    --bin=?*) do_build=no bin=$(realpath "${argument#*=}") ;;
    --seconds=[1-9]*) seconds=${argument#*=} ;;
    -D*) cmake_arguments+=("$argument") ;;
    *) check_arguments+=("$argument") ;;
  esac
done
[[ $do_build == no ]] || "$root/scripts/build.sh" --cuda "${cmake_arguments[@]}" >&2 ||
  die 1 "the build failed (its message is above)"
[[ -x $bin/ddprun && -x $bin/ddprun-train ]] || die 1 "no programs in $bin; leave out --no-build"
gpus=$(nvidia-smi --list-gpus 2>/dev/null | grep -c '^GPU' || true)
[[ $gpus -ge 1 ]] || die 1 "nvidia-smi is not there or shows no GPU on this machine"
exec "${PYTHON:-python3}" "$root/tests/gpu/gpu_check.py" --bin="$bin" --limit="$seconds" --out=gpu-check "${check_arguments[@]}"
