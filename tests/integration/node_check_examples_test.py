"""The checks of examples/node-check: each passes a machine that is well, and names what is wrong."""

import os
import subprocess

from ddprun_runs import FAKE_WORKER, HELLO, DdprunTest

CHECKS = os.path.realpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "examples", "node-check"))


class Checks(DdprunTest):
    def setUp(self):
        super().setUp()
        for name, text in (("sys/class/net/eth0/carrier", "1"), ("sys/class/net/eth1/carrier", "0"),
                           ("sys/class/infiniband/mlx5_0/ports/1/state", "4: ACTIVE"),
                           ("sys/class/infiniband/mlx5_1/ports/1/state", "2: INIT"),
                           ("proc/meminfo", "MemTotal: 67108864 kB\nMemAvailable: 33554432 kB")):
            self.write(self.path("host", name), text + "\n")

    def check(self, script, *arguments):
        done = subprocess.run([os.path.join(CHECKS, script), *arguments], capture_output=True, text=True, timeout=60,
                              env={**self.environment, "DDPRUN_HOST_ROOT": self.path("host")})
        return done.returncode, done.stdout + done.stderr

    def test_a_good_machine_passes_and_says_nothing(self):
        self.assertEqual(self.check("disk-space.sh", self.directory, "0"), (0, ""))
        self.assertEqual(self.check("network-link.sh", "eth0", "mlx5_0/1"), (0, ""))
        self.assertEqual(self.check("memory.sh", "32"), (0, ""))

    def test_a_bad_one_is_named(self):
        code, said = self.check("disk-space.sh", self.directory, "1000000")
        self.assertEqual(code, 1)
        self.assertRegex(said, rf"^{self.directory} has \d+ GiB of free space, less than 1000000\n$")
        self.assertEqual(self.check("network-link.sh", "eth0", "eth1"), (1, "eth1 has no link\n"))
        self.assertEqual(self.check("network-link.sh", "eth2"), (1, "eth2 has no link\n"))
        self.assertEqual(self.check("network-link.sh", "mlx5_1/1"), (1, "mlx5_1/1 is not active: 2: INIT\n"))
        self.assertEqual(self.check("memory.sh", "33"), (1, "32 GiB of memory are available, less than 33\n"))

    def test_a_machine_that_cannot_be_looked_at_is_no_pass(self):
        for script, argument in (("disk-space.sh", self.path("none")), ("network-link.sh", "mlx5_9/1")):
            code, said = self.check(script, argument)
            self.assertNotEqual(code, 0)
            self.assertIn("No such file or directory", said)
        os.remove(self.path("host/proc/meminfo"))
        self.assertNotEqual(self.check("memory.sh")[0], 0)

    def test_as_a_node_check(self):
        both = f"{CHECKS}/disk-space.sh / 0 && {CHECKS}/memory.sh"
        self.assertEqual(len(self.run_ddprun(f"--node-check={both} 0", FAKE_WORKER, HELLO).workers()), 1)
        run = self.run_ddprun(f"--node-check={both} 1000000", FAKE_WORKER, HELLO, expect=69)
        self.assertRegex(run.err(), r"is refused by its node check: \d+ GiB of memory are available, less than 1000000")
