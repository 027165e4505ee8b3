"""An unmodified DDP program that notes RANK, PID and when its first step was taken.

With the word `parts` also how far it was when: begun, imported, joined; with `rest` it rests after that step.
"""

import recovery_stamp
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import gc
import os
import signal
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
        now = time.monotonic_ns()
        if first and "rest" in sys.argv:
            gc.collect()  # Its memory is measured once it has reported its step.
        if first:
            parts = [recovery_stamp.BEGUN, imported, joined] if "parts" in sys.argv else []
            with open(sys.argv[1], "a") as stamps:
                print(dist.get_rank(), os.getpid(), *parts, now, file=stamps)
        if "rest" in sys.argv:
            signal.pause()
        first = False


if __name__ == "__main__":
    main()
