"""Rank 1 ends badly in the given way, without torch; the others wait to be stopped."""

import ctypes
import json
import os
import signal
import sys


def leave(told):
    with open(os.environ["TORCHELASTIC_ERROR_FILE"], "w") as file:
        json.dump(told, file)
    sys.exit(1)


WAYS = {
    "segfault": lambda: ctypes.string_at(0),
    "told": lambda: leave({"message": {"message": "ValueError: boom", "extraInfo": {
        "py_callstack": "Traceback:\n  in main\nValueError: boom", "timestamp": "1795263336"}}}),
    "flat": lambda: leave({"message": "out of luck", "timestamp": 1795263336}),
}

if os.environ["RANK"] == "1":
    WAYS[sys.argv[1]]()
signal.pause()
