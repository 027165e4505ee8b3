"""ddprun logs, stacks and orders where the run has several nodes, and its server an end."""

import json
import os
import re
import signal

from ddprun_asks import Asks
from ddprun_runs import FAKE_WORKER, HELLO


class Nodes(Asks):
    def start_node(self, rank, *actions, flags=(), environment=None):
        return self.start("--nnodes=2", f"--node-rank={rank}", "--nproc-per-node=2", f"--rdzv-id={self.run_id}",
                          f"--rdzv-endpoint={self.endpoint}", *flags, FAKE_WORKER, HELLO,
                          *(actions or ("--print=rank %r", "--hang")), environment=environment)

    def two(self, *actions, **more):
        nodes = [self.start_node(rank, *actions, **more) for rank in (0, 1)]
        for node in nodes:
            self.wait_for_workers(node, 2)
        return nodes

    def all_told(self, *arguments):
        return {text for text in self.texts(*arguments) if text.startswith("rank")} == {f"rank {r}" for r in range(4)}

    def test_all_nodes_answer_through_the_one_port(self):
        self.two()
        self.wait_for(self.all_told)
        self.assertEqual({line["node"] for line in self.lines("--rank=2,3")}, {self.lines("--rank=2")[0]["node"]})
        node = self.lines("--rank=2")[0]["node"]
        self.assertEqual({line["rank"] for line in self.lines(f"--node={node}")}, {2, 3})
        told = json.loads(self.ask("stacks", "-o", "json").out())
        self.assertEqual(sorted(rank for group in told["groups"] for rank in group["ranks"]), [0, 1, 2, 3])
        # From elsewhere: the endpoint alone.
        away = {"XDG_RUNTIME_DIR": self.path("elsewhere")}
        os.makedirs(away["XDG_RUNTIME_DIR"], mode=0o700)
        refused = self.ask("logs", f"--endpoint={self.endpoint}", expect=2, environment=away)
        self.assertIn("token", refused.err())

    # Its agent stands still: it is named, and the others' lines are shown.
    def test_a_node_that_never_answers(self):
        nodes = self.two()
        self.wait_for(self.all_told)
        os.kill(nodes[1].agent(), signal.SIGSTOP)
        self.addCleanup(os.kill, nodes[1].agent(), signal.SIGCONT)
        asked = self.ask("logs", "-o", "json", expect=1, limit=60)
        told = {json.loads(line)["rank"] for line in asked.out().splitlines()}
        self.assertTrue({0, 1} <= told, asked.all())
        self.assertRegex(asked.err(), "node .* (has not answered within 15|is cut off)")

    # One that another node has found again continues, without a line twice.
    def test_a_follower_hears_the_next_server_too(self):
        self.run_directory_stays = True
        shared = self.path("shared")
        os.mkdir(shared)
        flags = ("--nnodes=1:3", "--nproc-per-node=1", f"--rdzv-id={self.run_id}", f"--run-dir={shared}",
                 f"--rdzv-endpoint={self.endpoint}", "--rdzv-conf=last_call_timeout=1", "--prefix=rank")
        nodes = [self.start(*flags, FAKE_WORKER, HELLO, "--print=start %r", f"--wait-file={self.go}", "--print=went on",
                            "--hang") for _ in range(3)]
        for node in nodes:
            self.wait_for_workers(node, 1)
        follower = self.start("logs", "-f", f"--run-dir={shared}")
        self.wait_for(lambda: follower.out().count("start ") >= 3, follower)
        served = next(node for node in nodes if "serving the rendezvous" in node.err())
        os.kill(served.agent(), signal.SIGKILL)
        open(self.go, "w").close()
        self.wait_for(lambda: follower.out().count("went on") >= 2, follower, *nodes, limit=60)
        told = re.findall(r"\[r\d \S+\] worker .*", follower.out())
        self.assertEqual(len(set(told)), len(told), follower.out())
