#!/usr/bin/env bash
# Makes the files of a release in dist/: all packages, the list of what is linked into them (SPDX),
# checksums and notes. Nothing is uploaded.
#   scripts/release.sh [ARGUMENT OF scripts/package.sh...]
# The notes are the version's section of CHANGELOG.md. On a tag the version must be the tag's; elsewhere
# "Unreleased" will do, where the version has no section yet.
set -euo pipefail
script_name=release
# shellcheck source=lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
[[ ${1-} != -h && ${1-} != --help ]] || { sed -n '2,6s/^# //p' "$0"; exit 0; }
cd "$root"

[[ -z $(git status --porcelain --untracked-files=no) ]] ||
  die 2 "files differ from the commit (git status): a release is made from a commit"
version=$(sed -n 's/^project(ddprun VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)
section=$version
if tag=$(git describe --exact-match --match 'v*' 2>/dev/null); then
  [[ $tag == "v$version" ]] || die 2 "the tag is $tag and the version in CMakeLists.txt $version"
elif ! grep -q "^## $version" CHANGELOG.md; then
  section=Unreleased
fi
notes=$(awk -v section="$section" '/^## / { on = ($2 == section); next } on' CHANGELOG.md)
[[ -n ${notes//[[:space:]]/} ]] || die 2 "CHANGELOG.md has no text under '## $section'"

rm -rf dist
scripts/package.sh "$@" wheel deb tar image sbom
cd dist
sha256sum -- * >SHA256SUMS
printf '%s\n' "$notes" >NOTES.md
say "version $version, $(find . -type f | wc -l) files in dist/"
