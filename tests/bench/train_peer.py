"""The trainer's models as one writes them in Python, in three styles; the peers of train.py.

train_peer.py STYLE MODEL DATA BATCH SAMPLES, under torchrun's environment or alone; DATA: MNIST's IDX
files, unpacked, for the mlp; the others learn from made-up numbers, not augmented. STYLE: dataloader (an idiomatic
script), tuned (all samples as one tensor, indexed) or compiled (tuned, by torch.compile); with -2 at its end on two
threads. One epoch of the first SAMPLES. Prints when the first optimizer step was done, as seconds since 1970, and
the samples per second of the whole world after the tenth.
"""

import os
import sys
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "gpu"))
from peer import made  # noqa: E402

WARM_UP = 10  # Steps, before the rate is taken.


def batches_of_loader(images, labels, batch, rank, world):
    data = TensorDataset(images, labels)
    return DataLoader(data, batch, sampler=DistributedSampler(data, world, rank, seed=1))


def batches_of_indices(images, labels, batch, rank, world):
    order = torch.randperm(len(images), generator=torch.Generator().manual_seed(1))
    for indices in order[rank::world].split(batch):
        if len(indices) == batch:  # Another size would be compiled anew.
            yield images[indices], labels[indices]


def main():
    style, name, root, batch, samples = *sys.argv[1:4], *map(int, sys.argv[4:6])
    style, _, threads = style.partition("-")
    torch.set_num_threads(int(threads or 1))
    rank, world = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
    model, loss_of, images, labels = made(name, root)
    images, labels = images[:samples], labels[:samples]
    if world > 1:
        dist.init_process_group("gloo")
        model = DistributedDataParallel(model, gradient_as_bucket_view=True)
    if style == "compiled":
        model = torch.compile(model)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, fused=True)
    batches_of = batches_of_loader if style == "dataloader" else batches_of_indices
    times = []
    for inputs, wanted in batches_of(images, labels, batch, rank, world):
        optimizer.zero_grad(set_to_none=True)
        loss_of(model(inputs), wanted).backward()
        optimizer.step()
        times.append(time.time())
    if rank == 0:
        rate = (len(times) - WARM_UP) * batch * world / (times[-1] - times[WARM_UP - 1])
        print(f"{times[0]:.6f} {rate:.1f}", flush=True)
    if world > 1:
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
