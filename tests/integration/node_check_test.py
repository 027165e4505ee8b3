"""A node is looked at by the user's own command (--node-check) before a world has it."""

import os
import signal
import time

from ddprun_asks import Asks
from ddprun_nodes import MeetingNodes
from ddprun_runs import FAKE_WORKER, HELLO, command_of, read_text

# Refuses where a file says why; each request is noted.
CHECK = 'echo "$DDPRUN_CHECK_CAUSE" >> "$NOTES"; if test -e "$WHY"; then cat "$WHY"; exit 1; fi'
HANGS = "touch hanging; sleep 1000 & setsid sleep 1000 & (setsid sleep 1000 &) ; sleep 1000"


class Nodes(MeetingNodes):
    def why(self, i):
        return self.path(f"why.{i}")

    def refuse(self, i, why="GPU 3 is gone"):
        self.write(self.why(i) + ".new", f"looking\n{why}\n")
        os.rename(self.why(i) + ".new", self.why(i))

    def causes(self, i):
        return read_text(self.path(f"notes.{i}")).split()

    def around(self, i):
        return {"NOTES": self.path(f"notes.{i}"), "WHY": self.why(i)}

    def join(self, i, *flags, check=CHECK, **how):
        return super().join(i, f"--node-check={check}", *flags, **how)

    def test_one_that_is_refused_before_it_joins_waits_and_says_why(self):
        self.refuse(1)
        first = self.serve()
        unfit = self.join(1)
        self.wait_for_text(unfit, r"node check failed: GPU 3 is gone\. .*1 min")
        node = self.wait_for(lambda: self.node("unfit"), first, unfit)
        self.assertEqual((node["reason"], node["in_world"]), ("GPU 3 is gone", False))
        self.assertIn("1 of 2 are here; kept out: ",
                      self.status(self.endpoint)["waits_for"])
        shown = self.ask("status", f"--endpoint={self.endpoint}").out()
        self.assertRegex(shown, r"NODE .* REASON\n")
        self.assertRegex(shown, r" unfit .* GPU 3 is gone\n")
        third = self.join(2)
        for run in (first, third):
            self.wait_for_workers(run, 1, 1)
        self.assertEqual(len(self.told("node_unfit")), 1)
        self.finish(first, third, unfit)
        self.assertEqual(unfit.err().count("node check failed"), 1, unfit.err())
        self.assertIn("node check | looking", unfit.err())
        self.assertEqual([self.causes(i) for i in range(3)], [["start"]] * 3)
        self.assertEqual(unfit.out(), "")

    def test_after_a_failure_a_spare_steps_in_for_one_that_is_refused(self):
        first, fails, spare = self.three()
        self.refuse(1)
        os.kill(fails.workers()[1], signal.SIGKILL)
        for run in (first, spare):
            self.wait_for(lambda r=run: r.workers(2), first, fails, spare)
        self.assertEqual(fails.generations(), [1])
        node = self.node("unfit")
        self.assertEqual(node["reason"], "GPU 3 is gone")
        self.assertEqual(len(self.told("node_unfit")), 1)
        self.finish(first, spare, fails)
        self.assertEqual(self.causes(1), ["start", "failure"])
        self.assertEqual(self.causes(2), ["start"])


class OneNode(Asks):
    def test_one_that_passes_is_no_news(self):
        run = self.run_ddprun("--node-check=echo all is well", FAKE_WORKER, HELLO)
        self.assertEqual(len(run.workers()), 1)
        self.assertEqual(run.err(), "")

    def refused(self, check, *flags):
        return self.run_ddprun(f"--node-check={check}", *flags, FAKE_WORKER, HELLO, expect=69).err()

    def test_one_that_hangs_is_cut_with_all_that_it_started(self):
        told = self.refused("echo pinging; " + HANGS, "--node-check-timeout=1")
        self.assertIn("no result within 1.0 s (--node-check-timeout); its last line: pinging", told)

    def test_a_check_that_cannot_be_run_is_a_verdict(self):
        self.assertIn("refused by its node check: cannot run it: ", self.refused("./nosuch"))
        fifo = self.path("fifo")
        os.mkfifo(fifo, 0o700)
        self.assertIn("cannot run it: ", self.refused(fifo))
        self.assertIn("no result within 1.0 s", self.refused(". " + fifo, "--node-check-timeout=1"))

    def test_processes_and_files_that_it_leaves_count_for_nothing(self):
        run = self.run_ddprun(
            "--node-check=exec >&- 2>&-; (setsid sh -c 'sleep 1000' &); cat >/dev/null", FAKE_WORKER, HELLO)
        self.assertEqual(len(run.workers()), 1)

    def begin(self):
        run = self.start("--node-check=" + HANGS, FAKE_WORKER)
        sleepers = lambda: [pid for pid in self.mark.living() if command_of(pid) == "sleep 1000"]  # noqa: E731
        self.wait_for(lambda: len(sleepers()) == 4, run)
        return run

    def test_term_and_int_end_it_at_once(self):
        for number in (signal.SIGTERM, signal.SIGINT):
            run = self.begin()
            begun = time.monotonic()
            run.signal(number)
            self.assertEqual(run.wait(), 128 + number, run.all())
            self.assertLess(time.monotonic() - begun, 5, run.all())
            self.assertEqual(self.mark.living(), [])

    def test_nothing_outlives_the_agent_or_the_guard(self):
        self.run_directory_stays = True
        run = self.begin()
        os.kill(run.agent(), signal.SIGKILL)
        self.assertEqual(run.wait(), 137, run.all())
        self.assertEqual(self.mark.living(), [])
        run = self.begin()
        run.signal(signal.SIGKILL)
        self.assert_gone(10)
