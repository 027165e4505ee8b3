"""An unmodified DDP program that notes when its first step was taken (for recovery.py), and rests
after it where it is told to."""

import gc
import os
import signal
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
        now = time.monotonic_ns()
        if first and sys.argv[2:] == ["rest"]:
            gc.collect()
        if first:
            with open(sys.argv[1], "a") as stamps:
                stamps.write(f"{dist.get_rank()} {os.getpid()} {now}\n")
        if sys.argv[2:] == ["rest"]:
            signal.pause()
        first = False


if __name__ == "__main__":
    main()
