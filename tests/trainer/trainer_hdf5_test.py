"""The same sequences made up, out of an HDF5 file sample by sample, and out of one read at once."""

import os
import subprocess
import unittest

import support

WRITE_HDF5 = os.environ["DDPRUN_WRITE_HDF5"]  # Empty: built without HDF5.
SHAPE = "source=2,target=3,d_model=8"
MODEL = ["--model=transformer", "--model-arg=heads=2,layers=1,ff=16", "--batch=8", "--epochs=2"]


class Hdf5(support.TrainerTest):
    def write(self, arguments, *more):
        self.root = self.path("data")
        os.makedirs(self.root, exist_ok=True)
        subprocess.run([WRITE_HDF5, os.path.join(self.root, "seq2seq.h5"), arguments, *more],
                       check=True, timeout=60)

    def trained(self, dataset, arguments, name, *more):
        return super().trained([*MODEL, "--dataset=" + dataset, "--data-arg=" + arguments, *more], name, ranks=2)[1]

    def refused(self, words, arguments=SHAPE):
        self.checkpoints = self.path("refused.ckpt")
        (worker,) = self.run_world(MODEL + ["--dataset=hdf5", "--data-arg=" + arguments,
                                            "--data-root=" + self.root], expect=2)
        self.assertIn(words, worker.text("err"))

    @unittest.skipUnless(WRITE_HDF5, "built without HDF5")
    def test_wherever_the_numbers_come_from_they_are_the_same(self):
        made_up = self.trained("seq2seq", SHAPE + ",train=100,test=20", "made")
        for kind in ("float", "double"):
            self.write(SHAPE + ",train=100,test=20", kind)
            root = "--data-root=" + self.root
            for name, arguments, more in (
                    ("file", SHAPE, []), ("ahead", SHAPE, ["--prefetch=on"]),
                    ("memory", SHAPE + ",memory=1", []),
                    ("staged", SHAPE, ["--stage-dir=" + self.path("local")])):
                if kind == "double" and name != "file":
                    continue
                read = self.trained("hdf5", arguments, kind + name, root, *more)
                self.assert_same_bits(made_up, read, f"{kind}, {name}")

    @unittest.skipUnless(WRITE_HDF5, "built without HDF5")
    def test_an_error_of_the_file_is_said(self):
        self.write(SHAPE + ",train=10,test=2")
        self.refused("the array has floats of shape 10x2x8 instead of floats of shape SAMPLESx2x16",
                     "source=2,target=3,d_model=16")
        with open(os.path.join(self.root, "seq2seq.h5"), "r+b") as file:
            file.truncate(100)
        self.refused("it does not exist, or is not an HDF5 file")
        self.root = self.path("nowhere")
        os.makedirs(self.root)
        self.refused("it does not exist, or is not an HDF5 file")

    @unittest.skipUnless(WRITE_HDF5, "built without HDF5")
    def test_a_sample_that_cannot_be_read_ends_the_training_with_the_reason(self):
        self.write(SHAPE + ",train=100,test=20", "double")
        file = os.path.join(self.root, "seq2seq.h5")
        with open(file, "rb") as whole:
            data = whole.read()
        with open(file, "wb") as damaged:  # Where samples are found: seen when one is read.
            damaged.write(data.replace(b"TREE\x01", b"EERT\x01"))
        for prefetch in ("on", "off"):
            self.checkpoints = self.path(prefetch + ".ckpt")
            first, other = self.start(
                MODEL + ["--dataset=hdf5", "--data-arg=" + SHAPE, "--data-root=" + self.root,
                         "--prefetch=" + prefetch, "--publish=out"], ranks=2)
            for worker in (first, other):
                self.assertEqual(worker.wait(), 1)
                self.assertRegex(worker.text("err"), r"ddprun-train \| error: cannot read 1 samples from number \d+ "
                                 r"of '.*seq2seq.h5: train/source': the file is damaged or gone")

    @unittest.skipIf(WRITE_HDF5, "built with HDF5")
    def test_without_hdf5_it_says_what_to_do(self):
        self.root = self.directory
        self.refused("built without HDF5; install libhdf5-dev")
