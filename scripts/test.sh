#!/usr/bin/env bash
# Builds everything and runs the tests: scripts/test.sh [--no-torch] [CTEST ARGUMENT...]
#   -L LABEL, --label LABEL   one tree: unit golden sim style scripts integration fault slurm
#                             torch trainer
#   --no-torch                without the real torch (2.4 GB to download, 4 GB on disk), and so
#                             without label torch: unmodified PyTorch programs under ddprun
# Ends with ctest's own summary and exit code.
set -euo pipefail
script_name='test'
# shellcheck source=lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

want_torch=yes ctest_arguments=() extra=()
while [[ $# -gt 0 ]]; do
  case $1 in
    -h | --help) sed -n '2,7s/^# //p' "$0"; exit 0 ;;
    --no-torch) want_torch=no ;;
    --label) [[ $# -ge 2 ]] || die 2 "--label needs a name"; ctest_arguments+=(-L "^$2\$"); shift ;;
    --label=*) ctest_arguments+=(-L "^${1#*=}\$") ;;
    *) ctest_arguments+=("$1") ;;
  esac
  shift
done

if [[ $want_torch == yes ]]; then
  "$root/scripts/setup.sh" --tests --torch
  DDPRUN_TEST_PYTHON=$(torch_venv)/bin/python3
  extra=(-DDDPRUN_FRAMEWORKS="$(frameworks)")
else
  [[ ${CI:-} != true ]] || die 2 "CI=true: the tests with torch may not be left out (--no-torch)"
  "$root/scripts/setup.sh" --tests
  DDPRUN_TEST_PYTHON=$(test_venv)/bin/python3
fi
export DDPRUN_TEST_PYTHON
"$root/scripts/build.sh" --all -DDDPRUN_TESTS=ON -DDDPRUN_TEST_PYTHON="$DDPRUN_TEST_PYTHON" \
  "${extra[@]}"

cd "$root/${DDPRUN_BUILD_DIR:-build}"
# Two at a time: most wait for processes; what needs the machine alone says so (RUN_SERIAL).
exec ctest --output-on-failure --no-tests=error -j "${DDPRUN_TEST_JOBS:-2}" "${ctest_arguments[@]}"
