"""How soon the next world runs after a node of a run is gone, or another one has come.

    node_loss.py build/bin/ddprun build/tests/exec_stamp [--runs=5] [--age=90]

Every machine is a network namespace on one bridge (needs root). A machine goes off when its link is cut and its
processes are killed, so that no other machine hears of it. All machines see one folder as the run directory, and the
first one hosts the server. Measured is the time to the exec of the last worker of the next world. A run's leases are
long in its first minute, and claims' for 24 s more: --age says how long a run has trained before.
"""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from measuring import LIMIT, Table, arguments, clean_environment, tree_of

from bridge_network import BridgeNetwork
from ddprun_runs import children_of, eventually, kill_all, read_text
from networks import namespaces_work

AGE = {"--age": {"type": float, "default": 1.2, "help": "of a run when a node is lost, in seconds (1.2)"}}


class Machines:
    """So many machines, on which a run of 1 to `count` nodes may be started."""

    def __init__(self, count, asked):
        self.network = BridgeNetwork(count)
        self.scratch = tempfile.TemporaryDirectory(prefix="ddprun_bench_")
        self.stamps = os.path.join(self.scratch.name, "stamps")
        self.environment = {**clean_environment(), "XDG_RUNTIME_DIR": self.scratch.name}
        self.command = [asked.ddprun, f"--nnodes=1:{count}", "--rdzv-id=bench", "-v",
                        f"--rdzv-endpoint={self.network.address(0)}:29400",
                        f"--run-dir={os.path.join(self.scratch.name, 'shared')}",
                        "--rdzv-conf=last_call_timeout=0.2", "--no-python", asked.stamp, self.stamps]
        self.seen = 0
        self.runs = {}

    def start(self, machine):
        with open(self.log(machine), "wb") as log:
            self.runs[machine] = subprocess.Popen(
                self.network.on_machine(machine, self.command), env=self.environment, cwd=self.scratch.name,
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)

    def log(self, machine):
        return os.path.join(self.scratch.name, f"log{machine}")

    def wait(self, condition, what):
        found = eventually(condition, LIMIT)
        if not found:
            logs = [read_text(self.log(machine)) for machine in self.runs]
            self.end()
            sys.exit(f"no {what} within {LIMIT} s\n" + "\n".join(logs))
        return found

    def world(self, size):
        """When the last of the next world's `size` workers was executed, ns."""
        def look():
            lines = [line.split() for line in read_text(self.stamps).splitlines()][self.seen:]
            worlds = [lines[i:i + size] for i in range(len(lines) - size + 1)]
            return next((w for w in worlds if sorted(int(r) for r, _, _ in w) == list(range(size))), None)
        found = self.wait(look, f"world of {size}")
        self.skip()
        return max(int(ns) for _, _, ns in found)

    def skip(self):
        """Programs executed so far belong to no world that is waited for."""
        self.seen = len(read_text(self.stamps).splitlines())

    def form(self, nodes):
        self.start(0)
        self.wait(lambda: "serving the rendezvous at" in read_text(self.log(0)), "server")
        for machine in range(1, nodes):
            self.start(machine)
        self.world(nodes)

    def train(self, seconds):
        try:
            self.runs[0].wait(seconds)
        except subprocess.TimeoutExpired:
            pass
        self.skip()

    def kill(self, machine):
        pids = tree_of(self.runs[machine].pid)
        os.kill(pids[0], signal.SIGSTOP)  # A guard that outlived its agent would tidy up.
        kill_all(reversed(pids))
        self.runs.pop(machine).wait()

    def end(self):
        for machine in list(self.runs):
            self.kill(machine)
        self.network.close()
        self.scratch.cleanup()


def off(machines, machine):
    machines.network.cut(machine)
    machines.kill(machine)


def agent_killed(machines, machine):
    (agent,) = children_of(machines.runs[machine].pid)
    os.kill(agent, signal.SIGKILL)


def lost(asked, lose, nodes, which, moment):
    machines = Machines(nodes, asked)
    machines.form(nodes)
    machines.train(asked.age + moment)
    begin = time.monotonic_ns()
    lose(machines, which)
    took = (machines.world(nodes - 1) - begin) / 1e6
    machines.end()
    return took


def joined(asked):
    """From the second agent's exec: its own start is part of it, the workers end at once on TERM."""
    machines = Machines(2, asked)
    machines.form(1)
    begin = time.monotonic_ns()
    machines.start(1)
    took = (machines.world(2) - begin) / 1e6
    machines.end()
    return took


LOSSES = {  # How, of so many nodes, and which one.
    "a node's agent killed": (agent_killed, 2, 1),
    "a node off": (off, 2, 1),
    "the server's agent killed": (agent_killed, 3, 0),
    "the server's host off": (off, 3, 0),
}


def main():
    asked = arguments(__doc__.splitlines()[0], {"stamp": "build/tests/exec_stamp"}, AGE)
    if not namespaces_work() or not shutil.which("nsenter"):
        sys.exit("needs root and network namespaces")
    times = {name: [] for name in (*LOSSES, "a node joins a running 1:2")}
    for i in range(asked.runs):  # In turn, so that the machine's moods meet all alike.
        for name, loss in LOSSES.items():
            times[name].append(lost(asked, *loss, i * 0.37 % 1))  # Counters and polls meet it at any moment.
        times["a node joins a running 1:2"].append(joined(asked))
    table = Table()
    for name, values in times.items():
        table.row(f"{name} to the next world runs", values)


if __name__ == "__main__":
    main()
