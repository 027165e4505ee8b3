"""An unmodified DDP program that notes how far it was when (for recovery_parts.py): begun, imported, joined, stepped."""

import recovery_stamp
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import os
import sys
import time


def main():
    imported = time.monotonic_ns()
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    joined = time.monotonic_ns()
    model = DistributedDataParallel(torch.nn.Linear(32, 8))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    first = True
    while True:
        optimizer.zero_grad()
        model(torch.randn(16, 32)).sum().backward()
        optimizer.step()
        if first:
            with open(sys.argv[1], "a") as stamps:
                stamps.write(f"{dist.get_rank()} {os.getpid()} {recovery_stamp.BEGUN} {imported} {joined} "
                             f"{time.monotonic_ns()}\n")
        first = False


if __name__ == "__main__":
    main()
