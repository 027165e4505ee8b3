# Debian packages from what CMake has installed: sourced by scripts/package.sh, never run.
# shellcheck shell=bash disable=SC2154

maintainer='ddprun <ddprun@packages.invalid>'

# What Debian wants of every package beside its files.
debian_notices() {
  local tree=$1 package=$2 doc=$1/usr/share/doc/$2
  mkdir -p "$doc"
  {
    printf 'ddprun is packaged by its own sources (scripts/package.sh).\n\n'
    printf 'Copyright %s the authors of ddprun, as named in the history of its sources.\n\n' \
      "$(date -u +%Y -d "@$SOURCE_DATE_EPOCH")"
    printf 'License: Apache-2.0\n On Debian systems the full text of the Apache License, Version 2.0, is in\n'
    printf ' /usr/share/common-licenses/Apache-2.0.\n'
    [[ $package != ddprun ]] ||
      printf '\nLibraries of others are linked into it; their notices are in third-party.txt.\n'
  } >"$doc/copyright"
  printf '%s (%s) unstable; urgency=medium\n\n  * Version %s.\n\n -- %s  %s\n' "$package" "$version" \
    "$version" "$maintainer" "$(LC_ALL=C date -u -R -d "@$SOURCE_DATE_EPOCH")" |
    gzip -9n >"$doc/changelog.gz"
  install -D -m 644 "$root/scripts/package/$package.lintian" "$tree/usr/share/lintian/overrides/$package"
  find "$tree/usr/share/man" -name '*.[15]' -exec gzip -9n {} +
}

# make_deb PACKAGE DEPENDS SUGGESTS SYNOPSIS: of $staging/deb/PACKAGE
make_deb() {
  local package=$1 tree=$staging/deb/$1 made=$staging/debs
  rm -f "$tree/usr/share/doc/$package/LICENSE"  # Debian has it; the file copyright says where.
  debian_notices "$tree" "$package"
  [[ $package != ddprun ]] || install -D -m 644 -t "$tree/usr/lib/systemd/system" \
    "$root/scripts/package/ddprun-daemon@.service"
  chmod -R u=rwX,go=rX "$tree"
  find "$tree" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +
  rm -rf "$made"
  check "$package" env DEB_PACKAGE="$package" DEB_TREE="$tree" DEB_VERSION="$version" DEB_DEPENDS="$2" \
    DEB_SUGGESTS="$3" DEB_SYNOPSIS="$4" DEB_MAINTAINER="$maintainer" DEB_OUT="$made" \
    cpack -G DEB --config "$root/scripts/package/deb.cmake"
  # Debian's own tests of packages, where they are.
  if command -v lintian >/dev/null; then
    check "$package" lintian --fail-on error,warning --allow-root "$made/$package"_*.deb
  else
    say "no lintian here: $package is not checked by it"
  fi
  keep "$(echo "$made/$package"_*.deb)"
}

make_debs() {
  local tree=$staging/deb
  rm -rf "$tree"
  stage "$tree/ddprun/usr" launcher documents notices
  mkdir "$tree/ddprun/usr/share/zsh/vendor-completions"  # Debian's zsh looks there.
  mv "$tree/ddprun/usr/share/zsh/site-functions/_ddprun" "$tree/ddprun/usr/share/zsh/vendor-completions/"
  rmdir "$tree/ddprun/usr/share/zsh/site-functions"
  make_deb ddprun 'libc6 (>= 2.34)' python3 'start and supervise distributed training'
  [[ $trainer != OFF ]] || return 0
  stage "$tree/ddprun-train/usr" portable-trainer portable-library
  make_deb ddprun-train "ddprun (= $version), libc6 (>= 2.34), libgcc-s1, libstdc++6 (>= 11), zlib1g" \
    'libhdf5-103-1, g++ (>= 12), cmake (>= 3.25), zlib1g-dev' 'distributed data parallel trainer on libtorch'
}
