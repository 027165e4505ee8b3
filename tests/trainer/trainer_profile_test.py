"""The profiler's traces: strict JSON that viewers take, intervals nest, all-reduce overlaps backward."""

import json
import math

from support import TrainerTest

ACTIVE = 3
EPSILON = 0.002  # Microseconds: what rounding to nanoseconds can do.


def strictly(path):
    """JSON without what only Python takes: NaN, or a key twice."""
    def refuse(constant):
        raise AssertionError(f"{path}: {constant} is no JSON")

    def unique(pairs):
        names = [name for name, _ in pairs]
        assert len(set(names)) == len(names), f"{path}: a key twice in {pairs}"
        return dict(pairs)

    with open(path, encoding="utf-8") as file:
        return json.load(file, parse_constant=refuse, object_pairs_hook=unique)


def ends(event):
    return event["ts"] + event["dur"]


class ProfileTest(TrainerTest):
    def traces(self, ranks):
        found = []
        for rank in range(ranks):
            trace = strictly(self.path(f"prof/trace-generation-1-rank-{rank}.json"))
            self.assertIn(trace["displayTimeUnit"], ("ms", "ns"))
            events = trace["traceEvents"]
            self.assert_events(events, rank)
            found.append([event for event in events if event["ph"] == "X"])
        return found

    def assert_events(self, events, rank):
        """The requirements of the trace event format on complete events and on metadata, and no
        other kind."""
        rows, named = set(), set()
        for event in events:
            self.assertEqual((event["pid"], type(event["tid"])), (rank, int), event)
            self.assertIs(type(event["name"]), str)
            self.assertTrue(event["name"], event)
            if event["ph"] == "M":
                self.assertIn(event["name"], ("process_name", "thread_name"))
                self.assertIs(type(event["args"]["name"]), str)
                named |= {event["tid"]} if event["name"] == "thread_name" else set()
                continue
            self.assertEqual(event["ph"], "X", event)
            self.assertIn(event["cat"], ("operator", "range", "communication"))
            for key in ("ts", "dur"):
                self.assertIn(type(event[key]), (int, float), event)
                self.assertTrue(math.isfinite(event[key]) and event[key] >= 0, event)
            rows.add(event["tid"])
        self.assertEqual(rows, named, "every row has a name")
        self.assertTrue(any(e["ph"] == "M" and e["name"] == "process_name" for e in events))
        self.assertLess(max(e["ts"] + e["dur"] for e in events if e["ph"] == "X"), 600e6)

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


    def overlap(self, events):
        """Of all steps: products that began while an all-reduce was under way, and all-reduces that
        ended before the last product began."""
        beside = hidden = 0
        backwards = [e for e in events if e["name"] == "backward"]
        self.assertEqual(len(backwards), ACTIVE)
        for backward in backwards:
            inside = [e for e in events if backward["ts"] <= e["ts"] < ends(backward)]
            travels = [e for e in inside if e["name"] == "shm:all_reduce"]
            begins = [e["ts"] for e in inside if e["name"] == "aten::mm"]
            self.assertGreater(len(travels), 2, "several buckets")
            self.assertTrue(all(t["tid"] != backward["tid"] for t in travels), "a thread of their own")
            beside += sum(t["ts"] < begin < ends(t) for t in travels for begin in begins)
            hidden += sum(ends(t) < max(begins) for t in travels)
        return beside, hidden

    # Buckets beyond the size that is reduced in the training thread (512 KiB): a thread of the
    # backend takes them, and computing continues. Where the machine is busy that thread may get its
    # core too late in every step; one that is waited for never shows it.
    def test_through_shared_memory_backward_computes_while_large_buckets_travel(self):
        for attempt in range(10):
            self.checkpoints = self.path(f"{attempt}.ckpt")
            self.run_world(
                ["--model=transformer", "--model-arg=heads=2,layers=2,ff=1024", "--batch=4",
                 "--data-arg=train=64,test=2,d_model=256,source=4,target=8", "--bucket-mib=1",
                 "--backend=shm", "--epochs=1", "--checkpoint-every=1000",
                 "--profile=" + self.path("prof"), f"--profile-schedule=2,1,{ACTIVE}"], ranks=2)
            traces = self.traces(2)
            for events in traces:
                self.assert_nested(events)
            found = [self.overlap(events) for events in traces]
            print(f"(products beside an all-reduce, all-reduces hidden) of each rank: {found}", flush=True)
            if all(beside and hidden for beside, hidden in found):
                return
        self.fail("no product began while an all-reduce was under way")
