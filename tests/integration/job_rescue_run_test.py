"""A Slurm job whose batch script is gone with its host: a surviving agent starts it again, or ends it.

Slurm is a scontrol of the test's own here: what it answers, and what it was asked, are files.
"""

import os
import signal
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))

from ddprun_runs import FAKE_WORKER, HELLO, DdprunTest, eventually, read_text  # noqa: E402

JOB = "JobId=7 JobName=t JobState=RUNNING Requeue=1 Restarts=1 BatchFlag=1 BatchHost=n00 Command=a b.sh"
# A job's id gives its port, so each run of this test has loopback addresses of its own.
NETWORK = f"127.{1 + os.getpid() // 250 % 250}.{1 + os.getpid() % 250}"
HOSTS = f"{NETWORK}.1,{NETWORK}.2"


class Rescue(DdprunTest):
    def setUp(self):
        super().setUp()
        self.calls = self.path("calls")
        programs = self.path("programs")
        os.mkdir(programs)
        for name in ("scontrol", "scancel"):
            path = os.path.join(programs, name)
            with open(path, "w") as file:
                file.write(f'#!/bin/sh\necho "{name} $*" >>{self.calls}\n'
                           f'[ "$1" = --oneliner ] && cat "{self.directory}/$3"\nexit 0\n')
            os.chmod(path, 0o755)
        self.environment["PATH"] = programs + ":" + self.environment["PATH"]
        self.answer(JOB, "NodeName=n00 State=DOWN* ThreadsPerCore=1")

    def answer(self, job, node):
        for name, text in (("job", job), ("node", node)):
            with open(self.path(name), "w") as file:
                file.write(text + "\n")

    def task(self, index, *arguments):
        return self.start(*arguments, environment={
            "SLURM_JOB_ID": "7", "SLURM_STEP_ID": "0", "SLURM_STEP_NUM_NODES": "2",
            "SLURM_STEP_NUM_TASKS": "2", "SLURM_STEP_NODELIST": HOSTS,
            "SLURM_STEP_TASKS_PER_NODE": "1(x2)", "SLURM_NODEID": str(index), "SLURM_PROCID": str(index),
            "SLURM_LOCALID": "0", "SLURMD_NODENAME": f"n0{index}", "SLURM_RESTART_COUNT": "1"})

    def without_rendezvous(self):
        """The second node alone: its first one, with the server, is gone."""
        run = self.task(1, "--rdzv-conf=join_timeout=1", FAKE_WORKER)
        self.assertEqual(run.wait(), 69, run.all())
        return run

    def acts(self):
        return [line for line in read_text(self.calls).splitlines() if "--oneliner" not in line]

    def test_a_run_that_cannot_go_on_is_requeued(self):
        run = self.without_rendezvous()
        self.assertEqual(self.acts(), ["scontrol requeue 7"])
        self.assertIn("n00, is lost: nobody waits for this step. It ended with 69: scontrol requeue 7",
                      run.err())
        [directory] = os.listdir(self.path("ddprun_logs"))
        self.assertIn("scontrol requeue 7", read_text(self.path("ddprun_logs", directory, "rescue.txt")))

    def test_a_job_whose_script_lives_is_left_alone(self):
        self.answer(JOB, "NodeName=n00 State=MIXED ThreadsPerCore=1")
        run = self.without_rendezvous()
        self.assertEqual(self.acts(), [])
        self.assertIn("left alone: the host of its batch script, n00, is MIXED", run.err())

    def test_a_job_that_was_started_again_is_left_alone(self):
        self.answer(JOB.replace("Restarts=1", "Restarts=2"), "NodeName=n00 State=DOWN*")
        self.without_rendezvous()
        self.assertEqual(self.acts(), [])

    # In place, and to the end: the script's nodes would be held until the time limit.
    def test_what_went_on_without_its_script_is_ended(self):
        go, shared = self.path("go"), self.path("shared")
        flags = ["--nnodes=1:2", f"--run-dir={shared}", "--rdzv-conf=last_call_timeout=60",
                 FAKE_WORKER, HELLO, f"--wait-file={go}"]
        first = self.task(0, *flags)
        self.wait_for_text(first, "serving the rendezvous")
        second = self.task(1, *flags)
        self.wait_for_workers(first, 1)
        self.wait_for_workers(second, 1)
        formed = second.generations()
        lost = [first.agent(), first.process.pid, *first.workers().values()]
        for pid in lost:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        first.wait()
        again = self.wait_for(lambda: second.generations()[len(formed):], second, limit=60)[0]
        self.wait_for_workers(second, 1, again)
        with open(go, "w"):
            pass
        self.assertEqual(second.wait(60), 0, second.all())
        self.assertTrue(eventually(lambda: self.acts() == ["scancel 7"]), second.all())

    def test_an_ordinary_end_asks_nothing(self):
        runs = [self.task(index, "--rdzv-conf=join_timeout=60", FAKE_WORKER) for index in (0, 1)]
        for run in runs:
            self.assertEqual(run.wait(60), 0, run.all())
        self.assertFalse(os.path.exists(self.calls))


if __name__ == "__main__":
    unittest.main(verbosity=2)
