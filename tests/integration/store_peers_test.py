"""The clients that reach the store of a run without configured addresses: its own nodes.

On machines of their own (network namespaces, so as root).
"""

import re
import subprocess
import sys
import unittest

from bridge_network import BridgeNetwork
from ddprun_runs import FAKE_WORKER, HELLO, DdprunTest
from networks import namespaces_work

# VALIDATE and PING from an address; prints whether it was answered.
CLIENT = """
import socket, struct, sys
store = socket.create_connection((sys.argv[1], int(sys.argv[2])), source_address=(sys.argv[3], 0))
try:
    store.sendall(b"\\0" + struct.pack("<I", 0x3C85F7CE) + b"\\15" + struct.pack("<I", 7))
    answer = store.recv(4)
except ConnectionError:
    answer = b""
print("in" if answer else "out")
"""
# A worker that tries as torch's client does, but for its pauses.
RETRIES = """
import os, select, socket, struct, sys
place = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
hello = b"\\0" + struct.pack("<I", 0x3C85F7CE) + b"\\15" + struct.pack("<I", os.getpid())
while True:
    try:
        store = socket.create_connection(place)
        store.sendall(hello)
        if store.recv(4):
            break
    except OSError:
        pass
    select.select([], [], [], 0.1)
while os.environ["RANK"] == "0" and not os.path.exists(sys.argv[1]):
    select.select([], [], [], 0.05)
open(sys.argv[1], "w").close()
"""
HIDDEN = "10.98.0.88"  # Where the second machine's connections to the first one come from.
SECOND = "10.98.0.77"  # The other address of the second machine.


@unittest.skipUnless(namespaces_work(), "no network namespaces without root")
class Peers(DdprunTest):
    def setUp(self):
        super().setUp()
        self.network = BridgeNetwork(4)
        self.addCleanup(self.network.close)
        self.network.machines[1].run("ip", "address", "add", SECOND + "/24", "dev", "eth0")

    def node(self, machine, *flags, nnodes="2"):
        if ":" not in nnodes:
            flags = (*flags, f"--node-rank={machine}")
        return self.start(f"--nnodes={nnodes}", f"--rdzv-id={self.run_id}", "--insecure",
                          f"--rdzv-endpoint={self.network.address(0)}:29400", *flags,
                          FAKE_WORKER, HELLO, f"--wait-file={self.go}", machine=(self.network, machine))

    def ask(self, store, machine, source=""):
        host, port = store.rsplit(":", 1)
        command = [sys.executable, "-c", CLIENT, host, port, source or self.network.address(machine)]
        return subprocess.run(self.network.on_machine(machine, command), check=True, timeout=30,
                              capture_output=True, text=True).stdout.strip()

    def end(self, *nodes):
        open(self.go, "w").close()
        self.all_end(nodes)

    def store_of(self, nodes, generation=1):
        for node in nodes:
            self.wait_for_workers(node, 1, generation)
        started = rf"\(generation {generation}, store (\S+)\)\n"
        self.wait_for_text(nodes[0], started)
        return re.search(started, nodes[0].err())[1]

    def test_the_worlds_nodes_and_no_others(self):
        nodes = [self.node(0), self.node(1)]
        store = self.store_of(nodes)
        self.assertEqual([self.ask(store, i) for i in range(3)], ["in", "in", "out"])
        self.assertEqual(self.ask(store, 1, SECOND), "in")
        self.assertRegex(nodes[0].err(), rf"closed the connection of {self.network.address(2)}.*: its address "
                                         "belongs to no node of this world, and --store-allow does not name it")
        self.end(*nodes)

    # Each generation has its own store, and its own nodes.
    def test_a_node_that_joins_later_is_admitted_then(self):
        nodes = [self.node(0, nnodes="1:3", *["--rdzv-conf=last_call_timeout=0.2"])]
        store = self.store_of(nodes)
        self.assertEqual(self.ask(store, 1), "out")
        nodes.append(self.node(1, nnodes="1:3"))
        generation = self.wait_for(lambda: max(nodes[0].generations()) > 1 and max(nodes[0].generations()),
                                   *nodes)
        store = self.store_of(nodes, generation)
        self.assertEqual([self.ask(store, i) for i in (1, 2)], ["in", "out"])
        self.end(*nodes)

    def hide_the_second(self):
        """An address that no interface has: as a NAT does it on the way to the first machine alone."""
        machine = self.network.machines[1]
        machine.run("ip", "route", "add", "local", HIDDEN, "dev", "lo", "table", "local")
        machine.run("ip", "route", "add", self.network.address(0) + "/32", "dev", "eth0", "src", HIDDEN)
        self.endpoint = self.network.address(2) + ":29400"
        rendezvous = self.start("rendezvous", f"--listen={self.endpoint}", "--insecure", machine=(self.network, 2))
        self.wait_for_text(rendezvous, "serving at")
        self.assertIn(f"--insecure is set: anyone who can reach {self.endpoint} can join this run [no-token]", rendezvous.err())

    def behind_a_nat(self, *flags):
        nodes = []
        for i in range(2):
            nodes.append(self.start(
                "--nnodes=2", f"--rdzv-id={self.run_id}", "--insecure", f"--rdzv-endpoint={self.endpoint}", *flags,
                sys.executable, "-c", RETRIES, self.go, machine=(self.network, i)))
            self.wait_for_text(nodes[i], "waiting for nodes" if i == 0 else "started rank")
        return nodes

    # torch's clients would try for half an hour, and say nothing of why.
    def test_a_node_whose_workers_are_refused_ends_the_run_with_the_flag_to_set(self):
        self.hide_the_second()
        for flags, times in (((), 1), (("--max-restarts=2",), 3)):
            with self.subTest(flags):
                nodes = self.behind_a_nat(*flags)
                for node in nodes:
                    self.assertEqual(node.wait(30), 1, "\n".join(n.all() for n in nodes))
                    self.assertRegex(node.err(), "the run failed: .* refuses this node's workers: its address belongs "
                                                 f"to no node of this world.*Set --store-allow={HIDDEN} on every node")
                self.assertEqual(nodes[1].err().count("stopping the workers: the workers' store"), times)
                self.run_id += "again"
        nodes = self.behind_a_nat(f"--store-allow={HIDDEN}")
        self.all_end(nodes)

    def test_a_refused_client_ends_no_run_however_often_it_connects(self):
        nodes = [self.node(0), self.node(1)]
        store = self.store_of(nodes)
        self.assertEqual({self.ask(store, 2) for _ in range(12)}, {"out"})
        self.end(*nodes)
