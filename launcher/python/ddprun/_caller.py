"""What the caller of ddprun.run and its workers share."""

import json
from typing import Any

loading = False  # The caller's script is loaded, whose own call of ddprun.run must not count.


def whole(text: str) -> str:
    """Without lone surrogates, as names of files have them, which no UTF-8 has; told as stderr tells them."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def cut(text: str, most: int) -> str:
    """Both its ends, where it is longer."""
    left_out = len(text) - most
    return text if left_out <= 0 else f"{text[:most // 2]} ... ({left_out} characters left out) ... {text[-(most // 2):]}"


def is_closed(stream: Any) -> bool:
    """Python's own are None where their descriptors were closed from the start."""
    return stream is None or getattr(stream, "closed", False)


def told(error: BaseException) -> str:
    """Type and message."""
    try:
        message = str(error)
    except Exception:  # Its own __str__, which may do anything.
        message = "<exception str() failed>"  # As in Python's tracebacks.
    return whole(f"{type(error).__name__}: {message}")


def read_error(path: str) -> "tuple[str, str]":
    """Message and traceback of an error file, in the form that torch's @record gives it."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            said = json.load(file)["message"]
        if isinstance(said, str):
            return whole(said), ""
        return whole(str(said["message"])), whole(str(said.get("extraInfo", {}).get("py_callstack", "")))
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return "", ""
