"""--progress-from: what workers print is read, and goes where it went."""

import os
import pathlib
import re

from ddprun_runs import DdprunTest

# A step, a bar, a line without an end, and what is no progress; to both streams, with all bytes.
PRINTS = r"""
printf 'step: 1  loss: 7.4\nlong \001\033[31mred\033[0m\n'
printf '\r 20%%|##   | 1/5 [00:00<00:00,  6.66it/s]\r 40%%|##   | 2/5 [00:00<00:00,  6.66it/s]\n' >&2
printf 'no end'
"""
STEPS = "printf 'step: 7\n'; until [ -e go ]; do read -t 0.1 nothing <> fifo; done; exit 0"


class Progress(DdprunTest):
    def ran(self, number, *flags):
        """Console and files of a run of what PRINTS."""
        logs = self.path(f"logs{number}")
        run = self.run_ddprun(f"--log-dir={logs}", *flags, "--no-python", "/bin/sh", "-c", PRINTS)
        files = {str(path).split("attempt_")[1]: path.read_bytes() for path in pathlib.Path(logs).rglob("*.log")}
        return sorted(run.out().splitlines()), sorted(run.err().splitlines()), files

    def test_output_that_is_read_goes_where_it_went(self):
        for number, flags in enumerate((
                ["--nproc-per-node=1"], ["--nproc-per-node=2"], ["--nproc-per-node=2", "--redirects=3"],
                ["--nproc-per-node=2", "--tee=3"], ["--nproc-per-node=2", "--redirects=1", "--local-ranks-filter=0"])):
            with self.subTest(flags=flags):
                before = self.ran(2 * number, *flags)
                self.assertEqual(self.ran(2 * number + 1, *flags, "--progress-from=auto"), before)

    def test_status_shows_the_step_that_was_printed(self):
        os.mkfifo(self.path("fifo"))
        for flags in ([], ["--redirects=3", f"--log-dir={self.path('logs')}"]):
            with self.subTest(flags=flags):
                pathlib.Path(self.path("go")).unlink(missing_ok=True)
                run = self.start("--nproc-per-node=2", r"--progress-from=step[ =:]+(\d+)", f"--rdzv-id={self.run_id}",
                                 *flags, "--no-python", "/bin/bash", "-c", STEPS)
                self.wait_for(lambda: self.told_step() == (7, "printed"), run)
                pathlib.Path(self.path("go")).touch()
                self.assertEqual(run.wait(), 0, run.all())

    def told_step(self):
        told = self.status()
        return told and (told["nodes"][0].get("step"), told["nodes"][0].get("step_source"))

    # Fails once; then takes no step before `go` is there.
    AGAIN = """
wait_for() { until [ -e $1 ]; do read -t 0.1 nothing <> fifo; done; }
[ $TORCHELASTIC_RESTART_COUNT = 0 ] && { $FIRST wait_for fail; exit 3; }
touch again; wait_for go; echo 'step: 2'; wait_for end
"""

    def recovers(self, first, *flags):
        os.mkfifo(self.path("fifo"))
        run = self.start("--nproc-per-node=1", "--max-restarts=1", f"--rdzv-id={self.run_id}", *flags, "--no-python",
                         "/bin/bash", "-c", self.AGAIN.replace("$FIRST", first))
        if first:
            self.wait_for(lambda: self.told_step() == (1, "printed"), run)
        pathlib.Path(self.path("fail")).touch()
        self.wait_for(lambda: os.path.exists(self.path("again")), run)
        return run

    def test_a_recovery_ends_with_the_first_step_that_is_printed(self):
        run = self.recovers("echo 'step: 1';", r"--progress-from=step[ =:]+(\d+)")
        self.assertNotRegex(run.err(), "recovered|run again")
        pathlib.Path(self.path("go")).touch()
        self.wait_for_text(run, r"recovered in \d+ ms \(.*first step \d+")
        self.assertGreater(self.status()["goodput"], 0)
        self.terminate(run)
        self.assertEqual(len(re.findall("recovered in", run.err())), 1)

    def test_ranks_that_print_no_more_steps_hang(self):
        os.mkfifo(self.path("fifo"))
        run = self.run_ddprun("--nproc-per-node=2", "--progress-from=auto", "--hang-timeout=1s", "--max-restarts=0",
                              "--no-python", "/bin/bash", "-c", STEPS, expect=124)
        self.assertIn("no step printed for 1.0 s (all 2 ranks are at step 7; which of them is to blame is unknown)",
                      run.err())
