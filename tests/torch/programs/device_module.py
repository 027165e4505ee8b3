"""Stands for a device's own package: it registers the device and takes a backward pass, both at import."""

import ctypes
import os

import torch

library = ctypes.CDLL(os.environ["FAKE_DEVICE"], mode=ctypes.RTLD_GLOBAL)
library.fake_device_backward.restype = ctypes.c_char_p
library.fake_device_register()
weights = torch.ones(3, requires_grad=True)
(weights * weights).sum().backward()
