"""How a program tells the test what it saw: one JSON file per rank and attempt below $REPORTS."""

import atexit
import gc
import hashlib
import json
import os

# DDP's cycles keep the process group and so gloo's threads until the interpreter has gone. One that
# lets go of its last collective then aborts the program ("terminate called without an active
# exception", below ~AsyncWork in torch 2.15; one run of seven, under torchrun as well).
atexit.register(gc.collect)

LOADED_BY = os.getpid()  # Not the program's own where it was forked from a preload process.


def report(**values):
    """Whole or not at all: the test waits for the file."""
    name = f"{os.environ['RANK']}.{os.environ['TORCHELASTIC_RESTART_COUNT']}"
    path = os.path.join(os.environ["REPORTS"], name)
    with open(path + ".partial", "w") as file:
        json.dump(values, file)
    os.rename(path + ".partial", path + ".json")


def digest(module):
    """Of a module's parameters, bit for bit."""
    whole = hashlib.sha256()
    for parameter in module.parameters():
        whole.update(parameter.detach().numpy().tobytes())
    return whole.hexdigest()
