#!/usr/bin/env bash
# Trains as quickstart.sh does, kills one worker in the middle of an epoch, and shows in one screen
# how that is noticed, restarted and resumed. Fails unless the run still ends well, a restart was
# seen, and no process of the run is left.
#   DDPRUN_BIN=FOLDER   the binaries to use (build/bin, built when missing)
set -euo pipefail
script_name=demo
# shellcheck source=lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
# shellcheck source=demo_lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/demo_lib.sh"
epochs=3
silence=60  # Seconds without a line after which the run counts as hung.
[[ $# -eq 0 ]] || die 2 "takes no arguments"

# The ids of all live descendants of a process, nearest first.
descendants_of() {
  local queue=("$1") pid children
  while [[ ${#queue[@]} -gt 0 ]]; do
    pid=${queue[0]}
    queue=("${queue[@]:1}")
    children=$(cat "/proc/$pid"/task/*/children 2>/dev/null || true)
    for pid in $children; do
      echo "$pid"
      queue+=("$pid")
    done
  done
}

has_variable() { grep -qzx -- "$2" "/proc/$1/environ"; }

# The worker itself comes before its helpers, which inherit its environment.
worker_of_local_rank_1() {
  local pid
  for pid in $(descendants_of "$run_pid"); do
    if has_variable "$pid" LOCAL_RANK=1 2>/dev/null; then
      echo "$pid"
      return
    fi
  done
}

# is_middle STEP STEPS EPOCHS: after the first epoch, before the run's end, far from an epoch's edge.
is_middle() {
  local position=$(($1 * $3 * 100 / $2 % 100))
  (($1 * $3 >= $2 && $1 * 10 < $2 * 9 && position >= 5 && position <= 95))
}

begin_demo run 32
say "ddprun --nproc-per-node=2 --max-restarts=3 ddprun-train --model=mlp --dataset=mnist --epochs=$epochs --progress-every=0.1"
exec {output}< <(DEMO_RUN=$mark.all exec "$bin/ddprun" --nproc-per-node=2 --max-restarts=3 \
  "$bin/ddprun-train" --model=mlp --dataset=mnist "--epochs=$epochs" --progress-every=0.1 \
  2>&1 </dev/null)
run_pid=$!
end_run() {
  kill -TERM "$run_pid" 2>/dev/null || return 0
  timeout 10 tail --pid="$run_pid" -f /dev/null || kill -KILL "$run_pid" 2>/dev/null || true
}
end_with end_run

killed='' killed_at='' restarted='' resumed='' parts='' accuracy='' epoch_shown=''
while line=; IFS= read -r -t "$silence" -u "$output" line || [[ -n $line ]]; do
  printf '%s\n' "$line" >>"$folder/output.log"
  [[ ! $line =~ acc(uracy)?[\ :=]+[0-9.]+\ ?% ]] || accuracy=$line  # The last one is final.
  [[ ! $line =~ recovered\ in\ (.*) ]] || parts=${BASH_REMATCH[1]}
  if [[ ! $line =~ epoch\ ([0-9]+)/([0-9]+)\ step\ ([0-9]+)/([0-9]+) ]]; then
    # Steps already on their way when the worker died do not count as trained again.
    [[ -z $killed || ! ${line,,} =~ restart|resum ]] || restarted=yes
    show "$line"
    continue
  fi
  epoch=${BASH_REMATCH[1]} of=${BASH_REMATCH[2]} step=${BASH_REMATCH[3]} steps=${BASH_REMATCH[4]}
  if [[ -z $killed ]] && is_middle "$step" "$steps" "$of"; then
    victim=$(worker_of_local_rank_1)
    [[ -n $victim ]] || die 1 "no worker with LOCAL_RANK=1 below ddprun, pid $run_pid"
    show "$line"
    kill -KILL "$victim"
    killed=$victim killed_at=$EPOCHREALTIME
    show ">>> kill -KILL $victim, the worker of local rank 1, in the middle of epoch $epoch"
  elif [[ -n $restarted && -z $resumed ]]; then
    resumed=$(seconds_since "$killed_at")
    show "$line"
    show ">>> trains again, $resumed after the kill"
    epoch_shown=$epoch
  elif [[ $epoch != "$epoch_shown" ]]; then
    epoch_shown=$epoch
    show "$line"
  fi
done

# The output ends when the last process that holds it ends, so only a hung run is still here.
if [[ -e /proc/$run_pid/exe ]] && ! timeout 5 tail --pid="$run_pid" -f /dev/null; then
  die 1 "the run is still alive after $silence s of silence; its output: $folder/output.log"
fi
code=0
wait "$run_pid" || code=$?
trap - EXIT
left=$(processes_of "")
[[ $code -eq 0 ]] || die 1 "ddprun ended with $code; its output: $folder/output.log"
[[ -z $left ]] || die 1 "processes of the run are left: ${left//$'\n'/ }"
[[ -n $killed ]] || die 1 "the run ended before a worker could be killed: $folder/output.log"
[[ -n $resumed ]] || die 1 "training never continued after the kill: $folder/output.log"
[[ -n $accuracy ]] || die 1 "no line tells the final accuracy: $folder/output.log"
[[ -z $parts ]] || say "killed to the next step by parts: $parts"
say "final: ${accuracy:0:100}"
say "worker $killed killed, training again after $resumed; exit 0, no process left"
say "whole run $(seconds_since "$begin"); everything it printed: $folder/output.log"
