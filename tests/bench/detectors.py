"""What it costs that hangs are found: per step of a worker that tells nothing, and of the agents' cores.

    detectors.py build/bin/ddprun build/tests/fake_worker --python=PYTHON [--runs=5]

PYTHON has torch. Two nodes with two workers each, an unmodified Gloo program with --hang-timeout, watched from a
template (--preload): the time that the watching thread has run, over the steps made meanwhile, at about 100
steps a second and as fast as they go; and the CPU time of the agent beside the server and of the other one, each in
turn with the same run without detectors (DDPRUN_WATCH=0, no --hang-timeout). A share is of a core.
"""

import os
import statistics
import sys
import tempfile
import time

from measuring import LIMIT, Table, arguments
from watching import Job, cpu_seconds

from ddprun_runs import eventually, read_text

STEPS_BAR, SHARE_BAR = 5.0, 0.5  # Microseconds, percent.
TAKES = 10  # Seconds of each run's measurement.
PROGRAM = """
import os, select, sys, threading, time
import torch, torch.distributed as dist

def ran(thread):
    try:
        with open(f"/proc/self/task/{thread}/schedstat") as file:
            return int(file.read().split()[0])
    except (OSError, TypeError):
        return 0

pause, takes, out = float(sys.argv[1]), float(sys.argv[2]), sys.argv[3]
dist.init_process_group("gloo")
work = torch.ones(1000)
for _ in range(50):
    dist.all_reduce(work)
watch = next((t.native_id for t in threading.enumerate() if t.name == "ddprun-watch"), None)
open(f"{out}/ready.{os.environ['RANK']}", "w").close()
begin, before, steps, over = time.monotonic(), ran(watch), 0, torch.zeros(1)
while over.item() == 0:
    for _ in range(10):
        dist.all_reduce(work)
        select.select([], [], [], pause)
    steps += 10
    over[0] = time.monotonic() - begin > takes + 2
    dist.all_reduce(over)
with open(f"{out}/rank.{os.environ['RANK']}", "w") as file:
    file.write(f"{steps} {ran(watch) - before} {time.monotonic() - begin}")
os.rename(f"{out}/rank.{os.environ['RANK']}", f"{out}/told.{os.environ['RANK']}")
"""


def one(asked, pause, watched):
    """(microseconds of the watch a step, steps a second, shares of the server's agent and of the other one)"""
    with tempfile.TemporaryDirectory(prefix="ddprun_bench_") as scratch:
        script = os.path.join(scratch, "program.py")
        with open(script, "w", encoding="utf-8") as file:
            file.write(PROGRAM)
        environment = {"PYTHON_EXEC": asked.python}
        flags = ["--hang-timeout=60s"] if watched else []
        if not watched:
            environment["DDPRUN_WATCH"] = "0"
        flags += ["--preload=imports"]
        with Job(asked.ddprun, 2, 2, [script, str(pause), str(TAKES), scratch], *flags, environment=environment) as job:
            def there(name):
                names = [os.path.join(scratch, f"{name}.{rank}") for rank in range(4)]
                if not eventually(lambda: all(os.path.exists(path) for path in names), LIMIT):
                    sys.exit(f"no {name}\n" + read_text(job.log(0)))
                return names
            there("ready")
            agents = [job.agent(node) for node in range(2)]
            begin, used = time.monotonic(), [cpu_seconds(agent) for agent in agents]
            told = there("told")
            lasted = time.monotonic() - begin
            try:
                shares = [100 * (cpu_seconds(agent) - before) / lasted for agent, before in zip(agents, used)]
            except (OSError, IndexError):
                sys.exit("the run ended before its agents were looked at")
            ranks = [[float(word) for word in read_text(path).split()] for path in told]
            return statistics.mean(watch / steps / 1000 for steps, watch, _ in ranks), ranks[0][0] / ranks[0][2], shares


def main():
    asked = arguments(__doc__, {"stamp": "build/tests/fake_worker"},
                      {"--python": {"required": True, "help": "an interpreter that has torch"}})
    table = Table()
    missed = False
    for name, pause in (("about 100 steps/s", 0.01), ("as fast as they go", 0.0)):
        told = {True: [], False: []}
        for _ in range(max(2, asked.runs)):
            for watched, runs in told.items():
                runs.append(one(asked, pause, watched))
        rate = statistics.median(steps for _, steps, _ in told[True])
        missed |= table.row(f"watch, {name} ({rate:.0f}/s), a step (bar {STEPS_BAR:.0f} us)",
                            [each for each, _, _ in told[True]], "us") > STEPS_BAR
        for agent, what in ((0, "agent with the server"), (1, "other agent")):
            for watched, how in ((True, "watched"), (False, "not watched")):
                middle = table.row(f"{what}, {name}, {how}", [shares[agent] for _, _, shares in told[watched]], "%")
                missed |= watched and agent == 1 and middle > SHARE_BAR
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
