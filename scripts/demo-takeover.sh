#!/usr/bin/env bash
# Trains on two nodes (two agents on this machine) with a shared run directory, kills every process
# of the one that hosts the rendezvous server in the middle of an epoch, and later starts it
# again; shows in one screen how the other becomes the leader, continues alone, and how the
# old one joins it. Fails unless both end well, at both sizes was trained, and no process is left.
#   DDPRUN_BIN=FOLDER   the binaries to use (build/bin, built when missing)
set -euo pipefail
script_name=demo
# shellcheck source=lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
# shellcheck source=demo_lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/demo_lib.sh"
epochs=8
silence=60  # Seconds without a line after which the run counts as hung.
[[ $# -eq 0 ]] || die 2 "takes no arguments"

begin_demo takeover 40
port=$((20000 + RANDOM % 10000))
command=("$bin/ddprun" --nnodes=1:2 "--rdzv-id=${folder##*/}" "--rdzv-endpoint=127.0.0.1:$port"
  --run-dir=shared "$bin/ddprun-train" --model=mlp --dataset=mnist "--epochs=$epochs"
  --progress-every=0.2)
open_output
end_with kill_all

start() {
  DEMO_RUN=$mark.$1 "${command[@]}" </dev/null >&"$output" 2>&1 &
  started=$!
}

say "ddprun --nnodes=1:2 --run-dir=shared ddprun-train --dataset=mnist --epochs=$epochs, on two nodes"
start first
first=$started
second='' off_at='' on_at='' alone='' together='' accuracy='' epoch_shown=''
alive() { kill -0 "$first" 2>/dev/null || { [[ -n $second ]] && kill -0 "$second" 2>/dev/null; }; }
while next_line alive; do
  [[ ! $line =~ test\ accuracy ]] || accuracy=$line
  if [[ ! $line =~ epoch\ ([0-9]+)/[0-9]+\ step ]]; then
    show "$line"
    [[ $line != *"serving the rendezvous at"* || -n $second ]] || { start second; second=$started; }
    [[ -z $off_at || $line != *"(1 rank,"* ]] || alone=$(seconds_since "$off_at")
    [[ -z $on_at || $line != *"(2 ranks,"* ]] || together=$(seconds_since "$on_at")
    continue
  fi
  epoch=${BASH_REMATCH[1]}
  if [[ $epoch != "$epoch_shown" ]]; then
    show "$line"
    epoch_shown=$epoch
  fi
  if [[ -z $off_at ]] && ((epoch >= 2)); then
    mapfile -t pids < <(processes_of first)
    [[ ${#pids[@]} -ge 3 ]] || die 1 "no guard, agent and worker of the first node"
    show ">>> the host of the server is switched off: kill -KILL ${pids[*]}"
    off_at=$EPOCHREALTIME
    kill -KILL "${pids[@]}"
    { wait "$first" || true; } 2>/dev/null  # The shell would tell that it was killed.
  elif [[ -n $alone && -z $on_at ]] && ((epoch >= 3)); then
    show ">>> the old host is started again"
    on_at=$EPOCHREALTIME
    start first
    first=$started
  fi
done

code=0
wait "$second" || code=$?
[[ $code -eq 0 ]] || die 1 "the surviving node ended with $code; its output: $folder/output.log"
[[ -n $off_at ]] || die 1 "the run ended before a host could be switched off: $folder/output.log"
[[ -n $alone ]] || die 1 "the surviving node never trained alone: $folder/output.log"
[[ -n $together ]] || die 1 "the nodes never trained together again: $folder/output.log"
wait "$first" || code=$?
[[ $code -eq 0 ]] || die 1 "the old host ended with $code; its output: $folder/output.log"
nothing_left
[[ -n $accuracy ]] || die 1 "no line tells the final accuracy: $folder/output.log"
say "final: ${accuracy:0:100}"
say "the server's host lost: trains on after $alone; the old host back: together after $together"
say "whole run $(seconds_since "$begin"); everything it printed: $folder/output.log"
