"""The wheel under every Python that it is for, with every test of the package under each."""

import os
import pathlib
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "packages"))

from made import ROOT, call  # noqa: E402
from pythons import VERSIONS, Pythons  # noqa: E402


class Every(Pythons):
    kinds = ("wheel",)

    def every_test_of_the_package(self, version):
        python = self.check(version)
        import cloudpickle  # Of this test's own Python; it is Python alone.
        purelib = call(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip()
        (pathlib.Path(purelib) / "cloudpickle").symlink_to(pathlib.Path(cloudpickle.__file__).parent)
        for test in ("package", "failures", "steps"):
            call(python, "-B", ROOT / "tests/support/run.py", ROOT / f"tests/packages/python_{test}_test.py", limit=300)


for one in VERSIONS:
    setattr(Every, f"test_python_{one.replace('.', '_')}", lambda self, version=one: self.every_test_of_the_package(version))
