#!/bin/sh
# Refuses a node on which one of these network cards or InfiniBand ports has no link:
#   ddprun --node-check='examples/node-check/network-link.sh eth0 mlx5_0/1' train.py
set -eu
sys=${DDPRUN_HOST_ROOT:-}/sys

for name in "$@"; do
  case $name in
    */*)
      state=$(cat "$sys/class/infiniband/${name%/*}/ports/${name#*/}/state")
      case $state in
        4:*) ;; # "4: ACTIVE"
        *) echo "$name is not active: $state"; exit 1 ;;
      esac
      ;;
    *)
      carrier=$(cat "$sys/class/net/$name/carrier" 2>&1) || true # A card that is off has an error.
      if [ "$carrier" != 1 ]; then
        echo "$name has no link"
        exit 1
      fi
      ;;
  esac
done
