"""What it costs to watch a run: `ddprun status`, and the share of a core of agent and server.

    watching.py build/bin/ddprun build/tests/fake_worker [--runs=20]

In turn: `ddprun status` beside `ddprun --version` (what any start of the program costs) on a running
job; agent and server of one node whose 8 workers tell 100 steps a second each, and of workers that
tell none; the server's agent of 16 nodes with 64 workers each that tell a step a second, with the
page's stream read by one, and without. A share is the CPU time of that one process, of a core.
"""

import http.client
import os
import re
import subprocess
import sys
import tempfile
import threading
import time

from measuring import LIMIT, Table, arguments, clean_environment

from ddprun_runs import children_of, eventually, read_text

TICKS = os.sysconf("SC_CLK_TCK")
TAKES = 8  # Seconds of each share.


def cpu_seconds(pid):
    fields = read_text(f"/proc/{pid}/stat").rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def share(job):
    """Of a core, in percent: of the agent of its first node, which carries the server."""
    pid = job.agent()
    begin, used = time.monotonic(), cpu_seconds(pid)
    try:
        job.nodes[0].wait(TAKES)
    except subprocess.TimeoutExpired:
        return 100 * (cpu_seconds(pid) - used) / (time.monotonic() - begin)
    sys.exit("the job has ended:\n" + read_text(job.log(0)))


class Job:
    def __init__(self, ddprun, nodes, workers, worker, *flags):
        self.scratch = tempfile.TemporaryDirectory(prefix="ddprun_bench_")
        self.ddprun = ddprun
        self.environment = {**clean_environment(), "XDG_RUNTIME_DIR": self.scratch.name}
        self.nodes = []
        port = 29700 + os.getpid() % 200
        for node in range(nodes):
            join = [f"--nnodes={nodes}", f"--node-rank={node}", f"--rdzv-endpoint=127.0.0.1:{port}"] if nodes > 1 else []
            with open(self.log(node), "wb") as log:
                self.nodes.append(subprocess.Popen(
                    [ddprun, "--rdzv-id=bench", f"--nproc-per-node={workers}", *join, *flags, *worker],
                    env=self.environment, cwd=self.scratch.name, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                    stderr=log, start_new_session=True))
        if not eventually(lambda: "RUNNING" in self.ask("status"), LIMIT):
            self.end()
            sys.exit("the job does not run:\n" + read_text(self.log(0)))

    def log(self, node):
        return os.path.join(self.scratch.name, f"log{node}")

    def ask(self, *verb):
        return subprocess.run([self.ddprun, *verb], env=self.environment, capture_output=True, text=True).stdout

    def agent(self):
        return children_of(self.nodes[0].pid)[0]

    def end(self):
        for node in self.nodes:
            if node.poll() is None:
                node.terminate()
        for node in self.nodes:
            node.wait(LIMIT)
        self.scratch.cleanup()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.end()


def read_page(job):
    """Reads the stream of the page until it ends, as a browser does; what it has read."""
    look = re.search(r"look:\s+http://([^/]+)/#key=(\w+)", job.ask("status", "--url"))
    host, port = look[1].rsplit(":", 1)
    connection = http.client.HTTPConnection(host, int(port), timeout=LIMIT)
    connection.request("POST", "/api/session", body=look[2], headers={"X-Ddprun": "1", "Origin": f"http://{look[1]}"})
    answer = connection.getresponse()
    answer.read()
    cookie = answer.getheader("Set-Cookie").split(";")[0]
    connection.request("GET", "/api/events", headers={"Cookie": cookie})
    stream = connection.getresponse()
    if stream.status != 200:
        sys.exit(f"the page's stream: {stream.status}")
    read = [0]

    def go_on():
        try:
            while piece := stream.read1(65536):
                read[0] += len(piece)
        except OSError:
            pass
    threading.Thread(target=go_on, daemon=True).start()
    return read


def main():
    asked = arguments(__doc__, {"stamp": "build/tests/fake_worker"})
    worker = [asked.stamp]
    rounds = max(3, asked.runs // 5)
    table = Table()
    with Job(asked.ddprun, 1, 8, [*worker, "--step-ms=10", "--steps=1000000"]) as job:
        took = {"status": [], "--version": []}
        for _ in range(asked.runs):
            for verb, values in took.items():
                begin = time.monotonic_ns()
                subprocess.run([asked.ddprun, verb], env=job.environment, check=True, stdout=subprocess.DEVNULL)
                values.append((time.monotonic_ns() - begin) / 1e6)
        middle = table.row("ddprun status on a running job (bar 30)", took["status"])
        table.row("ddprun --version", took["--version"])
        missed = middle > 30
    for name, steps in (("8 workers, 100 steps/s each (bar 0.5 %)", ["--step-ms=10", "--steps=1000000"]),
                        ("8 workers that tell nothing", ["--hang"])):
        with Job(asked.ddprun, 1, 8, [*worker, *steps]) as job:
            middle = table.row(f"agent and server: {name}", [share(job) for _ in range(rounds)], "%")
            missed |= "bar" in name and middle > 0.5
    for name, page in (("page open (bar 5 %)", True), ("no page", False)):
        with Job(asked.ddprun, 16, 64, [*worker, "--step-ms=1000", "--steps=1000000"]) as job:
            read = read_page(job) if page else [0]
            middle = table.row(f"server's agent of 1,024 ranks, 1 step/s, {name}",
                               [share(job) for _ in range(rounds)], "%")
            if page:
                print(f"  the stream brought {read[0] / rounds / TAKES / 1024:.0f} KiB/s")
                missed |= middle > 5
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
