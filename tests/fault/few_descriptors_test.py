"""A server with few descriptors (ulimit -n): the number of served connections is bounded, and the
others are not read."""

import re
import shutil
import socket
import struct

from ddprun_runs import DDPRUN, FAKE_WORKER, DdprunTest

DESCRIPTORS = 256
CLIENTS = 400
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\4\0\0\0\0\0"


def frame(kind, payload):
    """Of stream 1, and not its header's last."""
    return struct.pack(">I", len(payload))[1:] + bytes([kind, 0]) + struct.pack(">I", 1) + payload


class FewDescriptors(DdprunTest):
    def setUp(self):
        super().setUp()
        self.server = self.start(f"--nofile={DESCRIPTORS}:{DESCRIPTORS}", DDPRUN, "rendezvous", "--insecure",
                                 f"--listen={self.free_endpoint()}", executable=shutil.which("prlimit"))
        self.wait_for_text(self.server, "serving at")
        self.endpoint = self.server.err().split("serving at ")[1].split()[0]

    def connect(self):
        host, port = self.endpoint.rsplit(":", 1)
        one = socket.create_connection((host, int(port)), 30)
        self.addCleanup(one.close)
        one.sendall(PREFACE)
        return one

    def is_served(self, one):
        """gRPC's own SETTINGS come to a served connection."""
        try:
            return one.recv(9) != b""
        except ConnectionResetError:
            return False

    def is_ended(self, one):
        """By whatever it sends: 256 KiB of a header that never ends."""
        try:
            for _ in range(16):
                one.sendall(frame(9, b"\0" * 16_384))
            while one.recv(65536):
                pass
        except (ConnectionResetError, BrokenPipeError):
            pass
        except socket.timeout:
            return False
        return True

    def status(self):
        looks = self.start("status", f"--endpoint={self.endpoint}", "--insecure")
        return looks.wait(), looks

    def test_no_client_escapes_the_limits(self):
        clients = [self.connect() for _ in range(CLIENTS)]
        served = [one for one in clients if self.is_served(one)]
        self.assertGreater(len(served), 20, self.server.err())
        self.assertLess(len(served), DESCRIPTORS / 2, "each takes two descriptors")
        self.assertRegex(self.server.err(), "too many such connections|nearly all descriptors .ulimit -n. are in use")
        for one in served:
            one.sendall(frame(1, b""))
        self.assertEqual([one for one in served if not self.is_ended(one)], [])
        self.wait_for(lambda: self.status()[0] == 0, self.server, what="room for others")
        self.terminate(self.server)

    # It ended at once, as if another program had the port; nodes elsewhere look again too.
    def test_a_node_on_the_servers_machine_waits_for_room(self):
        clients = [self.connect() for _ in range(CLIENTS)]
        self.assertGreater(len([one for one in clients if self.is_served(one)]), 20)
        node = self.start("--nnodes=1:2", "--node-rank=0", f"--rdzv-endpoint={self.endpoint}", "--insecure",
                          "--rdzv-conf=join_timeout=60", FAKE_WORKER)
        refused = (r"closed the connection without an answer: trying again for up to 30.0 s|"
                   r"cannot reach the rendezvous [^\n]*; trying again")
        self.wait_for_text(node, refused + "|waiting for more nodes")
        if not re.search(refused, node.err()):
            self.skipTest("on this slow machine the clients were let go before the node came")
        for one in clients:
            one.close()
        self.assertEqual(node.wait(), 0, node.all())


class TooFew(DdprunTest):
    def limited(self, soft, hard, *arguments):
        return self.start(f"--nofile={soft}:{hard}", DDPRUN, *arguments, executable=shutil.which("prlimit"))

    # It was called a defect of ddprun, wherever the last one was wanted.
    def test_which_limit_would_do_is_said(self):
        for arguments in ([FAKE_WORKER], ["rendezvous", "--insecure", f"--listen={self.free_endpoint()}"]):
            with self.subTest(arguments[0]):
                run = self.limited(10, 10, *arguments)
                self.assertEqual(run.wait(), 70, run.all())
                self.assertRegex(run.err(), r"^ddprun[^\n]* ddprun may have 10 open files \(ulimit -n\), which is "
                                            r"too few. It needs 24, and up to ten more for each worker \[descriptor-limit\]\n$")

    # It said so of pipes alone, and of the sockets before them only that there were too many files.
    def test_workers_that_need_more_name_the_limit(self):
        run = self.limited(24, 24, "--nproc-per-node=8", FAKE_WORKER)
        self.assertEqual(run.wait(), 1, run.all())
        self.assertRegex(run.err(), r"cannot make the notify socket [^\n]*Too many open files; ddprun may have 24 open "
                                    r"files \(ulimit -n\), and each worker [^\n]*\[descriptor-limit\]\n")

    # Where Asio wanted the last one, it was called a defect of ddprun; of a socket no limit was named.
    def test_every_limit_will_do_or_is_named(self):
        for words in (["-t", "3", "--nproc-per-node=2", f"--log-dir={self.path('logs')}"],
                      ["--nnodes=1:2", "--rdzv-endpoint=127.0.0.1:0", "--rdzv-conf=last_call_timeout=0"]):
            for limit in range(24, 34):
                with self.subTest(words[0], limit=limit):
                    run = self.limited(limit, limit, *words, FAKE_WORKER)
                    if run.wait() != 0:
                        self.assertIn("[descriptor-limit]", run.err())

    def test_a_limit_that_may_be_raised_is(self):
        run = self.limited(10, 64, FAKE_WORKER, "--env-file=" + self.path("there"))
        self.assertEqual(run.wait(), 0, run.all())
