"""A node stands still while the others end their run, and goes on when they are gone: it ends as the
run did, and nothing trains again."""

import os
import signal
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))

from ddprun_runs import FAKE_WORKER, HELLO, DdprunTest  # noqa: E402

LIMIT = 40  # Seconds for leases, and for a server to forget a run: ten of 3 s.


class Outcome(DdprunTest):
    def straggler_ends(self, *flags, servers=(), code=0):
        program = [FAKE_WORKER, HELLO, f"--wait-file={self.path('go')}", f"--exit={code}"]
        nodes = []
        for i in range(3):
            nodes.append(self.start("--nnodes=1:3", f"--rdzv-id={self.run_id}", "--local-addr=127.0.0.1",
                                    "--rdzv-conf=last_call_timeout=0.3", "--max-restarts=0", *flags, *program))
            if i == 0 and not servers:
                self.wait_for_text(nodes[0], "serving the rendezvous at")
        self.wait_for(lambda: all(n.workers(max(n.generations(), default=0)) for n in nodes) and
                      len({max(n.generations()) for n in nodes}) == 1 and
                      len({r for n in nodes for r in n.workers(max(n.generations()))}) == 3,
                      *nodes, limit=LIMIT, what="a world of 3")
        straggler = nodes[2]
        ran = straggler.generations()
        agent = straggler.agent()
        os.kill(agent, signal.SIGSTOP)
        self.wait_for(lambda: max(nodes[0].generations()) > max(ran), *nodes, limit=LIMIT, what="a world without it")
        open(self.path("go"), "w").close()
        self.all_end(nodes[:2], code)
        for server in servers:
            self.wait_for(lambda: self.has_forgotten(server), limit=LIMIT, what="the run's end on the server")
        os.kill(agent, signal.SIGCONT)
        self.assertEqual(straggler.wait(LIMIT), code, straggler.all())
        self.assertEqual(straggler.generations(), ran, straggler.all())
        for server in servers:
            self.terminate(server)

    def has_forgotten(self, server):
        asked = self.start("status", f"--endpoint={server.endpoint}", f"--rdzv-id={self.run_id}")
        return asked.wait() != 0 or "knows no run" in asked.all()

    def server(self, *flags, endpoint):
        server = self.start("rendezvous", *flags, "-v")
        server.endpoint = endpoint
        return server

    def test_with_a_run_directory_after_a_failure(self):
        self.straggler_ends(f"--rdzv-endpoint={self.free_endpoint()}", f"--run-dir={self.path('shared')}", code=7)

    def test_with_a_server_alone(self):
        endpoint = self.free_endpoint()
        server = self.server(f"--listen={endpoint}", endpoint=endpoint)
        self.wait_for_text(server, "serving at")
        self.straggler_ends(f"--rdzv-endpoint={endpoint}", servers=[server])


if __name__ == "__main__":
    unittest.main(verbosity=2)
