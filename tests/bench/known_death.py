"""From a worker's SIGKILL to the SIGTERM that its peer gets: how long, for workers of so much memory.

    known_death.py build/bin/ddprun [OTHER_DDPRUN] [--gigabytes=4] [--runs=50] [--without]

The memory is given back before a process can be waited for. Where the worker holds its life lock (proto/life_lock.h)
the agent knows before that. OTHER_DDPRUN, and with --without the same one without the lock, are measured in turn with
it.
"""

import argparse
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time

from measuring import LIMIT, clean_environment

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
    parser.add_argument("ddprun", nargs="+")
    parser.add_argument("--gigabytes", type=float, default=4)
    parser.add_argument("--runs", type=int, default=50)
    parser.add_argument("--without", action="store_true", help="the first one without the life lock too")
    asked = parser.parse_args()
    kinds = {name: (os.path.abspath(name), False) for name in asked.ddprun}
    if asked.without:
        kinds["without the lock"] = (os.path.abspath(asked.ddprun[0]), True)
    times = {name: [] for name in kinds}
    for _ in range(asked.runs):
        for name, (ddprun, without) in kinds.items():
            times[name].append(measure(ddprun, asked.gigabytes, without))
    for name, found in times.items():
        found.sort()
        print(f"{name}: p50 {statistics.median(found):.2f} ms, p90 {found[int(0.9 * len(found))]:.2f} ms, "
              f"p99 {found[min(len(found) - 1, int(0.99 * len(found)))]:.2f} ms, {len(found)} runs")


if __name__ == "__main__":
    main()
