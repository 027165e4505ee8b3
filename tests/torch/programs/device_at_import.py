"""Imports device_module, then takes a backward pass on its device."""

import os

import device_module
import report

report.report(forked=report.LOADED_BY != os.getpid(), refused=device_module.library.fake_device_backward().decode())
