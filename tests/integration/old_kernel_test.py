"""Where the kernel is older than the container, or refuses newer calls, workers start, end and restart all the same."""

import os
import re
import signal
import sys
import unittest

SUPPORT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support")
sys.path.insert(0, SUPPORT)

from ddprun_runs import DDPRUN, FAKE_WORKER, DdprunTest  # noqa: E402
from old_kernel import OLD_KERNELS  # noqa: E402


class OldKernel(DdprunTest):
    def start_on(self, kernel, *arguments):
        return self.start(os.path.join(SUPPORT, "old_kernel.py"), kernel, DDPRUN, *arguments, executable=sys.executable)

    def test_workers_have_nothing_open_but_their_three(self):
        for kernel in OLD_KERNELS:
            run = self.start_on(kernel, "--nproc-per-node=2", FAKE_WORKER, "--print-state")
            self.assertEqual(run.wait(), 0, f"{kernel}: {run.all()}")
            self.assertEqual(re.findall(r"fds (.*)", run.out()), ["0 1 2 3"] * 2, f"{kernel}: {run.all()}")

    def test_a_killed_worker_is_replaced_and_term_ends_all(self):
        for kernel in OLD_KERNELS:
            run = self.start_on(kernel, "--nproc-per-node=2", "--max-restarts=1", FAKE_WORKER, "--print=worker %r %g %p", "--hang")
            workers = self.wait_for_workers(run, 2, 1)
            os.kill(workers[0], signal.SIGKILL)
            self.wait_for_workers(run, 2, 2)
            self.terminate(run)


if __name__ == "__main__":
    unittest.main()
