"""The recorded calls of agents and servers of every release, played to those of now: taken, or refused with the reason.

recorded_test.py --record   (root) notes what the programs of this build say into calls/, once for a release
"""

import glob
import os
import re
import subprocess
import sys
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "support"))

from ddprun_runs import DDPRUN, FAKE_WORKER, HELLO, DdprunTest, read_text  # noqa: E402

TOOL = os.environ.get("RECORDED_CALLS", "")
RUN = "recorded"  # The run's name, in all recordings.
STEPS = ("--notify=READY=1", "--steps=3", "--notify=PHASE=save\nLOSS=0.5\nSTEPS=3")


def recordings():
    """Release and protocol -> path."""
    found = {}
    for path in sorted(glob.glob(os.path.join(HERE, "calls", "*.txt"))):
        release, protocol = re.fullmatch(r"([\d.]+)-protocol-(\d+)\.txt", os.path.basename(path)).groups()
        found[release, int(protocol)] = path
    assert found, "no recording"
    return found


class Recorded(DdprunTest):
    def play(self, *words):
        """It serves at once: where."""
        tool = self.start(*words, executable=TOOL)
        return tool, self.wait_for(lambda: tool.out().strip(), tool, what="it listens")

    def node(self, rank, endpoint, *worker):
        return self.start("--nnodes=2", f"--node-rank={rank}", f"--rdzv-endpoint={endpoint}", f"--rdzv-id={RUN}",
                          "--insecure", FAKE_WORKER, HELLO, *worker)

    def test_agents_of_all_releases_are_served_or_hear_why_not(self):
        for (release, protocol), path in recordings().items():
            with self.subTest(release=release, protocol=protocol):
                endpoint = self.free_endpoint()
                here = self.node(0, endpoint, *STEPS)
                self.wait_for_text(here, "serving the rendezvous")
                old = self.start("call", endpoint, path, executable=TOOL)
                code = old.wait(60)
                refusal = re.search(r"^refused 3 .*protocol.*", old.out(), re.M)
                if refusal:
                    self.assertIn(f"speaks protocol {self.now}, this node {protocol}", refusal[0])
                    self.assertNotEqual(protocol, self.now)
                else:
                    self.assertEqual(code, 0, old.all() + here.all())
                    self.assertEqual(here.wait(), 0, here.all())
                self.others_are_taken(old)

    def others_are_taken(self, old):
        """OK, nothing yet (4), no such run (5), no (7, 9, 16): never that it could not be read."""
        others = re.findall(r"^/ddprun\.v1\.Rendezvous/(\w+) (\d+) (.*)$", old.out(), re.M)
        self.assertIn("Describe", {name for name, *_ in others}, old.all())
        for name, code, words in others:
            self.assertIn(int(code), (0, 4, 5, 7, 9, 14, 16), f"{name}: {words}")

    def test_this_release_is_recorded(self):
        self.assertIn((self.version(), self.now), recordings(), "recorded_test.py --record, before it is released")

    def version(self):
        said = subprocess.run([DDPRUN, "--version"], capture_output=True, text=True, check=True).stdout
        return said.split()[1]

    @property
    def now(self):
        header = read_text(os.path.join(HERE, "../../rendezvous/wire/convert.h"))
        return int(re.search(r"kProtocol = (\d+);", header)[1])

    def test_servers_of_all_releases_serve_agents_of_now_or_say_why_not(self):
        for (release, protocol), path in recordings().items():
            with self.subTest(release=release, protocol=protocol):
                refusal = [] if protocol == self.now else [f"the server speaks protocol {protocol}, this node {self.now}"]
                old, endpoint = self.play("serve", path, *refusal)
                new = self.node(1, endpoint, *STEPS)
                if refusal:
                    self.assertNotEqual(new.wait(), 0, new.all())
                    self.assertIn(refusal[0], new.err())
                else:
                    self.assertEqual(new.wait(), 0, new.all())
                    self.assertEqual(len(new.workers()), 1, new.all())
                    status = self.ask("status", f"--endpoint={endpoint}", f"--rdzv-id={RUN}")
                    self.assertIn(f"run {RUN}: RUNNING", status.out())
                old.process.kill()

    def test_another_protocol_is_refused_with_both_numbers(self):
        path = recordings()[max(recordings())]
        for other in (1, self.now + 1):
            endpoint = self.free_endpoint()
            here = self.node(0, endpoint)
            self.wait_for_text(here, "serving the rendezvous")
            old = self.ask("call", endpoint, path, str(other), executable=TOOL, expect=1, limit=60)
            self.assertRegex(old.out(), rf"refused 3 .*the server speaks protocol {self.now}, this node {other}")
            here.signal(2)
            here.wait()
            words = f"the server speaks protocol {other}, this node {self.now}"
            played, endpoint = self.play("serve", path, words)
            new = self.node(1, endpoint)
            self.assertEqual(new.wait(), 2, new.all())
            self.assertIn(words, new.err())
            played.process.kill()

    def record(self):
        """Within a network and a host name of its own: nothing of this machine is noted."""
        version = self.version()
        path = os.path.join(HERE, "calls", f"{version}-protocol-{self.now}.txt")
        first = self.node(0, "127.0.0.1:29400", *STEPS)
        self.wait_for_text(first, "serving the rendezvous")
        with open(path, "w", encoding="ascii") as file:
            file.write(f"# What a node of ddprun {version} and its server said to each other (recorded_calls.cc)\n")
        tool, endpoint = self.play("record", "127.0.0.1:29400", path)
        second = self.node(1, endpoint, *STEPS, f"--wait-file={self.path('go')}")
        self.wait_for_workers(second, 1)
        self.wait_for(lambda: (run := self.status("127.0.0.1:29400")) and run["nodes"][1]["phase"] == "save", second)
        for verb in (("status",), ("stacks", "--rank=1"), ("drain", "nobody")):
            asked = self.start(*verb, f"--endpoint={endpoint}", f"--rdzv-id={RUN}")
            asked.wait()
        open(self.path("go"), "w").close()
        self.all_end((first, second))
        self.wait_for(lambda: {"Sync", "Describe", "AskNodes", "Control"} <= set(
            re.findall(r"Rendezvous/(\w+) ", read_text(path))), tool, what="all calls are noted")
        tool.process.kill()
        print(path)


if __name__ == "__main__":
    if sys.argv[1:] == ["--record"]:
        Recorded.runTest = Recorded.record
        if os.environ.get("RECORDING") != "1":
            os.execvpe("unshare", ["unshare", "--uts", "--net", "sh", "-c",
                                   'hostname recorded && ip link set lo up && exec "$@"', "sh", sys.executable, "-B",
                                   *sys.argv], {**os.environ, "RECORDING": "1"})
        done = unittest.TextTestRunner().run(Recorded("runTest"))
        sys.exit(not done.wasSuccessful())
    unittest.main(verbosity=2)
