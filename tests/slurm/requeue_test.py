"""A run that a scheduler stops is saved and continues: requeue and preemption, with
ddprun-train.

The oracle is the trainer's sample log: no step is taken twice, none is left out.
"""

import os

from slurm_runs import DDPRUN, SAMPLES, TRAINING, SlurmTest

from ddprun_runs import TRAIN

REQUEUE = "rc=$?; [ $rc = 75 ] && exec scontrol requeue $SLURM_JOB_ID; exit $rc\n"


class Requeued(SlurmTest):
    def submit(self, *flags):
        training = (f"{TRAIN} {' '.join(TRAINING)} --limit-train={SAMPLES} --checkpoint-dir={self.path('ckpt')} "
                    f"--sample-log={self.path('samples')}")
        return self.batch(
            "echo begins with restart count ${SLURM_RESTART_COUNT:-0}\n"
            f"srun --kill-on-bad-exit=0 --wait=0 {DDPRUN} {training}\n" + REQUEUE,
            "--nodes=2", "--ntasks-per-node=1", "--requeue", *flags)

    def assert_requeued(self, job, out):
        self.wait_for_state(job, "COMPLETED 0:0", out, 90)
        text = self.assert_went_on(out)
        self.assertIn(f"Slurm step {job}.0, requeued 1 time: node 0 of 2", text)
        return text

    # TERM comes at once, and twice more when the grace of the partition is over. A job that has ended
    # by then is not requeued by Slurm itself: the script's last line does it.
    def test_preempted_it_loses_no_step(self):
        job, out = self.submit("--partition=low")
        self.wait_for_training(out)
        other, _ = self.other_job()
        self.wait_for_state(job, "PENDING", out)
        self.cluster.run("scancel", other)
        self.assert_requeued(job, out)

    def other_job(self):
        path = self.write("other.sh", "#!/bin/bash\nexec sleep 600\n")
        told = self.cluster.run("sbatch", "--parsable", "--partition=high", "--nodes=4", "--exclusive",
                                "--output=/dev/null", path)
        self.assertEqual(told.returncode, 0, told.stderr)
        return told.stdout.strip(), path

    # Slurm says nothing by itself: squeue tells how long the job has, and the agents stop in time. Here
    # it answers once the training is on its way, and the second time that nothing ends.
    def test_a_job_that_knows_its_end_stops_before(self):
        go, path = self.path("go"), self.path("bin")
        self.write(os.path.join(path, "squeue"), "#!/bin/sh\n[ -n \"$SLURM_RESTART_COUNT\" ] && exec echo UNLIMITED\n"
                           f"while [ ! -e {go} ]; do sleep 0.1; done\necho \"$@\" >&2\necho 5:01\n", 0o755)
        self.environment["PATH"] = path + ":" + self.environment["PATH"]
        self.environment["DDPRUN_STOP_BEFORE"] = "5m"
        job, out = self.submit()
        self.wait_for_training(out)
        open(go, "w").close()
        text = self.assert_requeued(job, out)
        self.assertIn("the job ends in 5 min 01 s (squeue); the workers are asked to save 5 min 00 s before", text)
        self.assertRegex(text, r"the job ends in \d min \d\d s \(--stop-before\): the workers have 30.0 s to save")
        self.assertIn("saved: exit code 75, start this run again", text)
        self.assertIn("ignoring --stop-before: the job's end time is unknown (squeue: it printed 'UNLIMITED')", text)

    def test_a_job_that_fails_is_not_requeued(self):
        job, out = self.batch(f"srun {DDPRUN} {TRAIN} --model=nonsense\n" + REQUEUE, "--nodes=2",
                              "--ntasks-per-node=1", "--requeue")
        self.wait_for_state(job, "FAILED 2:0", out)
