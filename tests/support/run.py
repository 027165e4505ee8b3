"""Runs the tests of a file, which finds its own folder and tests/support among its modules.

    run.py [--at-once=N] FILE [CLASS.test_NAME...]

--at-once: so many tests side by side, each in a process of its own. For files whose tests mostly wait."""

import concurrent.futures
import os
import subprocess
import sys
import types
import unittest


def loaded(path):
    """The file as the main module, which it would be without this one."""
    sys.path.insert(0, os.path.dirname(os.path.abspath(path)))
    module = sys.modules["__main__"] = types.ModuleType("__main__")
    module.__file__ = path
    with open(path, encoding="utf-8") as file:
        exec(compile(file.read(), path, "exec"), vars(module))
    return module


def names_of(suite):
    for test in suite:
        yield from names_of(test) if isinstance(test, unittest.TestSuite) else [test.id().removeprefix("__main__.")]


def run_side_by_side(runner, path, names, at_once):
    failed = []
    with concurrent.futures.ThreadPoolExecutor(at_once) as pool:
        def run(name):
            return subprocess.run([sys.executable, "-B", runner, path, name], stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, text=True, check=False)
        for done in pool.map(run, names):
            print(done.stdout, end="", flush=True)
            if done.returncode != 0:
                failed.append(done.args[-1])
    if failed:
        sys.exit("failed: " + " ".join(failed))


def main():
    runner, *arguments = sys.argv
    at_once = int(arguments.pop(0).partition("=")[2]) if arguments[0].startswith("--at-once=") else 1
    sys.argv = arguments
    module = loaded(arguments[0])  # One that also has a main part of its own ends there.
    names = list(names_of(unittest.defaultTestLoader.loadTestsFromModule(module)))
    if not names:
        sys.exit(f"{arguments[0]} has no test")
    if at_once == 1 or len(arguments) > 1:  # Tests that the command line names run one after the other.
        unittest.main(module=module, verbosity=2)
    run_side_by_side(runner, arguments[0], names, at_once)


if __name__ == "__main__":
    main()
