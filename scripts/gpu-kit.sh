#!/usr/bin/env bash
# Makes the folder that is carried to a GPU machine without a network to check ddprun there:
#   scripts/gpu-kit.sh [--torch=VERSION] DIR
# builds ddprun, ddprun-train, ddprun-bench-comm and the GPU plug-in for the torch of that machine, and packs them with MNIST and
# the checks of tests/gpu/ into DIR, which is made anew (37 MB). There, with python3 and its torch: bash DIR/run.sh
# The torch is that of scripts/pins/gpu-kit.txt (2.11.0), or VERSION (2.11.0 or newer), whose wheels pip then chooses. The first
# time 1.3 GB are downloaded, and 1 GB stays in the cache; the build goes to build-gpu-kit/. It runs on Ubuntu 22.04 and newer.
set -euo pipefail
script_name=gpu-kit
# shellcheck source=lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
started=$EPOCHREALTIME

pins=$root/scripts/pins/gpu-kit.txt wanted='' kit=''
for argument in "$@"; do
  case $argument in
    -h | --help) sed -n '2,7s/^# //p' "$0"; exit 0 ;;
    --torch=[0-9]*) wanted=${argument#*=} ;;
    -*) die 2 "unknown option $argument" ;;
    *) [[ -z $kit ]] || die 2 "one folder, not two: $kit and $argument"; kit=$(realpath -m "$argument") ;;
  esac
done
[[ -n $kit ]] || die 2 "name the folder to make: scripts/gpu-kit.sh DIR"
[[ ! -e $kit || -f $kit/torch-version ]] || die 2 "$kit is there and is no kit; name another folder"

"$root/scripts/setup.sh" --no-libtorch
if [[ -n $wanted ]]; then
  pins=$cache/gpu-kit-pins-$wanted.txt
  [[ -s $pins ]] || python3 "$root/scripts/cuda_pins.py" "$wanted" >"$pins.part" ||
    die 1 "pip does not find torch $wanted with what it needs (its message is above)"
  [[ -s $pins ]] || mv "$pins.part" "$pins"
fi
version=$(sed -n 's/^torch==\([0-9.]*\).*/\1/p' "$pins")
prefix=$cache/gpu-libtorch-$version-$(hash_of "$pins")

if [[ ! -f $prefix/$stamp_name ]]; then
  scratch=$(mktemp -d "$cache/.gpu-kit-XXXXXX")
  trap 'rm -rf "$scratch"' EXIT
  trap 'exit 130' INT
  trap 'exit 143' TERM HUP
  say "downloading libtorch $version with CUDA and headers: 1.3 GB"
  read -ra platforms <<<"$(wheel_platforms)"
  python3 -m pip download -q --disable-pip-version-check --no-cache-dir --no-deps --only-binary=:all: --python-version 312 \
    "${platforms[@]}" --require-hashes -r "$pins" -d "$scratch/wheels" || die 1 "pip download failed (its message is above)"
  python3 "$root/scripts/unpack_libtorch.py" --cuda "$scratch/wheels" "$scratch/prefix" >/dev/null
  hash_of "$pins" >"$scratch/prefix/$stamp_name"
  rm -rf "$prefix"
  mv -T "$scratch/prefix" "$prefix"
  say "$prefix: $(du -sm "$prefix" | cut -f1) MB, $(seconds_since "$started")"
fi

DDPRUN_BUILD_DIR=build-gpu-kit "$root/scripts/build.sh" --cuda --target=packed -DLibtorch_ROOT="$prefix"
rm -rf "$kit"
mkdir -p "$kit"
printf '%s\n' "$version" >"$kit/torch-version"
for component in launcher portable-trainer; do
  cmake --install "$root/build-gpu-kit" --prefix "$kit" --component "$component" --strip >/dev/null
done
rm -rf "$kit"/share/{man,doc,bash-completion,zsh,fish}
rm -f "$kit/share/ddprun/mnist"/*  # Packed it is a fifth of the size; run.sh unpacks it.
mkdir -p "$kit/tests/gpu" "$kit/tests/support"
cp "$root"/trainer/data/mnist/*.gz "$kit/share/ddprun/mnist/"
cp "$root"/tests/gpu/*.py "$kit/tests/gpu/"
cp "$root/tests/support/ddprun_runs.py" "$kit/tests/support/"
cp "$root/tests/gpu/run.sh" "$kit/"
git -C "$root" describe --always --dirty >"$kit/commit" 2>/dev/null || true
# Ubuntu 22.04 has glibc 2.35 and GLIBCXX_3.4.30.
for program in "$kit"/bin/* "$kit"/lib/ddprun/*.so; do
  newest=$(readelf -VW "$program" | grep -oE 'GLIBC(XX)?_[0-9.]+' | sort -Vu)
  for limit in GLIBC_2.35 GLIBCXX_3.4.30; do
    [[ $(printf '%s\n' "$newest" "$limit" | grep -E "^${limit%%_*}_" | sort -V | tail -n 1) == "$limit" ]] ||
      die 1 "${program#"$kit"/} needs a newer ${limit%%_*} than Ubuntu 22.04 has: $(tail -n 1 <<<"$newest")"
  done
done
say "$kit: $(du -sk "$kit" | awk '{ printf "%.1f MB", $1 / 1024 }') for torch $version, $(seconds_since "$started")"
say "carry it to the GPU machine, and there: bash run.sh"
