"""A disk that does not answer: no rank that waits for it counts as gone, people hear of it, and a stop ends
it."""

import contextlib
import fcntl
import os
import re
import signal
import subprocess
import unittest

import support

WRITE_HDF5 = os.environ["DDPRUN_WRITE_HDF5"]  # Empty: built without HDF5.
HOLD_CALLS = os.environ["DDPRUN_HOLD_CALLS"]
SHORT = ["--model=toy", "--epochs=1", "--collective-timeout=6"]
STEPS = 25  # 1000 samples, 20 on each of two ranks.
LAST_SAVE = f"open:.tmp-step-{STEPS:08}"


class Disk(support.TrainerTest):
    def start_held(self, what, *arguments, checkpoints=None, at_once=True, **how):
        """A training of which one rank waits in that call, once it makes it."""
        self.fifo = self.path(f"fifo{self.started}")
        self.checkpoints = checkpoints or self.path(f"ckpt{self.started}")
        if at_once:
            os.mkfifo(self.fifo)
        held = {"LD_PRELOAD": HOLD_CALLS, "DDPRUN_HOLD": what, "DDPRUN_HOLD_FIFO": self.fifo}
        return self.start(SHORT + list(arguments), **{"ranks": 2, "environment": held, **how})

    def wait_for_words(self, worker, count):
        """Until it has said so often that it waits: after 2, 4, 8, ... seconds."""
        def said():
            return len(re.findall(r" \d+ s so far: waiting for the disk", worker.text("err"))) >= count
        self.assertTrue(worker.wait_until(said, "words"), "it ended too early: " + worker.text("err"))
        return worker.text("err")

    def let_go(self):
        # It stays open, so that no process waits there any more.
        self.addCleanup(os.close, os.open(self.fifo, os.O_RDWR))

    def assert_ended(self, workers, code):
        for rank, worker in enumerate(workers):
            self.assertEqual(worker.wait(), code, f"rank {rank}: {worker.text('err')}")
            self.assertNotIn("is gone", worker.text("err"))

    def test_samples_that_are_made_wait_for_no_disk(self):
        (worker,) = self.start(["--dataset=synthetic", "--model=linear", "--data-arg=train=1000000", "--epochs=1"], ranks=1)
        self.assertTrue(worker.wait_for_text("so far: "), worker.text("err"))
        self.assertIn("the data set (synthetic) is being made in memory, 2 s so far: waiting for the CPU", worker.text("err"))
        worker.process.kill()
        worker.process.wait()

    # To whoever else comes for this directory.
    def test_a_rank_that_reads_its_checkpoint_for_long_is_seen_to_live(self):
        self.run_world(SHORT, ranks=2)
        workers = self.start_held("open:model.safetensors", "--epochs=2", generation=2,
                                  checkpoints=self.checkpoints)
        self.wait_for_words(workers[0], 1)
        counter = os.path.join(self.checkpoints, "fence-alive")
        for _ in range(2):
            before = self.bytes_of(counter)
            workers[0].wait_until(lambda: self.bytes_of(counter) != before, "other count")
        self.let_go()
        self.assert_ended(workers, 0)

    def test_parameters_that_are_read_for_long_are_named(self):
        self.run_world(SHORT, ranks=2)
        old = os.path.join(self.checkpoints, self.head())
        workers = self.start_held("open:model.safetensors", "--init-from=" + old)
        self.assertIn(f"or '{old}' (--init-from),", self.wait_for_words(workers[0], 1))
        self.let_go()
        self.assert_ended(workers, 0)

    # Longer than its peer waits for a collective.
    def test_data_that_one_rank_stages_is_waited_for_by_all(self):
        workers = self.start_held("open:.part-", "--model=mlp", "--limit-train=64",
                                  more={0: ["--stage-dir=" + self.path("local")]})
        self.assertIn("the data set (mnist) is being loaded, ", self.wait_for_words(workers[0], 3))
        workers[0].listen()
        self.assertEqual(workers[0].said["PHASE"], "load")
        self.let_go()
        self.assert_ended(workers, 0)

    def start_reading(self, *arguments):
        """A training whose data's disk hangs from its fifth step on: its ranks, first one that waits for it."""
        os.makedirs(self.path("data"), exist_ok=True)
        shape = "source=2,target=3,d_model=8"
        subprocess.run([WRITE_HDF5, self.path("data/seq2seq.h5"), shape + ",train=1000,test=20"],
                       check=True, timeout=60)
        workers = self.start_held(
            "pread:seq2seq.h5", "--model=transformer", "--model-arg=heads=2,layers=1,ff=16",
            "--dataset=hdf5", "--data-arg=" + shape, "--data-root=" + self.path("data"),
            "--batch=8", "--epochs=100", *arguments, at_once=False)
        self.assertTrue(workers[0].wait_for_step(5), "it ended too early")
        os.mkfifo(self.fifo)
        words = "ddprun-train | warning: samples of hdf5 are being read, 2 s so far: waiting for the disk"
        while words not in workers[0].text("err"):  # The other rank may wait for this one.
            with contextlib.suppress(subprocess.TimeoutExpired):
                workers[0].process.wait(0.1)
                self.fail("it ended too early: " + workers[0].text("err"))
            workers.reverse()
        return workers

    @unittest.skipUnless(WRITE_HDF5, "built without HDF5")
    def test_samples_that_cannot_be_read_are_waited_for_while_peers_do(self):
        workers = self.start_reading("--prefetch=on", "--collective-timeout=8")
        codes = [worker.wait() for worker in workers]
        self.assertIn(codes, [[1, 1], [1, 75], [75, 1]], workers[0].text("err"))
        self.assertIn("the other ranks stop waiting", workers[codes.index(1)].text("err"))

    @unittest.skipUnless(WRITE_HDF5, "built without HDF5")
    def test_a_disk_that_answers_again_costs_nothing(self):
        workers = self.start_reading("--prefetch=off", "--collective-timeout=60")
        # The launcher hears that it lives.
        self.assertTrue(workers[0].wait_until(lambda: workers[0].said.get("EXTEND_TIMEOUT_USEC") == "60000000", "word"))
        self.let_go()
        workers[0].listen()
        step = int(workers[0].said["STEP"])
        self.assertTrue(workers[0].wait_for_step(step + 5), workers[0].text("err"))
        workers[0].kill(signal.SIGTERM)
        self.assert_ended(workers, 75)

    def test_a_ranks_output_need_not_be_read(self):
        reader, writer = os.pipe()
        self.addCleanup(os.close, reader)
        room = fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, 4096)
        workers = self.start(SHORT + ["--epochs=4", "--progress-every=0"], ranks=2,
                             stderr={0: writer})
        os.close(writer)
        self.assertEqual(workers[1].wait(), 0, workers[1].text("err"))
        said = b""
        while b"test loss" not in workers[0].text("out").encode() or workers[0].process.poll() is None:
            said += os.read(reader, 65536)
        self.assertEqual(workers[0].wait(), 0)
        self.assertGreater(len(said), room)

    # The launcher hears that it lives, however short its patience is.
    def test_the_last_checkpoint_is_waited_for(self):
        first, other = self.start_held(LAST_SAVE)
        # Listened to all the while: what finds its socket full is not said again.
        self.assertTrue(first.wait_for_phase("checkpoint"), first.text("err"))
        self.assertIn(f"the last checkpoint (step {STEPS}) is being saved in '{self.checkpoints}', ",
                      self.wait_for_words(first, 1))
        first.listen()
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
            self.assertRegex(worker.text("err"), r"asked to stop, but the checkpoint to continue from \(step \d+\)")
        self.assertNotIn("saved at step", all_wait[0].text("err"))
        self.checkpoints = unfinished
        self.run_world(SHORT, ranks=2, generation=2)
        self.assertTrue(self.is_finished())

    # The step on which they agreed is saved; then rank 0 waits for no time-out.
    def test_a_peer_that_hangs_once_all_have_agreed_to_stop_costs_no_checkpoint(self):
        for rounds in (2, 4, 8, 16):
            workers = self.start_held("open:.tmp-step-00000000", "--epochs=100000", "--collective-timeout=600")
            self.assertTrue(workers[0].wait_for_step(20), "it ended too early")
            workers[0].kill(signal.SIGTERM)
            self.wait_for_words(workers[0], 1)
            workers[1].kill(signal.SIGSTOP)
            # Its part in the current round it may have done, and then it is not missed if that is the last one.
            with self.assertRaises(subprocess.TimeoutExpired):
                workers[0].process.wait(0.6 * rounds)
            self.let_go()
            self.assertEqual(workers[0].wait(), 75, workers[0].text("err"))
            workers[1].kill(signal.SIGKILL)
            workers[1].wait()
            step = re.search(r"saved at step (\d+):", workers[0].text("err"))[1]
            if f"all ranks stop after step {step}, but a peer hangs" in workers[0].text("err"):
                break
        else:
            self.fail("it was never left waiting: " + workers[0].text("err"))
        again = self.start_held("open:nothing", "--epochs=100000", checkpoints=self.checkpoints, generation=2)
        self.assertTrue(again[0].wait_for_step(int(step) + 1))
        self.assertTrue(again[0].wait_for_text(f"resumed at step {step},"), again[0].text("err"))

    # Of a rank that has no other reason to look at a disk.
    def test_files_of_each_rank_without_a_reader_hold_up_no_rank(self):
        for directory, name in (("samples", "generation-1.rank-1.jsonl"), ("prof", "trace-generation-1-rank-1.json")):
            os.mkdir(self.path(directory))
            os.mkfifo(self.path(os.path.join(directory, name)))
        workers = self.run_world(SHORT + ["--sample-log=samples", "--profile=prof"], ranks=2)
        said = workers[1].text("err")
        self.assertIn("rank-1.jsonl' cannot be opened yet", said)
        self.assertIn(f"{STEPS} lines of sample log could not be written to 'samples/generation-1.rank-1.jsonl'", said)
        self.assertIn(b"traceEvents", self.bytes_of("prof/trace-generation-1-rank-1.json"))  # Made anew.
        self.assertEqual(len(self.bytes_of("samples/generation-1.rank-0.jsonl").splitlines()), STEPS)
        self.assertIn(b"traceEvents", self.bytes_of("prof/trace-generation-1-rank-0.json"))
