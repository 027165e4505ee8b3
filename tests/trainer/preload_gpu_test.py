"""The preload process of a training on a GPU loads the GPU plug-in and takes no step (trainer/main.cc).

The plug-in here is fake_device.so: it registers a device with libtorch, as libtorch_cuda does, and its count of GPUs is a backward
pass on that device, whose outcome it gives as the reason why there is no GPU.
"""

import os
import re
import shutil
import subprocess
import tempfile
import unittest

DDPRUN, TRAIN, FAKE_DEVICE, OWN = (os.environ[name] for name in ("DDPRUN", "DDPRUN_TRAIN", "FAKE_DEVICE", "SESSION_PROGRAM"))


class PreloadOfGpuTraining(unittest.TestCase):
    def setUp(self):
        self.folder = self.enterContext(tempfile.TemporaryDirectory())
        for folder in ("bin", "lib/ddprun"):
            os.makedirs(os.path.join(self.folder, folder))
        self.trainer = shutil.copy(TRAIN, os.path.join(self.folder, "bin"))  # It looks for the plug-in beside itself.
        shutil.copy(FAKE_DEVICE, os.path.join(self.folder, "lib/ddprun/libddprun_cuda.so"))

    def outcome(self, *preload, program=None, **environment):
        """The process that loaded the plug-in, the one that asked it, and the result of the
        backward pass on the device."""
        done = subprocess.run([DDPRUN, *preload, "--nproc-per-node=1", program or self.trainer, "--device=cuda"], cwd=self.folder,
                              env=os.environ | environment, text=True, capture_output=True, timeout=100, check=False)
        self.assertEqual(done.returncode, 2, done.stderr)
        found = re.search(r"registered by process (\d+), asked by (\d+), backward: (.*);", done.stderr)
        self.assertTrue(found, done.stderr)
        return found.groups()

    def test_the_plug_in_is_loaded_there_and_the_workers_autograd_serves_the_gpu(self):
        loaded_by, asked_by, backward = self.outcome()
        self.assertNotEqual(loaded_by, asked_by)
        self.assertEqual(backward, "fine")

    def test_a_worker_that_is_started_from_its_file_loads_it_itself(self):
        loaded_by, asked_by, backward = self.outcome("--preload=none")
        self.assertEqual(loaded_by, asked_by)
        self.assertEqual(backward, "fine")

    def test_a_program_of_ones_own_finds_it_as_a_shared_library(self):
        loaded_by, asked_by, backward = self.outcome(program=OWN, LD_LIBRARY_PATH=os.path.join(self.folder, "lib/ddprun"))
        self.assertEqual((loaded_by, backward), (asked_by, "fine"))
