"""An unmodified DDP program that notes when its first step was taken (for warm_start.py)."""

import os
import sys
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


def main():
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    model = DistributedDataParallel(torch.nn.Linear(32, 8))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    first = True
    while True:
        optimizer.zero_grad()
        model(torch.randn(16, 32)).sum().backward()
        optimizer.step()
        if first:
            with open(sys.argv[1], "a") as stamps:
                stamps.write(f"{dist.get_rank()} {os.getpid()} {time.monotonic_ns()}\n")
        first = False


if __name__ == "__main__":
    main()
