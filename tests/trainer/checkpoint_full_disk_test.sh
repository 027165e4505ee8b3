#!/bin/sh
# A real file system of 1 MB that is full: mounted in a mount namespace of its own, so that nothing
# of it is seen outside or stays behind. Needs root; exits with 77 (skipped) without.
set -eu
tool=$1
if [ "${2:-}" != inside ]; then
  if [ "$(id -u)" != 0 ]; then
    echo "SKIPPED: mounting a small tmpfs needs root; the failing file system in memory still ran"
    exit 77
  fi
  if ! unshare --mount true 2>/dev/null; then
    echo "SKIPPED: this container may not make a mount namespace"
    exit 77
  fi
  exec unshare --mount --propagation private sh "$0" "$tool" inside
fi
directory=$(mktemp -d)
if ! mount -t tmpfs -o size=1m,nr_inodes=40 ddprun-test "$directory"; then
  rmdir "$directory"
  echo "SKIPPED: this container may not mount a tmpfs"
  exit 77
fi
status=0
"$tool" fill "$directory/ckpt" || status=$?
umount "$directory"
rmdir "$directory"
exit $status
