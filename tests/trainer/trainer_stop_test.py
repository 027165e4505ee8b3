"""A training that is asked to stop saves at one step that all ranks agree on, and loses nothing."""

import ctypes
import os
import signal

import support
from sample_audit import audit_samples

SAMPLES = 6400
SHORT = ["--epochs=2", f"--limit-train={SAMPLES}", "--batch=16", "--checkpoint-every=100000"]
SLOWED = SHORT + ["--skew=0:6"]  # Else a fast machine has trained all before it is asked to stop.
STEPS_OF_TWO = 2 * SAMPLES // 32


class sigval(ctypes.Structure):
    _fields_ = [("sival_int", ctypes.c_int), ("padding", ctypes.c_int)]


def queue_signal(pid, number, value):
    if ctypes.CDLL(None).sigqueue(pid, number, sigval(value, 0)) != 0:
        raise OSError("sigqueue failed")


class Stop(support.TrainerTest):
    def stopped(self, arguments, ranks, step, victim=0, number=signal.SIGTERM, generation=1):
        """Signals one rank once it has taken `step` steps; the step at which all stopped."""
        workers = self.start(arguments, ranks=ranks, generation=generation)
        self.assertTrue(workers[victim].wait_for_step(step), "it ended too early")
        workers[victim].kill(number)
        for rank, worker in enumerate(workers):
            self.assertEqual(worker.wait(), 75, f"rank {rank}: {worker.text('err')}")
        said = [line for line in workers[0].text("err").splitlines() if "saved at step" in line]
        self.assertEqual(len(said), 1, workers[0].text("err"))
        return int(said[0].split("saved at step ")[1].split(":")[0])

    def test_any_rank_may_be_asked_and_the_bits_are_those_of_an_undisturbed_training(self):
        _, undisturbed = self.trained(SHORT, "undisturbed", ranks=2)
        self.checkpoints = self.path("ckpt")
        log = ["--sample-log=samples"]
        step = 0
        requests = ((0, signal.SIGTERM), (1, signal.SIGTERM), (1, signal.SIGUSR1))
        for generation, (victim, number) in enumerate(requests, 1):
            stopped = self.stopped(SLOWED + log, 2, step + 20, victim, number, generation)
            self.assertGreaterEqual(stopped, step + 20)
            step = stopped
        last = self.run_world(SHORT + log + ["--dump-parameters=stopped.st", "--resume=must"], ranks=2,
                              generation=len(requests) + 1)
        self.assertIn(f"resumed at step {step},", last[0].text("err"))
        self.assert_same_bits(undisturbed, self.bytes_of("stopped.st"))
        audit = audit_samples(self.path("samples"))
        self.assertEqual(audit.steps_taken, STEPS_OF_TWO, "no step may be taken twice")

    def test_the_rest_of_an_epoch_can_be_left_out_from_then_on(self):
        flags = ["--epochs=3", "--limit-train=100", "--checkpoint-every=100000"]
        step = self.stopped(flags + ["--batch=4", "--skew=0:50"], 1, 20)
        (last,) = self.run_world(flags + ["--batch=32", "--drop-last", "--result=" + self.path("result")], generation=2)
        self.assertIn("--drop-last changes from no to yes", last.text("err"))
        epoch, used = divmod(4 * step, 100)
        self.assertEqual(self.json_of("result")["steps"], step + (100 - used) // 32 + (2 - epoch) * 3)

    def test_the_world_may_change_and_every_sample_is_used_once_an_epoch(self):
        log = ["--sample-log=samples"]
        logged = SLOWED + log
        step = self.stopped(logged, 2, 40)
        step = self.stopped(logged, 3, step + 30, victim=2, generation=2)
        step = self.stopped(logged, 1, step + 50, generation=3)
        workers = self.start(logged, ranks=3, generation=4)
        self.assertTrue(workers[1].wait_for_step(step + 30), "it ended too early")
        workers[1].kill()  # And one that is killed: its steps since the last checkpoint count twice.
        for worker in workers:
            worker.wait()
        self.run_world(SHORT + log + ["--resume=must"], ranks=2, generation=5)
        audit = audit_samples(self.path("samples"))
        self.assertEqual(sorted(audit.epochs), [0, 1])
        for epoch, samples in audit.epochs.items():
            self.assertEqual(sorted(samples), list(range(SAMPLES)), f"epoch {epoch}")
        self.assertEqual(audit.generations, [1, 2, 3, 4, 5])

    def test_alone_the_shells_codes_are_given_and_training_continues(self):
        for number, code in ((signal.SIGINT, 130), (signal.SIGTERM, 143)):
            worker = support.Worker(
                SLOWED + ["--checkpoint-dir=" + self.checkpoints, "--progress-every=0.05"], {},
                self.directory, "alone")
            self.addCleanup(worker.close)
            self.assertTrue(worker.wait_for_text("epoch 1/2 step"))
            worker.kill(number)
            self.assertEqual(worker.wait(), code, worker.text("err"))
        self.assertIn("resumed at step", worker.text("err"))

    # The peer can neither agree on a step nor be seen to have died, and the time-out is far away.
    def test_a_hung_peer_does_not_keep_the_others_from_stopping(self):
        workers = self.start(["--epochs=1000", "--collective-timeout=600", "--backend=gloo"], ranks=2)
        self.assertTrue(workers[0].wait_for_step(20))
        workers[1].kill(signal.SIGSTOP)
        workers[0].kill(signal.SIGTERM)
        self.assertEqual(workers[0].wait(30), 75)
        self.assertIn("asked to stop, but step", workers[0].text("err"))
        self.assertNotIn("saved at step", workers[0].text("err"))

    # Rank 0 looks for it while it waits, too. Through shared memory.
    def test_a_hung_peer_does_not_hide_a_stop_file(self):
        workers = self.start(["--epochs=1000", "--collective-timeout=600"], ranks=2)
        self.assertTrue(workers[0].wait_for_step(20))
        workers[1].kill(signal.SIGSTOP)
        open(os.path.join(self.checkpoints, "STOP"), "w", encoding="ascii").close()
        self.assertEqual(workers[0].wait(30), 75)
        self.assertIn("asked to stop, but step", workers[0].text("err"))

    # Its trace may take longer to make than a peer may hang, and than a launcher has patience.
    def test_a_checkpoint_comes_before_a_profile(self):
        workers = self.start(["--epochs=100000", "--profile=profile", "--profile-schedule=0,0,100000000"], ranks=2)
        self.assertTrue(workers[0].wait_for_step(50))
        workers[1].kill(signal.SIGTERM)
        self.assertEqual([worker.wait() for worker in workers], [75, 75], workers[0].text("err"))
        self.assertRegex(workers[0].text("err"), r"(?s)saved at step \d+:.*aten::addmm")
        self.assertEqual(len(os.listdir(self.path("profile"))), 2)

    # A launcher has less patience than an evaluation may take.
    def test_a_rank_killed_in_the_last_evaluation_after_a_stop_was_asked_for_loses_no_step(self):
        evaluating = ["--model=mlp", "--model-arg=hidden=10000", "--dataset=circle", "--epochs=1", "--batch=32",
                      "--data-arg=train=1280,test=5000000", "--checkpoint-every=100000"]
        first, other = self.start(evaluating, ranks=2)
        self.assertTrue(first.wait_for_phase("evaluate"))
        first.kill(signal.SIGTERM)
        words = "asked to stop: step 20 is being saved, and the evaluation continues"
        self.assertTrue(first.wait_for_text(words), first.text("err"))
        self.assertTrue(self.eventually_saved(first, 20), self.lineage())
        for worker in (first, other):
            worker.kill()
            worker.wait()
        again = self.start(evaluating + ["--resume=must"], ranks=2, generation=2)
        self.assertTrue(again[0].wait_for_text("resumed at step 20,"), again[0].text("err"))

    # Its own share is done, and the other's may take as long as it likes.
    def test_a_stop_saves_while_rank_0_waits_for_the_others_shares_at_the_end(self):
        samples = 20_000
        while True:
            self.checkpoints = self.path(f"waiting{samples}.ckpt")
            first, other = self.start(
                ["--model=mlp", "--model-arg=hidden=10000", "--dataset=circle", "--epochs=1", "--batch=32",
                 f"--data-arg=train=1280,test={samples}", "--checkpoint-every=100000"], ranks=2, run=f"run{samples}")
            if first.wait_for_phase("evaluate"):
                other.kill(signal.SIGSTOP)
                if first.wait_for_phase("evaluated"):
                    break
            samples *= 2  # It had ended.
        first.kill(signal.SIGTERM)
        self.assertTrue(first.wait_for_text("asked to stop: step 20 is being saved"), first.text("err"))
        self.assertTrue(self.eventually_saved(first, 20), first.text("err"))

    # It may take longer to make than a launcher has patience.
    def test_a_profile_of_all_steps_comes_after_all_that_is_saved(self):
        workers = self.run_world(["--model=toy", "--epochs=1", "--publish=out", "--profile=profile",
                                  "--profile-schedule=0,0,100000000"], ranks=2)
        self.assertRegex(workers[0].text("err"), r"(?s)published the parameters.*aten::addmm")
        self.assertEqual(len(os.listdir(self.path("profile"))), 2)

    def eventually_saved(self, worker, step):
        """Until the newest checkpoint is that step's; False if the worker ended before."""
        return worker.wait_until(lambda: (self.head() or "").startswith(f"step-{step:08}-"), f"checkpoint of step {step}")

    # A launcher that knows of a lost peer must not wait for a save that cannot come.
    def test_where_it_has_to_end_at_once_it_does_not_save(self):
        workers = self.start(SLOWED, ranks=2)
        self.assertTrue(workers[1].wait_for_step(20))
        workers[0].kill(signal.SIGSTOP)  # No rank can finish a step any more.
        queue_signal(workers[1].process.pid, signal.SIGTERM, 0x646470)
        self.assertEqual(workers[1].wait(), 128 + signal.SIGTERM)
        workers[0].kill(signal.SIGKILL)
        workers[0].wait()
