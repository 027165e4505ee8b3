#!/bin/sh
# Refuses a node that has less than this many GiB of memory for new programs:
#   ddprun --node-check='examples/node-check/memory.sh 64' train.py
set -eu
least=${1:-1}

free=$(awk '$1 == "MemAvailable:" {print int($2 / 1048576)}' "${DDPRUN_HOST_ROOT:-}/proc/meminfo")
if [ "$free" -lt "$least" ]; then
  echo "$free GiB of memory are available, less than $least"
  exit 1
fi
