"""The wheels, installed by pip into empty virtual environments, and used there as a user would."""

import importlib.metadata
import os
import pathlib
import sys
import unittest
import zipfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "integration"))

from made import BUILD, ROOT, TORCH_PYTHON, TRAIN, Venv, call, clean_environment, files_below
from pythons import VERSIONS, Pythons
from run_path_test import bad_entries, binaries, run_paths


class Wheels(Pythons):
    kinds = ("wheel",)

    def new_venv(self, name):
        return Venv(self.folder / name)

    def ddprun(self, venv, *words, **options):
        return call(venv.bin / "ddprun", *words, env=clean_environment(OMP_NUM_THREADS="1"), cwd=self.folder, **options)

    def metadata(self, name):
        with zipfile.ZipFile(self.packages[name]) as wheel:
            folder = next(n for n in wheel.namelist() if n.endswith(".dist-info/METADATA"))
            path = wheel.extract(folder, self.folder / "metadata")
        return importlib.metadata.PathDistribution(pathlib.Path(path).parent)

    def test_an_empty_environment_starts_a_users_script(self):
        venv = self.new_venv("user")
        venv.install(self.packages["ddprun"])
        self.assert_two_ranks(self.ddprun(venv, "--nproc-per-node=2", "train.py"))
        self.assertIn(f"ddprun {self.metadata('ddprun').version}", self.ddprun(venv, "--version"))
        self.assertIn("ddprun belongs to its environment", self.ddprun(venv, "env"))
        said = call(venv.python, "-m", "ddprun", "--nproc-per-node=2", "train.py", cwd=self.folder,
                    env=clean_environment())
        self.assert_two_ranks(said)
        said = call(venv.python, "-c", "import ddprun; print(ddprun.executable(), ddprun.run(max, 2, args=(1, 2)))",
                    env=clean_environment(OMP_NUM_THREADS="1"))
        self.assertEqual(said.split("\n")[-2], f"{venv.bin / 'ddprun'} [2, 2]")
        for name in ("share/man/man1/ddprun.1", "share/man/man1/ddprun-status.1", "share/bash-completion/completions/ddprun"):
            self.assertTrue((venv.folder / name).is_file(), name)
        self.assertEqual(list(venv.folder.rglob("ddprun/py.typed")) != [], True)
        self.assertEqual([str(name) for name in venv.folder.rglob("*.pth") if "ddprun" in name.name], [], "it takes part in each start")

    # The versions between are tested by tests/compatibility/every_python_test.py.
    def test_the_oldest_python(self):
        self.check(VERSIONS[0])

    def test_the_newest_python(self):
        self.check(VERSIONS[-1])

    def test_the_wheels_own_descriptions(self):
        launcher = self.metadata("ddprun")
        self.assertEqual([r for r in launcher.requires or [] if "extra" not in r], [])
        self.assertEqual(launcher.metadata["Requires-Python"], ">=3.10")
        self.assertIn("-py3-none-manylinux_2_34_x86_64.whl", self.packages["ddprun"].name)
        for name, path in self.packages.items():
            self.assertEqual(self.metadata(name).metadata["License-Expression"], "Apache-2.0")
            with zipfile.ZipFile(path) as wheel:
                for notice in ("LICENSE", "NOTICE"):
                    self.assertTrue([n for n in wheel.namelist() if n.endswith(f".dist-info/licenses/{notice}")], name)
        if TRAIN:
            trainer = self.metadata("ddprun_train")
            self.assertEqual(trainer.version, launcher.version)
            torch = call(TRAIN, "--version").split("(libtorch ")[1].split(")")[0]
            self.assertEqual(sorted(trainer.requires), [f"ddprun=={launcher.version}", f"torch=={torch}"])

    def test_the_binaries_name_no_place_of_this_machine(self):
        names = [str(ROOT), str(BUILD.resolve()), os.path.expanduser("~") + "/"]
        found = set()
        for name, wheel in self.packages.items():
            tree = self.folder / "trees" / name
            with zipfile.ZipFile(wheel) as archive:
                archive.extractall(tree)
            for data in tree.glob("*.data/data"):
                for path in binaries(data):
                    found.add(os.path.basename(path))
                    content = pathlib.Path(path).read_bytes()
                    self.assertEqual([place for place in names if place.encode() in content], [], path)
                    for run_path in run_paths(path):
                        self.assertEqual(bad_entries(run_path), [], path)
                        self.assertTrue(all(e.startswith("$ORIGIN/") for e in run_path.split(":")), run_path)
        self.assertLessEqual({"ddprun"} | ({"ddprun-train", "ddprun-bench-comm"} if TRAIN else set()), found)

    @unittest.skipUnless(TRAIN and TORCH_PYTHON, "needs the trainer and torch")
    def test_the_trainer_finds_libtorch_in_the_torch_wheel(self):
        venv = self.new_venv("trainer")
        venv.borrow_torch()
        before = files_below(venv.folder)
        venv.install("--no-deps", self.packages["ddprun"], self.packages["ddprun_train"])
        said = self.ddprun(venv, "--nproc-per-node=2", "ddprun-train", "--dataset=mnist", "--model=mlp",
                           "--epochs=1", f"--checkpoint-dir={self.folder / 'checkpoints'}")
        self.assertIn("test accuracy", said)
        (line,) = [line for line in self.ddprun(venv, "env").splitlines() if line.split()[:1] == ["ddprun-train"]]
        self.assertIn(str(venv.folder / "lib"), line)
        self.assertNotIn("MISSING", line)
        venv.pip("uninstall", "--yes", "ddprun", "ddprun-train")
        self.assertEqual(files_below(venv.folder), before)

    @unittest.skipUnless(TRAIN, "needs the trainer")
    def test_without_torch_the_trainer_is_missing_its_libtorch(self):
        venv = self.new_venv("lonely")
        venv.install("--no-deps", self.packages["ddprun"], self.packages["ddprun_train"])
        self.assertIn("libtorch_cpu.so", call(venv.bin / "ddprun-train", "--version", expect=127, env=clean_environment()))
        self.assertIn("is MISSING in", self.ddprun(venv, "env"))
