"""Scripts that use the Python package of this tree, each run as a user runs it, under the real ddprun."""

import os
import sys
import textwrap

from ddprun_runs import DDPRUN, DdprunTest

PACKAGE = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", "..", "launcher", "python"))
sys.path.insert(0, PACKAGE)


class PackageTest(DdprunTest):
    def setUp(self):
        super().setUp()
        self.environment.update(PYTHONPATH=PACKAGE, PYTHON_EXEC=sys.executable,
                                PATH=os.path.dirname(DDPRUN) + ":" + os.environ["PATH"])

    def script(self, text, name="script.py"):
        return self.write(name, textwrap.dedent(text))

    def python(self, text, *arguments, python=sys.executable, expect=0):
        """Runs the text as a script of its own."""
        run = self.start(self.script(text), *arguments, executable=python)
        self.assertEqual(run.wait(), expect, run.all())
        self.assertEqual(self.mark.living(), [], "left when the script had ended")
        return run
