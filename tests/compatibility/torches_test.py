"""Programs under ddprun with the torch of other years: the environment, the store, and training to torchrun's very bits.

scripts/setup.sh has them, each in a virtual environment of its own; it downloads missing ones (0.9 GB each).
"""

import os
import subprocess
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.abspath(os.path.join(HERE, "..", ".."))


def run(*command, limit, **more):
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=limit, check=False,
                          env={**os.environ, **more})


def old_torches():
    """Version -> its Python."""
    said = run("bash", "-c", f". {ROOT}/scripts/lib.sh; for v in ${{old_torches[@]}}; do echo $v $(old_torch_venv $v); done", limit=60)
    return {version: os.path.join(folder, "bin", "python3") for version, folder in map(str.split, said.stdout.splitlines())}


class Torches(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        done = run(os.path.join(ROOT, "scripts", "setup.sh"), "--no-libtorch", "--old-torches", limit=1500)
        assert done.returncode == 0, done.stdout

    def check(self, python, version):
        said = run(python, "-W", "ignore", "-c", "import torch; print(torch.__version__)", limit=300).stdout
        self.assertTrue(said.startswith(version), said)
        tests = [os.path.join(ROOT, "tests", *name) for name in (("support", "run.py"), ("torch", "programs_test.py"))]
        done = run(python, "-B", *tests, limit=1500, OLD_TORCH="1")
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertNotIn("skipped", done.stdout)

    def test_older_ones(self):
        self.assertGreaterEqual(len(old_torches()), 2)
        for version, python in old_torches().items():
            with self.subTest(version=version):
                self.check(python, version)
