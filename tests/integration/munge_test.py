"""The token that MUNGE seals for the nodes of a Slurm job: who gets it, and who does not.

On machines of their own (network namespaces, so as root), since on loopback nodes share another one.
MUNGE is a made-up one; tests/slurm has the real one.
"""

import os
import signal
import unittest

from bridge_network import BridgeNetwork
from ddprun_runs import DDPRUN, FAKE_WORKER, HELLO, DdprunTest, read_text
from networks import namespaces_work

FAKE_MUNGE = os.environ.get("FAKE_MUNGE", "")
ANOTHER_USER = "4711"


@unittest.skipUnless(namespaces_work(), "no network namespaces without root")
class MungeTest(DdprunTest):
    machines = 2

    def setUp(self):
        super().setUp()
        self.network = BridgeNetwork(self.machines)
        self.addCleanup(self.network.close)
        self.endpoint = f"{self.network.address(0)}:29400"
        os.mkdir(self.path("munge"), 0o700)
        for machine in range(1, self.machines):
            os.mkdir(self.path(f"elsewhere{machine}"), 0o700)
        self.environment.update(LD_LIBRARY_PATH=FAKE_MUNGE, DDPRUN_MUNGE_SOCKET=self.path("munge"),
                                SLURM_JOB_ID="7")

    def on(self, machine, *arguments, environment=None, program=DDPRUN):
        named = f'echo host{machine} > /proc/sys/kernel/hostname && exec "$0" "$@"'
        # As another machine has it: nothing is found by files.
        mine = {"XDG_RUNTIME_DIR": self.path("run" if machine == 0 else f"elsewhere{machine}")}
        return self.start("--uts", "sh", "-c", named, program, *arguments, executable="unshare",
                          machine=(self.network, machine), environment={**mine, **(environment or {})})

    def node(self, rank, *flags, machine=None, worker=(), environment=None):
        return self.on(rank if machine is None else machine, "--nnodes=2", f"--node-rank={rank}",
                       f"--rdzv-id={self.run_id}", f"--rdzv-endpoint={self.endpoint}", *flags,
                       FAKE_WORKER, HELLO, *worker, environment=environment)

    def status(self):
        looks = self.on(1, "status", f"--endpoint={self.endpoint}")
        looks.wait()
        return looks.out()

    def end(self, *nodes):
        self.all_end(nodes)


class Munge(MungeTest):
    def token(self):
        """Of the one that was sealed and asked for."""
        for name in os.listdir(self.path("munge")):
            text = read_text(self.path("munge", name))
            if name + ".seen" in os.listdir(self.path("munge")):
                return text.split("\n")[2]
        return self.fail("nothing was sealed")

    def test_the_nodes_of_one_user_share_one(self):
        env = self.path("env.%r")
        first = self.node(0, worker=(f"--env-file={env}",))
        self.wait_for_text(first, "serving the rendezvous")
        for flags, environment in (((), {"FAKE_MUNGE_USER": ANOTHER_USER}), (("--insecure",), {}),
                                   ((), {"DDPRUN_MUNGE_SOCKET": self.path("nowhere")})):
            without_token = self.node(1, *flags, environment=environment)
            self.assertEqual(without_token.wait(), 2, without_token.all())
            self.assertIn("wants a token", without_token.err())
            if not flags:
                self.assertRegex(without_token.err(), "MUNGE cannot open the sealed token: (Una|Failed)")
        looks = self.on(1, "status", f"--endpoint={self.endpoint}")
        self.assertEqual(looks.wait(), 0, looks.all())
        self.assertIn(self.run_id, looks.out())
        second = self.node(1, worker=(f"--env-file={env}",))
        self.end(first, second)
        for rank in range(2):
            self.assertNotIn(self.token(), str(self.environment_of(self.path(f"env.{rank}"))))
        self.assertNotIn(self.token(), first.all() + second.all())
        self.assertNotIn("can join this run", first.err())

    # Outside of the job as well: each process that has the site's MUNGE, and is of that user.
    def test_whoever_is_refused_asks(self):
        first = self.node(0)
        self.wait_for_text(first, "serving the rendezvous")
        self.end(first, self.node(1, environment={"SLURM_JOB_ID": ""}))

    def test_a_server_without_a_token_is_not_joined(self):
        server = self.on(0, "rendezvous", f"--listen={self.endpoint}", environment={"SLURM_JOB_ID": ""})
        self.wait_for_text(server, "serving at")
        self.assertIn("can join this run", server.err())
        node = self.node(1)
        self.assertEqual(node.wait(), 2, node.all())
        self.assertIn("does not speak TLS, so it cannot prove that it has the same token", node.err())
        self.assertIn("--insecure", node.err())
        self.terminate(server)

    # The next one draws another token.
    def test_a_server_that_is_started_again_is_found(self):
        server = self.on(0, "rendezvous", f"--listen={self.endpoint}")
        self.wait_for_text(server, "serving at")
        nodes = [self.node(rank, machine=1, worker=(f"--wait-file={self.go}",)) for rank in range(2)]
        for node in nodes:
            self.wait_for_workers(node, 1)
        server.signal(signal.SIGKILL)
        server.wait()
        again = self.on(0, "rendezvous", f"--listen={self.endpoint}")
        self.wait_for_text(again, "serving at")
        self.wait_for(lambda: "RUNNING" in self.status(), again, *nodes, what="their run")
        open(self.go, "w").close()
        self.end(*nodes)
        self.assertEqual([node.generations() for node in nodes], [nodes[0].generations()] * 2)
        self.terminate(again)

    def test_where_it_is_missing_that_is_said_once(self):
        open(self.path("munge", "fail"), "w").close()
        nodes = [self.node(rank) for rank in range(2)]
        self.end(*nodes)
        said = [line for line in nodes[0].err().splitlines() if "fake trouble" in line]
        self.assertEqual(len(said), 1, said)
        self.assertIn("can join this run", said[0])
        self.assertNotIn("fake trouble", nodes[1].err())

    # It holds up one node, and stops none.
    def test_a_node_whose_daemon_hangs_joins_later(self):
        hang = self.path("hang")
        first = self.on(0, "rendezvous", f"--listen={self.endpoint}")
        self.wait_for_text(first, "serving at")
        open(hang, "w").close()
        # Outside of a job it asks only when it was refused.
        node = self.node(1, "-v", "--nnodes=1:2", worker=(f"--wait-file={self.go}",),
                         environment={"FAKE_MUNGE_HANG": hang, "SLURM_JOB_ID": ""})
        self.wait_for_text(node, "MUNGE does not answer within 10.0 s")
        os.remove(hang)
        open(self.go, "w").close()
        self.end(node)
        self.terminate(first)

    def test_a_token_of_the_users_own_counts_more(self):
        token = {"DDPRUN_TOKEN": "0123456789abcdef"}
        self.end(*[self.node(rank, environment=token) for rank in range(2)])
        self.assertEqual(os.listdir(self.path("munge")), [])
