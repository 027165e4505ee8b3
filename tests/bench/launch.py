"""What starting costs: the binary, a run of two workers that do nothing, idle memory.

    launch.py build/bin/ddprun build/tests/exec_stamp [--runs=20] [--torchrun=PATH]
"""

import re

from measuring import StampedRun, Table, arguments, children_of, read_text, wall

NOTHING = ["--nproc-per-node=2", "--no-python", "/bin/true"]
IDLE = ["--nproc-per-node=2", "--no-python"]


def memory(pids):
    """(resident, proportional) MiB of these processes together."""
    def total(field):
        texts = [read_text(f"/proc/{pid}/smaps_rollup") for pid in pids]
        return sum(int(re.search(rf"^{field}:\s+(\d+) kB", text, re.M)[1]) for text in texts) / 1024
    return total("Rss"), total("Pss")


def idle_memory(command, stamp, supervisors):
    run = StampedRun([*command, *IDLE], stamp)
    run.wait_for_stamps(2)
    found = memory(supervisors(run.process.pid))
    run.end()
    return found


def main():
    asked = arguments(__doc__.splitlines()[0], {"stamp": "build/tests/exec_stamp"})
    launchers = {"ddprun": [asked.ddprun]}
    if asked.torchrun:
        launchers["torchrun"] = [asked.torchrun]
    table = Table()
    table.row("spawn and wait alone: /bin/true", [wall(["/bin/true"]) for _ in range(asked.runs)])
    table.row("ddprun --version", [wall([asked.ddprun, "--version"]) for _ in range(asked.runs)])
    walls = {name: [] for name in launchers}
    for _ in range(asked.runs):  # In turn, so that the machine's moods meet all alike.
        for name, command in launchers.items():
            walls[name].append(wall([*command, *NOTHING]))
    for name, values in walls.items():
        table.row(f"{name} {' '.join(NOTHING)}", values)
    for name, command in launchers.items():
        # ddprun is guard and agent; torchrun is one process.
        who = (lambda pid: [pid, *children_of(pid)]) if name == "ddprun" else (lambda pid: [pid])
        found = [idle_memory(command, asked.stamp, who) for _ in range(min(asked.runs, 5))]
        table.row(f"{name}, two idle workers: Rss", [rss for rss, _ in found], "MiB")
        table.row(f"{name}, two idle workers: Pss", [pss for _, pss in found], "MiB")


if __name__ == "__main__":
    main()
