"""Several nodes: agents that die, stop, pause and come back; worlds that grow and shrink."""

import os
import re
import signal
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))

from ddprun_runs import FAKE_WORKER, HELLO, DdprunTest  # noqa: E402


class ElasticNodes(DdprunTest):
    def setUp(self):
        super().setUp()
        self.endpoint = self.free_endpoint()
        self.go = self.path("go")

    def work(self):
        """Says hello, then works until the test says that it is enough."""
        return [FAKE_WORKER, HELLO, f"--env-file={self.path('env.%r.%g')}", f"--wait-file={self.go}"]

    def let_them_finish(self):
        open(self.go, "w").close()

    def end(self, nodes):
        self.all_end(nodes)
        self.assertEqual(self.mark.living(), [])

    def restart_count(self, rank, generation):
        path = self.path(f"env.{rank}.{generation}")
        return int(self.environment_of(path)["TORCHELASTIC_RESTART_COUNT"])

    def start_node(self, *flags):
        return self.start("--nnodes=1:2", f"--rdzv-id={self.run_id}",
                          f"--rdzv-endpoint={self.endpoint}", *flags, *self.work())

    def start_server_then_other(self, *flags):
        """Two nodes in one world; the first carries the rendezvous."""
        server = self.start_node(*flags)
        self.wait_for_text(server, "serving the rendezvous at")
        nodes = [server, self.start_node(*flags)]
        return nodes, self.wait_for_world(nodes, 2)

    def test_two_at_once_form_one_world(self):
        nodes = [self.start_node() for _ in range(2)]
        self.wait_for_world(nodes, 2)
        self.let_them_finish()
        self.end(nodes)
        carriers = [n for n in nodes if "serving the rendezvous at" in n.err()]
        self.assertEqual(len(carriers), 1, "\n".join(n.all() for n in nodes))

    def test_term_makes_one_node_leave_and_the_other_goes_on_until_it_comes_back(self):
        nodes, first = self.start_server_then_other("--max-restarts=0")
        for _ in range(2):
            self.terminate(nodes[1])
            first = self.wait_for_world(nodes[:1], 1, first)
            self.assertEqual(self.restart_count(0, first), 0)
            nodes[1] = self.start_node("--max-restarts=0")
            first = self.wait_for_world(nodes, 2, first)
        self.let_them_finish()
        self.end(nodes)
        self.assertNotIn("standing by as a spare", nodes[1].err(), "the world was not complete")

    def test_term_makes_the_node_with_the_server_leave_and_the_other_goes_on(self):
        nodes, first = self.start_server_then_other("--max-restarts=0")
        nodes[0].signal(signal.SIGTERM)
        self.wait_for_world(nodes[1:], 1, first)
        self.wait_for_text(nodes[0], "it serves the rendezvous on for 1 other node")
        self.let_them_finish()
        self.assertEqual(nodes[1].wait(), 0, "\n".join(n.all() for n in nodes))
        self.assertEqual(nodes[0].wait(), 143, "\n".join(n.all() for n in nodes))

    def test_when_the_server_dies_the_workers_of_the_other_go_on(self):
        nodes, first = self.start_server_then_other()
        nodes[0].kill_at_once()
        self.run_directory_stays = True
        self.wait_for_text(nodes[1], f"cannot reach the rendezvous at {re.escape(self.endpoint)}: .*; "
                                     "the workers continue, trying again .without --run-dir no other node")
        self.let_them_finish()
        (worker,) = nodes[1].workers(first).values()
        self.wait_for(lambda: not os.path.exists(f"/proc/{worker}"), nodes[1])
        self.assertIsNone(nodes[1].process.poll(), "it cannot know whether the others succeeded")
        self.terminate(nodes[1])


if __name__ == "__main__":
    unittest.main(verbosity=2)
