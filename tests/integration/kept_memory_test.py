"""Memory that workers leave with their agent: the next one of a local rank finds it, as systemd hands
it on, however the last one died."""

import os
import re
import subprocess
import sys

from ddprun_runs import DDPRUN, DdprunTest

EXAMPLES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "examples")
TWO = "--nproc-per-node=2"
# Leaves blocks and is killed by itself at once, until it finds what the third one left.
LEAVE = """
import json, os, signal, sys
import told
from kept_memory import find, leave
count = int(os.environ["TORCHELASTIC_RESTART_COUNT"])
if os.environ["RANK"] == "0":
    with open(sys.argv[1], "a") as file:
        file.write(json.dumps({"pid": os.getpid(), "loaded": told.PID, "descriptors": sorted(
            os.listdir("/proc/self/fd"), key=int), "shown": [
            entry for entry in open("/proc/self/environ").read().split(chr(0)) if "LISTEN_" in entry],
            "listen": {k: v for k, v in os.environ.items() if k.startswith("LISTEN_")},
            "b": find("b") and find("b")[:].decode()}) + "\\n")
    if count == 3:
        sys.exit(0)
    leave("b", 8)[:] = b"%08d" % count
    leave("a b", 8)
    if count == 2:
        leave("a:b", 8)
        leave("a:c", 8)
    os.kill(os.getpid(), signal.SIGKILL)
signal.pause() if count < 3 else None
"""


class KeptMemory(DdprunTest):
    def setUp(self):
        super().setUp()
        self.environment["PYTHON_EXEC"] = sys.executable
        self.environment["PYTHONPATH"] = EXAMPLES
        self.write("told.py", "import os\nPID = os.getpid()\n")

    def test_a_block_left_just_before_the_end_is_found(self):
        import json
        self.write("leave.py", LEAVE)
        for preload in ("none", "told"):
            with self.subTest(preload):
                self.environment.update(LISTEN_FDS="4", LISTEN_PID="1", LISTEN_FDNAMES="x")
                said = self.path(f"said-{preload}")
                run = self.run_ddprun(TWO, "--max-restarts=3", f"--preload={preload}",
                                      self.path("leave.py"), said)
                with open(said) as file:
                    told = [json.loads(line) for line in file]
                self.assertEqual([t["b"] for t in told], [None, "00000000", "00000001", "00000002"])
                self.assertEqual([t["loaded"] == t["pid"] for t in told], [preload == "none"] * 4)
                self.assertEqual(told[0]["listen"], {})
                for later in told[1:]:
                    found = {"LISTEN_FDS": "2", "LISTEN_FDNAMES": "a b:b", "LISTEN_PID": str(later["pid"])}
                    self.assertEqual(later["listen"], found)
                    self.assertEqual(sorted(later["shown"]), sorted(f"{k}={v}" for k, v in found.items()))
                    self.assertEqual(later["descriptors"], [*told[0]["descriptors"], *"56"])
                refused = re.findall("cannot keep the memory that the worker of local rank 0 leaves: .*", run.err())
                self.assertEqual(len(refused), 1, "once for a generation")
                self.assertIn("FDNAME must have 1 to 255 characters", refused[0])

    def test_the_examples(self):
        program = self.path("kept_memory")
        subprocess.run([os.environ.get("CXX", "c++"), "-std=c++17", "-Wall", "-Werror", "-o", program,
                        os.path.join(EXAMPLES, "kept_memory.cc")], check=True, timeout=120)
        for command in ([program], [sys.executable, os.path.join(EXAMPLES, "kept_memory.py")]):
            with self.subTest(command[-1]):
                run = self.run_ddprun("--nproc-per-node=1", "--max-restarts=2", *command)
                self.assertEqual(re.findall(r"run (\d)", run.out()), ["1", "2", "3"])
                alone = subprocess.run(command, env=self.environment, timeout=60, capture_output=True)
                self.assertEqual((alone.returncode, alone.stdout), (1, b"run 1\n"))

    # A block is one descriptor of the agent's, which needs some itself.
    def test_few_descriptors(self):
        self.write("many.py", """
import os, signal, sys
from kept_memory import find, leave
if os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
    for i in range(16):
        leave(f"{os.environ['RANK']}.{i}", 8)
    os._exit(3)
print("found", os.environ.get("LISTEN_FDS", "0"), flush=True)
""")
        run = self.ask("--nofile=96:96", DDPRUN, "--nproc-per-node=4", "--max-restarts=1",
                       "--preload=none", self.path("many.py"), executable="/usr/bin/prlimit")
        self.assertRegex(run.err(), r"half of the agent's descriptors \(ulimit -n is 96\) are in use")
        found = sum(map(int, re.findall(r"found (\d+)", run.out())))
        self.assertGreater(found, 4)
        self.assertLess(found, 48)
