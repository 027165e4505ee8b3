"""When workers that fail again and again are started anew, and when they are not."""

import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))

from ddprun_runs import DdprunTest  # noqa: E402

# Notes the time of each start, and fails until it was started often enough.
DOWN_FOR_A_WHILE = """
import sys, time
with open("starts", "a") as starts:
    print(time.monotonic(), file=starts)
if len(open("starts").readlines()) < 4:
    sys.exit("the data server does not answer")
"""
LACKS_A_MODULE = """
open("starts", "a").write("start\\n")
import no_such_module_anywhere
"""
REFUSES_ITS_ARGUMENTS = """
import argparse
open("starts", "a").write("start\\n")
argparse.ArgumentParser().parse_args(["--no-such-flag"])
"""


class RestartPolicy(DdprunTest):
    def program(self, text):
        self.write("w.py", text)
        return ["--nproc-per-node=1", sys.executable, "w.py"]

    def starts(self):
        with open(self.path("starts"), encoding="utf-8") as starts:
            return starts.readlines()

    def test_restarts_without_progress_are_spaced_out(self):
        self.run_ddprun("--max-restarts=5", "--restart-backoff=1500ms", *self.program(DOWN_FOR_A_WHILE))
        times = [float(line) for line in self.starts()]
        self.assertEqual(len(times), 4)
        # From start to start, as the agent orders them: a process takes a moment to note its own.
        for before, after in zip(times[1:], times[2:]):
            self.assertGreater(after - before, 1)

    def test_an_error_that_cannot_heal_ends_the_run(self):
        run = self.run_ddprun("--max-restarts=20", *self.program(LACKS_A_MODULE), expect=76)
        self.assertEqual(len(self.starts()), 3)
        self.assertIn("3 times in a row with the same error and without progress", run.err())
        self.assertIn("No module named 'no_such_module_anywhere'", run.err())

    def test_a_usage_error_ends_the_run_with_the_code_for_giving_up(self):
        self.run_ddprun("--max-restarts=20", "--give-up-code=93", *self.program(REFUSES_ITS_ARGUMENTS), expect=93)
        self.assertEqual(len(self.starts()), 3)


if __name__ == "__main__":
    unittest.main()
