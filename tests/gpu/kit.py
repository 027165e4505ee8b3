"""The shared parts of every check on a GPU machine: programs that are started, watched and ended in time, and
results on disk."""

import contextlib
import json
import os
import re
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "support"))

from ddprun_runs import eventually, read_text, workers_below  # noqa: E402,F401

CHECKS = []


class Failed(Exception):
    """A check did not find an expected state; `told` has its measurements all the same."""

    def __init__(self, why, told=None):
        super().__init__(why)
        self.told = told


class Skipped(Exception):
    """A check, or a part of it, cannot be done here or in the time that is left; `told` has the parts
    that were done."""

    def __init__(self, why, told=None):
        super().__init__(why)
        self.told = told


def check(seconds, gpu=True, after=None):
    """Registers a check: begun only with `seconds` left; `gpu`: meaningless on a CPU; `after`: the check that it builds on, which
    is done too where this one is chosen."""
    def register(function):
        CHECKS.append((function.__name__, seconds, gpu, after, function))
        return function
    return register


class Outcome:
    """How a program ended, and all that it printed. `code` is "late" where it had to be ended."""

    def __init__(self, code, out, err, seconds):
        self.code, self.out, self.err, self.seconds = code, out, err, seconds

    def expect(self, *texts, code=0):
        if self.code != code:
            raise Failed(f"exit code {self.code}, not {code}: {self.tail()}")
        for text in texts:
            if text not in self.out + self.err:
                raise Failed(f"'{text}' is not in its output: {self.tail()}")
        return self

    def tail(self):
        return " | ".join((self.out + "\n" + self.err).replace("\r", "\n").strip().splitlines()[-6:])[-900:]


def gpus_of_this_machine():
    listed = subprocess.run(["nvidia-smi", "--list-gpus"], capture_output=True, text=True, check=False).stdout
    return len(re.findall(r"^GPU ", listed, re.M))


class Kit:
    def __init__(self, asked):
        self.bin = os.path.abspath(asked.bin)
        self.ddprun_path, self.train_path, self.bench_path = (
            os.path.join(self.bin, name) for name in ("ddprun", "ddprun-train", "ddprun-bench-comm"))
        self.mnist = os.path.join(self.bin, "..", "share", "ddprun", "mnist")
        self.out, self.limit, self.pretend, self.seconds = os.path.abspath(asked.out), asked.limit, asked.pretend, asked.seconds
        os.makedirs(self.out, exist_ok=True)
        self.begin = time.monotonic()
        self.log = open(os.path.join(self.out, "log.txt"), "w")
        self.raw = open(os.path.join(self.out, "raw.txt"), "w")
        self.results = {"began": time.time(), "pretend": self.pretend, "libraries_read": None, "checks": {}}
        self.device = "cpu" if self.pretend else "cuda"
        self.gpus = 1 if self.pretend else gpus_of_this_machine()
        self.has_torch = subprocess.run([sys.executable, "-c", "import importlib.util as u, sys; sys.exit(not u.find_spec('torch'))"],
                                        check=False).returncode == 0
        # Checkpoints of gigabytes belong into memory where there is plenty of it.
        shm = shutil.disk_usage("/dev/shm").free if os.path.isdir("/dev/shm") else 0
        self.scratch = tempfile.mkdtemp(prefix="gpukit_", dir="/dev/shm" if shm > 16e9 else None)
        self.environment = {**os.environ, "XDG_RUNTIME_DIR": self.scratch, "PYTHON_EXEC": sys.executable, "KIT_DEVICE": self.device,
                            "TORCHINDUCTOR_CACHE_DIR": f"{self.scratch}/inductor", "TRITON_CACHE_DIR": f"{self.scratch}/triton"}
        # Else every start of Python would compile torch's modules again, which takes up to 20 s.
        self.environment.pop("PYTHONDONTWRITEBYTECODE", None)
        self.two_nccl_ranks = False
        self.cut_off = False  # A program was ended because no time was left for the whole.
        self.count = 0

    def left(self):
        return self.limit - (time.monotonic() - self.begin)

    def say(self, text):
        line = f"{time.monotonic() - self.begin:6.1f}  {text}"
        print(line, flush=True)
        print(line, file=self.log, flush=True)

    def write_results(self):
        path = os.path.join(self.out, "results.json")
        with open(path + ".part", "w") as file:
            json.dump(self.results, file, indent=1)
        os.replace(path + ".part", path)

    def note(self, title, *texts):
        print(f"\n==== {time.monotonic() - self.begin:.1f} {title}", file=self.raw)
        for text in texts:
            text = text.replace("\r", "\n")
            print(text if len(text) < 16_000 else text[:6_000] + "\n[...]\n" + text[-10_000:], file=self.raw)
        self.raw.flush()

    def folder(self):
        self.count += 1
        path = os.path.join(self.scratch, f"w{self.count}")
        os.makedirs(path)
        return path

    def start(self, argv, folder, environment=None, name="run", stdin=subprocess.DEVNULL):
        with (open(os.path.join(folder, f"{name}.out"), "wb") as out, open(os.path.join(folder, f"{name}.err"), "wb") as err):
            process = subprocess.Popen(argv, stdin=stdin, stdout=out, stderr=err, cwd=folder,
                                       env={**self.environment, **(environment or {})}, start_new_session=True)
        process.started = (argv, folder, name, time.monotonic())
        return process

    def finish(self, process, limit):
        """Waits for its end; after `limit` seconds it gets TERM, then KILL."""
        argv, folder, name, began = process.started
        late = False
        short_of_time = self.left() - 3 < limit
        for wait, number in ((max(1, min(limit, self.left() - 3)), signal.SIGTERM), (6, signal.SIGKILL), (10, None)):
            try:
                process.wait(wait)
                break
            except subprocess.TimeoutExpired:
                late = True
                if number is not None:
                    with contextlib.suppress(ProcessLookupError):
                        os.killpg(process.pid, number)
        out, err = (read_text(os.path.join(folder, f"{name}.{stream}")) for stream in ("out", "err"))
        code = process.returncode
        ended = Outcome("late" if late else 128 - code if code is not None and code < 0 else code, out, err,
                        time.monotonic() - began)
        self.note(f"{' '.join(argv)}\n  [exit {ended.code}, {ended.seconds:.2f} s]", out, err)
        self.cut_off = self.cut_off or late and short_of_time
        return ended

    def finish_all(self, processes, limit):
        return [self.finish(process, limit) for process in processes]

    def run(self, argv, limit=30, environment=None, folder=None):
        return self.finish(self.start(argv, folder or self.folder(), environment), limit)

    def stop_all(self, processes, limit=15):
        for process in processes:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
        return self.finish_all(processes, limit)

    def stop(self, process, limit=15):
        return self.stop_all([process], limit)[0]

    def train(self, *flags, under=(), limit=40, folder=None, device=None, environment=None):
        """A training of ddprun-train from its start to its end."""
        folder = folder or self.folder()
        own = any(flag.startswith("--checkpoint-dir") for flag in flags)
        argv = [*under, self.train_path, f"--device={device or self.device}", *flags,
                *([] if own else [f"--checkpoint-dir={folder}/c"])]
        return self.run(argv, limit, environment, folder)

    def ddprun(self, *flags):
        return [self.ddprun_path, *flags]

    def close(self):
        shutil.rmtree(self.scratch, ignore_errors=True)


def json_lines(path):
    found = []
    for line in read_text(path).splitlines():
        with contextlib.suppress(ValueError):
            found.append(json.loads(line))
    return found


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def summary_of(values, digits=1):
    """Median and range of some measurements."""
    if not values:
        return None
    return {"median": round(statistics.median(values), digits), "least": round(min(values), digits),
            "most": round(max(values), digits), "n": len(values)}


def same_bytes(one, other):
    with open(one, "rb") as first, open(other, "rb") as second:
        return first.read() == second.read() != b""
