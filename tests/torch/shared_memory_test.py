"""No run leaves shared memory behind, by whichever strategy torch shares it and however it ends."""

import os
import re

from torch_runs import LIMIT, TorchTest, program


class SharedMemory(TorchTest):
    def left(self, run):
        pids = re.findall(r"shares \d \d (\d+)", run.out())
        self.assertTrue(pids, run.all())
        left = [os.path.join("/dev/shm", name) for name in os.listdir("/dev/shm")
                if any(name.startswith(f"torch_{pid}_") for pid in pids)]
        for path in left:
            os.unlink(path)
        return left

    def check(self, *arguments, flags=(), expect=0):
        run = self.run_ddprun("--nproc-per-node=2", *flags, program("shares.py"), *arguments,
                              expect=expect, limit=LIMIT)
        self.assertEqual(self.left(run), [], run.all())

    def test_a_run_that_ends_well(self):
        self.check("file_descriptor", "well")

    def test_killed_workers_and_restarts_of_a_run_that_fails(self):
        self.check("file_system", "5", "kill", flags=["--preload=torch", "--max-restarts=1"], expect=137)
