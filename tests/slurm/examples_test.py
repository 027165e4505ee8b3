"""Every script of examples/slurm runs: literally, but for the line that asks for GPUs. Three of them are
what `ddprun slurm-script` prints, and so does another of its scripts."""

import os
import signal
import subprocess

from slurm_runs import DDPRUN, SAMPLES, TRAINING, SlurmTest, eventually, read_text

from ddprun_runs import TRAIN, command_of

EXAMPLES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "examples", "slurm")
PROGRAM = ("ddprun-train", "--model=mlp")
MADE = {
    "whole-job.sbatch": ("--nodes=4", "--gpus=8"),
    "elastic.sbatch": ("--elastic", "--nodes=4", "--gpus=8", "--name=train-elastic"),
    "array.sbatch": ("--array=10", "--gpus=8", "--time=04:00:00", "--warning=120", "--name=train-array"),
}


def slurm_script(*arguments):
    return subprocess.run([DDPRUN, "slurm-script", *arguments], check=True, capture_output=True,
                          text=True).stdout


class Example(SlurmTest):
    def test_they_are_what_slurm_script_prints(self):
        for name, flags in MADE.items():
            with self.subTest(name):
                self.assertEqual(slurm_script(*flags, *PROGRAM), read_text(os.path.join(EXAMPLES, name)))

    # As a user does: no file of ours, sbatch takes it as it is, and it runs on two nodes.
    def test_a_printed_script_runs(self):
        path, out = self.path("job.sbatch"), self.path("job.out")
        script = slurm_script("--nodes=2", "--nproc-per-node=2", "--time=5", "--name=mine",
                              f"--sbatch=--output={out}", "bash", "-c",
                              'echo "rank $RANK of $WORLD_SIZE for $SLURM_JOB_NAME $1"', "name")
        self.write(path, script)
        self.environment["PATH"] = os.path.dirname(DDPRUN) + ":" + self.environment["PATH"]
        told = self.ask("--parsable", path, "with more", executable="sbatch")
        self.wait_for_state(told.out().strip(), "COMPLETED 0:0", out)
        said = sorted(line for line in read_text(out).splitlines() if line.startswith("rank "))
        self.assertEqual(said, [f"rank {rank} of 4 for mine with more" for rank in range(4)])

    def submit(self, name, *flags, samples=SAMPLES):
        text = read_text(os.path.join(EXAMPLES, name))
        self.assertIn("#SBATCH --gpus-per-node=8\n", text)
        self.environment["PATH"] = ":".join(
            (os.path.dirname(DDPRUN), os.path.dirname(TRAIN), self.environment["PATH"]))
        path, self.out = self.path("job.sh"), self.path("job.out")
        with open(path, "w") as file:
            file.write(text.replace("#SBATCH --gpus-per-node=8\n", ""))
        told = self.ask(
            "--parsable", f"--output={self.out}", "--cpus-per-task=1", *flags, path, *TRAINING,
            f"--limit-train={samples}", f"--sample-log={self.path('samples')}", executable="sbatch")
        return told.out().strip()

    def test_whole_job(self):
        job = self.submit("whole-job.sbatch", "--nodes=2")
        self.wait_for_training(self.out)
        self.cluster.run("scancel", "-s", "USR1", job)
        self.wait_for_state(job, "COMPLETED 0:0", self.out, 90)
        self.assertIn("exit code 75, start this run again", self.assert_went_on(self.out))

    def test_trap(self):
        job = self.submit("trap.sbatch", "--nodes=2")
        self.wait_for_training(self.out)
        self.cluster.run("scancel", "-b", "-s", "USR1", job)
        self.wait_for_state(job, "COMPLETED 0:0", self.out, 90)
        self.assertIn("the job ends soon", self.assert_went_on(self.out))

    def test_elastic(self):
        job = self.submit("elastic.sbatch", "--nodes=4", samples=2 * SAMPLES)
        self.wait_for_training(self.out)
        workers = [pid for pid in self.mark.living("ddprun-train")
                   if "--nnodes" not in command_of(pid) and "job.sh" not in command_of(pid)]
        os.kill(workers[0], signal.SIGKILL)
        self.wait_for_state(job, "COMPLETED 0:0", self.out, 90)
        self.assertIn("(4 ranks,", read_text(self.out))

    def test_array(self):
        job = self.submit("array.sbatch", "--array=0-2%1", samples=SAMPLES // 2)
        self.wait_for_training(self.out)
        self.cluster.run("scancel", "-s", "USR1", f"{job}_0")
        self.assertTrue(eventually(self.cluster.is_empty, 60), read_text(self.out))
        text = self.assert_went_on(self.out)
        self.assertIn("task 1 of array", text)
        self.assertNotIn("task 2 of array", text)
