#!/usr/bin/env bash
# Formats every C++ file in place; with --check only says which ones differ (exit 1).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
mode=(-i)
case ${1-} in
  '') ;;
  --check) mode=(--dry-run -Werror) ;;
  *) echo "usage: scripts/format.sh [--check]" >&2; exit 2 ;;
esac
git ls-files -z --cached --others --exclude-standard -- '*.cc' '*.h' |
  xargs -0 --no-run-if-empty clang-format "${mode[@]}"
