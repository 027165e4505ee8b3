"""From `ddprun --hosts=...` to the start of the last host's worker, beside as many `ssh HOST true` at once.

    hosts.py build/bin/ddprun build/tests/exec_stamp [--hosts=8] [--runs=20]

Each host is a network namespace with a real sshd, and so is the launcher's; without root they are loopback addresses. All
share this machine's cores. Both are in turn; the last row is their paired ratio, to which ddprun's own start belongs.
"""

import contextlib
import os
import subprocess
import sys
import tempfile
import time

from measuring import LIMIT, StampedRun, Table, arguments, clean_environment, milliseconds
from bridge_network import BridgeNetwork  # After measuring, which knows where they are.
from local_sshd import LocalSshd, all_there
from networks import namespaces_work


def from_launcher(sshd, command):
    return sshd.network.on_machine(len(sshd.names), command) if sshd.network else command


def ssh_at_once(sshd):
    begin = time.monotonic_ns()
    calls = [subprocess.Popen(from_launcher(sshd, [*sshd.agent().split(), name, "true"]), env=clean_environment(),
                              stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
             for name in sshd.names]
    codes = [call.wait(LIMIT) for call in calls]
    took = milliseconds(begin)
    if any(codes):
        sys.exit(f"ssh ended with {codes}")
    return took


def launch(ddprun, stamp, sshd):
    begin = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
    run = StampedRun(from_launcher(sshd, [ddprun, f"--hosts={','.join(sshd.names)}",
                                          f"--launch-agent={sshd.agent()}"]), stamp)
    last = max(ns for _, _, ns in run.wait_for_stamps(len(sshd.names)))
    run.end()
    return (last - begin) / 1e6


def main():
    asked = arguments(__doc__.splitlines()[0], {"stamp": "build/tests/exec_stamp"},
                      {"--hosts": {"type": int, "default": 8, "help": "addresses (8)"}})
    if not all_there():
        sys.exit("there is no sshd here (Debian: openssh-server)")
    with tempfile.TemporaryDirectory(prefix="ddprun_bench_") as folder, contextlib.ExitStack() as ends:
        os.mkdir(os.path.join(folder, "sshd"), 0o700)
        network = BridgeNetwork(asked.hosts + 1) if namespaces_work() else None
        if network:
            ends.callback(network.close)
        sshd = LocalSshd(os.path.join(folder, "sshd"), asked.hosts, {"OMP_NUM_THREADS": "1"}, network)
        ends.callback(sshd.close)
        pairs = [(ssh_at_once(sshd), launch(asked.ddprun, asked.stamp, sshd)) for _ in range(asked.runs)]
    table = Table()
    table.row(f"{asked.hosts} x ssh HOST true at once", [ssh for ssh, _ in pairs])
    table.row(f"ddprun --hosts, {asked.hosts} workers run", [run for _, run in pairs])
    table.row("less 100 ms, by ssh of the same round", [(run - 100) / ssh for ssh, run in pairs], "(bar: 1.2)")


if __name__ == "__main__":
    main()
