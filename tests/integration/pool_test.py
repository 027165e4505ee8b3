"""A pool: daemons, launches with --pool, and the server between them."""

import os
import re
import select
import signal
import socket

from ddprun_runs import (
    DDPRUN, FAKE_WORKER, HELLO, DdprunTest, command_of, read_bytes, read_text)
from tcp_proxy import TcpProxy


class PoolTest(DdprunTest):
    def setUp(self):
        super().setUp()
        self.environment["DDPRUN_POOL"] = self.endpoint
        self.state = self.path("state")

    def serve(self, **how):
        server = self.start("rendezvous", f"--listen={self.endpoint}", f"--state-dir={self.state}", **how)
        self.wait_for_text(server, "serving at")
        return server

    def daemon(self, name, *flags, environment=None):
        daemon = self.start("daemon", f"--name={name}", *flags, environment=environment)
        self.wait_for_text(daemon, "connected to the pool")
        return daemon

    def pool(self, server, *daemons):
        """The server and the daemons of these names."""
        return [server or self.serve(), *(self.daemon(name) for name in daemons)]

    def end(self, processes):
        for process in processes:
            self.terminate(process)

    def workers(self, run):
        """rank -> (daemon, pid) of those that have said HELLO."""
        found = re.findall(r"^\[(\S+)\] worker (\d+) \d+ (\d+)$", run.out(), re.M)
        return {int(rank): (name, int(pid)) for name, rank, pid in found}

    def wait_for_ranks(self, run, count, *others):
        return self.wait_for(lambda: len(w := self.workers(run)) == count and w, run, *others, what=f"{count} ranks")

    def waiting(self, *more):
        return [FAKE_WORKER, HELLO, f"--wait-file={self.go}", *more]

    def noting(self, name):
        """A program that writes that it has run, once for the whole run."""
        return ["/bin/sh", "-c", f"[ $RANK != 0 ] || echo {name} >> {self.path('order')}"]

    def look(self, expect=0):
        import json
        return json.loads(self.ask("status", "--output=json", expect=expect).out())

    def states(self):
        return {daemon["name"]: daemon["state"] for daemon in self.look()["daemons"]}

    def wait_for_states(self, *runs, **states):
        self.wait_for(lambda: self.states() == states, *runs, what=f"{states}")

    def test_a_run_is_what_it_would_be_here(self):
        there = self.pool(None, "n1", "n2")
        run = self.ask("--nnodes=2", "--nproc-per-node=2", "--env=DATA=1", "--env=CACHE=$rank 2", FAKE_WORKER, HELLO, "--print-err=oh %r",
                       f"--env-file={self.path('env.%r')}")
        ranks = self.workers(run)
        self.assertEqual({rank: name for rank, (name, _) in ranks.items()}, {0: "n1", 1: "n1", 2: "n2", 3: "n2"})
        for rank in range(4):
            self.assertRegex(run.err(), rf"\[n[12]\] oh {rank}\n")
            env = read_text(self.path(f"env.{rank}"))
            for line in ("WORLD_SIZE=4", "DATA=1", f"CACHE={rank} 2"):
                self.assertIn(f"\n{line}\n", env)
            for secret in ("DDPRUN_TOKEN", "DDPRUN_LAUNCH_PLACE", "DDPRUN_POOL"):
                self.assertNotIn(secret, env)
        self.wait_for_states(*there, n1="free", n2="free")
        self.end(there)

    def test_a_daemon_that_hangs_does_not_hold_up_a_worker_that_prints_much(self):
        server, daemon = self.pool(None, "n1")
        printed = self.path("printed")
        program = self.write("much.py", "import os\nprint('begins', flush=True)\n"
                             f"while not os.path.exists({self.go!r}):\n    pass\n"
                             f"print('much ' * 200000, flush=True)\nopen({printed!r}, 'w')\n")
        run = self.start(program)
        self.wait_for(lambda: "begins" in run.out(), run, daemon, what="a worker")
        daemon.signal(signal.SIGSTOP)
        self.write("go", "")
        self.wait_for(lambda: os.path.exists(printed), run, what="all was printed")
        daemon.signal(signal.SIGCONT)
        self.assertEqual(run.wait(), 0, run.all())
        self.end([server, daemon])

    def test_runs_end_as_they_would_here(self):
        """All of one pool: each new server first waits for its daemons."""
        there = self.pool(None, "n1", "n2")
        with self.subTest("one node, at once: no line is lost"):
            script = self.write("short.sh", "#!/bin/sh\necho \"one line of $RANK in $PWD\"\n", 0o755)
            for _ in range(3):
                run = self.ask(script)
                self.assertRegex(run.out(), rf"^\[n[12]\] one line of 0 in {self.directory}\n$", run.all())
        with self.subTest("a worker fails"):
            run = self.ask("--nnodes=2", FAKE_WORKER, "--on-rank=1", "--print-err=no such file", "--exit=7", "--always",
                           "--hang", expect=7)
            self.assertIn("[n2] no such file", run.err())
            self.assertEqual(run.err().count("Root Cause"), 1, run.err())
            self.wait_for_states(*there, n1="free", n2="free")
        with self.subTest("the program is not there"):
            run = self.ask("/no/such/program", expect=2)
            self.assertIn("/no/such/program", run.err())
            self.wait_for_states(*there, n1="free", n2="free")
        for number, code in ((signal.SIGINT, 130), (signal.SIGTERM, 143)):
            with self.subTest(number.name):
                run = self.start("--nnodes=2", *self.waiting())
                self.wait_for_ranks(run, 2)
                run.signal(number)
                self.assertEqual(run.wait(), code, run.all())
                self.wait_for_states(*there, n1="free", n2="free")
                self.assertEqual(self.mark.living("fake_worker"), [])
        with self.subTest("the launch stands still for a moment"):
            run = self.start(*self.waiting())
            self.wait_for_ranks(run, 1)
            run.signal(signal.SIGTSTP)
            self.wait_for_text(run, "SIGTSTP .*: the run ends in 10.0 s unless it continues")
            state = f"/proc/{run.process.pid}/stat"
            self.wait_for(lambda: read_text(state).rsplit(")")[-1].split()[0] == "T", run, what="a stop")
            run.signal(signal.SIGCONT)
            self.write("go", "")
            self.assertEqual(run.wait(), 0, run.all())
            os.remove(self.go)
        with self.subTest("the launch is killed"):
            run = self.start("--nnodes=2", FAKE_WORKER, "--ignore-term", *self.waiting()[1:])
            self.wait_for_ranks(run, 2)
            run.signal(signal.SIGKILL)
            run.wait()
            self.wait_for(lambda: not self.mark.living("fake_worker"), *there, what="no worker")
            self.wait_for_states(*there, n1="free", n2="free")
        self.end(there)

    def test_ctrl_c_ends_a_launch_whose_output_is_not_read_and_a_second_one_at_once(self):
        there = self.pool(None, "n1")
        script = self.much()
        for again in (False, True):
            reader, writer = os.pipe()
            run = self.start(script, out=writer)
            os.close(writer)
            self.wait_for(lambda: self.is_full(reader), run, what="a full pipe")
            run.signal(signal.SIGINT)
            self.wait_for_text(run, "the run was stopped on request")
            if again:
                run.signal(signal.SIGINT)
            self.assertEqual(run.wait(), 130, run.all())
            self.assertNotIn("cannot be reached", run.err())
            os.close(reader)
        self.wait_for_states(*there, n1="free")
        self.end(there)

    def test_a_launch_hears_signals_while_it_asks_a_silent_server(self):
        self.environment["DDPRUN_TOKEN"] = "0123456789-this-is-secret"
        there = self.pool(None, "n1")
        proxy = TcpProxy(self.endpoint)
        self.addCleanup(proxy.close)
        reader, writer = os.pipe()
        self.addCleanup(os.close, reader)
        run = self.start(f"--pool={proxy.endpoint}", self.much(), out=writer)
        os.close(writer)
        self.wait_for(lambda: self.is_full(reader), run, what="a full pipe")
        proxy.set("stall")
        before = len(proxy.pairs)
        run.signal(signal.SIGINT)
        self.wait_for(lambda: len(proxy.pairs) > before, run, what="the question how the run has ended")
        run.signal(signal.SIGINT)
        self.assertEqual(run.wait(3), 130, run.all())  # The answer is waited for longer.
        proxy.cut()
        self.wait_for_states(*there, n1="free")
        self.end(there)

    def much(self):
        return self.write("much.py", "while True:\n    print('much ' * 2000, flush=True)\n")

    def is_full(self, reader):
        """64 KiB, or less than a line is free of them."""
        import fcntl
        import struct
        import termios
        return struct.unpack("i", fcntl.ioctl(reader, termios.FIONREAD, bytes(4)))[0] > 50_000

    def test_a_name_may_be_used_again(self):
        there = self.pool(None, "n1", "n2")
        named = ["--rdzv-id=again", "--nnodes=2"]
        for code in (0, 3, 0):
            self.ask(*named, "/bin/sh", "-c", f"exit {code}", expect=code)
        run = self.start(*named, *self.waiting())
        self.wait_for_ranks(run, 2)
        run.signal(signal.SIGKILL)
        run.wait()
        self.wait_for_states(*there, n1="free", n2="free")
        run = self.ask("--rdzv-id=again", "--nnodes=1", "/bin/sh", "-c", "echo $TORCHELASTIC_RESTART_COUNT")
        self.assertIn("] 0\n", run.out())
        self.end(there)

    def test_runs_wait_in_order_and_one_may_leave(self):
        there = self.pool(None, "n1")
        first = self.start("--rdzv-id=first", *self.waiting())
        self.wait_for_ranks(first, 1, *there)
        waiting = {}
        for name in ("second", "third", "fourth", "fifth"):
            waiting[name] = self.start(f"--rdzv-id={name}", *self.noting(name))
            self.wait_for_text(waiting[name], "waiting in the pool")
        self.assertIn("place 2 in the queue", waiting["third"].err())
        waiting["third"].signal(signal.SIGINT)
        self.assertEqual(waiting["third"].wait(), 130)
        self.assertIn("leaves the queue", self.ask("stop", "fourth").out())
        self.assertEqual(waiting["fourth"].wait(), 130, waiting["fourth"].all())
        self.assertIn("removed from the pool's queue", waiting["fourth"].err())
        self.write("go", "")
        self.all_end([first, waiting["second"], waiting["fifth"]])
        self.assertEqual(read_text(self.path("order")).split(), ["second", "fifth"])
        self.end(there)

    def test_a_daemon_dies_and_its_run_does_not(self):
        server, daemon = self.pool(None, "n1")
        for program, code in ((self.waiting(), 0), (self.waiting("--exit=7", "--always"), 7)):
            if os.path.exists(self.go):
                os.remove(self.go)
            run = self.start(*program)
            self.wait_for_ranks(run, 1)
            second = self.ask("daemon", "--name=n1", "--pool=127.0.0.1:1", expect=69)
            self.assertIn("a daemon of this name already runs on this machine", second.err())
            daemon.signal(signal.SIGKILL)
            daemon.wait()
            other = self.ask("daemon", "--name=n1", "--pool=127.0.0.1:1", expect=69)
            self.assertIn(f"still runs here. Start this daemon with --pool={self.endpoint}", other.err())
            self.assertIsNone(run.process.poll())
            daemon = self.daemon("n1")
            self.wait_for_text(daemon, "still runs here")
            self.assertIsNone(run.process.poll())
            self.write("go", "")
            self.assertEqual(run.wait(), code, run.all() + daemon.all())
            self.wait_for_states(daemon, n1="free")
        self.end([server, daemon])

    def test_the_server_dies_twice_and_nothing_is_lost_or_done_twice(self):
        server, *daemons = self.pool(None, "n1", "n2", "n3")
        trains = [self.start(f"--rdzv-id=t{i}", *self.waiting()) for i in range(3)]
        for run in trains:
            self.wait_for_ranks(run, 1)
        queue = []
        for i in range(20):
            launch = [f"--rdzv-id=q{i}", "--nnodes=3", *self.noting(f"q{i}")]
            if i % 7 == 3:
                self.ask("--detach", *launch)
            else:
                queue.append(self.start(*launch))
                self.wait_for_text(queue[-1], "waiting in the pool")
        for _ in range(2):
            server.signal(signal.SIGKILL)
            server.wait()
            for process in (*trains, *daemons, *queue):
                self.wait_for_text(process, "trying again")
            server = self.serve()
            self.wait_for(lambda: [run["state"].split()[0] for run in self.look()["runs"]].count("runs") == 3
                          and len(self.look()["runs"]) == 23, server, what="all runs are back")
        self.write("go", "")
        self.all_end([*trains, *queue], limit=120)
        self.assertEqual(read_text(self.path("order")).split(), [f"q{i}" for i in range(20)])
        for run in trains:
            self.assertEqual(len(re.findall("worker 0", run.out())), 1, run.all())
        self.end([server, *daemons])

    def test_an_elastic_run_takes_daemons_that_come_and_leaves_those_that_are_drained(self):
        """And no command line has the token."""
        self.environment["DDPRUN_TOKEN"] = token = "0123456789-this-is-secret"
        there = self.pool(None, "n1")
        run = self.start("--nnodes=1:2", *self.waiting())
        self.wait_for_ranks(run, 1)
        there.append(self.daemon("n2"))
        self.wait_for(lambda: {name for name, _ in self.workers(run).values()} == {"n1", "n2"}, run, *there,
                      what="both take part")
        for pid in self.mark.living():
            self.assertNotIn(token.encode(), read_bytes(f"/proc/{pid}/cmdline"), command_of(pid))
        self.assertIn("gets no more runs", self.ask("drain", "n2").out())
        self.wait_for(lambda: self.states()["n2"] == "drained", run, what="n2 drained")
        self.assertTrue(self.states()["n1"].startswith("run "))
        self.write("go", "")
        self.assertEqual(run.wait(), 0, run.all())
        self.assertEqual(self.workers(self.ask(FAKE_WORKER, HELLO))[0][0], "n1")
        self.end(there)

    def test_the_state_of_a_detached_run_is_known_before_and_after_it(self):
        there = self.pool(None, "n1")
        first = self.start("--rdzv-id=first", *self.waiting())
        self.wait_for_ranks(first, 1, *there)
        os.mkdir(self.path("gone"))
        self.ask("-c", f'cd {self.path("gone")} && exec {DDPRUN} --detach --rdzv-id=second true', executable="/bin/sh")
        self.assertEqual(self.ask("--detach", "--rdzv-id=third", FAKE_WORKER, HELLO, "--hang").out(), "third\n")
        os.rmdir(self.path("gone"))
        self.assertIn("run third waits: place 2 in the queue", self.ask("status", "third").out())
        watched = self.start("status", "--watch", "third")
        self.wait_for(lambda: "run third waits: place 2" in watched.out(), watched, what="its place")
        self.assertIn("run 'third' waits: place 2", self.ask("logs", "third", expect=1).err())
        follower = self.start("logs", "-f", "--lines=0", "third")
        self.wait_for_text(follower, "waits: place 2 in the queue")
        self.write("go", "")
        self.assertEqual(first.wait(), 0, first.all())
        self.wait_for(lambda: "worker 0" in follower.out(), follower, *there, what="output of the third")
        self.assertIn("n1", self.ask("status", "third").out())
        self.wait_for(lambda: "run third: RUNNING" in watched.out(), watched, what="its start")
        self.ask("stop", "third")
        self.assertEqual(follower.wait(), 0, follower.all())
        self.assertEqual(watched.wait(), 0, watched.all())
        said = self.ask("status", "second").out()
        self.assertRegex(said, "run second has ended with exit code 69: n1: .*'/.*/gone', does not exist on this machine")
        self.assertIn("does not exist on this machine", there[1].err())
        self.wait_for_states(*there, n1="free")
        self.assertIn("--log-dir", self.ask("logs", "first", expect=1).err())
        self.assertIn("the pool has no daemon 'n7'", self.ask("drain", "n7", expect=1).err())
        self.end(there)

    def test_a_check_is_for_a_machine_without_workers_and_ends_with_its_daemon(self):
        causes = self.path("causes")
        check = f"--node-check=echo $DDPRUN_CHECK_CAUSE >> {causes}; [ ! -e {self.path('hangs')} ] || sleep 1000"
        server = self.serve()
        daemon = self.daemon("n1", check)
        self.wait_for_states(server, daemon, n1="free")
        run = self.start(FAKE_WORKER, HELLO, f"--wait-file={self.go}", "--exit=7", "--always")
        self.wait_for_ranks(run, 1, server, daemon)
        daemon.signal(signal.SIGKILL)
        daemon.wait()
        daemon = self.daemon("n1", check)
        self.wait_for_states(server, daemon, run, n1=f"run {self.look()['runs'][0]['run_id']}")
        self.assertEqual(read_text(causes), "start\n")
        self.write("hangs", "")
        self.write("go", "")
        self.assertEqual(run.wait(), 7, run.all())
        self.wait_for(lambda: read_text(causes).count("\n") == 2, server, daemon, what="a check")
        self.wait_for_states(server, daemon, n1="unfit: its node check (--node-check) is running")
        self.wait_for(lambda: self.mark.living("sleep"), daemon, what="a check that hangs")
        self.terminate(daemon)
        self.assertEqual(self.mark.living("sleep"), [])
        self.end([server])

    def test_a_long_command_line_may_come_slowly(self):
        self.environment["DDPRUN_TOKEN"] = "0123456789-this-is-secret"
        there = self.pool(None, "n1")
        proxy = TcpProxy(self.endpoint)
        self.addCleanup(proxy.close)
        proxy.stalls_after = 130_000
        run = self.start(f"--pool={proxy.endpoint}", FAKE_WORKER, HELLO, *2 * [f"--print={'x' * 90_000}"])
        self.wait_for(lambda: proxy.mode == "stall", run, *there, what="most of the command line")
        self.pause(0.1)
        proxy.set("pass")
        self.assertEqual(run.wait(), 0, run.err())
        self.assertNotIn("closed the connection", there[0].err())
        self.end(there)

    def test_a_launch_may_stay_on_this_machine(self):
        for here in ({"flags": ["--standalone"]}, {"flags": [], "environment": {"DDPRUN_POOL": ""}}):
            run = self.ask(*here["flags"], FAKE_WORKER, HELLO, environment=here.get("environment"))
            self.assertRegex(run.out(), "(?m)^worker 0")

    def test_systemd_hears_that_a_daemon_is_ready_what_it_does_and_that_it_lives(self):
        server = self.serve()
        heard = []
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
            systemd.bind(self.path("notify"))
            systemd.setblocking(False)

            def hears(*wanted):
                while select.select([systemd], [], [], 0)[0]:
                    heard.extend(systemd.recv(4096).decode().split("\n"))
                return set(wanted) <= set(heard)

            daemon = self.daemon("n1", environment={"NOTIFY_SOCKET": self.path("notify"), "WATCHDOG_USEC": "100000"})
            self.wait_for(lambda: hears("READY=1", "STATUS=free") and heard.count("WATCHDOG=1") > 3, daemon, what="a daemon")
            run = self.start("--rdzv-id=r", FAKE_WORKER, f"--env-file={self.path('env')}", f"--wait-file={self.go}")
            self.wait_for(lambda: hears("STATUS=run r"), daemon, run, what="its run")
            self.write("go", "")
            self.assertEqual(run.wait(), 0, run.all())
            for name in ("NOTIFY_SOCKET", "WATCHDOG_USEC"):
                self.assertNotIn(f"\n{name}=", read_text(self.path("env")), "of the daemon alone")
            del heard[:]
            self.wait_for(lambda: hears("STATUS=free"), daemon, what="its end")
            self.terminate(daemon)
            self.assertTrue(hears("STOPPING=1"))
        self.terminate(server)

    def test_only_holders_of_the_token_are_admitted(self):
        there = self.pool(None, "n1")
        wrong = {"DDPRUN_TOKEN": "another-token-than-theirs"}
        run = self.ask(FAKE_WORKER, expect=2, environment=wrong)
        self.assertIn("token", run.err())
        self.assertIn("token", self.ask("status", expect=2, environment=wrong).err())
        refused = self.start("daemon", "--name=n9", environment=wrong)
        self.wait_for_text(refused, "token")
        self.assertEqual(self.states(), {"n1": "free"})
        self.end([*there, refused])

    def test_a_server_without_a_token_has_no_pool(self):
        server = self.start("rendezvous", f"--listen={self.endpoint}", "--insecure")
        self.wait_for_text(server, "serving at")
        run = self.ask(FAKE_WORKER, expect=2)
        self.assertIn("It has no token (--insecure?)", run.err())
        self.terminate(server)

    def test_nonsense_is_refused(self):
        for flags, why in ((["--hosts=a,b"], "--pool and --hosts exclude each other"),
                           (["--run-dir=/tmp"], "--pool and --run-dir exclude each other"),
                           (["--insecure"], "--pool and --insecure exclude each other: a pool has a token"),
                           (["--node-rank=1", "--nnodes=2"], "--node-rank excludes --pool")):
            self.assertIn(why, self.ask(*flags, "x.py", expect=2).err())
        each = self.ask("--dry-run", "--env=A=1", "--env=B=2", "--env=B=3", "x.py").out()
        self.assertIn(" --env=A=1 --env=B=2 --env=B=3 ", each, "an argument may have 128 KiB")
        del self.environment["DDPRUN_POOL"]
        self.assertIn("--detach needs --pool", self.ask("--detach", "x.py", expect=2).err())
        self.assertIn("no pool given", self.ask("daemon", expect=2).err())
        self.assertIn("must be one word", self.ask("daemon", "--pool=h:1", "--name=a\tb", expect=2).err())
