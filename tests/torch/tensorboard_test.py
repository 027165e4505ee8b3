"""Does TensorBoard show of ddprun-train's curves what was trained, and no step twice after a restart?

Its own readers load the files, and its own protobuf and record writer make the same bytes.
"""

import glob
import json
import logging
import os
import re
import signal

import numpy as np
from ddprun_runs import TRAIN, DdprunTest, eventually, read_text
from tensorboard.backend.event_processing import event_accumulator, plugin_event_accumulator

LIMIT = 120
logging.getLogger("tensorboard").setLevel(logging.ERROR)  # It tells of each purge.
# Every few steps a report; one epoch is 2500 steps of two ranks.
LONG = ["--model=toy", "--epochs=1", "--data-arg=train=40000", "--limit-train=24000", "--progress-every=0.02",
        "--grad-norm", "--memory-snapshots=no", "--tensorboard=made/curves", "--checkpoint-dir=ckpt"]


class TensorBoard(DdprunTest):
    def curves(self, reader="scalars"):
        """tag -> [(step, value)]."""
        if reader == "scalars":
            loaded = event_accumulator.EventAccumulator(self.path("made/curves"), size_guidance={"scalars": 0})
            loaded.Reload()
            return {tag: [(s.step, s.value) for s in loaded.Scalars(tag)] for tag in loaded.Tags()["scalars"]}
        # The one behind TensorBoard's pages.
        loaded = plugin_event_accumulator.EventAccumulator(self.path("made/curves"), size_guidance={"tensors": 0})
        loaded.Reload()
        return {tag: [(t.step, t.tensor_proto.float_val[0]) for t in loaded.Tensors(tag)]
                for tag in loaded.Tags()["tensors"]}

    def files(self):
        return sorted(glob.glob(self.path("made/curves/*")))

    def metrics(self):
        return [json.loads(line) for line in read_text(self.path("ckpt/metrics.jsonl")).splitlines()]

    def killed_and_resumed(self, *arguments):
        """Kills rank 0 at step 350, between two checkpoints; the step from which the next generation
        continued."""
        run = self.start("--nproc-per-node=2", "--max-restarts=3", TRAIN, *LONG, "--skew=0:1", *arguments)
        def step():
            return max((row["step"] for row in self.metrics() if row["gen"] == 1), default=0)
        self.assertTrue(eventually(lambda: step() >= 350, LIMIT), run.all())
        os.kill(next(pid for pid, (_, rank) in self.trainers().items() if rank == 0), signal.SIGKILL)
        self.assertEqual(run.wait(LIMIT), 0, run.all())
        self.assertIn("restarting all workers (1 of 3)", run.err())
        return int(re.findall(r"resumed at step (\d+)", run.err())[-1])

    def assert_shown_once(self, resumed):
        rows = self.metrics()
        expected = {row["step"]: row for row in rows if row["gen"] == 2 or row["step"] <= resumed}
        before = {row["step"] for row in rows if row["gen"] == 1}
        self.assertGreater(max(before), resumed, "no step was trained twice")
        for reader in ("scalars", "tensors"):
            shown = self.curves(reader)
            for tag, key in (("train/loss", "loss"), ("train/lr", "lr"), ("train/grad_norm", "grad_norm"),
                             ("train/samples_per_s", "samples_per_s"), ("run/gen", "gen"), ("run/epoch", "epoch"),
                             ("run/world_size", "world_size")):
                steps = [step for step, _ in shown[tag]]
                self.assertEqual(steps, sorted(expected), f"{reader} {tag}")
                for step, value in shown[tag]:
                    self.assertEqual(np.float32(expected[step][key]), np.float32(value), f"{reader} {tag} {step}")

    # From the checkpoint that was made before the first step: all that was shown is void.
    def test_a_training_that_begins_again_is_shown_once(self):
        resumed = self.killed_and_resumed("--checkpoint-every=1000000")
        self.assertEqual(resumed, 0)
        self.assert_shown_once(resumed)
        self.assertEqual(len(self.files()), 2)  # Of rank 0 alone, one for each start.

    # Also where its writer was killed within a write: whole records count, and the next file
    # continues.
    def test_a_continued_training_is_shown_once(self):
        resumed = self.killed_and_resumed("--checkpoint-every=100")
        self.assertGreaterEqual(resumed, 100)
        self.assert_shown_once(resumed)
        first = self.files()[0]
        whole = os.path.getsize(first)
        os.truncate(first, whole - 7)
        self.assert_shown_once(resumed)
        with open(first, "ab") as file:
            file.write(b"\xff" * 100)
        self.assert_shown_once(resumed)

    def test_values_of_validation_and_end_are_those_that_are_said(self):
        run = self.run_ddprun("--nproc-per-node=1", TRAIN, "--epochs=2", "--limit-train=1280", "--batch=64",
                              "--validate-every=10", "--tensorboard=made/curves", "--checkpoint-dir=ckpt", limit=LIMIT)
        shown = self.curves()
        said = re.findall(r"validation at step (\d+) on the test set: loss ([\d.]+), accuracy ([\d.]+)%", run.err())
        self.assertEqual([int(step) for step, _, _ in said], [10, 20, 30, 40])
        self.assertEqual([(step, f"{value:.4f}") for step, value in shown["validation/loss"]],
                         [(int(step), loss) for step, loss, _ in said])
        self.assertEqual([(step, f"{100 * value:.2f}") for step, value in shown["validation/accuracy"]],
                         [(int(step), accuracy) for step, _, accuracy in said])
        for of in ("train", "test"):
            accuracy, loss = re.search(of + r" accuracy ([\d.]+)%, loss ([\d.]+)", run.out()).groups()
            self.assertEqual([(s, f"{v:.4f}") for s, v in shown[f"end/{of}_loss"]], [(40, loss)])
            self.assertEqual([(s, f"{100 * v:.2f}") for s, v in shown[f"end/{of}_accuracy"]], [(40, accuracy)])
        rows = self.metrics()
        self.assertEqual([np.float32(row["accuracy"]) for row in rows],
                         [np.float32(value) for _, value in shown["train/accuracy"]])
        self.assertNotIn("train/grad_norm", shown)
        for (_, seconds), (_, speed) in zip(shown["train/step_s"], shown["train/samples_per_s"], strict=True):
            self.assertAlmostEqual(seconds * speed, 64, delta=1)

    def test_a_task_without_classes_has_no_accuracy(self):
        run = self.run_ddprun("--nproc-per-node=1", TRAIN, "--model=toy", "--epochs=1", "--validate-every=10",
                              "--tensorboard=made/curves", "--checkpoint-dir=ckpt", limit=LIMIT)
        shown = self.curves()
        self.assertIn("validation/loss", shown)
        self.assertEqual([tag for tag in shown if "accuracy" in tag], [])
        self.assertNotIn("accuracy", run.err())
