"""Two nodes and a network that is slow, cut, silent, or full of strangers."""

import os
import random
import signal
import socket
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))

from ddprun_runs import FAKE_WORKER, HELLO, LATE, DdprunTest, eventually  # noqa: E402
from tcp_proxy import TcpProxy  # noqa: E402


class Network(DdprunTest):
    def setUp(self):
        super().setUp()
        self.endpoint = self.free_endpoint()
        self.go = self.path("go")
        self.nodes = []

    def start_node(self, rank, endpoint, *flags, nnodes="2"):
        node = self.start(f"--nnodes={nnodes}", f"--node-rank={rank}", f"--rdzv-id={self.run_id}",
                          f"--rdzv-endpoint={endpoint}", "--rdzv-conf=last_call_timeout=0.5",
                          *flags, FAKE_WORKER, HELLO, f"--wait-file={self.go}")
        self.nodes.append(node)
        return node

    def start_nodes(self, **how):
        """Node 0 carries the server; node 1 comes through the proxy."""
        first = self.start_node(0, self.endpoint, **how)
        self.wait_for_text(first, "serving the rendezvous at")
        self.proxy = TcpProxy(self.endpoint)
        self.addCleanup(self.proxy.close)
        self.start_node(1, self.proxy.endpoint, **how)
        return self.world()

    def world(self, after=0):
        return self.wait_for_world(self.nodes, 2, after)

    def pause(self, milliseconds):
        """As long as another run takes: nothing else can be waited for where nothing may happen."""
        self.assertEqual(self.start(FAKE_WORKER, f"--sleep-ms={milliseconds}").wait(), 0)

    def let_them_end(self):
        open(self.go, "w").close()
        for node in self.nodes:
            self.assertEqual(node.wait(), 0, "\n".join(n.all() for n in self.nodes))

    def end(self, generations):
        self.let_them_end()
        for node in self.nodes:
            self.assertEqual(node.generations(), generations, node.all())

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

    def test_cut_connections_disturb_nobody(self):
        def disturb():
            for _ in range(3):
                self.assertTrue(eventually(self.proxy.cut), "no connection to cut")
                self.pause(1200)  # Until a parked call has been answered again.

        self.undisturbed(disturb)

    def test_a_short_silence_disturbs_nobody(self):
        def disturb():
            self.proxy.set("stall")
            self.pause(500)
            self.proxy.set("pass")

        self.undisturbed(disturb)

    def test_a_partition_loses_the_node_and_healing_brings_it_back(self):
        first = self.start_nodes(nnodes="1:2")
        self.proxy.set("stall")
        self.wait_for(lambda: self.nodes[0].generations()[-1] > first, *self.nodes)
        second = self.nodes[0].generations()[-1]
        self.assertEqual(len(self.nodes[0].workers(second)), 1)
        self.proxy.set("pass")
        self.proxy.cut()
        self.wait_for_text(self.nodes[1], "this node was declared lost")
        third = self.world(second)
        open(self.go, "w").close()
        for node in self.nodes:
            self.assertEqual(node.wait(), 0, "\n".join(n.all() for n in self.nodes))
        self.assertEqual(self.nodes[1].generations(), [first, third])

    def test_a_server_that_cannot_be_reached_for_a_while_is_found_again(self):
        first = self.start_nodes()
        self.proxy.set("refuse")
        self.proxy.cut()
        self.wait_for_text(self.nodes[1], "cannot reach the rendezvous .*the workers go on")
        self.assertEqual(len(self.nodes[1].workers(first)), 1)
        self.proxy.set("pass")
        self.wait_for_text(self.nodes[1], "is reachable again")
        # With two fixed nodes the world was drained or not, as the outage took; it ends well.
        self.world(first - 1)
        open(self.go, "w").close()
        for node in self.nodes:
            self.assertEqual(node.wait(), 0, "\n".join(n.all() for n in self.nodes))

    def test_strangers_at_the_port_disturb_nobody(self):
        first = self.start_nodes()
        host, port = self.endpoint.rsplit(":", 1)
        chance = random.Random(7)
        openings = [b"", b"GET / HTTP/1.1\r\n\r\n", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"\x16\x03\x01",
                    b"SSH-2.0-x\r\n", b"\0\xce\x7f\xc5\x3c", b"GET /" + b"a" * 100_000]
        held = []
        for i in range(200):
            stranger = socket.create_connection((host, int(port)), 5)
            try:
                stranger.sendall(openings[i % len(openings)] + chance.randbytes(chance.randrange(300)))
            except OSError:
                pass  # Thrown out already.
            if i % 2:
                held.append(stranger)
            else:
                stranger.close()
        for stranger in held:
            stranger.close()
        self.end([first])

    def test_the_agent_with_the_server_is_paused(self):
        def disturb():
            agent = self.nodes[0].agent()
            os.kill(agent, signal.SIGSTOP)
            self.pause(5000)  # Beyond a lease.
            os.kill(agent, signal.SIGCONT)

        self.undisturbed(disturb)  # Its own lateness is nobody's fault.

    def test_the_guard_is_paused(self):
        first = self.start_nodes()
        guard = self.nodes[1].process.pid
        os.kill(guard, signal.SIGSTOP)
        self.pause(4000)
        os.kill(guard, signal.SIGCONT)
        self.end([first])


if __name__ == "__main__":
    unittest.main(verbosity=2)
