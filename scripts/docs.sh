#!/usr/bin/env bash
# Builds the documentation site: scripts/docs.sh [--serve]
#   (none)    into build/site; a page or an anchor that is missing is an error
#   --serve   shows it at a port of this machine, anew after each change
# Its references are made from what two programs print. They are built first, into the folder of scripts/test.sh --quick, if
# DDPRUN and DDPRUN_REFERENCE do not name them.
set -euo pipefail
script_name=docs
# shellcheck source=lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

case ${1-} in
  '') command=(build --strict) ;;  # --quiet would hide the warnings that strict counts.
  --serve) command=(serve) ;;
  -h | --help) sed -n '2,6s/^# //p' "$0"; exit 0 ;;
  *) die 2 "unknown option $1; usage: scripts/docs.sh [--serve]" ;;
esac
"$root/scripts/setup.sh" --no-libtorch --docs
if [[ -z ${DDPRUN-} || -z ${DDPRUN_REFERENCE-} ]]; then
  "$root/scripts/setup.sh" --no-libtorch --quick
  export DDPRUN_BUILD_DIR=${DDPRUN_BUILD_DIR:-build}-quick
  "$root/scripts/build.sh" --no-trainer --target=ddprun --target=flag_reference -DDDPRUN_TESTS=ON
  build=$root/$DDPRUN_BUILD_DIR
  export DDPRUN=$build/bin/ddprun DDPRUN_REFERENCE=$build/tests/flag_reference
fi
NO_MKDOCS_2_WARNING=1 "$(docs_venv)/bin/mkdocs" "${command[@]}" --config-file "$root/scripts/docs/mkdocs.yml"
[[ -n ${1-} ]] || say "built build/site/index.html"
