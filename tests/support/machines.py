"""Machines of which one hosts the server, for tests that lose it.

With root every machine is a network namespace on one bridge, so a lost host is silent; elsewhere all
are on loopback, and what is lost refuses connections.
"""


from bridge_network import BridgeNetwork
from ddprun_runs import FAKE_WORKER, HELLO, DdprunTest, lease
from networks import namespaces_work

LIMIT = 5 * lease("kLongLease") + 25  # Seconds for a takeover: five leases and a second, and the machine is shared.


class MachinesTest(DdprunTest):
    machines = 3

    def setUp(self):
        super().setUp()
        self.nodes = []
        self.lost = []
        self.network = None
        if namespaces_work():
            self.network = BridgeNetwork(self.machines)
            self.addCleanup(self.network.close)
            self.endpoint = f"{self.network.address(0)}:29400"
        self.flags = []  # Of every node, beside the usual ones.
        self.access = lambda i: ()  # Of the node of machine i: token, certificate.
        self.run_directory_stays = True  # A killed agent cannot remove its own.

    def launch(self, i, *arguments):
        return self.start(*arguments, machine=self.network and (self.network, i))

    def start_node(self, i, *flags, nnodes, program=None):
        node = self.launch(i, f"--nnodes={nnodes}", f"--rdzv-id={self.run_id}", "-v",
                           f"--rdzv-endpoint={self.endpoint}", *self.flags, *self.access(i),
                           "--rdzv-conf=last_call_timeout=0.2", *flags,
                           *(program or [FAKE_WORKER, HELLO, f"--wait-file={self.go}"]))
        node.machine = i
        self.nodes.append(node)
        return node

    def start_nodes(self, count, nnodes):
        first = self.start_node(0, nnodes=nnodes)
        self.wait_for_text(first, "serving the rendezvous at")
        for i in range(1, count):
            self.wait_for_text(self.start_node(i, nnodes=nnodes), "joining the rendezvous at")
        return self.world(count)

    def all(self):
        return "\n".join(run.all() for run in [*self.lost, *self.nodes])

    def world(self, size, after=0, limit=LIMIT):
        return self.wait_for_world(self.nodes, size, after, limit, others=self.lost)

    def lose_host(self, node):
        """All its processes, and its network, at once."""
        if self.network:
            self.network.cut(node.machine)
        node.kill_at_once(*node.workers().values())
        self.nodes.remove(node)
        self.lost.append(node)

    def servers(self):
        return [n for n in self.nodes if "serving the rendezvous at" in n.err()]

    def end(self):
        open(self.go, "w").close()
        self.all_end(self.nodes)

    def host_is_lost(self, count):
        first = self.start_nodes(count, f"1:{count}")
        self.lose_host(self.nodes[0])
        second = self.world(count - 1, after=first)
        self.assertEqual(len(self.servers()), 1, self.all())
        return second
