"""Nodes of an elastic run: two that begin at once, one whose server dies, one that stands still while the others end."""

import os
import re
import signal
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))

from ddprun_runs import FAKE_WORKER, HELLO, DdprunTest  # noqa: E402

LIMIT = 40  # Seconds for leases, on a busy machine.


class ElasticNodes(DdprunTest):
    def start_node(self, *flags, worker=()):
        return self.start("--nnodes=1:3", f"--rdzv-id={self.run_id}", f"--rdzv-endpoint={self.endpoint}",
                          "--local-addr=127.0.0.1", "--rdzv-conf=last_call_timeout=0.3", *flags, FAKE_WORKER, HELLO,
                          f"--wait-file={self.go}", *worker)

    def start_server_then_others(self, count, *flags, **how):
        """Nodes in one world; the first carries the rendezvous."""
        nodes = [self.start_node(*flags, **how)]
        self.wait_for_text(nodes[0], "serving the rendezvous at")
        nodes += [self.start_node(*flags, **how) for _ in range(count - 1)]
        return nodes, self.wait_for_world(nodes, count, limit=LIMIT)

    def let_them_finish(self):
        open(self.go, "w").close()

    def test_two_at_once_form_one_world(self):
        nodes = [self.start_node() for _ in range(2)]
        self.wait_for_world(nodes, 2)
        self.let_them_finish()
        self.all_end(nodes)
        self.assertEqual(self.mark.living(), [])
        carriers = [n for n in nodes if "serving the rendezvous at" in n.err()]
        self.assertEqual(len(carriers), 1, "\n".join(n.all() for n in nodes))

    def test_when_the_server_dies_the_workers_of_the_other_go_on(self):
        nodes, first = self.start_server_then_others(2)
        nodes[0].kill_at_once()
        self.run_directory_stays = True
        self.wait_for_text(nodes[1], f"cannot reach the rendezvous at {re.escape(self.endpoint)}: .*; "
                                     "the workers continue, trying again .without --run-dir no other node")
        self.let_them_finish()
        (worker,) = nodes[1].workers(first).values()
        self.wait_for(lambda: not os.path.exists(f"/proc/{worker}"), nodes[1])
        self.assertIsNone(nodes[1].process.poll(), "it cannot know whether the others succeeded")
        self.terminate(nodes[1])

    # It goes on when they are gone: it ends as the run did, and nothing trains again.
    def test_one_that_stands_still_while_the_others_end_their_run_hears_how_it_ended(self):
        nodes, ran = self.start_server_then_others(
            3, "--max-restarts=0", f"--run-dir={self.path('shared')}", worker=["--exit=7"])
        straggler = nodes.pop()
        agent = straggler.agent()
        os.kill(agent, signal.SIGSTOP)
        self.wait_for_world(nodes, 2, ran, limit=LIMIT)
        self.let_them_finish()
        self.all_end(nodes, 7)
        os.kill(agent, signal.SIGCONT)
        self.assertEqual(straggler.wait(LIMIT), 7, straggler.all())
        self.assertEqual(max(straggler.generations()), ran, straggler.all())


if __name__ == "__main__":
    unittest.main(verbosity=2)
