"""--hosts: a run on several hosts by one command, with a stand-in for ssh."""

import os
import re
import signal
import sys
import unittest

from ddprun_runs import (
    FAKE_WORKER, HELLO, HOLD_CALLS, command_of, eventually, held_calls, read_bytes, read_text)
from fake_hosts import HostsTest

REFUSED = "echo 'ssh: connect to host {} port 22: Connection refused' >&2; exit 255"


class ManyHosts(HostsTest):
    def test_three_hosts_run_to_the_end(self):
        names = self.names(3)
        run = self.launch([names[0], f"{names[1]}:2", f"u@{names[2]}"], FAKE_WORKER, HELLO,
                          f"--env-file={self.path('env.%r')}", environment={"DDPRUN_LOG_FORMAT": "text"})
        self.assertEqual(run.wait(), 0, run.all())
        self.assertEqual({rank: host for rank, (host, _) in self.ranks(run).items()},
                         {0: names[0], 1: names[1], 2: names[1], 3: names[2]}, run.all())
        self.assertEqual(sorted(call["host"] for call in self.hosts.started), sorted([*names[:2], f"u@{names[2]}"]))
        for rank, local_size in enumerate((1, 2, 2, 1)):
            env = read_text(self.path(f"env.{rank}"))
            self.assertIn(f"\nLOCAL_WORLD_SIZE={local_size}\n", env)
            self.assertNotIn("DDPRUN_TOKEN", env)
            self.assertNotIn("DDPRUN_LAUNCH_PLACE", env)
        self.assertIn(f"[{names[0]}] ddprun | serving the rendezvous at {names[0]}:", run.err())
        self.assertNotIn("no token", run.err())

    def test_settings_travel_whatever_their_origin(self):
        self.write("ddprun.toml", f"hosts = \"{','.join(self.names(2))}\"\nrole = \"trainer\"\n")
        run = self.ask(f"--launch-agent={self.agent}", "--max-restarts=7", FAKE_WORKER,
                       f"--env-file={self.path('env.%r')}", environment={"PET_NPROC_PER_NODE": "2"})
        self.assertEqual(len(self.hosts.started), 2, run.all())  # No host starts the hosts again.
        for rank in range(4):
            env = read_text(self.path(f"env.{rank}"))
            for line in ("ROLE_NAME=trainer", "TORCHELASTIC_MAX_RESTARTS=7", "LOCAL_WORLD_SIZE=2"):
                self.assertIn(line, env.splitlines())
            self.assertNotIn("PET_", env)

    def test_arguments_arrive_as_they_are(self):
        odd = ["two words", "", "$(touch pwned)", "`id`", "a'b\"c\\", "new\nline", "-x", "--", "*", "!!", "é"]
        program = self.write("show.py", "import json, sys\nprint(json.dumps(sys.argv[1:]))\n")
        run = self.ask(f"--hosts={self.names(1)[0]}", f"--launch-agent={self.agent}", program, *odd)
        import json
        self.assertEqual(json.loads(run.out().split("] ", 1)[1]), odd)
        self.assertFalse(os.path.exists(self.path("pwned")))
        self.assertEqual(re.findall(r"\w+$", self.hosts.started[0]["command"]), ["stdin"])

    def test_no_command_line_has_the_token(self):
        token = "0123456789-this-is-secret"
        names = self.names(2)
        run = self.launch(names, *self.waiting_worker(), environment={"DDPRUN_TOKEN": token})
        self.wait_for_ranks(run, 2)
        for pid in self.mark.living():
            self.assertNotIn(token.encode(), read_bytes(f"/proc/{pid}/cmdline"))
            if pid not in (run.process.pid, run.agent()):  # They got it in their own.
                self.assertNotIn(token.encode(), read_bytes(f"/proc/{pid}/environ"), command_of(pid))
        endpoint = re.search(r"serving the rendezvous at (\S+)", run.err())[1]
        self.assertTrue(self.status(endpoint))  # The server's files are this user's.
        self.write("go", "")
        self.assertEqual(run.wait(), 0, run.all())

    def test_a_worker_fails(self):
        names = self.names(3)
        run = self.launch(names, FAKE_WORKER, "--on-rank=2", "--print-err=no such file", "--exit=7", "--always", "--hang")
        self.assertEqual(run.wait(), 7, run.all())
        self.assertIn(f"[{names[2]}] no such file", run.err())
        self.assertEqual(run.err().count("Root Cause"), 1, run.err())
        # One line for all hosts that say it within half a second (line_merger_test).
        told = re.findall(r"^\[(.*)\] ddprun \| error: the run failed", run.err(), re.M)
        self.assertEqual(sorted(" ".join(told).split()), names, run.err())
        self.assertEqual(self.mark.living(), [])

    def test_signals_go_to_all_hosts(self):
        for number, code in ((signal.SIGINT, 130), (signal.SIGTERM, 143)):
            with self.subTest(number.name):
                run = self.launch(self.names(3), *self.waiting_worker())
                self.wait_for_ranks(run, 3)
                run.signal(number)
                self.assertEqual(run.wait(), code, run.all())
                self.assertEqual(self.mark.living(), [])

    def test_a_signal_before_the_hosts_answer(self):
        self.hosts.behave = lambda host, command: "exec sleep 1000"
        run = self.launch(self.names(3), FAKE_WORKER)
        self.wait_for(lambda: len(self.hosts.connections) == 3, run)  # Their programs have begun.
        run.signal(signal.SIGINT)
        self.assertEqual(run.wait(5), 130, run.all())
        self.mark.kill()  # Programs in ddprun's place, which do not read their input.

    def test_the_launcher_is_killed(self):
        run = self.launch(self.names(3), FAKE_WORKER, HELLO, "--ignore-term", "--grandchild-setsid", "--hang")
        self.wait_for_ranks(run, 3)
        self.run_directory_stays = True
        run.kill_at_once()
        self.assertTrue(eventually(lambda: not self.mark.living(), 10), [command_of(p) for p in self.mark.living()])

    def test_guard_or_agent_of_the_launcher_is_killed(self):
        for victim in (lambda run: run.process.pid, lambda run: run.agent()):
            run = self.launch(self.names(2), *self.waiting_worker())
            self.wait_for_ranks(run, 2)
            os.kill(victim(run), signal.SIGKILL)
            run.process.wait()
            self.assertTrue(eventually(lambda: not self.mark.living(), 10), run.all())
        self.run_directory_stays = True

    def test_the_launchers_host_is_silent(self):
        names = self.names(2)
        run = self.launch(names, *self.waiting_worker())
        ranks = self.wait_for_ranks(run, 2)
        for name in names:
            self.hosts.silence(name)
        for _, pid in ranks.values():
            self.assertTrue(eventually(lambda pid=pid: not read_bytes(f"/proc/{pid}/environ"), 15), run.all())
        self.run_directory_stays = True
        self.assertEqual(run.wait(), 69, run.all())

    def test_an_elastic_run_continues_without_it_and_takes_it_later(self):
        names = self.names(3)
        down = {names[0]}  # Not even the first one is needed.
        self.hosts.behave = lambda host, command: REFUSED.format(host) if host in down else command
        run = self.launch(names, "--nnodes=1:3", "--rdzv-conf=last_call_timeout=0", "--shutdown-timeout=1",
                          *self.waiting_worker())
        first = self.wait_for_ranks(run, 2)
        self.assertEqual({host for host, _ in first.values()}, set(names[1:]))
        self.assertIn(f"cannot reach host {names[0]}: ssh: connect to host {names[0]} port 22: Connection refused (the launch "
                      "agent ended: exit code 255)", run.err())
        self.assertIn(f"serving the rendezvous at {names[1]}:", run.err())
        down.clear()
        self.wait_for_ranks(run, 3)
        self.write("go", "")
        self.assertEqual(run.wait(), 0, run.all())

    @unittest.skipUnless(HOLD_CALLS, "no hold_calls.so")
    def test_a_host_that_begins_as_the_run_ends_is_not_waited_for(self):
        names = self.names(2)
        fifo = self.path("fifo")
        os.mkfifo(fifo)
        shared = self.path("shared")
        os.mkdir(shared)
        held = " ".join(f"{name}={value}" for name, value in held_calls("open:/shared/", fifo).items())
        self.hosts.behave = lambda host, command: f"{held} {command}" if host == names[1] else command
        run = self.launch(names, f"--run-dir={shared}", "--nnodes=1:2", "--rdzv-conf=last_call_timeout=0",
                          *self.waiting_worker())
        self.wait_for_ranks(run, 1)
        self.wait_for(lambda: os.path.exists(fifo + ".held"), run, what="a host that is about to look for the run")
        self.write("go", "")
        self.assertEqual(run.wait(), 0, run.all())

    def test_a_host_is_lost_and_comes_back(self):
        names = self.names(2)
        run = self.launch(names, *self.waiting_worker())
        self.wait_for_ranks(run, 2)
        self.hosts.cut(names[1])
        self.wait_for_text(run, f"lost the connection to host {names[1]}")
        self.wait_for(lambda: max(int(g) for g in re.findall(r"worker \d+ (\d+) ", run.out())) > 1 and
                      len(self.ranks(run)) == 2, run)
        self.write("go", "")
        self.assertEqual(run.wait(), 0, run.all())
        self.run_directory_stays = True

    def test_a_connection_that_breaks_after_the_runs_end_loses_no_host(self):
        until_the_run_ends = self.write("cut.py", "import os, re\nread = piece = b'-'\n"
                                                  "while piece and not re.search(b' run[ 0-9]*\\x1e', read):\n"
                                                  "    piece = os.read(0, 4096)\n    os.write(1, piece)\n    read += piece\n")
        self.hosts.behave = lambda host, command: f"{command} | {sys.executable} -S -E {until_the_run_ends}; exit 255"
        run = self.launch(self.names(2), FAKE_WORKER, "--exit=7", "--always")
        self.assertEqual(run.wait(), 7, run.all())
        self.assertNotIn("lost the connection", run.err())

    def test_the_program_that_answers_is_no_ddprun(self):
        for command, why in (("exit 0", "the launch agent ended: exit code 0"),
                             ("echo hello", "the launch agent ended: exit code 0"),
                             ("/nowhere/ddprun --order-on-stdin", "not found")):
            with self.subTest(command):
                self.hosts.behave = lambda host, _, command=command: command
                run = self.launch(self.names(1), FAKE_WORKER)
                self.assertEqual(run.wait(10), 69, run.all())
                self.assertRegex(run.err(), f"cannot reach host .*{why}")
                self.assertNotIn("hello", run.out())

    def test_the_directory_is_not_there(self):
        os.mkdir(self.path("gone"))
        os.rename(self.path("gone"), self.path("here"))
        run = self.ask(f"--hosts={self.names(1)[0]}", f"--launch-agent={self.agent}", FAKE_WORKER,
                       executable=self.in_a_directory_that_goes(), expect=2)
        self.assertRegex(run.err(), r"cannot enter the launcher's directory '.*': No such file or directory on this host")

    def in_a_directory_that_goes(self):
        """ddprun, started in a directory that the hosts do not find: the stand-in removes it first."""
        place = self.path("place")
        os.mkdir(place)
        self.hosts.behave = lambda host, command: f"rmdir {place}; {command}"
        return self.write("there.sh", f'#!/bin/sh\ncd {place} && exec {os.environ["DDPRUN"]} "$@"\n', 0o755)

    def test_a_flood_in_place_of_a_greeting(self):
        self.hosts.behave = lambda host, command: "head -c 1G /dev/zero; head -c 1G /dev/zero >&2; exit 255"
        run = self.launch(self.names(1), FAKE_WORKER)
        agent = run.agent()
        peaks = [0]

        def ended():
            peaks.extend(map(int, re.findall(r"VmHWM:\s+(\d+)", read_bytes(f"/proc/{agent}/status").decode())))
            return run.process.poll() is not None
        self.wait_for(ended, run, limit=60)
        self.assertEqual(run.wait(), 69, run.all()[-2000:])
        self.assertLess(max(peaks), 1_000_000 if "ASAN_OPTIONS" in os.environ else 100_000)  # kB
        self.assertLess(len(run.err()), 16_000)
        self.assertEqual(run.out(), "")

    def test_without_a_reader(self):
        for again in (False, True):
            with self.subTest("two signals" if again else "one signal"):
                reader, writer = os.pipe()
                begun = self.path(f"begun.{again}")
                run = self.launch(self.names(2), FAKE_WORKER, f"--touch={begun}.%r", "--spew=4", "--hang", out=writer)
                os.close(writer)
                self.wait_for(lambda begun=begun: os.path.exists(f"{begun}.1"), run)
                run.signal(signal.SIGTERM)
                if again:
                    self.wait_for_text(run, "on request")
                    run.signal(signal.SIGINT)
                self.assertIn(run.wait(), (130, 143), run.all())
                self.assertTrue(eventually(lambda: not self.mark.living()), run.all())
                os.close(reader)

    def test_this_machine_needs_no_ssh(self):
        run = self.ask("--hosts=localhost:2", "--launch-agent=false", FAKE_WORKER, HELLO)
        self.assertEqual(len(self.ranks_on_this_machine(run)), 2, run.all())

    def ranks_on_this_machine(self, run):
        return re.findall(r"\[localhost\] worker (\d+) ", run.out())

    def test_dry_run(self):
        names = self.names(2)
        run = self.ask(f"--hosts={names[0]},u@{names[1]}:2", "--dry-run", "train.py", "a b",
                       environment={"DDPRUN_TOKEN": "0123456789-this-is-secret"})
        self.assertIn(f"ssh -x -o BatchMode=yes -o ConnectTimeout=10 -o ServerAliveInterval=5 -o ServerAliveCountMax=2 "
                      f"u@{names[1]} '", run.out())
        self.assertRegex(run.out(), r"--nnodes=2 --rdzv-id=run-\w+ --rdzv-endpoint=\S+ --node-rank=1 --nproc-per-node=2 "
                                    r"--restart-backoff=0 -- train.py 'a b'\n")
        self.assertNotIn("secret", run.out())
        self.assertEqual(self.hosts.started, [])


class BadInput(HostsTest):
    def refused(self, text, *arguments):
        run = self.ask(*arguments, f"--launch-agent={self.agent}", FAKE_WORKER, expect=2)
        self.assertIn(text, run.err())
        self.assertEqual(self.hosts.started, [])
        return run

    def test_flags_that_contradict_hosts(self):
        self.refused("--hosts: no host is named", "--hosts=")
        hostfile = self.write("hosts", "n1 slots=3 max_slots=2\n")
        self.refused("--hostfile: host n1 has 3 slots, but at most 2 are allowed", f"--hostfile={hostfile}")
        self.refused("--hostfile: cannot open '/no/file'", "--hostfile=/no/file")
        self.refused("but --hostfile names 1 host", "--nnodes=2", f"--hostfile={self.write('one', 'n1')}")
        self.refused("a host must be NAME", "--hosts=n1,-oProxyCommand=x")
        self.refused("exclude each other", "--hosts=n1", "--hostfile=x")
        self.refused("--nnodes=3 needs 3 nodes, but --hosts names 1 host", "--hosts=n1", "--nnodes=3")
        self.refused("--nnodes=1 is for one node", "--hosts=n1,n2", "--nnodes=1")
        run = self.ask("--hosts=n1", "--launch-agent= ", FAKE_WORKER, expect=2)
        self.assertIn("--launch-agent names no command", run.err())
        for flag in ("--node-rank=0", "--standalone", "--local-addr=x", "--master-addr=x", "--master-port=1"):
            self.refused(f"{flag.split('=')[0]} excludes --hosts", "--hosts=n1,n2", flag)

    def test_the_launch_agent_is_missing(self):
        run = self.ask("--hosts=n1", "--launch-agent=no-such-ssh -x", FAKE_WORKER, expect=2)
        self.assertRegex(run.err(), r"program 'no-such-ssh' was not found in .* \(--launch-agent\)")

    def test_an_order_that_is_none(self):
        with open(self.write("no_order", "GET / HTTP/1.0\r\n\r\n"), "rb") as file:
            import subprocess
            done = subprocess.run([os.environ["DDPRUN"], "--order-on-stdin"], stdin=file, capture_output=True,
                                  env=self.environment, timeout=30, check=False)
        self.assertEqual(done.returncode, 2)
        self.assertIn(b"has no order of `ddprun --hosts` of this release", done.stderr)
