"""Training that survives lost workers and nodes, because it continues from its own checkpoint.

    ddprun --nproc-per-node=2 --max-restarts=3 elastic.py checkpoint.pt
    ddprun --nnodes=1:4 --max-restarts=3 --rdzv-id=demo elastic.py /shared/checkpoint.pt

Kill one of its processes, or stop a node: all ranks start again, and the step count continues.
"""
import os
import sys
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

STEPS, SAVE_EVERY = 200, 20


def save(path, step, model, optimizer):
    """First aside, then by a rename: a worker that is killed in between leaves the older one whole."""
    state = {"step": step, "model": model.module.state_dict(), "optimizer": optimizer.state_dict()}
    torch.save(state, path + ".new")
    os.replace(path + ".new", path)


def main(path):
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    model = DistributedDataParallel(torch.nn.Linear(16, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.005)
    start = 0
    if os.path.exists(path):
        state = torch.load(path)
        model.module.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        start = state["step"]
    if rank == 0:
        attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
        print(f"starting at step {start} on {world} ranks, restart {attempt}", flush=True)

    for step in range(start + 1, STEPS + 1):
        # The data follows from the step alone, so that no sample is lost or seen twice, on any number of ranks.
        x = torch.randn(64 * world, 16, generator=torch.Generator().manual_seed(step))[rank::world]
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(x), x.sum(dim=1, keepdim=True))
        loss.backward()
        optimizer.step()
        if rank == 0 and step % SAVE_EVERY == 0:
            save(path, step, model, optimizer)
            print(f"step {step} of {STEPS}: loss {loss.item():.5f}, saved", flush=True)
        time.sleep(0.02)  # Time for you to kill something.
    dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "checkpoint.pt")
