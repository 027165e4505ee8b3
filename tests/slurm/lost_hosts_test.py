"""The reaction of Slurm and ddprun to a host that is lost: the slow part, of which each test
waits until Slurm itself has noticed. Not in every CI run: ctest -C whole."""

import json

from host_runs import LIMIT, HostsTest, eventually, read_text

from ddprun_runs import TRAIN

SAMPLES, EPOCHS, BATCH = 48000, 2, 16


class LostHosts(HostsTest):
    slurmd_timeout = 10  # And some seconds more.

    # The real trainer, whose collectives hang where a peer is silent.
    def test_the_batch_host_is_off_and_the_requeued_job_resumes(self):
        words = self.quoted(self.agent(program=[
            TRAIN, f"--epochs={EPOCHS}", f"--limit-train={SAMPLES}", f"--batch={BATCH}",
            "--threads=1", "--checkpoint-every=100", f"--checkpoint-dir={self.path('ckpt')}",
            f"--sample-log={self.path('samples')}", "--skew=0:10"]))
        job, out = self.batch(f"srun {words}\n", "-N2", "--ntasks-per-node=1", "--requeue")
        log = self.path("samples", "generation-1.rank-1.jsonl")
        trains = eventually(lambda: read_text(log).count("\n") > 250, 2 * LIMIT)  # Beyond the first checkpoint.
        self.assertTrue(trains, self.told([out]))
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

    def field(self, job, name):
        words = self.cluster.run("scontrol", "show", "job", job).stdout.split()
        return next((word.split("=", 1)[1] for word in words if word.startswith(name + "=")), "")

    # The run continues to its end without script and srun. The job stays, with nothing in it.
    def test_the_batch_host_is_lost_with_no_kill(self):
        words = self.quoted(self.agent("--nnodes=1:3", f"--run-dir={self.path('shared')}"))
        job, out = self.batch(f"srun --kill-on-bad-exit=0 --wait=0 --no-kill {words}\n", "-N3", "--ntasks-per-node=1", "--no-kill")
        first, _ = self.world(3, out)
        self.cluster.off("n01")
        second, _ = self.world(2, out, after=first)
        noticed = eventually(lambda: self.field(job, "NumNodes") == "2", 2 * LIMIT)
        self.assertTrue(noticed, self.told([out]))
        self.assertEqual(self.field(job, "BatchHost"), "n01")
        self.assertEqual(max(self.worlds()), second, "Slurm's own news disturbs nobody")
        self.release()
        self.wait_for_ends({"n02": 0, "n03": 0}, out)
        self.assertTrue(self.state(job).startswith("RUNNING"), self.state(job))
