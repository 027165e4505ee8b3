"""Starts ddprun-train by hand, as a launcher would: ranks, a store, a notify socket.

Nothing sleeps: tests wait for what a worker says (STEP=, exit), for at most LIMIT seconds.
"""

import array
import json
import os
import resource
import select
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import time
import unittest


TRAIN = os.environ["DDPRUN_TRAIN"]
STORE_HOST = os.environ["DDPRUN_STORE_HOST"]
MNIST = os.environ["DDPRUN_MNIST"]
LIMIT = 60
WHOLE_LIMIT = 180  # Of a training from its beginning to its end, beside whatever else runs.
ATTEMPTS = 8

CONTRACT = (
    "RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE GROUP_RANK GROUP_WORLD_SIZE MASTER_ADDR MASTER_PORT "
    "TORCHELASTIC_RUN_ID TORCHELASTIC_RESTART_COUNT DDPRUN_TERM DDPRUN_GENERATION "
    "DDPRUN_WORLD_ID DDPRUN_NOTIFY_SOCKET GLOO_SOCKET_IFNAME"
).split()


def slowed(attempt):
    """Flags of a training that an attempt before this one could not catch: longer steps, equal bits."""
    return [f"--skew=0:{5 << attempt}"] if attempt else []


class Store:
    """The c10d store of one generation."""

    def __init__(self):
        self.process = subprocess.Popen(
            [STORE_HOST, "--listen=127.0.0.1:0"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.port = int(self.process.stdout.readline().split()[1])

    def close(self):
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait(LIMIT)


class Worker:
    """One rank: its process, what it said on the notify socket, its output once it ended."""

    def __init__(self, arguments, environment, directory, name, limits=None, stderr=None):
        self.path = os.path.join(directory, name + ".notify")
        if os.path.exists(self.path):
            os.unlink(self.path)
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(self.path)
        self.said = {}
        env = {k: v for k, v in os.environ.items() if k not in CONTRACT}
        env.update(environment, DDPRUN_NOTIFY_SOCKET=self.path, OMP_NUM_THREADS="1")
        def begin():
            os.nice(5)  # A test that acts at a step must not be outrun.
            for what, limit in (limits or {}).items():
                resource.setrlimit(what, (limit, limit))
        # Files, not pipes: a full pipe would stop a worker without a reader.
        self.files = {n: open(os.path.join(directory, name + "." + n), "w+") for n in ("out", "err")}
        self.process = subprocess.Popen(
            [TRAIN] + arguments, env=env, cwd=directory,
            stdin=subprocess.DEVNULL, stdout=self.files["out"], stderr=stderr or self.files["err"],
            preexec_fn=begin,
        )

    def wait_until(self, reached, what):
        """Hears what it says meanwhile; False if the worker ended before."""
        deadline = time.monotonic() + LIMIT
        while not reached():
            if time.monotonic() > deadline:
                raise AssertionError(f"no {what} within {LIMIT} s: {self.text('err')}")
            ended = self.process.poll() is not None
            select.select([self.socket], [], [], 0 if ended else 0.02)
            self.listen()
            if ended:
                return bool(reached())
        return True

    def wait_for_step(self, step):
        """Until the worker has finished that many steps."""
        return self.wait_until(lambda: int(self.said.get("STEP", -1)) >= step, f"step {step}")

    def wait_for_phase(self, phase):
        return self.wait_until(lambda: self.said.get("PHASE") == phase, f"phase {phase}")

    def wait_for_text(self, text):
        """Until it is on stderr."""
        return self.wait_until(lambda: text in self.text("err"), f"'{text}'")

    def listen(self):
        """Takes in what has been said on the notify socket; does not wait."""
        self.socket.settimeout(0)
        try:
            while True:
                for line in self.socket.recv(4096).decode().splitlines():
                    key, _, value = line.partition("=")
                    self.said[key] = value
        except BlockingIOError:
            pass

    def kill(self, number=signal.SIGKILL):
        self.process.send_signal(number)

    def wait(self, limit=LIMIT):
        try:
            return self.process.wait(limit)
        except subprocess.TimeoutExpired:
            self.kill()
            self.process.wait()
            raise AssertionError(f"still running after {limit} s: {self.text('err')}")

    def text(self, name):
        with open(self.files[name].name, errors="replace") as file:
            return file.read()

    def close(self):
        if self.process.poll() is None:
            self.kill()
            self.process.wait()
        self.socket.close()
        for file in self.files.values():
            file.close()


class TrainerTest(unittest.TestCase):
    def setUp(self):
        self.directory = tempfile.mkdtemp(prefix="ddprun_trainer_")
        self.addCleanup(shutil.rmtree, self.directory, ignore_errors=True)
        self.checkpoints = os.path.join(self.directory, "ckpt")
        self.started = 0

    def start(self, arguments, ranks=1, run="run", generation=1, ordered=True, environment=None,
              more=None, limits=None, stderr=None, nodes=1):
        """The workers of one generation, of `nodes` equal nodes, or of the node of each rank. Without
        `ordered`: as plain torchrun starts them. `more`: arguments of single ranks. `stderr`: files of
        single ranks."""
        store = None
        if ranks > 1:
            store = Store()
            self.addCleanup(store.close)
        self.started += 1
        workers = []
        if isinstance(nodes, int):
            nodes = [rank // (ranks // nodes) for rank in range(ranks)]
        for rank, node in enumerate(nodes):
            env = {
                "RANK": rank, "WORLD_SIZE": ranks,
                "LOCAL_RANK": nodes[:rank].count(node), "LOCAL_WORLD_SIZE": nodes.count(node),
                "GROUP_RANK": node, "GROUP_WORLD_SIZE": len(set(nodes)),
                "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": store.port if store else 1,
                "TORCHELASTIC_RUN_ID": run, "TORCHELASTIC_RESTART_COUNT": generation - 1,
            }
            if ordered:
                world = f"{self.started:04x}{generation:012x}"
                env.update(DDPRUN_TERM=1, DDPRUN_GENERATION=generation, DDPRUN_WORLD_ID=world)
            env.update(environment or {})
            all_arguments = list(arguments) + (more or {}).get(rank, [])
            if not any(a.startswith("--checkpoint-dir") for a in arguments):
                all_arguments.append("--checkpoint-dir=" + self.checkpoints)
            worker = Worker(all_arguments, {k: str(v) for k, v in env.items()}, self.directory,
                            f"g{self.started}r{rank}", limits, (stderr or {}).get(rank))
            self.addCleanup(worker.close)
            workers.append(worker)
        return workers

    def run_world(self, arguments, expect=0, **how):
        """Start, wait, check every exit code; the workers."""
        workers = self.start(arguments, **how)
        for rank, worker in enumerate(workers):
            self.assertEqual(worker.wait(WHOLE_LIMIT), expect, f"rank {rank}: {worker.text('err')}")
        return workers

    def trained(self, arguments, name, **how):
        """To the end, in a directory of its own: the workers, and the parameters' bytes."""
        self.checkpoints = self.path(name + ".ckpt")
        workers = self.run_world([*arguments, f"--dump-parameters={name}.st"], **how)
        return workers, self.bytes_of(name + ".st")

    def wait_for_commit(self, worker, commits=1):
        """Until there are so many checkpoints to resume from; False if the worker ended before."""
        return worker.wait_until(lambda: self.is_committed(commits), f"{commits} checkpoints")

    def interrupt(self, arguments, name, ranks, step, ordered=True, commits=1):
        """Kills rank 0 at `step`, behind a commit; again, slower, where the training outran that."""
        for attempt in range(ATTEMPTS):
            self.checkpoints = self.path(f"{name}.{attempt}.ckpt")
            workers = self.start(arguments + slowed(attempt), ranks=ranks, ordered=ordered)
            early = workers[0].wait_for_step(step) and self.wait_for_commit(workers[0], commits)
            workers[0].kill()
            ends = [worker.wait() for worker in workers]
            if early and ends == [-signal.SIGKILL] + [75] * (ranks - 1) and not self.is_finished():
                return
            self.assertTrue(set(ends) <= {0, 75, -signal.SIGKILL}, workers[0].text("err"))
        self.fail("no kill came between a checkpoint and the end of the training")

    def run_alone(self, arguments, expect=0):
        """A process without any launcher."""
        self.started += 1
        if not any(a.startswith("--checkpoint-dir") for a in arguments):
            arguments = arguments + ["--checkpoint-dir=" + self.checkpoints]
        worker = Worker(arguments, {}, self.directory, f"alone{self.started}")
        self.addCleanup(worker.close)
        self.assertEqual(worker.wait(), expect, worker.text("err"))
        return worker

    def path(self, *names):
        return os.path.join(self.directory, *names)

    def json_of(self, *names):
        with open(self.path(*names)) as file:
            return json.load(file)

    def bytes_of(self, name):
        with open(self.path(name), "rb") as file:
            return file.read()

    def assert_same_bits(self, one, other, note=""):
        self.assertTrue(one == other, "the parameters differ; " + note)

    def directories(self):
        """Names of the checkpoint directories, oldest first."""
        return sorted(n for n in os.listdir(self.checkpoints) if n.startswith("step-"))

    def lineage(self):
        """Directories of the committed checkpoints, newest first."""
        records = [n for n in os.listdir(self.checkpoints) if n[len("fence-"):].isdigit()]
        if not records:
            return []
        with open(os.path.join(self.checkpoints, max(records, key=lambda n: int(n[len("fence-"):])))) as file:
            return [c["directory"] for c in json.loads(file.readline())["lineage"]]

    def head(self):
        """The newest committed checkpoint, or None; a later directory may lack its commit record."""
        return next(iter(self.lineage()), None)

    def is_committed(self, commits=1):
        """Whether there are so many checkpoints to resume from."""
        return len(self.lineage()) >= commits

    def is_finished(self):
        """Whether the training has saved its end, even if it was killed before it could exit."""
        if not self.is_committed():
            return False
        return self.json_of(self.checkpoints, self.head(), "state.json")["finished"]


def accuracy(worker, of="test"):
    for line in worker.text("out").splitlines():
        if line.startswith(of + " accuracy "):
            return float(line.split()[2].rstrip("%,"))
    raise AssertionError("no accuracy in: " + worker.text("out") + worker.text("err"))


def parameters(data):
    """name -> array of floats, of a safetensors file."""
    (size,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + size])
    tensors = {}
    for name, entry in header.items():
        if name != "__metadata__":
            begin, end = entry["data_offsets"]
            tensors[name] = array.array("f", data[8 + size + begin : 8 + size + end])
    return tensors


def largest_difference(one, other):
    one, other = parameters(one), parameters(other)
    assert one.keys() == other.keys() and one
    return max(abs(a - b) for name in one for a, b in zip(one[name], other[name], strict=True))
