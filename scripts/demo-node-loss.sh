#!/usr/bin/env bash
# Trains on two nodes (two agents on this machine), switches one of them off in the middle of an
# epoch and later starts it again; shows in one screen how the other continues alone and how the world
# grows again. Fails unless both end well, at both sizes was trained, and no process is left.
#   DDPRUN_BIN=FOLDER   the binaries to use (build/bin, built when missing)
set -euo pipefail
script_name=demo
# shellcheck source=lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
# shellcheck source=demo_lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/demo_lib.sh"
epochs=6
silence=60  # Seconds without a line after which the run counts as hung.
[[ $# -eq 0 ]] || die 2 "takes no arguments"

begin_demo nodes 34
port=$((20000 + RANDOM % 10000))
command=("$bin/ddprun" --nnodes=1:2 "--rdzv-id=${folder##*/}" "--rdzv-endpoint=127.0.0.1:$port"
  "$bin/ddprun-train" --model=mlp --dataset=mnist "--epochs=$epochs" --progress-every=0.1)
end_with kill_all

start_second() {
  DEMO_RUN=$mark.second exec "${command[@]}" </dev/null >>"$folder/second.log" 2>&1
}

say "ddprun --nnodes=1:2 ddprun-train --model=mlp --dataset=mnist --epochs=$epochs, on two nodes"
exec {output}< <(DEMO_RUN=$mark.first exec "${command[@]}" 2>&1 </dev/null)
first=$!
second='' off_at='' on_at='' alone='' together='' accuracy='' epoch_shown=''
while line=; IFS= read -r -t "$silence" -u "$output" line || [[ -n $line ]]; do
  printf '%s\n' "$line" >>"$folder/first.log"
  [[ ! $line =~ acc(uracy)?[\ :=]+[0-9.]+\ ?% ]] || accuracy=$line  # The last one is final.
  if [[ $line == *"serving the rendezvous at"* && -z $second ]]; then
    show "$line"
    start_second &
    second=$!
  elif [[ ! $line =~ epoch\ ([0-9]+)/[0-9]+\ step\ ([0-9]+)/([0-9]+) ]]; then
    show "$line"
    [[ -z $off_at || $line != *"(1 rank,"* ]] || alone=$(seconds_since "$off_at")
    [[ -z $on_at || $line != *"(2 ranks,"* ]] || together=$(seconds_since "$on_at")
  else
    epoch=${BASH_REMATCH[1]} step=${BASH_REMATCH[2]} steps=${BASH_REMATCH[3]}
    if [[ $epoch != "$epoch_shown" ]]; then
      show "$line"
      epoch_shown=$epoch
    fi
    if [[ -z $off_at ]] && ((epoch >= 2)); then
      mapfile -t pids < <(processes_of second)
      [[ ${#pids[@]} -ge 3 ]] || die 1 "no guard, agent and worker of the second node"
      show ">>> the second node is switched off: kill -KILL ${pids[*]}"
      off_at=$EPOCHREALTIME
      kill -KILL "${pids[@]}"
      { wait "$second" || true; } 2>/dev/null  # The shell would tell that it was killed.
    elif [[ -n $alone && -z $on_at ]] && ((step * 3 >= steps * 2 || epoch >= 4)); then
      show ">>> the second node is started again"
      on_at=$EPOCHREALTIME
      start_second &
      second=$!
    fi
  fi
done

code=0
wait "$first" || code=$?
[[ $code -eq 0 ]] || die 1 "the first node ended with $code; its output: $folder/first.log"
[[ -n $off_at ]] || die 1 "the run ended before a node could be switched off: $folder/first.log"
[[ -n $alone ]] || die 1 "the first node never trained alone: $folder/first.log"
[[ -n $together ]] || die 1 "the nodes never trained together again: $folder/first.log"
wait "$second" || code=$?
[[ $code -eq 0 ]] || die 1 "the second node ended with $code; its output: $folder/second.log"
nothing_left
[[ -n $accuracy ]] || die 1 "no line tells the final accuracy: $folder/first.log"
say "final: ${accuracy:0:100}"
say "a node lost: trains alone after $alone; a node back: together after $together; no restart used"
say "whole run $(seconds_since "$begin"); everything it printed: $folder/first.log"
