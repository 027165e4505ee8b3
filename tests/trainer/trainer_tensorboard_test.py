"""--tensorboard and its disk: nothing that it does holds up or ends a training, but a directory that cannot be one.

What TensorBoard makes of the files: tests/torch/tensorboard_test.py.
"""

import os
import subprocess
import unittest
from unittest import mock

import support

HOLD_CALLS = os.environ["DDPRUN_HOLD_CALLS"]
# A step is a report, so that each has its record.
SHORT = ["--model=toy", "--epochs=1", "--tensorboard=curves", "--progress-every=0.00001"]
SAID_LATER = "; no more TensorBoard events are written"
SAID_AT_ONCE = "; training goes on without them"


class TensorBoard(support.TrainerTest):
    def files(self):
        names = sorted(os.listdir(self.path("curves")))
        for name in names:
            self.assertRegex(name, r"^events\.out\.tfevents\.\d{10}\.[^/]+\.\d+\.\d+$")
        return names

    def on_small_disk(self, options):
        """The exit code and words of a training whose event files are on a file system of this size, its own."""
        os.makedirs(self.path("curves"), exist_ok=True)
        script = self.path("small_disk.sh")
        with open(script, "w") as file:
            file.write("#!/bin/sh\nset -eu\n"
                       f"mount -t tmpfs -o {options} ddprun-test '{self.path('curves')}'\n"
                       f"exec '{support.TRAIN}' \"$@\"\n")
        os.chmod(script, 0o700)
        launcher = self.path("unshared.sh")
        with open(launcher, "w") as file:
            file.write(f"#!/bin/sh\nexec unshare --mount --propagation private '{script}' \"$@\"\n")
        os.chmod(launcher, 0o700)
        with mock.patch.object(support, "TRAIN", launcher):
            (worker,) = self.start(SHORT)
            return worker.wait(), worker.text("err")

    def needs_mounts(self):
        probe = ["unshare", "--mount", "--propagation", "private", "mount", "-t", "tmpfs", "ddprun-test",
                 self.directory]
        if subprocess.run(probe, capture_output=True).returncode != 0:
            self.skipTest("no file system may be mounted here")

    def test_rank_zero_alone_writes_and_each_start_a_file(self):
        self.run_world(SHORT, ranks=2)
        first = self.files()
        self.assertEqual(len(first), 1)
        self.run_world(SHORT + ["--epochs=2"], ranks=2, generation=2)
        second = self.files()
        self.assertEqual(len(second), 2)
        self.assertEqual(second[:1], first)  # In order, however soon after it.
        workers = self.run_world(SHORT + ["--epochs=2"], ranks=2, generation=3)
        self.assertIn("finished already", workers[0].text("err"))
        self.assertEqual(self.files(), second)

    def test_what_can_be_no_directory_is_a_wrong_command_line(self):
        with open(self.path("curves"), "w") as file:
            file.write("not ours")
        workers = self.run_world(SHORT, expect=2, ranks=2)
        self.assertIn("cannot write event files (--tensorboard) in 'curves': Not a directory", workers[0].text("err"))
        self.assertNotIn("epoch", workers[0].text("err"))
        self.assertEqual(self.bytes_of("curves"), b"not ours")

    def test_a_full_disk_is_said_once(self):
        self.needs_mounts()
        code, said = self.on_small_disk("size=4k")
        self.assertEqual(code, 0, said)
        self.assertIn("No space left on device" + SAID_LATER, said)
        self.assertEqual(said.count("No space left"), 1, said)

    # As after a restart: no file can be made any more.
    def test_a_disk_that_is_full_at_the_start_is_said_once(self):
        self.needs_mounts()
        code, said = self.on_small_disk("size=4k,nr_inodes=1")
        self.assertEqual(code, 0, said)
        self.assertIn("No space left on device" + SAID_AT_ONCE, said)
        self.assertEqual(said.count("No space left"), 1, said)

    def test_a_disk_that_does_not_answer_holds_up_nobody(self):
        os.mkfifo(self.path("fifo"))
        held = {"LD_PRELOAD": HOLD_CALLS, "DDPRUN_HOLD": "open:events.out.tfevents",
                "DDPRUN_HOLD_FIFO": self.path("fifo")}
        workers = self.start(SHORT, ranks=2, environment=held)
        for worker in workers:
            self.assertEqual(worker.wait(), 0, worker.text("err"))
        said = workers[0].text("err")
        self.assertIn("the TensorBoard events file 'curves' does not open", said)
        self.assertRegex(said, r"\d+ lines of TensorBoard events are not in 'curves', which did not take them in time")
        self.assertTrue(self.is_finished())


if __name__ == "__main__":
    unittest.main(verbosity=2)
