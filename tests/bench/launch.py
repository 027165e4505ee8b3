"""The cost of starting, the cost of idling, and how soon a worker's death is known.

    launch.py build/bin/ddprun build/tests/exec_stamp [--runs=20] [--window=120] [--torchrun=PATH]

ext4 looks at each inode that was deleted within the last minute before it gives one (ialloc.c,
recently_deleted), so on it runs hinder those after them: TMPDIR=/dev/shm shows one without the others.
"""

import os
import re
import select
import signal
import time

from measuring import StampedRun, Table, arguments, children_of, milliseconds, read_text, wall

NOTHING = ["--no-python", "/bin/true"]
IDLE = ["--nproc-per-node=2", "--no-python"]
WINDOW = {"--window": {"type": float, "default": 20, "help": "seconds of idling to watch (20)"}}


def memory(pids):
    """(resident, proportional) MiB of these processes together."""
    def total(field):
        texts = [read_text(f"/proc/{pid}/smaps_rollup") for pid in pids]
        return sum(int(re.search(rf"^{field}:\s+(\d+) kB", text, re.M)[1]) for text in texts) / 1024
    return total("Rss"), total("Pss")


def wakeups(pids):
    """How often threads of these processes have gone to sleep, by process and thread name."""
    found = {}
    for pid in pids:
        for thread in os.listdir(f"/proc/{pid}/task"):
            text = read_text(f"/proc/{pid}/task/{thread}/status")
            slept = int(re.search(r"^voluntary_ctxt_switches:\s+(\d+)", text, re.M)[1])
            found[pid, thread, text.split("\n", 1)[0].split()[-1]] = slept
    return found


def supervisors(name, pid):
    """ddprun is guard and agent; torchrun is one process."""
    return [pid, *children_of(pid)] if name == "ddprun" else [pid]


def idle_memory(name, command, stamp):
    run = StampedRun([*command, *IDLE], stamp)
    run.wait_for_stamps(2)
    found = memory(supervisors(name, run.process.pid))
    run.end()
    return found


def idle_wakeups(name, command, stamp, window):
    """Per second, over all threads; the busiest ones are named."""
    run = StampedRun([*command, *IDLE], stamp)
    run.wait_for_stamps(2)
    pids = supervisors(name, run.process.pid)
    run.stays(2)  # The work that starting still has to do.
    before, begin = wakeups(pids), time.monotonic()
    run.stays(window)
    after, seconds = wakeups(pids), time.monotonic() - begin
    run.end()
    rates = {key: (count - before.get(key, 0)) / seconds for key, count in after.items()}
    busiest = sorted(rates.items(), key=lambda item: -item[1])[:4]
    named = [f"{thread}({'guard' if pid == pids[0] else 'agent'}) {rate:.2f}"
             for (pid, _, thread), rate in busiest if rate > 0]
    return sum(rates.values()), named


def death_times(command, stamp):
    """From a worker's SIGKILL, in ms: to what a bare pidfd shows, and to the end of its sibling,
    whom the launcher ends as soon as it knows."""
    run = StampedRun([*command, *IDLE], stamp)
    pids = {rank: pid for rank, pid, _ in run.wait_for_stamps(2)}
    handles = {os.pidfd_open(pid): rank for rank, pid in pids.items()}
    poll = select.poll()
    for handle in handles:
        poll.register(handle, select.POLLIN)
    found = {}
    begin = time.monotonic_ns()
    os.kill(pids[0], signal.SIGKILL)
    while len(found) < 2:
        for handle, _ in poll.poll():
            poll.unregister(handle)
            found[handles[handle]] = milliseconds(begin)
    for handle in handles:
        os.close(handle)
    run.end()
    return found[0], found[1]


def bare_spawns(count):
    """Spawn and wait alone of so many /bin/true at once, in ms: what no launcher can go below."""
    begin = time.monotonic_ns()
    pids = [os.posix_spawn("/bin/true", ["true"], {}) for _ in range(count)]
    for pid in pids:
        os.waitpid(pid, 0)
    return milliseconds(begin)


def launches(table, launchers, workers, runs):
    """Beside as many bare spawns, each in turn."""
    command = [f"--nproc-per-node={workers}", *NOTHING]
    walls = {name: [] for name in launchers}
    bare = []
    for _ in range(runs):  # In turn, so that the machine's moods meet all alike.
        bare.append(bare_spawns(workers))
        for name, launcher in launchers.items():
            walls[name].append(wall([*launcher, *command]))
    alone = table.row(f"spawn and wait alone: {workers} x /bin/true", bare)
    medians = {name: table.row(f"{name} {' '.join(command)}", seen) for name, seen in walls.items()}
    print(f"ddprun takes {medians['ddprun'] / alone:.2f} times as long as so many spawns alone")
    if "torchrun" in medians:
        print(f"torchrun takes {medians['torchrun'] / medians['ddprun']:.0f} times as long")


def main():
    asked = arguments(__doc__.splitlines()[0], {"stamp": "build/tests/exec_stamp"}, WINDOW)
    launchers = {"ddprun": [asked.ddprun]}
    if asked.torchrun:
        launchers["torchrun"] = [asked.torchrun]
    few = min(asked.runs, 5)
    table = Table()
    table.row("spawn and wait alone: /bin/true", [wall(["/bin/true"]) for _ in range(asked.runs)])
    table.row("ddprun --version", [wall([asked.ddprun, "--version"]) for _ in range(asked.runs)])
    launches(table, launchers, 2, asked.runs)
    launches(table, launchers, 64, asked.runs if launchers.keys() == {"ddprun"} else few)
    for name, command in launchers.items():
        times = [death_times(command, asked.stamp) for _ in range(few if name != "ddprun" else asked.runs)]
        table.row("a bare pidfd: worker killed to known", [bare for bare, _ in times])
        table.row(f"{name}: worker killed to its sibling ended", [ended for _, ended in times])
        found = [idle_memory(name, command, asked.stamp) for _ in range(few)]
        table.row(f"{name}, two idle workers: Rss", [rss for rss, _ in found], "MiB")
        table.row(f"{name}, two idle workers: Pss", [pss for _, pss in found], "MiB")
        rate, busiest = idle_wakeups(name, command, asked.stamp, asked.window)
        table.row(f"{name}, two idle workers: wake-ups in {asked.window:g} s", [rate], "/s")
        print(f"    by thread and second: {', '.join(busiest) or 'none'}")


if __name__ == "__main__":
    main()
