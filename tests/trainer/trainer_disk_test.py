"""A disk that does not answer: no rank that waits for it counts as gone, people are told, and a stop ends it."""

import contextlib
import os
import re
import signal
import subprocess
import unittest

import support

HOLD_CALLS = os.environ["DDPRUN_HOLD_CALLS"]
SHORT = ["--model=toy", "--epochs=1", "--collective-timeout=6"]
STEPS = 25  # 1000 samples, 20 on each of two ranks.
LAST_SAVE = f"open:.tmp-step-{STEPS:08}"


class Disk(support.TrainerTest):
    def start_held(self, what, *arguments, ranks=2):
        """A training of which one rank waits in that call, once it makes it."""
        self.fifo = self.path(f"fifo{self.started}")
        self.checkpoints = self.path(f"ckpt{self.started}")
        os.mkfifo(self.fifo)
        held = {"LD_PRELOAD": HOLD_CALLS, "DDPRUN_HOLD": what, "DDPRUN_HOLD_FIFO": self.fifo}
        return self.start(SHORT + list(arguments), ranks=ranks, environment=held)

    def wait_for_words(self, worker, count):
        """Until it has said so often that it waits: after 2, 4, 8, ... seconds."""
        def said():
            return len(re.findall(r" \d+ s so far: waiting for the disk", worker.text("err")))
        while said() < count:
            self.assertTrue(worker.wait_for_text("so far: waiting for the disk"), worker.text("err"))
            with contextlib.suppress(subprocess.TimeoutExpired):
                worker.process.wait(0.1)
                self.fail("it ended too early: " + worker.text("err"))
        return worker.text("err")

    def let_go(self):
        # It stays open, so that nobody waits there any more.
        self.addCleanup(os.close, os.open(self.fifo, os.O_RDWR))

    def assert_ended(self, workers, code):
        for rank, worker in enumerate(workers):
            self.assertEqual(worker.wait(), code, f"rank {rank}: {worker.text('err')}")
            self.assertNotIn("is gone", worker.text("err"))

    def test_the_checkpoints_cannot_be_claimed_yet(self):
        workers = self.start_held("open:.fence-")
        self.assertIn("are being claimed and read, ", self.wait_for_words(workers[0], 3))
        self.let_go()
        self.assert_ended(workers, 0)

    # The launcher hears that it lives, however short its patience is.
    def test_the_last_checkpoint_is_waited_for(self):
        first, other = self.start_held(LAST_SAVE)
        self.assertIn(f"the last checkpoint (step {STEPS}) is being saved in '{self.checkpoints}', ",
                      self.wait_for_words(first, 1))
        first.listen()
        self.assertEqual(first.said["PHASE"], "checkpoint")
        first.said.clear()
        self.wait_for_words(first, 3)
        first.listen()
        self.assertEqual(first.said, {"EXTEND_TIMEOUT_USEC": "600000000"})
        self.let_go()
        self.assert_ended([first, other], 0)
        self.assertTrue(self.is_finished())

    def test_a_stop_ends_the_wait(self):
        first, other = self.start_held(LAST_SAVE)
        unfinished = self.checkpoints
        self.assertEqual(other.wait(), 0)  # Has nothing to save.
        alone = support.Worker(
            SHORT + ["--batch=40", "--checkpoint-dir=" + self.path("alone.ckpt")],
            {"LD_PRELOAD": HOLD_CALLS, "DDPRUN_HOLD": LAST_SAVE, "DDPRUN_HOLD_FIFO": self.fifo},
            self.directory, "alone")
        self.addCleanup(alone.close)
        all_wait = self.start_held("open:.tmp-step-00000000", "--epochs=100000")
        self.assertTrue(all_wait[0].wait_for_step(20), "it ended too early")
        all_wait[1].kill(signal.SIGTERM)  # Any rank may be asked.
        for worker in (first, alone):
            self.wait_for_words(worker, 1)
            worker.kill(signal.SIGTERM)
        self.assert_ended([first], 75)
        self.assert_ended([alone], 143)
        for worker in (first, alone):
            self.assertIn("asked to stop, but the last checkpoint", worker.text("err"))
        self.assert_ended(all_wait, 75)
        for worker in all_wait:
            self.assertRegex(worker.text("err"), r"asked to stop, but the checkpoint to go on from \(step \d+\)")
        self.assertNotIn("saved at step", all_wait[0].text("err"))
        self.checkpoints = unfinished
        self.run_world(SHORT, ranks=2, generation=2)
        self.assertTrue(self.is_finished())

    def test_a_stop_saves_once_the_disk_is_back(self):
        workers = self.start_held("open:.tmp-step-00000000", "--epochs=100000")
        self.assertTrue(workers[0].wait_for_step(20), "it ended too early")
        workers[1].kill(signal.SIGTERM)
        self.wait_for_words(workers[0], 3)
        self.let_go()
        self.assert_ended(workers, 75)
        self.assertRegex(workers[0].text("err"), r"saved at step \d+")

    # Of a rank that has no other reason to look at a disk.
    def test_files_of_each_rank_that_nobody_reads_hold_up_nobody(self):
        for directory, name in (("samples", "generation-1.rank-1.jsonl"), ("prof", "trace-generation-1-rank-1.json")):
            os.mkdir(self.path(directory))
            os.mkfifo(self.path(os.path.join(directory, name)))
        workers = self.run_world(SHORT + ["--sample-log=samples", "--profile=prof"], ranks=2)
        said = workers[1].text("err")
        self.assertIn("rank-1.jsonl' does not open", said)
        self.assertIn(f"{STEPS} lines of sample log are not in 'samples/generation-1.rank-1.jsonl'", said)
        self.assertIn("the profile is not in 'prof/trace-generation-1-rank-1.json'", said)
        self.assertEqual(len(self.bytes_of("samples/generation-1.rank-0.jsonl").splitlines()), STEPS)
        self.assertIn(b"traceEvents", self.bytes_of("prof/trace-generation-1-rank-0.json"))


if __name__ == "__main__":
    unittest.main(verbosity=2)
