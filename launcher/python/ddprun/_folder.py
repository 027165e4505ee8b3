"""Makes the folder of one `ddprun.run`, and removes folders that killed callers have left."""

import contextlib
import fcntl
import itertools
import os
import shutil
import tempfile
from typing import Iterator, Tuple

_PREFIX = "ddprun_run_"
_MOST_LOOKED_AT = 4000  # Entries of the temporary directory, of one run.


@contextlib.contextmanager
def run_folder() -> Iterator[Tuple[str, int]]:
    """A new folder, and the descriptor of its lock: while a process has it open, no other removes the folder."""
    _sweep()
    path = tempfile.mkdtemp(prefix=_PREFIX)
    held = -1
    try:
        held = _locked(path)
        yield path, held
    finally:
        shutil.rmtree(path, ignore_errors=True)
        if held >= 0:
            os.close(held)


def _locked(path: str) -> int:
    """The lock is taken before it gets its name, so a lock that no process holds marks a folder that was left."""
    beside = os.path.join(path, ".lock")
    held = os.open(beside, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(held, fcntl.LOCK_EX)
        os.rename(beside, os.path.join(path, "lock"))
    except OSError:  # A file system without locks: what is left there stays.
        pass
    return held


def _sweep() -> None:
    with contextlib.suppress(OSError), os.scandir(tempfile.gettempdir()) as entries:
        for entry in itertools.islice(entries, _MOST_LOOKED_AT):
            if entry.name.startswith(_PREFIX) and entry.is_dir(follow_symlinks=False):
                _remove_if_left(entry.path)


def _remove_if_left(path: str) -> None:
    try:
        lock = os.open(os.path.join(path, "lock"), os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:  # Another user's, or one that is just being made.
        return
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.fstat(lock).st_uid == os.getuid():
            shutil.rmtree(path, ignore_errors=True)
    except OSError:  # Its caller or its ddprun lives.
        pass
    finally:
        os.close(lock)
