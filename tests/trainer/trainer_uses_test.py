"""Uses of checkpoints: the best one, stopping early, publishing, transfer, SageMaker, STOP and
SAVE, the reports on the way."""

import json
import os
import struct

from support import TrainerTest, parameters

# A learning rate at which the loss soon goes up and down.
RESTLESS = ["--limit-train=2000", "--validation-samples=500", "--validate-every=10", "--lr=0.1",
            "--early-stop=2", "--keep-best", "--epochs=40", "--checkpoint-every=10"]


def header(data):
    (size,) = struct.unpack("<Q", data[:8])
    return json.loads(data[8:8 + size])


def validations(worker):
    return [line for line in worker.text("err").splitlines() if "validation at step" in line]


class UsesTest(TrainerTest):
    def test_the_best_is_kept_published_and_found_again(self):
        arguments = RESTLESS + ["--publish=out", "--keep-last=2"]
        first = self.run_alone(arguments)
        self.assertIn("stopping early: 2 validations", first.text("err"))
        about = self.json_of("out", "model.json")
        best = int(about["metrics"]["best_validation_step"])
        self.assertEqual(about["step"], best)
        last = validations(first)[-1]
        self.assertIn(f"at step {best}, 2 ago", last)
        directory = self.json_of(self.checkpoints, "best.json")["directory"]
        self.assertTrue(directory.startswith(f"step-{best:08}-"), directory)
        with open(os.path.join(self.checkpoints, directory, "model.safetensors"), "rb") as file:
            kept = file.read()
        published = self.bytes_of("out/model.safetensors")
        self.assert_same_bits(parameters(kept), parameters(published))
        self.assertEqual(sorted(header(published).keys() - {"__metadata__"}),
                         ["fc1.bias", "fc1.weight", "fc2.bias", "fc2.weight"])
        again = self.run_alone(RESTLESS + ["--publish=again"])
        self.assertIn("finished already", again.text("err"))
        self.assert_same_bits(published, self.bytes_of("again/model.safetensors"))

    # Another start would find it as it is.
    def test_a_broken_best_is_not_published_and_no_reason_to_start_again(self):
        self.run_alone(RESTLESS)
        directory = self.json_of(self.checkpoints, "best.json")["directory"]
        self.assertNotEqual(directory, self.head())
        path = os.path.join(self.checkpoints, directory, "model.safetensors")
        with open(path, "r+b") as file:
            file.seek(-1, os.SEEK_END)
            (byte,) = file.read(1)
            file.seek(-1, os.SEEK_END)
            file.write(bytes([byte ^ 1]))
        refused = self.run_alone(RESTLESS + ["--publish=out"], expect=76)
        self.assertIn("the best checkpoint is broken, and nothing was published", refused.text("err"))
        self.assertIn(path, refused.text("err"))
        self.assertFalse(os.path.exists(self.path("out")))
        without = [flag for flag in RESTLESS if flag != "--keep-best"]
        self.assertIn("finished already", self.run_alone(without + ["--publish=out"]).text("err"))
        self.assertTrue(os.path.exists(self.path("out")))

    def test_all_ranks_stop_early_at_the_same_step(self):
        workers = self.run_world(RESTLESS, ranks=2)
        self.assertIn("2 ago", validations(workers[0])[-1])
        self.assertEqual(validations(workers[1]), [])
        again = self.run_world(RESTLESS, ranks=2, generation=2)
        self.assertIn("finished already", again[0].text("err"))

    def test_old_parameters_go_into_a_new_head_and_frozen_ones_stay(self):
        self.run_alone(["--epochs=1", "--limit-train=640", "--publish=old",
                        "--checkpoint-dir=" + self.path("a")])
        old = parameters(self.bytes_of("old/model.safetensors"))
        wrong = self.run_alone(["--model=linear", "--epochs=1", "--limit-train=640",
                                "--init-from=old", "--checkpoint-dir=" + self.path("b")], expect=2)
        self.assertIn("fc.weight", wrong.text("err"))
        # The same names in a file whose head has another shape.
        data = self.bytes_of("old/model.safetensors")
        entries = header(data)
        begin, end = entries["fc2.weight"]["data_offsets"]
        entries["fc2.weight"]["shape"] = [(end - begin) // 4]
        text = json.dumps(entries).encode()
        (size,) = struct.unpack("<Q", data[:8])
        with open(self.path("other.safetensors"), "wb") as file:
            file.write(struct.pack("<Q", len(text)) + text + data[8 + size:])
        worker = self.run_alone(
            ["--epochs=1", "--limit-train=640", "--seed=2", "--init-from=other.safetensors",
             "--init-strict=no", "--freeze=fc1", "--dump-parameters=new.safetensors"])
        self.assertIn("loaded 3: fc2.bias fc1.weight fc1.bias", worker.text("err"))
        self.assertIn("of another shape, left as initialised, 1: fc2.weight (F32[500] there, "
                      "F32[10,50] here)", worker.text("err"))
        new = parameters(self.bytes_of("new.safetensors"))
        self.assertEqual(new["fc1.weight"], old["fc1.weight"])
        self.assertEqual(new["fc1.bias"], old["fc1.bias"])
        self.assertNotEqual(new["fc2.bias"], old["fc2.bias"])

    def test_everything_frozen_is_refused(self):
        worker = self.run_alone(["--freeze=fc1,fc2"], expect=2)
        self.assertIn("--freeze leaves no parameter to train", worker.text("err"))

    def test_on_sagemaker_its_conventions_are_flags_that_a_person_overrules(self):
        root = self.path("ml")
        os.makedirs(root + "/input/config")
        with open(root + "/input/config/hyperparameters.json", "w") as file:
            json.dump({"epochs": "2", "limit_train": "640", "batch": "32"}, file)
        environment = {"DDPRUN_SAGEMAKER_ROOT": root, "SM_CHANNEL_TRAINING": os.environ[
            "DDPRUN_MNIST"], "SM_HP_EPOCHS": "1"}
        self.run_world(["--batch=16", "--checkpoint-dir=" + root + "/checkpoints"],
                       environment=environment)
        about = self.json_of("ml", "model", "model.json")
        self.assertEqual((about["step"], about["epoch"]), (40, 1))
        self.assertTrue(any(n.startswith("step-") for n in os.listdir(root + "/checkpoints")))
        failing = dict(environment, SM_CHANNEL_TRAINING=self.path("nothing"))
        (worker,) = self.run_world(["--checkpoint-dir=" + root + "/checkpoints"],
                                   environment=failing, expect=2)
        with open(root + "/output/failure") as file:
            why = file.read().strip()
        self.assertIn(self.path("nothing"), why)
        self.assertIn(why, worker.text("err"))

    def test_a_stop_file_stops_all_ranks_until_it_is_removed(self):
        endless = ["--epochs=100000", "--limit-train=6400", "--checkpoint-every=100000"]
        workers = self.start(endless, ranks=2)
        self.assertTrue(workers[0].wait_for_step(20))
        stop = os.path.join(self.checkpoints, "STOP")
        open(stop, "w").close()
        self.assertEqual([worker.wait() for worker in workers], [75, 75])
        self.assertRegex(workers[0].text("err"), r"saved at step \d+")
        refused = self.start(endless, ranks=2, generation=2)
        self.assertEqual([worker.wait() for worker in refused], [76, 76])
        self.assertIn("STOP' exists, so nothing is trained. Remove it", refused[0].text("err"))
        os.unlink(stop)
        (worker,) = self.start(endless, generation=3)
        self.assertTrue(worker.wait_for_text("resumed at step"))

    def test_a_save_file_saves_and_training_continues(self):
        (worker,) = self.start(["--epochs=100000", "--keep-last=32",
                                "--checkpoint-every=1000000"])
        self.assertTrue(worker.wait_for_step(5))
        open(os.path.join(self.checkpoints, "SAVE"), "w").close()
        self.assertTrue(worker.wait_for_text("as SAVE asked"))
        step = int(worker.text("err").split("saving step ")[1].split(",")[0])
        self.assertTrue(worker.wait_until(
            lambda: [n for n in self.directories() if n.startswith(f"step-{step:08}-")], f"checkpoint of step {step}"))
        self.assertTrue(worker.wait_for_step(step + 50))
        self.assertFalse(os.path.exists(os.path.join(self.checkpoints, "SAVE")))
