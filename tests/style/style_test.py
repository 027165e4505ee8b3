"""The tree keeps its laws: style_test.py ROOT. One test per rule, each lists every offence."""

import concurrent.futures
import os
import pathlib
import shutil
import subprocess
import sys
import unittest

import rules
import source


class Tree(unittest.TestCase):
    root = None
    files = []

    def keeps(self, rule):
        problems = list(rule(self.files))
        if problems:
            self.fail("\n".join(["", *problems]))

    def test_there_is_a_tree(self):
        paths = {file.path for file in self.files}
        self.assertIn("CMakeLists.txt", paths)
        self.assertIn("common/result.h", paths)

    def check_with(self, command, chosen):
        """A tool that may be missing outside of a set-up machine; in batches, one per core."""
        if shutil.which(command[0]) is None:
            self.skipTest(f"{command[0]} is not installed; scripts/setup.sh does")
        paths = [file.path for file in self.files if chosen(file)]
        cores = os.cpu_count() or 1
        batches = [batch for batch in (paths[first::cores] for first in range(cores)) if batch]
        run = lambda batch: subprocess.run([*command, *batch], cwd=self.root, capture_output=True,
                                           text=True, check=False)
        with concurrent.futures.ThreadPoolExecutor(cores) as pool:
            for result in pool.map(run, batches):
                output = (result.stdout + result.stderr)[-4000:]
                self.assertEqual(result.returncode, 0, f"{command[0]}:\n{output}")

    def test_clang_format(self):
        self.check_with(["clang-format", "--dry-run", "-Werror"], lambda file: file.is_cpp)

    def test_shellcheck(self):
        self.check_with(["shellcheck"], lambda file: file.is_script)


def add_one_test_per_rule():
    for rule in rules.RULES:
        setattr(Tree, f"test_{rule.__name__}", lambda self, rule=rule: self.keeps(rule))


if __name__ == "__main__":
    Tree.root = pathlib.Path(sys.argv.pop(1)).resolve()
    Tree.files = source.tree(Tree.root)
    add_one_test_per_rule()
    unittest.main()
