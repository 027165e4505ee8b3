"""What ddprun leaves to the srun that it puts before itself: a fake srun says what it finds."""

import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))

from ddprun_runs import DdprunTest  # noqa: E402

JOB = {"SLURM_JOB_ID": "7", "SLURM_JOB_NUM_NODES": "2", "SLURM_NNODES": "2", "SLURM_JOB_NODELIST": "n[0-1]",
       "SLURM_NODELIST": "n[0-1]", "SLURM_TASKS_PER_NODE": "1(x2)", "SLURM_JOB_CPUS_PER_NODE": "2(x2)"}


class Srun(DdprunTest):
    def found(self, **variables):
        self.write(self.path("bin", "srun"), "#!/bin/sh\nenv | grep -E '^SLURM_(TRES|CPU_BIND)' | sort\n", 0o755)
        run = self.ask("true", environment={**JOB, **variables, "PATH": f"{self.path('bin')}:/usr/bin:/bin"})
        self.assertIn("srun was forgotten", run.err())
        return run.out().splitlines()

    def test_the_cpus_of_another_step_are_not_passed_on(self):
        mask = {"SLURM_CPU_BIND": "quiet,mask_cpu:0x1", "SLURM_CPU_BIND_LIST": "0x1", "SLURM_CPU_BIND_TYPE": "mask_cpu:",
                "SLURM_CPU_BIND_VERBOSE": "quiet"}
        self.assertEqual(self.found(**mask, SLURM_TRES_PER_TASK="cpu=2"), [])

    def test_a_kind_of_binding_that_the_user_chose_is(self):
        self.assertEqual(self.found(SLURM_CPU_BIND="cores"), ["SLURM_CPU_BIND=cores"])


if __name__ == "__main__":
    unittest.main()
