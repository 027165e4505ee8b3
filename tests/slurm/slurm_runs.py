"""The shared parts of the tests with a real Slurm: one cluster per file of tests, srun and
sbatch in it."""

import atexit
import os
import re
import subprocess
import unittest

from cluster import Cluster, lacking
from ddprun_runs import DDPRUN, DdprunTest, eventually, read_text
from sample_audit import audit_samples

NODES = 4
LIMIT = 40  # Seconds, of a step.
SAMPLES = 8000
STEPS = 2 * SAMPLES // 32  # Two epochs, two ranks with a batch of 16 each.
TRAINING = ("--epochs=2", "--batch=16", "--checkpoint-every=100000",
            "--skew=0:10")  # Else a fast machine may have trained all before Slurm acts.


def port_of(job):
    """As launcher/environment has it: where a step's nodes meet."""
    value = 2166136261
    for byte in job.encode():
        value = (value ^ byte) * 16777619 % 2**32
    return 20000 + value % 10000


def skip_without_slurm():
    if lacking():
        if os.environ.get("CI") == "true":
            raise RuntimeError(lacking())
        raise unittest.SkipTest(lacking())


class SlurmTest(DdprunTest):
    cluster = None

    @classmethod
    def setUpClass(cls):
        skip_without_slurm()
        cls.cluster = cls.begin()
        atexit.register(cls.cluster.down)

    @classmethod
    def begin(cls):
        return Cluster(NODES).up()

    @classmethod
    def tearDownClass(cls):
        if cls.cluster:
            cls.cluster.down()
            atexit.unregister(cls.cluster.down)

    def setUp(self):
        super().setUp()
        self.environment.update(SLURM_CONF=self.cluster.conf,
                                PATH=self.cluster.environment()["PATH"])
        self.addCleanup(self._end_jobs)  # Before what is left is looked for.

    def _end_jobs(self):
        self.assertTrue(self.cluster.cancel_jobs(), "jobs do not end")

    def srun(self, *arguments, environment=None):
        """A step in a job of its own, by srun's arguments."""
        program, *rest = self.cluster.command(self.directory, "srun", *arguments)
        return self.start(*rest, environment=environment, executable=program)

    def step(self, *arguments, expect=0, environment=None, limit=LIMIT):
        run = self.srun(*arguments, environment=environment)
        self.assertEqual(run.wait(limit), expect, run.all())
        return run

    def batch(self, script, *flags):
        """Submits a script; its number, and where its output goes."""
        path, out = self.path("job.sh"), self.path("job.out")
        self.write(path, "#!/bin/bash\n" + script)
        told = subprocess.run(
            self.cluster.command(self.directory, "sbatch", "--parsable", "--open-mode=append",
                                 f"--output={out}", *flags, path),
            env=self.environment, cwd=self.directory, text=True, capture_output=True, timeout=20,
            check=False)
        self.assertEqual(told.returncode, 0, told.stderr)
        return told.stdout.strip(), out

    def state(self, job):
        """"COMPLETED 0:0", as Slurm has it; empty once it has forgotten the job."""
        words = dict(word.split("=", 1) for word in
                     self.cluster.run("scontrol", "show", "job", job).stdout.split() if "=" in word)
        return f"{words.get('JobState', '')} {words.get('ExitCode', '')}"

    def wait_for_state(self, job, state, out, limit=LIMIT):
        found = eventually(lambda: self.state(job).startswith(state), limit)
        self.assertTrue(found, f"job {job} is {self.state(job)}, not {state}\n{read_text(out)}")

    def wait_for_training(self, out):
        found = eventually(lambda: re.search(r" step ([2-9]\d|\d{3,})/", read_text(out)), 60)
        self.assertTrue(found, read_text(out))

    def assert_went_on(self, out):
        """No step of the trainer's sample log is taken twice, none is left out. The job's output."""
        text = read_text(out)
        [stopped] = re.findall(r"saved at step (\d+)", text)
        self.assertIn(f"resumed at step {stopped},", text)
        self.assertEqual(audit_samples(self.path("samples")).steps_taken, STEPS, text)
        return text

    def environments(self, pattern, count):
        """Of all workers, by rank."""
        return [self.environment_of(pattern.replace("%r", str(rank))) for rank in range(count)]

    def workers_pattern(self):
        return self.path("env.%r")


__all__ = ["DDPRUN", "LIMIT", "NODES", "SAMPLES", "TRAINING", "SlurmTest", "eventually", "port_of", "read_text",
           "skip_without_slurm"]
