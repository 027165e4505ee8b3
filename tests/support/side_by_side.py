"""Runs the tests of a file side by side, each in a process of its own. For files whose tests mostly wait."""

import concurrent.futures
import subprocess
import sys
import unittest


def names_of(suite):
    for test in suite:
        yield from names_of(test) if isinstance(test, unittest.TestSuite) else [test.id().removeprefix("__main__.")]


def main(at_once):
    """Replaces unittest.main. Tests that the command line names are run one after the other."""
    if len(sys.argv) > 1:
        unittest.main(verbosity=2)
    names = names_of(unittest.defaultTestLoader.loadTestsFromModule(sys.modules["__main__"]))
    failed = []
    with concurrent.futures.ThreadPoolExecutor(at_once) as pool:
        def run(name):
            return subprocess.run([sys.executable, "-B", sys.argv[0], name], stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, text=True, check=False)
        for done in pool.map(run, names):
            print(done.stdout, end="", flush=True)
            if done.returncode != 0:
                failed.append(done.args[-1])
    if failed:
        sys.exit("failed: " + " ".join(failed))
