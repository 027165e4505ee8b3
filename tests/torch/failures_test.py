"""Unmodified programs that die, each in its own way, while their peers wait in a collective."""

import os
import re

from ddprun_runs import command_of, eventually
from torch_runs import DDPRUN, FORKED, LIMIT, TORCHRUN, TorchTest, program, read_text


class Death(TorchTest):
    def remove_cgroup(self, folder):
        """Once it is empty: the processes of a run that did not end are killed by then, but not waited for."""
        def processes():
            return read_text(os.path.join(folder, "cgroup.procs")).split()
        eventually(lambda: not processes())
        self.assertEqual([f"{pid} {command_of(pid)}" for pid in processes()], [], "left in the cgroup")
        os.rmdir(folder)

    def memory_cgroup(self, limit):
        """A new cgroup with so many bytes; the test is skipped where none can be made."""
        for line in read_text("/proc/self/cgroup").splitlines():
            _, controllers, path = line.split(":", 2)
            if "memory" in controllers.split(","):
                base, setting = f"/sys/fs/cgroup/memory{path}", "memory.limit_in_bytes"
            elif not controllers:
                base, setting = f"/sys/fs/cgroup{path}", "memory.max"
            else:
                continue
            folder = os.path.join(base, self.run_id)
            try:
                os.mkdir(folder)
                self.addCleanup(self.remove_cgroup, folder)
                with open(os.path.join(folder, setting), "r+") as file:
                    file.write(str(limit))
                return folder
            except OSError:
                pass
        return self.skipTest("no memory cgroup can be made here")

    def test_a_worker_that_the_kernel_kills_for_memory(self):
        cgroup = self.memory_cgroup(2 << 30)
        run = self.ask("-c", 'echo $$ >"$0/cgroup.procs" && exec "$@"', cgroup, DDPRUN,
                       "--nproc-per-node=2", program("dies.py"), executable="/bin/sh", expect=137, limit=LIMIT)
        self.assertRegex(run.err(), r"the run failed: rank 1 .*killed by signal 9 \(SIGKILL\): memory ran out")
        self.assertRegex(run.err(), "hint      : the cgroup's memory limit was reached")


class Report(TorchTest):
    ENTRY = re.compile(
        r"^\[\d+\]:\n  time      : [\d_:-]+\n  host      : (?P<host>\S+)\n"
        r"  rank      : (?P<rank>\d+) \(local_rank: (?P<local>\d+)\)\n"
        r"  exitcode  : (?P<code>-?\d+) \(pid: \d+\) *(?:\((?P<signal>\w+)\))?\n"
        r"  error_file: (?P<file>[^\n]*)\n  traceback : (?P<traceback>.*?)(?=\n\[|\n---|\n===)",
        re.M | re.S)

    def told_by(self, run):
        """rank -> what the report says of it, whatever the order and the paths."""
        found = {}
        for entry in self.ENTRY.finditer(run.err()):
            told = entry.groupdict()
            told["file"] = re.sub(r"^.*/(attempt_)", r"\1", told["file"])
            told["traceback"] = re.sub(r"PID \d+", "PID", told["traceback"])
            if told["file"] == "<N/A>" and not told["signal"]:  # How one gets a traceback.
                told["traceback"] = ""
            del told["host"]  # Its full name there, which some machines cannot resolve.
            found[int(told["rank"])] = told
        return found

    def test_it_says_of_every_worker_what_torchruns_says(self):
        for way, code in (("segfault", 139), ("told", 1), ("flat", 1)):
            with self.subTest(way):
                os.makedirs(self.path("torchrun", way))
                theirs = self.ask("--standalone", "--nproc-per-node=2", f"--log-dir={self.path('torchrun', way)}",
                                  program("bad.py"), way, executable=TORCHRUN, expect=1, limit=LIMIT)
                self.assertEqual(sorted(self.told_by(theirs)), [0, 1], theirs.all())
                run = self.run_program(2, "bad.py", way, expect=code, flags=[f"--log-dir={self.path('ours')}"])
                self.assertEqual(self.told_by(run), self.told_by(theirs), run.all())
                root = run.err().split("Root Cause (first observed failure):")[1]
                self.assertIn("  rank      : 1 (local_rank: 1)\n", root)


class Restart(TorchTest):
    # Under torchrun the second attempt sees the first one's keys, and counters continue from there.
    def test_every_attempt_has_a_store_of_its_own(self):
        run = self.run_program(2, "restarts.py", flags=["--preload=torch", "--max-restarts=1"])
        self.assertIn("restarting all workers (1 of 1)", run.err())
        for attempt in (0, 1):
            told = self.reports(attempt)
            self.assertEqual(sorted(r["counted"] for r in told), [1, 2], run.all())
            self.assertEqual([(r["left"], r["total"]) for r in told], [(False, 2.0)] * 2)

    def test_a_worker_killed_on_one_of_two_nodes_costs_no_step(self):
        runs = self.run_on_nodes(2, 1, "elastic.py", flags=[FORKED, "--max-restarts=1"])
        undisturbed, again = self.reports(0), self.reports(1)
        self.assertEqual(len(undisturbed), 2)
        self.assertEqual([(r["world"], r["start"]) for r in again], [(2, 4)] * 2, "\n".join(r.all() for r in runs))
        self.assertEqual({r["parameters"] for r in again}, {r["parameters"] for r in undisturbed})
