"""--preload with the real torch: an unmodified DDP program finds loaded what it will need."""

import re

from torch_runs import LIMIT, TorchTest, program

# Small ones, which Python or torch load for a call; DDP's late modules are a thousand.
SMALL = r"multiprocessing\b.*|torch\.utils\.serialization(\.config)?"


class Preloaded(TorchTest):
    # libtorch's autograd counts devices at the first backward pass of a process.
    def test_nothing_large_is_imported_late_and_a_device_that_a_worker_registers_is_served(self):
        run = self.run_program(2, "late.py", flags=["--preload=imports,report", "--max-restarts=1"])
        # On a busy machine a fork may take longer than is waited for; then nothing is shown here.
        if "did not answer within" in run.err():
            self.skipTest("the preload process was late, and workers started cold")
        for attempt in (0, 1):
            reports = self.reports(attempt)
            self.assertEqual(len(reports), 2, run.all())
            for report in reports:
                self.assertTrue(report["forked"], run.all())
                self.assertEqual(report["refused"], "", run.all())
                self.assertTrue(report["same"])
                self.assertEqual([m for m in report["late"] if not re.fullmatch(SMALL, m)], [])
        self.assertNotIn("--preload not used", run.all())

    def test_the_first_collective_ends_a_recovery_where_no_step_is_reported(self):
        run = self.start("--nproc-per-node=2", "--preload=torch,torch.distributed", "--max-restarts=1",
                         f"--rdzv-id={self.run_id}", program("collective_after_restart.py"))

        def headline():
            asked = self.start("status", f"--rdzv-id={self.run_id}")
            asked.wait()
            return re.search(r"^training: \d+ collectives$", asked.out(), re.M)

        self.wait_for(headline, run, limit=LIMIT)
        open(self.path("fail"), "w").close()
        self.wait_for_text(run, r"recovered in \d+ ms \(.*first step \d+", limit=LIMIT)
        open(self.path("end"), "w").close()
        self.assertEqual(run.wait(LIMIT), 0, run.all())
        self.assertNotIn("run again", run.err())
