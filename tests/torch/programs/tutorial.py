"""PyTorch's own DDP tutorial: env://, gloo, a small model, a few steps."""

import torch
import torch.distributed as dist
from report import digest, report
from torch.nn.parallel import DistributedDataParallel


class ToyModel(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.net1 = torch.nn.Linear(10, 10)
        self.relu = torch.nn.ReLU()
        self.net2 = torch.nn.Linear(10, 5)

    def forward(self, x):
        return self.net2(self.relu(self.net1(x)))


def main():
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    model = DistributedDataParallel(ToyModel())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    data = torch.Generator().manual_seed(rank)
    for _ in range(5):
        optimizer.zero_grad()
        outputs = model(torch.randn(20, 10, generator=data))
        torch.nn.functional.mse_loss(outputs, torch.ones(20, 5)).backward()
        optimizer.step()
    report(rank=rank, world=world, parameters=digest(model))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
