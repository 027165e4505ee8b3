"""The checks for GPU machines run with a CPU in the GPU's place: gpu_check_test.py BIN [CLASS]"""

import json
import os
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
BIN = sys.argv.pop(1)


class Checks(unittest.TestCase):
    def run_checks(self, *arguments):
        self.out = self.enterContext(tempfile.TemporaryDirectory())
        return subprocess.run([sys.executable, os.path.join(HERE, "gpu_check.py"), f"--bin={BIN}", f"--out={self.out}", "--pretend",
                               "--seconds=0.3", *arguments], capture_output=True, text=True, timeout=280, check=False)

    def results(self):
        with open(os.path.join(self.out, "results.json")) as file:
            return json.load(file)["checks"]


class Every(Checks):
    def test_every_check_that_means_something_on_a_cpu_passes(self):
        done = self.run_checks("--limit=240")
        checks = self.results()
        states = {name: one["status"] for name, one in checks.items()}
        self.assertEqual(done.returncode, 0, done.stdout + json.dumps(checks, indent=1))
        for name in ("facts", "first_training_under_ddprun", "rates_mlp", "deterministic", "checkpoint_moves",
                     "gloo_two_ranks_one_gpu", "recovery_trainer"):
            self.assertEqual(states[name], "ok", done.stdout)
        unknown = [name for name, one in checks.items() if one["status"] == "skipped" and not one["why"]]
        self.assertEqual(unknown, [])


class Refusals(Checks):
    def test_no_time_is_no_failure_and_leaves_results(self):
        done = self.run_checks("--limit=4", "--only=deterministic")
        self.assertEqual(done.returncode, 1, done.stdout)  # Nothing was checked.
        self.assertEqual(self.results()["deterministic"]["status"], "skipped")

    def test_a_folder_without_programs_is_refused(self):
        done = subprocess.run([sys.executable, os.path.join(HERE, "gpu_check.py"), "--bin=/nowhere"], capture_output=True, text=True,
                              timeout=60, check=False)
        self.assertEqual(done.returncode, 2)
        self.assertIn("no ddprun-train in /nowhere", done.stderr)


if __name__ == "__main__":
    unittest.main()
