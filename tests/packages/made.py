"""Packages made of what the build folder holds, and folders to install them into."""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ["DDPRUN_BUILD"])
TRAIN = os.environ.get("DDPRUN_TRAIN", "")
TORCH_PYTHON = os.environ.get("TORCH_PYTHON", "")

PROGRAM = """
import os
print("rank", os.environ["RANK"], "of", os.environ["WORLD_SIZE"], flush=True)
"""


def call(*command, expect=0, limit=600, **options):
    """Its output, stderr too; another exit code than expected fails with it."""
    done = subprocess.run([str(word) for word in command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, errors="replace", timeout=limit, check=False, **options)
    if done.returncode != expect:
        raise AssertionError(f"{command} ended with {done.returncode}:\n{done.stdout}")
    return done.stdout


def clean_environment(**more):
    """The environment of a user who has just logged in."""
    kept = ("HOME", "LANG", "LC_ALL", "TMPDIR", "DDPRUN_CACHE", "XDG_CACHE_HOME", "SOURCE_DATE_EPOCH")
    return {"PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", **{k: os.environ[k] for k in kept if k in os.environ},
            **more}


def make_packages(out, *kinds):
    """Paths of what scripts/package.sh has made."""
    folder = os.path.relpath(BUILD, ROOT)
    call(ROOT / "scripts/package.sh", "--as-built", f"--out={out}", *kinds,
         env={**os.environ, "DDPRUN_BUILD_DIR": folder})
    return list(pathlib.Path(out).iterdir())


def files_below(folder):
    return sorted(str(path.relative_to(folder)) for path in pathlib.Path(folder).rglob("*") if not path.is_dir())


class Venv:
    """An empty virtual environment, and pip of the tests' own Python to install into it."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.bin = self.folder / "bin"
        self.python = self.bin / "python3"
        call(sys.executable, "-m", "venv", "--without-pip", folder)

    def pip(self, *words):
        return call(sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", self.python, *words,
                    env=clean_environment())

    def install(self, *words):
        return self.pip("install", "--no-index", "--no-compile", *words)

    def borrow_torch(self):
        """As if torch had been installed: gigabytes that are there already."""
        purelib = "import sysconfig; print(sysconfig.get_path('purelib'))"
        theirs = pathlib.Path(call(TORCH_PYTHON, "-c", purelib).strip())
        ours = pathlib.Path(call(self.python, "-c", purelib).strip())
        for path in theirs.iterdir():
            if path.name.startswith(("torch", "nvidia")):
                (ours / path.name).symlink_to(path)


class PackageCase(unittest.TestCase):
    kinds = ()

    @classmethod
    def setUpClass(cls):
        cls.folder = BUILD / f"tests/{cls.__module__}.{cls.__name__}.{os.getpid()}"
        cls.folder.mkdir(parents=True)
        cls.addClassCleanup(shutil.rmtree, cls.folder, ignore_errors=True)
        cls.made = make_packages(cls.folder / "dist", *cls.kinds)
        if len(cls.kinds) == 1:  # A wheel, a .deb and a .tar.gz have the same name.
            cls.packages = {re.split(r"[-_]\d", path.name)[0]: path for path in cls.made}
        (cls.folder / "train.py").write_text(PROGRAM)

    def assert_two_ranks(self, said):
        self.assertEqual(sorted(line for line in said.splitlines() if line.startswith("rank")),
                         ["rank 0 of 2", "rank 1 of 2"], said)
