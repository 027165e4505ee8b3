"""Memory that outlives a worker: the next worker of this local rank finds it."""

import fcntl
import mmap
import os
import sys
from typing import Optional, overload

from ddprun._notify import send

# Of linux/fcntl.h; Python names them in some of its builds only.
_F_ADD_SEALS, _F_GET_SEALS, _F_SEAL_SHRINK, _F_SEAL_GROW = 1033, 1034, 0x2, 0x4
_SEALS = _F_SEAL_SHRINK | _F_SEAL_GROW
_NAMED = 200  # Characters of a name that its memfd has: the kernel takes 249.


def _check(name: str) -> None:
    if not 1 <= len(name) <= 255 or not (name.isascii() and name.isprintable()) or ":" in name:
        raise ValueError(f"a name must be 1 to 255 printable ASCII characters other than ':', not {name!r}")


def _find(name: str) -> Optional[mmap.mmap]:
    if os.environ.get("LISTEN_PID") != str(os.getpid()):
        return None  # Another process's.
    names = os.environ.get("LISTEN_FDNAMES", "").split(":")
    if name not in names:
        return None
    try:
        file = fcntl.fcntl(3 + names.index(name), fcntl.F_DUPFD_CLOEXEC, 3)  # The descriptor that is checked is the one that is mapped.
    except OSError:
        return None  # Closed by the program.
    try:
        return mmap.mmap(file, 0) if _is_left(file, name) else None
    finally:
        os.close(file)


def _is_left(file: int, name: str) -> bool:
    """That it is still what the agent gave: a program may close the number, and open a file that gets it."""
    try:
        sealed = fcntl.fcntl(file, _F_GET_SEALS) & _SEALS == _SEALS
        kernels = os.readlink(f"/proc/self/fd/{file}")
    except OSError:
        return False
    return sealed and kernels in (f"/memfd:{name[:_NAMED]} (deleted)", f"/memfd:{name} (deleted)")


def _leave(name: str, size: int) -> mmap.mmap:
    file = os.memfd_create(name[:_NAMED], os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        os.ftruncate(file, size)
        fcntl.fcntl(file, _F_ADD_SEALS, _SEALS)
        listened = bool(os.environ.get("DDPRUN_NOTIFY_SOCKET"))
        if not send("FDSTORE=1", f"FDNAME={name}", descriptor=file) and listened:
            print(f"ddprun.fdstore: warning: the agent has no room for {name!r} now, so it is lost when this process "
                  "ends", file=sys.stderr)
        return mmap.mmap(file, size)
    finally:
        os.close(file)  # The mapping has its own.


@overload
def fdstore(name: str) -> Optional[mmap.mmap]: ...
@overload
def fdstore(name: str, size: int) -> mmap.mmap: ...
def fdstore(name: str, size: Optional[int] = None) -> Optional[mmap.mmap]:
    """Returns memory that the agent keeps for the next worker of this local rank.

    Without `size`: the memory that the last worker left under this name. None if there is none, if the program has
    closed the descriptor (numbers from 3 up), or if the memfd has another name. With `size`: new memory of zeros, which
    replaces the memory of that name.

    It is the memory itself, not a copy, so every later write counts, up to the worker's last instruction. Where a
    half-written block would do harm, keep two blocks and write them in turn. The memory is lost when the run ends or the
    node is lost, so keep a checkpoint too. Outside of ddprun it is ordinary memory.
    """
    _check(name)
    if size is None:
        return _find(name)
    if size <= 0:
        raise ValueError(f"the size must be at least one byte, not {size}")
    return _leave(name, size)


def fdstore_remove(name: str) -> None:
    """Removes the memory that `fdstore` keeps under this name."""
    _check(name)
    send("FDSTOREREMOVE=1", f"FDNAME={name}")
