"""--tensorboard and its disk: nothing that it does ends a training, but a directory that cannot be one.

TensorBoard's view of the files: tests/torch/tensorboard_test.py.
"""

import os
import resource

import support

# A step is a report, so that each has its record.
SHORT = ["--model=toy", "--epochs=1", "--tensorboard=curves", "--progress-every=0"]


class TensorBoard(support.TrainerTest):
    def files(self):
        names = sorted(os.listdir(self.path("curves")))
        for name in names:
            self.assertRegex(name, r"^events\.out\.tfevents\.\d{10}\.[^/]+\.\d+\.\d+$")
        return names

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

    def test_a_path_that_can_be_no_directory_is_a_wrong_command_line(self):
        with open(self.path("curves"), "w") as file:
            file.write("not ours")
        workers = self.run_world(SHORT, expect=2, ranks=2)
        self.assertIn("cannot write event files (--tensorboard) in 'curves': Not a directory", workers[0].text("err"))
        self.assertNotIn("epoch", workers[0].text("err"))
        self.assertEqual(self.bytes_of("curves"), b"not ours")

    def test_a_disk_that_refuses_is_said_once(self):
        (worker,) = self.start(SHORT, limits={resource.RLIMIT_FSIZE: 6144})
        self.assertEqual(worker.wait(), 0, worker.text("err"))
        self.assertEqual(worker.text("err").count("'curves': File too large; nothing more is written to it"), 1)
