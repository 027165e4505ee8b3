"""A file or pipe that ddprun writes to, or reads from, stands still: its own work continues all
the same."""

import glob
import os
import pty
import re
import resource
import signal
import socket
import subprocess
import termios
import threading
import unittest

from ddprun_runs import DDPRUN, FAKE_WORKER, HELLO, DdprunTest, eventually, held_calls, read_text


class FullPipe:
    """A pipe that has no reader and no room, until `read_on`."""

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

    def drop(self):
        """It cannot be read any more."""
        os.close(self.reader)
        self.reader = None

    def close(self):
        if self.writer is not None:
            os.close(self.writer)
        if self.thread is not None:
            self.thread.join()
        if self.reader is not None:
            os.close(self.reader)


class Standstill(DdprunTest):
    def node(self, pipe, *flags):
        return self.start("-v", "--max-restarts=3", "--event-log-handler=console", *flags,
                          *self.fails_once(), err=pipe.writer)

    def is_bound(self):
        host, port = self.endpoint.split(":")
        with socket.socket() as client:
            return client.connect_ex((host, int(port))) == 0

    # Ctrl-S, a stopped pager, an ssh that hangs: of the server, and of a node.
    def test_the_output_of_server_and_node_is_not_read(self):
        pipes = [FullPipe(self), FullPipe(self)]
        server = self.start("rendezvous", f"--listen={self.endpoint}", "-v", err=pipes[0].writer)
        self.wait_for(self.is_bound, server, what="the endpoint")  # Else the node may be first.
        node = self.node(pipes[1], "--nnodes=1:2", f"--rdzv-id={self.run_id}",
                         f"--rdzv-endpoint={self.endpoint}", "--local-addr=127.0.0.1",
                         "--rdzv-conf=last_call_timeout=0.1")
        self.replace_a_worker(node)
        # The server answers others too, and hears of the node's lease.
        names = [n["node"] for n in self.status(self.endpoint)["nodes"]]
        self.wait_for_renewals(self.endpoint, names[0], node, server)
        asked = subprocess.run([DDPRUN, "status", f"--endpoint={self.endpoint}"], env=self.environment,
                               capture_output=True, text=True, timeout=30)
        self.assertEqual(asked.returncode, 0, asked.stderr)
        self.assertIn(self.run_id, asked.stdout)
        for run in (node, server):
            run.signal(signal.SIGTERM)
        self.assertEqual([node.wait(), server.wait()], [143, 143])

    # A pager, or a pipe into a program that has other things to do: who reads late misses nothing.
    def test_a_slow_reader_gets_everything(self):
        pipe = FullPipe(self)
        run = self.start("--nproc-per-node=2", FAKE_WORKER, "--lines=500", out=pipe.writer)
        self.wait_for_text(run, "waiting for the reader of standard output; press Ctrl-C")
        self.assertEqual(len(self.mark.living()), 2)  # Guard and agent.
        pipe.read_on()
        self.assertEqual(run.wait(), 0)
        pipe.thread.join()
        for rank in range(2):
            self.assertEqual(len(re.findall(f"^rank {rank} line .* END$", pipe.text, re.M)), 500)

    def test_a_reader_that_goes_ends_the_wait(self):
        pipe = FullPipe(self)
        run = self.start("--nproc-per-node=2", FAKE_WORKER, "--lines=100", "--exit=7", out=pipe.writer)
        self.wait_for_text(run, "waiting for the reader of standard output")
        pipe.drop()
        self.assertEqual(run.wait(), 7)

    def test_the_reason_of_a_failed_run_is_not_read(self):
        for ends in ("a signal", "somebody reads on"):
            with self.subTest(ends):
                pipe = FullPipe(self)
                logs = self.path(ends)
                run = self.start(f"--log-dir={logs}", "--nproc-per-node=2", FAKE_WORKER, "--print-err=why",
                                 "--exit=7", err=pipe.writer)
                self.wait_for(lambda: glob.glob(f"{logs}/*/failure.json"), run, what="the report")
                if ends == "a signal":
                    run.signal(signal.SIGINT)
                else:
                    pipe.read_on()
                self.assertEqual(run.wait(), 7)
        pipe.thread.join()
        self.assertIn("Root Cause", pipe.text)

    # The guard's words come after its sweep, and need no reader.
    def test_the_agent_is_killed_while_its_output_cannot_be_read(self):
        for reader in ("stands still", "is gone"):
            with self.subTest(reader):
                pipe = FullPipe(self)
                run = self.start("--nproc-per-node=2", FAKE_WORKER, "--ignore-term", "--grandchild-setsid",
                                 HELLO, "--hang", err=pipe.writer)
                self.wait_for_workers(run, 2)
                if reader == "is gone":
                    pipe.drop()
                os.kill(run.agent(), signal.SIGKILL)
                self.assertEqual(run.wait(), 137)
                self.assertEqual(self.mark.living(), [])

    # Its number would go to a socket between agent and guard, and lines into that.
    def test_stderr_was_closed(self):
        run = self.start("-c", 'exec "$@" 2>&-', "sh", DDPRUN, "-v", FAKE_WORKER, HELLO, "--hang",
                         executable="/bin/sh")
        [worker] = self.wait_for_workers(run, 1).values()
        for pid in (run.process.pid, run.agent(), worker):
            self.assertEqual(os.readlink(f"/proc/{pid}/fd/2"), "/dev/null")
        os.kill(run.agent(), signal.SIGKILL)
        self.assertEqual(run.wait(), 137)
        self.assertEqual(self.mark.living(), [])

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

    # Its claim cannot be read, nor say how the run ended.
    def test_a_run_directory_that_hangs_keeps_no_process_from_ending(self):
        shared = self.path("shared")
        run = self.start("--nnodes=1:2", f"--run-dir={shared}", f"--rdzv-endpoint={self.endpoint}",
                         "--local-addr=127.0.0.1", "--rdzv-conf=last_call_timeout=0.1", FAKE_WORKER, HELLO,
                         "--hang", environment=held_calls("write:/term-", self.path("fifo")))
        self.wait_for_workers(run, 1)
        os.mkfifo(self.path("fifo"))
        self.wait_for(lambda: os.path.exists(self.path("fifo.held")), run, what="the claim's writer")
        run.signal(signal.SIGINT)
        self.assertEqual(run.wait(), 130, run.all())
        self.assertIn("the claim in the run directory could not be written", run.err())

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


def sanitized():
    with open(DDPRUN, "rb") as binary:
        return b"__asan_init" in binary.read()


@unittest.skipIf(sanitized(), "AddressSanitizer's allocator ends the process by itself")
class NoMemory(DdprunTest):
    def allow_no_more(self, pid):
        """Not a byte of address space beyond what it has."""
        size = int(re.search(r"VmSize:\s+(\d+) kB", read_text(f"/proc/{pid}/status")).group(1))
        resource.prlimit(pid, resource.RLIMIT_AS, (size * 1024, size * 1024))

    # The lines that it keeps for a reader who stands still do not fit.
    def test_an_agent_without_memory_says_so_and_leaves_nothing(self):
        pipe = FullPipe(self)
        self.environment["MALLOC_ARENA_MAX"] = "1"  # Another arena has address space of its own in reserve.
        run = self.start("--nproc-per-node=2", FAKE_WORKER, "--grandchild-setsid", HELLO,
                         f"--touch={self.path('there')}.%r", f"--wait-file={self.go}", "--spew=4", "--hang",
                         out=pipe.writer)
        self.wait_for(lambda: all(os.path.exists(self.path(f"there.{r}")) for r in "01"), run)
        self.allow_no_more(run.agent())
        open(self.go, "w").close()
        self.assertEqual(run.wait(), 70, run.all())
        self.assertEqual(self.mark.living(), [])
        self.assertRegex(run.err(), r"^ddprun \| error: out of memory \(std::bad_alloc\): ddprun ends with 70, and ends "
                                    r"what it started; is it limited \(ulimit -v, .*\)\?\n$")

    def test_a_server_without_memory_says_so(self):
        server = self.start("rendezvous", f"--listen={self.endpoint}")
        self.wait_for_text(server, "serving at")
        self.allow_no_more(server.process.pid)
        host, port = self.endpoint.split(":")
        clients = []
        self.addCleanup(lambda: [s.close() for s in clients])

        def gone():
            if server.process.poll() is None and len(clients) < 8000:
                try:
                    clients.append(socket.create_connection((host, int(port)), 1))
                except OSError:
                    pass
            return server.process.poll() is not None
        self.wait_for(gone, server)
        self.assertEqual(server.wait(), 70, server.all())
        self.assertIn("ddprun rendezvous | error: out of memory (std::bad_alloc): ddprun ends with 70", server.err())
