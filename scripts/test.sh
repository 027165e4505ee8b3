#!/usr/bin/env bash
# Builds everything and runs the tests: scripts/test.sh [--quick] [--no-torch] [CTEST ARGUMENT...]
#   --quick                   what answers within a minute: units, transcripts, short simulations,
#                             style; without libtorch, in a build folder of its own
#   -L LABEL, --label LABEL   one tree: unit golden sim style scripts integration fault slurm
#                             kubernetes fuzz torch trainer packages compatibility docs
#   -R NAME                   the tests whose names match
#   -C whole                  also what is too slow for each change
#   --no-torch                without the real torch (2.4 GB to download, 4 GB on disk), and so
#                             without label torch: unmodified PyTorch programs under ddprun
# A failed test is run once more by itself. If it then passes, it is named as flaky and ignored.
# DDPRUN_TEST_JOBS: quarters of a core that tests may take together (five for each core, since they also wait).
# Exit codes: 0 none failed, 2 none was run or the usage is wrong, else ctest's.
set -euo pipefail
script_name='test'
# shellcheck source=lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

want_torch=yes quick=no ctest_arguments=() extra=()
while [[ $# -gt 0 ]]; do
  case $1 in
    -h | --help) sed -n '2,13s/^# //p' "$0"; exit 0 ;;
    --quick) quick=yes want_torch=no ;;
    --no-torch) want_torch=no ;;
    --label) [[ $# -ge 2 ]] || die 2 "--label needs a name"; ctest_arguments+=(-L "^$2\$"); shift ;;
    --label=*) ctest_arguments+=(-L "^${1#*=}\$") ;;
    *) ctest_arguments+=("$1") ;;
  esac
  shift
done
[[ $want_torch == yes || ${CI:-} != true ]] ||
  die 2 "CI=true: the tests with torch may not be left out (--no-torch, --quick)"

if [[ $quick == yes ]]; then
  "$root/scripts/setup.sh" --no-libtorch --quick
  export DDPRUN_BUILD_DIR=${DDPRUN_BUILD_DIR:-build}-quick
  extra=(--no-trainer)
  ctest_arguments+=(-L '^quick$')
elif [[ $want_torch == yes ]]; then
  "$root/scripts/setup.sh" --tests --torch
  extra=(-DDDPRUN_TEST_PYTHON="$(torch_venv)/bin/python3" -DDDPRUN_FRAMEWORKS="$(frameworks)"
    -DDDPRUN_MORE_FRAMEWORKS="$(more_frameworks)" -DDDPRUN_TORCHTITAN="$(torchtitan)")
else
  "$root/scripts/setup.sh" --tests
  extra=(-DDDPRUN_TEST_PYTHON="$(test_venv)/bin/python3")
fi
[[ $quick == yes ]] || extra+=(-DDDPRUN_PROMTOOL="$(promtool)" -DDDPRUN_SSHD="$(sshd_alone)" -DDDPRUN_PACKAGE_PYTHON="$(package_venv)/bin/python3"
  -DDDPRUN_KUBERNETES_PYTHON="$(kubernetes_venv)/bin/python3" -DDDPRUN_DOCS_PYTHON="$(docs_venv)/bin/python3")
"$root/scripts/build.sh" --all -DDDPRUN_TESTS=ON "${extra[@]}"

# A test says what it takes of the machine in quarters of a core (PROCESSORS); most wait.
exec python3 "$root/scripts/run_tests.py" "$root/${DDPRUN_BUILD_DIR:-build}" --no-tests=error \
  -j "${DDPRUN_TEST_JOBS:-$((5 * $(nproc)))}" "${ctest_arguments[@]}"
