"""An ordinary DDP program, which says what was loaded from its file once its own imports were done.

Before it trains, it loads a device's library and takes a backward pass on that device.
"""

import ctypes
import os
import sys
import types

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

import report

executed = set()
sys.addaudithook(lambda event, words: event == "exec" and words[0].co_name == "<module>" and executed.add(words[0].co_filename))
before = set(sys.modules)
library = ctypes.CDLL(os.environ["FAKE_DEVICE"], mode=ctypes.RTLD_GLOBAL)
library.fake_device_backward.restype = ctypes.c_char_p
library.fake_device_register()
refused = library.fake_device_backward().decode()
torch._register_device_module("fake", types.SimpleNamespace(is_available=lambda: False))  # Optimizers ask it.
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
report.report(forked=report.LOADED_BY != os.getpid(), refused=refused,
              late=sorted(name for name in set(sys.modules) - before
                          if getattr(sys.modules[name], "__file__", None) in executed),
              same=torch.allclose(weights, 2 * model.module.weight))
dist.barrier()  # Both have reported before one fails.
dist.destroy_process_group()
if attempt == "0" and os.environ["RANK"] == "1":
    os._exit(9)
