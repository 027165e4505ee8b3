"""`ddprun publish` for Python: a rename that no older world of a run can undo."""

import os
import subprocess
import sys
from typing import Union

from ddprun._executable import executable
from ddprun._notify import ready

_DO_NOT_RESTART = 76


class Superseded(SystemExit):
    """A newer world of this run has taken over. If it is not caught, the program ends with exit code 76."""


def publish(source: "Union[str, os.PathLike[str]]", target: "Union[str, os.PathLike[str]]") -> None:
    """Makes `source` visible as the symbolic link `target`, unless a newer world of the run has published.

    `source` is a file or directory on the same file system. The last three versions are kept in `.TARGET.published/`
    beside the link.

    Raises Superseded if a newer world of the run has been formed; nothing is replaced then. Raises OSError if the disk
    refuses, and ValueError if `target` is something else or `source` does not exist.
    """
    ready()  # Else 76 would be a failure as any other.
    done = subprocess.run([executable(), "publish", os.fspath(source), os.fspath(target)],
                          stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                          text=True, errors="replace", check=False)
    if done.returncode == 0:
        return
    said = done.stderr.strip() or f"ddprun publish ended with {done.returncode}"
    if done.returncode == _DO_NOT_RESTART:
        print(said, file=sys.stderr, flush=True)
        raise Superseded(_DO_NOT_RESTART)
    raise (ValueError if done.returncode == 2 else OSError)(said)
