"""Two nodes whose calls go over TLS, the verbs beside them, and those that are rejected."""

import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))

from certificates import Certificates  # noqa: E402
from ddprun_runs import FAKE_WORKER, DdprunTest  # noqa: E402


class Tls(DdprunTest):
    def setUp(self):
        super().setUp()
        self.certificates = Certificates(self.path("."))
        self.authority, self.certificate = self.certificates.authority, self.certificates.certificate
        self.flags = self.certificates.flags
        self.authority("ca")
        self.certificate("node", "ca", f"IP:{self.host()}")

    def host(self):
        return self.endpoint.rsplit(":", 1)[0]

    def start_node(self, rank, *arguments, flags):
        return self.start("--nnodes=2", f"--node-rank={rank}", f"--rdzv-id={self.run_id}",
                          f"--rdzv-endpoint={self.endpoint}", *flags, FAKE_WORKER, *arguments)

    def test_verbs_find_the_files_of_a_server_of_this_machine(self):
        node = self.start_node(0, flags=self.flags("node"))
        self.wait_for_text(node, "waiting for nodes: 1 of 2")
        status = self.ask("status", f"--endpoint={self.endpoint}")
        self.assertIn(self.run_id, status.all())
        self.ask("stop", f"--endpoint={self.endpoint}", f"--rdzv-id={self.run_id}")
        node.wait(30)
        self.assertEqual(self.mark.living(), [])


if __name__ == "__main__":
    unittest.main()
