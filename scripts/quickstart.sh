#!/usr/bin/env bash
# From a fresh clone to a trained model: builds, then trains an MLP on MNIST with two workers.
# Each time in a new folder below build/quickstart, so that it always trains from the beginning.
set -euo pipefail
script_name=quickstart
# shellcheck source=lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
started=$EPOCHREALTIME
[[ $# -eq 0 ]] || die 2 "takes no arguments; run build/bin/ddprun yourself for anything else"

"$root/scripts/build.sh" --target=bin/ddprun --target=bin/ddprun-train  # Only the programs that this needs.
bin=$root/${DDPRUN_BUILD_DIR:-build}/bin
runs=$root/${DDPRUN_BUILD_DIR:-build}/quickstart
mkdir -p "$runs"
folder=$(mktemp -d "$runs/run-XXXXXX")
say "training in $folder:"
say "  ddprun --nproc-per-node=2 --max-restarts=3 ddprun-train --model=mlp --dataset=mnist --epochs=5"
begin=$EPOCHREALTIME
cd "$folder"
code=0
"$bin/ddprun" --nproc-per-node=2 --max-restarts=3 \
  "$bin/ddprun-train" --model=mlp --dataset=mnist --epochs=5 || code=$?
[[ $code -eq 0 ]] || die "$code" "ddprun ended with $code after $(seconds_since "$begin")"
say "trained in $(seconds_since "$begin"), $(seconds_since "$started") with building"
say "logs and checkpoints: $folder"
say "next, kill a worker and watch: scripts/demo-recovery.sh"
