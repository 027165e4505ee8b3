"""From a worker's SIGKILL to the next step of every worker, in parts that ddprun and torchrun share.

    recovery_parts.py build/bin/ddprun --python=PYTHON --torchrun=PATH [--runs=10] > FILE

Two workers in all, on one node and on two; all kinds in turn, on one machine. PYTHON has torch, which ddprun loads ahead
or not; without a flag it does so in the background, which takes long on a busy machine. The program knows nothing
of the launcher and notes when it began, had imported torch, had joined its peers and had taken a step; the worker that
stepped last counts. Writes JSON: the machine, and of each kind the medians of its parts and of the whole in ms, in the
order in which they pass. scripts/docs/draw.py draws it.
"""

import argparse
import json
import math
import os
import platform
import re
import signal
import statistics
import sys
import time

from measuring import LIMIT, stamped
from recovery import CHUNK, HERE, Run

from ddprun_runs import eventually, read_text, workers_below

PARTS = ("stop and start", "import torch", "join the group", "first step")


class Kind:
    def __init__(self, launcher, nodes, python=None):
        self.launcher, self.nodes = [*launcher, f"--max-restarts={CHUNK}"], nodes
        self.environment = {"PYTHON_EXEC": python} if python else {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}
        self.taken = []  # [parts] of each recovery, in ms.

    def measure(self):
        run = Run(self.launcher, [os.path.join(HERE, "recovery_worker.py"), "STAMPS", "parts"], self.nodes, self.environment)
        self.last_step(run, 0)
        for number in range(1, CHUNK + 1):
            victim = workers_below(run.nodes[-1].pid)[-1]
            killed = time.monotonic_ns()
            os.kill(victim, signal.SIGKILL)
            moments = [killed, *self.last_step(run, number)[2:]]
            self.taken.append([(after - before) / 1e6 for before, after in zip(moments, moments[1:])])
        run.end()

    def last_step(self, run, number):
        """The note of the worker that stepped last, after so many restarts."""
        world = eventually(lambda: stamped(run.stamps, 2 * number, 2), LIMIT)
        if not world:
            sys.exit(f"{run.command}: no step within {LIMIT} s")
        return max(world, key=lambda line: line[-1])


def machine():
    model = re.search(r"^model name\s*: (.*)$", read_text("/proc/cpuinfo"), re.M)
    return f"{os.cpu_count()} CPUs ({model[1] if model else platform.machine()}), Linux {platform.release()}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("ddprun", type=os.path.abspath)
    parser.add_argument("--python", required=True)
    parser.add_argument("--torchrun", required=True, type=os.path.abspath)
    parser.add_argument("--runs", type=int, default=10, help="recoveries of each kind (10)")
    asked = parser.parse_args()
    kinds = {}
    for nodes, where in ((1, "one node"), (2, "two nodes")):
        kinds[f"torchrun, {where}"] = Kind([asked.torchrun, "--monitor-interval=0.1"], nodes)
        for preload in ("none", "torch,torch._dynamo"):
            name = f"ddprun --preload=none, {where}" if preload == "none" else f"ddprun, {where}"
            kinds[name] = Kind([asked.ddprun, f"--preload={preload}", "--crash-loop-limit=0"], nodes, asked.python)
    for _ in range(math.ceil(asked.runs / CHUNK)):
        for name, kind in kinds.items():
            kind.measure()
            print(f"{name}: {len(kind.taken)} so far", file=sys.stderr, flush=True)
    rows = [{"name": name, "runs": len(kind.taken), "whole": statistics.median(map(sum, kind.taken)),
             "parts": {part: statistics.median(values) for part, values in zip(PARTS, zip(*kind.taken))}}
            for name, kind in kinds.items()]
    json.dump({"machine": machine(), "date": time.strftime("%Y-%m-%d"), "rows": rows}, sys.stdout, indent=1)
    print()


if __name__ == "__main__":
    main()
