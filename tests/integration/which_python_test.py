"""Which Python and which program a name means: what the user's shell would take, unless ddprun is in an environment."""

import os
import shutil
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))

from ddprun_runs import DDPRUN, DdprunTest  # noqa: E402


class WhichPython(DdprunTest):
    def setUp(self):
        super().setUp()
        self.environment.pop("PYTHON_EXEC", None)
        self.write("train.py", "import os, sys\nprint('ran by', os.environ['WHO'] if 'WHO' in os.environ else sys.executable)\n")

    def folder(self, name, *programs):
        """A folder of programs that say whose they are; a Python goes on with the script."""
        place = self.path(name, "bin")
        os.makedirs(place)
        for program in programs:
            path = os.path.join(place, program)
            self.write(path, f"#!/bin/sh\nexport WHO={name}\n" + (f'exec {sys.executable} "$@"\n' if program == "python3" else
                                                                f"echo ran by {name}\n"), 0o755)
        return place

    def ran_by(self, ddprun, program, path, **variables):
        run = self.ask(program, executable=ddprun, environment={"PATH": f"{path}:/usr/bin:/bin", **variables})
        return run.out().split("ran by ")[1].split()[0]

    def installed(self, name, *programs):
        place = self.folder(name, *programs)
        os.link(DDPRUN, os.path.join(place, "ddprun")) if os.stat(DDPRUN).st_dev == os.stat(place).st_dev else shutil.copy(DDPRUN, place)
        return os.path.join(place, "ddprun")

    def test_the_first_in_path_beats_what_lies_beside_an_installed_ddprun(self):
        system = self.installed("usr", "python3", "tool")
        venv = self.folder("venv", "python3", "tool")
        self.assertEqual(self.ran_by(system, "train.py", venv), "venv")
        self.assertEqual(self.ran_by(system, "tool", venv), "venv")
        self.assertEqual(self.ran_by(system, "tool", "/nowhere"), "usr")  # Nothing else has it.

    def test_a_variable_left_over_from_another_shell_does_not_count(self):
        system = self.installed("usr", "python3")
        self.folder("old", "python3")
        venv = self.folder("venv", "python3")
        for variable in ("VIRTUAL_ENV", "CONDA_PREFIX"):
            self.assertEqual(self.ran_by(system, "train.py", venv, **{variable: self.path("old")}), "venv")

    def test_a_ddprun_of_an_environment_runs_its_python_also_where_that_is_not_active(self):
        other = self.folder("other", "python3", "tool")
        for mark in ("pyvenv.cfg", "conda-meta"):
            name = mark.partition(".")[0]
            ddprun = self.installed(name, "python3", "tool")
            open(self.path(name, mark), "w").close()
            self.assertEqual(self.ran_by(ddprun, "train.py", other), name)
            self.assertEqual(self.ran_by(ddprun, "tool", other), name)

    def test_a_link_in_an_environment_counts_as_that(self):
        system = self.installed("usr", "python3")
        venv = self.folder("venv", "python3")
        open(self.path("venv", "pyvenv.cfg"), "w").close()
        link = os.path.join(venv, "torchrun")
        os.symlink(system, link)
        self.assertEqual(self.ran_by(link, "train.py", self.folder("other", "python3")), "venv")


if __name__ == "__main__":
    unittest.main()
