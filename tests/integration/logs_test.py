"""Texts that operators have fetched from all nodes: ddprun logs, stacks and status --watch."""

import json
import os
import re
import signal
import tarfile

from ddprun_asks import Asks
from ddprun_runs import FAKE_WORKER, HELLO, read_text


class OneNode(Asks):
    """A run that does not listen by TCP."""

    def start_one(self, *actions, workers=2, flags=()):
        run = self.start(f"--rdzv-id={self.run_id}", f"--nproc-per-node={workers}", *flags, FAKE_WORKER, HELLO,
                         *(actions or ("--hang",)))
        self.wait_for_workers(run, workers)
        return run

    def test_the_last_lines_are_there_for_a_late_reader(self):
        self.start_one("--print=out of %r", "--print-err=err of %r", "--print=", "--hang")
        self.wait_for(lambda: len(self.texts()) == 8)
        lines = self.lines()
        self.assertEqual({(line["rank"], line["stream"], line["text"]) for line in lines if " of " in line["text"]},
                         {(r, s, f"{s[3:]} of {r}") for r in (0, 1) for s in ("stdout", "stderr")})
        self.assertEqual({line["generation"] for line in lines}, {1})
        self.assertEqual(sorted(line["unix_time"] for line in lines), [line["unix_time"] for line in lines])
        self.assertEqual(sorted(self.texts("--rank=1", "--since=1h"))[:3], ["", "err of 1", "out of 1"])
        self.assertEqual(self.texts("--rank=7-9"), [])
        shown = self.ask("logs", "--rank=0").out()
        self.assertRegex(shown, r"(?m)^\d\d:\d\d:\d\d\.\d{3} \[r0 \S+\] out of 0$")
        self.assertRegex(shown, r"(?m)^\S+ \[r0 \S+!\] err of 0$")

    def test_a_follower_hears_the_last_words(self):
        """A failing run's traceback is what one follows for."""
        both = self.path("told")
        script = (f"echo begun; until [ -e {self.go} ]; do sleep 0.01; done; for i in $(seq 500); do echo line $i; done;"
                  f" touch {both}$RANK; until [ -e {both}0 -a -e {both}1 ]; do sleep 0.01; done; exit 3")
        run = self.start(f"--rdzv-id={self.run_id}", "--nproc-per-node=2", "bash", "-c", script)
        self.wait_for(lambda: run.out().count("begun") == 2, run)
        followers = [self.start("logs", "-f") for _ in range(3)]
        for follower in followers:
            self.wait_for(lambda: follower.out().count("begun") == 2, run, follower)
        open(self.go, "w").close()
        self.assertEqual(run.wait(), 3, run.all())
        for follower in followers:
            self.assertEqual(follower.wait(), 0, follower.all())
            self.assertEqual(follower.out().count("line 500\n"), 2, follower.all())
            self.assertEqual(follower.out().count("line "), 1000)
            self.assertEqual(follower.err(), "")

    def test_a_follower_names_the_run_whose_server_went_without_a_word(self):
        run = self.start_one()
        follower = self.start("logs", "-f")
        self.wait_for(lambda: "worker 1" in follower.out(), follower)
        os.kill(run.agent(), signal.SIGKILL)  # The guard tidies up.
        self.assertEqual(follower.wait(), 0, follower.all())
        self.assertIn(f"the server of run '{self.run_id}' at ", follower.err())
        self.assertIn(" is gone: the run has ended", follower.err())
        run.wait()

    def test_a_follower_that_stands_still_holds_up_no_end(self):
        run = self.start_one()
        follower = self.start("logs", "-f")
        self.wait_for(lambda: "worker 1" in follower.out(), follower)
        follower.signal(signal.SIGSTOP)
        self.ask("stop")
        self.assertEqual(run.wait(limit=10), 130, run.all())
        follower.signal(signal.SIGCONT)

    def test_a_worker_with_the_terminal_is_kept_nowhere_and_that_is_said(self):
        self.start_one(workers=1)
        asked = self.ask("logs")
        self.assertEqual(asked.out(), "")
        self.assertIn("rank 0 has ddprun's own terminal", asked.err())

    def test_files_that_workers_write_themselves_are_read(self):
        self.start(f"--rdzv-id={self.run_id}", "--nproc-per-node=2", "-r", "3", f"--log-dir={self.path('logs')}",
                   FAKE_WORKER, "--print=in a file", "--hang")
        self.wait_for(lambda: self.start("status").wait() == 0)
        self.wait_for(lambda: self.texts().count("in a file") == 2)
        self.assertNotIn("unix_time", self.lines()[0])

    def test_of_a_run_that_is_over_the_logs_in_its_directory_are_shown(self):
        logs, both = self.path("logs"), self.path("told")
        script = (f"echo out $RANK; echo err >&2; mark={both}$TORCHELASTIC_RESTART_COUNT; touch $mark.$RANK;"
                  " until [ -e $mark.0 -a -e $mark.1 ]; do sleep 0.01; done; exit 3")
        run = self.ask(f"--rdzv-id={self.run_id}", "--nproc-per-node=2", "-r", "3", "--max-restarts=1",
                       f"--log-dir={logs}", "bash", "-c", script, expect=3)
        self.assertEqual(run.out(), "")
        (directory,) = os.listdir(logs)
        self.assertRegex(directory, rf"^{self.run_id}_\w+$")
        self.assertEqual(os.stat(os.path.join(logs, directory)).st_mode & 0o777, 0o700)
        shown = self.ask("logs", os.path.join(logs, directory))
        self.assertEqual(re.findall(r"(?m)^==> (.*)$", shown.out()),
                         [f"attempt_{attempt}/{rank}/{stream}.log" for attempt in (0, 1) for rank in (0, 1)
                          for stream in ("stdout", "stderr")])
        self.assertIn("==> attempt_1/1/stdout.log\nout 1\n==> attempt_1/1/stderr.log\nerr\n", shown.out())
        os.symlink(os.path.join(logs, directory), self.path("here"))
        shown = self.ask("logs", "here")
        self.assertIn("out 1\n", shown.out())
        shown = self.ask("logs", "-f", "here", expect=2)
        self.assertIn("ddprun logs DIR takes no option but -n", shown.err())
        shown = self.ask("logs", "-n0", os.path.join(logs, directory))
        self.assertNotIn("out 1", shown.out())
        os.mkdir(self.path("empty"))
        asked = self.ask("logs", "empty/", expect=1)
        self.assertIn("is it <log dir>/<run>_<...>?). To keep output in files, start the run with --log-dir=DIR",
                      asked.err())
        asked = self.ask("logs", expect=69)
        self.assertIn("ddprun logs DIR", asked.err())

    def test_the_directory_of_log_dir_stands_for_the_one_run_in_it(self):
        def kept(word):
            self.ask("--nproc-per-node=1", "--log-dir=kept", "bash", "-c", f"echo {word}")

        kept("alone")
        for name in ("kept", "kept/"):
            shown = self.ask("logs", name)
            self.assertIn("==> attempt_0/0/stdout.log\nalone\n", shown.out())
        self.ask("report", "kept", "--file=one.tar.gz")
        (first,) = os.listdir(self.path("kept"))
        os.utime(self.path("kept", first), (1, 1))
        kept("second")
        (second,) = set(os.listdir(self.path("kept"))) - {first}
        for verb in ("logs", "report"):
            asked = self.ask(verb, "kept", expect=2)
            self.assertIn(f"'kept' has 2 run directories, the newest first: kept/{second}, kept/{first}. Name ",
                          asked.err())

    def test_the_nodes_of_one_run_in_a_log_dir_are_taken_together(self):
        nodes = [self.start("--nnodes=2", f"--node-rank={rank}", f"--rdzv-id={self.run_id}", "--log-dir=shared",
                            f"--rdzv-endpoint={self.endpoint}", "bash", "-c", "echo I am $RANK") for rank in (0, 1)]
        for node in nodes:
            self.assertEqual(node.wait(), 0, node.all())
        directories = os.listdir(self.path("shared"))
        self.assertEqual(len(directories), 2)
        shown = self.ask("logs", "shared")
        told = dict(re.findall(r"(?m)^==> (\S+)/attempt_0/0/stdout\.log\nI am (\d)$", shown.out()))
        self.assertEqual((set(told), set(told.values())), (set(directories), {"0", "1"}), shown.out())
        self.ask("report", "shared", "--file=both.tar.gz")
        with tarfile.open(self.path("both.tar.gz")) as archive:
            names = archive.getnames()
        for directory in directories:
            self.assertTrue(any(directory in name for name in names), names)
        os.mkdir(self.path("shared", f"{self.run_id}_0"))  # A later run of that name.
        self.write(self.path("shared", f"{self.run_id}_0", "events.jsonl"), "")
        asked = self.ask("logs", "shared", expect=2)
        self.assertIn("'shared' has 3 run directories, the newest first: ", asked.err())

    def test_of_a_run_without_log_files_the_last_lines_of_its_evidence_are_shown(self):
        logs = self.path("logs")
        self.ask(f"--rdzv-id={self.run_id}", "--nproc-per-node=2", f"--log-dir={logs}", "-r", "0",
                 "bash", "-c", "echo out $RANK; exit 3", expect=3)
        shown = self.ask("logs", os.path.join(logs, *os.listdir(logs)))
        self.assertRegex(shown.out(), r"==> evidence-1/rank-\d\.lines\.txt\n(.*\n)*.*out \d\n")

    def test_stacks_of_a_live_run_are_grouped_and_harm_no_worker(self):
        run = self.start_one("--on-rank=1", "--stop-self", "--always", "--hang", workers=3)
        pids = list(run.workers().values())
        state = lambda pid: re.search(r"State:\s+(\S)", read_text(f"/proc/{pid}/status")).group(1)
        self.wait_for(lambda: sorted(map(state, pids)) == ["S", "S", "T"])
        told = json.loads(self.ask("stacks", "-o", "json", "--all").out())
        self.assertEqual([group["ranks"] for group in told["groups"]], [[0, 2], [1]])
        self.assertEqual([rank["rank"] for rank in told["ranks"]], [0, 1, 2])
        self.assertIn("no debugger is used: it is stopped", told["ranks"][1]["text"])
        text = self.ask("stacks").out()
        self.assertRegex(text, r"(?m)^2 ranks \(0,2\): \S.*\n    ")
        self.assertRegex(text, r"(?m)^1 rank \(1\): state T")
        self.wait_for(lambda: sorted(map(state, pids)) == ["S", "S", "T"], what="processes as they were")

    def test_stacks_without_frames_say_why(self):
        self.write(os.path.join(self.path("tools"), "gdb"), "#!/bin/sh\necho '(gdb took too long: stopped)'\n", 0o755)
        run = self.start(f"--rdzv-id={self.run_id}", "--nproc-per-node=2", FAKE_WORKER, HELLO, "--hang",
                         environment={"PATH": self.path("tools") + ":" + os.environ["PATH"]})
        self.wait_for_workers(run, 2)
        asked = self.ask("stacks")
        self.assertRegex(asked.out(), r"state S")
        self.assertIn("warning: only the kernel's view of rank 0 is known, because the tool that reads its frames took "
                      "too long", asked.err())

    def test_an_operator_that_asks_for_stacks_and_goes_leaves_no_worker_held(self):
        tools, took = self.path("tools"), self.path("took")
        self.write(os.path.join(tools, "gdb"), f"#!/bin/bash\nkill -STOP $5\necho $$ >> {took}\nsleep 600\n", 0o755)
        run = self.start(f"--rdzv-id={self.run_id}", "--nproc-per-node=2", "--max-restarts=1", FAKE_WORKER, HELLO,
                         "--hang", environment={"PATH": tools + ":" + os.environ["PATH"]})
        self.wait_for_workers(run, 2)
        states = lambda: [re.search(r"State:\t(.)", read_text(f"/proc/{pid}/status"))[1] for _, _, pid in workers]
        workers = [tuple(map(int, w)) for w in re.findall(r"worker (\d+) (\d+) (\d+)\n", run.out())]
        with self.subTest("it is ended"):
            asked = self.start("stacks")
            self.wait_for(lambda: read_text(took).count("\n") == 2, run, asked)
            self.wait_for(lambda: states() == ["T", "T"], run, what="workers that are held")
            asked.signal(signal.SIGINT)
            self.wait_for(lambda: states() == ["S", "S"], run, what="workers that go on")
            for tool in read_text(took).split():
                self.wait_for(lambda: not os.path.exists(f"/proc/{tool}"), run, what="the tool's end")
        with self.subTest("a worker dies meanwhile"):
            asked = self.start("stacks")
            self.wait_for(lambda: read_text(took).count("\n") == 4, run, asked)
            os.kill(workers[0][2], signal.SIGKILL)
            self.wait_for_workers(run, 2, generation=2)
            self.assertNotIn("SIGKILL follows", run.err())
            asked.wait()

    def test_watch_ends_with_the_run(self):
        run = self.start_one("--steps=1000", f"--wait-file={self.go}", "--exit=0")
        watching = self.start("status", "--watch")
        as_json = self.start("status", "--watch", "-o", "json")
        self.wait_for(lambda: watching.out().count("RUNNING") >= 2, watching)
        self.ask("stop")
        run.wait()
        self.assertIn(watching.wait(limit=90), (0, 69))
        as_json.wait(limit=90)
        told = [json.loads(line) for line in as_json.out().splitlines()]
        self.assertEqual({line["runs"][0]["run_id"] for line in told if "why" not in line}, {self.run_id})


class Orders(Asks):
    """Workers in bash, which say by which signal they save."""

    SAVES = ("import os, signal, socket, sys, time\n"
             "rank = os.environ['RANK']\n"
             "def save(*_):\n"
             "    print('saved', rank, flush=True)\n"
             "def end(*_):\n"
             "    print('ends', rank, flush=True)\n"
             "    sys.exit(75)\n"
             "signal.signal(signal.SIGUSR1, save)\n"
             "signal.signal(signal.SIGTERM, end)\n"
             "sock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)\n"
             "says = b'READY=1' if rank in sys.argv[1:] else b'READY=1\\nSAVE_SIGNAL=10'\n"
             "sock.sendto(says, os.environ['DDPRUN_NOTIFY_SOCKET'])\n"
             "print('worker', rank, os.environ['DDPRUN_GENERATION'], os.getpid(), flush=True)\n"
             "while True:\n"
             "    signal.pause()\n")

    def program(self):
        return self.write("saves.py", self.SAVES)

    def test_a_silent_worker_is_not_signalled(self):
        run = self.start(f"--rdzv-id={self.run_id}", "--nproc-per-node=2", self.program(), "1")
        self.wait_for_workers(run, 2)
        self.wait_for(lambda: "saved 0" in run.out() or not self.start("save").wait(), run)
        told = json.loads(self.ask("save", "-o", "json", "--rank=0").out())
        self.assertEqual((told["asked"], told["not_asked"]), ([0], []))
        asked = self.ask("save", expect=1)
        self.assertIn("asked to save (SIGUSR1): rank 0", asked.out())
        self.assertIn("rank 1: not asked: no SAVE_SIGNAL was announced (ddprun help writing-a-worker)", asked.err())
        self.assertNotIn("saved 1", run.out())

    def test_stop_soon_ends_with_start_me_again(self):
        run = self.start(f"--rdzv-id={self.run_id}", "--nproc-per-node=2", self.program())
        self.wait_for_workers(run, 2)
        self.ask("stop", "--soon")
        self.assertEqual(run.wait(), 75, run.all())
        self.assertIn("an operator asked the run to save and end", run.err())
