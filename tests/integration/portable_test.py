"""ddprun runs where nothing but glibc 2.34 or newer is, and says nothing of where it was built."""

import os
import re
import subprocess
import unittest

BUILD = os.environ["DDPRUN_BUILD"]
ROOT = os.path.realpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
GLIBC = (2, 34)
OF_GLIBC = re.compile(r"lib(c|m|dl|rt|pthread|resolv)\.so\.\d|ld-linux[\w-]*\.so\.\d")
# The program, and what it carries inside of itself for interpreters of others.
FILES = ["bin/ddprun", "generated/libddprun_preload.so"]


def readelf(flag, path):
    return subprocess.run(["readelf", "-W", flag, path], check=True, capture_output=True, text=True).stdout


def too_new(symbols):
    """Those of readelf's lines that ask for more than glibc 2.34."""
    wanted = re.findall(r" UND (\S+)@(\w+?)_(\d[\d.]*)", symbols)
    return [f"{name} wants {library} {version}" for name, library, version in wanted
            if library != "GLIBC" or tuple(map(int, version.split("."))) > GLIBC]


class Portable(unittest.TestCase):
    def test_symbols_are_judged(self):
        line = "  7: 0000000000000000     0 FUNC    GLOBAL DEFAULT  UND %s (3)\n"
        self.assertEqual(too_new(line % "fork@GLIBC_2.2.5" + line % "dlsym@GLIBC_2.34"), [])
        self.assertEqual(too_new(line % "arc4random@GLIBC_2.36" + line % "_Znwm@GLIBCXX_3.4"),
                         ["arc4random wants GLIBC 2.36", "_Znwm wants GLIBCXX 3.4"])

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


if __name__ == "__main__":
    unittest.main(verbosity=2)
