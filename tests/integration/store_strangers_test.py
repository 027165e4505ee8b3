"""Who may speak to a store, from machines of their own: network namespaces on a bridge. Needs root.

store_strangers_test.py STORE_HOST
"""

import os
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))

from bridge_network import BridgeNetwork  # noqa: E402
from networks import namespaces_work  # noqa: E402

STORE_HOST = sys.argv.pop(1)
# VALIDATE and PING; prints how much was answered.
CLIENT = """
import encodings.idna, os, socket, struct, sys
os.setuid(int(sys.argv[3]))
store = socket.create_connection((sys.argv[1], int(sys.argv[2])))
try:
    store.sendall(b"\\0" + struct.pack("<I", 0x3C85F7CE) + b"\\15" + struct.pack("<I", 7))
    answer = store.recv(4)
except ConnectionError:
    answer = b""
print("in" if answer else "out")
"""
ROOT, NOBODY = 0, 65534


@unittest.skipUnless(namespaces_work(), "no network namespaces without root")
class Strangers(unittest.TestCase):
    def setUp(self):
        self.network = BridgeNetwork(3)
        self.addCleanup(self.network.close)

    def serve(self, *arguments):
        server = subprocess.Popen(
            self.network.on_machine(0, [STORE_HOST, f"--listen={self.network.address(0)}:0", *arguments]),
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

        def end():
            server.stdin.close()
            server.stdout.close()
            server.stderr.close()
            server.wait()
        self.addCleanup(end)
        return int(server.stdout.readline().split()[1])

    def ask(self, machine, port, user=ROOT):
        command = [sys.executable, "-c", CLIENT, self.network.address(0), str(port), str(user)]
        return subprocess.run(self.network.on_machine(machine, command), check=True, timeout=30,
                              capture_output=True, text=True).stdout.strip()

    def test_other_machines_by_address_and_this_one_by_user(self):
        port = self.serve(f"--allow={self.network.address(1)}")
        self.assertEqual(self.ask(1, port), "in")
        self.assertEqual(self.ask(1, port, NOBODY), "in")  # Nobody here knows whose it is there.
        self.assertEqual(self.ask(2, port), "out")
        self.assertEqual(self.ask(0, port), "in")
        self.assertEqual(self.ask(0, port, NOBODY), "out")

    def test_without_a_list_every_other_machine(self):
        port = self.serve()
        self.assertEqual(self.ask(2, port), "in")
        self.assertEqual(self.ask(0, port, NOBODY), "out")


if __name__ == "__main__":
    unittest.main()
