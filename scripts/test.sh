#!/usr/bin/env bash
# Builds everything and runs the tests: scripts/test.sh [--torch] [CTEST ARGUMENT...]
#   -L LABEL, --label LABEL   one tree: unit golden sim style scripts integration fault trainer
#   --torch                   with the real torch, for tests of unmodified PyTorch scripts
# Ends with ctest's own summary and exit code.
set -euo pipefail
script_name='test'
# shellcheck source=lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

setup_flags=(--tests) ctest_arguments=()
while [[ $# -gt 0 ]]; do
  case $1 in
    -h | --help) sed -n '2,5s/^# //p' "$0"; exit 0 ;;
    --torch) setup_flags+=(--torch) ;;
    --label) [[ $# -ge 2 ]] || die 2 "--label needs a name"; ctest_arguments+=(-L "^$2\$"); shift ;;
    --label=*) ctest_arguments+=(-L "^${1#*=}\$") ;;
    *) ctest_arguments+=("$1") ;;
  esac
  shift
done

"$root/scripts/setup.sh" "${setup_flags[@]}"
DDPRUN_TEST_PYTHON=$(test_venv)/bin/python3
[[ ! -f $(torch_venv)/$stamp_name ]] || DDPRUN_TEST_PYTHON=$(torch_venv)/bin/python3
export DDPRUN_TEST_PYTHON
"$root/scripts/build.sh" --all -DDDPRUN_TESTS=ON -DDDPRUN_TEST_PYTHON="$DDPRUN_TEST_PYTHON"

cd "$root/${DDPRUN_BUILD_DIR:-build}"
# Two at a time: most wait for processes; what needs the machine alone says so (RUN_SERIAL).
exec ctest --output-on-failure --no-tests=error -j "${DDPRUN_TEST_JOBS:-2}" "${ctest_arguments[@]}"
