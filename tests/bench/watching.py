"""What it costs to watch a run: `ddprun status`, and the share of a core of agent and server.

    watching.py build/bin/ddprun build/tests/fake_worker [--runs=20]

In turn: `ddprun status` beside `ddprun --version` (what any start of the program costs) on a running
job; what telling a STEP takes a worker, with the Python package and by datagrams of its own, in time
and (where there is strace) in system calls; agent and server of one node whose worker, or whose 8
workers, tell 100 steps a second each in either way, and of workers that tell none; the server's agent of 16 nodes with 64 workers each that tell a step a second, with
the page's stream read by one, and without. A share is the CPU time of that one process, of a core.
"""

import http.client
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

from measuring import LIMIT, Table, arguments, clean_environment

from ddprun_runs import children_of, eventually, free_endpoint, read_text

TICKS = os.sysconf("SC_CLK_TCK")
TAKES = 8  # Seconds of each share.
TOLD = 300  # Steps of each look at a worker.
PACKAGE = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "launcher", "python"))
# Two ways to tell, as docs/writing-a-worker.md says them.
DATAGRAMS = """
to = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
to.connect(os.environ["DDPRUN_NOTIFY_SOCKET"])
to.send(b"READY=1")
def tell(step):
    to.send(b"STEP=%d" % step)
"""
STEPS = """
import ddprun
ddprun.ready()
tell = ddprun.step
"""
# 100 steps a second; what telling takes of its own time goes to a file at first.
WORKER = f"""
import os, select, socket, time
exec(os.environ["TELLS"])
step, took, looks = 0, [], 0
while True:
    step += 1
    if looks < int(os.environ["LOOKS"]):
        begin = time.thread_time_ns()
        tell(step)
        took.append(time.thread_time_ns() - begin)
    else:
        tell(step)
    if len(took) == {TOLD}:
        looks += 1
        took.sort()
        open(os.environ["TOOK"], "a").write(f"{{took[len(took) // 2] / 1000}}\\n")
        took = []
    select.select([], [], [], 0.01)
"""


def cpu_seconds(pid):
    fields = read_text(f"/proc/{pid}/stat").rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def share(job):
    """Of a core, in percent: of the agent of its first node, which hosts the server."""
    pid = job.agent()
    begin, used = time.monotonic(), cpu_seconds(pid)
    try:
        job.nodes[0].wait(TAKES)
    except subprocess.TimeoutExpired:
        return 100 * (cpu_seconds(pid) - used) / (time.monotonic() - begin)
    sys.exit("the job has ended:\n" + read_text(job.log(0)))


class Job:
    def __init__(self, ddprun, nodes, workers, worker, *flags, environment=None):
        self.scratch = tempfile.TemporaryDirectory(prefix="ddprun_bench_")
        self.ddprun = ddprun
        self.environment = {**clean_environment(), "XDG_RUNTIME_DIR": self.scratch.name, **(environment or {})}
        self.nodes = []
        endpoint = free_endpoint()
        for node in range(nodes):
            join = [f"--nnodes={nodes}", f"--node-rank={node}", f"--rdzv-endpoint={endpoint}"] if nodes > 1 else []
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

    def agent(self, node=0):
        return children_of(self.nodes[node].pid)[0]

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


def system_calls(pid):
    """Of a worker, for each of its steps, without its sleep; None: strace is not there."""
    if not shutil.which("strace"):
        return None
    traced = subprocess.Popen(["strace", "-c", "-p", str(pid)], stderr=subprocess.PIPE, text=True)
    try:
        traced.wait(4)
    except subprocess.TimeoutExpired:
        traced.send_signal(signal.SIGINT)
    rows = [line.split() for line in traced.communicate()[1].splitlines()]
    calls = {row[-1]: int(row[3]) for row in rows if len(row) >= 5 and row[3].isdigit() and row[-1] != "total"}
    slept = calls.pop("pselect6", 0) or calls.pop("select")
    return sum(calls.values()) / slept


def telling(tells, **more):
    return {"TELLS": tells, "LOOKS": "0", "PYTHONPATH": PACKAGE, **more}


def tell_steps(asked, table, rounds, tells, name, most_us, most_calls):
    """What it takes the worker; whether a bar is missed."""
    with tempfile.NamedTemporaryFile("r") as took:
        with Job(asked.ddprun, 1, 1, [sys.executable, "-c", WORKER],
                 environment=telling(tells, TOOK=took.name, LOOKS=str(rounds))) as job:
            if not eventually(lambda: len(read_text(took.name).split()) >= rounds, LIMIT):
                sys.exit("the worker tells nothing:\n" + read_text(job.log(0)))
            values = [float(value) for value in read_text(took.name).split()[:rounds]]
            middle = table.row(f"a worker tells a STEP {name}", values, "us")
            calls = system_calls(children_of(job.agent())[0])
            if calls is not None:
                table.row(f"system calls of it (bar {most_calls})", [calls], "")
    return middle > most_us or (calls is not None and round(calls, 2) > most_calls)


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
    missed |= tell_steps(asked, table, rounds, STEPS, "with ddprun.step (bar 5)", 5, 0)
    tell_steps(asked, table, rounds, DATAGRAMS, "by a datagram", 5, 1)
    python = [sys.executable, "-c", WORKER]
    for name, workers, program, tells in (
            ("1 worker, 100 steps/s (bar 0.5 %)", 1, python, STEPS),
            ("8 workers, 100 steps/s each (bar 0.5 %)", 8, python, STEPS),
            ("1 worker, 100 datagrams/s", 1, python, DATAGRAMS),
            ("8 workers, 100 datagrams/s each", 8, python, DATAGRAMS),
            ("8 workers that tell nothing", 8, [*worker, "--hang"], "")):
        with Job(asked.ddprun, 1, workers, program, environment=telling(tells)) as job:
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
