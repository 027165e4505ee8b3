"""What ddprun writes to, or reads from, stands still: its own work goes on all the same."""

import os
import pty
import re
import signal
import subprocess
import sys
import termios
import threading
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))

from ddprun_runs import DDPRUN, FAKE_WORKER, HELLO, DdprunTest, eventually  # noqa: E402

# Fails once it is told to, in the first generation; then hangs.
FAILS_ONCE = ["--on-restart=0", "--wait-file={go}", "--exit=1", "--always", "--hang"]


class FullPipe:
    """A pipe that nobody reads and nothing fits into, until `read_on`."""

    def __init__(self, test):
        self.reader, self.writer = os.pipe()
        os.set_blocking(self.writer, False)
        self.filling = 0
        try:
            while True:
                self.filling += os.write(self.writer, b"#" * 4096)
        except BlockingIOError:
            os.set_blocking(self.writer, True)
        self.text = ""
        self.thread = None
        test.addCleanup(self.close)

    def read_on(self):
        """Until every writer has closed it."""
        os.close(self.writer)
        self.writer = None
        self.thread = threading.Thread(target=self._read)
        self.thread.start()

    def _read(self):
        data = b""
        while piece := os.read(self.reader, 65536):
            data += piece
            self.text = data[self.filling:].decode(errors="replace")

    def close(self):
        if self.writer is not None:
            os.close(self.writer)
        if self.thread is not None:
            self.thread.join()
        os.close(self.reader)


class Standstill(DdprunTest):
    def setUp(self):
        super().setUp()
        self.endpoint = self.free_endpoint()
        self.go = self.path("go")

    def fails_once(self):
        return [FAKE_WORKER, HELLO, *(a.format(go=self.go) for a in FAILS_ONCE)]

    def node(self, pipe, *flags):
        return self.start("-v", "--max-restarts=3", "--event-log-handler=console", *flags,
                          *self.fails_once(), err=pipe.writer)

    def replace_a_worker(self, run):
        [first] = self.wait_for_workers(run, 1).values()
        generation = run.generations()[-1]
        open(self.go, "w").close()
        newer = self.wait_for(lambda: [g for g in run.generations() if g > generation], run,
                              what="a generation after the failure")
        [second] = self.wait_for_workers(run, 1, newer[0]).values()
        self.assertNotEqual(first, second)

    # Ctrl-S, a stopped pager, an ssh that hangs: of the server, and of a node.
    def test_nobody_reads_what_server_and_node_say(self):
        pipes = [FullPipe(self), FullPipe(self)]
        server = self.start("rendezvous", f"--listen={self.endpoint}", "-v", err=pipes[0].writer)
        node = self.node(pipes[1], "--nnodes=1:2", f"--rdzv-id={self.run_id}",
                         f"--rdzv-endpoint={self.endpoint}", "--local-addr=127.0.0.1",
                         "--rdzv-conf=last_call_timeout=0.1")
        self.replace_a_worker(node)
        # The server answers others too.
        asked = subprocess.run([DDPRUN, "status", f"--endpoint={self.endpoint}"], env=self.environment,
                               capture_output=True, text=True, timeout=30)
        self.assertEqual(asked.returncode, 0, asked.stderr)
        self.assertIn(self.run_id, asked.stdout)
        for run in (node, server):
            run.signal(signal.SIGTERM)
        self.assertEqual([node.wait(), server.wait()], [143, 143])

    def test_who_reads_on_has_missed_nothing(self):
        pipe = FullPipe(self)
        node = self.node(pipe)
        self.replace_a_worker(node)
        pipe.read_on()
        self.wait_for(lambda: "started generation 2" in pipe.text, node, what="the rest of the lines")
        node.signal(signal.SIGTERM)
        self.assertEqual(node.wait(), 143)
        pipe.thread.join()
        places = [pipe.text.index(part) for part in (
            "started generation 1", '"FAILED"', "started generation 2", "got SIGTERM", '"AGENT"')]
        self.assertEqual(places, sorted(places), pipe.text)
        self.assertNotIn("dropped", pipe.text)
        self.assertTrue(pipe.text.endswith("\n"), pipe.text[-200:])

    def test_nobody_reads_why_the_run_failed(self):
        pipe = FullPipe(self)
        run = self.start("--nproc-per-node=2", FAKE_WORKER, "--print-err=why", "--exit=7", err=pipe.writer)
        self.assertEqual(run.wait(), 7)

    # The live line of a node that waits for another one.
    def test_a_terminal_that_was_stopped(self):
        master, terminal = pty.openpty()
        self.addCleanup(os.close, master)
        self.addCleanup(os.close, terminal)
        flags = ["--nnodes=2", "--node-rank=0", f"--master-addr={self.endpoint.split(':')[0]}",
                 f"--master-port={self.endpoint.split(':')[1]}", "--max-restarts=1"]
        first = self.start(*flags, *self.fails_once(), err=terminal)
        self.read_terminal(master, "1 of 2 are here")
        termios.tcflow(terminal, termios.TCOOFF)  # Ctrl-S.
        second = self.start(*[f.replace("rank=0", "rank=1") for f in flags], *self.fails_once())
        self.replace_a_worker(first)
        first.signal(signal.SIGINT)
        self.assertEqual([first.wait(), second.wait()], [130, 130])

    def read_terminal(self, master, pattern):
        os.set_blocking(master, False)
        shown = b""

        def found():
            nonlocal shown
            try:
                shown += os.read(master, 4096)
            except BlockingIOError:
                pass
            return re.search(pattern.encode(), shown)
        self.assertTrue(eventually(found), f"/{pattern}/ on the terminal: {shown}")


if __name__ == "__main__":
    unittest.main(verbosity=2)
