"""Every example of docs/writing-a-worker.md says what it claims to say, to a socket like the agent's."""

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import unittest

EXAMPLES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "examples")


class Examples(unittest.TestCase):
    def setUp(self):
        self.directory = tempfile.mkdtemp(prefix="ddprun_example_")
        self.addCleanup(shutil.rmtree, self.directory)
        self.path = os.path.join(self.directory, "socket")
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.addCleanup(self.socket.close)
        self.socket.bind(self.path)
        self.socket.setblocking(False)

    def run_example(self, *command, **environment):
        return subprocess.run(command, env={**os.environ, "STEPS": "3", **environment}, check=True,
                              timeout=60, capture_output=True)

    def heard(self):
        """The lines of all datagrams, in order."""
        lines = []
        while True:
            try:
                lines += self.socket.recv(4096).decode().split()
            except BlockingIOError:
                return lines

    def check(self, *command):
        self.run_example(*command, DDPRUN_NOTIFY_SOCKET=self.path)
        self.assertEqual(self.heard(), [
            "READY=1", "STEP=1", "PHASE=train", "STEP=2", "PHASE=train", "STEP=3", "PHASE=train",
            "PHASE=checkpoint", "EXTEND_TIMEOUT_USEC=60000000"])
        # Harmless without ddprun, and when the agent is gone.
        self.run_example(*command, DDPRUN_NOTIFY_SOCKET="")
        self.run_example(*command, DDPRUN_NOTIFY_SOCKET=self.path + ".gone")

    def test_python(self):
        self.check(sys.executable, os.path.join(EXAMPLES, "heartbeat.py"))

    def test_shell(self):
        self.check("bash", os.path.join(EXAMPLES, "heartbeat.sh"))

    def test_cpp(self):
        program = os.path.join(self.directory, "heartbeat")
        subprocess.run([os.environ.get("CXX", "c++"), "-std=c++17", "-Wall", "-Werror", "-o", program,
                        os.path.join(EXAMPLES, "heartbeat.cc")], check=True, timeout=120)
        self.check(program)
