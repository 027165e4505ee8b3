"""Rank 1 dies in the given way while the others wait for it in a collective."""

import ctypes
import os
import sys

import torch
import torch.distributed as dist
from torch.distributed.elastic.multiprocessing.errors import record

WAYS = {
    "os._exit": lambda: os._exit(3),
    "segfault": lambda: ctypes.string_at(0),
    "memory": lambda: torch.ones(1 << 34, dtype=torch.uint8),  # 16 GiB; the test allows 2.
}


@record
def main(way):
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    dist.barrier()
    if dist.get_rank() == 1:
        if way == "raise":
            raise ValueError("no such layer: conv9")
        WAYS[way]()
    dist.all_reduce(torch.ones(1))


if __name__ == "__main__":
    main(sys.argv[1])
