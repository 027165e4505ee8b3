"""The token that nodes share unasked: which nodes it admits, and that other users learn nothing."""

import fcntl
import os
import re

from ddprun_runs import FAKE_WORKER, DdprunTest, read_text


class RunToken(DdprunTest):
    def setUp(self):
        super().setUp()
        os.mkdir(self.path("elsewhere"), 0o700)
        self.elsewhere = {"XDG_RUNTIME_DIR": self.path("elsewhere")}  # As another user has it.

    def start_node(self, rank, *flags, worker=(), endpoint="", environment=None):
        return self.start("--nnodes=2", f"--node-rank={rank}", f"--rdzv-id={self.run_id}",
                          f"--rdzv-endpoint={endpoint or self.endpoint}", *flags, FAKE_WORKER, *worker,
                          environment=environment)

    def end(self, *nodes):
        self.all_end(nodes)
        self.assertEqual(self.mark.living(), [])

    def shared(self):
        """The token of this user's nodes on loopback, which no other user can read."""
        path = self.path("run", "ddprun", "token")
        self.assertEqual(os.stat(path).st_mode & 0o777, 0o600)
        token = read_text(path).strip()
        self.assertEqual(len(token), 64)
        return token

    def test_locks_of_runs_long_gone_do_not_pile_up(self):
        folder = self.path("run", "ddprun")
        os.makedirs(folder, 0o700)
        for name in ("slot-11-0", "slot-22-0", "slot-33-0", "other"):
            with open(os.path.join(folder, name), "wb"):
                pass
            if name != "slot-33-0":
                os.utime(os.path.join(folder, name), (0, 0))
        with open(os.path.join(folder, "slot-22-0"), "rb") as held:
            fcntl.flock(held, fcntl.LOCK_EX)
            for _ in range(2):
                self.run_ddprun("--nnodes=1:2", f"--rdzv-id={self.run_id}", f"--rdzv-endpoint={self.endpoint}",
                                "--rdzv-conf=last_call_timeout=0", FAKE_WORKER)
        left = set(os.listdir(folder))
        self.assertLessEqual({"slot-22-0", "slot-33-0", "other"}, left)
        self.assertEqual(len([name for name in left if name.startswith("slot-")]), 3, left)

    def test_one_users_nodes_on_one_machine_have_one(self):
        first = self.start_node(0, worker=(f"--env-file={self.path('env.%r')}",))
        self.wait_for_text(first, "serving the rendezvous")
        token = self.shared()
        for flags, why in (((), "does not prove that it has the same token"),
                           (("--insecure",), "the server wants a token")):
            without_token = self.start_node(1, *flags, environment=self.elsewhere)
            self.assertEqual(without_token.wait(), 2, without_token.all())
            self.assertIn(why, without_token.err())
            self.assertIn("--token-file=FILE or DDPRUN_TOKEN", without_token.err())
        second = self.start_node(1, worker=(f"--env-file={self.path('env.%r')}",))
        self.end(first, second)
        self.assertEqual(self.shared(), token, "it stays")
        for rank in range(2):
            self.assertNotIn(token, str(self.environment_of(self.path(f"env.{rank}"))))
        self.assertNotIn(token, first.all() + second.all())

    # A node that names it differently would be the same node twice.
    def test_each_node_has_a_name_of_its_own_whatever_it_is_called(self):
        server = self.start("rendezvous", "--listen=127.0.0.1:0")
        self.wait_for_text(server, "serving at")
        port = re.search(r"serving at 127.0.0.1:(\d+)", server.err())[1]
        nodes = [self.start("--nnodes=2", f"--rdzv-id={self.run_id}", f"--rdzv-endpoint={host}:{port}", FAKE_WORKER)
                 for host in ("localhost", "127.0.0.1")]
        self.all_end(nodes)
        names = sorted(re.match(r"ddprun \S+#(\d)", node.err())[1] for node in nodes)
        self.assertEqual(names, ["0", "1"])
        self.terminate(server)

    def test_a_run_without_one_says_so_on_every_node(self):
        first = self.start_node(0, "--insecure")
        self.wait_for_text(first, "serving the rendezvous")
        careful = self.start_node(1)
        self.assertEqual(careful.wait(), 2, careful.all())
        self.assertIn("does not prove that it has the same token", careful.err())
        self.end(first, self.start_node(1, "--insecure", environment=self.elsewhere))

    def test_a_server_alone_on_loopback_has_the_same(self):
        server = self.start("rendezvous", f"--listen={self.endpoint}")
        self.wait_for_text(server, "serving at")
        without_token = self.ask("status", f"--endpoint={self.endpoint}", environment=self.elsewhere, expect=2)
        self.assertIn("the server wants a token", without_token.err())
        first = self.start_node(0)
        self.wait_for_text(first, "waiting for nodes: 1 of 2")
        self.run_verb("status", self.run_id)
        self.run_verb("stop", "stops")
        self.assertEqual(first.wait(), 130, first.all())
        self.terminate(server)

    def run_verb(self, verb, says):
        run = self.ask(verb, f"--endpoint={self.endpoint}", f"--rdzv-id={self.run_id}")
        self.assertIn(says, run.out())

    def test_a_run_directory_brings_one(self):
        directory = f"--run-dir={self.path('shared')}"
        first = self.start_node(0, directory)
        self.wait_for_text(first, "serving the rendezvous")
        path = self.path("shared", "token")
        self.assertEqual(os.stat(path).st_mode & 0o777, 0o600)
        token = read_text(path)
        without_token = self.ask("status", f"--endpoint={self.endpoint}", environment=self.elsewhere, expect=2)
        self.assertIn("the server wants a token", without_token.err())
        # Another machine's node has the directory, and nothing else.
        self.end(first, self.start_node(1, directory, environment=self.elsewhere))
        self.assertEqual(read_text(path), token)

    def test_a_directory_that_others_can_write_to_is_passed_over(self):
        """A user who makes it first can neither choose the token nor keep this user's nodes from
        meeting."""
        os.chmod(self.path("run"), 0o755)
        os.mkdir(self.path("run", "ddprun"))
        os.chmod(self.path("run", "ddprun"), 0o777)
        self.end(self.start_node(0), self.start_node(1))
        self.assertEqual(os.listdir(self.path("run", "ddprun")), [])
