"""`python -m ddprun ARGUMENTS`: ddprun itself, whose workers run in this very Python."""

import os
import sys

from ddprun._executable import executable


def main() -> None:
    try:
        program = executable()
    except FileNotFoundError as error:
        sys.exit(f"python -m ddprun: error: {error}")
    os.environ.setdefault("PYTHON_EXEC", sys.executable)
    os.execv(program, [program, *sys.argv[1:]])


if __name__ == "__main__":
    main()
