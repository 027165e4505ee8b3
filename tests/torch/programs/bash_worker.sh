#!/usr/bin/env bash
# A worker that is no Python at all.
set -eu
printf '{"rank": %d, "world": %d, "arguments": "%s"}' "$RANK" "$WORLD_SIZE" "$*" \
  >"$REPORTS/$RANK.partial"
mv "$REPORTS/$RANK.partial" "$REPORTS/$RANK.$TORCHELASTIC_RESTART_COUNT.json"
