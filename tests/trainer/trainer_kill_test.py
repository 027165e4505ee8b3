"""A training that saves after every step, killed over and over in the same directory: at random
instants, and in turn with them as soon as a save is seen to have begun.

DDPRUN_TRAIN_KILLS=1000 kills it that often instead of 16 times, DDPRUN_SEED repeats the instants.
"""

import os
import random
import subprocess
import time

import support

KILLS = int(os.environ.get("DDPRUN_TRAIN_KILLS", "16"))
SEED = int(os.environ.get("DDPRUN_SEED", "1"))
STEPS_AN_EPOCH = 40
# Parameters and Adam's state are 9.5 MB: a save takes as long as several steps.
MODEL = ["--model=mlp", "--model-arg=hidden=1000", f"--limit-train={64 * STEPS_AN_EPOCH}",
         f"--epochs={1 + KILLS // 2}"]


class Kill(support.TrainerTest):
    def resumed_at(self, worker):
        text = worker.text("err")
        if "resumed at step " in text:
            return int(text.split("resumed at step ")[1].split(",")[0])
        self.assertIn("training mlp on mnist", text)
        return 0

    def unfinished_save(self):
        names = os.listdir(self.checkpoints)
        uncommitted = bool(self.directories()) and self.directories()[-1] != self.head()
        return uncommitted or any(name.startswith(".tmp-") for name in names)

    def wait_for_save(self, worker):
        """Until a save has begun, looking without a pause: it may last a few milliseconds only."""
        deadline = time.monotonic() + support.LIMIT
        while not self.unfinished_save() and worker.process.poll() is None:
            self.assertLess(time.monotonic(), deadline, worker.text("err"))

    def killed_once(self, generation, instant):
        """Where it continued, the newest step that it said was saved, and whether a save was
        cut. instant: seconds after its start; None: during the first save that is seen."""
        (worker,) = self.start(MODEL + ["--checkpoint-every=1", "--progress-every=0"],
                               generation=generation)
        running = worker.wait_for_text("global batch")
        self.assertTrue(running, worker.text("err"))
        if instant is None:
            self.wait_for_save(worker)
            worker.kill()
        else:
            self.wait_for_commit(worker)  # On a slow disk a save may take longer than any instant.
            try:
                worker.process.wait(instant)
            except subprocess.TimeoutExpired:
                worker.kill()
        code = worker.wait()
        self.assertIn(code, (0, -9), worker.text("err"))
        worker.listen()
        for word in ("damaged", "digest", "cannot"):
            self.assertNotIn(word, worker.text("err"))
        return (self.resumed_at(worker), int(worker.said.get("CHECKPOINT", 0)),
                self.unfinished_save(), code == 0 or self.is_finished())

    def test_no_step_that_was_saved_is_lost_and_the_bits_stay(self):
        generator = random.Random(SEED)
        saved = cuts = kills = 0
        for kills in range(1, KILLS + 1):
            instant = generator.uniform(0, 0.5) if kills % 2 else None
            resumed, newest, cut, finished = self.killed_once(kills, instant)
            self.assertGreaterEqual(resumed, saved, f"an older step than the last one saved, kill {kills}")
            saved, cuts = max(resumed, newest), cuts + cut
            if finished:
                break
        print(f"seed {SEED}: {kills} kills, {cuts} in the middle of a save; step {saved} reached",
              flush=True)
        self.assertGreater(cuts, 0)
        (last,) = self.run_world(MODEL + ["--resume=must", "--dump-parameters=killed.st"],
                                 generation=KILLS + 1)
        if not finished:
            self.assertGreaterEqual(self.resumed_at(last), saved)
        self.assert_same_bits(self.trained(MODEL, "whole")[1], self.bytes_of("killed.st"))
