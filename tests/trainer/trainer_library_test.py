"""Programs with a model of their own, on the trainer as a library: those of examples/cpp.

Each, with a rank killed in the middle, ends with the bits of an undisturbed one; charlm also when it was stopped.
"""

import json
import os
import re

import support
from ddprun_runs import DdprunTest, kill_all, read_bytes, read_text, workers_below

EXAMPLES = os.path.dirname(os.environ["DDPRUN_TRAIN"])  # The program that support starts: charlm.
SMALL = ["--context=32", "--width=32", "--layers=1", "--heads=2", "--epochs=2", "--batch=8",
         "--checkpoint-every=20"]


def write_text(path):
    with open(path, "w") as file:  # Any text: a clock that counts in words.
        for number in range(2000):
            file.write(f"{number % 12} hours and {number % 60} minutes; ")


class Library(support.TrainerTest):
    def setUp(self):
        super().setUp()
        text = self.path("text")
        write_text(text)
        self.arguments = SMALL + ["--data=" + text]

    def final_bytes(self, arguments, **how):
        path = self.path(f"parameters.{self.started}")
        self.run_world(arguments + ["--dump-parameters=" + path], **how)
        with open(path, "rb") as file:
            return file.read()

    def test_a_stopped_program_saves_ends_with_75_and_continues_with_the_same_bits(self):
        whole = self.final_bytes(self.arguments, ranks=2)
        for attempt in range(support.ATTEMPTS):
            self.checkpoints = self.path(f"stopped.{attempt}")
            workers = self.start(self.arguments + support.slowed(attempt), ranks=2)
            workers[1].wait_for_step(15)
            workers[1].kill(support.signal.SIGTERM)
            ends = [worker.wait() for worker in workers]
            if ends == [75, 75]:
                break
            self.assertEqual(ends, [0, 0])
        self.assertIn("stopping on request, saved at step", workers[0].text("err"))
        self.assertNotIn("The ", workers[0].text("out"), "what follows the loop was run")
        self.assertEqual(self.final_bytes(self.arguments, ranks=2, generation=2), whole)

    def test_a_finished_program_takes_no_step_and_has_the_result(self):
        first = self.final_bytes(self.arguments)
        again = self.final_bytes(self.arguments, generation=2)
        self.assertEqual(first, again)

    def test_validates_and_reports_its_metrics(self):
        result = self.path("result.json")
        workers = self.run_world(self.arguments + ["--validate-every=20", "--keep-best",
                                                   "--result=" + result], ranks=2)
        self.assertIn("validation at step 20 on the validation set: loss", workers[0].text("err"))
        metrics = self.json_of(result)["metrics"]
        self.assertLess(metrics["validation_loss"], 3)  # That of a model that knows nothing is 5.5.
        self.assertIn("validation loss", workers[0].text("out"))

    def test_the_loss_of_a_batch_in_parts_is_that_of_the_whole(self):
        losses = []
        for name, flags in (("whole", []), ("parts", ["--micro-batch=3"])):
            self.checkpoints = self.path(name)
            self.run_world([*self.arguments, "--epochs=1", "--limit-train=8", "--dropout=0", *flags])
            with open(self.path(name, "metrics.jsonl")) as file:
                losses.append(json.loads(file.readlines()[-1])["loss"])
        self.assertAlmostEqual(*losses, delta=1e-5)  # Of the one step.

    def test_says_what_is_wrong_with_its_flags(self):
        for flags, code, says in (
                (["--width=32", "--lr=1"], 2, "--lr"),
                (["--autocast=fp16"], 2, "--autocast=fp16"),
                (["--data=/nowhere"], 1, "the program failed: filesystem error"),
                (["--width=many"], 2, "--width must be a number, not 'many'")):
            (worker,) = self.run_world(self.arguments + flags, expect=code)
            self.assertIn(says, worker.text("err"))

    def test_ranks_with_other_flags_do_not_train_together(self):
        workers = self.run_world(self.arguments, ranks=2, expect=76, more={1: ["--width=64"]})
        self.assertIn("the value of the program's flags is", workers[0].text("err"))

    def test_a_checkpoint_of_other_flags_is_refused(self):
        self.run_world(self.arguments)
        refused = {"--heads=1": "the checkpoint is of another training: the value of the program's flags",
                   "--width=64": "this program trains 'charlm' (wte.weight[256,64]"}
        for generation, flag in enumerate(refused, 2):
            (worker,) = self.run_world(self.arguments + [flag], expect=2, generation=generation)
            self.assertIn(refused[flag], worker.text("err"))


class Killed(DdprunTest):
    def launch(self, name, program, flags):
        return self.start("--nproc-per-node=2", "--max-restarts=1", os.path.join(EXAMPLES, program), *flags,
                          f"--checkpoint-dir={name}", f"--dump-parameters={name}.st")

    def killed_once(self, name, program, flags):
        for attempt in range(1, support.ATTEMPTS):
            run = self.launch(f"{name}.{attempt}", program, [*flags, *support.slowed(attempt), "--progress-every=0.01"])
            self.wait_for(lambda run=run: re.search(r"step \d\d+/", run.all()) or run.process.poll() is not None,
                          run, limit=support.LIMIT, what="step 10")
            kill_all(workers_below(run.process.pid)[:1])
            self.all_end([run], limit=support.WHOLE_LIMIT)
            if "was killed by signal 9" in run.err() and "resumed at step" in run.err():
                return read_bytes(self.path(f"{name}.{attempt}.st"))
        return self.fail("no kill came before the end of the training")

    def test_each_example_learns_and_ends_with_the_bits_of_an_undisturbed_one(self):
        write_text(self.path("text"))
        runs = {}
        for program, *flags in (["mlp", "--epochs=2", "--publish=circle"],
                                ["finetune", "--epochs=1", "--init-from=circle"],
                                ["gan", "--epochs=3"],
                                ["charlm", *SMALL, "--data=text"]):
            with self.subTest(program):
                runs[program] = self.launch("whole." + program, program, flags)
                self.all_end([runs[program]], limit=support.WHOLE_LIMIT)
                whole = read_bytes(self.path(f"whole.{program}.st"))
                self.assertGreater(len(whole), 500)
                self.assertTrue(self.killed_once("killed." + program, program, flags) == whole, "the parameters differ")
        told = read_text(self.path("whole.mlp/metrics.jsonl")).splitlines()
        self.assertGreater(json.loads(told[-1])["accuracy"], 0.9)
        self.assertIn("parameters from 'circle'", runs["finetune"].err())
        radius = float(runs["gan"].out().split("mean radius of points made: ")[1].split()[0])
        self.assertAlmostEqual(radius, 1, delta=0.4)
