#!/usr/bin/env bash
# Trains on three nodes, each in a network namespace of its own, with a list of three endpoints and
# no shared run directory; cuts the one that carries the rendezvous server off in the middle of an
# epoch, and heals the network later. Shows in one screen what each side of the split does: the two
# take the server's part over and go on, the one steps down and waits, and joins when it is back.
# Fails unless all end well, all three sizes were trained, and no process is left. Needs root.
#   DDPRUN_BIN=FOLDER   the binaries to use (build/bin, built when missing)
set -euo pipefail
script_name=demo
# shellcheck source=lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
# shellcheck source=demo_lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/demo_lib.sh"
epochs=40  # More than one side alone gets through before the other takes over.
silence=90  # Seconds without a line after which the run counts as hung.
[[ $# -eq 0 ]] || die 2 "takes no arguments"
[[ $EUID -eq 0 ]] || die 1 "needs root, to make network namespaces"
for tool in ip unshare nsenter; do
  command -v "$tool" >/dev/null || die 1 "needs '$tool' (Debian: iproute2, util-linux)"
done

begin_demo split 60
open_output

# ---- Three machines on one switch ----
holders=()
end_network() {
  kill_all
  kill "${holders[@]}" 2>/dev/null || true
}
end_with end_network
# A network of its own, as long as a process stays in it.
make_network() {
  unshare --net sleep infinity </dev/null &
  holders+=($!)
  until [[ $(readlink "/proc/$!/ns/net" 2>/dev/null) != "$(readlink /proc/self/ns/net)" ]]; do
    kill -0 $! || die 1 "cannot make a network namespace"
  done
}
in_network() {  # NUMBER COMMAND...
  local holder=${holders[$1]}
  shift
  nsenter --target="$holder" --net -- "$@"
}
make_network
in_network 0 ip link add name switch type bridge
in_network 0 ip link set switch up
for node in 1 2 3; do
  make_network
  in_network 0 ip link add name "port$node" type veth peer name eth0 netns "${holders[$node]}"
  in_network 0 ip link set "port$node" master switch up
  in_network "$node" ip link set lo up
  in_network "$node" ip address add "10.97.0.$node/24" dev eth0
  in_network "$node" ip link set eth0 up
done

list=10.97.0.1:29400,10.97.0.2:29400,10.97.0.3:29400
say "ddprun --nnodes=1:3 --rdzv-endpoint=$list ddprun-train --dataset=mnist --epochs=$epochs"
agents=()
for node in 1 2 3; do
  DEMO_RUN=$mark.node in_network "$node" "$bin/ddprun" --nnodes=1:3 "--rdzv-id=${folder##*/}" \
    "--rdzv-endpoint=$list" --rdzv-conf=last_call_timeout=2 "$bin/ddprun-train" --model=mlp \
    --dataset=mnist "--epochs=$epochs" --progress-every=0.2 </dev/null >&"$output" 2>&1 &
  agents+=($!)
done

off_at='' on_at='' two='' three='' accuracy='' epoch_shown=''
alive() {
  local agent
  for agent in "${agents[@]}"; do
    ! kill -0 "$agent" 2>/dev/null || return 0
  done
  return 1
}
while next_line alive; do
  [[ ! $line =~ test\ accuracy ]] || accuracy=$line
  if [[ ! $line =~ epoch\ ([0-9]+)/[0-9]+\ step ]]; then
    show "$line"
    [[ -z $off_at || $line != *"(2 ranks,"* ]] || two=$(seconds_since "$off_at")
    [[ -z $on_at || $line != *"(3 ranks,"* ]] || three=$(seconds_since "$on_at")
    continue
  fi
  epoch=${BASH_REMATCH[1]}
  if [[ $epoch != "$epoch_shown" ]]; then
    show "$line"
    epoch_shown=$epoch
  fi
  if [[ -z $off_at ]] && ((epoch >= 2)); then
    show ">>> 10.97.0.1, which carries the server, is cut off from the others"
    off_at=$EPOCHREALTIME
    in_network 0 ip link set port1 down
  elif [[ -n $two && -z $on_at ]] && ((epoch >= 4)); then
    show ">>> the network is whole again"
    on_at=$EPOCHREALTIME
    in_network 0 ip link set port1 up
  fi
done

for agent in "${agents[@]}"; do
  code=0
  wait "$agent" || code=$?
  [[ $code -eq 0 ]] || die 1 "a node ended with $code; its output: $folder/output.log"
done
[[ -n $off_at ]] || die 1 "the run ended before it could be split: $folder/output.log"
[[ -n $two ]] || die 1 "the two nodes never trained by themselves: $folder/output.log"
[[ -n $three ]] || die 1 "the three never trained together again: $folder/output.log"
grep -q "this node's server steps down" output.log || die 1 "nobody stepped down: $folder/output.log"
left=$(processes_of "")
[[ -z $left ]] || die 1 "processes of the run are left: ${left//$'\n'/ }"
[[ -n $accuracy ]] || die 1 "no line tells the final accuracy: $folder/output.log"
say "final: ${accuracy:0:100}"
say "cut off: the two train on after $two; whole again: together after $three"
say "whole run $(seconds_since "$begin"); everything it printed: $folder/output.log"
