#!/usr/bin/env bash
# Feeds the fuzz targets of tests/fuzz with made-up input: scripts/fuzz.sh [OPTION...] [TARGET...]
#   --seconds=N  of each target (60)
#   --jobs=N     targets at a time (2)
#   --seed=N     makes up the same inputs again (0: others each time; commit: others each commit)
#   --merge      keeps what was found: smallest inputs that reach as much, in tests/fuzz/corpus
#   --no-setup   nothing is installed
# Builds into build-fuzz/ with clang. What breaks a target stays in build-fuzz/crashes: run the
# target with that file to see it again. Exit codes: 0 nothing broke, 1 something did, 2 usage.
set -euo pipefail
script_name=fuzz
# shellcheck source=lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
started=$EPOCHREALTIME

seconds=60 jobs=2 seed=0 merge=no setup=yes targets=()
for argument in "$@"; do
  case $argument in
    -h | --help) sed -n '2,9s/^# //p' "$0"; exit 0 ;;
    --seconds=*) seconds=${argument#*=} ;;
    --jobs=*) jobs=${argument#*=} ;;
    --seed=*) seed=${argument#*=} ;;
    --merge) merge=yes ;;
    --no-setup) setup=no ;;
    -*) die 2 "unknown option $argument" ;;
    *) targets+=("$argument") ;;
  esac
done
[[ $seed != commit ]] ||
  seed=$((16#$(git -C "$root" rev-parse --short=7 HEAD 2>/dev/null | cut -c1-7 || echo 1)))
[[ $seconds =~ ^[0-9]+$ && $jobs =~ ^[1-9][0-9]*$ && $seed =~ ^[0-9]+$ ]] ||
  die 2 "--seconds, --jobs and --seed take a number"
known=()
for file in "$root"/tests/fuzz/*_fuzz.cc; do
  known+=("$(basename "${file%_fuzz.cc}")")
done
[[ ${#targets[@]} -gt 0 ]] || targets=("${known[@]}")
for target in "${targets[@]}"; do
  [[ " ${known[*]} " == *" $target "* ]] || die 2 "no target '$target'; there are: ${known[*]}"
done

[[ $setup == no ]] || "$root/scripts/setup.sh" --no-libtorch --fuzz
build=$root/${DDPRUN_BUILD_DIR:-build}-fuzz
found=$build/found crashes=$build/crashes
launcher="env;CCACHE_DIR=$cache/ccache;CCACHE_MAXSIZE=5G;CCACHE_BASEDIR=$root;CCACHE_NOHASHDIR=1;ccache"
cmake -S "$root" -B "$build" -G Ninja --log-level=NOTICE -DDDPRUN_FUZZ=ON -DCMAKE_BUILD_TYPE=Release \
  -DCMAKE_CXX_COMPILER=clang++ -DCMAKE_CXX_COMPILER_LAUNCHER="$launcher" >/dev/null ||
  die 1 "configuring failed (CMake's message is above)"
NINJA_STATUS='[%f/%t %es] ' cmake --build "$build" -j "$jobs" --target "${targets[@]/#/fuzz_}" ||
  die 1 "the targets do not build (the compiler's message is above)"
mkdir -p "$crashes"

# Prints one line about the target; its whole log only where it broke.
fuzz() {
  local target=$1 log=$build/$1.log status=0
  mkdir -p "$found/$target"
  "$build/bin/fuzz_$target" -seed="$seed" -max_total_time="$seconds" -timeout=10 \
    -rss_limit_mb=2048 -max_len=32768 -len_control=20 \
    -print_final_stats=1 -artifact_prefix="$crashes/$target-" "$found/$target" \
    "$root/tests/fuzz/corpus/$target" >"$log" 2>&1 </dev/null || status=$?
  if [[ $status -ne 0 ]]; then
    grep -v '^#[0-9]' "$log" | tail -n 60 >&2  # Without what was found on the way.
    say "$target: BROKEN, by a file in $crashes"
    return 1
  fi
  say "$target: $(sed -n 's/^stat::number_of_executed_units: *//p' "$log") inputs," \
    "$(sed -n 's/.* cov: \([0-9]*\) .*/\1/p' "$log" | tail -n 1) edges, nothing broke"
}

# The corpus anew: as few and small inputs as reach what old and new ones reach together. Inputs
# with names of their own stay.
merge() {
  local corpus=$root/tests/fuzz/corpus/$1 merged
  merged=$(mktemp -d "$build/merge-XXXXXX")
  "$build/bin/fuzz_$1" -merge=1 -max_len=2048 "$merged" "$corpus" "$found/$1" >"$build/$1.merge.log" 2>&1
  # Names are digests, so their order is as good as chance: 30 kB and 100 files of each will do.
  (cd "$merged" && wc -c ./* | awk '$2 != "total" && ((sum += $1) > 30000 || NR > 100) { print $2 }' |
    xargs -r rm --)
  find "$corpus" -type f -regextype posix-extended -regex '.*/[0-9a-f]{40}' -delete
  mv "$merged"/* "$corpus"
  rmdir "$merged"
  say "$1: $(find "$corpus" -type f | wc -l) inputs kept, $(du -sb "$corpus" | cut -f1) bytes"
}

say "$seconds s of each of ${#targets[@]} targets, $jobs at a time (ready in $(seconds_since "$started"))"
failed=0
for target in "${targets[@]}"; do
  while [[ $(jobs -rp | wc -l) -ge $jobs ]]; do
    wait -n || failed=1
  done
  fuzz "$target" &
done
while [[ $(jobs -p | wc -l) -gt 0 ]]; do
  wait -n || failed=1
done
[[ $failed -eq 0 ]] || die 1 "a target broke (its log is above)"
if [[ $merge == yes ]]; then
  for target in "${targets[@]}"; do merge "$target"; done
fi
say "nothing broke ($(seconds_since "$started"))"
