"""How soon the survivors' next world runs after the host of the server is off.

    takeover.py build/bin/ddprun build/tests/exec_stamp [--runs=5] [--age=62]

Every machine is a network namespace on one bridge (needs root); off is: its link is cut and its
processes are killed, so no other machine hears of it. All see one folder as the run directory. In turn: three
nodes and two, from the cut to the exec of the last worker of the next world; and a server alone on
its host, killed for good, from the kill to the new server's word that every worker was found. And
with the host alive, the server's agent of three nodes killed alone. A run's leases are long in its
first minute: --age says for how long a run has trained before that.
"""

import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

from measuring import LIMIT, Table, arguments, clean_environment, milliseconds, tree_of

from bridge_network import BridgeNetwork
from ddprun_runs import children_of, eventually, kill_all, lease, read_text
from networks import namespaces_work

BAR = 3 * lease("kBaseLease") + 0.5
AGE = {"--age": {"type": float, "default": 0, "help": "of a run when it is struck, in seconds (0)"}}


class Machines:
    def __init__(self, count, ddprun, stamp):
        self.network = BridgeNetwork(count)
        self.scratch = tempfile.TemporaryDirectory(prefix="ddprun_bench_")
        self.stamps = os.path.join(self.scratch.name, "stamps")
        self.environment = {**clean_environment(), "XDG_RUNTIME_DIR": self.scratch.name}
        self.ddprun, self.stamp = ddprun, stamp
        self.endpoint = f"{self.network.address(0)}:29400"
        self.shared = os.path.join(self.scratch.name, "shared")
        self.seen = 0
        self.runs = {}

    def start(self, machine, *arguments):
        with open(self.log(machine), "wb") as log:
            self.runs[machine] = subprocess.Popen(
                self.network.on_machine(machine, [self.ddprun, *arguments]), env=self.environment,
                cwd=self.scratch.name, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                start_new_session=True)

    def start_node(self, machine, nnodes):
        self.start(machine, f"--nnodes={nnodes}", "--rdzv-id=bench", "-v",
                   f"--rdzv-endpoint={self.endpoint}", f"--run-dir={self.shared}",
                   "--rdzv-conf=last_call_timeout=0.2", "--no-python", self.stamp, self.stamps)

    def log(self, machine):
        return os.path.join(self.scratch.name, f"log{machine}")

    def wait(self, condition, what):
        found = eventually(condition, LIMIT)
        if not found:
            logs = [read_text(self.log(machine)) for machine in self.runs]
            self.end()
            sys.exit(f"no {what} within {LIMIT} s\n" + "\n".join(logs))
        return found

    def wait_for_text(self, machine, text):
        self.wait(lambda: text in read_text(self.log(machine)), text)

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

    def wait_until(self, when, machine):
        """A program that runs there may end before."""
        try:
            self.runs[machine].wait(max(0, when - time.monotonic()))
        except subprocess.TimeoutExpired:
            pass
        self.skip()

    def kill(self, machine):
        pids = tree_of(self.runs[machine].pid)
        os.kill(pids[0], signal.SIGSTOP)  # A guard that outlived its agent would tidy up.
        kill_all(reversed(pids))
        self.runs.pop(machine).wait()

    def kill_agent(self, machine):
        (agent,) = children_of(self.runs[machine].pid)
        os.kill(agent, signal.SIGKILL)

    def end(self):
        for machine in list(self.runs):
            self.kill(machine)
        self.network.close()
        self.scratch.cleanup()


def formed(asked, nodes, moment):
    """A run of so many nodes, and when it may be struck."""
    machines = Machines(nodes, asked.ddprun, asked.stamp)
    machines.start_node(0, f"1:{nodes}")
    machines.wait_for_text(0, "serving the rendezvous at")
    for machine in range(1, nodes):
        machines.start_node(machine, f"1:{nodes}")
    machines.world(nodes)
    # Counters and polls meet the cut at any moment.
    return machines, nodes, time.monotonic() + max(asked.age, 1.2) + moment


def struck(machines, nodes, when, host=True):
    machines.wait_until(when, nodes - 1)
    begin = time.monotonic_ns()
    if host:
        machines.network.cut(0)
        machines.kill(0)
    else:
        machines.kill_agent(0)
    took = (machines.world(nodes - 1) - begin) / 1e6
    machines.end()
    return took


def server_alone(asked):
    machines = Machines(3, asked.ddprun, asked.stamp)
    machines.start(0, "rendezvous", f"--listen={machines.endpoint}", f"--run-dir={machines.shared}")
    machines.wait_for_text(0, "serving the rendezvous at")
    for machine in (1, 2):
        machines.start_node(machine, "2")
    machines.world(2)
    return machines, 2, time.monotonic() + asked.age


def server_off(machines, nodes, when):
    machines.wait_until(when, nodes)
    begin = time.monotonic_ns()
    machines.network.cut(0)
    machines.kill(0)
    machines.wait(lambda: any("no worker was disturbed" in read_text(machines.log(m)) for m in (1, 2)),
                  "takeover")
    took = milliseconds(begin)
    restarts = len(read_text(machines.stamps).splitlines()) - machines.seen
    machines.end()
    return took, restarts


def grown(makers):
    """The same, begun already."""
    runs = {kind: make() for kind, make in makers.items()}
    return {kind: lambda run=run: run for kind, run in runs.items()}


def main():
    asked = arguments(__doc__.splitlines()[0], {"stamp": "build/tests/exec_stamp"}, AGE)
    if not namespaces_work() or not shutil.which("nsenter"):
        sys.exit("needs root and network namespaces")
    kinds = {"3 nodes": 3, "2 nodes": 2}
    times = {kind: [] for kind in kinds}
    deaths, alone, restarted = [], [], 0
    for i in range(asked.runs):  # In turn, so that the machine's moods meet all alike.
        moment = i * 0.37 % 1
        off = {kind: lambda k=kind: formed(asked, kinds[k], moment) for kind in kinds}
        other = {"killed": lambda: formed(asked, 3, moment), "alone": lambda: server_alone(asked)}
        if asked.age > 0:  # All grow old together; each is struck at that age, or a few seconds later.
            off, other = grown(off), grown(other)
        for kind, run in off.items():
            times[kind].append(struck(*run()))
        deaths.append(struck(*other["killed"](), host=False))
        took, restarts = server_off(*other["alone"]())
        alone.append(took)
        restarted += restarts
    table = Table()
    for kind, values in times.items():
        table.row(f"{kind}, server's host off to the survivors' world runs (bar {BAR} s)", values)
    table.row("3 nodes, server's agent killed to the survivors' world runs (bar 0.5 s)", deaths)
    table.row("server alone, its host off to all found", alone)
    print(f"workers restarted when the server alone was lost: {restarted}")
    late = [f"{kind}: {statistics.median(values) / 1e3:.1f} s" for kind, values in times.items()
            if statistics.median(values) / 1e3 > BAR]
    print("beyond the bar: " + ("; ".join(late) or "none"))


if __name__ == "__main__":
    begin = time.monotonic_ns()
    main()
    print(f"whole benchmark {milliseconds(begin) / 1e3:.0f} s")
