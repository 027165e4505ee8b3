"""The cost of starting, and the memory of a launcher whose workers do nothing.

    launch.py build/bin/ddprun build/tests/exec_stamp [--runs=20] [--torchrun=PATH]

ext4 looks at each inode that was deleted within the last minute before it gives one (ialloc.c,
recently_deleted), so on it runs hinder those after them: TMPDIR=/dev/shm shows one without the others.
"""

import os
import re
import time

from measuring import StampedRun, Table, arguments, children_of, milliseconds, read_text, wall

NOTHING = ["--no-python", "/bin/true"]
IDLE = ["--nproc-per-node=2", "--no-python"]


def memory(pids):
    """(resident, proportional) MiB of these processes together."""
    def total(field):
        texts = [read_text(f"/proc/{pid}/smaps_rollup") for pid in pids]
        return sum(int(re.search(rf"^{field}:\s+(\d+) kB", text, re.M)[1]) for text in texts) / 1024
    return total("Rss"), total("Pss")


def supervisors(name, pid):
    """ddprun is guard and agent; torchrun is one process."""
    return [pid, *children_of(pid)] if name == "ddprun" else [pid]


def idle_memory(name, command, stamp):
    run = StampedRun([*command, *IDLE], stamp)
    run.wait_for_stamps(2)
    found = memory(supervisors(name, run.process.pid))
    run.end()
    return found


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
    asked = arguments(__doc__.splitlines()[0], {"stamp": "build/tests/exec_stamp"})
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
        found = [idle_memory(name, command, asked.stamp) for _ in range(few)]
        table.row(f"{name}, two idle workers: Rss", [rss for rss, _ in found], "MiB")
        table.row(f"{name}, two idle workers: Pss", [pss for _, pss in found], "MiB")


if __name__ == "__main__":
    main()
