"""The host that carries the server is lost, and another node of the list of endpoints takes over;
no directory is shared. A majority of the list decides: who reaches none waits, and says so."""

import os
import signal
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))

from machines import LIMIT, MachinesTest  # noqa: E402


class ListTakeover(MachinesTest):
    machines = 4

    def setUp(self):
        super().setUp()
        if self.network:
            places = [f"{self.network.address(i)}:29400" for i in range(3)]
        else:
            places = [self.free_endpoint() for _ in range(3)]
        self.endpoint = ",".join(places)

    # All of a list start together: only when each has answered that it knows nothing one may serve
    # before two leases have passed.
    def start_nodes(self, count, nnodes):
        for i in range(count):
            self.start_node(i, nnodes=nnodes)
        generation = self.world(count)
        self.wait_for(self.servers, *self.nodes, what="a server that says so")  # Lines have a thread of their own.
        self.assertEqual(len(self.servers()), 1, self.all())
        return generation

    def server(self):
        (server,) = self.servers()
        return server

    def test_three_nodes_lose_the_server_host_and_it_comes_back(self):
        first = self.start_nodes(3, "1:3")
        old = self.server()
        self.lose_host(old)
        second = self.world(2, after=first)
        self.assertIn("taking the server's part over", self.server().err())
        if self.network:
            self.network.heal(old.machine)
        back = self.start_node(old.machine, nnodes="1:3")
        self.world(3, after=second)
        self.assertNotIn("serving the rendezvous at", back.err())
        self.end()

    # Two nodes and a third machine that only keeps the claim: still a majority when one node is lost.
    def test_a_server_alone_counts_on_the_list(self):
        witness = self.launch(2, "rendezvous", f"--rdzv-endpoint={self.endpoint}", "-v")
        self.addCleanup(witness.signal, signal.SIGKILL)
        first = self.start_nodes(2, "1:2")
        old = self.server()
        self.lose_host(old)
        self.world(1, after=first)
        # The node's, or the witness: whoever looked first.
        takers = [run for run in (*self.nodes, witness)
                  if "taking the server's part over" in run.err()]
        self.assertEqual(len(takers), 1, self.all() + witness.all())
        self.end()
        witness.signal(signal.SIGTERM)
        self.assertEqual(witness.wait(), 143, witness.all())

    def test_verbs_ask_the_list(self):
        self.start_nodes(3, "1:3")
        asked = self.launch(1, "status", f"--endpoint={self.endpoint}")
        self.assertEqual(asked.wait(), 0, asked.all())
        self.assertIn(self.run_id, asked.out())
        self.end()

    def test_a_node_that_is_not_on_the_list_follows(self):
        first = self.start_nodes(3, "1:4")
        other = self.start_node(3, nnodes="1:4")
        second = self.world(4, after=first)
        self.lose_host(self.server())
        self.world(3, after=second)
        self.assertNotIn("serving the rendezvous at", other.err())
        if self.network:
            self.assertIn("this node never carries the server", other.err())
        self.end()

    def test_the_side_with_the_majority_goes_on_and_the_other_steps_down(self):
        if self.network is None:
            self.skipTest("needs root: a network namespace per machine")
        first = self.start_nodes(3, "1:3")
        old = self.server()
        self.network.cut(old.machine)
        self.nodes.remove(old)
        second = self.world(2, after=first)
        self.assertIn("this node's server steps down", self.wait_for(
            lambda: "this node's server steps down" in old.err() and old.err(), *self.nodes, old,
            limit=LIMIT, what="stepping down"))
        self.assertEqual(max(old.generations()), first, "a world formed on the losing side")
        self.network.heal(old.machine)
        self.nodes.append(old)
        self.world(3, after=second)
        self.end()

    def test_nodes_with_different_lists_are_told(self):
        self.start_nodes(3, "1:3")
        places = self.endpoint.split(",")
        self.endpoint = ",".join([places[1], places[0], places[2]])
        stranger = self.start_node(3, nnodes="1:4")
        self.wait_for_text(stranger, "was given another list of endpoints")
        self.nodes.remove(stranger)
        stranger.signal(signal.SIGTERM)
        self.end()
        stranger.wait()


if __name__ == "__main__":
    unittest.main(verbosity=2)
