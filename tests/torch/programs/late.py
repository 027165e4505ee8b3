"""An ordinary DDP program, which says what was imported once its own imports were done."""

import os
import sys

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

import report

before = set(sys.modules)
dist.init_process_group("gloo")
torch.manual_seed(dist.get_rank())
model = DistributedDataParallel(torch.nn.Linear(4, 2))
data = TensorDataset(torch.randn(32, 4))
for make in (lambda of: torch.optim.SGD(of, lr=0.1), torch.optim.AdamW):
    optimizer = make(model.parameters())
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 10)
    for (inputs,) in DataLoader(data, batch_size=8, sampler=DistributedSampler(data)):
        model(inputs).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    schedule.step()
weights = model.module.weight.detach().clone()
dist.all_reduce(weights)
attempt = os.environ["TORCHELASTIC_RESTART_COUNT"]
report.report(forked=report.LOADED_BY != os.getpid(), late=sorted(set(sys.modules) - before),
              same=torch.allclose(weights, 2 * model.module.weight))
dist.destroy_process_group()
if attempt == "0" and os.environ["RANK"] == "1":
    os._exit(9)
