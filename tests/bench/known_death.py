"""From a worker's SIGKILL to the SIGTERM that its peer gets: how long, for workers of so much memory.

    known_death.py build/bin/ddprun [--gigabytes=4] [--runs=50]

The memory is given back before a process can be waited for. Where the worker holds its life lock (proto/life_lock.h)
the agent knows before that. Workers with the lock and without it are measured in turn.
"""

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time

from measuring import LIMIT, Table, clean_environment

from ddprun_runs import eventually, read_text

# The peer waits for SIGTERM in the kernel. Without the lock: its variable goes before the interpreter has started.
WORKER = """
import os, signal, sys, time
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
if os.environ["RANK"] == "1":
    memory = bytearray(int(float(sys.argv[1]) * 2**30))
    memory[::4096] = b"x" * len(memory[::4096])
with open("ready", "a") as file:
    file.write(os.environ["RANK"] + " " + str(os.getpid()) + "\\n")
signal.sigwait([signal.SIGTERM])
now = time.monotonic_ns()
with open("told.part", "w") as file:
    file.write(str(now))
os.rename("told.part", "told")
"""


def measure(ddprun, gigabytes, without):
    with tempfile.TemporaryDirectory(prefix="ddprun_bench_") as scratch:
        def path(name):
            return os.path.join(scratch, name)
        with open(path("worker.py"), "w", encoding="utf-8") as file:
            file.write(WORKER)
        program = ["env", "-u", "DDPRUN_LIFE_LOCK"] if without else []
        run = subprocess.Popen([ddprun, "--standalone", "--nproc-per-node=2", *(["--no-python"] if without else []),
                                *program, *([sys.executable] if without else []), "worker.py", str(gigabytes)],
                               cwd=scratch, env={**clean_environment(), "XDG_RUNTIME_DIR": scratch,
                                                 "PYTHON_EXEC": sys.executable},
                               stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        ready = eventually(lambda: (lines := read_text(path("ready")).splitlines()) and len(lines) == 2 and lines, LIMIT)
        worker = int(next(line for line in ready if line.startswith("1 ")).split()[1])
        begin = time.monotonic_ns()
        os.kill(worker, signal.SIGKILL)
        told = eventually(lambda: read_text(path("told")), LIMIT)
        run.wait(LIMIT)
        return (int(told) - begin) / 1e6


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("ddprun", type=os.path.abspath)
    parser.add_argument("--gigabytes", type=float, default=4)
    parser.add_argument("--runs", type=int, default=50)
    asked = parser.parse_args()
    times = [[measure(asked.ddprun, asked.gigabytes, without) for without in (False, True)] for _ in range(asked.runs)]
    table = Table()
    table.row("with the life lock", [lock for lock, _ in times])
    table.row("without it", [without for _, without in times])


if __name__ == "__main__":
    main()
