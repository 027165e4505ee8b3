"""From a worker's SIGKILL to the next optimizer step of every worker: how long, and which part of the
way takes it; begun from its file or forked from a preload process, on one node and on two.

    recovery.py build/bin/ddprun build/bin/ddprun-train [--runs=50] [--python=PYTHON]
                [--library=build/examples/mlp] [--torchrun=PATH] [--only=WORD,...] [--picture=FILE]

Two workers in all; all kinds in turn, so that the machine's moods meet all alike. ddprun-train is
its MLP on MNIST with checkpoints, Python (with a PYTHON that has torch) a DDP program of Gloo that
knows nothing of ddprun and notes the moment of its first step. The parts are those of `ddprun status`.
ddprun-train reports its first step to its agent at once, so its whole is their sum: unseen times are
missing (from the kill to the kernel's word, and the way of the directive). Of Python's, `the rest` is what the program
does itself: it joins its peers and takes a step. --python measures beside it what
eight workers and their preload process hold in memory. FILE gets the medians of the parts that ddprun and torchrun share,
for scripts/docs/draw.py.
"""

import argparse
import json
import math
import os
import platform
import queue
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time

from measuring import LIMIT, Table, clean_environment, stamped

from ddprun_runs import children_of, eventually, free_endpoint, read_bytes, read_text, workers_below

HERE = os.path.dirname(os.path.abspath(__file__))
SCRIPT = os.path.join(HERE, "recovery_worker.py")
CHUNK = 5
PARTS = ("detect", "stop", "form", "start", "state", "first_step")
SHARED_PARTS = ("stop and start", "import torch", "join the group", "first step")
IN_PICTURE = {"torchrun, Python": "torchrun", "Python cold": "ddprun --preload=none", "Python --preload": "ddprun"}


class Run:
    """One launcher, or one for each of two nodes; their lines are read as they come."""

    def __init__(self, launcher, program, nodes, environment, workers=2):
        self.scratch = tempfile.TemporaryDirectory(prefix="ddprun_bench_")
        self.stamps = os.path.join(self.scratch.name, "stamps")
        self.environment = {**clean_environment(), "XDG_RUNTIME_DIR": self.scratch.name,
                            **environment}
        self.lines = queue.SimpleQueue()
        self.seen = 0
        where = [f"--nproc-per-node={workers}", "--standalone"] if nodes == 1 else [
            "--nproc-per-node=1", "--nnodes=2", "--rdzv-id=bench",
            f"--rdzv-endpoint={free_endpoint()}"]
        if nodes == 2 and "torchrun" in launcher[0]:
            where.append("--rdzv-backend=c10d")
        self.command = [*launcher, *where, *[w.replace("STAMPS", self.stamps) for w in program]]
        self.nodes = [self.start(self.command) for _ in range(nodes)]

    def start(self, command):
        process = subprocess.Popen(command, env=self.environment, cwd=self.scratch.name, text=True,
                                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.STDOUT, start_new_session=True)
        threading.Thread(target=self.read, args=[process], daemon=True).start()
        return process

    def read(self, process):
        for line in process.stdout:
            self.lines.put((time.monotonic_ns(), line))

    def line(self, wanted):
        """When one came in which that stands; None: none within LIMIT."""
        end = time.monotonic() + LIMIT
        while True:
            try:
                when, line = self.lines.get(timeout=max(0, end - time.monotonic()))
            except queue.Empty:
                return None
            if re.search(wanted, line):
                return when

    def stamped(self, count=2):
        """When the last of the next workers took its first step; None: not within LIMIT."""
        world = eventually(lambda: stamped(self.stamps, self.seen, count), LIMIT)
        if not world:
            return None
        self.seen += count
        self.newest = max(world, key=lambda note: note[-1])
        return self.newest[-1]

    def runs(self, ddprun):
        asked = subprocess.run([ddprun, "status", "-o", "json"], env=self.environment,
                               capture_output=True, check=False)
        return json.loads(asked.stdout)["runs"] if asked.returncode == 0 else []

    def preload(self, ddprun):
        """Waits until each node has loaded torch ahead without being asked to."""
        def loaded():
            facts = [fact["value"] for run in self.runs(ddprun) for node in run["nodes"]
                     for fact in node["facts"] if fact["name"] == "preload"]
            return len(facts) == len(self.nodes) and all("has loaded" in fact for fact in facts)
        return eventually(loaded, 3 * LIMIT) or sys.exit(f"{self.command}: nothing was preloaded")

    def startup(self, ddprun, number, complete):
        """As `ddprun status` tells it, once that part of it is known."""
        asked_at = time.monotonic()

        def look():
            nonlocal asked_at
            if time.monotonic() < asked_at:
                return None  # AskStart costs the machine more than knowing it later.
            asked_at = time.monotonic() + 0.1
            runs = self.runs(ddprun)
            newest = runs[0]["startups"][-1] if runs and runs[0]["startups"] else None
            known = newest and newest["number"] >= number and newest[complete] is not None
            return known and newest
        return eventually(look, LIMIT) or sys.exit(f"{self.command}: no start {number} was told")

    def end(self):
        for node in self.nodes:
            if node.poll() is None:
                node.send_signal(signal.SIGTERM)
        for node in self.nodes:
            try:
                node.wait(LIMIT)
            except subprocess.TimeoutExpired:
                os.killpg(node.pid, signal.SIGKILL)
                node.wait()
        self.scratch.cleanup()


class Kind:
    def __init__(self, launcher, program, nodes, python=None, waits=False):
        self.waits = waits  # For what is loaded ahead in the background.
        self.launcher, self.program, self.nodes = launcher, program, nodes
        self.python, self.torchrun = python, "torchrun" in launcher[0]
        self.values = {}
        self.taken = []  # The shared parts of each recovery.
        self.gave_up = 0

    def environment(self):
        if self.torchrun:
            return {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}  # Else its restarts hang.
        return {"PYTHON_EXEC": self.python} if self.python else {}

    def add(self, name, value):
        self.values.setdefault(name, []).append(value)

    def steps(self, run):
        return run.stamped() if self.python else run.line(r"^epoch|: epoch|\bstep \d+/")

    def measure(self):
        run = Run(self.launcher, self.program, self.nodes, self.environment())
        if self.steps(run) is None:
            sys.exit(f"{run.command}: no step within {LIMIT} s")
        if not self.torchrun:
            run.startup(self.launcher[0], 1, "start_seconds" if self.python else "first_step_seconds")
        if self.waits:
            run.preload(self.launcher[0])
        for i in range(CHUNK):
            victim = workers_below(run.nodes[-1].pid)[-1]
            while not run.lines.empty():
                run.lines.get()
            begin = time.monotonic_ns()
            os.kill(victim, signal.SIGKILL)
            when = self.steps(run) if self.python else (
                run.line("resumed at|training .* on") and self.steps(run))
            if when is None:
                self.gave_up += 1
                break  # The next run begins anew.
            if self.python:
                moments = [begin, *run.newest[2:]]
                self.taken.append([(after - before) / 1e6 for before, after in zip(moments, moments[1:])])
            self.note(run, i + 2, (when - begin) / 1e6)
        run.end()

    def note(self, run, number, took):
        if self.torchrun:
            return self.add("whole", took)
        known = "start_seconds" if self.python else "first_step_seconds"
        startup = run.startup(self.launcher[0], number, known)
        parts = {part: 1e3 * startup[part + "_seconds"] for part in PARTS
                 if startup[part + "_seconds"] is not None}
        for part, value in parts.items():
            self.add(part.replace("_", " "), value)
        if self.python:
            self.add("the rest", took - sum(parts.values()))
        self.add("whole", took if self.python else sum(parts.values()))


def pss(pid):
    found = re.search(rb"^Pss:\s+(\d+) kB", read_bytes(f"/proc/{pid}/smaps_rollup"), re.M)
    return int(found[1]) / 1e3 if found else 0


def memory(ddprun, python, preload, count=8):
    """MB of all workers and of what they were forked from, once each has collected its garbage."""
    run = Run([ddprun, *preload], [SCRIPT, "STAMPS", "rest"], 1, {"PYTHON_EXEC": python}, count)
    if not run.stamped(count):
        sys.exit(f"{run.command}: no {count} workers within {LIMIT} s")
    agent = children_of(run.nodes[0].pid)[0]
    total = sum(pss(pid) for pid in children_of(agent))
    run.end()
    return total


def print_preload(table, ddprun, python, runs):
    ways = {"cold": ["--preload=none"], "--preload": ["--preload=torch,torch._dynamo"]}
    sizes = {name: [] for name in ways}
    for _ in range(runs):
        for name, flags in ways.items():
            sizes[name].append(memory(ddprun, python, flags))
    for name in ways:
        table.row(f"Python {name}: 8 workers (and preload process), PSS", sizes[name], "MB")


def kinds_of(asked):
    restarts = f"--max-restarts={CHUNK}"
    own = [asked.ddprun, "--crash-loop-limit=0", restarts]
    train = [asked.trainer, "--epochs=100000", "--progress-every=0.001"]
    script = [SCRIPT, "STAMPS", "parts"]
    kinds = {}
    for nodes in (1, 2):
        at = f"{nodes} node{'s' if nodes > 1 else ''}"
        kinds[f"{at}: ddprun-train"] = Kind(own, train, nodes)
        kinds[f"{at}: ddprun-train --preload=none"] = Kind([*own, "--preload=none"], train, nodes)
        if asked.library:
            kinds[f"{at}: a program on the library"] = Kind(own, [asked.library, *train[1:]], nodes)
        if asked.python:
            kinds[f"{at}: Python --preload"] = Kind(
                [*own, "--preload=torch,torch._dynamo"], script, nodes, asked.python)
            kinds[f"{at}: Python, no flag"] = Kind(own, script, nodes, asked.python, waits=True)
            kinds[f"{at}: Python cold"] = Kind([*own, "--preload=none"], script, nodes, asked.python)
        if asked.torchrun:
            kinds[f"{at}: torchrun, Python"] = Kind(
                [asked.torchrun, "--monitor-interval=0.1", restarts], script, nodes, "its own")
    words = asked.only.split(",")
    return {name: kind for name, kind in kinds.items() if any(word in name for word in words)}


def write_picture(path, kinds):
    model = re.search(r"^model name\s*: (.*)$", read_text("/proc/cpuinfo"), re.M)
    rows = []
    for at, where in (("1 node", "one node"), ("2 nodes", "two nodes")):
        for what, name in IN_PICTURE.items():
            taken = kinds[f"{at}: {what}"].taken
            rows.append({"name": f"{name}, {where}", "runs": len(taken), "whole": statistics.median(map(sum, taken)),
                         "parts": {part: statistics.median(values) for part, values in zip(SHARED_PARTS, zip(*taken))}})
    with open(path, "w", encoding="utf-8") as file:
        json.dump({"machine": f"{os.cpu_count()} CPUs ({model[1] if model else platform.machine()}), Linux {platform.release()}",
                   "date": time.strftime("%Y-%m-%d"), "rows": rows}, file, indent=1)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("ddprun", type=os.path.abspath)
    parser.add_argument("trainer", type=os.path.abspath)
    parser.add_argument("--runs", type=int, default=50)
    parser.add_argument("--python")
    parser.add_argument("--library", type=os.path.abspath, help="a program on the trainer's library")
    parser.add_argument("--torchrun", type=os.path.abspath)
    parser.add_argument("--only", default="", help="kinds with one of these words in their name")
    parser.add_argument("--picture", help="a file for scripts/docs/draw.py; with --python and --torchrun")
    asked = parser.parse_args()
    kinds = kinds_of(asked)
    for _ in range(math.ceil(asked.runs / CHUNK)):
        for kind in kinds.values():
            kind.measure()
    table = Table()
    for name, kind in kinds.items():
        table.row(f"{name}: killed to next step", kind.values.pop("whole", [math.nan]))
        for part, values in kind.values.items():
            table.row(f"  {part}", values)
        if kind.gave_up:
            print(f"  did not come back within {LIMIT} s: {kind.gave_up} times")
    if asked.picture:
        write_picture(asked.picture, kinds)
    if asked.python and not asked.only:
        print_preload(table, asked.ddprun, asked.python, max(1, asked.runs // (2 * CHUNK)))


if __name__ == "__main__":
    main()
