"""Two nodes and a network that is cut or silent."""

import os
import signal

from ddprun_runs import FAKE_WORKER, HELLO, LATE, DdprunTest, eventually, lease
from tcp_proxy import TcpProxy


class Network(DdprunTest):
    def setUp(self):
        super().setUp()
        self.nodes = []

    def start_node(self, rank, endpoint):
        node = self.start("--nnodes=2", f"--node-rank={rank}", f"--rdzv-id={self.run_id}",
                          f"--rdzv-endpoint={endpoint}", "--rdzv-conf=last_call_timeout=0.5",
                          FAKE_WORKER, HELLO, f"--wait-file={self.go}")
        self.nodes.append(node)
        return node

    def start_nodes(self):
        """Node 0 hosts the server; node 1 comes through the proxy."""
        first = self.start_node(0, self.endpoint)
        self.wait_for_text(first, "serving the rendezvous at")
        self.proxy = TcpProxy(self.endpoint)
        self.addCleanup(self.proxy.close)
        self.start_node(1, self.proxy.endpoint)
        return self.world()

    def world(self, after=0):
        return self.wait_for_world(self.nodes, 2, after)

    def let_them_end(self):
        open(self.go, "w").close()
        self.all_end(self.nodes)

    def undisturbed(self, disturb):
        """Again where this machine itself stood still for longer than a node has to come back."""
        for attempt in range(4):
            self.nodes, self.endpoint, self.go = [], self.free_endpoint(), self.path(f"go{attempt}")
            first = self.start_nodes()
            disturb()
            self.let_them_end()
            if all(node.generations() == [first] for node in self.nodes):
                return
            self.assertIn(LATE, self.nodes[0].err(), "\n".join(n.all() for n in self.nodes))
        self.fail("its node was lost every time\n" + self.nodes[0].all())

    def test_cut_connections_disturb_no_run(self):
        def disturb():
            for _ in range(3):
                self.assertTrue(eventually(self.proxy.cut), "no connection to cut")
                self.pause(lease("kLongLease") / 3 + 0.2)  # Until a parked call has been answered again.

        self.undisturbed(disturb)

    def test_the_guard_is_paused(self):
        first = self.start_nodes()
        guard = self.nodes[1].process.pid
        os.kill(guard, signal.SIGSTOP)
        self.pause(lease("kLongLease") + 1)
        os.kill(guard, signal.SIGCONT)
        self.let_them_end()
        for node in self.nodes:
            self.assertEqual(node.generations(), [first], node.all())
