"""Our store server against torch's: the same bytes get the same replies from both.

Usage: PYTHON_WITH_TORCH store_torch_test.py PATH_OF_store_host
"""

import random
import socket
import struct
import subprocess
import sys
import unittest

import torch.distributed as dist

STORE_HOST = None
MAGIC = b"\x00" + struct.pack("<I", 0x3C85F7CE)


def text(data):
    return struct.pack("<Q", len(data)) + data


def keys(op, names):
    return bytes([op]) + struct.pack("<Q", len(names)) + b"".join(map(text, names))


def integer(number):
    return struct.pack("<q", number)


class Wire:
    """One raw connection; bytes that come back before the reply to a PING belong to the request."""

    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=20)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # Two small writes in turn.
        self.socket.sendall(MAGIC)
        self.nonce = 0xABCD0000

    def ask(self, request):
        self.nonce += 1
        nonce = struct.pack("<I", self.nonce)
        data = b""
        try:
            self.socket.sendall(request)
            self.socket.sendall(b"\x0d" + nonce)
            while not data.endswith(nonce):
                more = self.socket.recv(1 << 20)
                if not more:
                    return data, "closed"
                data += more
        except ConnectionError:
            return data, "closed"
        return data[:-4], "open"


SCRIPT = [
    b"\x07", b"\x11", b"\x0c",
    b"\x03" + text(b"/none"),
    b"\x01" + text(b"/a") + text(b"1"), b"\x03" + text(b"/a"),
    b"\x01" + text(b"/empty") + text(b""), b"\x03" + text(b"/empty"),
    keys(5, [b"/a", b"/empty"]), keys(5, [b"/a", b"/none"]), keys(5, []),
    keys(6, [b"/a"]), keys(6, []), keys(6, [b"/none"]), b"\x0c",
    b"\x02" + text(b"/cs") + text(b"x") + text(b"y"), b"\x07",
    b"\x02" + text(b"/cs") + text(b"") + text(b"y"),
    b"\x02" + text(b"/cs") + text(b"") + text(b"z"),
    b"\x02" + text(b"/cs") + text(b"y") + text(b"z"), b"\x03" + text(b"/cs"),
    b"\x04" + text(b"/n") + integer(5), b"\x04" + text(b"/n") + integer(-9),
    b"\x03" + text(b"/n"),
    b"\x01" + text(b"/n") + text(b" 12x"), b"\x04" + text(b"/n") + integer(1),
    b"\x04" + text(b"/max") + integer(2**63 - 1), b"\x04" + text(b"/max") + integer(1),
    b"\x09" + text(b"/a") + text(b"2"), b"\x09" + text(b"/b") + text(b"3"),
    keys(10, [b"/a", b"/none", b"/b", b"/a"]), keys(10, []),
    b"\x0b" + integer(2) + text(b"/m1") + text(b"1") + text(b"/m2") + text(b"2"),
    b"\x0b" + integer(0),
    keys(10, [b"/m1", b"/m2"]), b"\x07",
    b"\x08" + text(b"/m1"), b"\x08" + text(b"/m1"), b"\x07",
    b"\x0f" + text(b"/q"), b"\x10" + text(b"/q"),
    b"\x0e" + text(b"/q") + text(b"v1") + b"\x0e" + text(b"/q") + text(b"v2"),
    b"\x10" + text(b"/q"), keys(5, [b"/q"]), keys(6, [b"/q"]), b"\x08" + text(b"/q"), b"\x07",
    b"\x0f" + text(b"/q"), b"\x0f" + text(b"/q"), b"\x0f" + text(b"/q"),
    b"\x12" + text(b"/bar") + integer(1), b"\x12" + text(b"/bar2") + integer(2), b"\x0c",
    b"\x03" + text(b"/bar2"), b"\x12" + text(b"/bar2") + integer(2),
    b"\x12" + text(b"/bar3") + integer(0),
    b"\x03" + text(b"k" * 8192),
    b"\x01" + text(b"/big") + text(bytes(range(256)) * 32768), b"\x03" + text(b"/big"),
]

WAITS = (6, 18)

CLOSING = [
    b"\x13", b"\xff", MAGIC,
    b"\x03" + struct.pack("<Q", 8193), b"\x03" + struct.pack("<Q", 2**64 - 1),
    b"\x01" + text(b"/v") + struct.pack("<Q", 8 * 2**20 + 1),
    keys(6, [])[:1] + struct.pack("<Q", 131073), b"\x0a" + struct.pack("<Q", 131073),
    b"\x05" + struct.pack("<Q", 131073), b"\x0b" + struct.pack("<Q", 131073),
    b"\x01" + text(b"/t") + text(b"abc") + b"\x04" + text(b"/t") + integer(1),
    b"\x01" + text(b"/t") + text(b"") + b"\x04" + text(b"/t") + integer(1),
    b"\x01" + text(b"/t") + text(b"9" * 30) + b"\x04" + text(b"/t") + integer(1),
    b"\x01" + text(b"/t") + text(b"abc") + b"\x12" + text(b"/t") + integer(2),
]


def normal(request, reply):
    """torch lists keys in the order of its hash table."""
    data, state = reply
    if request != b"\x11":
        return data, state
    (count,), at, names = struct.unpack_from("<Q", data), 8, []
    for _ in range(count):
        (size,) = struct.unpack_from("<Q", data, at)
        names.append(data[at + 8 : at + 8 + size])
        at += 8 + size
    assert at == len(data)
    return count, sorted(names), state


class SameBytesTest(unittest.TestCase):
    def setUp(self):
        self.ours = subprocess.Popen([STORE_HOST, "--listen=127.0.0.1:0"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.addCleanup(self.end)
        self.port = int(self.ours.stdout.readline().split()[1])
        self.torch = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
        self.assertTrue(self.torch.libuvBackend)

    def end(self):
        self.ours.stdin.close()
        self.ours.stdout.close()
        self.assertEqual(self.ours.wait(timeout=10), 0)

    def both(self):
        pair = Wire(self.port), Wire(self.torch.port)
        for wire in pair:
            self.addCleanup(wire.socket.close)
        return pair

    def test_every_request_in_turn(self):
        ours, theirs = self.both()
        for request in SCRIPT + [b"\x11"]:
            expected = normal(request, theirs.ask(request))
            self.assertEqual(expected[-1], "open", request[:60])
            self.assertEqual(normal(request, ours.ask(request)), expected, request[:60])

    def test_errors_that_close_a_connection(self):
        for request in CLOSING:
            ours, theirs = self.both()
            expected = theirs.ask(request)
            self.assertEqual(expected[1], "closed", request[:60])
            self.assertEqual(ours.ask(request), expected, request[:60])
            ours, theirs = self.both()  # What is left of it.
            self.assertEqual(ours.ask(b"\x03" + text(b"/t")), theirs.ask(b"\x03" + text(b"/t")), request[:60])

    def test_two_connections_in_random_order(self):
        """Waits, queues and barriers across connections; replies are compared as they come."""
        choice = random.Random(5)
        names = [b"/x", b"/y", b"/z"]
        pairs = [self.both(), self.both()]
        waiting = [False, False]
        woken = 0
        for step in range(2500):
            who = choice.randrange(2)
            request = self.random_request(choice, choice.choice(names))
            op = request[0]
            if waiting[who] and op != 12:
                continue  # While a client waits it can only cancel.
            if op == 2 and waiting[1 - who]:
                continue  # torch wakes waiters for a compare_set that stored nothing.
            for i, sent in ((who, request), (1 - who, b"")):
                expected = pairs[i][1].ask(sent)
                self.assertEqual(pairs[i][0].ask(sent), expected, (step, i, request))
                if sent:
                    waiting[i] = op in WAITS and expected[0] == b""
                elif expected[0]:
                    waiting[i] = False
                    woken += 1
        self.assertGreater(woken, 10)

    def random_request(self, choice, key):
        return choice.choice([
            b"\x01" + text(key) + text(b"7"),
            b"\x02" + text(key) + text(choice.choice([b"", b"7"])) + text(b"8"),
            b"\x03" + text(key),
            b"\x04" + text(key) + integer(1),
            keys(5, [key]),
            b"\x08" + text(key),
            b"\x08" + text(key) + b"\x09" + text(key) + text(b"1"),
            b"\x0c",
            b"\x07",
            keys(6, [key]),
            b"\x12" + text(b"/b" + key) + integer(3),
        ])


if __name__ == "__main__":
    STORE_HOST = sys.argv.pop(1)
    unittest.main()
