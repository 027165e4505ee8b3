"""Holds rules.txt against docs/design.md and break_driver.py: each point of sections 4 to 6 is there, each
rule that can be switched off has a row, each row a rule or a unit test that exists.

usage: rules_test.py SOURCE_DIR
       rules_test.py --for-cmake WHAT SOURCE_DIR    sources with rules; unit-tests that prove one; rows of simulations
       rules_test.py --units BROKEN_UNITS SOURCE_DIR    the unit test of each row passes with the rule and fails without"""
import os
import pathlib
import re
import subprocess
import sys

import break_driver

HERE = pathlib.Path(__file__).parent
MODES = {"sim", "full", "failover", "slow"}


def rows(source):
    """(point, rule, how, what) of each line."""
    point = None
    for line in (source / "tests/sim/rules.txt").read_text(encoding="utf-8").splitlines():
        if line.startswith("## "):
            point = line[3:]
            yield point, None, None, None
        elif line and not line.startswith("#"):
            rule, how, what = (line.split(" ", 2) + ["", ""])[:3]
            yield point, rule, how, what


def points_of_design(source):
    text = (source / "docs/design.md").read_text(encoding="utf-8")
    text = text[text.index("\n## 4. "):text.index("\n## 7. ")]
    return [point.replace("*", "") for point in re.findall(r"^ *(?:-|\d\.) (.+)$", text, re.M)]


def unit_tests(source):
    """{name: files that have a test of that name}"""
    found = {}
    for file in source.glob("*/**/*_test.cc"):
        name = file.relative_to(source)
        if "build" not in name.parts:
            for test in re.findall(r"^TEST(?:_F)?\(\w+, (\w+)\)", file.read_text(encoding="utf-8"), re.M):
                found.setdefault(test, set()).add(str(name))
    return found


def for_cmake(what, source):
    """A list of CMake."""
    if what == "sources":
        return ";".join(break_driver.RULES)
    if what == "unit-tests":
        tests = unit_tests(source)
        return ";".join(sorted({file for _, _, how, test in rows(source) if how == "unit" for file in tests.get(test, ())}))
    return ";".join(f"{rule} {mode} {seed}" for _, rule, mode, seed in rows(source) if mode in MODES)


def problems(source):
    switchable = {rule for rules in break_driver.RULES.values() for rule, _, _ in rules}
    simulated = re.search(r"rules = \{(.*?)\};", (HERE / "rules.h").read_text(encoding="utf-8"), re.S)
    switchable |= set(re.findall(r'"([a-z-]+)"', simulated.group(1)))
    table = list(rows(source))
    headings = [point for point, rule, _, _ in table if rule is None and not point.startswith("(")]
    units = unit_tests(source)
    for point in points_of_design(source):
        if not any(point.startswith(heading) for heading in headings):
            yield f"no heading of rules.txt is the beginning of this point of design.md: {point}"
    for heading in headings:
        if not any(point.startswith(heading) for point in points_of_design(source)):
            yield f"design.md has no such point: {heading}"
        if not any(point == heading and rule for point, rule, _, _ in table):
            yield f"no rule below: {heading}"
    for rule in switchable - {rule for _, rule, _, _ in table}:
        yield f"rules.txt does not say what breaks without '{rule}'"
    for _, rule, how, what in table:
        if rule is None or rule == "none":
            continue
        if rule not in switchable:
            yield f"nothing can be switched off by the name of '{rule}'"
        if how == "unit" and what not in units:
            yield f"'{rule}': there is no unit test {what}"
        if how not in MODES | {"unit", "speed"} or not what:
            yield f"'{rule}': not a row: {how} {what}"


def passes(binary, test, without):
    """With one rule switched off; "": with all. A mutant that hangs or crashes does not."""
    environment = dict(os.environ, DDPRUN_WITHOUT_RULE=without)
    try:
        run = subprocess.run([binary, f"--gtest_filter=*.{test}"], env=environment, timeout=5 if without else 20, check=False,
                             capture_output=True, text=True)
    except subprocess.TimeoutExpired:
        return False
    return run.returncode == 0 and "[  PASSED  ] 0" not in run.stdout


def unproved(binary, source):
    for _, rule, how, test in rows(source):
        if how == "unit":
            if not passes(binary, test, ""):
                yield f"'{rule}': {test} does not pass, or {binary} does not have it"
            elif passes(binary, test, rule):
                yield f"'{rule}': {test} passes without it, and is no proof"


def main():
    source = pathlib.Path(sys.argv[-1])
    if sys.argv[1] == "--for-cmake":
        print(for_cmake(sys.argv[2], source))
        return 0
    found = list(unproved(sys.argv[2], source) if sys.argv[1] == "--units" else problems(source))
    print("\n".join(found) or "every rule has its proof")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
