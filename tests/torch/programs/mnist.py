"""Trains on the real MNIST with DistributedSampler: what most people's first DDP script does."""

import gzip
import struct
import sys

import torch
import torch.distributed as dist
from report import digest, report
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

STEPS = 60


def read_idx(path):
    with gzip.open(path) as file:
        dimensions = struct.unpack(">I", file.read(4))[0] & 0xFF
        shape = struct.unpack(f">{dimensions}I", file.read(4 * dimensions))
        return torch.frombuffer(bytearray(file.read()), dtype=torch.uint8).reshape(shape)


def main(folder):
    torch.set_num_threads(1)
    torch.manual_seed(0)
    dist.init_process_group("gloo")
    images = read_idx(f"{folder}/t10k-images-idx3-ubyte.gz").flatten(1).float() / 255
    labels = read_idx(f"{folder}/t10k-labels-idx1-ubyte.gz").long()
    data = TensorDataset(images, labels)
    sampler = DistributedSampler(data, seed=1)
    model = DistributedDataParallel(torch.nn.Sequential(
        torch.nn.Linear(784, 32), torch.nn.ReLU(), torch.nn.Linear(32, 10)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2)
    losses = []
    for step, (x, y) in enumerate(DataLoader(data, batch_size=64, sampler=sampler)):
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        if step + 1 == STEPS:
            break
    report(first=losses[0], last=losses[-1], parameters=digest(model), samples=len(sampler))
    dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1])
