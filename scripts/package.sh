#!/usr/bin/env bash
# Makes packages of ddprun in dist/; nothing is uploaded.
#   scripts/package.sh [--no-trainer] [--cuda] [-DNAME=VALUE...] [--out=DIR] [--as-built] KIND...
#   wheel   ddprun and ddprun-train for pip       deb   the same two for Debian 12 and newer
#   tar     all of it in one folder, to be unpacked anywhere
#   image   the launcher on Debian 12, an OCI archive for podman load (needs mmdebstrap; no registry)
#   sbom    what is linked into ddprun, with its versions, as SPDX for scanners
# --as-built packs what the build folder holds (target packed); the other options are scripts/build.sh's.
# All kinds come from one build folder (build, or DDPRUN_BUILD_DIR), and two builds of a commit are the
# same bytes: times are the commit's.
# Their use and installation: docs/install.md. Exit code 1: a check of a package failed.
set -euo pipefail
script_name=package
# shellcheck source=lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
started=$EPOCHREALTIME
umask 022  # It is written into packages.

kinds=() build_flags=() as_built=no out=$root/dist
for argument in "$@"; do
  case $argument in
    -h | --help) sed -n '2,12s/^# //p' "$0"; exit 0 ;;
    wheel | deb | tar | image | sbom) kinds+=("$argument") ;;
    --as-built) as_built=yes ;;
    --no-trainer | --cuda | -D?*=*) build_flags+=("$argument") ;;
    --out=?*) out=$(realpath -m "${argument#*=}") ;;
    *) die 2 "unknown argument $argument; kinds are wheel, deb, tar, image, sbom" ;;
  esac
done
[[ ${#kinds[@]} -gt 0 ]] || die 2 "say what to make: wheel, deb, tar, image or sbom"
build=$root/${DDPRUN_BUILD_DIR:-build}
platform=$(uname -m)

if [[ $as_built == no ]]; then
  "$root/scripts/setup.sh" --no-libtorch --package
  "$root/scripts/build.sh" --target=packed "${build_flags[@]}"
fi
python=$(package_venv)/bin/python3

# value_of NAME: a variable of the build folder's cache.
value_of() { sed -n "s/^$1:[A-Z]*=//p" "$build/CMakeCache.txt"; }
version=$(value_of CMAKE_PROJECT_VERSION)
trainer=$(value_of DDPRUN_WITH_TRAINER)
torch=$(value_of DDPRUN_LIBTORCH_VERSION)
[[ -z $(value_of DDPRUN_SANITIZE) ]] || die 2 "$build is built with a sanitizer, which is no package"
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git -C "$root" log -1 --format=%ct)}
export SOURCE_DATE_EPOCH

# stage PREFIX COMPONENT...: as they are installed, stripped, with permissions that no umask changes. CMake strips no
# archive, whose local symbols name the build.
stage() {
  local prefix=$1 component
  shift
  for component in "$@"; do
    cmake --install "$build" --prefix "$prefix" --component "$component" --strip >/dev/null ||
      die 1 "cannot install $component of $build (CMake's message is above)"
  done
  find "$prefix" -name '*.a' -exec strip --strip-unneeded --remove-section=.comment {} +
  chmod -R u=rwX,go=rX "$prefix"
}

check() {
  local what=$1 log=$staging/check.log
  shift
  "$@" >"$log" 2>&1 || { cat "$log" >&2; die 1 "$what: $1 finds fault (see above)"; }
}

# wheel NAME COMPONENT...: from scripts/package/NAME
make_wheel() {
  local name=$1 folder=$staging/wheel/$1 made
  shift
  rm -rf "$folder" && mkdir -p "$folder" "$staging/wheels"
  cp "$root/scripts/package/$name"/* "$folder"
  cp "$root/scripts/package/versions.py" "$root/LICENSE" "$root/NOTICE" "$folder"
  cp -r "$root/launcher/python" "$folder"
  find "$folder" -name __pycache__ -prune -exec rm -r {} +
  stage "$folder/tree" "$@"
  rm -f "$staging/wheels"/*.whl
  check "wheel of the $name" env DDPRUN_PACKAGE_VERSION="$version" DDPRUN_PACKAGE_TORCH="$torch" \
    "$python" -m pip wheel --no-build-isolation --no-deps --no-index \
    --no-cache-dir --config-settings wheel.tags="py3-none-manylinux_2_34_$platform" -w "$staging/wheels" "$folder"
  made=$(echo "$staging/wheels"/*.whl)
  check "$made" "$python" -m twine check --strict "$made"
  check "$made" "$python" "$root/scripts/package/check_wheel.py" "$made"
  keep "$made"
}

keep() {
  mkdir -p "$out"
  mv -f "$1" "$out/"
  say "$out/${1##*/} ($(du -k "$out/${1##*/}" | awk '{ printf "%.1f MB", $1 / 1024 }'))"
}

make_tar() {
  local name=ddprun-$version-linux-$platform components=(launcher documents notices)
  [[ $trainer == OFF ]] || components+=(portable-trainer portable-library)
  rm -rf "$staging/tar"
  stage "$staging/tar/$name" "${components[@]}"
  tar -C "$staging/tar" --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner \
    --format=gnu -cf - "$name" | gzip -n >"$staging/$name.tar.gz"
  keep "$staging/$name.tar.gz"
}

make_sbom() {
  stage "$staging/sbom" notices
  python3 "$root/scripts/package/sbom.py" "$staging/sbom/share/doc/ddprun/third-party.txt" "$version" \
    >"$staging/ddprun-$version.spdx.json"
  keep "$staging/ddprun-$version.spdx.json"
}

staging=$(mktemp -d "$build/package.XXXXXX")
trap 'rm -rf "$staging"' EXIT
for kind in "${kinds[@]}"; do
  case $kind in
    wheel)
      make_wheel launcher launcher notices
      [[ $trainer == OFF ]] || make_wheel trainer portable-trainer ;;
    tar) make_tar ;;
    sbom) make_sbom ;;
    deb) . "$root/scripts/package/deb.sh"; make_debs ;;
    image) . "$root/scripts/package/image.sh"; make_image ;;
  esac
done
say "packed in $(seconds_since "$started")"
