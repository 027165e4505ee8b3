"""Help, manual pages and the reference name every flag; `--rewrite` writes what is generated in the pages.

reference_test.py FLAG_REFERENCE ROOT [--rewrite]
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import textwrap
import unittest

DDPRUN = os.environ.get("DDPRUN", "")
TRAIN = os.environ.get("DDPRUN_TRAIN", "")
REFERENCE, ROOT = sys.argv[1:3]
GENERATED = [  # File, form, first and last line of what is generated.
    ("docs/man/ddprun.1", "man", '.\\" flags', '.\\" end of flags'),
    ("docs/man/ddprun.1", "codes-man", '.\\" codes', '.\\" end of codes'),
    ("docs/man/ddprun-train.1", "trainer-codes-man", '.\\" codes', '.\\" end of codes'),
    ("docs/troubleshooting.md", "codes", "<!-- codes", "\n<!-- end of codes"),
]


def output(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def read(name):
    with open(os.path.join(ROOT, name)) as file:
        return file.read()


def generated(name, form, first, last):
    text = read(name)
    begin = text.index("\n", text.index(first)) + 1
    return text[:begin] + output(REFERENCE, form) + text[text.index(last):]


def flags_in_help(binary):
    found = set(re.findall(r"^  (?:-\w, ?)?(--[a-z][\w-]*)", output(binary, "--help"), re.M))
    assert len(found) > 5, found
    return found


def flags_in_help_of(verb):
    return set(re.findall(r"--[a-z][\w-]*", output(DDPRUN, "help", verb))) - {"--help"}


def spellings(text):
    """Flags between backquotes, short ones too."""
    return [flag for quoted in re.findall(r"`(-[^`]*)`", text) for flag in re.findall(r"(?<!\w)--?\w[\w-]*", quoted)]


class Documents(unittest.TestCase):
    def test_generated_documents_are_new(self):
        for name, *part in GENERATED:
            self.assertEqual(read(name), generated(name, *part),
                             f"{name} is old: run this test's command with --rewrite")

    def test_every_flag_is_in_help_page_and_reference(self):
        table = set(re.findall(r"`(--[\w-]+)`", output(REFERENCE, "markdown")))
        self.assertEqual(table - flags_in_help(DDPRUN), set())
        page = read("docs/man/ddprun.1").replace("\\-", "-")
        for flag in table:
            self.assertIn(f"{flag}\\fR", page)

    def test_from_torchrun_has_rows_of_flags_alone(self):
        """torchrun's own flags are seen by tests/torch/torchrun_table_test.py, where there is a
        torchrun."""
        page = read("docs/from-torchrun.md")
        section = page[page.index("## Flag by flag"):page.index("## Different on purpose")]
        rows = spellings("".join(re.findall(r"^\|([^|]*)\|", section, re.M)))
        flags = spellings("".join(re.findall(r"^\|([^|]*)\|", output(REFERENCE, "markdown"), re.M)))
        self.assertGreater(len(flags), 60)
        self.assertEqual(set(rows) - set(flags), set(), "no flag of ddprun")
        self.assertEqual(len(rows), len(set(rows)), sorted(rows))

    def test_every_flag_of_the_trainer_is_in_its_page(self):
        if not TRAIN:
            self.skipTest("built without ddprun-train")
        page = read("docs/man/ddprun-train.1").replace("\\-", "-")
        for flag in flags_in_help(TRAIN):
            self.assertIn(f"{flag}\\fR", page)

    def test_every_flag_of_the_benchmark_is_in_its_page(self):
        if not TRAIN:
            self.skipTest("built without ddprun-train")
        page = read("docs/man/ddprun-bench-comm.1").replace("\\-", "-")
        for flag in flags_in_help(os.path.join(os.path.dirname(TRAIN), "ddprun-bench-comm")):
            self.assertIn(f"{flag}\\fR", page)

    def test_exit_codes_are_listed_by_their_table_alone(self):
        for name in ("ddprun.1", "ddprun-train.1", "ddprun-bench-comm.1"):
            self.assertEqual(re.findall(r"[Ee]xit codes:? [0-9].*", read(f"docs/man/{name}")), [])
        if DDPRUN:
            self.assertIn("Exit codes: ddprun help exit-codes\n", output(DDPRUN, "check", "--help"))
        self.assertIn(".PP\nOf another command:\n", read("docs/man/ddprun.1"))

    def test_every_command_has_a_page_with_all_of_its_options(self):
        if not DDPRUN:
            self.skipTest("DDPRUN names no program")
        with tempfile.TemporaryDirectory(prefix="ddprun_pages_") as folder:
            output(sys.executable, "-B", os.path.join(ROOT, "scripts/docs/verb_pages.py"), folder)
            listed = re.search(r"^Commands .*?\n\n", output(DDPRUN, "help"), re.S | re.M)[0]
            verbs = set(re.findall(r"(?<=  )[a-z][\w-]*(?=  |$)", listed, re.M)) - {"other", "help", "version"}
            self.assertLess({"status", "logs", "check", "completion", "daemon"}, verbs)
            self.assertEqual(set(os.listdir(folder)), {f"ddprun-{verb}.1" for verb in verbs})
            for name in os.listdir(folder):
                with open(os.path.join(folder, name)) as file:
                    page = file.read().replace("\\-", "-")
                verb = name[len("ddprun-"):-len(".1")]
                self.assertRegex(page, rf"\n\.SH NAME\nddprun-{verb} - [a-z].*[^ .:(]\n")
                self.assertIn(f"\n.B ddprun {verb}", page)
                for flag in flags_in_help_of(verb):
                    self.assertIn(flag, page, name)
                self.groff(os.path.join(folder, name))

    def test_code_that_the_readme_shows_is_in_the_tree(self):
        shown = re.findall(r"\((examples/[\w/]+\.cc)\)[^\n]*:\n\n```cpp\n(.*?)```", read("README.md"), re.S)
        self.assertEqual(len(shown), 1)
        for name, text in shown:
            self.assertIn(textwrap.indent(text, "    "), read(name),
                          f"README.md shows an older {name}")

    def test_pages_have_their_sections(self):
        sections = {"ddprun.1": ["NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "ENVIRONMENT", "FILES",
                                 '"EXIT STATUS"', "SIGNALS", "EXAMPLES"]}
        sections["ddprun-train.1"] = sections["ddprun.1"]
        sections["ddprun.toml.5"] = ["NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "EXAMPLES"]
        for name, wanted in sections.items():
            found = re.findall(r"^\.SH (.*)$", read(f"docs/man/{name}"), re.M)
            self.assertEqual([s for s in found if s in wanted], wanted, name)

    def groff(self, path):
        if shutil.which("groff"):
            ran = subprocess.run(["groff", "-man", "-ww", "-z", "-Tutf8", path], capture_output=True, text=True)
            self.assertEqual((ran.returncode, ran.stderr), (0, ""), path)

    def test_groff_has_nothing_to_say(self):
        if not shutil.which("groff"):
            self.skipTest("no groff")
        for name in ("ddprun.1", "ddprun-train.1", "ddprun-bench-comm.1", "ddprun.toml.5"):
            self.groff(os.path.join(ROOT, "docs/man", name))


if __name__ == "__main__":
    if sys.argv[3:] == ["--rewrite"]:
        for name, *part in GENERATED:
            new = generated(name, *part)
            with open(os.path.join(ROOT, name), "w") as file:
                file.write(new)
    else:
        unittest.main(argv=sys.argv[:1], verbosity=2)
