#!/usr/bin/env bash
# Simulates N random histories (2000): scripts/sim.sh [N] [ARGUMENT OF ddprun_sim...]
# The seeds derive from the commit, so that every commit tries others and any failure can be
# repeated; a failing seed prints its own command line.
set -euo pipefail
script_name=sim
# shellcheck source=lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

count=2000
if [[ ${1-} =~ ^[0-9]+$ ]]; then
  count=$1
  shift
fi
build=$root/${DDPRUN_BUILD_DIR:-build}
[[ -f $build/build.ninja ]] || "$root/scripts/build.sh" --no-trainer
cmake --build "$build" --target ddprun_sim >/dev/null || die 1 "ddprun_sim does not build:
  cmake --build $build --target ddprun_sim"
base=$(git -C "$root" rev-parse HEAD 2>/dev/null || echo 0)
say "$count histories, seeds from commit ${base:0:12}"
exec "$build/tests/ddprun_sim" "--seeds=$count" "--base=$base" "$@"
