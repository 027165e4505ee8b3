"""The token that MUNGE seals for the nodes of a Slurm job: who gets it, and who does not.

On machines of their own (network namespaces, so as root), since on loopback nodes share another one.
"""

import glob
import os
import shutil
import signal
import subprocess
import unittest

from bridge_network import BridgeNetwork
from ddprun_runs import DDPRUN, FAKE_WORKER, HELLO, DdprunTest, read_text
from networks import namespaces_work

MUNGED = shutil.which("munged", path=os.environ.get("PATH", "") + ":/usr/sbin")
ANOTHER_USER = ("setpriv", "--reuid=65534", "--clear-groups")


@unittest.skipUnless(namespaces_work(), "no network namespaces without root")
@unittest.skipUnless(MUNGED and shutil.which("setpriv"), "MUNGE is not installed (scripts/setup.sh does)")
class Munge(DdprunTest):
    def setUp(self):
        super().setUp()
        self.network = BridgeNetwork(2)
        self.addCleanup(self.network.close)
        self.endpoint = f"{self.network.address(0)}:29400"
        os.chmod(self.directory, 0o755)
        for name, mode in (("munge", 0o755), ("elsewhere1", 0o700), ("theirs", 0o777)):
            os.mkdir(self.path(name))
            os.chmod(self.path(name), mode)
        with open(os.open(self.path("munge", "key"), os.O_WRONLY | os.O_CREAT, 0o600), "wb") as file:
            file.write(os.urandom(32))
        socket = self.path("munge", "socket")
        self.munged = subprocess.Popen(
            [MUNGED, "--foreground", "--force", f"--socket={socket}", f"--key-file={self.path('munge', 'key')}",
             *(f"--{name}-file={self.path('munge', name)}" for name in ("pid", "log", "seed"))],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
        self.addCleanup(self.munged.wait)
        self.addCleanup(self.munged.kill)
        self.wait_for(lambda: os.path.exists(socket), what="munged")
        self.environment.update(DDPRUN_MUNGE_SOCKET=socket, SLURM_JOB_ID="7")

    def on(self, machine, *arguments, environment=None, user=()):
        named = f'echo host{machine} > /proc/sys/kernel/hostname && exec "$@"'
        # As another machine has it: nothing is found by files.
        mine = {"XDG_RUNTIME_DIR": self.path("theirs" if user else "elsewhere1" if machine else "run")}
        return self.start("--uts", "sh", "-c", named, "sh", *user, DDPRUN, *arguments, executable="unshare",
                          machine=(self.network, machine), environment={**mine, **(environment or {})})

    def node(self, rank, *flags, machine=None, worker=(), environment=None, user=()):
        return self.on(rank if machine is None else machine, "--nnodes=2", f"--node-rank={rank}",
                       f"--rdzv-id={self.run_id}", f"--rdzv-endpoint={self.endpoint}", *flags,
                       FAKE_WORKER, HELLO, *worker, environment=environment, user=user)

    def status(self):
        looks = self.on(1, "status", f"--endpoint={self.endpoint}")
        looks.wait()
        return looks.out()

    def test_the_nodes_of_one_user_share_one(self):
        env = self.path("env.%r")
        first = self.node(0, worker=(f"--env-file={env}",))
        self.wait_for_text(first, "serving the rendezvous")
        for flags, how in (((), {"user": ANOTHER_USER}), (("--insecure",), {}),
                           ((), {"environment": {"DDPRUN_MUNGE_SOCKET": self.path("nowhere")}})):
            without_token = self.node(1, *flags, **how)
            self.assertEqual(without_token.wait(), 2, without_token.all())
            self.assertIn("wants a token", without_token.err())
            if not flags:
                self.assertRegex(without_token.err(), "MUNGE cannot open the sealed token: (Una|Failed)")
        looks = self.on(1, "status", f"--endpoint={self.endpoint}")
        self.assertEqual(looks.wait(), 0, looks.all())
        self.assertIn(self.run_id, looks.out())
        [token] = {read_text(path).strip() for path in glob.glob(self.path("run", "**", "token"), recursive=True)}
        # Outside of the job as well: each process that has the site's MUNGE, and is of that user.
        second = self.node(1, worker=(f"--env-file={env}",), environment={"SLURM_JOB_ID": ""})
        self.all_end([first, second])
        for rank in range(2):
            self.assertNotIn(token, str(self.environment_of(self.path(f"env.{rank}"))))
        self.assertNotIn(token, first.all() + second.all())
        self.assertNotIn("can join this run", first.err())

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
        self.all_end(nodes)
        self.assertEqual([node.generations() for node in nodes], [nodes[0].generations()] * 2)
        self.terminate(again)

    def test_where_it_is_missing_that_is_said_once(self):
        self.munged.terminate()
        self.munged.wait()
        nodes = [self.node(rank) for rank in range(2)]
        self.all_end(nodes)
        said = [line for line in nodes[0].err().splitlines() if "MUNGE" in line]
        self.assertEqual(len(said), 1, said)
        self.assertIn("can join this run", said[0])
        self.assertNotIn("MUNGE", nodes[1].err())

    # It holds up one node, and stops none.
    def test_a_node_whose_daemon_hangs_joins_later(self):
        first = self.on(0, "rendezvous", f"--listen={self.endpoint}")
        self.wait_for_text(first, "serving at")
        self.munged.send_signal(signal.SIGSTOP)
        # Outside of a job it asks only when it was refused.
        node = self.node(1, "-v", "--nnodes=1:2", worker=(f"--wait-file={self.go}",), environment={"SLURM_JOB_ID": ""})
        self.wait_for_text(node, "MUNGE does not answer within 10.0 s")
        self.munged.send_signal(signal.SIGCONT)
        open(self.go, "w").close()
        self.all_end([node])
        self.terminate(first)

    def test_a_token_of_the_users_own_counts_more(self):
        self.munged.terminate()
        token = {"DDPRUN_TOKEN": "0123456789abcdef"}
        nodes = [self.node(rank, environment=token) for rank in range(2)]
        self.all_end(nodes)
        self.assertNotIn("MUNGE", nodes[0].err() + nodes[1].err())
