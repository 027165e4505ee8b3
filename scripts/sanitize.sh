#!/usr/bin/env bash
# Builds with the compiler's sanitizers and runs tests: scripts/sanitize.sh address|thread [CTEST ARGUMENT...]
#   address  addresses and undefined behaviour, in everything but what holds libtorch
#   thread   data races, in what has neither gRPC nor libtorch (these are not built for it)
# Builds into build-address/ or build-thread/; reports are in found/ there. Exit codes: 0 nothing
# found, 2 usage, 1 something was, else ctest's.
set -euo pipefail
script_name=sanitize
# shellcheck source=lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

[[ $# -gt 0 ]] || die 2 "which sanitizer: address or thread?"
kind=$1
shift
case $kind in
  -h | --help) sed -n '2,6s/^# //p' "$0"; exit 0 ;;
  address) flags=address,undefined what=(--all --no-trainer) setup=(--no-libtorch --quick) ;;
  thread) flags=thread what=(--target=unit_tests) setup=(--quick) ;;
  *) die 2 "no sanitizer '$kind': address or thread" ;;
esac
"$root/scripts/setup.sh" "${setup[@]}"
build=${DDPRUN_BUILD_DIR:-build}-$kind
DDPRUN_BUILD_DIR=$build "$root/scripts/build.sh" "${what[@]}" -DDDPRUN_TESTS=ON -DDDPRUN_SANITIZE="$flags"

# Programs are several times as slow with it.
find "$root/$build" -name CTestTestfile.cmake -exec sed -i -E 's/ TIMEOUT "([0-9]+)"/ TIMEOUT "\10"/' {} +

# A finding ends the program with a code that no test expects. Its report is in a file, since some
# tests have nobody read stderr, or read it for other things; all are shown at the end.
found=$root/$build/found
rm -rf "$found"
mkdir "$found"
export ASAN_OPTIONS=${ASAN_OPTIONS:-abort_on_error=1:detect_stack_use_after_return=1:log_path=$found/report}
export UBSAN_OPTIONS=${UBSAN_OPTIONS:-print_stacktrace=1:abort_on_error=1:log_path=$found/report}
export TSAN_OPTIONS=${TSAN_OPTIONS:-halt_on_error=1:abort_on_error=1:log_path=$found/report}
status=0
python3 "$root/scripts/run_tests.py" "$root/$build" --no-tests=error \
  -j "${DDPRUN_TEST_JOBS:-$((4 * $(nproc)))}" -LE '^(style|fuzz|scripts|slurm|torch)$' "$@" || status=$?
for report in "$found"/*; do
  [[ -f $report ]] || continue
  printf '\n%s:\n' "$report"
  head -n 40 "$report"
  [[ $status != 0 ]] || status=1
done
exit "$status"
