# Shared by the scripts beside it; sourced, never run.
# shellcheck shell=bash disable=SC2034

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cache=${DDPRUN_CACHE:-${XDG_CACHE_HOME:-${HOME:-~}/.cache}/ddprun}

torch_version=2.15.0
libtorch=$cache/libtorch-$torch_version
stamp_name=.ddprun-complete

say() { printf '%s | %s\n' "${script_name:-ddprun}" "$*"; }

# die CODE WHAT...
die() {
  local code=$1
  shift
  printf '%s | error: %s\n' "${script_name:-ddprun}" "$*" >&2
  exit "$code"
}

# Tenths of a second since the shell's start of the script, without a process.
seconds_since() {
  local now=${EPOCHREALTIME/[.,]/} then=${1/[.,]/}
  local tenths=$(((now - then) / 100000))
  printf '%d.%d s' $((tenths / 10)) $((tenths % 10))
}

# The tags of wheels that this project's machines can use, as pip's flags.
wheel_platforms() {
  printf -- '--platform manylinux_%s_x86_64 ' 2_28 2_27 2_25 2_24 2_18 2_17
  printf -- '--platform manylinux2014_x86_64\n'
}

# One name for one list of pins: a changed list makes a new folder, old clones keep theirs.
hash_of() { cat "$@" | sha256sum | cut -c1-12; }

test_venv() { printf '%s/test-venv-%s' "$cache" "$(hash_of "$root/scripts/pins/tests.txt")"; }
package_venv() { printf '%s/package-venv-%s' "$cache" "$(hash_of "$root/scripts/pins/package.txt")"; }
kubernetes_venv() { printf '%s/kubernetes-venv-%s' "$cache" "$(hash_of "$root/scripts/pins/kubernetes.txt")"; }
docs_venv() { printf '%s/docs-venv-%s' "$cache" "$(hash_of "$root/scripts/pins/docs.txt")"; }
promtool() { printf '%s/promtool' "$cache"; }
sshd_alone() { printf '%s/sshd' "$cache"; }
torch_venv() {
  printf '%s/torch-venv-%s' "$cache" \
    "$(hash_of "$root/scripts/pins/tests.txt" "$root/scripts/pins/torch.txt")"
}
# Releases of torch whose programs must run too, the oldest first.
old_torches=(2.4.1 2.9.1)
old_torch_venv() { printf '%s/torch-%s-venv-%s' "$cache" "$1" "$(hash_of "$root/scripts/pins/torch-$1.txt")"; }
# Headers that compiling against CUDA needs and the torch venv lacks.
cuda_headers() { printf '%s/cuda-headers-%s' "$cache" "$(hash_of "$root/scripts/pins/cuda.txt")"; }
# Where the torch venv has its packages, if it is there.
torch_packages() { printf '%s\n' "$(torch_venv)"/lib/python3*/site-packages; }
# Beside the torch venv, not in it: another list here costs no second download of torch.
frameworks() { printf '%s/frameworks-%s' "$cache" "$(hash_of "$root/scripts/pins/frameworks.txt")"; }
more_frameworks() { printf '%s/more-frameworks-%s' "$cache" "$(hash_of "$root/scripts/pins/more-frameworks.txt")"; }
torchtitan() { printf '%s/torchtitan-%s' "$cache" "$(hash_of "$root/scripts/pins/torchtitan.txt")"; }
