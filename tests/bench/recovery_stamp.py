"""When recovery_worker.py began: its first import, which is not loaded ahead."""

import time

BEGUN = time.monotonic_ns()
