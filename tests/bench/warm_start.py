"""From a worker's SIGKILL to the next optimizer step of every worker, begun from its file or forked
from a template; in turn, so that the machine's moods meet all alike.

    warm_start.py build/bin/ddprun build/bin/ddprun-train [--runs=20] [--python=PYTHON]

Two workers on one node. ddprun-train (its MLP on MNIST, with checkpoints) and, with a Python that has
torch, a DDP program of it (Gloo).
"""

import argparse
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
import time

from measuring import LIMIT, Table, clean_environment

from ddprun_runs import children_of, eventually, read_text

HERE = os.path.dirname(os.path.abspath(__file__))
CHUNK = 5


class Python:
    """Two Python workers, each of which notes its pid and when it took its first step."""

    def __init__(self, command, python):
        self.scratch = tempfile.TemporaryDirectory(prefix="ddprun_bench_")
        self.stamps = os.path.join(self.scratch.name, "stamps")
        environment = {**clean_environment(), "XDG_RUNTIME_DIR": self.scratch.name,
                       "PYTHON_EXEC": python}
        self.run = subprocess.Popen([word.replace("STAMPS", self.stamps) for word in command],
                                    env=environment, cwd=self.scratch.name,
                                    stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                    stderr=subprocess.DEVNULL, start_new_session=True)
        self.seen = 0

    def step(self):
        """When the last of the next two took its first step, and a pid of one."""
        def look():
            lines = read_text(self.stamps).splitlines()[self.seen:]
            return len(lines) >= 2 and [tuple(map(int, line.split())) for line in lines[:2]]
        world = eventually(look, LIMIT) or sys.exit(f"{self.run.args}: no steps within {LIMIT} s")
        self.seen += 2
        return max(ns for _, _, ns in world), world[0][1]

    def end(self):
        os.kill(self.run.pid, signal.SIGTERM)
        self.run.wait()
        self.scratch.cleanup()


class Trainer:
    """Two workers that train: rank 0's first progress line comes some ten steps after the first."""

    def __init__(self, command, _):
        self.scratch = tempfile.TemporaryDirectory(prefix="ddprun_bench_")
        self.run = subprocess.Popen(command, cwd=self.scratch.name, text=True,
                                    env={**clean_environment(), "XDG_RUNTIME_DIR": self.scratch.name},
                                    stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                    stderr=subprocess.STDOUT, start_new_session=True)
        self.lines = queue.SimpleQueue()
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        for line in self.run.stdout:
            self.lines.put((time.monotonic_ns(), line))

    def step(self):
        began = False
        while True:
            when, line = self.lines.get(timeout=LIMIT)
            began |= "the ranks talk" in line  # Each generation says it once.
            if began and line.startswith("epoch"):
                agent = children_of(self.run.pid)[0]
                return when, next(pid for pid in children_of(agent)
                                  if b"LOCAL_RANK=1" in environment_of(pid))

    def end(self):
        os.kill(self.run.pid, signal.SIGTERM)
        self.run.wait()
        self.scratch.cleanup()


def environment_of(pid):
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            return file.read().split(b"\0")
    except OSError:
        return []


def recoveries(kind, command, python):
    """In ms."""
    run = kind(command, python)
    times = []
    _, victim = run.step()  # From here on all of them train; the next one dies at once.
    for _ in range(CHUNK):
        begin = time.monotonic_ns()
        os.kill(victim, signal.SIGKILL)
        when, victim = run.step()
        times.append((when - begin) / 1e6)
    run.end()
    return times


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("ddprun", type=os.path.abspath)
    parser.add_argument("trainer", type=os.path.abspath)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--python")
    asked = parser.parse_args()
    two = ["--nproc-per-node=2", f"--max-restarts={CHUNK}"]
    ddprun = [asked.ddprun, "--standalone", "--crash-loop-limit=0", *two]
    script = [os.path.join(HERE, "warm_start_worker.py"), "STAMPS"]
    kinds = {}
    train = [asked.trainer, "--epochs=100000", "--progress-every=0.001"]
    kinds["ddprun-train, cold"] = (Trainer, [*ddprun, "--preload=none", *train], None)
    kinds["ddprun-train, warm"] = (Trainer, [*ddprun, *train], None)
    if asked.python:
        kinds["Python, cold"] = (Python, [*ddprun, *script], asked.python)
        kinds["Python, --preload"] = (
            Python, [*ddprun, "--preload=torch,torch._dynamo", *script], asked.python)
    times = {name: [] for name in kinds}
    while min(map(len, times.values())) < asked.runs:
        for name, how in kinds.items():
            times[name] += recoveries(*how)
    table = Table()
    for name, values in times.items():
        table.row(f"{name}: killed to the next step of all", values)


if __name__ == "__main__":
    main()
