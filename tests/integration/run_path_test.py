"""Where the binaries look for libraries, as built and as installed: never in the working directory.

An empty entry of a RUNPATH means the working directory, and a relative one a place below it: a user who can write
there chooses the code that runs. And ddprun runs where nothing but glibc 2.34 or newer is, and says nothing of where
it was built.
"""

import os
import re
import subprocess
import tempfile
import unittest

BUILD = os.environ["DDPRUN_BUILD"]
SANITIZED = os.environ.get("DDPRUN_SANITIZE")
ROOT = os.path.realpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
GLIBC = (2, 34)
OF_GLIBC = re.compile(r"lib(c|m|dl|rt|pthread|resolv)\.so\.\d|ld-linux[\w-]*\.so\.\d")
# The program, and what it carries inside of itself for interpreters of others.
FILES = ["bin/ddprun", "generated/libddprun_preload.so"]


def binaries(folder):
    """Every ELF file of its subfolders bin and lib."""
    for top in ("bin", "lib"):
        for where, _, names in os.walk(os.path.join(folder, top)):
            for name in names:
                path = os.path.join(where, name)
                if os.path.isfile(path) and not os.path.islink(path):
                    with open(path, "rb") as file:
                        if file.read(4) == b"\x7fELF":
                            yield path


def readelf(flag, path):
    return subprocess.run(["readelf", "-W", flag, path], check=True, capture_output=True, text=True).stdout


def run_paths(path):
    return re.findall(r"\((?:RUNPATH|RPATH)\).*\[(.*)\]", readelf("-d", path))


def bad_entries(run_path):
    return [entry for entry in run_path.split(":")
            if not entry.startswith("/") and not re.match(r"\$(ORIGIN|\{ORIGIN\})(/|$)", entry)]


class RunPath(unittest.TestCase):
    def check(self, folder, expected):
        found = {os.path.basename(path): run_paths(path) for path in binaries(folder)}
        self.assertLessEqual(expected, found.keys())
        for name, paths in found.items():
            for path in paths:
                self.assertEqual(bad_entries(path), [], f"{name} looks in '{path}'")
        return found

    def test_built_and_installed(self):
        trained = os.path.exists(os.path.join(BUILD, "bin/ddprun-train"))
        expected = {"ddprun"} | ({"ddprun-train", "ddprun-bench-comm"} if trained else set())
        self.check(BUILD, expected)
        with tempfile.TemporaryDirectory(prefix="ddprun_install_") as prefix:
            for component in ["launcher"] + (["trainer"] if trained else []):
                subprocess.run(["cmake", "--install", BUILD, "--prefix", prefix, "--component",
                                component], check=True, stdout=subprocess.DEVNULL)
            found = self.check(prefix, expected)
        if trained:  # Else libtorch would be found by luck alone.
            self.assertTrue(found["ddprun-train"] and found["ddprun-bench-comm"])

    @unittest.skipUnless(os.path.exists(os.path.join(BUILD, "bin/ddprun-train")), "no trainer")
    def test_env_finds_the_libtorch_that_the_trainer_will_load(self):
        said = subprocess.run([os.path.join(BUILD, "bin/ddprun"), "env"], check=True,
                              capture_output=True, text=True).stdout
        (line,) = [line for line in said.splitlines() if line.split()[:1] == ["ddprun-train"]]
        self.assertNotIn("MISSING", line)
        self.assertTrue(os.path.exists(os.path.join(line.split(" in ")[-1], "libtorch_cpu.so")), line)


def too_new(symbols):
    """Those of readelf's lines that ask for more than glibc 2.34."""
    wanted = re.findall(r" UND (\S+)@(\w+?)_(\d[\d.]*)", symbols)
    return [f"{name} wants {library} {version}" for name, library, version in wanted
            if library != "GLIBC" or tuple(map(int, version.split("."))) > GLIBC]


@unittest.skipIf(SANITIZED, "sanitizers are libraries of this machine")
class Portable(unittest.TestCase):
    def test_nothing_but_glibc(self):
        for name in FILES:
            with self.subTest(name):
                path = os.path.join(BUILD, name)
                needed = re.findall(r"\(NEEDED\).*\[(.*)\]", readelf("-d", path))
                self.assertIn("libc.so.6", needed)
                self.assertEqual([library for library in needed if not OF_GLIBC.fullmatch(library)], [])
                symbols = readelf("--dyn-syms", path)
                self.assertIn("@GLIBC_2.", symbols)
                self.assertEqual(too_new(symbols), [])

    def test_no_path_of_the_machine_that_built_it(self):
        home = os.path.join(os.path.expanduser("~"), "")
        for name in FILES:
            with open(os.path.join(BUILD, name), "rb") as file:
                content = file.read()
            for place in (ROOT, os.path.realpath(BUILD), home if len(home) > 1 else ROOT):
                self.assertNotIn(place.encode(), content, f"{name} names {place}")
