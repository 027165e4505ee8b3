"""The shared parts of the launcher's benchmarks: clean starts, waits, tables with spread."""

import argparse
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))

from ddprun_runs import children_of, eventually, free_endpoint, read_text  # noqa: E402

LIMIT = 60


def arguments(description, binaries, more=None):
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("ddprun", help="the binary, e.g. build/bin/ddprun")
    for name, what in binaries.items():
        parser.add_argument(name, help=what)
    parser.add_argument("--runs", type=int, default=20, help="of each (20)")
    parser.add_argument("--torchrun", help="measured in turn with ddprun")
    for flag, settings in (more or {}).items():
        parser.add_argument(flag, **settings)
    asked = parser.parse_args()
    asked.ddprun, asked.stamp = os.path.abspath(asked.ddprun), os.path.abspath(asked.stamp)
    return asked


def clean_environment():
    kept = {k: v for k, v in os.environ.items() if k in ("PATH", "HOME", "USER", "LANG", "TMPDIR")}
    return {**kept, "OMP_NUM_THREADS": "1"}  # Else torchrun warns.


def tree_of(pid):
    """It and all processes below it."""
    found, todo = [], [pid]
    while todo:
        found.append(todo.pop())
        todo += children_of(found[-1])
    return found


def stamped(path, after, count):
    """[(rank, pid, ns)] of the next `count` workers that noted there when they were executed; None: not so many yet."""
    lines = read_text(path).splitlines()[after:]
    return [tuple(map(int, line.split())) for line in lines[:count]] if len(lines) >= count else None


def milliseconds(begin):
    return (time.monotonic_ns() - begin) / 1e6


def wall(command):
    """From spawn to exit, in ms; the command must succeed."""
    quiet = [(os.POSIX_SPAWN_OPEN, fd, "/dev/null", os.O_RDWR, 0) for fd in (0, 1, 2)]
    begin = time.monotonic_ns()
    pid = os.posix_spawnp(command[0], command, clean_environment(), file_actions=quiet)
    _, status = os.waitpid(pid, 0)
    took = milliseconds(begin)
    if status != 0:
        sys.exit(f"{command} ended with wait status {status}")
    return took


def together(launch, nodes, command, folder, environment, limit):
    """Runs the command under so many agents of one run, who know each other by address alone: when, and what the first one printed."""
    if nodes > 1:
        launch = [*launch, f"--nnodes={nodes}", "--rdzv-id=bench", f"--rdzv-endpoint={free_endpoint()}"]
    begin = time.time()
    agents = [subprocess.Popen(
        [*launch, *([f"--node-rank={node}"] if nodes > 1 else []), *command], cwd=folder, env=environment,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace") for node in range(nodes)]
    said = [agent.communicate(timeout=limit) for agent in agents]
    for agent, (_, errors) in zip(agents, said):
        if agent.returncode != 0:
            sys.exit(f"{agent.args} ended with {agent.returncode}:\n{errors}")
    return begin, said[0][0]


class StampedRun:
    """A launcher with two workers that note when they were executed."""

    def __init__(self, command, stamp):
        self.scratch = tempfile.TemporaryDirectory(prefix="ddprun_bench_")
        self.stamps = os.path.join(self.scratch.name, "stamps")
        self.process = subprocess.Popen(
            [*command, stamp, self.stamps], env=clean_environment(), cwd=self.scratch.name,
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def wait_for_stamps(self, count):
        """[(rank, pid, ns)] once so many workers were executed in all; they come in pairs."""
        found = eventually(lambda: stamped(self.stamps, 0, count), LIMIT)
        if not found:
            self.end()
            sys.exit(f"{self.process.args}: no {count} workers within {LIMIT} s")
        return found

    def end(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(LIMIT)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.scratch.cleanup()


class Table:
    def __init__(self):
        print(f"{'':48}{'n':>4}{'min':>10}{'median':>10}{'max':>10}")

    def row(self, name, values, unit="ms"):
        low, middle, high = min(values), statistics.median(values), max(values)
        print(f"{name:48}{len(values):4}{low:10.2f}{middle:10.2f}{high:10.2f} {unit}", flush=True)
        return middle
