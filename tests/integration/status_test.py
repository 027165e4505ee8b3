"""Operators' questions and orders: ddprun status, drain and stop, and who may."""

import json
import os
import signal
import socket
import subprocess

from certificates import Certificates
from ddprun_asks import Asks
from ddprun_runs import DDPRUN, FAKE_WORKER, HELLO

TOKEN = "a token that nobody guesses"


class OneNode(Asks):
    """A run that listens for no other node, and not by TCP."""

    def start_one(self, *actions, run_id=None, flags=()):
        run = self.start(f"--rdzv-id={run_id or self.run_id}", *flags, FAKE_WORKER, HELLO,
                         *(actions or ("--hang",)))
        self.wait_for_workers(run, 1)
        return run

    def test_it_is_shown_and_stopped(self):
        run = self.start_one()
        shown = self.ask("status").out()
        self.assertRegex(shown, f"run {self.run_id}: RUNNING")
        told = json.loads(self.ask("status", "-o", "json").out())
        self.assertRegex(told["endpoint"], "^unix:/.*/operators$")
        self.assertEqual([n["state"] for n in told["runs"][0]["nodes"]], ["running"])
        (first,) = told["runs"][0]["startups"]
        self.assertEqual((first["number"], first["cause"]), (1, "first start"))
        self.assertRegex(shown, r"starting: \d+ ms \(form \d+\)")
        self.assertIn("For the run at unix:DIR/operators set --run-dir=DIR",
                      self.ask("status", "--endpoint=" + told["endpoint"], expect=2).err())
        self.ask("stop")
        self.assertEqual(run.wait(), 130, run.all())
        self.assertIn("no ddprun run of yours on this machine", self.ask("status", expect=69).err())
        self.assertEqual(os.listdir(self.path("run", "ddprun")), [])

    # The directory's name is longer than a socket's address may be.
    def test_of_several_the_one_that_was_started_here_is_meant_or_one_is_named(self):
        logs = self.path("d" * 120)
        runs = [self.start_one(run_id=name, flags=[f"--log-dir={logs}"]) for name in ("first", "second")]
        other = self.path("elsewhere")
        os.mkdir(other)
        here = subprocess.Popen([DDPRUN, "--rdzv-id=third", FAKE_WORKER, HELLO, "--hang"], cwd=other,
                                env=self.environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(here.wait)
        self.addCleanup(here.terminate)
        several = self.wait_for(lambda: (said := self.ask("status", expect=2).err()).count("  in ") == 3 and said)
        self.assertRegex(several, "several runs of yours on this machine. Select one with --rdzv-id=NAME, ")
        self.assertRegex(several, r"(?m)^  first  --run-dir=\S+  in ")
        self.assertRegex(several, rf"(?m)^  third  --run-dir=\S+  in {other}: \S*ddprun --rdzv-id=third ")
        asked = subprocess.run([DDPRUN, "stop"], cwd=other, env=self.environment, capture_output=True, text=True)
        self.assertEqual((asked.returncode, here.wait()), (0, 130), asked.stderr)
        self.ask("stop", "--rdzv-id=second")
        self.assertEqual(runs[1].wait(), 130)
        directory = next(os.path.join(logs, name) for name in os.listdir(logs) if name.startswith("first_"))
        self.assertEqual(os.stat(os.path.join(directory, "operators")).st_mode & 0o777, 0o600)
        self.assertIn("run first: RUNNING", self.ask("status", f"--run-dir={directory}").out())
        self.ask("stop", f"--run-dir={directory}")
        self.assertEqual(runs[0].wait(), 130)
        self.assertFalse(os.path.lexists(os.path.join(directory, "operators")))
        for run in runs:
            self.assertNotIn("the run failed", run.err())

    # A process that has read the name of a directory that is gone could make it anew.
    def test_a_link_is_followed_to_ones_own_directory_alone(self):
        self.ask("status", expect=69)
        links = self.path("run", "ddprun")
        os.makedirs(links, mode=0o700, exist_ok=True)
        os.symlink(self.path("gone"), os.path.join(links, "server-1-gone"))
        foreign = self.path("foreign")
        os.mkdir(foreign)
        listener = socket.socket(socket.AF_UNIX)
        self.addCleanup(listener.close)
        listener.bind(os.path.join(foreign, "operators"))
        listener.listen()
        if os.geteuid() == 0:
            os.chown(foreign, 23456, 23456)
            os.symlink(foreign, os.path.join(links, "server-2-foreign"))
        self.assertIn("no ddprun run of yours", self.ask("status", expect=69).err())
        self.assertNotIn("server-1-gone", os.listdir(links))

    # A caller that says nothing, or nonsense, holds up no other.
    def test_silent_callers(self):
        logs = self.path("logs")
        run = self.start_one(flags=[f"--log-dir={logs}"])
        [name] = os.listdir(logs)
        silent = []
        self.addCleanup(lambda: [s.close() for s in silent])
        for word in (b"", b"D", b"D\xff\xff\xff\xff", b"X\0\0\0\0", b"C\2\0\0\0\xff\xff"):
            caller = socket.socket(socket.AF_UNIX)
            caller.connect(os.path.join(logs, name, "operators"))
            caller.sendall(word)
            silent.append(caller)
        self.assertIn("RUNNING", self.ask("status").out())
        self.ask("stop")
        self.assertEqual(run.wait(), 130)


class Operators(Asks):
    def setUp(self):
        super().setUp()
        self.looker = {}

    def start_node(self, *arguments, flags=(), nnodes="1:2", run_id=None, environment=None):
        return self.start(f"--nnodes={nnodes}", f"--rdzv-id={run_id or self.run_id}",
                          f"--rdzv-endpoint={self.endpoint}", "--rdzv-conf=last_call_timeout=60",
                          *flags, FAKE_WORKER, *(arguments or (HELLO, "--hang")), environment=environment)

    def status(self):
        """No runs as long as no server is there, or has drawn this user's first token."""
        asked = self.start("status", f"--endpoint={self.endpoint}", "-o", "json",
                           environment=self.looker)
        code = asked.wait()
        if code != 2 or "the server wants a token" not in asked.err():
            self.assertIn(code, (0, 69), asked.all())
        return json.loads(asked.out()) if code == 0 else {"runs": []}

    def in_state(self, state, count):
        def look():
            runs = self.status()["runs"]
            found = [n for n in runs[0]["nodes"] if n["state"] == state] if runs else []
            return len(found) == count and runs[0]
        return self.wait_for(look, what=f"{count} nodes {state}")


class Status(Operators):

    def test_a_running_one_shows_nodes_steps_and_events(self):
        nodes = [self.start_node(HELLO, "--notify=RESUME=0", "--steps=7", "--notify=PHASE=reduce",
                                 "--hang")
                 for _ in range(2)]
        self.wait_for(lambda: (runs := self.status()["runs"]) and
                      [(n["step"], n["phase"]) for n in runs[0]["nodes"]] == [(7, "reduce")] * 2,
                      *nodes, what="steps of both nodes")
        run = self.status()["runs"][0]
        self.assertEqual((run["world_size"], run["generation"], run["waits_for"]), (2, 1, ""))
        self.assertEqual([n["first_rank"] for n in run["nodes"]], [0, 1])
        self.assertTrue(any("formed generation 1" in e["text"] for e in run["events"]))
        (first,) = run["startups"]  # Nothing was stopped for it, and all its parts are known.
        self.assertEqual([first[part + "_seconds"] is None for part in
                          ("detect", "stop", "form", "start", "state", "first_step")],
                         [True, True, False, False, False, False], first)
        self.assertIn(first["stepped_last"], [n["node"] for n in run["nodes"]])
        self.assertRegex(self.ask("status").out(), r"RUNNING for .*2 nodes and 2 workers")
        for node in nodes:
            node.signal(signal.SIGINT)
        for node in nodes:
            node.wait()

    def test_no_server_there_is_69(self):
        run = self.ask("status", f"--endpoint={self.endpoint}", expect=69)
        self.assertRegex(run.err(), rf"ddprun status: .*{self.endpoint}.*refused")
        run = self.ask("status", expect=69)
        self.assertIn("set --endpoint=HOST:PORT", run.err())


class Control(Operators):
    def test_with_a_token_given_no_other_user_even_looks(self):
        node = self.start_node(nnodes="2", environment={"DDPRUN_TOKEN": TOKEN})
        self.looker = {"DDPRUN_TOKEN": TOKEN}
        self.in_state("ready", 1)
        at = f"--endpoint={self.endpoint}"
        elsewhere = {"XDG_RUNTIME_DIR": self.path("tmp")}
        for verb in ("status", "stop"):
            none = self.ask(verb, at, expect=2, environment=elsewhere)
            self.assertIn("the server wants a token. Set --token-file", none.err())
            wrong = self.ask(verb, at, expect=2,
                             environment={**elsewhere, "DDPRUN_TOKEN": "w" * 27})
            self.assertIn("does not prove that it has the same token", wrong.err())
        self.wait_for_text(node, r"was refused: it has no token \(1 refused so far\)")
        self.ask("stop", at, f"--token-file={self.private_file('token', TOKEN)}", environment=elsewhere)
        self.assertEqual(node.wait(), 130, node.all())
        os.rmdir(self.path("tmp", "ddprun"))
        self.assertNotIn(TOKEN, node.err() + wrong.err())

    def test_the_files_of_a_server_of_this_machine_that_speaks_tls_are_found(self):
        certificates = Certificates(self.directory)
        certificates.authority("ca")
        certificates.certificate("node", "ca", "IP:" + self.endpoint.rsplit(":", 1)[0])
        node = self.start_node(nnodes="2", flags=certificates.flags("node"))
        self.wait_for_text(node, "waiting for nodes: 1 of 2")
        self.assertIn(self.run_id, self.ask("status", f"--endpoint={self.endpoint}").out())
        self.ask("stop", f"--endpoint={self.endpoint}", f"--rdzv-id={self.run_id}")
        self.assertEqual(node.wait(), 130, node.all())

    def test_a_server_alone_needs_a_token_to_be_controlled(self):
        server = self.start("rendezvous", f"--listen={self.endpoint}", "--insecure")
        self.wait_for_text(server, "serving at")
        refused = self.ask("stop", f"--endpoint={self.endpoint}", expect=1)
        self.assertIn("Start it with --token-file=FILE or DDPRUN_TOKEN", refused.err())
        self.terminate(server)
        server = self.start("rendezvous", f"--listen={self.endpoint}",
                            environment={"DDPRUN_TOKEN": TOKEN})
        self.wait_for_text(server, "serving at")
        refused = self.ask("stop", f"--endpoint={self.endpoint}", expect=1,
                           environment={"DDPRUN_TOKEN": TOKEN})
        self.assertIn("this server has no run", refused.err())
        self.terminate(server)
