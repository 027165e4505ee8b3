"""The agent that carries the server dies, and its host goes on: its guard ends what is left, closes
its claim, and another node takes the part over at once, with the record that it left."""

import os
import re
import signal
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))

from ddprun_runs import read_text  # noqa: E402
from machines import MachinesTest  # noqa: E402

CLOSED = "this node's server died with its agent: closed its claim"


class ServerDeath(MachinesTest):
    def setUp(self):
        super().setUp()
        self.shared = self.path("shared")
        self.flags = [f"--run-dir={self.shared}"]

    def kill_agent(self, node):
        os.kill(node.agent(), signal.SIGKILL)
        self.assertEqual(node.wait(), 137, node.all())
        self.nodes.remove(node)
        self.lost.append(node)

    def no_lease_was_waited_for(self):
        """By what a node says when it has missed the server for a lease, or waits for the lost one."""
        self.assertNotIn("becomes the leader once", self.all())
        lost = re.search(r"ddprun (\S+) \|", self.lost[0].err()).group(1)
        self.assertNotRegex(self.all(), rf"missing [^;]*{re.escape(lost)}\b")

    def test_the_guard_closes_the_claim_in_the_run_directory(self):
        first = self.start_nodes(3, "1:3")
        old = self.nodes[0]
        self.kill_agent(old)
        second = self.world(2, after=first)
        self.assertIn(CLOSED, old.err(), old.all())
        self.no_lease_was_waited_for()
        self.start_node(old.machine, nnodes="1:3")
        self.world(3, after=second)
        self.end()
        self.assertIn("\nclosed 1\n", read_text(os.path.join(self.shared, "term-1")))


if __name__ == "__main__":
    unittest.main(verbosity=2)
