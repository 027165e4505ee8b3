# An image without a registry or a daemon: sourced by scripts/package.sh, never run.
# shellcheck shell=bash disable=SC2016,SC2154

image_release=bookworm

# Where this machine has its Debian packages from, as lines of a sources.list; updates and security fixes too.
debian_sources() {
  apt-get indextargets --format '$(REPO_URI) $(CODENAME) $(COMPONENT) $(SUITE)' 2>/dev/null |
    awk -v release="$image_release" '$2 ~ "^" release "(-|$)" && $3 == "main" { print "deb", $1, $2, $3 }' | sort -u
}

# Debian's essential packages and those of image.txt in a tar: the same bytes while the mirror has the same packages.
make_image_root() {
  local sources packages begin=$EPOCHREALTIME
  command -v mmdebstrap >/dev/null || die 2 "an image is made by mmdebstrap: apt-get install --no-install-recommends mmdebstrap"
  sources=$(debian_sources)
  [[ -n $sources ]] || die 2 "apt-get of this machine knows no packages of Debian's $image_release, of which the image is made"
  packages=$(grep -v -e '^#' -e '^$' "$root/scripts/package/image.txt" | paste -sd,)
  # Times are the commit's; what nobody reads in a container stays out, but licences.
  check "the image's Debian" env LC_ALL=C TMPDIR="$staging" mmdebstrap --quiet --variant=essential --include="$packages" \
    --dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-include=/usr/share/doc/*/copyright' \
    --dpkgopt='path-exclude=/usr/share/man/*' --dpkgopt='path-exclude=/usr/share/info/*' \
    --dpkgopt='path-exclude=/usr/share/locale/*' --dpkgopt='path-exclude=/usr/share/lintian/*' \
    --customize-hook="rm -rf \"\$1\"/var/lib/apt/* \"\$1\"/var/cache/* \"\$1\"/etc/apt/sources.list* \
      \"\$1\"/etc/hostname \"\$1\"/etc/hosts \"\$1\"/etc/resolv.conf" \
    "$image_release" "$1" - <<<"$sources"
  say "Debian for the image in $(seconds_since "$begin")"
}

make_image() {
  local name=ddprun-$version-linux-$platform.oci.tar
  stage "$staging/image/usr" launcher notices
  rm -r "$staging/image/usr/share/man" "$staging/image/usr/share/bash-completion" \
    "$staging/image/usr/share/zsh" "$staging/image/usr/share/fish"
  make_image_root "$staging/image-root.tar"
  check "$name" "$python" "$root/scripts/package/oci.py" --base="$staging/image-root.tar" --tree="$staging/image" \
    --version="$version" --epoch="$SOURCE_DATE_EPOCH" --out="$staging/$name"
  keep "$staging/$name"
}
