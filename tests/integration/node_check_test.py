"""A node is looked at by the user's own command (--node-check) before a world has it."""

import os
import signal
import subprocess
import time

from ddprun_asks import Asks
from ddprun_nodes import MeetingNodes
from ddprun_runs import FAKE_WORKER, HELLO, DdprunTest, command_of, read_text

# Refuses where a file says why; each request is noted.
CHECK = 'echo "$DDPRUN_CHECK_CAUSE" >> "$NOTES"; if test -e "$WHY"; then cat "$WHY"; exit 1; fi'
CHECKS = os.path.realpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "examples", "node-check"))
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


class Examples(DdprunTest):
    """Each passes a machine that is well, and names what is wrong."""

    def setUp(self):
        super().setUp()
        for name, text in (("sys/class/net/eth0/carrier", "1"), ("sys/class/net/eth1/carrier", "0"),
                           ("sys/class/infiniband/mlx5_0/ports/1/state", "4: ACTIVE"),
                           ("sys/class/infiniband/mlx5_1/ports/1/state", "2: INIT"),
                           ("proc/meminfo", "MemTotal: 67108864 kB\nMemAvailable: 33554432 kB")):
            self.write(self.path("host", name), text + "\n")

    def check(self, script, *arguments):
        done = subprocess.run([os.path.join(CHECKS, script), *arguments], capture_output=True, text=True, timeout=60,
                              env={**self.environment, "DDPRUN_HOST_ROOT": self.path("host")})
        return done.returncode, done.stdout + done.stderr

    def test_a_good_machine_passes_and_says_nothing(self):
        self.assertEqual(self.check("disk-space.sh", self.directory, "0"), (0, ""))
        self.assertEqual(self.check("network-link.sh", "eth0", "mlx5_0/1"), (0, ""))
        self.assertEqual(self.check("memory.sh", "32"), (0, ""))

    def test_a_bad_one_is_named(self):
        code, said = self.check("disk-space.sh", self.directory, "1000000")
        self.assertEqual(code, 1)
        self.assertRegex(said, rf"^{self.directory} has \d+ GiB of free space, less than 1000000\n$")
        self.assertEqual(self.check("network-link.sh", "eth0", "eth1"), (1, "eth1 has no link\n"))
        self.assertEqual(self.check("network-link.sh", "eth2"), (1, "eth2 has no link\n"))
        self.assertEqual(self.check("network-link.sh", "mlx5_1/1"), (1, "mlx5_1/1 is not active: 2: INIT\n"))
        self.assertEqual(self.check("memory.sh", "33"), (1, "32 GiB of memory are available, less than 33\n"))

    def test_a_machine_that_cannot_be_looked_at_is_no_pass(self):
        for script, argument in (("disk-space.sh", self.path("none")), ("network-link.sh", "mlx5_9/1")):
            code, said = self.check(script, argument)
            self.assertNotEqual(code, 0)
            self.assertIn("No such file or directory", said)
        os.remove(self.path("host/proc/meminfo"))
        self.assertNotEqual(self.check("memory.sh")[0], 0)

    def test_as_a_node_check(self):
        both = f"{CHECKS}/disk-space.sh / 0 && {CHECKS}/memory.sh"
        self.assertEqual(len(self.run_ddprun(f"--node-check={both} 0", FAKE_WORKER, HELLO).workers()), 1)
        run = self.run_ddprun(f"--node-check={both} 1000000", FAKE_WORKER, HELLO, expect=69)
        self.assertRegex(run.err(), r"is refused by its node check: \d+ GiB of memory are available, less than 1000000")
