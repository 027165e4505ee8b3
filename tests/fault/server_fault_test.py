"""The rendezvous server is killed and started again while two nodes work."""

import os
import signal

from ddprun_runs import FAKE_WORKER, HELLO, DdprunTest, lease


class ServerFault(DdprunTest):
    def setUp(self):
        super().setUp()
        self.state = self.path("state")
        self.nodes = []
        self.server = None

    def start_server(self):
        self.server = self.start("rendezvous", f"--listen={self.endpoint}", "-v", f"--state-dir={self.state}")
        self.wait_for_text(self.server, "serving at")

    def kill_server(self):
        self.server.signal(signal.SIGKILL)
        self.server.wait()

    def start_node(self, *flags):
        node = self.start("--nnodes=2", f"--rdzv-id={self.run_id}",
                          f"--rdzv-endpoint={self.endpoint}", "--local-addr=127.0.0.1",
                          "--rdzv-conf=last_call_timeout=0.2", *flags,
                          FAKE_WORKER, HELLO, f"--wait-file={self.go}")
        self.nodes.append(node)
        return node

    def start_nodes(self, *flags):
        for _ in range(2):
            node = self.start_node(*flags)
            # On this machine a node that finds no server at the endpoint would host the server itself.
            self.wait_for_text(node, "joining the rendezvous at")

    def all(self):
        return "\n".join(run.all() for run in [self.server, *self.nodes])

    def world(self, after=0):
        """Generation -> rank -> pid of the first world above `after` in which all nodes work."""
        generation = self.wait_for_world(self.nodes, 2, after, others=[self.server])
        return generation, {r: pid for n in self.nodes for r, pid in n.workers(generation).items()}

    def pids(self):
        return {pid for node in self.nodes for g in node.generations() for pid in node.workers(g).values()}

    def wait_until_connected(self):
        """Until every agent has been heard by the newest server."""
        self.wait_for_text(self.server, "recovered generation")

    def end(self):
        open(self.go, "w").close()
        self.all_end(self.nodes)
        self.terminate(self.server)

    # ---- Killed and started again ----
    def test_away_for_longer_than_a_lease(self):
        self.start_server()
        self.start_nodes()
        generation, workers = self.world()
        for _ in range(2):
            self.kill_server()
            self.pause(lease("kLongLease") + 1)
            self.start_server()
            self.wait_until_connected()
        self.end()
        self.assertEqual(self.pids(), set(workers.values()), self.all())
        self.assertEqual({g for n in self.nodes for g in n.generations()}, {generation}, self.all())
        for node in self.nodes:
            self.assertRegex(node.err(), "cannot reach the rendezvous .*the workers continue")
            self.assertRegex(node.err(), "is reachable again")

    def test_a_restart_keeps_the_restarts_used(self):
        self.start_server()
        self.start_nodes("--max-restarts=1")
        first, workers = self.world()
        os.kill(workers[0], signal.SIGKILL)
        second, workers = self.world(after=first)
        self.kill_server()
        self.start_server()
        self.wait_until_connected()
        os.kill(workers[0], signal.SIGKILL)
        self.all_end(self.nodes, 137)
        self.assertEqual({g for n in self.nodes for g in n.generations()}, {first, second}, self.all())
        self.terminate(self.server)

    def test_a_claim_that_cannot_be_written_ends_no_run(self):
        self.start_server()
        self.start_nodes()
        self.world()
        os.rename(self.state, self.path("away"))
        open(self.go, "w").close()
        self.all_end(self.nodes)
        self.wait_for_text(self.server, "the claim in the state directory .* cannot be written")
        os.rename(self.path("away"), self.state)
        self.wait_for_text(self.server, "can be written again")
        self.terminate(self.server)
