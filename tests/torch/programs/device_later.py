"""Loads a device's library once its imports are done, and takes a backward pass on that device."""

import ctypes
import os

import torch  # noqa: F401

import report

library = ctypes.CDLL(os.environ["FAKE_DEVICE"], mode=ctypes.RTLD_GLOBAL)
library.fake_device_backward.restype = ctypes.c_char_p
library.fake_device_register()
report.report(forked=report.LOADED_BY != os.getpid(), refused=library.fake_device_backward().decode())
