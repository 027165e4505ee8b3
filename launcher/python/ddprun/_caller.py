"""What the caller of ddprun.run and its workers share."""

import json

loading = False  # The caller's script is loaded, whose own call of ddprun.run must not count.


def read_error(path: str) -> "tuple[str, str]":
    """Message and traceback of an error file, in the form that torch's @record gives it."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            said = json.load(file)["message"]
        if isinstance(said, str):
            return said, ""
        return str(said["message"]), str(said.get("extraInfo", {}).get("py_callstack", ""))
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return "", ""
