"""Where the binaries look for libraries, as built and as installed: never in the working directory.

An empty entry of a RUNPATH means the working directory, and a relative one a place below it: whoever
can write there chooses the code that runs.
"""

import os
import re
import subprocess
import tempfile
import unittest

BUILD = os.environ["DDPRUN_BUILD"]


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


def run_paths(path):
    said = subprocess.run(["readelf", "-dW", path], check=True, capture_output=True, text=True).stdout
    return re.findall(r"\((?:RUNPATH|RPATH)\).*\[(.*)\]", said)


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

    def test_entries_are_judged(self):
        self.assertEqual(bad_entries("/a:$ORIGIN:${ORIGIN}/../lib:/b"), [])
        self.assertEqual(bad_entries("/a:"), [""])
        self.assertEqual(bad_entries("/a::lib:$ORIGINAL"), ["", "lib", "$ORIGINAL"])

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


if __name__ == "__main__":
    unittest.main(verbosity=2)
