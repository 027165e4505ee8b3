"""Where the program `ddprun` is: what this package was installed with, else the first in PATH."""

import functools
import importlib.metadata
import os
import pathlib
import shutil


def _installed() -> "str | None":
    try:
        files = importlib.metadata.files("ddprun") or []
    except importlib.metadata.PackageNotFoundError:
        return None
    for file in files:
        if file.parts[-2:] == ("bin", "ddprun"):
            path = os.path.normpath(pathlib.Path(file.locate()))
            return path if os.access(path, os.X_OK) else None
    return None


@functools.lru_cache(maxsize=None)
def executable() -> str:
    """Returns the absolute path of the program `ddprun`: the one installed with this package, else the first in PATH.

    Raises FileNotFoundError if there is none.
    """
    found = _installed() or shutil.which("ddprun")
    if found is None:
        raise FileNotFoundError("cannot find ddprun: it is neither installed with this package nor in PATH "
                                f"({os.environ.get('PATH', 'not set')})")
    return os.path.abspath(found)
