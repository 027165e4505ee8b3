"""Workers whose peer has failed: who saves has time for it, who does nothing has not, and none is forgotten."""

import os
import sys
import time

from ddprun_runs import DdprunTest

TWO = "--nproc-per-node=2"
STOP_GRACE = 5  # Seconds from TERM to KILL after a failure, of workers that do nothing.
LONGER = STOP_GRACE + 1
# Waits for its child, whatever it hears meanwhile.
SHELL = ("sh", "-c", 'trap : TERM; "$@" & wait $!; code=$?; [ $code -le 128 ] || { wait $!; code=$?; }; exit $code',
         "sh")
# Ends of TERM at once, and leaves its child behind.
PLAIN_SHELL = ("sh", "-c", '"$@"; exit $?', "sh")
# Rank 0 fails once rank 1 has its handler; rank 1 does then what `save` says.
PROGRAM = """
import os, pathlib, signal, sys, threading, time
place, life = pathlib.Path(sys.argv[1]), os.environ["TORCHELASTIC_RESTART_COUNT"]
ready, saved = place / ("ready." + life), place / ("saved." + life)
never, seconds = threading.Event(), float(sys.argv[3])
def until_over():
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        yield
def compute():  # A fifth of a core, which is far more than threads that only wait use.
    for _ in until_over():
        sum(range(1000000))
        never.wait(0.1)
def write():
    with open(place / "checkpoint", "wb", buffering=0) as file:
        for _ in until_over():
            file.write(b"x")
            never.wait(0.2)
def rest():
    never.wait(seconds)
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
    while not ready.exists(): never.wait(0.01)
    sys.exit(3)
signal.signal(signal.SIGTERM, save)
ready.touch()
while True: signal.pause()
"""

# Tells of a second signal.
ONCE = """
import os, signal, sys
place, rank = sys.argv[1], os.environ["RANK"]
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
open(os.path.join(place, "ready." + rank), "w").close()
if rank == "0":
    while sum(name.startswith("ready.") for name in os.listdir(place)) < int(os.environ["WORLD_SIZE"]):
        signal.sigtimedwait([], 0.01)
    sys.exit(3)
signal.sigwait({signal.SIGTERM})
if signal.sigtimedwait({signal.SIGTERM}, 1):
    open(os.path.join(place, "again." + rank), "w").close()
"""


class LastSave(DdprunTest):
    def start_beside(self, name, what, *flags, seconds=LONGER, wrapper=()):
        """A run in a folder of its own, whose rank 0 fails."""
        place = self.path(name)
        self.write(os.path.join(place, "save.py"), PROGRAM % what)
        return self.start(TWO, *flags, "--no-python", *wrapper, sys.executable, os.path.join(place, "save.py"), place, what,
                          str(seconds))

    def ends(self, run, expect=3):
        self.assertEqual(run.wait(STOP_GRACE + 40), expect, run.all())

    def saved(self, name):
        return os.path.exists(self.path(name, "saved.0"))

    def test_one_that_is_active_has_longer_than_one_that_does_nothing(self):
        """Beside each other: each takes its six seconds."""
        ways = {"computes": ("compute()",), "writes now and then": ("write()",), "has a child that works": ("child()",),
                "has no handler by then": ("signal.signal(signal.SIGTERM, signal.SIG_IGN); write()",)}
        runs = {name: self.start_beside(name, *way) for name, way in ways.items()}
        runs["is a shell"] = self.start_beside("is a shell", "write()", wrapper=SHELL)
        below = "is below a shell that has ended"
        runs[below] = self.start_beside(below, "write()", wrapper=PLAIN_SHELL)
        runs["is started again"] = self.start_beside("is started again", "write()", "--max-restarts=1")
        for name, run in runs.items():
            with self.subTest(name):
                self.ends(run, 0 if name == "is started again" else 3)
                self.assertTrue(self.saved(name), run.all())
                self.assertIn("workers that were asked to end are still active: they have 30.0 s in all", run.err())
                self.assertNotIn("did not end in time", run.err())

    # (A shell that waits for its child once more would give up at a second signal.)
    def test_each_is_asked_once(self):
        self.write("once.py", ONCE)
        self.ends(self.start("--nproc-per-node=16", self.path("once.py"), self.directory))
        self.assertEqual([name for name in os.listdir(self.directory) if name.startswith("again.")], [])

    def test_one_that_does_nothing_is_killed(self):
        start = time.monotonic()
        run = self.start_beside("rests", "rest()", seconds=3600)
        self.ends(run)
        self.assertIn("1 worker did not end in time: killing it", run.err())
        self.assertLess(time.monotonic() - start, 30)

    # As an interpreter on its way out: its handlers are gone, and it waits for what never comes.
    def test_a_worker_that_no_longer_catches_it_gets_it_again(self):
        for name, wrapper in (("itself", ()), ("below a shell", SHELL)):
            with self.subTest(name):
                run = self.start_beside(name, "signal.signal(signal.SIGTERM, signal.SIG_DFL); rest()", seconds=3600,
                                        wrapper=wrapper)
                self.ends(run)
                self.assertNotIn("did not end in time", run.err())
