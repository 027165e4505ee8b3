"""How soon two nodes run again after a worker, an agent or a node is gone, or a node has come.

    node_recovery.py build/bin/ddprun build/tests/exec_stamp [--runs=10] [--torchrun=PATH]

Two agents on this machine, one worker each. A node that is off is one whose every process stands
still: nothing is closed, nothing is answered.
"""

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time

from measuring import LIMIT, Table, arguments, clean_environment, milliseconds, stamped, tree_of

from certificates import Certificates
from ddprun_runs import children_of, eventually, kill_all


def free_port():
    """On the address that the certificates name."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Pair:
    """Up to two nodes of one run, whose workers note when they were executed."""

    def __init__(self, launcher, stamp, nnodes, *flags):
        self.scratch = tempfile.TemporaryDirectory(prefix="ddprun_bench_")
        self.stamps = os.path.join(self.scratch.name, "stamps")
        self.environment = {**clean_environment(), "XDG_RUNTIME_DIR": self.scratch.name}
        self.port = free_port()
        self.command = [*launcher, f"--nnodes={nnodes}", "--rdzv-id=bench", *flags,
                        f"--rdzv-endpoint=127.0.0.1:{self.port}", "--no-python", stamp, self.stamps]
        self.seen = 0  # Stamps that were waited for.
        self.nodes = []

    def join(self):
        """The first one hosts the server."""
        self.nodes.append(subprocess.Popen(
            self.command, env=self.environment, cwd=self.scratch.name, stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True))

    def serves(self):
        with socket.socket() as client:
            return client.connect_ex(("127.0.0.1", self.port)) == 0

    def world(self, size):
        """(rank, pid, ns) of the next `size` workers, once all were executed."""
        found = eventually(lambda: stamped(self.stamps, self.seen, size), LIMIT)
        if not found:
            self.end()
            sys.exit(f"{self.command}: no {size} more workers within {LIMIT} s")
        self.seen += size
        return found

    def end(self):
        for node in reversed(range(len(self.nodes))):
            kill_all(tree_of(self.nodes[node].pid))
            self.nodes[node].wait()
        self.scratch.cleanup()


def since(begin, world):
    return (max(ns for _, _, ns in world) - begin) / 1e6


def two(launcher, stamp, nnodes, *flags):
    pair = Pair(launcher, stamp, nnodes, *flags)
    pair.join()
    if not eventually(pair.serves, LIMIT):
        sys.exit(f"{pair.command}: nobody serves within {LIMIT} s")
    pair.join()
    world = pair.world(2)
    try:
        pair.nodes[1].wait(0.3)  # Until the server has heard that they run.
    except subprocess.TimeoutExpired:
        return pair, world
    sys.exit(f"{pair.command} ended by itself")


def worker_killed(launcher, stamp, count, *flags):
    """In a chunk, since torchrun takes seconds to start."""
    pair, world = two(launcher, stamp, "2", f"--max-restarts={count}", *flags)
    times = []
    for i in range(count):
        victim = next(pid for rank, pid, _ in world if rank == i % 2)
        begin = time.monotonic_ns()
        os.kill(victim, signal.SIGKILL)
        world = pair.world(2)
        times.append(since(begin, world))
    pair.end()
    return times


def agent_killed(launcher, stamp):
    pair, _ = two(launcher, stamp, "1:2")
    agent = children_of(pair.nodes[1].pid)[0]
    begin = time.monotonic_ns()
    os.kill(agent, signal.SIGKILL)
    took = since(begin, pair.world(1))
    pair.end()
    return took


def node_off(launcher, stamp):
    pair, _ = two(launcher, stamp, "1:2")
    begin = time.monotonic_ns()
    for pid in tree_of(pair.nodes[1].pid):
        os.kill(pid, signal.SIGSTOP)
    took = since(begin, pair.world(1))
    pair.end()
    return took


def node_joins(launcher, stamp, *flags):
    """From the second agent's exec: its own start is part of it, the workers end at once on TERM."""
    pair = Pair(launcher, stamp, "1:2", "--rdzv-conf=last_call_timeout=0.05", *flags)
    pair.join()
    pair.world(1)
    begin = time.monotonic_ns()
    pair.join()
    took = since(begin, pair.world(2))
    pair.end()
    return took


def print_cost_of_access(table, launcher, asked):
    """A token, and a token with TLS, against neither: in turn, so that ratios mean something."""
    with tempfile.TemporaryDirectory(prefix="ddprun_bench_") as scratch:
        certificates = Certificates(scratch)
        certificates.authority("ca")
        certificates.certificate("node", "ca", "IP:127.0.0.1")
        token = os.path.join(scratch, "token")
        with open(os.open(token, os.O_CREAT | os.O_WRONLY, 0o600), "w") as file:
            file.write("a token for a benchmark\n")
        ways = {"neither token nor TLS": ("--insecure",), "token": (f"--token-file={token}",),
                "token and certificates": (f"--token-file={token}", *certificates.flags("node"))}
        killed = {name: [] for name in ways}
        joined = {name: [] for name in ways}
        while len(killed["token"]) < asked.runs:
            for name, flags in ways.items():
                killed[name] += worker_killed(launcher, asked.stamp, 5, *flags)
                joined[name].append(node_joins(launcher, asked.stamp, *flags))
        for name in ways:
            table.row(f"{name}: worker killed to both nodes' run again", killed[name])
            table.row(f"{name}: node joins a running 1:2 to both run", joined[name])


def main():
    asked = arguments(__doc__.splitlines()[0], {"stamp": "build/tests/exec_stamp"})
    table = Table()
    chunk = 5  # In turn, so that the machine's moods meet all alike.
    own = [asked.ddprun]
    killed = {"ddprun": []}
    if asked.torchrun:
        killed["torchrun"] = []
    while len(killed["ddprun"]) < asked.runs:
        killed["ddprun"] += worker_killed(own, asked.stamp, chunk)
        if asked.torchrun:
            killed["torchrun"] += worker_killed([asked.torchrun], asked.stamp, chunk,
                                                "--rdzv-backend=c10d")
    for name, values in killed.items():
        table.row(f"{name}: worker killed to both nodes' run again", values)
    print_cost_of_access(table, own, asked)
    rows = {"agent killed to the survivor's world runs": agent_killed,
            "node silent to the survivor's runs": node_off,
            "node joins a running 1:2 to both run": node_joins}
    for name, measure in rows.items():
        table.row(f"ddprun: {name}", [measure(own, asked.stamp) for _ in range(asked.runs)])


if __name__ == "__main__":
    begin = time.monotonic_ns()
    main()
    print(f"whole benchmark {milliseconds(begin) / 1e3:.0f} s")
