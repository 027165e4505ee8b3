"""Starts the real ddprun, finds the processes of a test, and waits for conditions.

Every process of a test carries DDPRUN_TEST_MARK, in any session; a process that is left at the
end of a test is a failure of the test, and killed. Nothing sleeps for a fixed time: `eventually`
is the one wait, bounded. Every test has its own loopback address, so no port can be taken by
others.
"""

import atexit
import http.client
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import unittest
import uuid

DDPRUN = os.environ.get("DDPRUN", "")
FAKE_WORKER = os.environ.get("DDPRUN_FAKE_WORKER", "")
TRAIN = os.environ.get("DDPRUN_TRAIN", "")
HOLD_CALLS = os.environ.get("DDPRUN_HOLD_CALLS", "")
LIMIT = 30  # Seconds; a wait that needs them all is a failure.
RENEWALS = 5  # An idle node reports every third of a lease.
# A node lost through no fault of its own, where the whole machine stood still.
LATE = "is lost: its connection closed and it did not come back within 200 ms"

# Variables that a launcher above the test, or its shell, may have set.
FOREIGN = re.compile(
    r"(DDPRUN|PET|TORCHELASTIC|SLURM|PMI|OMPI|MASTER|ROLE|GROUP|LOCAL)_\w*|\w*RANK|\w*WORLD_SIZE"
)


def lease(name):
    """Seconds of one of lease.h: kBaseLease, or kLongLease of a run's first minute."""
    header = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../rendezvous/messages/lease.h")
    return int(re.search(name + r"\{([\d']+)\}", read_text(header))[1].replace("'", "")) / 1000


def eventually(condition, limit=LIMIT):
    """The value of `condition` once it is true; its last answer when the limit has passed."""
    start = time.monotonic()
    while True:
        asked = time.monotonic()
        found = condition()
        now = time.monotonic()
        if found or now > start + limit:
            return found
        # A loop that looks all the time takes the machine from the processes that it looks at.
        time.sleep(min(0.1, max(0.002, 2 * (now - asked), (now - start) / 100)))


def read_text(path):
    try:
        with open(path, errors="replace") as file:
            return file.read()
    except FileNotFoundError:
        return ""


def page_data(path):
    """The text of a run's report.html, and the page around it."""
    before, data, after = re.split(r'(?<=<script type="application/json">)(.*?)(?=</script>)', read_text(path), 1, re.S)
    return json.loads(data), lambda shown: before + json.dumps(shown).replace("<", "\\u003c") + after


def run_in_report(path):
    return page_data(path)[0]["state"]["run"]


def read_bytes(path):
    """Of a file in /proc; b"" for a process that has ended."""
    try:
        with open(path, "rb") as file:
            return file.read()
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return b""


def command_of(pid):
    return read_bytes(f"/proc/{pid}/cmdline").replace(b"\0", b" ").decode(errors="replace").strip()


def children_of(pid):
    """Of all of its threads: workers are children of the one that started them."""
    try:
        tasks = os.listdir(f"/proc/{pid}/task")
    except FileNotFoundError:
        return []
    return [int(child) for task in tasks
            for child in read_bytes(f"/proc/{pid}/task/{task}/children").split()]


def workers_below(pid):
    """Those that a launcher started. Their helpers have the same environment, but come below them."""
    found, todo = [], [pid]
    while todo:
        one = todo.pop()
        if one != pid and b"\0LOCAL_RANK=" in b"\0" + read_bytes(f"/proc/{one}/environ"):
            found.append(one)
        else:
            todo += children_of(one)
    return found


def held_calls(what, fifo):
    """The environment of a process that waits in this call as long as the FIFO is there and not opened by
    another process."""
    return {"LD_PRELOAD": HOLD_CALLS, "ASAN_OPTIONS": "verify_asan_link_order=0",
            "DDPRUN_HOLD": what, "DDPRUN_HOLD_FIFO": fifo}


def free_endpoint():
    """A free port on a loopback address that no other test uses, so no process takes it
    meanwhile."""
    digits = uuid.uuid4().bytes
    host = f"127.{digits[0] % 250 + 2}.{digits[1]}.{digits[2] % 250 + 2}"
    with socket.socket() as probe:
        probe.bind((host, 0))
        return f"{host}:{probe.getsockname()[1]}"


def kill_all(pids):
    """Those that are still there, in this order."""
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass


class Mark:
    """An assignment in the environment by which all processes of a test are found."""

    def __init__(self):
        self.value = uuid.uuid4().hex
        self.assignment = f"DDPRUN_TEST_MARK={self.value}".encode()

    def living(self, part=""):
        """Pids, zombies not counted: they have no environment."""
        return [
            int(name) for name in os.listdir("/proc")
            if name.isdigit()
            and self.assignment in read_bytes(f"/proc/{name}/environ").split(b"\0")
            and part in command_of(name)
        ]

    def kill(self):
        kill_all(self.living())


class Run:
    """One ddprun: the guard is its process, the agent the guard's only child."""

    def __init__(self, arguments, environment, directory, name, executable, stdout=None, stderr=None):
        self.paths = {s: os.path.join(directory, f"{name}.{s}") for s in ("out", "err")}
        with open(self.paths["out"], "wb") as out, open(self.paths["err"], "wb") as err:
            # Its own session: a test's signals to it reach no other process.
            self.process = subprocess.Popen(
                [executable, *arguments], env=environment, cwd=directory, start_new_session=True,
                stdin=subprocess.DEVNULL, stdout=out if stdout is None else stdout,
                stderr=err if stderr is None else stderr,
            )

    def out(self):
        return read_text(self.paths["out"])

    def err(self):
        return read_text(self.paths["err"])

    def all(self):
        return f"--- out of {self.process.args}\n{self.out()}--- err\n{self.err()}"

    def agent(self):
        found = eventually(lambda: next(iter(children_of(self.process.pid)), 0))
        assert found, f"no agent\n{self.all()}"  # kill(0, ...) would hit the tests themselves.
        return found

    def signal(self, number):
        self.process.send_signal(number)

    def wait(self, limit=LIMIT):
        """The exit code as a shell shows it."""
        try:
            code = self.process.wait(limit)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"still running after {limit} s\n{self.all()}") from None
        return 128 - code if code < 0 else code

    def workers(self, generation=None):
        """rank -> pid of those who said "worker RANK GENERATION PID", newest generation or given."""
        found = [tuple(map(int, w)) for w in re.findall(r"worker (\d+) (\d+) (\d+)\n", self.out())]
        if generation is None:
            generation = max((g for _, g, _ in found), default=0)
        return {rank: pid for rank, g, pid in found if g == generation}

    def kill_at_once(self, *others):
        """Guard and agent in the same moment, as when the machine dies; before them `others`."""
        agent = self.agent()
        self.signal(signal.SIGSTOP)  # A guard that outlived its agent would tidy up.
        kill_all((*others, agent, self.process.pid))
        self.process.wait()

    def generations(self):
        return sorted({int(g) for g in re.findall(r"worker \d+ (\d+) \d+\n", self.out())})


# The first line of a fake worker, so that Run.workers finds it.
HELLO = "--print=worker %r %g %p"


class DdprunTest(unittest.TestCase):
    longMessage = True
    maxDiff = None

    def setUp(self):
        self.mark = Mark()
        self.directory = tempfile.mkdtemp(prefix="ddprun_test_")
        self.addCleanup(shutil.rmtree, self.directory, ignore_errors=True)
        self.addCleanup(self._nothing_is_left)
        atexit.register(self.mark.kill)  # An interrupted test leaves nothing either.
        self.started = 0
        self.run_directory_stays = False  # True: its agent was killed and could not remove it.
        for name in ("run", "tmp"):
            os.mkdir(self.path(name), 0o700)
        self.environment = {k: v for k, v in os.environ.items() if not FOREIGN.fullmatch(k)}
        self.environment.update(
            DDPRUN_TEST_MARK=self.mark.value, XDG_RUNTIME_DIR=self.path("run"), TMPDIR=self.path("tmp"),
            OMP_NUM_THREADS="1",  # Else ddprun says what it makes it.
            DDPRUN_RESTART_BACKOFF="0",  # A test that fails workers on purpose does not wait for its restarts.
        )
        self.run_id = "test-" + self.mark.value[:12]
        self.endpoint = free_endpoint()  # Where the test's nodes meet.
        self.go = self.path("go")  # Its workers wait for it.

    def _nothing_is_left(self):
        # A test that failed may have left its runs going; its own message is the one to read.
        eventually(lambda: not self.mark.living(), 10)
        left = self.mark.living()
        if left:
            told = [f"{pid} {command_of(pid)}" for pid in left]
            self.mark.kill()
            self.fail(f"processes outlive the test: {told}")
        if not self.run_directory_stays:
            self.assertEqual(os.listdir(self.path("tmp")), [], "left in TMPDIR")

    def path(self, *names):
        return os.path.join(self.directory, *names)

    def start(self, *arguments, environment=None, executable=DDPRUN, machine=None, out=None, err=None):
        """`machine`: another one, as (network, number). `out`, `err`: descriptors in place of the files that Run reads."""
        self.started += 1
        if machine:
            executable, *arguments = machine[0].on_machine(machine[1], [executable, *arguments])
        run = Run(list(arguments), {**self.environment, **(environment or {})}, self.directory,
                  f"run{self.started}", executable, out, err)
        self.addCleanup(self._end, run)
        return run

    def _end(self, run):
        if run.process.poll() is None:
            self.mark.kill()
            run.process.wait()

    def pause(self, seconds):
        """As long as another run takes: nothing else can be waited for where nothing may happen."""
        self.ask(FAKE_WORKER, f"--sleep-ms={1000 * seconds:.0f}")

    def fails_once(self):
        """A worker that fails once `self.go` is there, in the first generation; the next one hangs."""
        return [FAKE_WORKER, HELLO, "--on-restart=0", f"--wait-file={self.go}", "--exit=1", "--always", "--hang"]

    def replace_a_worker(self, run):
        """Of a run of fails_once: another one takes its place."""
        [first] = self.wait_for_workers(run, 1).values()
        generation = run.generations()[-1]
        open(self.go, "w").close()
        newer = self.wait_for(lambda: [g for g in run.generations() if g > generation], run,
                              what="a generation after the failure")
        [second] = self.wait_for_workers(run, 1, newer[0]).values()
        self.assertNotEqual(first, second)

    def all_end(self, runs, code=0, limit=LIMIT):
        for run in runs:
            self.assertEqual(run.wait(limit), code, "\n".join(r.all() for r in runs))

    def terminate(self, run, code=143):
        """A run, or a server alone, that is not needed any more."""
        run.signal(signal.SIGTERM)
        self.assertEqual(run.wait(), code, run.all())

    def ask(self, *arguments, expect=0, limit=LIMIT, **how):
        """Runs to the end and checks the exit code, beside whatever else runs."""
        run = self.start(*arguments, **how)
        self.assertEqual(run.wait(limit), expect, run.all())
        return run

    def run_ddprun(self, *arguments, expect=0, environment=None, limit=LIMIT):
        """Runs to the end, checks the exit code, and that no process is left at that moment."""
        run = self.start(*arguments, environment=environment)
        self.assertEqual(run.wait(limit), expect, run.all())
        self.assertEqual(self.mark.living(), [], "left when ddprun had exited")
        return run

    def wait_for(self, condition, *runs, limit=LIMIT, what="condition"):
        found = eventually(condition, limit)
        self.assertTrue(found, f"{what}: not within {limit} s\n" + "\n".join(r.all() for r in runs))
        return found

    def wait_for_workers(self, run, count, generation=None):
        """rank -> pid once `count` workers of one generation have spoken."""
        return self.wait_for(
            lambda: (w := run.workers(generation)) and len(w) == count and w, run,
            what=f"{count} workers of generation {generation or 'any'}")

    def wait_for_world(self, runs, size, after=0, limit=LIMIT, others=()):
        """The first generation above `after` in which all of these runs have workers, `size` ranks together; where none
        comes, what `others` say is shown too."""
        def look():
            for generation in sorted({g for run in runs for g in run.generations() if g > after}):
                workers = [run.workers(generation) for run in runs]
                if all(workers) and sorted(rank for w in workers for rank in w) == list(range(size)):
                    return generation
            return None
        return self.wait_for(look, *others, *runs, limit=limit, what=f"a world of {size} after generation {after}")

    def trainers(self, program="ddprun-train"):
        """pid -> (generation, rank) of each such process of this test that has a rank."""
        found = {}
        for pid in self.mark.living(program):
            env = dict(e.split(b"=", 1) for e in read_bytes(f"/proc/{pid}/environ").split(b"\0") if b"=" in e)
            if b"RANK" in env and b"DDPRUN_GENERATION" in env:
                found[pid] = (int(env[b"DDPRUN_GENERATION"]), int(env[b"RANK"]))
        return found

    def write(self, name, text, mode=0o644):
        """Its path; its folder is made too."""
        os.makedirs(os.path.dirname(self.path(name)), exist_ok=True)
        with open(self.path(name), "w") as file:
            file.write(text)
        os.chmod(self.path(name), mode)
        return self.path(name)

    def private_file(self, name, text):
        """Its path; no other user can read it."""
        with open(os.open(self.path(name), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
            file.write(text + "\n")
        return self.path(name)

    def wait_for_text(self, run, pattern, limit=LIMIT):
        return self.wait_for(lambda: re.search(pattern, run.err()), run, limit=limit,
                             what=f"/{pattern}/ on stderr")

    def status(self, endpoint=None):
        """Of the one run served there, or by this test on this machine; None while no server answers."""
        where = [f"--endpoint={endpoint}"] if endpoint else []
        done = subprocess.run([DDPRUN, "status", *where, "--output=json"],
                              env=self.environment, capture_output=True, text=True, timeout=LIMIT)
        return json.loads(done.stdout)["runs"][0] if done.returncode == 0 else None

    def http_get(self, run, path):
        """(status, text) of the listener that its --http-listen names."""
        host, port = self.wait_for_text(run, r"probes and metrics: http://([\d.]+):(\d+)").groups()
        connection = http.client.HTTPConnection(host, int(port), timeout=20)
        self.addCleanup(connection.close)
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()

    def metrics(self, run):
        """name{labels} -> value; and the text."""
        status, text = self.http_get(run, "/metrics")
        self.assertEqual(status, 200)
        return dict(re.findall(r"^(\w+(?:\{.*\})?) (\S+)$", text, re.M)), text

    def wait_for_renewals(self, endpoint, name, *runs):
        """That this node's lease is renewed for longer than it lasts."""
        ages = []

        def renewed():
            run = self.status(endpoint)
            node = next((n for n in run["nodes"] if n["node"] == name), None) if run else None
            if node:
                ages.append(node["last_seen_seconds"])
            return sum(b < a for a, b in zip(ages, ages[1:])) >= RENEWALS
        self.wait_for(renewed, *runs, what=f"renewals of the lease of {name}")

    def assert_gone(self, limit):
        """No process of the test within `limit` seconds; those that are left are shown."""
        start = time.monotonic()
        eventually(lambda: not self.mark.living(), limit)
        left = [f"{pid} {command_of(pid)}" for pid in self.mark.living()]
        self.assertEqual(left, [], f"after {time.monotonic() - start:.2f} s")

    def environment_of(self, path):
        lines = self.wait_for(lambda: read_text(path), what=path).splitlines()
        return dict(line.split("=", 1) for line in lines if "=" in line)

    def free_endpoint(self):
        return free_endpoint()
