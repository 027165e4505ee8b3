"""A test that fails once and then passes is named and forgiven, nothing else: run_tests_test.py
ROOT"""

import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = None


class RunTests(unittest.TestCase):
    """A build folder that is no more than ctest's own list of tests."""

    def setUp(self):
        self.build = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.list = ""

    def add(self, name, script, properties=""):
        self.list += f'add_test({name} "/bin/sh" "-c" "{script}")\n'
        if properties:
            self.list += f"set_tests_properties({name} PROPERTIES {properties})\n"

    def add_flaky(self, name="shy"):
        self.add(name, f"test -e {name}.seen && echo better now && exit 0; touch {name}.seen; "
                       "echo not yet; exit 1")

    def run_tests(self, *arguments):
        (self.build / "CTestTestfile.cmake").write_text(self.list)
        done = subprocess.run([sys.executable, ROOT / "scripts/run_tests.py", self.build, *arguments],
                              capture_output=True, text=True, timeout=60, check=False)
        self.lines = done.stdout.splitlines()
        self.output = done.stdout + done.stderr
        return done.returncode

    def test_all_that_passes_passes(self):
        self.add("fine", "true")
        self.assertEqual(self.run_tests(), 0, self.output)
        self.assertEqual(self.lines[-1], "1 passed, 0 failed, 0 skipped")

    def test_a_flaky_one_is_named_with_both_outputs_and_forgiven(self):
        self.add("fine", "true")
        self.add_flaky()
        self.assertEqual(self.run_tests("-j", "2"), 0, self.output)
        self.assertEqual(self.lines[-1], "2 passed, 0 failed, 0 skipped")
        [line] = [line for line in self.lines if line.startswith("flaky: ")]
        self.assertTrue(line.startswith("flaky: shy "), line)
        kept = {which: (self.build / "flaky" / f"shy.{which}").read_text() for which in ("failed", "passed")}
        self.assertEqual(kept, {"failed": "not yet\n", "passed": "better now\n"})
        shown = self.lines[self.lines.index(line):]
        self.assertLess(shown.index("not yet"), shown.index("better now"))

    def test_a_test_that_fails_twice_fails(self):
        self.add_flaky()
        self.add("bad", "exit 3")
        self.assertNotEqual(self.run_tests(), 0, self.output)
        self.assertIn("failed: bad", self.lines)
        self.assertEqual(self.lines[-1], "1 passed, 1 failed, 0 skipped")

    def test_many_failures_are_no_accident(self):
        for number in range(9):
            self.add_flaky(f"shy{number}")
        self.assertNotEqual(self.run_tests(), 0, self.output)
        self.assertEqual(self.lines[-1], "0 passed, 9 failed, 0 skipped")

    def test_a_test_that_is_not_there_fails(self):
        self.list = 'add_test(gone "/no/such/file")\n'
        self.assertNotEqual(self.run_tests(), 0, self.output)
        self.assertEqual(self.lines[-1], "0 passed, 1 failed, 0 skipped")

    def test_one_that_hangs_twice_fails(self):
        self.add("hangs", "exec tail -f /dev/null", "TIMEOUT 0.2")
        self.assertNotEqual(self.run_tests(), 0, self.output)
        self.assertIn("failed: hangs", self.lines)

    def test_no_test_at_all_is_no_success(self):
        self.add("fine", "true")
        self.assertEqual(self.run_tests("-R", "another"), 2, self.output)
        self.assertEqual(self.run_tests("-R", "another", "--no-tests=error"), 8, self.output)

    def test_a_skipped_test_is_reported_as_skipped(self):
        self.add("skips", "exit 77", "SKIP_RETURN_CODE 77")
        self.add("fine", "true")
        self.assertEqual(self.run_tests(), 0, self.output)
        self.assertEqual(self.lines[-1], "1 passed, 0 failed, 1 skipped")

    def test_a_python_file_without_a_test_fails(self):
        file = self.build / "some_test.py"
        for text, code in (("import unittest\n", 1),
                           ("import unittest\nclass A(unittest.TestCase):\n    def test_a(self): pass\n", 0)):
            file.write_text(text)
            for at_once in 1, 2:
                done = subprocess.run([sys.executable, "-B", ROOT / "tests/support/run.py", f"--at-once={at_once}", file],
                                      capture_output=True, text=True, timeout=60, check=False)
                self.assertEqual(done.returncode, code, done.stderr)
                self.assertEqual("has no test" in done.stderr, code == 1, done.stderr)


if __name__ == "__main__":
    ROOT = pathlib.Path(sys.argv.pop(1)).resolve()
    unittest.main()
