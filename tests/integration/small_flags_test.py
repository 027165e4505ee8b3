"""Two small things a user asks of one node: its network, a debugger at one worker."""

import os
import pty
import re
import select
import unittest

from bridge_network import BridgeNetwork
from ddprun_runs import DDPRUN, FAKE_WORKER, DdprunTest, eventually, read_text
from networks import namespaces_work

TWO = "--nproc-per-node=2"
PROGRAM = """
import os, sys
rank = os.environ["RANK"]
terminals = [stream.isatty() for stream in (sys.stdin, sys.stdout, sys.stderr)]
print(f"rank {rank} terminals {terminals}")
answer = 42
if rank == "1":
    breakpoint()
print(f"rank {rank} has {answer}")
"""


class AttachedRank(DdprunTest):
    def on_a_terminal(self, *arguments):
        pid, terminal = pty.fork()
        if pid == 0:
            os.chdir(self.directory)
            os.execve(DDPRUN, [DDPRUN, *arguments], {**self.environment, "PYTHONNOUSERSITE": "1"})
        return pid, terminal

    def debug(self, *flags):
        """The program's output on the terminal, with a question asked of its debugger."""
        self.write("train.py", PROGRAM)
        pid, terminal = self.on_a_terminal(TWO, "--attach-rank=1", *flags, "train.py")
        seen, said, status = b"", [b"c\n", b"answer = 6 * 9\n"], None

        def look():
            nonlocal seen, status
            if select.select([terminal], [], [], 0.05)[0]:
                try:
                    seen += os.read(terminal, 4096)
                except OSError:  # All that had the terminal have gone.
                    pass
            if said and seen.count(b"(Pdb) ") == 3 - len(said):
                os.write(terminal, said.pop())
            ended, code = os.waitpid(pid, os.WNOHANG)
            status = os.waitstatus_to_exitcode(code) if ended else None
            return ended != 0

        try:
            self.assertTrue(eventually(look), seen)
        finally:
            if status is None:
                self.mark.kill()
                os.waitpid(pid, 0)
            while select.select([terminal], [], [], 0)[0]:
                try:
                    seen += os.read(terminal, 4096)
                except OSError:
                    break
            os.close(terminal)
        self.assertEqual(status, 0, seen)
        return seen.decode().replace("\r\n", "\n")

    def test_a_debugger_asks_and_is_answered(self):
        for flags in ([], ["--preload=json"]):
            with self.subTest(flags):
                seen = self.debug(*flags)  # python -u writes a line's end by itself: another's words may come before.
                self.assertIn("rank 1 terminals [True, True, True]", seen)
                self.assertIn("rank 0 terminals [False, True, True]", seen)
                self.assertIn("rank 1 has 54", seen)
                self.assertIn("rank 0 has 42", seen)

    def test_where_there_is_no_terminal(self):
        run = self.run_ddprun(TWO, "--attach-rank=1", FAKE_WORKER, expect=2)
        self.assertRegex(run.err(), r"\A[^\n]*ddprun has none[^\n]*\n\Z")


class GloosInterface(DdprunTest):
    def on_two_nodes(self, endpoint, network=None, extra=None):
        paths = [self.path(f"env.{len(os.listdir(self.directory))}.{i}") for i in range(2)]
        self.all_end([self.start(
            "--nnodes=2", f"--node-rank={i}", f"--rdzv-endpoint={endpoint}", "--rdzv-id=two", "--nproc-per-node=gpu",
            f"--gpus={'2' if i else '0,1'}", FAKE_WORKER, "--on-local-rank=0", f"--env-file={paths[i]}",
            machine=network and (network, i), environment={
                "DDPRUN_TOKEN": "0123456789abcdef0123456789abcdef", "CUDA_VISIBLE_DEVICES": "0,1,2,3", **(extra or {})})
            for i in range(2)])
        environments = [self.environment_of(path) for path in paths]
        self.assertEqual([e["WORLD_SIZE"] for e in environments], ["3", "3"])  # Two GPUs here, one there.
        return [e.get("GLOO_SOCKET_IFNAME") for e in environments]

    @unittest.skipUnless(namespaces_work(), "no network namespaces without root")
    def test_is_that_of_the_route(self):
        network = BridgeNetwork(2)
        self.addCleanup(network.close)
        endpoint = network.address(0) + ":29400"
        self.assertEqual(self.on_two_nodes(endpoint, network), ["eth0", "eth0"])
        self.assertEqual(self.on_two_nodes(endpoint, network, {"GLOO_SOCKET_IFNAME": "mine"}), ["mine", "mine"])

    def test_is_not_reported_on_loopback_or_of_one_node(self):
        self.assertEqual(self.on_two_nodes(self.free_endpoint()), [None, None])
        path = self.path("one")
        self.run_ddprun(FAKE_WORKER, f"--env-file={path}")
        self.assertIsNone(re.search("^GLOO_SOCKET_IFNAME=", read_text(path), re.M))
