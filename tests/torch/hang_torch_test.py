"""Unmodified programs that hang and report nothing: torch's own count of collectives shows which rank is behind, through
the hook that ddprun puts into a Python that it starts, with nothing of ddprun installed there, or through a preload
process (--preload)."""

import json
import os
import re

from torch_runs import FORKED, LIMIT, TorchTest

SILENCE = 5  # Seconds of --hang-timeout.
# A busy machine is slow to start workers: that is no hang here.
JUDGED = (FORKED, f"--hang-timeout={SILENCE}", "--start-timeout=2m", "--max-restarts=3")


class Hangs(TorchTest):
    def hung(self, text):
        """The rank that hung and why, in the order of attempts, as the log has it."""
        return re.findall(r"ddprun[^|\n]*\| [^\n]*?rank (\d+) [^\n]*hung: ([^\n]*)", text)

    def assert_named(self, text, times):
        named = self.hung(text)
        self.assertGreaterEqual(len(named), times, text)
        self.assertEqual({rank for rank, _ in named}, {"2"}, text)
        for _, why in named:
            self.assertRegex(why, r"no collective begun for 5\.0 s \(its peers are at collective \d+, it is "
                                  r"(after|in) collective \d+; counts may be 1 s old\)")

    def test_two_nodes_of_cold_workers(self):
        nodes = self.start_nodes(2, (2, 1), "silent.py", "sleeps", "ends slowly",
                                 flags=[f"--hang-timeout={SILENCE}", "--max-restarts=1", "--preload=none"])
        self.all_end(nodes, limit=LIMIT)
        self.assert_named("".join(node.err() for node in nodes), 1)

    def test_workers_of_a_preload_process_and_slow_ones(self):
        run = self.run_program(3, "silent.py", "stands still", "leaves the loop",
                               "prepares in a thread, compile, saves slowly",
                               flags=JUDGED)
        # But on a busy machine a preload process may be late with a fork, and that worker starts from its file.
        self.assertNotRegex(run.err(), "--preload not used: (?!the preload process: it did not answer within )")
        self.assert_named(run.err(), 2)

    def evidence(self, logs, attempt):
        (run,) = os.listdir(logs)
        folder = os.path.join(logs, run, f"evidence-{attempt}")

        def told(name):
            with open(os.path.join(folder, name), encoding="utf-8", errors="replace") as file:
                return file.read()
        return told

    def test_where_it_stands_is_shown_by_itself_or_by_faulthandler(self):
        logs = self.path("logs")
        run = self.run_program(3, "silent.py", "sleeps", "holds the GIL", "never joins",
                               flags=[*JUDGED, f"--log-dir={logs}"])
        self.assertEqual([rank for rank, _ in self.hung(run.err())], ["2"] * 3, run.err())
        self.assertIn("2 of its peers wait for it to join the process group", run.err())
        told = self.evidence(logs, 1)
        self.assertRegex(told("rank-2.stacks.txt"), r"-- process \d+:\n-- reported by itself:\n")  # Before the kernel.
        self.assertRegex(told("rank-2.stacks.txt"), r'Thread \d+: "MainThread"\n    <module> \(.*silent\.py:\d+\)')
        self.assertRegex(told("rank-0.stacks.txt"), r"distributed_c10d\.py:\d+\)|backward \(")
        for rank in range(3):
            entries = json.loads(told(f"rank-{rank}.collectives.json"))["entries"]
            self.assertGreater(len(entries), 12)
        told = self.evidence(logs, 2)
        self.assertIn("something holds its interpreter", told("rank-2.stacks.txt"))
        self.assertEqual(told("rank_2"), "a pickle\n")
        self.assertRegex(run.err(), r"to analyse NCCL's flight recorder: torchfrtrace --prefix rank_ \S+/evidence-2")
        self.assertRegex(told("rank-2.lines.txt"), r'(?s)Fatal Python error: Aborted.*silent\.py", line \d+ in <module>')
        told = self.evidence(logs, 3)
        self.assertRegex(told("rank-0.stacks.txt") + told("rank-1.stacks.txt"), r"init_process_group \(")
