"""How soon workers run again after one is killed, and how soon nothing is left of a killed run.

    restart.py build/bin/ddprun build/tests/exec_stamp [--runs=20] [--torchrun=PATH]
"""

import os
import select
import signal
import time

from measuring import StampedRun, Table, arguments, milliseconds, tree_of


def restart_times(command, stamp, count):
    """From the SIGKILL of a worker to the last of the next generation's exec, in ms."""
    run = StampedRun([*command, "--nproc-per-node=2", f"--max-restarts={count}", "--no-python"], stamp)
    times = []
    for i in range(count):
        world = run.wait_for_stamps(2 * (i + 1))[-2:]
        victim = next(pid for rank, pid, _ in world if rank == i % 2)
        begin = time.monotonic_ns()
        os.kill(victim, signal.SIGKILL)
        again = run.wait_for_stamps(2 * (i + 2))[-2:]
        times.append((max(ns for _, _, ns in again) - begin) / 1e6)
    run.end()
    return times


def gone_time(command, stamp, choose):
    """From the SIGKILL of a supervisor to the end of the run's last process, in ms."""
    run = StampedRun([*command, "--nproc-per-node=2", "--no-python"], stamp)
    run.wait_for_stamps(2)
    pids = tree_of(run.process.pid)
    assert len(pids) == 4, f"guard, agent and two workers, not {pids}"
    poll = select.poll()
    handles = [os.pidfd_open(pid) for pid in pids]
    for handle in handles:
        poll.register(handle, select.POLLIN)
    begin = time.monotonic_ns()
    os.kill(choose(pids), signal.SIGKILL)
    left = set(handles)
    while left:
        for handle, _ in poll.poll():
            poll.unregister(handle)
            left.remove(handle)
    took = milliseconds(begin)
    for handle in handles:
        os.close(handle)
    run.end()
    return took


def main():
    asked = arguments(__doc__.splitlines()[0], {"stamp": "build/tests/exec_stamp"})
    table = Table()
    chunk = 5  # In turn, so that the machine's moods meet all alike.
    launchers = {"ddprun": [asked.ddprun]}
    if asked.torchrun:
        launchers["torchrun"] = [asked.torchrun]
        launchers["torchrun --monitor-interval=0.01"] = [asked.torchrun, "--monitor-interval=0.01"]
    times = {name: [] for name in launchers}
    while len(times["ddprun"]) < asked.runs:
        for name, command in launchers.items():
            times[name] += restart_times(command, asked.stamp, chunk)
    for name, values in times.items():
        table.row(f"{name}: worker killed to all run again", values)
    for who, choose in (("guard", lambda pids: pids[0]), ("agent", lambda pids: pids[1])):
        values = [gone_time([asked.ddprun], asked.stamp, choose) for _ in range(asked.runs)]
        table.row(f"ddprun: {who} killed to nothing left", values)


if __name__ == "__main__":
    main()
