"""Workers whose peer has failed: who saves has time for it, who does nothing has not, and none is forgotten."""

import os
import sys
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))

from ddprun_runs import DdprunTest  # noqa: E402

TWO = "--nproc-per-node=2"
STOP_GRACE = 5  # Seconds from TERM to KILL after a failure, of workers that do nothing.
LONGER = STOP_GRACE + 1
# Waits for its child, whatever it hears meanwhile.
SHELL = ("sh", "-c", 'trap : TERM; "$@" & wait $!; code=$?; [ $code -le 128 ] || { wait $!; code=$?; }; exit $code',
         "sh")
# Rank 0 fails once rank 1 has its handler; rank 1 does then what `save` says.
PROGRAM = """
import os, pathlib, signal, sys, threading, time
place, life = pathlib.Path(sys.argv[1]), os.environ["TORCHELASTIC_RESTART_COUNT"]
ready, saved = place / ("ready." + life), place / ("saved." + life)
told, seconds = threading.Event(), float(sys.argv[3])
def until_over():
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        yield
def compute():
    for _ in until_over():
        pass
def write():
    with open(place / "checkpoint", "wb", buffering=0) as file:
        for _ in until_over():
            file.write(b"x")
            told.wait(0.2)
def rest():
    told.wait(seconds)
def child():  # The interpreter itself only waits.
    if os.fork() == 0:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        compute()
        os._exit(0)
    os.wait()
def save(*_):
    %s
    saved.touch()
    os._exit(0)
if life != "0":
    sys.exit(0)
if os.environ["RANK"] == "0":
    while not ready.exists(): pass
    sys.exit(3)
signal.signal(signal.SIGTERM, save)
ready.touch()
while True: signal.pause()
"""


class LastSave(DdprunTest):
    def fail_beside(self, what, *flags, seconds=LONGER, expect=3, wrapper=()):
        path = self.path("save.py")
        with open(path, "w") as file:
            file.write(PROGRAM % what)
        command = ["--no-python", *wrapper, sys.executable, path]
        start = time.monotonic()
        run = self.run_ddprun(TWO, *flags, *command, self.directory, what, str(seconds), expect=expect,
                              limit=STOP_GRACE + 40)
        return run, time.monotonic() - start

    def saved(self):
        return os.path.exists(self.path("saved.0"))

    def test_one_that_computes_has_longer_than_one_that_does_nothing(self):
        run, _ = self.fail_beside("compute()")
        self.assertTrue(self.saved(), run.all())
        self.assertIn("workers that were told to end are still active: they have 30.0 s in all", run.err())
        self.assertNotIn("have not ended in time", run.err())

    def test_one_that_writes_now_and_then_does_too(self):
        run, _ = self.fail_beside("write()")
        self.assertTrue(self.saved(), run.all())

    def test_the_handler_may_be_gone_by_then(self):
        run, _ = self.fail_beside("signal.signal(signal.SIGTERM, signal.SIG_IGN); compute()")
        self.assertTrue(self.saved(), run.all())

    def test_the_worker_may_be_a_shell(self):
        run, _ = self.fail_beside("compute()", wrapper=SHELL)
        self.assertTrue(self.saved(), run.all())

    def test_its_child_may_do_the_work(self):
        run, _ = self.fail_beside("child()")
        self.assertTrue(self.saved(), run.all())

    def test_before_a_restart_too(self):
        run, _ = self.fail_beside("compute()", "--max-restarts=1", expect=0)
        self.assertTrue(self.saved(), run.all())

    def test_one_that_does_nothing_is_killed(self):
        run, took = self.fail_beside("rest()", seconds=3600)
        self.assertIn("1 workers have not ended in time: killing them", run.err())
        self.assertLess(took, 30)

    def test_a_timeout_that_is_set_counts_for_whatever_the_worker_does(self):
        run, _ = self.fail_beside("rest()", "--shutdown-timeout=20")
        self.assertTrue(self.saved(), run.all())
        self.assertNotIn("still active", run.err())

    def test_a_short_one_counts_for_who_works_too(self):
        run, took = self.fail_beside("compute()", "--shutdown-timeout=0.2", seconds=3600)
        self.assertFalse(self.saved())
        self.assertLess(took, STOP_GRACE)
        self.assertIn("have not ended in time", run.err())

    # Where nothing is set the shutdown timeout is the most that anybody gets.
    def test_the_time_of_one_that_works_ends_too(self):
        run, took = self.fail_beside("compute()", seconds=3600)
        self.assertGreater(took, 29)
        self.assertIn("1 workers have not ended in time: killing them", run.err())

    # As an interpreter on its way out: its handlers are gone, and it waits for what never comes.
    def test_who_no_longer_catches_it_gets_it_again(self):
        run, _ = self.fail_beside("signal.signal(signal.SIGTERM, signal.SIG_DFL); rest()", seconds=3600)
        self.assertNotIn("have not ended in time", run.err())

    def test_below_a_shell_too(self):
        run, _ = self.fail_beside("signal.signal(signal.SIGTERM, signal.SIG_DFL); rest()", seconds=3600,
                                  wrapper=SHELL)
        self.assertNotIn("have not ended in time", run.err())


if __name__ == "__main__":
    unittest.main(verbosity=2)
