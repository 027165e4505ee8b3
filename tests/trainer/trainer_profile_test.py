"""The profiler's traces: they parse, intervals nest, ranges are named, all-reduce overlaps backward."""

import json
import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from support import TrainerTest  # noqa: E402

ACTIVE = 3
EPSILON = 0.002  # Microseconds: what rounding to nanoseconds can do.


def ends(event):
    return event["ts"] + event["dur"]


class ProfileTest(TrainerTest):
    def traces(self, ranks):
        found = []
        for rank in range(ranks):
            with open(self.path(f"prof/trace-generation-1-rank-{rank}.json")) as file:
                events = json.load(file)["traceEvents"]
            self.assertEqual({event["pid"] for event in events}, {rank})
            found.append([event for event in events if event["ph"] == "X"])
        return found

    def profile(self, ranks, *more):
        return self.run_world(
            ["--epochs=1", "--limit-train=1280", "--profile=" + self.path("prof"),
             f"--profile-schedule=4,1,{ACTIVE}", "--checkpoint-every=1", *more], ranks=ranks)

    def assert_nested(self, events):
        rows = {}
        for event in events:
            rows.setdefault(event["tid"], []).append(event)
        for row in rows.values():
            open_events = []
            for event in sorted(row, key=lambda e: (e["ts"], -e["dur"])):
                while open_events and ends(open_events[-1]) <= event["ts"] + EPSILON:
                    open_events.pop()
                if open_events:
                    self.assertLessEqual(ends(event), ends(open_events[-1]) + EPSILON,
                                         (event, open_events[-1]))
                open_events.append(event)

    def test_one_rank(self):
        (worker,) = self.profile(1)
        (events,) = self.traces(1)
        self.assert_nested(events)
        for name in ("data", "forward", "backward", "optimizer", "checkpoint"):
            count = sum(e["name"] == name and e["cat"] == "range" for e in events)
            self.assertEqual(count, ACTIVE, name)
        text = worker.text("err")
        for words in ("aten::addmm", "self ms", "backward", "memory of a rank: parameters 0.16 MB",
                      "memory of this rank after the last step: resident"):
            self.assertIn(words, text)

    def test_an_all_reduce_begins_while_backward_still_computes(self):
        self.profile(2, "--bucket-mib=0.001", "--backend=gloo")  # A bucket for each layer.
        for events in self.traces(2):
            self.assert_nested(events)
            backwards = sorted((e for e in events if e["name"] == "backward"),
                               key=lambda e: e["ts"])
            self.assertEqual(len(backwards), ACTIVE)
            for backward in backwards:
                inside = [e for e in events if backward["ts"] <= e["ts"] < ends(backward)]
                reduces = [e for e in inside if e["cat"] == "communication"
                           and "all_reduce" in e["name"].replace("allreduce", "all_reduce")]
                self.assertGreater(len(reduces), 1, "several buckets")
                first = min(reduces, key=lambda e: e["ts"])
                self.assertLess(first["ts"], ends(backward))
                # More than that: when the first one is handed over, gradients are still to come.
                # (When its thread then gets a core is the scheduler's.)
                handed = min(e["ts"] for e in inside if e["name"] == "c10d::allreduce_")
                computed = [e for e in inside if e["name"] == "aten::mm" and e["ts"] > handed]
                self.assertTrue(computed, "nothing is left to compute beside the all-reduce")


if __name__ == "__main__":
    unittest.main(verbosity=2)
