"""A worker's death is known before the process can be waited for: its peers stop, and its end is reported when it
has come.

A debugger holds the dead worker here, as the kernel does while it takes gigabytes back.
"""

import ctypes
import os
import signal
import sys
import unittest

from ddprun_runs import TRAIN, DdprunTest, read_text

PTRACE_SEIZE = 0x4206
# Rank 0 says that it was asked to end, and ends.
WORKER = """
import os, signal
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
print("worker", os.environ["RANK"], os.environ["DDPRUN_GENERATION"], os.getpid(), flush=True)
"""
UNTIL_TERM = """
signal.sigwait([signal.SIGTERM])
print("told", flush=True)
"""


def hold(pid):
    """No other process can wait for it before `let_go`."""
    call = ctypes.CDLL(None, use_errno=True).ptrace
    call.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
    if call(PTRACE_SEIZE, pid, None, None) != 0:
        raise unittest.SkipTest("may not trace: " + os.strerror(ctypes.get_errno()))


def let_go(pid):
    os.waitpid(pid, 0)


class KnownDeath(DdprunTest):
    def setUp(self):
        super().setUp()
        self.environment["PYTHON_EXEC"] = sys.executable

    def worker(self, text):
        return self.write("worker.py", WORKER + text)

    def peer_stops_first(self, peers, run, pid, code=137):
        hold(pid)
        os.kill(pid, signal.SIGKILL)
        self.wait_for(lambda: "told" in peers.out(), peers, run, what="the peer's stop")
        let_go(pid)
        self.all_end({peers, run}, code)
        self.assertRegex(run.err(), r"rank 1 \(local rank \d, pid %d, host \S+\) was killed by signal 9" % pid)

    def test_the_peer_stops_while_it_cannot_be_waited_for(self):
        run = self.start("--nproc-per-node=2", self.worker(UNTIL_TERM))
        self.peer_stops_first(run, run, self.wait_for_workers(run, 2)[1])

    def test_so_it_does_where_workers_are_forked(self):
        run = self.start("--nproc-per-node=2", "--preload=json", self.worker(UNTIL_TERM))
        pid = self.wait_for_workers(run, 2)[1]
        self.assertIn("ddprun-life", read_text(f"/proc/{pid}/maps"))
        self.peer_stops_first(run, run, pid)

    def test_so_it_does_on_another_node(self):
        where = ["--nnodes=2", f"--rdzv-id={self.run_id}", f"--rdzv-endpoint={self.free_endpoint()}"]
        runs = [self.start(*where, f"--node-rank={i}", self.worker(UNTIL_TERM)) for i in range(2)]
        pid = [self.wait_for_workers(run, 1) for run in runs][1][1]
        self.peer_stops_first(*runs, pid)

    @unittest.skipUnless(TRAIN, "needs ddprun-train")
    def test_the_trainer_takes_its_lock(self):
        for how in ("none", "auto"):
            run = self.start("--nproc-per-node=1", f"--preload={how}", TRAIN, "--epochs=100000", "--threads=1")
            pid = self.wait_for(lambda: next(iter(self.trainers()), None), run)
            self.wait_for(lambda at=pid: "ddprun-life" in read_text(f"/proc/{at}/maps"), run)
            self.terminate(run)
