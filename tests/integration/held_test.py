"""Nothing that a worker or a stranger asks for or leaves behind keeps the agent from its work."""

import os
import re
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))

from ddprun_runs import DdprunTest, read_text  # noqa: E402

# One value of 16 kB, asked for 131,072 times in 1.2 MB: 2 GiB of answer, which nobody reads.
GREEDY = """
import os, signal, socket, struct, sys
store = socket.create_connection((os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])))
text = lambda t: struct.pack("<Q", len(t)) + t
store.sendall(b"\\0" + struct.pack("<I", 0x3C85F7CE) + b"\\1" + text(b"v") + text(b"x" * 16000))
try:
    store.sendall(b"\\12" + struct.pack("<Q", 131072) + text(b"v") * 131072)
    answer = store.recv(1)
except ConnectionError:
    answer = b""
print("answered", len(answer), file=sys.stderr, flush=True)
signal.pause()
"""
MOST_MEMORY = 300 * 1024  # KiB; the agent alone takes 20 MB.


class Held(DdprunTest):
    def most_memory(self, run):
        return int(re.search(r"VmHWM:\s*(\d+) kB", read_text(f"/proc/{run.agent()}/status"))[1])

    def test_an_answer_of_two_gigabytes_is_not_built(self):
        run = self.start("--standalone", sys.executable, "-c", GREEDY)
        self.wait_for_text(run, "answered 0")
        self.wait_for_text(run, "it asked for a reply of 2098200576 bytes where at most 268435456 may be")
        self.assertLess(self.most_memory(run), MOST_MEMORY)
        run.signal(15)
        self.assertEqual(run.wait(), 143, run.all())


if __name__ == "__main__":
    unittest.main()
