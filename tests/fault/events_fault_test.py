"""A run's events outlive the server that numbered them: in one file where nodes share a directory,
and with the nodes, who tell the next server."""

import json
import os
import signal
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))

from ddprun_runs import read_text, run_in_report  # noqa: E402
from machines import MachinesTest  # noqa: E402


def marks(events):
    return [(event["term"], event["number"]) for event in events]


class Events(MachinesTest):
    run_flags = ["--max-restarts=3"]

    def kill_worker(self, node, generation):
        os.kill(node.workers(generation)[min(node.workers(generation))], signal.SIGKILL)
        return self.world(len(self.nodes), after=generation)

    def kill_server(self, generation):
        server = next(n for n in self.nodes if n in self.servers())
        os.kill(server.agent(), signal.SIGKILL)
        self.assertEqual(server.wait(), 137, server.all())
        self.nodes.remove(server)
        self.lost.append(server)
        return self.world(len(self.nodes), after=generation)

    def status_events(self, node):
        asked = self.launch(node.machine, "status", f"--rdzv-id={self.run_id}", "--output=json")
        return json.loads(asked.out())["runs"][0]["events"] if asked.wait() == 0 else []


class InARunDirectory(Events):
    def setUp(self):
        super().setUp()
        self.shared = self.path("shared")
        self.flags = [f"--run-dir={self.shared}", *self.run_flags]

    def test_one_file_whoever_serves(self):
        first = self.start_nodes(2, "1:2")
        second = self.kill_worker(self.nodes[1], first)
        # A worker that tells no step has recovered for sure when the next stop begins.
        third = self.kill_worker(self.nodes[1], second)
        self.kill_server(third)
        self.end()
        lines = read_text(os.path.join(self.shared, "events.jsonl")).splitlines()
        events = [json.loads(line) for line in lines]
        self.assertEqual({event["run_id"] for event in events}, {self.run_id})
        self.assertEqual(len(set(marks(events))), len(events), lines)
        self.assertEqual(marks(events), sorted(marks(events)))
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

    # It asks the nodes: what it tells is not read from the directory.
    def test_the_next_server_knows_what_was(self):
        first = self.start_nodes(3, "1:3")
        second = self.kill_worker(self.nodes[0], first)
        (server,) = self.servers()
        before = self.wait_for(
            lambda: (found := self.status_events(server)) and found[-1]["kind"] == "formed" and
            found[-1]["generation"] == second and found, *self.nodes)
        # A poll after it is with the nodes: another world's words show that they were heard since.
        third = self.kill_worker(self.nodes[0], second)
        self.kill_server(third)
        after = self.wait_for(lambda: self.status_events(self.nodes[0]), *self.nodes)
        known = set(marks(after))
        self.assertTrue(set(marks(before)) <= known, (before, after))
        self.assertGreater(max(known)[0], max(marks(before))[0])
        self.end()


if __name__ == "__main__":
    unittest.main(verbosity=2)
