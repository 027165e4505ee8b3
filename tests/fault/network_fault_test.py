"""Two nodes and a network that cuts their connections."""

from ddprun_runs import FAKE_WORKER, HELLO, LATE, DdprunTest, eventually, lease
from tcp_proxy import TcpProxy


class Network(DdprunTest):
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
        return self.wait_for_world(self.nodes, 2)

    def test_cut_connections_disturb_no_run(self):
        """Again where this machine itself stood still for longer than a node has to come back."""
        for attempt in range(4):
            self.nodes, self.endpoint, self.go = [], self.free_endpoint(), self.path(f"go{attempt}")
            first = self.start_nodes()
            for _ in range(3):
                self.assertTrue(eventually(self.proxy.cut), "no connection to cut")
                self.pause(lease("kLongLease") / 3 + 0.2)  # Until a parked call has been answered again.
            open(self.go, "w").close()
            self.all_end(self.nodes)
            if all(node.generations() == [first] for node in self.nodes):
                return
            self.assertIn(LATE, self.nodes[0].err(), "\n".join(n.all() for n in self.nodes))
        self.fail("its node was lost every time\n" + self.nodes[0].all())
