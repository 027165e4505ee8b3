#!/usr/bin/env bash
# Installs what a fresh Debian 12 misses to build ddprun: packages and libtorch. More, by flag:
#   --quick  what units and the style test need      --fuzz   the compiler of the fuzz targets
#   --tests  both, and what whole programs are tested with: Slurm, Open MPI, Python packages
#   --torch  the real torch, accelerate, Lightning, DeepSpeed, TorchX, torchft, torchtitan and TensorBoard
#   --old-torches   older releases of torch, without CUDA, for a test of compatibility
#   --docs   what builds the documentation site (--tests has it too)
#   --cuda   the real torch, which has the libraries for GPUs, and headers
#
# Installed parts are left alone; a second run takes under a second. Downloads go to one cache that
# all clones share: $DDPRUN_CACHE, else $XDG_CACHE_HOME/ddprun, else ~/.cache/ddprun.
# Exit codes: 0 all there, 1 a step failed, 2 this machine needs somebody else's help first.
set -euo pipefail
script_name=setup
# shellcheck source=lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
started=$EPOCHREALTIME
pins=$root/scripts/pins
scratch=

usage() { say "usage: scripts/setup.sh [--no-libtorch] [--quick] [--fuzz] [--tests] [--torch] [--cuda] [--package] [--docs] [--old-torches]"; }

packages_in() { grep -v -e '^#' -e '^$' "$1"; }

# Prints those of its arguments that are not installed.
missing_packages() {
  local installed
  installed=$(dpkg-query -W -f '${db:Status-Abbrev} ${Package}\n' "$@" 2>/dev/null |
    sed -n 's/^ii  *//p' || true)
  printf '%s\n' "$@" | grep -vxF -e "${installed:-none at all}" || true
}

# The Python to run: Debian's where it will do, since another one may vanish with its owner's HOME.
find_python() {
  local module=$1 candidate
  for candidate in /usr/bin/python3 python3; do
    if "$candidate" -c "import $module" >/dev/null 2>&1; then
      printf '%s' "$candidate"
      return 0
    fi
  done
  return 1
}

install_packages() {
  local wanted missing begin list
  mapfile -t wanted < <(packages_in "$pins/debian.txt")
  for list in "${package_lists[@]}"; do
    mapfile -t -O "${#wanted[@]}" wanted < <(packages_in "$pins/$list.txt")
  done
  find_python pip >/dev/null || wanted+=(python3-pip)
  # venv alone can be imported where Debian has left ensurepip out.
  [[ $want_venv == no ]] || find_python ensurepip >/dev/null || wanted+=(python3-venv)
  command -v apt-get dpkg-query >/dev/null ||
    die 2 "this is not a Debian machine; install by other means: ${wanted[*]}"
  mapfile -t missing < <(missing_packages "${wanted[@]}")
  [[ ${#missing[@]} -gt 0 ]] || return 0

  local as_root=()
  if [[ $(id -u) -ne 0 ]]; then
    command -v sudo >/dev/null || die 2 \
      "not root and no sudo here; have root run: apt-get install --no-install-recommends ${missing[*]}"
    as_root=(sudo)
  fi
  as_root+=(env DEBIAN_FRONTEND=noninteractive)
  say "installing ${#missing[@]} Debian packages: ${missing[*]}"
  begin=$EPOCHREALTIME
  "${as_root[@]}" apt-get -o DPkg::Lock::Timeout=600 -qq update ||
    say "apt-get update failed; trying with the lists that are here"
  "${as_root[@]}" apt-get -o DPkg::Lock::Timeout=600 -o Dpkg::Use-Pty=0 -qq -y \
    install --no-install-recommends "${missing[@]}" >/dev/null ||
    die 1 "apt-get could not install ${missing[*]} (its message is above)"
  say "packages installed in $(seconds_since "$begin")"
}

# One setup at a time works in the cache; the second finds what the first has made.
lock_cache() {
  mkdir -p "$cache" || die 2 "cannot make the cache folder $cache; set DDPRUN_CACHE to another"
  exec {lock}>"$cache/.setup.lock" || die 2 "cannot write in $cache; set DDPRUN_CACHE to another"
  if ! flock -n "$lock"; then
    say "waiting for another setup that works in $cache"
    flock "$lock"
  fi
  rm -rf "$cache"/.setup-scratch-*  # Left by a killed setup: we hold the lock.
  scratch=$(mktemp -d "$cache/.setup-scratch-XXXXXX")
}

need_space() {
  local megabytes=$1 what=$2 free
  free=$(df -Pm "$cache" | awk 'NR == 2 { print $4 }')
  [[ $free -ge $megabytes ]] ||
    die 2 "$what needs $megabytes MB in $cache, $free MB are free; set DDPRUN_CACHE to another folder"
}

# Runs pip with its temporary files on the cache's disk and without a second copy of each wheel.
run_pip() {
  local python=$1
  shift
  TMPDIR=$scratch PIP_DISABLE_PIP_VERSION_CHECK=1 "$python" -m pip "$@" >"$scratch/pip.log" 2>&1 ||
    { tail -n 15 "$scratch/pip.log" >&2; die 1 "pip $1 failed (its last lines are above)"; }
}

# is_complete FOLDER PINS...: made by a setup that finished, from these very pins.
is_complete() {
  local folder=$1
  shift
  [[ -f $folder/$stamp_name && $(<"$folder/$stamp_name") == "$(hash_of "$@")" ]]
}

install_libtorch() {
  local python begin platforms
  ! is_complete "$libtorch" "$pins/libtorch.txt" || return 0
  [[ $(uname -m) == x86_64 ]] || die 2 "libtorch is pinned for x86_64, this machine is $(uname -m);
  build without the trainer: scripts/build.sh --no-trainer"
  need_space 3000 "unpacking libtorch"
  python=$(find_python pip) || die 1 "no python3 here has pip"
  read -ra platforms <<<"$(wheel_platforms)"
  say "downloading libtorch $torch_version: 3 wheels, 554 MB"
  begin=$EPOCHREALTIME
  run_pip "$python" download --no-cache-dir --no-deps --only-binary=:all: --python-version 311 \
    "${platforms[@]}" --require-hashes -r "$pins/libtorch.txt" -d "$scratch/wheels"
  say "downloaded and checked in $(seconds_since "$begin"); unpacking"
  begin=$EPOCHREALTIME
  local unpacked
  unpacked=$("$python" "$root/scripts/unpack_libtorch.py" "$scratch/wheels" "$scratch/libtorch")
  hash_of "$pins/libtorch.txt" >"$scratch/libtorch/$stamp_name"
  if [[ -e $libtorch ]]; then
    mv -T "$libtorch" "$scratch/replaced"  # Other pins, or not made by us.
  fi
  mv -T "$scratch/libtorch" "$libtorch"
  say "unpacked $unpacked to $libtorch in $(seconds_since "$begin")"
}

# install_venv FOLDER MEGABYTES WHAT REMARK PINS...
install_venv() {
  local folder=$1 megabytes=$2 what=$3 remark=$4 python begin list
  shift 4
  ! is_complete "$folder" "$@" || return 0
  need_space "$megabytes" "$what"
  python=$(find_python ensurepip) || die 1 "no python3 here can make a virtual environment"
  say "installing $what into $folder$remark"
  begin=$EPOCHREALTIME
  rm -rf "$folder"  # Cannot be renamed into place as libtorch is: its paths are written into it.
  "$python" -m venv "$folder" || die 1 "python -m venv $folder failed"
  for list in "$@"; do  # --no-deps: the lists are whole, and shorter than what torch asks for.
    run_pip "$folder/bin/python3" install --no-cache-dir --no-deps --no-compile --require-hashes \
      --only-binary=:all: -r "$list"
  done
  hash_of "$@" >"$folder/$stamp_name"
  say "$what installed in $(seconds_since "$begin") ($(du -sm "$folder" | cut -f1) MB)"
}

# install_beside FOLDER MEGABYTES WHAT REMARK PINS: by the torch venv's Python, not into it.
install_beside() {
  local folder=$1 megabytes=$2 what=$3 remark=$4 list=$5 begin
  ! is_complete "$folder" "$list" || return 0
  need_space "$megabytes" "$what"
  say "installing $what into $folder$remark"
  begin=$EPOCHREALTIME
  run_pip "$(torch_venv)/bin/python3" install --no-cache-dir --no-deps --no-compile \
    --require-hashes --only-binary=:all: --target "$scratch/beside" -r "$list"
  hash_of "$list" >"$scratch/beside/$stamp_name"
  rm -rf "$folder"
  mv -T "$scratch/beside" "$folder"
  say "$what installed in $(seconds_since "$begin")"
}

# compile_python PYTHON FOLDER: an import of torch takes half as long then, and where PYTHONDONTWRITEBYTECODE
# is set each process would compile it anew.
compile_python() {
  local python=$1 folder=$2 begin=$EPOCHREALTIME
  [[ ! -f $folder/.ddprun-bytecode ]] || return 0
  # Some packages carry files for other Pythons, which nobody imports.
  "$python" -m compileall -q -j2 "$folder" >/dev/null 2>&1 || true
  touch "$folder/.ddprun-bytecode"
  say "compiled the Python of $folder in $(seconds_since "$begin")"
}

# install_file PACKAGE FILE TARGET SIZE: one file of a Debian package whose service nobody wants.
install_file() {
  local package=$1 file=$2 target=$3 size=$4
  [[ ! -x $target ]] || return 0
  say "downloading $package for its ${file##*/}: $size"
  (cd "$scratch" && apt-get -o APT::Sandbox::User=root -qq download "$package" &&
    dpkg-deb --fsys-tarfile "$package"_*.deb | tar -x "./$file") ||
    die 1 "apt-get could not download $package (its message is above)"
  mv "$scratch/$file" "$target"
}

# Of each its own environment; what it links of CUDA is stood in for.
install_old_torches() {
  local version folder
  for version in "${old_torches[@]}"; do
    folder=$(old_torch_venv "$version")
    install_venv "$folder" 3000 "torch $version" ": 0.9 GB to download, 1.9 GB on disk" "$pins/torch-$version.txt"
    [[ -f $folder/.ddprun-stubs ]] || {
      "$folder/bin/python3" "$root/scripts/stub_cuda.py" "$(echo "$folder"/lib/python3*/site-packages)" >/dev/null ||
        die 1 "torch $version: cannot stand in for the libraries of CUDA (the message is above)"
      compile_python "$folder/bin/python3" "$folder"
      touch "$folder/.ddprun-stubs"
    }
  done
}

package_lists=() want_libtorch=yes want_tests=no want_torch=no want_cuda=no want_venv=no want_package=no want_old=no want_docs=no
for argument in "$@"; do
  case $argument in
    --no-libtorch) want_libtorch=no ;;
    --quick) package_lists+=(debian-quick) ;;
    --fuzz) package_lists+=(fuzz) ;;
    --tests) want_tests=yes want_venv=yes want_package=yes want_docs=yes package_lists+=(debian-quick debian-tests fuzz) ;;
    --torch) want_torch=yes want_venv=yes ;;
    --cuda) want_cuda=yes want_venv=yes ;;
    --old-torches) want_old=yes want_venv=yes ;;
    --docs) want_docs=yes want_venv=yes ;;
    --package) want_package=yes want_venv=yes ;;
    -h | --help) usage; exit 0 ;;
    *) usage >&2; die 2 "unknown option $argument" ;;
  esac
done

install_packages
trap '[[ -z $scratch ]] || rm -rf "$scratch"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP
lock_cache
[[ $want_libtorch == no ]] || install_libtorch
[[ $want_tests == no ]] || install_venv "$(test_venv)" 500 "Python packages of the tests" \
  "" "$pins/tests.txt"
[[ $want_tests == no ]] || install_venv "$(kubernetes_venv)" 200 "what judges manifests" \
  ": 27 MB to download, 140 MB on disk" "$pins/kubernetes.txt"
[[ $want_docs == no ]] || install_venv "$(docs_venv)" 200 "what builds the documentation site" \
  ": 17 MB to download, 110 MB on disk" "$pins/docs.txt"
[[ $want_tests == no ]] || compile_python "$(test_venv)/bin/python3" "$(test_venv)"
[[ $want_tests == no ]] || install_file prometheus usr/bin/promtool "$(promtool)" "19 MB"
[[ $want_tests == no ]] || install_file openssh-server usr/sbin/sshd "$(sshd_alone)" "0.5 MB"
[[ $want_package == no ]] || install_venv "$(package_venv)" 200 "what makes wheels" "" "$pins/package.txt"
[[ $want_torch$want_cuda == nono ]] || install_venv "$(torch_venv)" 7000 "torch $torch_version" \
  ": 2.4 GB to download, 4 GB on disk" "$pins/tests.txt" "$pins/torch.txt"
[[ $want_torch == no ]] || install_beside "$(frameworks)" 300 "accelerate, Lightning, transformers and TensorBoard" \
  ": 25 MB to download, 110 MB on disk" "$pins/frameworks.txt"
[[ $want_torch == no ]] || install_beside "$(more_frameworks)" 150 "DeepSpeed, TorchX and torchft" \
  ": 10 MB to download, 60 MB on disk" "$pins/more-frameworks.txt"
[[ $want_torch == no ]] || install_beside "$(torchtitan)" 400 "torchtitan" \
  ": 71 MB to download, 240 MB on disk" "$pins/torchtitan.txt"
if [[ $want_torch == yes ]]; then
  compile_python "$(torch_venv)/bin/python3" "$(torch_venv)"
  compile_python "$(torch_venv)/bin/python3" "$(frameworks)"
  compile_python "$(torch_venv)/bin/python3" "$(more_frameworks)"
  compile_python "$(torch_venv)/bin/python3" "$(torchtitan)"
fi
[[ $want_old == no ]] || install_old_torches
[[ $want_cuda == no ]] || install_beside "$(cuda_headers)" 100 "CUDA headers" \
  ": 4 MB to download, 21 MB on disk" "$pins/cuda.txt"
say "all there ($(seconds_since "$started"))"
