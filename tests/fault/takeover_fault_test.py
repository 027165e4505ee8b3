"""The host of the server is lost, and a node with the shared run directory takes over.

The directory is one folder for all machines (tests/support/machines.py).
"""

import json
import os
import re
import signal

from certificates import Certificates
from ddprun_runs import FAKE_WORKER, read_text, run_in_report
from machines import MachinesTest

CLOSED = "this node's server died with its agent: closed its claim"


class Takeover(MachinesTest):
    def setUp(self):
        super().setUp()
        self.shared = self.path("shared")
        self.flags = [f"--run-dir={self.shared}"]

    def claims(self):
        return {int(name[5:]): read_text(os.path.join(self.shared, name))
                for name in os.listdir(self.shared) if name.startswith("term-")}

    # ---- The host dies ----
    def test_three_nodes_with_a_token_and_tls_lose_the_server_host_and_verbs_find_the_next_one(self):
        """The successor proves itself by its own certificate, and asks for the same token."""
        certificates = Certificates(self.path("."))
        certificates.authority("ca")
        for i in range(self.machines):
            host = self.network.address(i) if self.network else self.endpoint.rsplit(":", 1)[0]
            certificates.certificate(f"n{i}", "ca", f"IP:{host},IP:127.0.0.1")
        token = self.private_file("token", "a token of the user's own")
        self.access = lambda i: (*certificates.flags(f"n{i}"), f"--token-file={token}")
        second = self.host_is_lost(3)
        if self.network:
            self.network.heal(0)
        without_token = self.launch(0, "--nnodes=1:3", f"--rdzv-id={self.run_id}", f"--run-dir={self.shared}",
                               f"--rdzv-endpoint={self.endpoint}", *certificates.flags("n0"), FAKE_WORKER)
        self.assertEqual(without_token.wait(), 2, without_token.all() + self.all())
        self.assertIn("token", without_token.err())
        back = self.start_node(0, nnodes="1:3")
        self.world(3, after=second)
        self.assertIn("joining the rendezvous at", back.err())
        self.assertNotIn("serving the rendezvous at", back.err())
        for verb, says in (("status", self.run_id), ("stop", "")):
            asked = self.launch(0, verb, f"--run-dir={self.shared}", *self.access(0))
            self.assertEqual(asked.wait(), 0, asked.all())
            self.assertIn(says, asked.out())
        self.all_end(self.nodes, 130)
        self.assertEqual(sorted(self.claims()), [1, 2])
        self.assertIn("\nclosed 2\n", self.claims()[2])

    # ---- The agent that hosts the server dies, and its host continues ----
    def kill_agent(self, node):
        os.kill(node.agent(), signal.SIGKILL)
        self.assertEqual(node.wait(), 137, node.all())
        self.nodes.remove(node)
        self.lost.append(node)

    def no_lease_was_waited_for(self):
        """By what a node says when it has missed the server for a lease, or waits for the lost one."""
        self.assertNotIn("becomes the leader when", self.all())
        lost = re.search(r"ddprun (\S+) \|", self.lost[0].err()).group(1)
        self.assertNotRegex(self.all(), rf"missing [^;]*{re.escape(lost)}\b")

    def test_the_guard_closes_the_claim_in_the_run_directory(self):
        first = self.start_nodes(3, "1:3")
        old = self.nodes[0]
        self.kill_agent(old)
        second = self.world(2, after=first)
        self.assertIn(CLOSED, old.err(), old.all())
        self.no_lease_was_waited_for()
        self.start_node(old.machine, nnodes="1:3")
        self.world(3, after=second)
        self.end()
        self.assertIn("\nclosed 1\n", read_text(os.path.join(self.shared, "term-1")))

    def kill_worker(self, node, generation):
        os.kill(node.workers(generation)[min(node.workers(generation))], signal.SIGKILL)
        return self.world(len(self.nodes), after=generation)

    def test_events_are_in_one_file_whoever_serves(self):
        self.flags.append("--max-restarts=3")
        first = self.start_nodes(2, "1:2")
        second = self.kill_worker(self.nodes[1], first)
        # A worker that tells no step has recovered for sure when the next stop begins.
        third = self.kill_worker(self.nodes[1], second)
        self.kill_agent(self.servers()[0])
        self.world(1, after=third)
        self.end()
        lines = read_text(os.path.join(self.shared, "events.jsonl")).splitlines()
        events = [json.loads(line) for line in lines]
        self.assertEqual({event["run_id"] for event in events}, {self.run_id})
        marks = [(event["term"], event["number"]) for event in events]
        self.assertEqual(len(set(marks)), len(events), lines)
        self.assertEqual(marks, sorted(marks))
        first, last = sorted({event["term"] for event in events})
        self.assertIn("restarting", [e["kind"] for e in events if e["term"] == first])
        restarts = [e for e in events if e["kind"] == "restarting"]
        self.assertEqual([e["cause"] for e in restarts], ["worker"] * 2)
        self.assertIn("was killed by signal 9", restarts[0]["text"])
        # On a busy machine the first node may have begun alone; then the second one's coming is a recovery too.
        recovered = next(e for e in events if e["kind"] == "recovered" and e["cause"] == "worker")
        self.assertEqual(recovered["term"], first)
        self.assertNotIn("lost_seconds", recovered)  # Its workers tell no step.
        self.assertEqual((events[-1]["kind"], events[-1]["term"]), ("ended", last))
        # So is what it looked like: by who served last.
        state = run_in_report(os.path.join(self.shared, "report.html"))
        self.assertEqual((state["run_id"], state["term"]), (self.run_id, last))
        self.assertNotEqual(state["outcome"], "")
