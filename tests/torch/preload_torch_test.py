"""--preload with the real torch: an unmodified DDP program finds loaded what it will need."""

import re
import unittest

from torch_runs import TorchTest

# Small ones, which Python or torch load for a call; what DDP loads late is a thousand modules.
SMALL = r"multiprocessing\b.*|torch\.utils\.serialization(\.config)?"


class Preloaded(TorchTest):
    def test_nothing_large_is_imported_late(self):
        run = self.run_program(2, "late.py", flags=["--preload=imports", "--max-restarts=1"])
        # On a busy machine a fork may take longer than is waited for; then nothing is shown here.
        if "did not answer within" in run.err():
            self.skipTest("the template was late, and workers started cold")
        for attempt in (0, 1):
            reports = self.reports(attempt)
            self.assertEqual(len(reports), 2, run.all())
            for report in reports:
                self.assertTrue(report["forked"], run.all())
                self.assertTrue(report["same"])
                self.assertEqual([m for m in report["late"] if not re.fullmatch(SMALL, m)], [])
        self.assertNotIn("start cold", run.all())


if __name__ == "__main__":
    unittest.main()
