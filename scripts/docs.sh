#!/usr/bin/env bash
# Builds the documentation site: scripts/docs.sh [--serve]
#   (none)    into build/site; a page or an anchor that is missing is an error
#   --serve   shows it at a port of this machine, anew after each change
set -euo pipefail
script_name=docs
# shellcheck source=lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

case ${1-} in
  '') command=(build --strict) ;;  # --quiet would hide the warnings that strict counts.
  --serve) command=(serve) ;;
  -h | --help) sed -n '2,4s/^# //p' "$0"; exit 0 ;;
  *) die 2 "unknown option $1; usage: scripts/docs.sh [--serve]" ;;
esac
"$root/scripts/setup.sh" --no-libtorch --docs
NO_MKDOCS_2_WARNING=1 "$(docs_venv)/bin/mkdocs" "${command[@]}" --config-file "$root/scripts/docs/mkdocs.yml"
[[ -n ${1-} ]] || say "built build/site/index.html"
