"""Programs of DeepSpeed and torchft, and ddprun as a role of TorchX."""

import os
import sys

from torch_runs import DDPRUN, LIMIT, TorchTest, program

COMMANDS = os.path.join(os.environ["PYTHONPATH"].split(":")[0], "bin")


class DeepSpeed(TorchTest):
    def test_it_continues_from_its_checkpoint_when_a_worker_was_killed(self):
        self.run_program(2, "deepspeed_resumes.py", flags=["--max-restarts=1"])
        self.assertEqual(self.reports(), [])
        told = self.reports(attempt=1)
        self.assertEqual([(r["world"], r["start"], r["stage"]) for r in told], [(2, 10, 2)] * 2)
        self.assertEqual(len({r["parameters"] for r in told}), 1, told)


class Torchft(TorchTest):
    def start_group(self, number, lighthouse):
        os.mkdir(self.path(f"group{number}"))
        return self.start("--nproc-per-node=2", f"--rdzv-id=group-{number}", "--max-restarts=1", program("replica_groups.py"),
                          environment={"REPORTS": self.path(f"group{number}"), "TORCHFT_LIGHTHOUSE": f"http://{lighthouse}"})

    def reports_of(self, number, attempt):
        self.reports_folder = self.path(f"group{number}")
        return self.reports(attempt)

    def test_a_group_continues_while_another_is_restarted(self):
        endpoint = self.free_endpoint()
        # It forgets a lost group sooner than the group can be back.
        lighthouse = self.start(os.path.join(COMMANDS, "torchft_lighthouse"), "--min_replicas=1", f"--bind={endpoint}",
                                "--heartbeat_timeout_ms=1000", "--join_timeout_ms=1000", executable=sys.executable)
        groups = [self.start_group(number, endpoint) for number in (0, 1)]
        self.all_end(groups, limit=LIMIT)
        lighthouse.process.terminate()
        lighthouse.wait()
        self.assertNotIn("restarting", groups[0].all())
        stayed, back = self.reports_of(0, attempt=0), self.reports_of(1, attempt=1)
        self.assertEqual([len(stayed), len(back)], [2, 2])
        for one, other in zip(stayed, back):
            self.assertTrue(other["healed"])
            self.assertEqual((one["steps"], one["parameters"]), (other["steps"], other["parameters"]))


class TorchX(TorchTest):
    def run_torchx(self, *arguments):
        """By its scheduler for this machine, whose roles find their programs by PATH."""
        paths = [os.path.dirname(DDPRUN), os.environ["PATH"]]
        run = self.start(os.path.join(COMMANDS, "torchx"), "run", "-s", "local_cwd", "utils.sh", "ddprun", *arguments,
                         executable=sys.executable, environment={"PATH": ":".join(paths), "HOME": self.directory})
        run.wait(LIMIT)
        return run

    def test_ddprun_is_a_role_whose_end_is_the_applications(self):
        run = self.run_torchx("--nproc-per-node=2", program("tutorial.py"))
        self.assertIn("Job finished: SUCCEEDED", run.err())
        self.assertEqual([r["world"] for r in self.reports()], [2, 2])

    def test_it_shows_the_error_of_the_worker_that_failed(self):
        run = self.run_torchx("--nproc-per-node=2", program("raises.py"))
        self.assertIn("Job finished: FAILED", run.err())
        self.assertIn("message: 'ValueError: boom'", run.err())
