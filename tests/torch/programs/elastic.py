"""Trains from its own checkpoint on. elastic.py killed: in the first world the last rank dies by SIGKILL."""

import os
import signal
import sys

import torch
import torch.distributed as dist
from report import digest, report
from torch.nn.parallel import DistributedDataParallel

CHECKPOINT = os.path.join(os.environ["REPORTS"], "checkpoint.pt")
STEPS, BAD_STEP = 8, 4


def save(step, model, optimizer):
    torch.save({"step": step, "model": model.state_dict(), "optimizer": optimizer.state_dict()},
               CHECKPOINT + ".partial")
    os.rename(CHECKPOINT + ".partial", CHECKPOINT)


def load(model, optimizer):
    if not os.path.exists(CHECKPOINT):
        return 0
    saved = torch.load(CHECKPOINT)
    model.load_state_dict(saved["model"])
    optimizer.load_state_dict(saved["optimizer"])
    return saved["step"]


def main(killed):
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    model = DistributedDataParallel(torch.nn.Linear(10, 5))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    start = load(model, optimizer)
    for step in range(start, STEPS):
        if killed and start == 0 and step == BAD_STEP:
            dist.barrier()  # Rank 0 has saved.
            if rank == world - 1:
                os.kill(os.getpid(), signal.SIGKILL)
        data = torch.randn(8 * world, 10, generator=torch.Generator().manual_seed(step))
        optimizer.zero_grad()
        outputs = model(data[rank::world])
        torch.nn.functional.mse_loss(outputs, torch.ones_like(outputs)).backward()
        optimizer.step()
        if rank == 0:
            save(step + 1, model, optimizer)
    report(world=world, start=start, parameters=digest(model))
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1:] == ["killed"])
