# Functions of all demos beside it; sourced after lib.sh, never run.
# shellcheck shell=bash disable=SC2034,SC2154

# begin_demo NAME LINES: the programs, and a folder to work in; shows at most so many lines.
begin_demo() {
  lines_left=$2
  bin=${DDPRUN_BIN:-$root/${DDPRUN_BUILD_DIR:-build}/bin}
  [[ $bin == /* ]] || bin=$PWD/$bin
  [[ -x $bin/ddprun && -x $bin/ddprun-train ]] || "$root/scripts/build.sh"
  local runs=$root/${DDPRUN_BUILD_DIR:-build}/demo
  mkdir -p "$runs"
  folder=$(mktemp -d "$runs/$1-XXXXXX")
  mark=${folder##*/}.$$  # In DEMO_RUN; by it every process of the run is found again.
  begin=$EPOCHREALTIME
  cd "$folder" || exit
}

# processes_of PART: every process with DEMO_RUN=$mark.PART, wherever in the process tree it has
# gone; "" for all parts.
processes_of() {
  local variables
  for variables in /proc/[0-9]*/environ; do
    if grep -qz -- "^DEMO_RUN=$mark\.$1" "$variables"; then
      variables=${variables%/environ}
      echo "${variables#/proc/}"
    fi
  done 2>/dev/null
}
kill_all() {
  local pids
  mapfile -t pids < <(processes_of "")
  [[ ${#pids[@]} -eq 0 ]] || kill -KILL "${pids[@]}" 2>/dev/null || true
}
# end_with COMMAND: however the script ends.
end_with() {
  # shellcheck disable=SC2064
  trap "$1" EXIT
  trap 'exit 130' INT
  trap 'exit 143' TERM HUP
}
# Once all went well: nothing of the run is left.
nothing_left() {
  trap - EXIT
  local left
  left=$(processes_of "")
  [[ -z $left ]] || die 1 "processes of the run are left: ${left//$'\n'/ }"
}

# Shows a line, stamped, cut to the screen; a hurried log cannot fill it.
show() {
  [[ $lines_left -gt 0 ]] || return 0
  lines_left=$((lines_left - 1))
  printf '%7s  %.*s\n' "$(seconds_since "$begin")" 125 "$1"
}

# The output of several processes, line by line: they write to &"$output".
open_output() {
  mkfifo output
  exec {output}<>output
  part='' heard=$EPOCHREALTIME
}
# next_line COMMAND...: the next one in `line`, and in output.log. 1: all is said; COMMAND tells
# whether somebody is there who could say more, whose silence for $silence seconds is a failure.
next_line() {
  while "$@" || IFS= read -r -t 0 -u "$output"; do
    if IFS= read -r -t 0.2 -u "$output" line; then
      line=$part$line part=''
      heard=$EPOCHREALTIME
      printf '%s\n' "$line" >>output.log
      return 0
    fi
    part+=$line
    [[ $(seconds_since "$heard") != "$silence".* ]] || die 1 "nothing is said: $folder/output.log"
  done
  return 1
}
