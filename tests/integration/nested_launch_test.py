"""A launch inside a worker is a launch of its own: what configured the outer one does not reach it."""

import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))

from ddprun_runs import DDPRUN, DdprunTest  # noqa: E402

SAY = "echo inner $RANK of $WORLD_SIZE"


class NestedLaunch(DdprunTest):
    def inner(self, *flags, environment=None, command=()):
        """The world of the inner launch, which two outer workers start one each."""
        run = self.run_ddprun("--nproc-per-node=2", *command, "sh", "-c", f"{DDPRUN} {' '.join(flags)} sh -c '{SAY}'",
                              environment=environment)
        return sorted(line for line in run.out().splitlines() if line.startswith("inner"))

    def test_variables_of_flags_stay_with_the_outer_one(self):
        outer = {"PET_NNODES": "1", "DDPRUN_MAX_RESTARTS": "2", "PET_NPROC_PER_NODE": "2", "DDPRUN_NPROC_PER_NODE": "2"}
        self.assertEqual(self.inner(environment=outer), ["inner 0 of 1"] * 2)
        run = self.run_ddprun("sh", "-c", "env | grep -E '^(PET_|DDPRUN_MAX)' || echo none", environment=outer)
        self.assertEqual(run.out().splitlines()[-1], "none")

    def test_a_file_of_settings_stays_with_it_unless_it_is_named(self):
        self.write("ddprun.toml", "nproc-per-node = 2\n")
        self.assertEqual(self.inner(), ["inner 0 of 1"] * 2)
        self.assertEqual(self.inner("--config=ddprun.toml"), ["inner 0 of 2"] * 2 + ["inner 1 of 2"] * 2)

    def test_a_scheduler_that_placed_the_outer_one_places_no_other(self):
        # As the one task of a node in a job of two; the outer launch says that it is alone.
        job = {"SLURM_JOB_ID": "7", "SLURM_STEP_ID": "0", "SLURM_NNODES": "2", "SLURM_JOB_NUM_NODES": "2", "SLURM_NODEID": "0",
               "SLURM_PROCID": "0", "SLURM_LOCALID": "0", "SLURM_NTASKS": "2", "SLURM_STEP_NUM_TASKS": "2", "SLURM_STEP_NUM_NODES": "2",
               "SLURM_JOB_NODELIST": "n[0-1]", "SLURM_STEP_NODELIST": "n[0-1]", "SLURM_NODELIST": "n[0-1]"}
        self.assertEqual(self.inner(environment=job, command=("--standalone",)), ["inner 0 of 1"] * 2)

    def test_standalone_wins_over_an_inherited_number_of_nodes(self):
        run = self.run_ddprun("--standalone", "sh", "-c", SAY, environment={"PET_NNODES": "2", "PET_NODE_RANK": "1"})
        self.assertEqual(run.out(), "inner 0 of 1\n")
        self.ask("--standalone", "--nnodes=2", "true", expect=2)


if __name__ == "__main__":
    unittest.main()
