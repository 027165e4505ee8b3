"""What the caller of ddprun.run and its workers share."""

import json

loading = False  # The caller's script is loaded, whose own call of ddprun.run must not count.


def whole(text: str) -> str:
    """Without lone surrogates, as names of files have them, which no UTF-8 has; told as stderr tells them."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def cut(text: str, most: int) -> str:
    """At most so many characters of it, of either end, and how many are missing between."""
    half = most // 2
    return text if len(text) <= most else f"{text[:half]} ... ({len(text) - 2 * half} characters more) ... {text[-half:]}"


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
