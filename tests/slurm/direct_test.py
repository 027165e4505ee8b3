"""The trainer without ddprun: `srun ddprun-train`, `mpirun ddprun-train`; and ddprun by mpirun."""

import os
import re
import shutil

from cluster import find
from slurm_runs import DDPRUN, SlurmTest

from ddprun_runs import FAKE_WORKER, TRAIN, DdprunTest

SHORT = ["--epochs=1", "--limit-train=3200", "--batch=16"]


class Srun(SlurmTest):
    def test_the_trainer_finds_its_rank(self):
        run = self.step("-N2", "--ntasks-per-node=2", TRAIN, *SHORT,
                        f"--checkpoint-dir={self.path('ckpt')}", limit=90)
        self.assertIn("(4 ranks, global batch 64", run.err())
        self.assertRegex(run.err() + run.out(), r"step 50/50 ")


class Mpirun(DdprunTest):
    def setUp(self):
        super().setUp()
        if not shutil.which("mpirun"):
            if os.environ.get("CI") == "true":
                self.fail("Open MPI is not installed")
            self.skipTest("Open MPI is not installed (scripts/setup.sh does)")
        self.environment.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
        hosts = self.write("hosts", "127.0.0.1 slots=4\n")
        self.flags = ["--hostfile", hosts, "-np", "4", "-x", "DDPRUN_TEST_MARK"]

    def mpirun(self, *arguments, limit=90):
        run = self.ask(*self.flags, *arguments, executable=find("mpirun"), limit=limit)
        for name in os.listdir(self.path("tmp")):  # Open MPI's own.
            if name.startswith(("ompi.", "pmix")):
                shutil.rmtree(self.path("tmp", name), ignore_errors=True)
        return run

    def test_each_process_is_one_worker(self):
        pattern = self.path("env.%r")
        run = self.mpirun(DDPRUN, FAKE_WORKER, f"--env-file={pattern}")
        for rank in range(4):
            env = self.environment_of(pattern.replace("%r", str(rank)))
            self.assertEqual((env["RANK"], env["LOCAL_RANK"]), (str(rank), str(rank)))
            self.assertEqual((env["WORLD_SIZE"], env["LOCAL_WORLD_SIZE"]), ("4", "4"))
            self.assertEqual(env["OMPI_COMM_WORLD_RANK"], str(rank))
        self.assertTrue(re.search("Open MPI: worker 3 of 4", run.err()), run.all())

    def test_the_trainer_finds_its_rank(self):
        run = self.mpirun(TRAIN, *SHORT, f"--checkpoint-dir={self.path('ckpt')}")
        self.assertIn("(4 ranks, global batch 64", run.err())
