"""Does a package of AOTInductor evaluate as the program itself would, and is a wrong one refused? DdprunTest sees that
nothing stays in TMPDIR."""

import json
import os
import re
import signal
import tempfile
import zipfile

import torch
from charlm_model import Transformer
from ddprun_runs import TRAIN, DdprunTest, eventually, read_bytes, read_text
from export_package import Mlp, export
from torch._inductor.config import aot_inductor

CHARLM = os.environ["CHARLM"]
LIMIT = 120
SMALL = ["--context=32", "--width=32", "--layers=1", "--heads=2", "--batch=8", "--epochs=1", "--checkpoint-every=20",
         "--validate-every=20"]
VALIDATION = re.compile(r"validation at step (\d+) on [^:]*: loss ([\d.]+)")


class EvalPackage(DdprunTest):
    @classmethod
    def setUpClass(cls):
        torch.set_num_threads(1)
        # One of each for all tests: the compiler takes most of the time, and headers for two packages more than they save.
        aot_inductor.precompile_headers, aot_inductor.compile_wrapper_opt_level = False, "O0"
        cls.compiled = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.compiled.cleanup)
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = os.path.join(cls.compiled.name, "inductor")
        cls.mlp = os.path.join(cls.compiled.name, "mlp.pt2")
        export(Mlp(), (torch.zeros(64, 1, 28, 28),), cls.mlp)
        cls.charlm_package = "--eval-package=" + os.path.join(cls.compiled.name, "charlm.pt2")
        export(Transformer(32, 32, 1, 2), (torch.zeros(4, 32, dtype=torch.long),), cls.charlm_package.split("=")[1])

    def setUp(self):
        super().setUp()
        self.environment["OMP_NUM_THREADS"] = "1"
        self.write("text", "".join(f"{number % 12} hours and {number % 60} minutes; " for number in range(2500)))

    def charlm(self, name, *flags, killed=False):
        """The losses of its validations by step, the last one, and its parameters at the end."""
        run = self.start("--nproc-per-node=2", "--max-restarts=1", CHARLM, *SMALL, "--data=" + self.path("text"),
                         "--checkpoint-dir=" + self.path(name), "--result=" + self.path(name + ".json"),
                         "--dump-parameters=" + self.path(name + ".end"), *(["--skew=0:5"] if killed else []), *flags)
        if killed:
            self.assertTrue(eventually(lambda: "validation at step 40" in run.err(), LIMIT), run.all())
            os.kill(next(pid for pid, (_, rank) in self.trainers(CHARLM).items() if rank == 1), signal.SIGKILL)
        self.assertEqual(run.wait(LIMIT), 0, run.all())
        self.assertEqual("restarting all workers (1 of 1)" in run.err(), killed, run.err())
        steps = {int(step): float(loss) for step, loss in VALIDATION.findall(run.err())}
        last = json.loads(read_text(self.path(name + ".json")))["metrics"]["validation_loss"]
        return steps, last, read_bytes(self.path(name + ".end"))

    def test_a_program_validates_with_it_before_and_after_a_kill(self):
        eager_steps, eager, end = self.charlm("eager")
        self.assertGreater(len(eager_steps), 3)
        steps, last, parameters = self.charlm("killed", self.charlm_package, killed=True)
        self.assertEqual(steps.keys(), eager_steps.keys())
        for step, loss in steps.items():
            self.assertAlmostEqual(loss, eager_steps[step], delta=2e-4, msg=f"step {step}")
        self.assertAlmostEqual(last, eager, delta=1e-5 * eager)
        self.assertEqual(parameters, end, "the validation changes the training")

    def train(self, workers, *flags, expect=0):
        return self.run_ddprun(f"--nproc-per-node={workers}", TRAIN, "--epochs=1", "--limit-train=1280", "--batch=64", "--lr=0.01",
                               "--validate-every=5", "--resume=never", *flags, expect=expect, limit=LIMIT)

    def test_ddprun_train_evaluates_with_it(self):
        flag = "--eval-package=" + self.mlp
        eager, compiled = (re.findall(r"loss (\d\.\d{3})", run.err() + run.out())
                           for run in (self.train(2), self.train(2, flag)))
        self.assertEqual(compiled, eager)

    def test_a_package_that_does_not_fit_ends_the_training_with_2(self):
        self.write("text.pt2", "no package")
        mlp = "--eval-package=" + self.mlp
        for flag, arguments, why in (
                ("--eval-package=" + self.path("nowhere.pt2"), [], "No such file or directory"),
                ("--eval-package=" + self.path("text.pt2"), [], "Failed to initialize zip archive"),
                (mlp, ["--model=linear"], "it lacks the model's 'fc.weight'"),
                (mlp, ["--model-arg=hidden=30"], "its 'fc1.weight' is Float[50,784], but the model's is Float[30,784]"),
                (self.charlm_package, [CHARLM, *SMALL, "--heads=1", "--data=" + self.path("text")],
                 "its result differs from the model's: it computes ")):
            with self.subTest(why):
                # One rank: a peer would be ended while it loads, and leave its folder in TMPDIR.
                run = (self.run_ddprun(*arguments, flag, expect=2, limit=LIMIT) if CHARLM in arguments else
                       self.train(1, flag, *arguments, expect=2))
                self.assertIn("cannot evaluate with the package '" + flag.split("=")[1] + "': " + why, run.err())
                self.assertIn("Export the model that is trained, with its names, types and shapes", run.err())

    # DdprunTest sees that nothing of it is left in TMPDIR. A folder was taken, and removed as if the loader had made it.
    def test_a_package_that_cannot_be_loaded_leaves_all_folders_as_they_are(self):
        with zipfile.ZipFile(self.mlp) as good, zipfile.ZipFile(self.path("broken.pt2"), "w") as broken:
            good.extractall(self.path("aotinductor_mine"))
            for name in good.namelist():
                broken.writestr(name, b"no library" if name.endswith(".so") else good.read(name))
        before = os.listdir(self.path("aotinductor_mine"))
        run = self.train(1, "--eval-package=" + self.path("aotinductor_mine"), expect=2)
        self.assertIn("it is not a file", run.err())
        self.assertEqual(os.listdir(self.path("aotinductor_mine")), before)
        run = self.train(1, "--eval-package=" + self.path("broken.pt2"), expect=2)
        self.assertIn("Error in dlopen", run.err())
