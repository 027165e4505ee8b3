"""As torchrun_runs_test, with the flags that are asked for seldom."""

import re

import torchrun_runs_test
from torch_runs import program


class MoreRuns(torchrun_runs_test.BothLaunchers):
    def test_a_module(self):
        self.environment["PYTHONPATH"] = program("")
        self.assert_alike("--nproc-per-node=2", "-m", file="dump", arguments=("-m", "x"))

    def test_a_script_of_its_own_without_python(self):
        self.assert_alike("--no-python", arguments=("--x", "${local_rank}", "a b"))

    def test_a_static_endpoint(self):
        self.assert_alike("--rdzv-backend=static", "--rdzv-endpoint=%HOST%:%PORT%", "--rdzv-id=mine",
                          literal=True)
        self.new_reports()
        self.run_ddprun(f"--rdzv-endpoint={self.endpoint}", program("dump.py"))
        told, = self.told()
        self.assertNotEqual(told["environment"]["MASTER_PORT"], self.endpoint.split(":")[1])

    def test_one_gpu_each(self):
        self.assert_alike("--virtual-local-rank", "--nproc-per-node=2",
                          environment={"CUDA_VISIBLE_DEVICES": "5,7"})

    def test_no_files(self):
        (_, theirs, _), (_, ours, _) = self.assert_alike(
            "--nproc-per-node=2", "--log-dir=/dev/null", "--tee=3", "--local-ranks-filter=1")
        # Two processes write to one pipe, a text and its end apart.
        self.assertEqual(sorted(re.findall(r"out of \d", theirs[0].out())), ["out of 0", "out of 1"])
        self.assertEqual(ours[0].out(), "[default1]:out of 1\n")
