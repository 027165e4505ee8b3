#!/bin/sh
# Refuses a node on which a directory has less than this many GiB of free space:
#   ddprun --node-check='examples/node-check/disk-space.sh /scratch 50' train.py
set -eu
directory=${1:-/tmp}
least=${2:-1}

table=$(df -Pk "$directory")
free=$(echo "$table" | awk 'NR == 2 {print int($4 / 1048576)}')
if [ "$free" -lt "$least" ]; then
  echo "$directory has $free GiB of free space, less than $least"
  exit 1
fi
