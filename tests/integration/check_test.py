"""`ddprun check`: one machine by itself, and nodes on networks of their own, of which one is slow."""

import json
import os
import re
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))

from bridge_network import BridgeNetwork  # noqa: E402
from ddprun_runs import DDPRUN, DdprunTest  # noqa: E402
from networks import namespaces_work  # noqa: E402

DRIVER = os.environ.get("FAKE_NVML_LIBRARY", "")
NODES = 4
FAST, SLOW = "80mbit", "8mbit"  # Well below what this machine does: its own load is no limit.
SHAPE = ("burst", "64kb", "latency", "50ms")


class Machine(DdprunTest):
    def machine(self, i, gpus="count 2"):
        root = self.path("host", str(i))
        os.makedirs(os.path.join(root, "dev"), exist_ok=True)
        open(os.path.join(root, "dev", "nvidiactl"), "w").close()
        with open(os.path.join(root, "gpus"), "w") as file:
            file.write(gpus + "\n")
        return {"DDPRUN_HOST_ROOT": root, "LD_LIBRARY_PATH": DRIVER, "FAKE_NVML": os.path.join(root, "gpus")}


class OneNode(Machine):
    def check(self, *flags, expect=0, gpus="count 2"):
        run = self.start("check", *flags, environment=self.machine(0, gpus))
        self.assertEqual(run.wait(), expect, run.all())
        return run

    def test_a_machine_that_is_well(self):
        told = self.check("--node-check=test $DDPRUN_CHECK_CAUSE = check").out()
        self.assertRegex(told, r"^FACT +VERDICT +VALUE\n")
        self.assertRegex(told, r"\ngpus +ok +2 of 2 well\n")
        self.assertRegex(told, r"\nnode check +ok +passes\n")

    def test_a_machine_without_gpus(self):
        run = self.start("check", environment={"DDPRUN_HOST_ROOT": self.path("nothing")})
        self.assertEqual(run.wait(), 0, run.all())
        self.assertEqual(run.out(), "nothing to look at here: no NVIDIA driver, and no --node-check\n")

    def test_one_that_is_not(self):
        run = self.check("--node-check=echo no network; false", gpus="count 2\ngpu 1 answer 15", expect=1)
        self.assertRegex(run.out(), r"\ngpu1 +BAD +has fallen off the bus\n|^gpu1 ")
        self.assertRegex(run.out(), r"\nnode check +BAD +no network\n")
        self.assertIn("would be refused: GPU 1: has fallen off the bus (host check; --gpus leaves it out)\n", run.out())
        told = json.loads(self.check("-o", "json", gpus="count 1\nxid 0 74", expect=1).out())
        self.assertEqual((told["well"], told["pairs"], told["slow"]), (False, [], []))
        self.assertEqual(told["nodes"][0]["facts"][0], {"name": "gpu0", "value": "Xid 74", "bad": True})

    def test_a_driver_that_hangs_is_bad(self):
        os.mkfifo(self.path("fifo"))
        told = self.check(gpus=f"hang {self.path('fifo')}", expect=1).out()
        self.assertRegex(told, r"\ngpus +BAD +their driver has not answered for 10.0 s\n")

    def test_bad_command_lines(self):
        for flags, why in (((FAKE := "train.py",), f"takes no program: '{FAKE}'"),
                           (("-o", "xml"), "--output must be text or json: 'xml'"),
                           (("--node-chek=true",), "--node-chek"),
                           (("--version",), "prints")):
            self.assertIn(why, self.check(*flags, expect=2).err())
        self.assertIn("usage: ddprun check", self.check("--help").out())


@unittest.skipUnless(namespaces_work(), "needs root and network namespaces")
class Nodes(Machine):
    def setUp(self):
        super().setUp()
        self.network = BridgeNetwork(NODES)
        self.addCleanup(self.network.close)
        self.environment["DDPRUN_TOKEN"] = "0123456789abcdef0123"
        for i in range(NODES):
            self.limit(i, FAST)

    # What the switch sends to it, and what it sends.
    def limit(self, i, rate, verb="add"):
        self.network.switch.run("tc", "qdisc", verb, "dev", f"m{i}", "root", "tbf", "rate", rate, *SHAPE)

    def begin(self, i, *flags, nodes=NODES, gpus="count 2"):
        command = self.network.on_machine(i, [
            DDPRUN, "check", f"--nnodes={nodes}", "--rdzv-endpoint=10.98.0.1:29400", f"--node-rank={i}",
            f"--local-addr={self.network.address(i)}", *flags])
        return self.start(*command[1:], executable=command[0], environment=self.machine(i, gpus))

    def check(self, *flags, expect=0, gpus=None, nodes=NODES):
        runs = [self.begin(i, *flags, gpus=(gpus or {}).get(i, "count 2"), nodes=nodes) for i in range(nodes)]
        for run in runs:
            self.assertEqual(run.wait(60), expect, "\n".join(run.all() for run in runs))
        self.assertEqual([run.out() for run in runs[1:]], [""] * (nodes - 1))  # The first one tells.
        return runs[0].out()

    def slow(self, *flags, **how):
        told = json.loads(self.check("-o", "json", *flags, expect=1, **how))
        self.assertFalse(told["well"])
        return told["slow"]

    def test_where_all_are_alike_nobody_is_named(self):
        told = self.check()
        self.assertEqual(len(re.findall(r" \d\.\d MB/s +[\d.]+ .s +ok\n", told)), NODES, told)
        self.assertNotIn("slow", told)

    def test_a_slow_host_is_named_with_its_number_and_that_of_the_others(self):
        self.limit(2, SLOW, "replace")
        told = self.check(expect=1)
        self.assertEqual(told.count("slow "), 1, told)
        self.assertRegex(told, r"\nslow host: node 2 \(\S+\): \S+ .B/s at its best; the others: \d\.\d MB/s")
        self.assertEqual(len(re.findall(r" SLOW\n", told)), 1, told)

    def test_a_slow_link_between_two_good_hosts_is_named(self):
        self.network.switch.run("tc", "qdisc", "del", "dev", "m3", "root")
        for words in ("qdisc add dev m3 root handle 1: htb default 10",
                      f"class add dev m3 parent 1: classid 1:10 htb rate {FAST} quantum 60000",
                      f"class add dev m3 parent 1: classid 1:20 htb rate {SLOW} quantum 60000",
                      f"filter add dev m3 parent 1: protocol ip u32 match ip src {self.network.address(1)} flowid 1:20"):
            self.network.switch.run("tc", *words.split())
        found = self.slow()
        self.assertEqual([part["what"] for part in found], ["slow_link"], found)
        self.assertRegex(found[0]["text"], r"^slow link: node 1 \(\S+\) - node 3 \(\S+\): \S+ .B/s; each of them ")

    def test_a_host_far_away_is_named(self):
        delay = self.network.on_machine(1, "tc qdisc add dev eth0 root netem delay 20ms".split())
        if subprocess.run(delay, capture_output=True, check=False).returncode != 0:
            self.skipTest("this kernel has no netem")
        found = self.slow()
        self.assertEqual([part["what"] for part in found if part["what"] != "slow_host"], ["far_host"], found)
        self.assertTrue(all(part["nodes"][0].startswith("node 1 ") for part in found), found)

    def test_what_is_bad_on_a_node_is_told_beside_it(self):
        told = self.check("--no-pairs", "--node-check=test $FAKE_NVML != " + self.path("host/1/gpus"), expect=1,
                          gpus={2: "count 2\ngpu 0 ecc 7"}, nodes=3)
        self.assertRegex(told, r"\nnode 0 \(\S+\) +well +passes +- +- +ok\n")
        self.assertRegex(told, r"\nnode 1 \(\S+\) +well +refuses +- +- +BAD\n")
        self.assertRegex(told, r"\nnode 2 \(\S+\) +1 bad +passes +- +- +BAD\n")
        self.assertRegex(told, r"\nnode 2 \(\S+\): gpu0 7 uncorrected memory errors\n")
        self.assertRegex(told, r"\nnode 1 \(\S+\) is refused by its node check: exit code 1\n")

    def test_a_node_that_does_not_come_is_named(self):
        run = self.begin(0, "--rdzv-conf=join_timeout=1", nodes=2)
        self.assertEqual(run.wait(), 69, run.all())
        self.assertIn("1 of 2 nodes came within 1.0 s", run.err())


if __name__ == "__main__":
    unittest.main()
