#!/usr/bin/env bash
# Checks on a machine with a GPU what cannot be checked without one, and prints what it measures:
#   scripts/gpu-check.sh [--no-build] [CMAKE ARGUMENT...]
# builds with the GPU plug-in (scripts/build.sh --cuda: give -DLibtorch_ROOT=DIR where a PyTorch for
# GPUs is there), then runs every model, NCCL with one rank and with all GPUs, float16 and bfloat16, a
# checkpoint that moves between GPU and CPU, and a kill with recovery. --no-build takes build/ as it
# is. Checks take at most 4 minutes; exit code 1 and a line "FAILED" for each that did not pass.
set -euo pipefail
script_name=gpu-check
# shellcheck source=lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
started=$EPOCHREALTIME

do_build=yes cmake_arguments=()
for argument in "$@"; do
  case $argument in
    -h | --help) sed -n '2,7s/^# //p' "$0"; exit 0 ;;
    --no-build) do_build=no ;;
    *) cmake_arguments+=("$argument") ;;
  esac
done
bin=$root/${DDPRUN_BUILD_DIR:-build}/bin
[[ $do_build == no ]] || "$root/scripts/build.sh" --cuda "${cmake_arguments[@]}" >&2 ||
  die 1 "the build failed (its message is above)"
[[ -x $bin/ddprun && -x $bin/ddprun-train ]] || die 1 "no programs in $bin; leave out --no-build"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
cd "$work"
failures=0 deadline=$((SECONDS + 240))

# fail WHAT: with the end of what the last run said.
fail() {
  say "FAILED: $1"
  sed 's/^/    /' last.err | tail -n 12
  failures=$((failures + 1))
}

# run NAME COMMAND...: bounded, timed, its output in last.out and last.err.
run() {
  local name=$1 begin=$EPOCHREALTIME code=0 left=$((deadline - SECONDS))
  shift
  if [[ $left -lt 5 ]]; then
    : >last.err
    fail "$name: no time left for it"
    return 1
  fi
  timeout -k 5 "$((left < 90 ? left : 90))" "$@" >last.out 2>last.err || code=$?
  if [[ $code -ne 0 ]]; then
    [[ $code -ne 124 ]] || code="124, it took too long"
    fail "$name: exit code $code"
    return 1
  fi
  say "$name: ok, $(seconds_since "$begin")$(summary)"
}

summary() {
  local rate
  rate=$(tr '\r' '\n' <last.err | grep -o '[0-9.]*[kM]\? samples/s' | tail -n 1)
  printf '%s%s' "${rate:+; $rate}" "$(grep '^test ' last.out | sed 's/^/; /')"
}

# expect NAME TEXT: in what the last run said.
expect() {
  grep -qF -- "$2" last.err || fail "$1: it did not say '$2'"
}

train() { printf '%s\n' "$bin/ddprun-train" --device=cuda "$@"; }

gpus=$(nvidia-smi --list-gpus 2>/dev/null | grep -c '^GPU' || true)
[[ $gpus -ge 1 ]] || die 1 "nvidia-smi is not there or shows no GPU on this machine"
nvidia-smi --query-gpu=index,name,memory.total,driver_version --format=csv,noheader

while read -r model flags; do
  # shellcheck disable=SC2086  # Several flags.
  mapfile -t command < <(train --model="$model" --epochs=1 --checkpoint-dir="$model" $flags)
  run "model $model on one GPU" "${command[@]}" && expect "$model" "on GPU 0"
  # shellcheck disable=SC2086
  mapfile -t command < <(train --model="$model" --epochs=1 --checkpoint-dir="$model-graph" \
    --cuda-graph $flags)
  run "model $model from a CUDA graph" "${command[@]}" &&
    expect "$model from a CUDA graph" "replayed from a CUDA graph"
done <<'MODELS'
mlp
linear
toy --data-arg=train=4000,test=40
cnn
vgg11 --limit-train=20000
transformer --data-arg=train=1024,test=32
MODELS

for precision in bf16 fp16; do
  mapfile -t command < <(train --model=vgg11 --limit-train=20000 --epochs=1 \
    --autocast=$precision --checkpoint-dir="vgg11-$precision")
  run "vgg11 under $precision autocast" "${command[@]}" || true
done

# A thread copies the parameters, and calls CUDA, while the step is recorded.
mapfile -t command < <(train --cuda-graph --epochs=1 --limit-train=20000 --checkpoint-every=1 \
  --checkpoint-dir=graph-saves)
run "a CUDA graph recorded while checkpoints are copied" "${command[@]}" &&
  expect "a CUDA graph recorded while checkpoints are copied" "replayed from a CUDA graph"

second=cpu
[[ $gpus -eq 1 ]] || second=cuda:1
mapfile -t command < <(train --model=toy --split-devices=cuda:0,$second --clip-norm=0.1 --epochs=1 \
  --checkpoint-dir=clipped)
run "gradients of cuda:0 and $second clipped together" "${command[@]}" || true

mapfile -t command < <(train --backend=nccl --epochs=1 --checkpoint-dir=one-nccl)
run "NCCL with one rank" "${command[@]}" && expect "NCCL with one rank" "through NCCL"
mapfile -t command < <(train --backend=gloo --device=cuda:0 --epochs=1 --limit-train=20000 \
  --checkpoint-dir=shared)
run "two ranks on one GPU through Gloo" "$bin/ddprun" --nproc-per-node=2 "${command[@]}" || true
if [[ $gpus -gt 1 ]]; then
  mapfile -t command < <(train --model=vgg11 --epochs=1 --limit-train=20000 --checkpoint-dir=all)
  run "NCCL with all $gpus GPUs" "$bin/ddprun" --nproc-per-node="$gpus" "${command[@]}" &&
    expect "NCCL with all GPUs" "through NCCL"
  # 63 samples a step, of three ranks once: 32 and 31 for two.
  uneven=(--batch=21 --limit-train=6300 --checkpoint-dir=uneven)
  run "three ranks on the CPU" "$bin/ddprun" --nproc-per-node=3 "$bin/ddprun-train" --device=cpu \
    --epochs=1 "${uneven[@]}" || true
  mapfile -t command < <(train --cuda-graph --resume=must --epochs=4 "${uneven[@]}")
  run "graphs of 32 and of 31 samples" "$bin/ddprun" --nproc-per-node=2 "${command[@]}" &&
    expect "graphs of 32 and of 31 samples" "replayed from a CUDA graph"
  run "every collective of NCCL" "$bin/ddprun" --nproc-per-node="$gpus" "$bin/ddprun-bench-comm" \
    --device=cuda --check || true
fi

code=0
timeout -k 5 60 "$bin/ddprun" --nproc-per-node=$((gpus + 1)) "$bin/ddprun-train" --device=cuda \
  --epochs=1 --checkpoint-dir=too-many >last.out 2>last.err || code=$?
if [[ $code -eq 0 ]] || ! grep -qF "each rank needs its own" last.err; then
  fail "more ranks than GPUs: exit code $code, and no 'each rank needs its own'"
else
  say "more ranks than GPUs: refused"
fi

# Of one training: the GPU's checkpoint goes on on the CPU, and back.
mapfile -t command < <(train --epochs=1 --checkpoint-dir=moving)
run "a checkpoint written on the GPU" "${command[@]}" || true
run "goes on on the CPU" "$bin/ddprun-train" --device=cpu --epochs=2 --resume=must \
  --checkpoint-dir=moving && expect "goes on on the CPU" "resumed at step"
mapfile -t command < <(train --epochs=3 --resume=must --checkpoint-dir=moving)
run "and on the GPU again" "${command[@]}" && expect "and on the GPU again" "resumed at step"

# Bit for bit, where operators are asked for their deterministic form.
same=("$bin/ddprun-train" --device=cuda --deterministic)
run "a whole run" "${same[@]}" --dump-parameters=whole --epochs=2 --checkpoint-dir=whole.d || true
run "its first half" "${same[@]}" --epochs=1 --checkpoint-dir=half.d || true
run "its second half" "${same[@]}" --dump-parameters=resumed --epochs=2 --resume=must \
  --checkpoint-dir=half.d || true
if cmp whole resumed >last.out 2>last.err; then
  say "its parameters are the whole run's, bit for bit"
else
  fail "the resumed run's parameters are not the whole run's"
fi

run "the same from a CUDA graph" "${same[@]}" --cuda-graph --dump-parameters=replayed --epochs=2 \
  --checkpoint-dir=replayed.d || true
if cmp whole replayed >last.out 2>last.err; then
  say "its parameters are those without a graph, bit for bit"
else
  fail "the parameters from a CUDA graph are not those without one"
fi

# The processes that train in $1, one a line.
workers_in() {
  local process
  for process in /proc/[0-9]*; do
    [[ $(readlink "$process/exe" 2>/dev/null) == "$bin/ddprun-train" ]] || continue
    ! tr '\0' '\n' <"$process/cmdline" 2>/dev/null | grep -qxF -- "--checkpoint-dir=$1" ||
      printf '%s\n' "${process#/proc/}"
  done
}

# A worker is killed once it has saved; its launcher starts the world again.
kill_and_recover() {
  local name="kill and recover" begin=$EPOCHREALTIME launcher worker code=0 ends=$((SECONDS + 60))
  timeout -k 5 90 "$bin/ddprun" --nproc-per-node="$gpus" --max-restarts=2 "$bin/ddprun-train" \
    --device=cuda --epochs=20 --checkpoint-every=200 --checkpoint-dir="$work/killed" \
    >last.out 2>last.err &
  launcher=$!
  until compgen -G "killed/step-00000400-*" >/dev/null; do
    if [[ $SECONDS -gt $ends ]] || ! kill -0 "$launcher" 2>/dev/null; then
      kill "$launcher" 2>/dev/null || true
      fail "$name: no checkpoint of step 400"
      return
    fi
    sleep 0.05
  done
  worker=$(workers_in "$work/killed" | tail -n 1)
  kill -KILL "$worker"
  wait "$launcher" || code=$?
  if [[ $code -ne 0 ]]; then
    fail "$name: exit code $code"
  else
    say "$name: ok, $(seconds_since "$begin")$(summary)"
    expect "$name" "resumed at step"
  fi
}
kill_and_recover

if [[ $failures -gt 0 ]]; then
  say "FAILED: $failures of the checks above, in $(seconds_since "$started")"
  exit 1
fi
say "all passed in $(seconds_since "$started")"
