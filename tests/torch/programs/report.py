"""How a program tells the test what it saw: one JSON file per rank and attempt below $REPORTS."""

import hashlib
import json
import os


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
