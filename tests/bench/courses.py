#!/usr/bin/env python3
"""The tables that courses ask for, measured on this machine.

    python3 tests/bench/courses.py build/bin [--only=layouts,transformer,data] [--rounds=3]

layouts: the MLP on MNIST, 5 epochs, as 1x1, 1x2 and 2x1 (nodes x workers; 2x1 is two agents of this
machine that know each other by address alone). transformer: the default nn.Transformer over 1, 2 and
4 workers, learning rate times the world size. data: 512 sequences (22 MB) made up on the way, from an
HDF5 file and from memory, for a Transformer of one layer. Rows are run in turn, so that what else the
machine does hits all of them; medians are printed, as a Markdown table.
"""

import argparse
import json
import os
import statistics
import subprocess
import tempfile
import time

from measuring import clean_environment, together

LIMIT = 600
LAYOUTS = [(1, 1), (1, 2), (2, 1)]  # Nodes, workers of each.
WORKERS = [1, 2, 4]


class Bench:
    def __init__(self, asked, scratch):
        self.bin, self.scratch = os.path.abspath(asked.bin), scratch
        self.rounds, self.samples = asked.rounds, asked.samples
        self.environment = clean_environment()
        del self.environment["OMP_NUM_THREADS"]

    def train(self, nodes, workers, arguments):
        """Seconds from start to end, rank 0's result, and its progress as metrics.jsonl has it."""
        with tempfile.TemporaryDirectory(dir=self.scratch) as folder:
            launch = [os.path.join(self.bin, "ddprun"), f"--nproc-per-node={workers}"]
            train = [os.path.join(self.bin, "ddprun-train"), f"--checkpoint-dir={folder}/checkpoints",
                     f"--metrics={folder}/metrics", f"--result={folder}/result", *arguments]
            begin, _ = together(launch, nodes, train, folder, self.environment, LIMIT)
            seconds = time.time() - begin
            with open(f"{folder}/result") as file:
                result = json.load(file)
            with open(f"{folder}/metrics") as file:
                points = [json.loads(line) for line in file]
        return seconds, result, points


def training_seconds(points, result):
    """Of all steps, the first included: each report tells the rate since the one before."""
    before, seconds = 0, 0
    for point in points:
        steps = point["step"] - before
        seconds += steps * result["global_batch"] / point["samples_per_s"]
        before = point["step"]
    return seconds


def layouts(bench):
    seen = {layout: [] for layout in LAYOUTS}
    for _ in range(bench.rounds):
        for layout in LAYOUTS:
            seconds, result, points = bench.train(*layout, ["--epochs=5"])
            seen[layout].append((seconds, training_seconds(points, result),
                                 result["metrics"]["test_accuracy"]))
    print("| nodes x workers | start to end | of that, 5 epochs of training | samples/s | test accuracy |")
    print("|---|---|---|---|---|")
    for (nodes, workers), values in seen.items():
        wall, training, accuracy = (statistics.median(v) for v in zip(*values))
        print(f"| {nodes}x{workers} | {wall:.1f} s | {training:.1f} s | {300_000 / training:,.0f} "
              f"| {100 * accuracy:.2f} % |", flush=True)


def transformer(bench):
    arguments = ["--model=transformer", "--scale-lr", "--epochs=1", "--progress-every=0",
                 f"--data-arg=train={bench.samples},test=8"]
    seen = {workers: [] for workers in WORKERS}
    for _ in range(bench.rounds):
        for workers in WORKERS:
            _, result, points = bench.train(1, workers, arguments)
            seen[workers].append((training_seconds(points, result), points[-1]["lr"],
                                  result["steps"], result["metrics"]["test_loss"],
                                  points[-1]["mem"] / 1e9))
    print("| workers | global batch | learning rate | steps | one step | samples/s | test loss | memory of rank 0 |")
    print("|---|---|---|---|---|---|---|---|")
    for workers, values in seen.items():
        seconds, lr, steps, loss, memory = (statistics.median(v) for v in zip(*values))
        print(f"| {workers} | {32 * workers} | {lr:g} | {steps} | {seconds / steps:.2f} s "
              f"| {bench.samples / seconds:.1f} | {loss:.3f} | {memory:.2f} GB |", flush=True)


def batch_milliseconds(trace):
    """Of the range `data`: what a step waits for its samples."""
    with open(trace) as file:
        events = json.load(file)["traceEvents"]
    return [e["dur"] / 1e3 for e in events if e["name"] == "data" and e["cat"] == "range"]


def data(bench):
    root = os.path.join(bench.scratch, "hdf5")
    os.makedirs(root)
    subprocess.run([os.path.join(bench.bin, "../tests/write_hdf5"), f"{root}/seq2seq.h5",
                    "train=512,test=32"], check=True)
    file = ["--dataset=hdf5", f"--data-root={root}"]
    rows = {"made up (`seq2seq`)": ["--dataset=seq2seq", "--data-arg=train=512,test=32"],
            "from the file": file,
            "from memory (`memory=1`)": [*file, "--data-arg=memory=1"]}
    small = ["--model=transformer", "--model-arg=heads=1,layers=1,ff=16", "--epochs=1",
             "--checkpoint-every=100000", "--profile-schedule=2,1,12"]
    print("| data | `--prefetch` | a step waits for its 32 samples, median | most |")
    print("|---|---|---|---|")
    for prefetch in ("off", "on"):
        seen = {name: [] for name in rows}
        for _ in range(bench.rounds):
            for name, arguments in rows.items():
                with tempfile.TemporaryDirectory(dir=bench.scratch) as traces:
                    bench.train(1, 1, [*small, *arguments, f"--profile={traces}",
                                       f"--prefetch={prefetch}"])
                    (trace,) = os.listdir(traces)
                    seen[name] += batch_milliseconds(os.path.join(traces, trace))
        for name, values in seen.items():
            print(f"| {name} | {prefetch} | {statistics.median(values):.2f} ms "
                  f"| {max(values):.2f} ms |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bin", help="where ddprun and ddprun-train are")
    parser.add_argument("--only", default="layouts,transformer,data")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--samples", type=int, default=128, help="of the transformer's epoch (128)")
    asked = parser.parse_args()
    tables = {"layouts": layouts, "transformer": transformer, "data": data}
    with tempfile.TemporaryDirectory(prefix="ddprun_bench_") as scratch:
        for name in asked.only.split(","):
            tables[name](Bench(asked, scratch))


if __name__ == "__main__":
    main()
