"""NCCL's RAS: each run has its own, and what it says of a hang is kept."""

import glob
import os
import sys
import unittest

SUPPORT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support")
sys.path.insert(0, SUPPORT)

from ddprun_runs import DdprunTest, read_text  # noqa: E402

PLAYS_NCCL = os.path.join(SUPPORT, "fake_ras.py")
VERDICT = r"the run failed: rank 1 \(.*\) hung: no step for 1\.0 s \(its peers are at step 8, it is at step 5\)"


class NcclRas(DdprunTest):
    def hangs(self, *behaviours, environment=None):
        """Runs of three workers at once, of which rank 1 lags: what each says, and its bundle."""
        runs = {}
        for behaviour in behaviours:
            os.mkdir(self.path(behaviour))
            program = [PLAYS_NCCL, behaviour, self.path(behaviour)]
            if behaviour == "2.28.9":  # NCCL may be in a child of the worker.
                program = ["--no-python", "/bin/sh", "-c", "python3 $0 $*; exit 0", *program]
            runs[behaviour] = self.start("--nproc-per-node=3", "--hang-timeout=1s", "--preload=none",
                                         f"--log-dir={self.path(behaviour, 'logs')}", *program,
                                         environment=environment)
        for run in runs.values():
            self.assertEqual(run.wait(60), 124, run.all())
            self.assertRegex(run.err(), VERDICT)
        found = {}
        for behaviour, run in runs.items():
            (bundle,) = glob.glob(self.path(behaviour, "logs", "*", "evidence-1"))
            self.assertTrue(os.path.exists(os.path.join(bundle, "rank-1.stacks.txt")))
            kept = {os.path.splitext(name)[1]: read_text(name)
                    for name in glob.glob(os.path.join(bundle, "nccl-ras-*"))}
            found[behaviour] = (run.err(), kept)
        return found

    def test_the_few_are_named_and_the_answer_is_kept(self):
        found = self.hangs("2.29.7", "2.28.9", "2.27.5", "hostile")
        words = {"2.29.7": "of all ranks: 2 ranks: AllReduce 641; 1 rank: AllReduce 640: rank 1 on 127.0.0.1",
                 "2.28.9": "of all ranks: 1 rank: AllReduce 640: rank 1 on 127.0.0.1; 1 rank: AllReduce 641: rank 0 on "
                           "127.0.0.1; 1 rank: no answer: rank 2 on 127.0.0.1"}
        for version, line in words.items():
            with self.subTest(version=version):
                said, kept = found[version]
                self.assertIn("NCCL's RAS: " + line, said)
                self.assertEqual(kept[".txt"], line + "\n")
                self.assertIn(f'"nccl_version": "{version}"', kept[".json"])
        said, kept = found["2.27.5"]
        self.assertEqual(list(kept), [".txt"])
        self.assertIn("different AllReduce operation counts", kept[".txt"])
        self.assertIn("NCCL's RAS: its words are in ", said)
        said, kept = found["hostile"]
        (line,) = [line for line in said.splitlines() if "NCCL's RAS: " in line]
        self.assertLess(len(line), 1000)
        self.assertNotIn("\x1b", line)
        self.assertIn("AllReduce 640", line)

    def test_whatever_it_does_touches_nothing(self):
        for behaviour, (said, kept) in self.hangs("stalls", "floods", "garbage").items():
            with self.subTest(behaviour=behaviour):
                self.assertEqual(kept, {})
                self.assertNotIn("NCCL's RAS", said)

    def test_at_a_place_of_the_users_only_what_names_our_workers_counts(self):
        for behaviour, files in (("2.29.7", [".json", ".txt"]), ("2.27.5", [])):
            with self.subTest(behaviour=behaviour):
                said, kept = self.hangs(behaviour, environment={"NCCL_RAS_ADDR": self.free_endpoint()})[behaviour]
                self.assertEqual(sorted(kept), files)
                self.assertEqual("NCCL's RAS: " in said, bool(files), said)

    def test_a_run_that_goes_on_is_told_of_too(self):
        logs = self.path("logs")
        run = self.start("--nproc-per-node=3", "--hang-timeout=1s", "--on-hang=observe", "--preload=none",
                         f"--log-dir={logs}", PLAYS_NCCL, "2.29.7", self.path())
        line = "of all ranks: 2 ranks: AllReduce 641; 1 rank: AllReduce 640: rank 1 on 127.0.0.1"
        self.wait_for(lambda: "NCCL's RAS: " + line in run.err(), run)
        (kept,) = glob.glob(os.path.join(logs, "*", "evidence-1", "nccl-ras-*.txt"))
        self.assertEqual(read_text(kept), line + "\n")
        self.wait_for(lambda: "the run goes on" in run.err(), run)
        self.assertIsNone(run.process.poll())
        run.signal(15)
        run.wait()

    def test_each_run_has_its_own_unless_the_user_says_otherwise(self):
        runs = [self.start("--nproc-per-node=2", "--no-python", "/bin/sh", "-c", "echo at $NCCL_RAS_ADDR.",
                           environment=environment)
                for environment in ({}, {}, {"NCCL_RAS_ADDR": "localhost:28028"}, {"NCCL_RAS_ENABLE": "0"})]
        said = []
        for run in runs:
            self.assertEqual(run.wait(), 0, run.all())
            said.append(set(run.out().splitlines()))
            self.assertEqual(len(said[-1]), 1, run.out())  # Both of its workers have the same.
        self.assertNotEqual(said[0], said[1])
        self.assertRegex(said[0].pop(), r"^at 127\.0\.0\.1:\d+\.$")
        self.assertEqual(said[2:], [{"at localhost:28028."}, {"at ."}])


if __name__ == "__main__":
    unittest.main()
