"""Whether runs that are slow but move are taken for hung ones: real programs of torch, each of them slow in its own way.

    slow_runs.py build/bin/ddprun build/tests/fake_worker --python=PYTHON [--runs=30] [--seed=N]

PYTHON has torch. Two nodes with two workers each train over Gloo with --hang-timeout. In turn: a save of rank 0's
for which all others wait, of up to four fifths of that time; one rank that needs a third of it for each of its
steps; a first compile on all ranks, of up to twice that time. Each with a program that tells STEP (and by
EXTEND_TIMEOUT_USEC that it compiles), one that prints its steps (--progress-from=auto) and one that is silent (--preload; torch's collectives are counted). Two runs at a
time, so machines are slow too. Ends with 1 where one was called hung, or failed.
"""

import concurrent.futures
import os
import random
import subprocess
import sys
import tempfile
import time

from measuring import arguments
from watching import Job

from ddprun_runs import read_text

TIMEOUT = 10.0  # --hang-timeout, seconds.
RUN = 180      # None takes longer.
PROGRAM = """
import os, select, socket, sys, time
import torch, torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

kind, source, length, who = sys.argv[1], sys.argv[2], float(sys.argv[3]), int(sys.argv[4])
rank = int(os.environ["RANK"])
agent = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)

def tell(text):
    if source == "told":
        agent.sendto(text.encode(), os.environ["DDPRUN_NOTIFY_SOCKET"])

def stand(seconds):
    select.select([], [], [], seconds)

dist.init_process_group("gloo")
tell("READY=1")
model = DistributedDataParallel(torch.nn.Linear(8, 8))
if kind == "compile":
    tell(f"EXTEND_TIMEOUT_USEC={int(3e6 * length)}")
    stand(length)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
begin, step, over = time.monotonic(), 0, torch.zeros(1)
while over.item() == 0:
    if kind == "rank" and rank == who:
        stand(length)
    optimizer.zero_grad()
    model(torch.ones(4, 8)).sum().backward()
    optimizer.step()
    step += 1
    tell(f"STEP={step}")
    if source == "printed" and rank == 0:
        print(f"step {step} loss 0.1", flush=True)
    if kind == "save" and step % 150 == 50 and rank == 0:
        tell("PHASE=save")
        stand(length)
    stand(0.01)
    over[0] = time.monotonic() - begin > 25
    dist.all_reduce(over)
sys.stdout.flush()
os._exit(0)  # torch's threads end some interpreters with SIGABRT.
"""


def one(asked, number):
    """(what it was, how it ended, what was wrong)"""
    draw = random.Random(asked.seed + number)
    kind = ("save", "rank", "compile")[number % 3]
    source = ("told", "printed", "silent")[number // 3 % 3]
    length = TIMEOUT * {"save": draw.uniform(0.4, 0.8), "rank": 0.33, "compile": draw.uniform(1.2, 2)}[kind]
    what = f"{source}: {kind} of {length:.1f} s"
    with tempfile.TemporaryDirectory(prefix="ddprun_bench_") as scratch:
        script = os.path.join(scratch, "program.py")
        with open(script, "w", encoding="utf-8") as file:
            file.write(PROGRAM)
        flags = {"told": [], "printed": ["--progress-from=auto"], "silent": ["--preload=imports"]}[source]
        worker = [script, kind, source, str(length), str(draw.randrange(4))]
        with Job(asked.ddprun, 2, 2, worker, f"--hang-timeout={TIMEOUT:g}s", *flags,
                 environment={"PYTHON_EXEC": asked.python}) as job:
            end = time.monotonic() + RUN
            codes = []
            for node in job.nodes:
                try:
                    codes.append(node.wait(max(0, end - time.monotonic())))
                except subprocess.TimeoutExpired:
                    node.kill()
                    codes.append(node.wait())
            lines = [line for node in range(2) for line in read_text(job.log(node)).splitlines()
                     if line.startswith("ddprun ")]
        text = "".join(line + "\n" for line in lines)
        return what, codes, text if codes != [0, 0] or "hung" in text else ""


def main():
    asked = arguments(__doc__, {"stamp": "build/tests/fake_worker"},
                      {"--python": {"required": True, "help": "an interpreter that has torch"},
                       "--seed": {"type": int, "default": int(time.time()), "help": "of what is drawn (the time)"}})
    print(f"seed {asked.seed}", flush=True)
    wrong = 0
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        for what, codes, text in pool.map(lambda number: one(asked, number), range(asked.runs)):
            print(f"{what:28} exit codes {codes[0]} {codes[1]}{', called hung' if 'hung' in text else ''}", flush=True)
            wrong += 1 if text else 0
            sys.stdout.write(text)
    print(f"{asked.runs} runs, {wrong} of them called hung or failed")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
