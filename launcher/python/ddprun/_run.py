"""`ddprun.run`: a function on several workers, from a script or a notebook."""

import importlib
import multiprocessing.spawn
import os
import pickle
import re
import signal
import subprocess
import sys
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, TypeVar, Union

from ddprun import _caller
from ddprun._executable import executable
from ddprun._folder import run_folder
from ddprun._output import follow, is_gone

T = TypeVar("T")
Flag = Union[str, int, float, bool, None]

# Ends with its caller, also one that is killed: the agent's guard then stops all workers.
_WITH_CALLER = ("import ctypes, os, signal, sys\n"
                "ctypes.CDLL(None).prctl(1, int(signal.SIGTERM))\n"
                "if os.getppid() != int(sys.argv[1]): os._exit(143)\n"
                "os.execv(sys.argv[2], sys.argv[2:])\n")


class RunError(RuntimeError):
    """A run failed. `code` is ddprun's exit code; `traceback` is that of the root cause, or empty."""

    def __init__(self, code: int, message: str, traceback: str = ""):
        super().__init__(message + (f"\n\n{traceback}" if traceback else ""))
        self._message = message
        self.code = code
        self.traceback = traceback

    def __reduce__(self) -> "tuple[Any, ...]":  # Pools of processes pickle it; else they would make it of its text.
        return type(self), (self.code, self._message, self.traceback), self.__dict__


def _flags(nprocs: Union[int, str], flags: Mapping[str, Flag]) -> List[str]:
    words = [f"--nproc-per-node={nprocs}"]
    for name, value in flags.items():
        if value is None or value is False:
            continue
        word = "--" + name.replace("_", "-")
        words.append(word if value is True else f"{word}={value}")
    return words


def _has_script() -> bool:
    """That workers can load the caller's main module anew, as multiprocessing's spawn does."""
    main = sys.modules["__main__"]
    return getattr(main, "__spec__", None) is not None or os.path.exists(getattr(main, "__file__", None) or "")


def _pickled(call: Any) -> "tuple[str, bytes]":
    """By name where workers find the names, else by value, which takes cloudpickle."""
    why = ""
    try:
        content = pickle.dumps(call)
        if _has_script() or b"__main__" not in content:
            return "pickle", content
        why = "it is defined in an interactive session"
    except Exception as error:  # A value that cannot be pickled raises any kind of exception.
        why = _caller.told(error)
    try:
        cloudpickle = importlib.import_module("cloudpickle")
    except ImportError:
        raise TypeError(f"ddprun.run cannot hand {call[0]!r} and its arguments to workers: {why}. "
                        "Put the function into a module or a script, or pip install cloudpickle") from None
    return "cloudpickle", cloudpickle.dumps(call)


def _environment(folder: str) -> Dict[str, str]:
    environment = dict(os.environ)
    environment.update(PYTHON_EXEC=sys.executable, TORCHELASTIC_ERROR_FILE=os.path.join(folder, "error"))
    return environment


def _start(command: List[str], folder: str, lock: int, piped: bool) -> "subprocess.Popen[bytes]":
    out, err = (subprocess.DEVNULL if is_gone(stream) else subprocess.PIPE if piped else None
                for stream in (sys.stdout, sys.stderr))
    # A session of its own: what Ctrl-C does is decided here, for terminals and notebooks alike.
    return subprocess.Popen([sys.executable, "-I", "-S", "-c", _WITH_CALLER, str(os.getpid()), *command],
                            env=_environment(folder), stdin=subprocess.DEVNULL, stdout=out, stderr=err,
                            start_new_session=True, pass_fds=(lock,))


def _finish(process: "subprocess.Popen[bytes]", piped: bool) -> int:
    """Its exit code. An interrupt stops the workers as Ctrl-C does, a second one kills them."""
    interrupt: Optional[KeyboardInterrupt] = None
    while True:
        try:
            if piped:
                follow(process)
            code = process.wait()
            break
        except KeyboardInterrupt as error:
            interrupt = error
            process.send_signal(signal.SIGINT)
        except BaseException:  # The caller's own stream refused.
            process.send_signal(signal.SIGTERM)
            for pipe in (process.stdout, process.stderr):
                if pipe is not None:
                    pipe.close()  # Nobody reads on, so nobody may wait to write.
            process.wait()
            raise
    if interrupt is not None:
        raise interrupt
    return 128 - code if code < 0 else code


def _newest(folder: str) -> List["tuple[int, str]"]:
    """Of the newest world each rank with its result's file, which it has from its start; in their order."""
    found: "Dict[tuple[int, int], Dict[int, str]]" = {}
    for name in os.listdir(folder):
        if numbers := re.fullmatch(r"result\.(\d+)\.(\d+)\.(\d+)", name):
            term, generation, rank = map(int, numbers.groups())
            found.setdefault((term, generation), {})[rank] = os.path.join(folder, name)
    return sorted(found[max(found)].items()) if found else []


def _results(folder: str) -> List[Any]:
    results = []
    for rank, path in _newest(folder):
        with open(path, "rb") as file:
            content = file.read()
        try:
            good, value = pickle.loads(content)
        except Exception as error:  # A value that cannot be unpickled raises any kind of exception.
            raise TypeError(f"rank {rank} has finished, but its result cannot be unpickled by the caller: "
                            f"{_caller.told(error)}") from error
        if not good:
            raise type(value)(f"rank {rank} has finished, but {value}")
        results.append(value)
    return results


def run(fn: Callable[..., T], nprocs: Union[int, str] = 1, *, args: Sequence[Any] = (),
        kwargs: Optional[Mapping[str, Any]] = None, **flags: Flag) -> List[T]:
    """Runs `fn(*args, **kwargs)` on `nprocs` workers of this node and returns their results, in the order of ranks.

    The result of a rank that ended well without returning, as by sys.exit(0), is None. On several nodes each caller gets
    the results of its own node's ranks.

    It replaces torch's elastic_launch and accelerate's notebook_launcher. Workers are new processes under `ddprun` with
    torchrun's environment, so the caller may have loaded or opened anything, a GPU too. Every flag of ddprun can be given,
    with `_` for `-`:

    >>> ddprun.run(train, 2, args=("data",), max_restarts=3, hang_timeout="5m", preload="torch")
    >>> ddprun.run(train, 8, nnodes=2, node_rank=0, rdzv_endpoint="n0:29400")   # the same on each node

    Workers find the function by its name. A function of a module is imported. For a function of a script each worker
    loads that script anew, so put the call of `run` below `if __name__ == "__main__":`, as with multiprocessing's spawn. A
    function of a notebook, or a closure, is pickled by value; that needs cloudpickle. The output of workers is printed by
    the caller.

    Raises RunError with the root cause if the run fails. Raises TypeError if the function, its arguments or its result
    cannot be pickled, and OSError if the disk has no room for the result; neither is tried again. An interrupt stops the
    workers and is then raised.
    """
    if _caller.loading:
        raise RuntimeError("ddprun.run was called while one of its workers loads this script. Put the call "
                           'below  if __name__ == "__main__":')
    with run_folder() as (folder, lock):
        kind, content = _pickled((fn, tuple(args), dict(kwargs or {})))
        caller = multiprocessing.spawn.get_preparation_data("ddprun")
        # Paths and the main module alone; the rest is multiprocessing's own.
        wanted = ["sys_path", "sys_argv", "orig_dir", "dir"]
        if _has_script():
            wanted += ["init_main_from_name", "init_main_from_path"]
        with open(os.path.join(folder, "call"), "wb") as file:
            pickle.dump(({name: caller[name] for name in wanted if name in caller}, kind, content), file)
        command = [executable(), *_flags(nprocs, flags), "-m", "ddprun._worker", folder]
        # A notebook's streams are objects, and what goes to the descriptors is seen by nobody.
        piped = any(stream is not real for stream, real in ((sys.stdout, sys.__stdout__),
                                                            (sys.stderr, sys.__stderr__)))
        for stream in (sys.stdout, sys.stderr):
            if not is_gone(stream):
                stream.flush()
        code = _finish(_start(command, folder, lock, piped), piped)
        if code != 0:
            raise _failure(code, folder)
        return _results(folder)


def _failure(code: int, folder: str) -> RunError:
    message, traceback = _caller.read_error(os.path.join(folder, "error"))
    message = message or _said_beside(folder)
    return RunError(code, f"ddprun ended with exit code {code}" + (f": {message}" if message else ""),
                    traceback)


def _said_beside(folder: str) -> str:
    """The cause of a rank's end, if there was no room for its error's file; empty: unknown."""
    try:
        for rank, path in _newest(folder):
            with open(path, "rb") as file:
                good, value = pickle.load(file)
            if not good and type(value) is RuntimeError:  # Other refusals are of who has finished.
                return f"rank {rank}: {value}"
    except Exception as error:  # A value that cannot be unpickled raises any kind of exception.
        return f"its results cannot be read: {_caller.told(error)}" if isinstance(error, OSError) else ""
    return ""
