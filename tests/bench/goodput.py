"""How much of a run's time goes into steps that count, while workers are killed again and again.

    goodput.py build/bin/ddprun build/bin/ddprun-train [--seconds=150] [--every=10] [--runs=1]
               [--torchrun=PATH]

Goodput is steps kept x time of a step undisturbed / wall time. A machine's speed drifts by more
than a kill costs, so each stretch between two kills has its own step time: the mean of those
that it took, its first second left out. A step that was taken again counts once. In turn
with each run there is one that nobody disturbs, cut up at the same moments: what that one differs
from 100 % by is the method's error, and the difference of the two is what kills cost. With
--torchrun the same model, batch and checkpoint interval in Python (goodput_worker.py), under
torchrun and under ddprun, with the same kills.
"""

import argparse
import json
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time

import measuring

HERE = os.path.dirname(os.path.abspath(__file__))
LAUNCH = ["--nproc-per-node=2", "--max-restarts=1000"]


def points_of(path):
    """(time, step) as the training noted them, torn last line left out."""
    points = []
    for line in measuring.read_text(path).splitlines():
        try:
            entry = json.loads(line)
            points.append((entry["t"], entry["step"]))
        except ValueError:
            pass
    return points


class Training:
    """One run in a directory of its own, stopped from outside."""

    def __init__(self, launcher, program):
        self.scratch = tempfile.TemporaryDirectory(prefix="ddprun_goodput_")
        self.metrics = os.path.join(self.scratch.name, "metrics.jsonl")
        self.log = open(os.path.join(self.scratch.name, "log"), "w+")
        environment = measuring.clean_environment()
        environment["TORCH_DISABLE_SHARE_RDZV_TCP_STORE"] = "1"  # Else torchrun's restarts hang.
        self.process = subprocess.Popen(
            [*launcher, *LAUNCH, *program, "--checkpoint-dir=ckpt", "--metrics=" + self.metrics],
            cwd=self.scratch.name, env=environment, stdin=subprocess.DEVNULL, stdout=self.log,
            stderr=self.log)

    def runs(self, seconds):
        """Lets it run that long; it must not end."""
        try:
            self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            return
        self.log.seek(0)
        sys.exit(f"ended with {self.process.returncode}:\n" + self.log.read()[-4000:])

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        points = points_of(self.metrics)
        self.log.close()
        self.scratch.cleanup()
        return points


def course(launcher, program, seconds, every, chance):
    """(points, moments): every `every` seconds a moment, and with `chance` a worker dies at it."""
    training = Training(launcher, program)
    if not measuring.eventually(lambda: points_of(training.metrics), measuring.LIMIT):
        sys.exit(f"{launcher}: no step within {measuring.LIMIT} s")
    moments = []
    while len(moments) <= seconds / every:
        training.runs(every)
        moments.append(time.time())
        if chance:
            os.kill(chance.choice(measuring.workers_below(training.process.pid)), signal.SIGKILL)
    training.runs(every / 2)  # What the last stretch is followed by.
    points = training.stop()
    return points, moments


def step_time(points):
    """The mean; None: too little was noted."""
    if len(points) < 5 or points[-1][1] <= points[0][1]:
        return None
    return (points[-1][0] - points[0][0]) / (points[-1][1] - points[0][1])


def goodput(points, moments):
    """In percent, from the first moment to the last. What a stretch keeps is what the next one goes
    on from."""
    stretches = [[p for p in points if begin < p[0] <= end]
                 for begin, end in zip(moments, moments[1:])]
    useful, wall = 0, 0
    for own, begin, end in zip(stretches, moments, moments[1:]):
        after = [p for p in points if p[0] > end]
        took = step_time([p for p in own if p[0] > begin + 1])
        if not own or not after or took is None:
            sys.exit(f"hardly a step within {end - begin:.0f} s; give more to --every")
        (began, first), (goes_on, next_first) = own[0], after[0]
        useful += (next_first - first) * took
        wall += goes_on - began  # From a stretch's first note to the next one's: recovery included.
    return 100 * useful / wall


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("ddprun")
    parser.add_argument("trainer", help="build/bin/ddprun-train")
    parser.add_argument("--seconds", type=float, default=150, help="of each run (150)")
    parser.add_argument("--every", type=float, default=10, help="seconds between kills (10)")
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--torchrun")
    asked = parser.parse_args()
    ddprun, trainer = os.path.abspath(asked.ddprun), os.path.abspath(asked.trainer)
    # Learning so little that 150 s do not learn the data set by heart: the gradients of a model
    # that has are subnormal numbers, and its steps take 30 % longer at the end than at the start.
    common = ["--epochs=100000", "--checkpoint-every=200", "--lr=1e-6"]
    cases = {"ddprun, ddprun-train": (
        [ddprun], [trainer, *common, "--progress-every=0.2"])}
    if asked.torchrun:
        data = os.path.join(os.path.dirname(os.path.dirname(ddprun)), "share", "ddprun", "mnist")
        script = [os.path.join(HERE, "goodput_worker.py"), *common, "--data=" + data]
        python = os.path.join(os.path.dirname(os.path.abspath(asked.torchrun)), "python")
        cases["torchrun --monitor-interval=0.01, Python"] = (
            [os.path.abspath(asked.torchrun), "--monitor-interval=0.01"], script)
        cases["ddprun, Python"] = (["env", "PYTHON_EXEC=" + python, ddprun], script)
    seed = random.randrange(1 << 32)
    print(f"seed {seed}; a random worker of 2 killed every {asked.every:g} s")
    results = {name: [] for name in cases}
    for run in range(asked.runs):
        for name, (launcher, program) in cases.items():
            calm = goodput(*course(launcher, program, asked.seconds, asked.every, None))
            points, moments = course(launcher, program, asked.seconds, asked.every,
                                     random.Random(seed + run))
            killed = goodput(points, moments)
            results[name].append((calm, killed))
            print(f"{name}: {len(moments)} kills in {moments[-1] - moments[0]:.0f} s: goodput "
                  f"{killed:.2f} %, of a run without kills {calm:.2f} %", flush=True)
    for name, values in results.items():
        error = max(abs(100 - calm) for calm, _ in values)
        costs = statistics.median(calm - killed for calm, killed in values)
        shown = f"a kill costs {costs * asked.every * 10:.0f} ms" if abs(costs) > error else "not shown"
        print(f"{name:44} n {len(values)}  median goodput "
              f"{statistics.median(killed for _, killed in values):.2f} %, "
              f"what kills cost {costs:.2f} %, the method's error {error:.2f} %: {shown}")


if __name__ == "__main__":
    main()
