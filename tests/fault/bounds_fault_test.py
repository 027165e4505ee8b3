"""Strangers by the thousand at the ports of a run that goes on undisturbed."""

import multiprocessing
import os
import re
import resource
import socket
import struct
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))

from ddprun_runs import FAKE_WORKER, HELLO, DdprunTest  # noqa: E402

HALF_OPEN = 10_000
CROWDS = 5  # Processes that hold them: none needs more descriptors than usual limits give.
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
VALIDATE = b"\0" + struct.pack("<I", 0x3C85F7CE)


def crowd(address, count, first_bytes, made, over):
    """Holds `count` connections that have sent no more than `first_bytes`, until `over`."""
    held = []
    for i in range(count):
        try:
            one = socket.create_connection(address, 10)
            one.sendall(first_bytes[i % len(first_bytes)])
            held.append(one)
        except OSError:
            pass  # Turned away, which is fine.
    made.release()
    over.wait(120)
    for one in held:
        one.close()


class Bounds(DdprunTest):
    def setUp(self):
        super().setUp()
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        self.addCleanup(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        self.nodes = []
        for rank in (0, 1):
            self.nodes.append(self.start(
                "--nnodes=2", f"--node-rank={rank}", f"--rdzv-id={self.run_id}", "-v",
                f"--rdzv-endpoint={self.endpoint}", FAKE_WORKER, HELLO,
                f"--env-file={self.path('environment')}", f"--wait-file={self.go}"))
        for node in self.nodes:
            self.wait_for_workers(node, 1)
        self.before = [node.workers() for node in self.nodes]

    def address(self, endpoint):
        host, port = endpoint.rsplit(":", 1)
        return host, int(port)

    def connect(self, endpoint, first):
        one = socket.socket()
        self.addCleanup(one.close)
        one.settimeout(30)
        one.connect(self.address(endpoint))
        one.sendall(first)
        return one

    def store(self):
        """Where the workers' store is, as they see it."""
        environment = self.environment_of(self.path("environment"))
        return f"{environment['MASTER_ADDR']}:{environment['MASTER_PORT']}"

    def all(self):
        return "\n".join(node.all() for node in self.nodes)

    def end(self):
        """Nobody was restarted, lost or told to wait, and the run ends as it would have."""
        open(self.go, "w").close()
        self.all_end(self.nodes)
        self.assertEqual([node.workers() for node in self.nodes], self.before, self.all())
        for node in self.nodes:
            self.assertNotRegex(node.err(), "is lost|restarting|stopping the workers|libprotobuf")

    def lines(self, pattern):
        return sum(len(re.findall(pattern, node.err())) for node in self.nodes)

    def flood(self, endpoint, first_bytes):
        made, over = multiprocessing.Semaphore(0), multiprocessing.Event()
        crowds = [multiprocessing.Process(target=crowd, args=(
            self.address(endpoint), HALF_OPEN // CROWDS, first_bytes, made, over)) for _ in range(CROWDS)]
        for one in crowds:
            one.start()
        for _ in crowds:
            self.assertTrue(made.acquire(timeout=90), self.all())
        return crowds, over

    def disperse(self, crowds, over):
        over.set()
        for one in crowds:
            one.join(30)
            self.assertEqual(one.exitcode, 0)

    def test_ten_thousand_half_open_connections_at_the_server(self):
        flood = self.flood(self.endpoint, [b"", b"P", b"\x16", PREFACE[:20], b"\0\xce", b"GET /"])
        health = self.connect(self.endpoint, b"GET /healthz HTTP/1.0\r\n\r\n")
        self.assertIn(b"ddprun rendezvous", health.recv(4096))
        self.disperse(*flood)
        self.assertGreater(self.lines("rendezvous: closed the connection of"), 0, self.all())
        self.assertLess(self.lines("rendezvous: closed the connection of"), 100, self.all())
        self.end()

    def test_ten_thousand_half_open_connections_at_the_store(self):
        endpoint = self.store()
        flood = self.flood(endpoint, [b"", VALIDATE[:3]])
        client = self.connect(endpoint, VALIDATE + b"\x0d" + struct.pack("<I", 77))
        self.assertEqual(client.recv(4), struct.pack("<I", 77))
        self.disperse(*flood)
        self.assertGreater(self.lines("store: closed the connection of"), 0, self.all())
        self.assertLess(self.lines("store: closed the connection of"), 100, self.all())
        self.end()


if __name__ == "__main__":
    unittest.main()
