"""An ordinary DDP program, which notes when its first step of each start is done:

ddp_steps.py STAMPS [hang=STEP]    hang: after this many steps the last rank takes part in nothing any more
"""

import os
import signal
import sys
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

SETTLED = 20  # Steps after which a world counts as running.


def note(rank, what):
    with open(sys.argv[1], "a") as stamps:
        stamps.write(f"{rank} {os.getpid()} {what} {time.monotonic_ns()}\n")


def main():
    torch.set_num_threads(1)
    rank = int(os.environ["RANK"])
    gpu = os.environ.get("KIT_DEVICE", "cuda") == "cuda"
    if os.environ.get("KIT_FAKE_HOSTS"):  # NCCL lets two ranks share a GPU where it takes them for two hosts.
        os.environ["NCCL_HOSTID"] = f"host{rank}"
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]) % torch.cuda.device_count()) if gpu else torch.device("cpu")
    if gpu:
        torch.cuda.set_device(device)
    dist.init_process_group(os.environ.get("KIT_BACKEND") or ("nccl" if gpu else "gloo"))
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(784, 50), torch.nn.ReLU(), torch.nn.Linear(50, 10)).to(device)
    model = DistributedDataParallel(model, device_ids=[device.index] if gpu else None)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    hang = int(dict(word.split("=") for word in sys.argv[2:]).get("hang", 0))
    step = 0
    while True:
        inputs = torch.randn(64, 784, device=device)
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(inputs), torch.randint(10, (64,), device=device)).backward()
        optimizer.step()
        step += 1
        if step in (1, SETTLED):
            if gpu:
                torch.cuda.synchronize()
            note(rank, "first" if step == 1 else "settled")
        if step == hang and rank == dist.get_world_size() - 1:
            if gpu:
                torch.cuda.synchronize()
            print(f"rank {rank} takes part in nothing any more after step {step}", flush=True)
            signal.pause()


if __name__ == "__main__":
    main()
