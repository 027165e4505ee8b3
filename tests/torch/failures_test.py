"""Unmodified programs that die, each in its own way, while their peers wait in a collective."""

import json
import os
import re
import unittest

from torch_runs import TorchTest, read_text


class Death(TorchTest):
    def test_the_exit_code_is_that_of_the_one_who_died(self):
        for way, code, words in (
                ("os._exit", 3, "ended with exit code 3"),
                ("sys.exit", 4, "ended with exit code 4"),
                ("segfault", 139, "was killed by signal 11 (SIGSEGV)"),
                ("killed", 137, "was killed by signal 9 (SIGKILL)")):
            with self.subTest(way):
                run = self.run_program(2, "dies.py", way, expect=code)
                self.assertRegex(run.err(), rf"the run failed: rank 1 .*{re.escape(words)}")

    def test_what_record_wrote_is_kept(self):
        run = self.run_program(2, "dies.py", "raise", expect=1,
                               flags=[f"--log-dir={self.path('logs')}"])
        self.assertRegex(run.err(), r"the run failed: rank 1 .*ended with exit code 1")
        self.assertIn("ValueError: no such layer: conv9", run.err())
        run_folder, = os.listdir(self.path("logs"))
        told = json.loads(read_text(self.path("logs", run_folder, "attempt_0", "1", "error.json")))
        self.assertEqual(told["message"]["message"], "ValueError: no such layer: conv9")
        self.assertIn("dies.py", told["message"]["extraInfo"]["py_callstack"])


class Restart(TorchTest):
    # Under torchrun the second attempt sees the first one's keys, and counters go on from there.
    def test_every_attempt_has_a_store_of_its_own(self):
        run = self.run_program(2, "restarts.py", flags=["--max-restarts=1"])
        self.assertIn("restarting all workers (1 of 1)", run.err())
        for attempt in (0, 1):
            told = self.reports(attempt)
            self.assertEqual(sorted(r["counted"] for r in told), [1, 2], run.all())
            self.assertEqual([(r["left"], r["total"]) for r in told], [(False, 2.0)] * 2)


if __name__ == "__main__":
    unittest.main()
