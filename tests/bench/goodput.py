"""How much of a run's time goes into steps that count, while workers are killed again and again.

    goodput.py build/bin/ddprun build/bin/ddprun-train [--seconds=150] [--every=10] [--torchrun=PATH]

Goodput is steps kept x time of a step undisturbed / wall time. The step time is that of a run
nobody disturbs, before and after, without its start. A step that was taken again counts once.
With --torchrun the same model, batch and checkpoint interval in Python (goodput_worker.py), under
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

    def workers(self):
        found, todo = [], [self.process.pid]
        while todo:
            pid = todo.pop()
            try:
                with open(f"/proc/{pid}/environ", "rb") as file:
                    variables = file.read().split(b"\0")
            except OSError:
                continue
            if any(v.startswith(b"LOCAL_RANK=") for v in variables):
                found.append(pid)  # Its helpers have the same environment, but come below it.
            else:
                todo += measuring.children_of(pid)
        return found

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


def undisturbed(launcher, program, seconds):
    """Seconds a step takes, from the middle of the run."""
    training = Training(launcher, program)
    training.runs(seconds)
    points = training.stop()
    if len(points) < 10:
        sys.exit(f"{launcher}: hardly a step within {seconds:g} s; give more --quiet-seconds")
    points = points[len(points) // 5:]
    return (points[-1][0] - points[0][0]) / (points[-1][1] - points[0][1])


def disturbed(launcher, program, seconds, every, chance):
    """(steps that count, wall seconds, kills)."""
    begin = time.monotonic()
    training = Training(launcher, program)
    kills = 0
    while time.monotonic() - begin < seconds:
        training.runs(min(every, seconds - (time.monotonic() - begin)))
        workers = training.workers()
        if workers and time.monotonic() - begin < seconds:
            os.kill(chance.choice(workers), signal.SIGKILL)
            kills += 1
    wall = time.monotonic() - begin
    # What was reached last: everything before it is in the parameters, once.
    return training.stop()[-1][1], wall, kills


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("ddprun")
    parser.add_argument("trainer", help="build/bin/ddprun-train")
    parser.add_argument("--seconds", type=float, default=150, help="of each disturbed run (150)")
    parser.add_argument("--every", type=float, default=10, help="seconds between kills (10)")
    parser.add_argument("--quiet-seconds", type=float, default=20, help="of each undisturbed (20)")
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
            before = undisturbed(launcher, program, asked.quiet_seconds)
            steps, wall, kills = disturbed(
                launcher, program, asked.seconds, asked.every, random.Random(seed + run))
            after = undisturbed(launcher, program, asked.quiet_seconds)
            goodput = 100 * steps * (before + after) / 2 / wall
            results[name].append(goodput)
            print(f"{name}: {kills} kills in {wall:.0f} s, {steps} steps kept, a step takes "
                  f"{1e3 * before:.3f} and {1e3 * after:.3f} ms: goodput {goodput:.1f} %",
                  flush=True)
    for name, values in results.items():
        print(f"{name:44} n {len(values)}  min {min(values):.1f} %  "
              f"median {statistics.median(values):.1f} %  max {max(values):.1f} %")


if __name__ == "__main__":
    main()
