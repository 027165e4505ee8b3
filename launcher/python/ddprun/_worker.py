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

_MESSAGE, _STACK = 10_000, 100_000  # Characters: the agent takes a file of a MiB, and one may become six bytes there.


def _write_error(error: BaseException) -> None:
    path = os.environ.get("TORCHELASTIC_ERROR_FILE")
    if not path or os.path.exists(path):  # What @record has written stays.
        return
    message = _caller.told(error)
    try:
        stack = "".join(traceback.format_exception(error))
    except Exception:  # The exception's own attributes, which may be anything.
        stack = "".join(traceback.format_tb(error.__traceback__)) + message + "\n"
    told = {"message": {"message": _caller.cut(message, _MESSAGE),
                        "extraInfo": {"py_callstack": _caller.cut(_caller.whole(stack), _STACK),
                                      "timestamp": str(int(time.time()))}}}
    try:
        with open(path, "w", encoding="utf-8") as file:
            json.dump(told, file, ensure_ascii=False)
    except OSError as refused:
        print(f"ddprun.run: cannot write {path}: {refused}", file=sys.stderr)


def _write_result(path: str, kind: str, value: Any) -> None:
    try:
        content = importlib.import_module(kind).dumps((True, value))
    except Exception as error:  # What cannot be pickled says so by any kind of exception.
        content = pickle.dumps((False, f"its result of type {type(value).__name__} cannot be pickled: "
                                       f"{_caller.told(error)}"))
    try:
        _put(path, content)
    except OSError as refused:  # Once more, shorter: the disk may be full.
        _put(path, pickle.dumps((False, f"its result, of {len(content)} bytes, cannot be written: {_caller.told(refused)}")))


def _put(path: str, content: bytes) -> None:
    part = path + ".part"
    try:
        with open(part, "wb") as file:
            file.write(content)
        os.replace(part, path)
    except OSError:
        if os.path.exists(part):
            os.unlink(part)
        raise


def _has_words(error: BaseException) -> bool:
    """That it is more than an exit code or Ctrl-C."""
    if isinstance(error, SystemExit):
        return error.code is not None and not isinstance(error.code, int)
    return not isinstance(error, KeyboardInterrupt)


def main() -> None:
    folder = sys.argv[1]
    process = os.getpid()
    # Before the function may change them.
    world = ".".join(os.environ[name] for name in ("DDPRUN_TERM", "DDPRUN_GENERATION", "RANK"))
    result = os.path.join(folder, f"result.{world}")
    _write_result(result, "pickle", None)  # That of who ends well without one.
    with open(os.path.join(folder, "call"), "rb") as file:
        caller, kind, content = pickle.load(file)
    try:
        _caller.loading = True
        multiprocessing.spawn.prepare(caller)
        fn, args, kwargs = pickle.loads(content)
        _caller.loading = False
        value = fn(*args, **kwargs)
    except BaseException as error:
        if os.getpid() == process and _has_words(error):
            _write_error(error)
        raise
    if os.getpid() == process:  # A child of fork that returns here too has nothing to say for the rank.
        _write_result(result, kind, value)


if __name__ == "__main__":
    main()
