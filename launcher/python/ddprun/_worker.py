"""`python -m ddprun._worker FOLDER`: one worker of ddprun.run."""

import importlib
import json
import multiprocessing.spawn
import os
import pickle
import sys
import time
import traceback
from typing import Any

from ddprun import _caller


def _write_error(error: BaseException) -> None:
    path = os.environ.get("TORCHELASTIC_ERROR_FILE")
    if not path or os.path.exists(path):  # What @record has written stays.
        return
    told = {"message": {"message": f"{type(error).__name__}: {error}",
                        "extraInfo": {"py_callstack": "".join(traceback.format_exception(error)),
                                      "timestamp": str(int(time.time()))}}}
    try:
        with open(path, "w", encoding="utf-8") as file:
            json.dump(told, file)
    except OSError as refused:
        print(f"ddprun.run: cannot write {path}: {refused}", file=sys.stderr)


def _write_result(folder: str, kind: str, value: Any) -> None:
    try:
        content = importlib.import_module(kind).dumps((True, value))
    except Exception as error:  # What cannot be pickled says so by any kind of exception.
        content = pickle.dumps((False, f"its result of type {type(value).__name__} cannot be pickled: {error}"))
    world = ".".join(os.environ[name] for name in ("DDPRUN_TERM", "DDPRUN_GENERATION", "RANK"))
    path = os.path.join(folder, f"result.{world}")
    with open(path + ".part", "wb") as file:
        file.write(content)
    os.replace(path + ".part", path)


def main() -> None:
    folder = sys.argv[1]
    with open(os.path.join(folder, "call"), "rb") as file:
        caller, kind, content = pickle.load(file)
    try:
        _caller.loading = True
        multiprocessing.spawn.prepare(caller)
        fn, args, kwargs = pickle.loads(content)
        _caller.loading = False
        value = fn(*args, **kwargs)
    except Exception as error:
        _write_error(error)
        raise
    _write_result(folder, kind, value)


if __name__ == "__main__":
    main()
