"""How soon training goes on after a host of a Slurm step is off, and when Slurm itself notices.

    node_off.py build/bin/ddprun build/bin/ddprun-train [--runs=3] [--slurmd-timeout=10]

A real Slurm on hosts of its own (needs root): three hosts, of which two train and one is a spare,
under --no-kill. One of the two is switched off; from that moment to the end of the next step that
all ranks have taken, and to Slurm's own "Node failure".
"""

import os
import subprocess
import sys
import tempfile
import time

from measuring import LIMIT, Table, arguments, clean_environment, milliseconds

from ddprun_runs import eventually, read_text

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "slurm"))

from hosts import HostCluster, why_not  # noqa: E402

LEASE = 3.0
TRAINING = ["--epochs=1000", "--limit-train=20000", "--batch=32", "--threads=1",
            "--checkpoint-every=200", "--checkpoint-dir=ckpt", "--sample-log=samples"]


class Step:
    def __init__(self, cluster, ddprun, train):
        self.scratch = tempfile.TemporaryDirectory(prefix="ddprun_bench_")
        self.samples = os.path.join(self.scratch.name, "samples")
        self.log = os.path.join(self.scratch.name, "log")
        words = cluster.command(
            self.scratch.name, "srun", "-N3", "--ntasks-per-node=1", "--no-kill",
            "--kill-on-bad-exit=0", ddprun, "--nnodes=2:2", train, *TRAINING)
        environment = {**clean_environment(), "XDG_RUNTIME_DIR": self.scratch.name,
                       "SLURM_CONF": cluster.conf}
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(words, env=environment, stdin=subprocess.DEVNULL,
                                            stdout=log, stderr=log, start_new_session=True)

    def wait(self, condition, what):
        found = eventually(condition, LIMIT)
        if not found:
            sys.exit(f"no {what} within {LIMIT} s\n" + read_text(self.log))
        return found

    def steps(self, generation):
        """That all ranks of it have taken."""
        logs = [os.path.join(self.samples, f"generation-{generation}.rank-{rank}.jsonl")
                for rank in (0, 1)]
        return min(read_text(log).count("\n") for log in logs)

    def in_world(self):
        """The hosts that train first."""
        text = read_text(self.log)
        return [node for node in ("n01", "n02", "n03")
                if f"ddprun {node} | started generation 1:" in text]

    def end(self):
        self.process.kill()
        self.process.wait()
        self.scratch.cleanup()


def node_off(cluster, asked):
    """Milliseconds to the next step, and to Slurm's own notice."""
    step = Step(cluster, asked.ddprun, asked.stamp)
    step.wait(lambda: step.steps(1) > 300 and len(step.in_world()) == 2, "training")
    victim = next(node for node in step.in_world() if node != "n01")
    begin = time.monotonic_ns()
    cluster.off(victim)
    step.wait(lambda: step.steps(2) > 0, "step of the next world")
    trains = milliseconds(begin)
    step.wait(lambda: f"Node failure on {victim}" in read_text(step.log), "notice of Slurm")
    notices = milliseconds(begin)
    cluster.restore()
    step.end()
    return trains, notices


def main():
    asked = arguments(__doc__.splitlines()[0], {"stamp": "build/bin/ddprun-train"},
                      {"--slurmd-timeout": {"type": int, "default": 10,
                                            "help": "seconds, SlurmdTimeout (10; Slurm's own is 300)"}})
    if why_not():
        sys.exit(why_not())
    cluster = HostCluster(3, asked.slurmd_timeout).up()
    try:
        found = [node_off(cluster, asked) for _ in range(asked.runs)]
    finally:
        cluster.down()
    table = Table()
    table.row(f"node off to the next step (bar {LEASE + 2:.0f} s)", [trains for trains, _ in found])
    table.row(f"node off to Slurm's notice (SlurmdTimeout={asked.slurmd_timeout})",
              [notices for _, notices in found])


if __name__ == "__main__":
    begin = time.monotonic_ns()
    main()
    print(f"whole benchmark {milliseconds(begin) / 1e3:.0f} s")
