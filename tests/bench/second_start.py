"""From a launch to the first step of its last rank, for a program that was run before (--keep-warm).

    second_start.py build/bin/ddprun tests/bench/recovery_worker.py --python=PYTHON [--workers=2] [--runs=10] [--torchrun=PATH]
                    [--flag=--preload=imports]...

The program gets a file as its argument, and notes there `RANK PID NANOSECONDS` at its first step. All are in turn: ddprun
without a flag, with --keep-warm after an earlier run of the same program, and torchrun.
"""

import os
import signal
import subprocess
import sys
import tempfile
import time

from measuring import LIMIT, Table, arguments, clean_environment, eventually, stamped

MORE = {"--python": {"default": sys.executable, "help": "an interpreter with torch"},
        "--workers": {"type": int, "default": 2, "help": "on this node (2)"},
        "--flag": {"action": "append", "default": [], "help": "of the launches that keep and find a preload process"}}


class Bench:
    def __init__(self, asked):
        self.asked, self.scratch = asked, tempfile.mkdtemp(prefix="ddprun_bench_")
        self.environment = {**clean_environment(), "PYTHON_EXEC": asked.python, "XDG_RUNTIME_DIR": self.scratch,
                            **({"PYTHONPATH": os.environ["PYTHONPATH"]} if "PYTHONPATH" in os.environ else {})}
        self.runs = 0

    def first_step(self, command):
        """Milliseconds; the run is ended after that."""
        self.runs += 1
        stamps = os.path.join(self.scratch, f"stamps{self.runs}")
        begin = time.monotonic_ns()
        run = subprocess.Popen([*command, f"--nproc-per-node={self.asked.workers}", self.asked.stamp, stamps, "rest"], cwd=self.scratch,
                               env=self.environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        found = eventually(lambda: stamped(stamps, 0, self.asked.workers), LIMIT)
        if self.runs == 1:  # It loads beside the run, once the workers have loaded torch.
            eventually(lambda: self.says_preload("has loaded"), LIMIT)
        run.send_signal(signal.SIGTERM)
        run.wait(LIMIT)
        if not found:
            sys.exit(f"{command}: no first step within {LIMIT} s")
        return (max(stamp for _, _, stamp in found) - begin) / 1e6

    def says_preload(self, what):
        told = subprocess.run([self.asked.ddprun, "status"], env=self.environment, capture_output=True, text=True, check=False)
        return f"preload: {what}" in told.stdout

    def is_kept(self):
        told = subprocess.run([self.asked.ddprun, "preload"], env=self.environment, capture_output=True, text=True, check=True)
        return told.stdout.startswith("pid ")


def main():
    asked = arguments(__doc__.split("\n", 1)[0], {"stamp": "the program"}, MORE)
    bench = Bench(asked)
    keeping = [asked.ddprun, "--keep-warm=10m", *asked.flag]
    bench.first_step(keeping)
    if not eventually(bench.is_kept, LIMIT):
        sys.exit("nothing was kept")
    sides = {"ddprun": [asked.ddprun], "ddprun --keep-warm, again": keeping}
    if asked.torchrun:
        sides["torchrun"] = [asked.torchrun, "--standalone"]
    took = {name: [] for name in sides}
    for _ in range(asked.runs):
        for name, command in sides.items():
            eventually(lambda: name != "ddprun --keep-warm, again" or bench.is_kept(), LIMIT)
            took[name].append(bench.first_step(command))
    table = Table()
    for name, values in took.items():
        table.row(f"launch to first step, {asked.workers} workers: {name}", values)
    subprocess.run([asked.ddprun, "preload", "--stop"], env=bench.environment, stdout=subprocess.DEVNULL, check=True)


if __name__ == "__main__":
    main()
