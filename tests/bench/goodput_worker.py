"""What ddprun-train does, in Python: DDP on MNIST with a checkpoint every N steps (for goodput.py)."""

import argparse
import json
import os
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


def read_idx(path, header):
    with open(path, "rb") as file:
        return torch.frombuffer(bytearray(file.read()[header:]), dtype=torch.uint8)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", required=True)
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--checkpoint-every", type=int, default=200)
    parser.add_argument("--checkpoint-dir", default="ckpt")
    parser.add_argument("--metrics", required=True)
    asked = parser.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    images = read_idx(os.path.join(asked.data, "train-images-idx3-ubyte"), 16).view(-1, 784)
    labels = read_idx(os.path.join(asked.data, "train-labels-idx1-ubyte"), 8).long()
    images = (images.float() / 255 - 0.1307) / 0.3081
    torch.manual_seed(1)
    model = torch.nn.Sequential(
        torch.nn.Linear(784, 50), torch.nn.ReLU(), torch.nn.Linear(50, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=asked.lr, fused=True)
    step = 0
    path = os.path.join(asked.checkpoint_dir, "last.pt")
    if os.path.exists(path):
        saved = torch.load(path)
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        step = saved["step"]
    ddp = DistributedDataParallel(model)
    per_epoch = len(labels) // (64 * world)
    noted = time.monotonic()
    while step < asked.epochs * per_epoch:
        epoch, position = divmod(step, per_epoch)
        if position == 0 or "order" not in locals():
            order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(epoch))
        first = position * 64 * world + rank
        batch = order[first:first + 64 * world:world]
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(ddp(images[batch]), labels[batch]).backward()
        optimizer.step()
        step += 1
        if rank == 0 and step % asked.checkpoint_every == 0:
            os.makedirs(asked.checkpoint_dir, exist_ok=True)
            torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(),
                        "step": step}, path + ".part")
            os.replace(path + ".part", path)
        if rank == 0 and time.monotonic() - noted >= 0.2:
            noted = time.monotonic()
            with open(asked.metrics, "a") as file:
                file.write(json.dumps({"t": time.time(), "step": step}) + "\n")


if __name__ == "__main__":
    main()
