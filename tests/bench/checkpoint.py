#!/usr/bin/env python3
"""What a checkpoint of 100 MB costs: ours beside torch.save + fsync and dcp.async_save.

    python3 tests/bench/checkpoint.py build/tests/checkpoint_bench --python=VENV/bin/python3

The same perceptron, batch and optimizer on one thread each, in turn. Per save:
  stand still  the time in which the loop can do nothing else: the call, and what the optimizer
               waits for a copy
  all in       what the steps took longer than without saves, disk and second core included
Loading: every byte read; ours with the digests checked and copied into a model, which torch.load
leaves to others.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile

INPUTS, BATCH, OUTPUTS, HIDDEN = 166_000, 64, 10, 50
VARIANTS = ("torch.save", "dcp default", "dcp async stager", "dcp process")


def save(variant, state, path, stager):
    """None, or what stands for the save that runs on."""
    import torch
    import torch.distributed.checkpoint as dcp
    from torch.distributed.checkpoint import state_dict_saver

    if variant == "torch.save":
        with open(path, "wb") as file:
            torch.save(state, file)
            file.flush()
            os.fsync(file.fileno())
        return None
    writer = dcp.FileSystemWriter(path)
    kind = state_dict_saver.AsyncCheckpointerType
    return dcp.async_save(state, storage_writer=writer, async_stager=stager,
                          async_checkpointer_type=kind.PROCESS if variant == "dcp process"
                          else kind.THREAD)


def load_times(path):
    """torch.load reads every byte unless told to map the file; nothing is copied to a model."""
    import time

    import torch

    times = []
    for _ in range(5):
        begin = time.perf_counter()
        torch.load(path, mmap=False)
        times.append((time.perf_counter() - begin) * 1e3)
    return times


def in_python(variant, directory, steps, every):
    """Runs in the other interpreter: trains and saves; the measured milliseconds."""
    import time

    import torch
    import torch.distributed as dist
    from torch.distributed.checkpoint import staging

    torch.set_num_threads(1)
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="0", RANK="0", WORLD_SIZE="1")
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    model = torch.nn.Sequential(torch.nn.Linear(INPUTS, HIDDEN), torch.nn.ReLU(),
                                torch.nn.Linear(HIDDEN, OUTPUTS))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, fused=True)
    images, labels = torch.full((BATCH, INPUTS), 0.5), torch.zeros(BATCH, dtype=torch.long)
    state = lambda: {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
    pending, stager = None, None
    if variant == "dcp async stager":
        stager = staging.DefaultStager(staging.StagingOptions(False, False, True, False))

    clock = lambda: time.perf_counter() * 1e3
    step_times, stalls = [], []
    for step in range(1, steps + 1):
        start, still = clock(), 0.0
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(images), labels).backward()
        if hasattr(pending, "staging_completion"):
            begin = clock()
            pending.staging_completion.result()
            still = clock() - begin
            if stalls and (step - 1) % every == 0:
                stalls[-1] += still
        optimizer.step()
        if step % every == 0:
            if pending is not None:
                getattr(pending, "upload_completion", pending).result()
            begin = clock()
            pending = save(variant, state(), os.path.join(directory, f"{step}"), stager)
            stalls.append(clock() - begin)
        step_times.append(clock() - start)
    if pending is not None:
        getattr(pending, "upload_completion", pending).result()
    if stager is not None:
        stager.close()
    last = os.path.join(directory, f"{steps}")
    loads = load_times(last) if variant == "torch.save" else []
    print(json.dumps({"steps": step_times, "stalls": stalls, "loads": loads}))
    dist.destroy_process_group()


def run(command):
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    lines = done.stdout.splitlines()
    if done.returncode != 0 or not lines:
        return None, (done.stderr.strip().splitlines() or ["no output"])[-1]
    return json.loads(lines[-1]), None


def measure(asked, variant, kind):
    scratch = tempfile.mkdtemp(prefix="ddprun_bench_", dir=asked.scratch)
    try:
        if variant == "ddprun":
            result, why = run([asked.binary, "train", scratch, str(asked.steps), str(asked.every),
                               str(INPUTS), str(BATCH)])
            if result:
                loaded, why = run([asked.binary, "load", scratch, "5", str(INPUTS)])
                result["loads"] = loaded["loads"]
        else:
            result, why = run([asked.python, os.path.abspath(__file__), "--in-python", variant,
                               scratch, str(asked.steps), str(asked.every)])
        if result is None:
            print(f"{variant}: not measured: {why}", flush=True)
            return
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    every = asked.every
    # A save touches the steps up to the next one; the last two before it are taken as untouched.
    quiet = [t for i, t in enumerate(result["steps"], 1)
             if i > every and every - 3 < i % every < every]
    middle = statistics.median(quiet)
    # The first save has no memory to reuse: left out, on both sides.
    measured = result["steps"][2 * every - 1: -1]
    extra = sum(measured) - middle * len(measured)
    kind["stall"].setdefault(variant, []).extend(result["stalls"][1:])
    kind["all in"].setdefault(variant, []).append(extra / max(1, len(result["stalls"]) - 2))
    if result["loads"]:
        kind["load"].setdefault(variant, []).extend(result["loads"][1:])


def main():
    if "--in-python" in sys.argv:
        variant, directory, steps, every = sys.argv[2:]
        in_python(variant, directory, int(steps), int(every))
        return
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("binary", help="build/tests/checkpoint_bench")
    parser.add_argument("--python", required=True, help="an interpreter with torch")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--every", type=int, default=10, help="steps between saves")
    parser.add_argument("--scratch", help="directory on the disk to measure")
    asked = parser.parse_args()
    asked.binary = os.path.abspath(asked.binary)
    kind = {"stall": {}, "all in": {}, "load": {}}
    for _ in range(asked.rounds):
        for variant in ("ddprun",) + VARIANTS:
            measure(asked, variant, kind)
    for name, of in kind.items():
        for variant, values in of.items():
            print(f"{name:8}{variant:18}n {len(values):3}  min {min(values):8.2f}  "
                  f"median {statistics.median(values):8.2f}  max {max(values):8.2f} ms")
    middle = {n: {v: statistics.median(x) for v, x in of.items()} for n, of in kind.items()}
    stall = middle["stall"]
    best = min((v for k, v in stall.items() if k.startswith("dcp")), default=None)
    print(f"stand still: {stall['torch.save'] / stall['ddprun']:.1f} times less than torch.save + "
          f"fsync (bar: 10)" + (f", {best / stall['ddprun']:.1f} times less than the best "
                                f"dcp.async_save (bar: 1)" if best else ""))
    print(f"load: {middle['load']['ddprun'] / middle['load']['torch.save']:.2f} times torch.load "
          f"(bar: 1.5)")


if __name__ == "__main__":
    main()
