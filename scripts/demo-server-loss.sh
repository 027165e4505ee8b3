#!/usr/bin/env bash
# Trains on two nodes, both on this machine, through a rendezvous server of its own; kills that
# server in the middle of an epoch, starts it again on the same endpoint, and shows in one screen
# that nobody stopped. Fails unless both workers are the same processes afterwards, training continued
# without a server, the run ends well, and no process of it is left.
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

# Of both nodes: the guard's child is the agent, and of the agent's children those with a rank are
# workers (one waits, with its libraries loaded, for what may have to be started next).
workers() {
  local node agent agents child
  for node in "${pids[@]}"; do
    { read -ra agents <"/proc/$node/task/$node/children"; } 2>/dev/null || true
    for agent in "${agents[@]}"; do
      while read -rd ' ' child; do
        if grep -qzs '^RANK=' "/proc/$child/environ"; then
          printf '%s ' "$child"
        fi
      done < <(cat "/proc/$agent"/task/*/children 2>/dev/null)
    done
  done | xargs
}

begin_demo server 32
open_output
pids=()
start_server() {
  DEMO_RUN=$mark.server "$bin/ddprun" rendezvous "--listen=127.0.0.1:$1" --state-dir=state \
    >&"$output" 2>&1 </dev/null &
  server=$!
  disown "$server"  # Its death is no news to the shell.
}
end_all() {
  kill -TERM "${pids[@]}" "$server" 2>/dev/null || true
  timeout 10 tail --pid="$server" -f /dev/null || true
}
end_with end_all

say "ddprun rendezvous --listen=127.0.0.1:0 --state-dir=state"
start_server 0
IFS= read -r -t "$silence" -u "$output" line || die 1 "the server says nothing"
show "$line"
[[ $line =~ serving\ at\ 127\.0\.0\.1:([0-9]+) ]] || die 1 "the server does not serve: $line"
port=${BASH_REMATCH[1]}
say "twice: ddprun --nnodes=2 --rdzv-endpoint=127.0.0.1:$port ddprun-train --dataset=mnist --epochs=$epochs --progress-every=0.2"
for node in 0 1; do
  DEMO_RUN=$mark.server "$bin/ddprun" --nnodes=2 --rdzv-id=demo "--rdzv-endpoint=127.0.0.1:$port" \
    "$bin/ddprun-train" --model=mlp --dataset=mnist "--epochs=$epochs" --progress-every=0.2 \
    >&"$output" 2>&1 </dev/null &
  pids[node]=$!
done

before='' killed_at='' missed='' back_at='' recovered='' without=0 step_before=0 accuracy=''
while next_line kill -0 "${pids[@]}" 2>/dev/null; do
  [[ ! $line =~ test\ accuracy ]] || accuracy=$line
  if [[ ! $line =~ epoch\ ([0-9]+)/([0-9]+)\ step\ ([0-9]+)/([0-9]+) ]]; then
    show "$line"
    if [[ $line =~ "cannot reach the rendezvous" ]]; then
      missed=1
    elif [[ -n $back_at && $line =~ "recovered generation" ]]; then
      recovered=$(seconds_since "$back_at")
      show ">>> both agents are back $recovered after the server's start; workers: $(workers)"
      [[ $(workers) == "$before" ]] || die 1 "workers were restarted: $folder/output.log"
    fi
    continue
  fi
  epoch=${BASH_REMATCH[1]} step=${BASH_REMATCH[3]}
  ((step > step_before)) || die 1 "step $step follows step $step_before: $folder/output.log"
  step_before=$step
  if [[ -z $killed_at && $epoch -ge 2 ]]; then
    before=$(workers)
    show "$line"
    kill -KILL "$server"
    killed_at=$EPOCHREALTIME
    show ">>> kill -KILL $server, the rendezvous server; workers: $before"
  elif [[ -n $killed_at && -z $back_at ]]; then
    without=$((without + 1))
    show "$line"
    if [[ -n $missed && $without -ge 2 ]]; then
      show ">>> training continues without a server (lines of progress: $without); starting it again"
      start_server "$port"
      back_at=$EPOCHREALTIME
    fi
  elif ((step % 5 == 0)); then
    show "$line"
  fi
done

code=0
for pid in "${pids[@]}"; do
  wait "$pid" || code=$?
done
kill -TERM "$server"
timeout 10 tail --pid="$server" -f /dev/null || die 1 "the server does not stop"
nothing_left
[[ $code -eq 0 ]] || die 1 "a node ended with $code; its output: $folder/output.log"
[[ -n $killed_at ]] || die 1 "the run ended before the server could be killed: $folder/output.log"
[[ $without -gt 0 ]] || die 1 "nobody trained while there was no server: $folder/output.log"
[[ -n $back_at ]] || die 1 "no agent missed the server: $folder/output.log"
[[ -n $recovered ]] || die 1 "the new server never recovered the run: $folder/output.log"
say "final: ${accuracy:0:100}"
say "server killed and started again, 0 workers restarted, no step lost; exit 0, no process left"
say "whole run $(seconds_since "$begin"); everything it printed: $folder/output.log"
