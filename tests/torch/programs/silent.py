"""A DDP loop that prints nothing and knows nothing of ddprun. In each attempt rank 2 does another thing, most in its
12th step: the words of the command line, one for each attempt; after the last one it trains to its end. A slow
program without a hang ends no attempt, so one word may have several, with commas."""

import atexit
import os
import re
import signal
import subprocess
import sys
import threading

if os.environ["RANK"] == "1":
    if os.fork() == 0:
        sys.exit()  # Through atexit: the process that watches the worker continues.
    os.wait()
if "ends slowly" in sys.argv[-1:]:  # After everything that the imports leave to the end.
    atexit.register(threading.Event().wait, 8)

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

attempt = int(os.environ["TORCHELASTIC_RESTART_COUNT"])
how = sys.argv[1 + attempt] if attempt + 1 < len(sys.argv) else "ends"
if how == "never joins" and os.environ["RANK"] == "2":
    signal.pause()
if "prepares in a thread" in how and os.environ["RANK"] == "2":
    def prepare():
        for _ in range(40):
            threading.Event().wait(0.2)
    thread = threading.Thread(target=prepare)
    thread.start()
    thread.join()  # Where it stands all the time.
dist.init_process_group("gloo")
model = DistributedDataParallel(torch.nn.Linear(8, 8))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
odd = dist.get_rank() == 2
for step in range(24):
    if step == 12 and odd:
        if how == "sleeps":
            signal.pause()
        elif how == "stands still":
            os.kill(os.getpid(), signal.SIGSTOP)
        elif how == "leaves the loop":
            break
        elif how == "holds the GIL":
            # In place of the thread that torch has with NCCL (DumpPipe), which needs no interpreter either.
            dump, pipe = os.environ["TORCH_FR_DUMP_TEMP_FILE"], os.environ["TORCH_NCCL_DEBUG_INFO_PIPE_FILE"]
            os.mkfifo(f"{pipe}2.pipe")
            subprocess.Popen(["sh", "-c", 'head -c1 "$1" && echo a pickle > "$2"', "sh", f"{pipe}2.pipe", f"{dump}2"])
            re.match(r"(a+)+$", "a" * 60 + "b")
    if step == 22 and how == "ends slowly" and odd:
        threading.Event().wait(2)  # That its peers have gone on is known when they end, or never.
    if step == 6 and "saves slowly" in how and odd:
        threading.Event().wait(3)  # Its peers wait in the next collective meanwhile.
    if step == 12 and "compile" in how:
        threading.Event().wait(8)  # All of them, longer than they may be silent, but none waits for another.
    optimizer.zero_grad()
    model(torch.randn(4, 8)).sum().backward()
    optimizer.step()
    threading.Event().wait(0.1)
if how == "leaves the loop" and odd:
    signal.pause()
dist.barrier()
