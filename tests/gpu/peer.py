"""The trainer's models as plain PyTorch trains them, measured in turn with ddprun-train.

peer.py MODEL [--seconds=1] [--mnist=DIR] [--device=cuda]

Reads one WAY per line from standard input, trains that way for some seconds and prints one JSON line. A WAY is HOW:WHERE.

HOW    eager | graph (forward, backward and Adam recorded as one CUDA graph, as PyTorch's notes describe it) | compile
       (torch.compile of forward and loss) | overhead (the same with mode="reduce-overhead", which adds CUDA graphs)
WHERE  host (samples are gathered on the CPU into pinned memory and copied asynchronously, as ddprun-train does it) | gpu
       (all samples lie on the GPU and are gathered there)

Models, optimizer, batch and loss are ddprun-train's defaults. Nothing is read back while it is timed.
"""

import argparse
import json
import os
import sys
import time
import traceback

import torch
from torch import nn
from torch.nn import functional

BATCH = {"mlp": 64, "vgg11": 128, "transformer": 32}
RATE = {"mlp": 1e-3, "vgg11": 5e-4, "transformer": 1e-3}
SAMPLES = {"mlp": 60000, "vgg11": 12800, "transformer": 2048}


def idx(path, header):
    with open(path, "rb") as file:
        return torch.frombuffer(bytearray(file.read()[header:]), dtype=torch.uint8)


def vgg11():
    layers, channels = [], 3
    for width in (64, 0, 128, 0, 256, 256, 0, 512, 512, 0, 512, 512, 0):
        if width == 0:
            layers.append(nn.MaxPool2d(2, 2))
        else:
            layers += [nn.Conv2d(channels, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU(True)]
            channels = width
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(512, 10))


class Translator(nn.Module):
    def __init__(self):
        super().__init__()
        self.transformer = nn.Transformer(512, batch_first=True)

    def forward(self, sequences):
        return self.transformer(sequences[:, :1], sequences[:, 1:])


def made(name, mnist):
    """Model, loss, inputs, targets."""
    torch.manual_seed(1)
    count = SAMPLES[name]
    if name == "mlp":
        images = idx(os.path.join(mnist, "train-images-idx3-ubyte"), 16).view(-1, 784)
        labels = idx(os.path.join(mnist, "train-labels-idx1-ubyte"), 8).long()
        model = nn.Sequential(nn.Linear(784, 50), nn.ReLU(), nn.Linear(50, 10))
        return model, functional.cross_entropy, (images.float() / 255 - 0.1307) / 0.3081, labels
    if name == "vgg11":
        return vgg11(), functional.cross_entropy, torch.randn(count, 3, 32, 32), torch.randint(10, (count,))
    return Translator(), functional.mse_loss, torch.randn(count, 21, 512), torch.randn(count, 20, 512)


class Feed:
    """Endless batches in random order. Two pinned buffers take turns, so that none is written while it is copied."""

    def __init__(self, inputs, targets, batch, where, device):
        self.batch, self.device, self.on_gpu = batch, device, where == "gpu"
        self.all = [t.to(device) if self.on_gpu else t for t in (inputs, targets)]
        self.count = len(inputs) // batch
        pin = device.type == "cuda"
        self.pinned = [[torch.empty((batch, *t.shape[1:]), dtype=t.dtype, pin_memory=pin) for t in self.all] for _ in range(2)]
        self.copied = [torch.cuda.Event() for _ in range(2)] if pin else None
        self.order, self.at = None, 0

    def next(self, into=None):
        number = self.at % self.count
        if number == 0:
            self.order = torch.randperm(len(self.all[0]), device=self.all[0].device)
        indices = self.order[number * self.batch:(number + 1) * self.batch]
        slot, self.at = self.at % 2, self.at + 1
        if self.on_gpu:
            if into is None:
                return [t[indices] for t in self.all]
            for room, t in zip(into, self.all):
                torch.index_select(t, 0, indices, out=room)
            return into
        if self.copied and self.at > 2:
            self.copied[slot].synchronize()
        for room, t in zip(self.pinned[slot], self.all):
            torch.index_select(t, 0, indices, out=room)
        if into is None:
            found = [room.to(self.device, non_blocking=True) for room in self.pinned[slot]]
        else:
            found = into
            for room, one in zip(into, self.pinned[slot]):
                room.copy_(one, non_blocking=True)
        if self.copied:
            self.copied[slot].record()
        return found


class Way:
    def __init__(self, asked, how, where):
        self.device = torch.device(asked.device)
        self.model, self.loss_of, inputs, targets = made(asked.model, asked.mnist)
        self.model.to(self.device)
        self.batch = BATCH[asked.model]
        self.feed = Feed(inputs, targets, self.batch, where, self.device)
        self.how = how
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=RATE[asked.model], fused=True, capturable=how == "graph")
        self.forward = self.loss
        if how in ("compile", "overhead"):
            self.forward = torch.compile(self.loss, mode="reduce-overhead" if how == "overhead" else None)
        self.graph = None
        if how == "graph":
            self.record()
        for _ in range(30):
            self.step()
        self.wait()

    def loss(self, inputs, targets):
        return self.loss_of(self.model(inputs), targets)

    def train(self, inputs, targets):
        self.optimizer.zero_grad(set_to_none=True)
        self.forward(inputs, targets).backward()
        self.optimizer.step()

    def record(self):
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            self.room = [t.clone() for t in self.feed.next()]
            for _ in range(11):
                self.train(*self.room)
        torch.cuda.current_stream().wait_stream(side)
        self.optimizer.zero_grad(set_to_none=True)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.train(*self.room)

    def step(self):
        if self.graph is None:
            if self.how == "overhead":
                torch.compiler.cudagraph_mark_step_begin()
            self.train(*self.feed.next())
            return
        self.feed.next(self.room)
        self.graph.replay()

    def wait(self):
        if self.device.type == "cuda":
            torch.cuda.synchronize()

    def measure(self, seconds):
        begin, steps = time.perf_counter(), 0
        while time.perf_counter() - begin < seconds:
            for _ in range(20):
                self.step()
            self.wait()
            steps += 20
        took = time.perf_counter() - begin
        return {"samples_per_s": steps * self.batch / took, "steps": steps, "batch": self.batch}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("model", choices=sorted(BATCH))
    parser.add_argument("--seconds", type=float, default=1)
    parser.add_argument("--mnist", default="mnist")
    parser.add_argument("--device", default="cuda")
    asked = parser.parse_args()
    torch.set_num_threads(1 if asked.model == "mlp" else 4)
    ways = {}
    for line in sys.stdin:
        way = line.strip()
        told = {"way": way, "model": asked.model, "torch": torch.__version__}
        try:
            if way not in ways:
                ways[way] = Way(asked, *way.split(":"))
            told.update(ways[way].measure(asked.seconds))
        except Exception as error:  # The other ways may still work.
            traceback.print_exc()
            told["error"] = f"{type(error).__name__}: {str(error)[:300]}"
        print(json.dumps(told), flush=True)


if __name__ == "__main__":
    main()
