"""The reaction of Slurm and ddprun to a host that is lost: the slow part, of which each test
waits until Slurm itself has noticed. Not in every CI run: ctest -C whole."""

import json
import os
import signal

from host_runs import LIMIT, HostsTest, eventually, read_text

from ddprun_runs import TRAIN, command_of

SAMPLES, EPOCHS, BATCH = 48000, 2, 16


class Training(HostsTest):
    """The real trainer, whose collectives hang where a peer is silent."""

    slurmd_timeout = 10

    def program(self):
        return [TRAIN, f"--epochs={EPOCHS}", f"--limit-train={SAMPLES}", f"--batch={BATCH}",
                "--threads=1", "--checkpoint-every=100", f"--checkpoint-dir={self.path('ckpt')}",
                f"--sample-log={self.path('samples')}", "--skew=0:10"]

    def wait_for_steps(self, *told):
        """Beyond the first checkpoint."""
        log = self.path("samples", "generation-1.rank-1.jsonl")
        found = eventually(lambda: read_text(log).count("\n") > 250, 2 * LIMIT)
        self.assertTrue(found, self.told(told))

    def test_the_batch_host_is_off_and_the_requeued_job_resumes(self):
        words = self.quoted(self.agent(program=self.program()))
        job, out = self.batch(f"srun {words}\n", "-N2", "--ntasks-per-node=1", "--requeue")
        self.wait_for_steps(out)
        self.cluster.off("n01")
        self.wait_for_state(job, "COMPLETED 0:0", out, 4 * LIMIT)
        self.assertRegex(read_text(out) + self.words(), r"resumed at step [1-9]\d*00,")
        taken = {}  # Both jobs began with generation 1, in the same files: the last word counts.
        for rank in (0, 1):
            for line in read_text(self.path("samples", f"generation-1.rank-{rank}.jsonl")).splitlines():
                step = json.loads(line)
                taken[step["step"], rank] = [(step["epoch"], sample) for sample in step["samples"]]
        everything = [(epoch, sample) for epoch in range(EPOCHS) for sample in range(SAMPLES)]
        self.assertTrue(sorted(sum(taken.values(), [])) == everything, "a sample is missing, or twice")


class Unnoticed(HostsTest):
    # Only the agent on srun's own host can see that it is gone; the others hear of it from that one.
    def test_srun_vanishes_on_another_host_than_the_workers(self):
        words = self.quoted(self.agent(program=[*self.agent()[-3:-1], "--hang"]))
        job, out = self.batch(f"srun --ntasks-per-node=1 {words}\nexec sleep 600\n", "-N2")
        self.world(2, out)
        pids = [pid for pid in self.mark.living("srun --ntasks") if command_of(pid).startswith("srun")]
        for pid in sorted(pids, reverse=True):  # First its shepherd, which would end the step.
            os.kill(pid, signal.SIGKILL)
        self.wait_for_ends({"n01": 143, "n02": 130}, out)
        self.assertIn("srun has ended, so nothing waits for this step: stopping the workers", self.words("n01"))
        self.assertTrue(self.state(job).startswith("RUNNING"), self.state(job))


class Noticed(HostsTest):
    slurmd_timeout = 10  # And some seconds more.

    def script(self, *srun, agent=()):
        words = " ".join([*srun, self.quoted(self.agent(*agent))])
        return f"srun --kill-on-bad-exit=0 --wait=0 {words}\necho srun ends with $?\n"

    def field(self, job, name):
        words = self.cluster.run("scontrol", "show", "job", job).stdout.split()
        return next((word.split("=", 1)[1] for word in words if word.startswith(name + "=")), "")

    def wait_for_field(self, job, name, value, *told):
        found = eventually(lambda: self.field(job, name) == value, 2 * LIMIT)
        self.assertTrue(found, f"{name} is {self.field(job, name)}, not {value}\n{self.told(told)}")

    def test_with_no_kill_the_job_shrinks_and_ends_well(self):
        job, out = self.batch(self.script("--no-kill", agent=("--nnodes=2:2",)), "-N3",
                              "--ntasks-per-node=1", "--no-kill")
        first, ranks = self.world(2, out)
        self.cluster.off(next(node for node in sorted(ranks.values()) if node != "n01"))
        second, _ = self.world(2, out, after=first)
        self.wait_for_field(job, "NumNodes", "2", out)
        self.assertEqual(max(self.worlds()), second, "Slurm's own news disturbs nobody")
        self.release()
        self.wait_for_state(job, "COMPLETED 0:0", out)
        self.assertIn("srun ends with 0", read_text(out))

    # The run continues to its end without script and srun. The job stays, with nothing in it.
    def test_the_batch_host_is_lost_with_no_kill(self):
        job, out = self.batch(
            self.script("--no-kill", agent=("--nnodes=1:3", f"--run-dir={self.path('shared')}")), "-N3",
            "--ntasks-per-node=1", "--no-kill")
        first, _ = self.world(3, out)
        self.cluster.off("n01")
        second, _ = self.world(2, out, after=first)
        self.wait_for_field(job, "NumNodes", "2", out)
        self.assertEqual(self.field(job, "BatchHost"), "n01")
        self.assertEqual(max(self.worlds()), second, "Slurm's own news disturbs nobody")
        self.release()
        self.wait_for_ends({"n02": 0, "n03": 0}, out)
        self.assertTrue(self.state(job).startswith("RUNNING"), self.state(job))
