"""From `ddprun --pool=...` to the start of the last worker on free daemons, beside as many plain launches at once.

    pool.py build/bin/ddprun build/tests/exec_stamp [--daemons=8] [--runs=20] [--python=PYTHON --script=PROGRAM]

All daemons share this machine's cores. The plain launches are nodes of one run, which meet at the same server; both are
in turn. With --script: a program that was run there before, from the launch to its first step on two daemons; it notes
that as tests/bench/recovery_worker.py does. Then: a killed launch until none of its workers is left, and a daemon that is
killed and started again until it is free in the pool.
"""

import os
import signal
import subprocess
import sys
import tempfile
import time

from measuring import LIMIT, Table, arguments, clean_environment, eventually, free_endpoint, milliseconds, read_text, stamped

MORE = {"--daemons": {"type": int, "default": 8, "help": "on this machine (8)"},
        "--python": {"default": sys.executable, "help": "an interpreter with torch"},
        "--script": {"help": "a program whose second run is measured"}}


class Bench:
    def __init__(self, asked, folder):
        self.ddprun, self.folder, self.endpoint = asked.ddprun, folder, free_endpoint()
        self.environment = {**clean_environment(), "XDG_RUNTIME_DIR": folder, "PYTHON_EXEC": asked.python,
                            "DDPRUN_TOKEN": "of-this-benchmark-alone"}
        self.runs = 0
        self.server = self.start("rendezvous", f"--listen={self.endpoint}")
        self.daemons = [self.start_daemon(i) for i in range(asked.daemons)]
        self.wait_for_free()

    def wait_for_free(self):
        count = f"{len(self.daemons)} free"
        if not eventually(lambda: count in self.ask("status", f"--pool={self.endpoint}"), LIMIT):
            sys.exit(f"not {count}: " + self.ask("status", f"--pool={self.endpoint}"))

    def of_daemon(self, i):
        """Its environment: a machine of its own, as far as preload processes that are kept are concerned."""
        folder = os.path.join(self.folder, f"n{i}")
        os.makedirs(folder, 0o700, exist_ok=True)
        return {**self.environment, "XDG_RUNTIME_DIR": folder}

    def start_daemon(self, i):
        return self.start("daemon", f"--pool={self.endpoint}", f"--name=n{i}", environment=self.of_daemon(i))

    def start(self, *command, environment=None):
        return subprocess.Popen([self.ddprun, *command], env=environment or self.environment, cwd=self.folder, stdin=subprocess.DEVNULL,
                                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def ask(self, *command, environment=None):
        return subprocess.run([self.ddprun, *command], env=environment or self.environment, capture_output=True, text=True, check=False).stdout

    def last_start(self, commands, program, count, settled=lambda: True):
        """Milliseconds from these launches at once to the last of so many stamps, which the program writes to FILE.

        They are ended once it is settled."""
        self.runs += 1
        stamps = os.path.join(self.folder, f"stamps{self.runs}")
        begin = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
        runs = [self.start(*command, *(stamps if word == "FILE" else word for word in program)) for command in commands]
        found = eventually(lambda: stamped(stamps, 0, count), LIMIT)
        eventually(settled, LIMIT)
        for run in runs:
            run.send_signal(signal.SIGTERM)
        for run in runs:
            run.wait(LIMIT)
        if not found:
            sys.exit(f"{commands}: no {count} workers within {LIMIT} s: {read_text(stamps)}")
        return (max(ns for _, _, ns in found) - begin) / 1e6

    def on_pool(self, nodes, program, settled=lambda: True):
        name = f"--rdzv-id=pool{self.runs + 1}"
        return self.last_start([[f"--pool={self.endpoint}", f"--nnodes={nodes}", name]], program, nodes, settled)

    def has_loaded(self):
        return self.ask("status", f"pool{self.runs}", f"--endpoint={self.endpoint}", "-o", "json").count("has loaded") == 2

    def is_kept(self):
        return self.preloads().count("pid ") == 2

    def preloads(self, *flags):
        return "".join(self.ask("preload", *flags, environment=self.of_daemon(i)) for i in range(len(self.daemons)))

    def after_kill(self, nodes, program):
        """Milliseconds from the SIGKILL of a launch to the end of its last worker."""
        self.runs += 1
        stamps = os.path.join(self.folder, f"stamps{self.runs}")
        run = self.start(f"--pool={self.endpoint}", f"--nnodes={nodes}", *program, stamps)
        found = eventually(lambda: stamped(stamps, 0, nodes), LIMIT)
        begin = time.monotonic_ns()
        run.kill()
        run.wait(LIMIT)
        if not found or not eventually(lambda: not any(os.path.exists(f"/proc/{pid}") for _, pid, _ in found), LIMIT):
            sys.exit(f"workers of a killed launch: {found}")
        took = milliseconds(begin)
        self.wait_for_free()
        return took

    def back(self):
        """Milliseconds from the start of a daemon that was killed until it is free."""
        self.daemons[0].kill()
        self.daemons[0].wait(LIMIT)
        begin = time.monotonic_ns()
        self.daemons[0] = self.start_daemon(0)
        self.wait_for_free()
        return milliseconds(begin)

    def plain(self, nodes, program):
        self.runs += 1
        return self.last_start([[f"--nnodes={nodes}", f"--rdzv-endpoint={self.endpoint}", f"--rdzv-id=plain{self.runs}"]] * nodes,
                               program, nodes)

    def close(self):
        for process in (*self.daemons, self.server):
            process.terminate()
            process.wait(LIMIT)


def main():
    asked = arguments(__doc__.splitlines()[0], {"stamp": "build/tests/exec_stamp"}, MORE)
    with tempfile.TemporaryDirectory(prefix="ddprun_bench_") as folder:
        bench = Bench(asked, folder)
        try:
            pairs = [(bench.plain(asked.daemons, [asked.stamp, "FILE"]), bench.on_pool(asked.daemons, [asked.stamp, "FILE"]))
                     for _ in range(asked.runs)]
            killed = [bench.after_kill(asked.daemons, [asked.stamp]) for _ in range(asked.runs)]
            back = [bench.back() for _ in range(asked.runs)]
            seconds = []
            if asked.script:
                # The modules of --preload=auto, but at once: auto waits until no program needs a CPU.
                script = ["--preload=torch,torch._dynamo", os.path.abspath(asked.script), "FILE", "rest"]
                bench.on_pool(2, script, bench.has_loaded)
                for _ in range(asked.runs):
                    eventually(bench.is_kept, LIMIT)
                    seconds.append(bench.on_pool(2, script))
                bench.preloads("--stop")
        finally:
            bench.close()
    table = Table()
    table.row(f"{asked.daemons} plain launches at once, workers run", [plain for plain, _ in pairs])
    table.row(f"ddprun --pool on {asked.daemons} daemons, workers run", [pool for _, pool in pairs])
    table.row("pool by plain, of the same round", [pool / plain for plain, pool in pairs], "(bar: 1.2)")
    table.row("launch killed, no worker is left", killed, "ms (bar: 2000)")
    table.row("daemon killed and started again, free", back, "ms (bar: 1000)")
    if seconds:
        table.row("ddprun --pool, a script's second run, first step", seconds, "ms (bar: 500)")


if __name__ == "__main__":
    main()
