"""Trains without a disturbance first; then again, from its own checkpoint on: in the first world the last rank dies by SIGKILL."""

import os
import signal

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


def made():
    torch.manual_seed(0)
    model = DistributedDataParallel(torch.nn.Linear(10, 5))
    return model, torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)


def take(step, model, optimizer):
    rank, world = dist.get_rank(), dist.get_world_size()
    data = torch.randn(8 * world, 10, generator=torch.Generator().manual_seed(step))
    optimizer.zero_grad()
    outputs = model(data[rank::world])
    torch.nn.functional.mse_loss(outputs, torch.ones_like(outputs)).backward()
    optimizer.step()


def main():
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    first = os.environ["TORCHELASTIC_RESTART_COUNT"] == "0"
    if first:
        undisturbed = made()
        for step in range(STEPS):
            take(step, *undisturbed)
        report(parameters=digest(undisturbed[0]))
    training = made()
    start = load(*training)
    for step in range(start, STEPS):
        if first and step == BAD_STEP:
            dist.barrier()  # Rank 0 has saved, and both have reported.
            if rank == world - 1:
                os.kill(os.getpid(), signal.SIGKILL)
        take(step, *training)
        if rank == 0:
            save(step + 1, *training)
    report(world=world, start=start, parameters=digest(training[0]))
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
