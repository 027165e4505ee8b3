"""torchtitan's own trainer, unmodified, where there is no GPU: its arguments are torchtitan.train's.

It finds the device "cpu" and its memory. Attention is not compiled, since only then it has a backward on CPUs.
"""

import os
import runpy
import sys
import types
import unittest.mock

os.environ["TORCHDYNAMO_DISABLE"] = "1"

import torch  # noqa: E402
from torch.distributed.fsdp import FSDPModule  # noqa: E402
from torch.nn.attention import flex_attention  # noqa: E402

torch._utils._get_available_device_type = lambda: "cpu"
torch.cpu.current_device = lambda: 0
torch.cpu.get_device_name = lambda device: "cpu"
torch.cpu.get_device_properties = lambda device: types.SimpleNamespace(total_memory=1 << 30)
torch.cpu.memory_stats = lambda device: {}
torch.cpu.reset_peak_memory_stats = torch.cpu.empty_cache = lambda: None
flex_attention._validate_device = lambda query, key, value: None
# Kernels of mixtures of experts, which need triton.
sys.modules["torchtitan.distributed.minimal_async_ep.kernels"] = unittest.mock.MagicMock()

divide = FSDPModule.set_gradient_divide_factor


def divide_and_sum(module, factor):
    divide(module, factor)
    module.set_force_sum_reduction_for_comms(True)  # Gloo has no sum that divides too.


FSDPModule.set_gradient_divide_factor = divide_and_sum
runpy.run_module("torchtitan.train", run_name="__main__", alter_sys=True)
