"""A training that was killed continues as if it had not been."""

import os
import signal

import support

# 300 steps of two ranks; long enough to be killed in the middle of an epoch.
SHORT = ["--epochs=2", "--limit-train=4800", "--batch=16", "--checkpoint-every=20"]


class Resume(support.TrainerTest):
    def undisturbed(self, arguments, ranks, name="undisturbed"):
        return self.trained(arguments, name, ranks=ranks)[1]

    def killed(self, arguments, ranks, steps, victims):
        """Kills `victims` in turn, once they have taken each of `steps`.

        False: the training had ended by then, or before it committed a checkpoint."""
        for generation, step in enumerate(steps, 1):
            workers = self.start(arguments, ranks=ranks, generation=generation)
            victim = victims[generation % len(victims)]
            early = workers[victim].wait_for_step(step) and self.wait_for_commit(workers[victim])
            workers[victim].kill()
            for rank, worker in enumerate(workers):
                expected = -signal.SIGKILL if rank == victim else 75
                end = worker.wait()
                self.assertIn(end, (0, expected), worker.text("err"))
                early = early and end == expected
            if not early or self.is_finished():
                return False
        return True

    def killed_and_resumed(self, arguments, ranks, steps, victims=(0,), ranks_after=None):
        """Kills `victims` in turn, once they have taken each of `steps`, a generation each; then to the end."""
        first = self.checkpoints
        for attempt in range(support.ATTEMPTS):
            self.checkpoints = f"{first}.{attempt}"
            if self.killed(arguments + support.slowed(attempt), ranks, steps, victims):
                break
        else:
            self.fail("no kill came between a checkpoint and the end of the training")
        last = self.run_world(arguments + ["--dump-parameters=resumed.st", "--resume=must"],
                              ranks=ranks_after or ranks, generation=len(steps) + 1)
        return last, self.bytes_of("resumed.st")

    def test_two_ranks_killed_at_any_step(self):
        whole = self.undisturbed(SHORT, 2)
        last, resumed = self.killed_and_resumed(SHORT, 2, [1, 50, 200], victims=(0, 1))
        self.assertIn("resumed at step", last[0].text("err"))
        self.assert_same_bits(whole, resumed)
        # With another world size every sample of the epoch once more: repeating or skipping a part of
        # the data would leave the parameters far from those of the undisturbed run.
        last, resumed = self.killed_and_resumed(SHORT, 2, [100], ranks_after=3)
        self.assertIn("the global batch stays 32", last[0].text("err"))
        difference = support.largest_difference(whole, resumed)
        print(f"resumed with 3 ranks: largest difference {difference:.2g}", flush=True)
        self.assertLess(difference, 1e-4)

    # With three ranks the order in which gradients lie in their buckets decides how sums are
    # rounded, so it must come back too. Small buckets make several of them.
    def test_three_ranks_and_several_buckets(self):
        arguments = SHORT + ["--bucket-mib=0.005", "--backend=gloo"]
        whole = self.undisturbed(arguments, 3)
        _, resumed = self.killed_and_resumed(arguments, 3, [60], victims=(2,))
        self.assert_same_bits(whole, resumed)

    # Shared memory adds up rank by rank, however gradients are cut into buckets. Another backend
    # adds in another order, which is said.
    def test_shared_memory_needs_no_order_of_buckets(self):
        arguments = ["--epochs=1", "--limit-train=960", "--batch=16", "--backend=shm"]
        one = self.undisturbed(arguments + ["--bucket-mib=25"], 3, "one")
        several = self.undisturbed(arguments + ["--bucket-mib=0.005"], 3, "several")
        self.assert_same_bits(one, several)
        workers = self.run_world(arguments + ["--backend=gloo", "--epochs=2", "--resume=must"], ranks=3, generation=2)
        self.assertIn("formed by gloo, before by shm", workers[0].text("err"))

    def test_alone_with_a_time_interval(self):
        arguments = ["--epochs=2", "--limit-train=32000", "--checkpoint-every=1s"]
        whole = self.undisturbed(arguments, 1)
        _, resumed = self.killed_and_resumed(arguments, 1, [300, 700])
        self.assert_same_bits(whole, resumed)

    def test_a_finished_training_says_so_and_can_be_extended(self):
        arguments = ["--epochs=1", "--limit-train=6400", "--dump-parameters=p.st"]
        first = self.run_alone(arguments)
        parameters = self.bytes_of("p.st")
        os.unlink(self.path("p.st"))
        again = self.run_alone(arguments)
        self.assertIn("finished already: 1 epoch, 100 steps", again.text("err"))
        self.assertIn("--resume=never", again.text("err"))
        self.assertEqual(first.text("out"), again.text("out"))
        self.assert_same_bits(parameters, self.bytes_of("p.st"))

        more = self.run_alone(arguments + ["--resume=must"])
        self.assertIn("finished already", more.text("err"))
        extended = self.run_alone([a.replace("--epochs=1", "--epochs=2") for a in arguments])
        self.assertIn("resumed at step 100, epoch 2 of 2", extended.text("err"))
        whole = self.undisturbed(["--epochs=2", "--limit-train=6400"], 1)
        self.assert_same_bits(whole, self.bytes_of("p.st"))

    def test_never_starts_afresh_but_not_at_a_restart(self):
        arguments = ["--epochs=1", "--limit-train=6400"]
        self.run_alone(arguments)
        old = self.directories()
        self.run_alone(arguments + ["--resume=never", "--seed=2", "--model=linear"])
        self.assertTrue(set(old) <= set(self.directories()), "another lineage was pruned")
        endless = ["--epochs=100000", "--limit-train=6400", "--checkpoint-every=10", "--resume=never"]
        (worker,) = self.start(endless, generation=1)
        self.assertTrue(worker.wait_until(lambda: "CHECKPOINT" in worker.said, "checkpoint"))
        self.assertIn("training mlp", worker.text("err"))
        worker.kill()
        worker.wait()
        (restarted,) = self.start(endless, generation=2)
        self.assertTrue(restarted.wait_for_text("resumed at step"), restarted.text("err"))
