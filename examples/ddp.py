"""Data-parallel training in forty lines. On CPUs, in seconds:

    ddprun --nproc-per-node=2 ddp.py
"""
import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


def main():
    use_gpu = torch.cuda.is_available()
    local_rank = int(os.environ["LOCAL_RANK"])
    device = torch.device("cuda", local_rank) if use_gpu else torch.device("cpu")
    if use_gpu:
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if use_gpu else "gloo")  # Address and ranks come from ddprun.
    rank, world = dist.get_rank(), dist.get_world_size()

    torch.manual_seed(0)  # The same data and the same first parameters on every rank.
    x = torch.randn(4096, 16)
    y = x @ torch.randn(16, 1) + 0.1 * torch.randn(4096, 1)
    data = TensorDataset(x, y)
    sampler = DistributedSampler(data, shuffle=True)  # Each rank sees its own part.
    loader = DataLoader(data, batch_size=64, sampler=sampler)
    model = DistributedDataParallel(torch.nn.Linear(16, 1).to(device))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)

    for epoch in range(5):
        sampler.set_epoch(epoch)
        for inputs, targets in loader:
            optimizer.zero_grad()
            loss = torch.nn.functional.mse_loss(model(inputs.to(device)), targets.to(device))
            loss.backward()  # Gradients are averaged over all ranks here.
            optimizer.step()
        if rank == 0:
            print(f"epoch {epoch + 1} of 5 on {world} ranks: loss {loss.item():.4f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
