"""Strangers by the thousand, slow ones and liars at the ports of a run that goes on undisturbed."""

import multiprocessing
import os
import random
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
SETTINGS = b"\0\0\0\4\0\0\0\0\0"


def text(value):
    return struct.pack("<Q", len(value)) + value


def frame(kind, flags, stream, payload):
    return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload


def literal(name, value):
    """A header of HPACK, neither indexed nor compressed."""
    return b"\0" + bytes([len(name)]) + name + bytes([len(value)]) + value


def sync_call(stream, message, announced=None):
    """A call of the rendezvous' Sync as gRPC sends it, with whatever for its message."""
    headers = b"".join(literal(*pair) for pair in (
        (b":method", b"POST"), (b":scheme", b"http"), (b":authority", b"n0"),
        (b":path", b"/ddprun.v1.Rendezvous/Sync"), (b"content-type", b"application/grpc"),
        (b"te", b"trailers")))
    body = b"\0" + struct.pack(">I", len(message) if announced is None else announced) + message
    pieces = [body[i:i + 16_000] for i in range(0, len(body), 16_000)]
    return frame(1, 4, stream, headers) + b"".join(
        frame(0, 1 if piece is pieces[-1] else 0, stream, piece) for piece in pieces)


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
        self.go = self.path("go")
        self.endpoint = self.free_endpoint()
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

    def connect(self, endpoint, *first, receive=None):
        one = socket.socket()
        self.addCleanup(one.close)
        if receive:
            one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive)
        one.settimeout(30)
        one.connect(self.address(endpoint))
        for bytes_ in first:
            one.sendall(bytes_)
        return one

    def store(self):
        """Where the workers' store is, as they see it."""
        environment = self.environment_of(self.path("environment"))
        return f"{environment['MASTER_ADDR']}:{environment['MASTER_PORT']}"

    def closed(self, one):
        """That the other side ends the connection, whatever it says before."""
        try:
            while one.recv(65536):
                pass
        except ConnectionResetError:
            pass
        except socket.timeout:
            self.fail("it was not closed\n" + self.all())

    def all(self):
        return "\n".join(node.all() for node in self.nodes)

    def end(self):
        """Nobody was restarted, lost or told to wait, and the run ends as it would have."""
        open(self.go, "w").close()
        for node in self.nodes:
            self.assertEqual(node.wait(), 0, self.all())
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
        client = self.connect(endpoint, VALIDATE, b"\x0d" + struct.pack("<I", 77))
        self.assertEqual(client.recv(4), struct.pack("<I", 77))
        self.disperse(*flood)
        self.assertGreater(self.lines("store: closed the connection of"), 0, self.all())
        self.assertLess(self.lines("store: closed the connection of"), 100, self.all())
        self.end()

    def test_who_never_reads_and_who_never_ends_its_request(self):
        endpoint = self.store()
        slow = self.connect(endpoint, VALIDATE, b"\1" + text(b"large") + text(b"v" * (4 << 20)), receive=4096)
        try:
            slow.settimeout(1)
            while True:  # Until the store takes no more: every answer is 4 MiB.
                slow.sendall((b"\3" + text(b"large")) * 1000)
        except socket.timeout:
            pass
        halves = [self.connect(endpoint, VALIDATE, b"\1" + text(b"k") + struct.pack("<Q", 1000) + b"half")
                  for _ in range(100)]
        calls = [self.connect(self.endpoint, PREFACE + SETTINGS, sync_call(1, b"x", announced=1000)[:-1])
                 for _ in range(100)]
        client = self.connect(endpoint, VALIDATE, b"\1" + text(b"k") + text(b"v"), b"\3" + text(b"k"))
        self.assertEqual(client.recv(9), text(b"v"))
        self.assertEqual(len(halves) + len(calls), 200)
        self.end()

    def test_what_is_too_large_or_makes_no_sense_is_refused(self):
        endpoint = self.store()
        for nonsense in (b"\1" + struct.pack("<Q", 1 << 62),          # A gigantic key,
                         b"\1" + text(b"k") + struct.pack("<Q", 1 << 62),  # value,
                         b"\6" + struct.pack("<Q", 1 << 62),          # number of keys,
                         b"\xff"):                                    # an operation nobody knows.
            self.closed(self.connect(endpoint, VALIDATE, nonsense))
        chance = random.Random(7)
        for message in (chance.randbytes(500), b"\x0a\xff\xff\xff\xff\x0f", b"", b"\x0a\x7f" + b"n" * 127):
            caller = self.connect(self.endpoint, PREFACE + SETTINGS, sync_call(1, message))
            heard = b""
            while b"grpc-status" not in heard:  # Answered with a status, not with silence.
                more = caller.recv(65536)
                self.assertTrue(more, self.all())
                heard += more
        self.closed(self.connect(self.endpoint, PREFACE, b"\xff" * 20_000))
        giant = self.connect(self.endpoint, PREFACE + SETTINGS, sync_call(1, b"", announced=1 << 31)[:-1])
        giant.sendall(frame(0, 0, 1, b"x" * 16_000))
        heard = b""
        while b"grpc-status" not in heard and (more := giant.recv(65536)):
            heard += more
        self.end()


if __name__ == "__main__":
    unittest.main()
