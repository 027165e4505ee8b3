#!/usr/bin/env python3
"""Runs ctest in a build folder: scripts/run_tests.py BUILD [CTEST ARGUMENT...]

What fails is run once more, by itself. What then passes is flaky: it is printed as `flaky: NAME` at
the end, both outputs are kept in BUILD/flaky/, and it does not count as failed, since a change that
has nothing to do with it must not wait for it. It is a bug all the same. More than FEW failures are
no accident and are not run again.

Ends with "N passed, N failed, N skipped". Exit codes: 0 none failed, 2 nothing was run, else ctest's.
"""

import os
import pathlib
import shutil
import subprocess
import sys
import xml.etree.ElementTree

FEW = 8
KEPT_BYTES = 1 << 20
SHOWN_LINES = 30


class Outcome:
    def __init__(self, case):
        self.status = case.get("status", "")
        self.output = case.findtext("system-out") or ""

    @property
    def passed(self):
        return self.status == "run"

    @property
    def failed(self):
        return self.status not in ("run", "disabled", "notrun") or self.missing

    @property
    def missing(self):
        """Not run because it could not be found, which is no decision of the test's."""
        return self.status == "notrun" and "Unable to find" in self.output


def run(build, arguments, report):
    """One ctest: its exit code, and the outcome of each test by name."""
    report.unlink(missing_ok=True)
    code = subprocess.run(["ctest", "--output-on-failure", "--output-junit", str(report), *arguments],
                          cwd=build, check=False).returncode
    try:
        cases = xml.etree.ElementTree.parse(report).iter("testcase")
    except (FileNotFoundError, xml.etree.ElementTree.ParseError):
        return code or 2, {}
    return code, {case.get("name"): Outcome(case) for case in cases}


def keep(folder, name, first, second):
    folder.mkdir(exist_ok=True)
    for which, outcome in (("failed", first), ("passed", second)):
        (folder / f"{name}.{which}").write_text(outcome.output, errors="replace")


def show(folder, name):
    """The ends of both outputs: a build folder may be gone before somebody looks."""
    print(f"flaky: {name} (failed, then passed by itself; both outputs: {folder}/{name}.*)")
    for which in ("failed", "passed"):
        lines = (folder / f"{name}.{which}").read_text().splitlines()
        print(f"--- {name}, the run that {which}, its last lines")
        print("\n".join(lines[-SHOWN_LINES:]))


def without_selection(arguments):
    """--rerun-failed names the tests by itself; more at a time would be no second opinion."""
    kept, words = [], iter(arguments)
    for word in words:
        if word in ("-j", "--parallel", "--repeat"):
            next(words, None)
        elif not word.startswith(("-j", "--parallel=", "--repeat")):
            kept.append(word)
    return kept


def main(build, arguments):
    flaky_folder = build / "flaky"
    shutil.rmtree(flaky_folder, ignore_errors=True)
    code, outcomes = run(build, arguments, build / "tests.xml")
    failed = [name for name, outcome in outcomes.items() if outcome.failed]
    flaky = []
    if failed and len(failed) <= FEW:
        print(f"\n{len(failed)} failed; once more, each by itself", flush=True)
        code, again = run(build, ["--rerun-failed", "--test-output-size-passed", str(KEPT_BYTES),
                                  *without_selection(arguments)], build / "tests-again.xml")
        for name in failed:
            if name in again and again[name].passed:
                keep(flaky_folder, name, outcomes[name], again[name])
                flaky.append(name)
        failed = [name for name in failed if name not in flaky]
    passed = sum(outcome.passed for outcome in outcomes.values()) + len(flaky)
    skipped = len(outcomes) - passed - len(failed)
    print()
    for name in failed:
        print(f"failed: {name}")
    for name in flaky:
        show(flaky_folder, name)
    print(f"{passed} passed, {len(failed)} failed, {skipped} skipped", flush=True)
    if not outcomes:
        return code or 2
    return (code or 1) if failed else 0


if __name__ == "__main__":
    if len(sys.argv) < 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    sys.exit(main(pathlib.Path(os.path.abspath(sys.argv[1])), sys.argv[2:]))
