"""The wheel under each Python that it is for, installed as people do: program, package, and what acts at each start.

Takes the Pythons of this machine: in PATH, or where pyenv keeps them. One that is missing is named and skipped.
"""

import glob
import os
import shutil
import subprocess

from made import PackageCase, call, clean_environment

VERSIONS = ("3.10", "3.11", "3.12", "3.13")
WATCHES = "import importlib._bootstrap as it; print('start' in it._find_and_load.__code__.co_freevars)"
RUNS = """
import ddprun

def one(number):
    import os
    ddprun.step(1, of=2)
    return number + int(os.environ["RANK"])

if __name__ == "__main__":
    print(ddprun.run(one, 2, args=(5,)))
"""


def find_python(version):
    """Its path; None: this machine has none that starts."""
    pyenv = os.environ.get("PYENV_ROOT") or os.path.expanduser("~/.pyenv")
    candidates = [shutil.which(f"python{version}"), f"/usr/bin/python{version}",
                  *sorted(glob.glob(f"{glob.escape(pyenv)}/versions/{version}.*/bin/python{version}"))]
    for path in candidates:
        if path and os.path.exists(path):
            # A shim of pyenv may lead to none; a Debian without its venv makes none.
            asked = subprocess.run([path, "-c", "import sys, venv; print('%d.%d' % sys.version_info[:2])"],
                                   capture_output=True, text=True, check=False, env=clean_environment())
            if asked.stdout.strip() == version:
                return path
    return None


class Pythons(PackageCase):
    def installed(self, version):
        """(its Python, its ddprun) in a virtual environment that has the wheel and nothing else."""
        python = find_python(version)
        if python is None:
            self.skipTest(f"this machine has no Python {version}")
        folder = self.folder / f"venv-{version}"
        call(python, "-m", "venv", folder)  # With its own pip, as people have it.
        inside = folder / "bin/python"
        call(inside, "-m", "pip", "--disable-pip-version-check", "install", "--no-index", self.packages["ddprun"],
             env=clean_environment())
        said = call(inside, "-c", "import sys; print('%d.%d' % sys.version_info[:2])").strip()
        self.assertEqual(said, version)
        return inside, folder / "bin/ddprun"

    def check(self, version):
        python, ddprun = self.installed(version)
        environment = clean_environment(OMP_NUM_THREADS="1")
        for command in ([ddprun], [python, "-m", "ddprun"]):
            self.assert_two_ranks(call(*command, "--nproc-per-node=2", "train.py", cwd=self.folder, env=environment))
        (self.folder / "which.py").write_text("import sys; print('worker of', '%d.%d' % sys.version_info[:2])")
        self.assertIn(f"worker of {version}\n", call(ddprun, "which.py", cwd=self.folder, env=environment))
        (self.folder / "runs.py").write_text(RUNS)
        self.assertEqual(call(python, "runs.py", cwd=self.folder, env=environment).splitlines()[-1], "[5, 6]")
        (self.folder / "watched.py").write_text(WATCHES)
        for more, watches in ({}, "True\n"), ({"DDPRUN_WATCH": "0"}, "False\n"):
            said = call(ddprun, "--hang-timeout=5m", "watched.py", cwd=self.folder, env={**environment, **more})
            self.assertEqual(said, watches)
        # No warning either, which a newer Python may have for what an older one took.
        call(python, "-W", "error", "-c", "import ddprun", env=environment)
        return python
