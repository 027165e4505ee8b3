#!/usr/bin/env python3
"""Samples per second and time to the first step: ddprun-train beside Python scripts.

    python3 tests/bench/train.py build/bin --python=VENV/bin/python3

VENV: with the torch that ddprun-train was built with (scripts/setup.sh --torch). The peers are
train_peer.py's styles, torch.compile among them, and for the mlp library_mlp, the same on the trainer's library. All
run under the same launcher, with the same batch, number of samples and seed, one thread per rank (styles with -2 have
two), save nothing meanwhile, and are measured in turn, so that what else the machine does hits all of them. Ratios are taken within a round; the bound is the lower end of a
one-sided 95% interval of their geometric mean. Two nodes are two agents of this machine that know
each other by address alone, so their ranks talk through Gloo over TCP.

--packages=mlp,charlm measures validations instead, by the program's own forward and by a package of
AOTInductor: the processor time of steps of one rank with a validation after each, less that
of the same steps without.
"""

import argparse
import functools
import json
import math
import os
import resource
import statistics
import subprocess
import tempfile

from measuring import clean_environment, together

HERE = os.path.dirname(os.path.abspath(__file__))
LIMIT = 300
# Of Student's distribution, one-sided 95%, by rounds less one; beyond: close enough.
STUDENT = {9: 1.833, 10: 1.812, 11: 1.796, 12: 1.782, 13: 1.771, 14: 1.761, 19: 1.729}
ROWS = [  # Model, nodes, workers of each, batch of each worker, samples.
    ("mlp", 1, 1, 64, 60_000),
    ("mlp", 1, 2, 64, 60_000),
    ("mlp", 1, 2, 8, 16_000),
    ("mlp", 2, 1, 64, 60_000),
    ("vgg11", 1, 1, 16, 480),
    ("vgg11", 1, 2, 16, 960),
    ("vgg11", 2, 1, 16, 960),
    ("transformer", 1, 1, 8, 176),
    ("transformer", 1, 2, 8, 352),
    ("transformer", 2, 1, 8, 352),
]
DATA = {"mlp": ["--dataset=mnist"], "transformer": ["--dataset=seq2seq"],
        "vgg11": ["--dataset=synthetic", "--data-arg=test=100"]}


class Bench:
    def __init__(self, asked, scratch):
        self.bin, self.python, self.scratch = os.path.abspath(asked.bin), asked.python, scratch
        self.data = os.path.join(self.bin, "../share/ddprun/mnist")
        self.flags = asked.flags.split()

    def run(self, nodes, workers, command):
        launch = [os.path.join(self.bin, "ddprun"), f"--nproc-per-node={workers}"] if nodes * workers > 1 else []
        return together(launch, nodes, command, self.scratch, clean_environment(), LIMIT)

    def ours(self, model, nodes, workers, batch, samples):
        return self.trained([os.path.join(self.bin, "ddprun-train"), f"--model={model}", *DATA[model], f"--limit-train={samples}"],
                            nodes, workers, batch)

    def library(self, model, nodes, workers, batch, samples):
        return self.trained([os.path.join(self.bin, "../tests/library_mlp"), f"--data={self.data}", f"--samples={samples}"],
                            nodes, workers, batch)

    def trained(self, program, nodes, workers, batch):
        """Seconds to the tenth step, samples per second after it."""
        with tempfile.TemporaryDirectory(dir=self.scratch) as folder:
            metrics = os.path.join(folder, "metrics.jsonl")
            begin, _ = self.run(nodes, workers, [
                *program, "--epochs=1", f"--batch={batch}", "--checkpoint-every=1000000000",
                f"--checkpoint-dir={folder}/checkpoints", f"--metrics={metrics}", *self.flags])
            with open(metrics) as file:
                points = [json.loads(line) for line in file]
        first, last = points[0], points[-1]
        # A last batch that is not full counts as one for the peers too.
        rate = (last["step"] - first["step"]) * batch * nodes * workers / (last["t"] - first["t"])
        return first["t"] - begin, rate

    def peer(self, style, model, nodes, workers, batch, samples):
        begin, out = self.run(nodes, workers, [self.python, os.path.join(HERE, "train_peer.py"), style, model,
                                        self.data, str(batch), str(samples)])
        first, rate = map(float, out.split()[-2:])
        return first - begin, rate


def print_ratio(name, ratios):
    logs = [math.log(ratio) for ratio in ratios]
    count = len(logs)
    spread = statistics.stdev(logs) / math.sqrt(count) if count > 1 else math.inf
    middle = statistics.mean(logs)
    bound = math.exp(middle - STUDENT.get(count - 1, 1.833) * spread)
    print(f"  {name:40} {math.exp(middle):6.2f}x   at least {bound:5.2f}x   "
          f"{min(ratios):.2f} to {max(ratios):.2f}", flush=True)


def print_values(name, values, unit):
    print(f"  {name:40} {statistics.median(values):10.5g} {unit}   "
          f"{min(values):.5g} to {max(values):.5g}", flush=True)


def measure(bench, rounds, model, nodes, workers, batch, samples):
    row = (model, nodes, workers, batch, samples)
    styles = ["tuned", "dataloader", "compiled"]
    if nodes * workers == 1:
        styles += ["tuned-2", "compiled-2"]  # On both cores.
    print(f"{model}, batch {batch}, {nodes} node(s) of {workers} worker(s), {rounds} rounds:", flush=True)
    ways = {"ddprun-train": bench.ours, **({"library": bench.library} if model == "mlp" else {}),
            **{style: functools.partial(bench.peer, style) for style in styles}}
    results = {name: [] for name in ways}
    for _ in range(rounds):
        for name, way in ways.items():
            results[name].append(way(*row))
    for name, values in results.items():
        print_values(name, [rate for _, rate in values], "samples/s")
    ours = results["ddprun-train"]
    for style in styles:
        print_ratio(f"samples/s against {style}",
                    [mine[1] / theirs[1] for mine, theirs in zip(ours, results[style])])
    if model != "mlp":
        return
    print_ratio("samples/s of the library against ours",
                [theirs[1] / mine[1] for mine, theirs in zip(ours, results["library"])])
    # Ours are taken at the tenth step, which is next to nothing for the mlp alone.
    for name, values in results.items():
        print_values(f"exec to first step: {name}", [first for first, _ in values], "s")
    print_ratio("exec to first step against tuned",
                [theirs[0] / mine[0] for mine, theirs in zip(ours, results["tuned"])])


def measure_packages(bench, rounds, models):
    text = os.path.join(bench.scratch, "text")
    with open(statistics.__file__, "rb") as source, open(text, "wb") as out:
        out.write(source.read(40_000))
    programs = {"mlp": (64, [os.path.join(bench.bin, "ddprun-train"), "--limit-train=25600"]),
                "charlm": (16, [os.path.join(bench.bin, "../examples/charlm"), "--data=" + text])}
    for model in models:
        batch, program = programs[model]
        package = os.path.join(bench.scratch, model + ".pt2")
        subprocess.run([bench.python, os.path.join(HERE, "../torch/export_package.py"), model, package],
                       env=dict(clean_environment(), TORCHINDUCTOR_CACHE_DIR=bench.scratch + "/inductor"), check=True)
        print(f"evaluation of {model}, {rounds} rounds:", flush=True)
        ways = {"": [], "own forward": ["--validate-every=1"], "package": ["--validate-every=1", "--eval-package=" + package]}
        results = {name: [] for name in ways}
        for _ in range(rounds):
            for name, flags in ways.items():
                before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
                bench.trained([*program, *flags], 1, 1, batch)
                results[name].append(resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before)
        without = results.pop("")
        taken = {name: [used - bare for used, bare in zip(values, without)] for name, values in results.items()}
        for name, values in taken.items():
            print_values("validations by the " + name, values, "s")
        print_ratio("speed of the package against own", [own / theirs for own, theirs in zip(*taken.values())])


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bin", help="where ddprun and ddprun-train are")
    parser.add_argument("--python", required=True, help="an interpreter with torch")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--models", default="mlp,vgg11,transformer")
    parser.add_argument("--flags", default="", help="more of ddprun-train's, as --backend=gloo")
    parser.add_argument("--packages", default="", help="evaluation by packages instead: mlp,charlm")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="ddprun_bench_") as scratch:
        bench = Bench(asked, scratch)
        if asked.packages:
            measure_packages(bench, asked.rounds, asked.packages.split(","))
            return
        for row in (row for row in ROWS if row[0] in asked.models.split(",")):
            measure(bench, asked.rounds, *row)


if __name__ == "__main__":
    main()
