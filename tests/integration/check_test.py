"""`ddprun check`: one machine by itself, and nodes on networks of their own, of which one is slow."""

import json
import os
import signal
import unittest

from bridge_network import BridgeNetwork
from ddprun_runs import DdprunTest, read_text
from networks import namespaces_work

DRIVER = os.environ.get("FAKE_NVML_LIBRARY", "")
NODES = 4
FAST, SLOW = "80mbit", "8mbit"  # Well below what this machine does: its own load is no limit.
SHAPE = ("burst", "64kb", "latency", "50ms")


class Machine(DdprunTest):
    def machine(self, i, gpus="count 2"):
        root = self.path("host", str(i))
        self.write(os.path.join(root, "dev", "nvidiactl"), "")
        self.write(os.path.join(root, "gpus"), gpus + "\n")
        return {"DDPRUN_HOST_ROOT": root, "LD_LIBRARY_PATH": DRIVER, "FAKE_NVML": os.path.join(root, "gpus")}


class OneNode(Machine):
    def check(self, *flags, expect=0, gpus="count 2"):
        return self.ask("check", *flags, environment=self.machine(0, gpus), expect=expect)

    def test_a_machine_that_is_well(self):
        told = self.check("--node-check=test $DDPRUN_CHECK_CAUSE = check").out()
        self.assertRegex(told, r"^NODE +GPUS +NODE CHECK +SPEED +LATENCY +VERDICT\n\S+ +2 of 2 well +passes +- +- +ok\n$")

    def test_a_machine_without_gpus(self):
        run = self.ask("check", environment={"DDPRUN_HOST_ROOT": self.path("nothing")})
        self.assertRegex(run.out(), r"\n\S+ +no driver +- +- +- +ok\n$")

    def test_one_that_is_not(self):
        run = self.check("--node-check=echo no network; false", gpus="count 2\ngpu 1 answer 15", expect=1)
        self.assertRegex(run.out(), r"\n\S+ +1 of 2 well +refuses +- +- +BAD\n")
        self.assertRegex(run.out(), r"\n\S+: gpu1 has fallen off the bus\n")
        self.assertRegex(run.out(), r"\n\S+ is refused by its node check: no network\n")
        self.assertIn("would be refused: GPU 1: has fallen off the bus (host check; leave it out with --gpu-ids)\n", run.out())
        told = json.loads(self.check("-o", "json", gpus="count 1\nxid 0 74", expect=1).out())
        node = told["nodes"][0]
        self.assertEqual((told["well"], told["problems"]), (False, [f"{node['host']}: gpu0 Xid 74"]))
        self.assertEqual((node["verdict"], node["links"]), ("BAD", []))
        self.assertEqual(node["facts"][0], {"name": "gpu0", "value": "Xid 74", "bad": True})

    def test_gpus_that_the_run_leaves_out_are_left_out(self):
        """The report advises this flag, and the check took no notice of it."""
        run = self.check("--gpus=0", gpus="count 2\ngpu 1 answer 15")
        self.assertNotIn("would be refused", run.out())

    def test_a_launch_that_is_killed_leaves_no_file(self):
        """A file left in TMPDIR fails each test here."""
        run = self.start("check", "--nnodes=2", f"--rdzv-endpoint={self.free_endpoint()}", environment=self.machine(0))
        self.wait_for_text(run, "waiting for nodes")
        run.signal(signal.SIGKILL)
        run.wait()

    def test_bad_command_lines(self):
        for flags, why in (((FAKE := "train.py",), f"takes no program: '{FAKE}'"),
                           (("-o", "xml"), "--output must be text or json: 'xml'"),
                           (("--node-chek=true",), "--node-chek"),
                           (("--no-pairs",), "--no-pairs was removed. ")):
            self.assertIn(why, self.check(*flags, expect=2).err())
        self.assertIn("Usage: ddprun check", self.check("--help").out())


@unittest.skipUnless(namespaces_work(), "needs root and network namespaces")
class Nodes(Machine):
    def setUp(self):
        super().setUp()
        self.network = BridgeNetwork(NODES)
        self.addCleanup(self.network.close)
        self.environment["DDPRUN_TOKEN"] = "0123456789abcdef0123"
        for i in range(NODES):
            self.limit(i, FAST)

    # The packets that the switch sends to it, and those that it sends.
    def limit(self, i, rate, verb="add"):
        self.network.switch.run("tc", "qdisc", verb, "dev", f"m{i}", "root", "tbf", "rate", rate, *SHAPE)

    def begin(self, i, *flags, nodes=NODES, gpus="count 2"):
        return self.start("check", f"--nnodes={nodes}", "--rdzv-endpoint=10.98.0.1:29400", f"--node-rank={i}",
                          f"--local-addr={self.network.address(i)}", *flags, machine=(self.network, i),
                          environment=self.machine(i, gpus))

    def check(self, *flags, expect=0, gpus=None, nodes=NODES):
        runs = [self.begin(i, *flags, gpus=(gpus or {}).get(i, "count 2"), nodes=nodes) for i in range(nodes)]
        self.all_end(runs, expect, limit=60)
        self.assertEqual([run.out() for run in runs[1:]], [""] * (nodes - 1))  # The first one tells.
        return runs[0].out()

    def problems(self, **how):
        told = json.loads(self.check("-o", "json", expect=1, **how))
        self.assertFalse(told["well"])
        return told["problems"], [node["verdict"] for node in told["nodes"]]

    def test_a_slow_link_between_two_good_nodes_is_named(self):
        self.network.switch.run("tc", "qdisc", "del", "dev", "m3", "root")
        for words in ("qdisc add dev m3 root handle 1: htb default 10",
                      f"class add dev m3 parent 1: classid 1:10 htb rate {FAST} quantum 60000",
                      f"class add dev m3 parent 1: classid 1:20 htb rate {SLOW} quantum 60000",
                      f"filter add dev m3 parent 1: protocol ip u32 match ip src {self.network.address(1)} flowid 1:20"):
            self.network.switch.run("tc", *words.split())
        found, verdicts = self.problems()
        self.assertEqual(verdicts, ["ok"] * NODES, found)
        for line, way in zip(found, ((1, 3), (3, 1))):  # Packets that come back wait in the same queue.
            self.assertRegex(line, r"^slow link: node %d \(\S+\) -> node %d \(\S+\): \S+ MB/s; the median of all" % way)
        self.assertIn(len(found), (1, 2), found)

    def test_a_node_that_fails_meanwhile_ends_the_check(self):
        note = self.path("worker")
        hangs = f"test $FAKE_NVML != {self.path('host/1/gpus')} || {{ echo $PPID > {note}.part; mv {note}.part {note}; sleep 600; }}"
        runs = [self.begin(i, f"--node-check={hangs}", nodes=2) for i in range(2)]
        self.wait_for(lambda: os.path.exists(note), *runs)
        os.kill(int(read_text(note)), signal.SIGKILL)
        for run in runs:
            self.assertEqual(run.wait(), 137, run.all())
            self.assertIn("the run failed: rank 1 ", run.err())
            self.assertEqual(run.out(), "")
