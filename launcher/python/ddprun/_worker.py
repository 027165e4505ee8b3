"""`python -m ddprun._worker FOLDER`: one worker of ddprun.run."""

import contextlib
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

_RESERVED = 4096  # Bytes of each result's file, from the start.
_LONG = 80 * 1024  # Characters of a message and of a traceback, of up to 6 bytes each: an agent reads 1 MiB.
_SHORT = 800  # Characters of a refusal, of up to 4 bytes each.


def _write_error(error: BaseException, result: str) -> None:
    path = os.environ.get("TORCHELASTIC_ERROR_FILE")
    if not path or os.path.exists(path):  # A file of @record stays.
        return
    message = _caller.told(error)
    try:
        stack = "".join(traceback.format_exception(error))
    except Exception:  # The exception's own attributes, which may be anything.
        stack = "".join(traceback.format_tb(error.__traceback__)) + message + "\n"
    told = {"message": {"message": _caller.cut(message, _LONG),
                        "extraInfo": {"py_callstack": _caller.cut(_caller.whole(stack), _LONG),
                                      "timestamp": str(int(time.time()))}}}
    try:
        with open(path, "w", encoding="utf-8") as file:
            json.dump(told, file, ensure_ascii=False)
    except OSError as refused:
        _remove(path)  # Half of it says less than none.
        print(f"ddprun.run: error: cannot write {path}: {refused}", file=sys.stderr)
        with contextlib.suppress(OSError):
            _refuse(result, RuntimeError(message))


def _remove(path: str) -> None:
    with contextlib.suppress(OSError):
        os.unlink(path)


def _write(path: str, content: bytes) -> None:
    try:
        with open(path + ".part", "wb") as file:
            file.write(content)
        os.replace(path + ".part", path)
    except OSError:
        _remove(path + ".part")  # Others may need the room.
        raise


def _refuse(path: str, why: Exception) -> None:
    """In the place of a result. It needs no room on the disk."""
    content = pickle.dumps((False, type(why)(_caller.cut(str(why), _SHORT))))
    with open(path, "r+b") as file:
        file.write(content)


def _write_result(path: str, kind: str, value: Any) -> None:
    try:
        content = importlib.import_module(kind).dumps((True, value))
    except Exception as error:  # A value that cannot be pickled raises any kind of exception.
        _refuse(path, TypeError(f"its result of type {type(value).__name__} cannot be pickled: {_caller.told(error)}"))
        return
    try:
        _write(path, content)
    except OSError as error:  # The work is done: to do it again would need the same room.
        _refuse(path, OSError(f"its result of {len(content)} bytes cannot be written to {path!r}: "
                              f"{_caller.told(error)}"))


def _work(folder: str, result: str, process: int) -> None:
    # That of who ends well without one, and the room for a refusal.
    _write(result, pickle.dumps((True, None)).ljust(_RESERVED, b"\0"))
    with open(os.path.join(folder, "call"), "rb") as file:
        caller, kind, content = pickle.load(file)
    _caller.loading = True
    multiprocessing.spawn.prepare(caller)
    fn, args, kwargs = pickle.loads(content)
    _caller.loading = False
    value = fn(*args, **kwargs)
    if os.getpid() == process:  # A child of fork that returns here too has nothing to say for the rank.
        _write_result(result, kind, value)


def main() -> None:
    folder = sys.argv[1]
    process = os.getpid()
    # Before the function may change them.
    world = ".".join(os.environ[name] for name in ("DDPRUN_TERM", "DDPRUN_GENERATION", "RANK"))
    result = os.path.join(folder, f"result.{world}")
    try:
        _work(folder, result, process)
    except BaseException as error:
        # A number is told by the exit code itself.
        if os.getpid() == process and not (isinstance(error, SystemExit) and isinstance(error.code, (int, type(None)))):
            _write_error(error, result)
        raise


if __name__ == "__main__":
    main()
