"""The folders of ddprun.run in the temporary directory: those of killed callers are swept, no others."""

import os
import subprocess
import sys
import tempfile
import unittest
import unittest.mock

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.abspath(os.path.join(HERE, "..", "..", "launcher", "python")))

from ddprun import _folder  # noqa: E402


class Folders(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.root = temporary.name
        patch = unittest.mock.patch.object(tempfile, "tempdir", self.root)
        patch.start()
        self.addCleanup(patch.stop)

    def left(self):
        """The files that a killed caller leaves."""
        path = tempfile.mkdtemp(prefix="ddprun_run_")
        for name in ("lock", "call"):
            open(os.path.join(path, name), "w").close()
        return path

    def test_its_end_removes_it(self):
        with _folder.run_folder() as (path, _):
            self.assertEqual(os.listdir(path), ["lock"])
        self.assertEqual(os.listdir(self.root), [])

    def test_a_killed_callers_folder_is_swept(self):
        self.left()
        with _folder.run_folder() as (path, _):
            self.assertEqual(os.listdir(self.root), [os.path.basename(path)])

    def test_one_whose_caller_lives_stays(self):
        with _folder.run_folder() as (first, _), _folder.run_folder():
            self.assertEqual(os.listdir(first), ["lock"])

    # Its ddprun is stopping the workers, who still write there.
    def test_one_whose_ddprun_lives_stays(self):
        path = self.left()
        held = os.open(os.path.join(path, "lock"), os.O_RDWR)
        _folder.fcntl.flock(held, _folder.fcntl.LOCK_EX)
        child = subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, pass_fds=(held,))
        os.close(held)
        with _folder.run_folder():
            self.assertTrue(os.path.exists(path))
        child.communicate()
        with _folder.run_folder():
            self.assertFalse(os.path.exists(path))

    def test_a_folder_that_only_looks_like_one_stays(self):
        elsewhere = self.left()
        os.rename(elsewhere, os.path.join(self.root, "mine"))
        os.symlink(os.path.join(self.root, "mine"), os.path.join(self.root, "ddprun_run_link"))
        os.mkdir(os.path.join(self.root, "ddprun_run_new"))  # It has no lock yet.
        before = sorted(os.listdir(self.root))
        with _folder.run_folder():
            pass
        self.assertEqual(sorted(os.listdir(self.root)), before)
        self.assertEqual(sorted(os.listdir(os.path.join(self.root, "mine"))), ["call", "lock"])
