"""A disk, a name server or the store's thread that does not answer: the agent continues its work."""

import glob
import os
import re
import signal
import socket
import struct

from ddprun_runs import FAKE_WORKER, HELLO, DdprunTest, command_of, held_calls, read_text


class HeldDisk(DdprunTest):
    def setUp(self):
        super().setUp()
        self.fifo = self.path("fifo")
        os.mkfifo(self.fifo)

    def hold(self, what):
        """The environment of a ddprun that waits in this call."""
        return held_calls(what, self.fifo)

    def wait_until_held(self, *runs):
        self.wait_for(lambda: os.path.exists(self.fifo + ".held"), *runs, what="the call that is held")

    def let_go(self):
        # It stays open, so that no process waits there any more.
        self.addCleanup(os.close, os.open(self.fifo, os.O_RDWR))

    def living_workers(self):
        return [pid for pid in self.mark.living() if command_of(pid).startswith(FAKE_WORKER)]

    def logs(self):
        return f"--log-dir={self.path('logs')}"

    def replaces_its_worker_and_obeys(self, run, codes=(143,)):
        """While something is held."""
        self.replace_a_worker(run)
        run.signal(signal.SIGTERM)
        self.assertIn(run.wait(), codes, run.all())
        self.assertEqual(self.mark.living(), [])

    def node(self, rank, *actions, hold=None, flags=()):
        return self.start(
            "--nnodes=2", f"--node-rank={rank}", f"--master-addr={self.endpoint.split(':')[0]}",
            f"--master-port={self.endpoint.split(':')[1]}", f"--log-dir={self.path(f'logs{rank}')}", *flags,
            FAKE_WORKER, HELLO, *actions, environment=hold)

    # No other test would find it: the run is over before a slow disk has taken it.
    def test_evidence_of_the_last_failure_is_waited_for(self):
        run = self.start(self.logs(), FAKE_WORKER, "--exit=3", environment=self.hold("open:/evidence-1/node-"))
        self.wait_until_held(run)
        self.assertNotIn("the run failed", run.err())
        self.let_go()
        self.assertEqual(run.wait(), 3, run.all())
        (bundle,) = re.findall(r"\nevidence  : (\S+)\n", run.err())
        self.assertEqual(len(glob.glob(os.path.join(bundle, "node-*.txt"))), 1, os.listdir(bundle))

    def test_a_directory_that_cannot_be_made_yet(self):
        run = self.start(self.logs(), "--nproc-per-node=2", FAKE_WORKER, HELLO, "--hang",
                         environment=self.hold("mkdir:attempt_0/1"))
        self.wait_until_held(run)
        self.wait_for_text(run, r"the workers are not started yet: making '\S+/attempt_0/1' takes longer")
        asked = self.ask("status")
        self.assertRegex(asked.out(), r"waiting until the workers are started on \S+, which takes longer")
        self.assertRegex(asked.out(), r"(?m)\bstarting\b")
        self.terminate(run)
        self.assertIn("got SIGTERM: the workers are not started yet; cancelling their start\n", run.err())
        self.assertEqual(run.workers(), {})

    # Nor does the worker wait, which has others that wait for it.
    def test_a_log_that_cannot_be_written(self):
        done = self.path("done")
        run = self.start(self.logs(), "-t1", FAKE_WORKER, HELLO, "--spew=4", f"--touch={done}", "--print=end",
                         "--hang", environment=self.hold("write:stdout.log"))
        self.wait_until_held(run)
        self.wait_for(lambda: os.path.exists(done), run, what="the worker's end", limit=60)
        self.assertRegex(run.err(), r"the workers' output to \S+/stdout.log is not written: its file system is not responding")
        self.let_go()
        self.wait_for_text(run, r"the file system of \S+/stdout.log responds again; (\d+) bytes of output are missing there")
        (log,) = glob.glob(self.path("logs/*/attempt_0/0/stdout.log"))
        self.wait_for(lambda: "bytes of output are missing here: the file system did not respond\n" in read_text(log), run)
        shown = [int(line) for line in re.findall(r"line (\d+) END", run.out())]
        self.assertEqual(shown, list(range(len(shown))))  # All of it on the console.
        self.terminate(run)

    # The first worker runs already.
    def test_a_program_whose_disk_hangs(self):
        run = self.start("--nproc-per-node=3", FAKE_WORKER, HELLO, "--ignore-term", "--grandchild-setsid",
                         "--hang", environment=self.hold("execve:LOCAL_RANK=1"))
        self.wait_until_held(run)
        self.wait_for_text(run, "the workers are not started yet: executing '")
        self.wait_for(lambda: len(self.living_workers()) >= 2, run, what="worker and child")
        self.terminate(run)
        self.assertEqual(self.mark.living(), [])

    # The first worker's output is kept, though no place was given.
    def test_logs_of_a_worker_that_ran_before_the_start_was_given_up(self):
        logs = os.path.join(self.path("tmp"), "torchelastic_*", "**", "0", "stdout.log")
        kept = lambda: any("words\n" in read_text(path) for path in glob.glob(logs, recursive=True))
        run = self.start("--nproc-per-node=2", "-r", "3", FAKE_WORKER, HELLO, "--print=words", "--hang",
                         environment=self.hold("execve:LOCAL_RANK=1"))
        self.run_directory_stays = True
        self.wait_until_held(run)
        self.wait_for(kept, run, what="the first worker's words")
        self.terminate(run)
        self.assertTrue(kept())

    # Its lease is renewed, and when the other node fails it joins the next generation; the disk's
    # answer about the one before is nothing any more.
    def test_a_generation_that_is_given_up_never_comes_to_life(self):
        server = self.node(0, *self.fails_once()[2:], flags=["--max-restarts=1"])
        held = self.node(1, "--hang", flags=["--max-restarts=1"],
                         hold=self.hold("mkdir:attempt_0/0"))
        self.wait_until_held(server, held)
        [first] = self.wait_for_workers(server, 1).values()
        generation = server.generations()[-1]
        self.wait_for_renewals(self.endpoint, "node1", server, held)
        self.assertNotIn("is lost", server.all())
        open(self.go, "w").close()
        newer = self.wait_for(lambda: [g for g in held.generations() if g > generation], server, held,
                              what="the next generation")
        self.let_go()
        [second] = self.wait_for_workers(server, 1, newer[0]).values()
        self.assertNotEqual(first, second)
        self.assertEqual(len(self.living_workers()), 2)
        server.signal(signal.SIGINT)
        self.assertEqual([server.wait(), held.wait()], [130, 130], server.all() + held.all())
        self.assertEqual(held.generations(), newer)

    # Of the node that also hosts the server. A client that reaches the store decides how long an
    # iteration of its thread takes.
    def test_the_store_stands_still(self):
        about = self.path("environment")
        server = self.node(0, f"--env-file={about}", "--hang", hold=self.hold("recv:hold-it"))
        other = self.node(1, "--hang")
        self.wait_for_workers(server, 1)
        store = self.environment_of(about)
        client = socket.create_connection((store["MASTER_ADDR"], int(store["MASTER_PORT"])), 10)
        self.addCleanup(client.close)
        client.sendall(b"\0" + struct.pack("<I", 0x3C85F7CE) + b"\4" + struct.pack("<Q", 7) + b"hold-it")
        self.wait_until_held(server, other)
        self.wait_for_renewals(self.endpoint, "node0", server, other)
        server.signal(signal.SIGTERM)
        self.wait_for_text(server, "this node has finished, but still hosts the rendezvous for 1 other node")
        self.wait_for(lambda: not self.living_workers(), server, other, what="the end of the workers")
        self.terminate(other)
        self.let_go()
        self.assertEqual(server.wait(), 143, server.all())
        self.assertNotIn("is lost", server.all())

    def takes_over_while_held(self, what, *flags):
        """A node that could have been the first to serve; its operation then is held."""
        shared = f"--run-dir={self.path('shared')}"
        server = self.start("rendezvous", f"--listen={self.free_endpoint()}", shared)
        self.wait_for_text(server, "serving the rendezvous at")
        os.remove(self.fifo)
        with socket.socket() as probe:
            probe.bind(("localhost", 0))
            port = probe.getsockname()[1]
        node = self.start("--nnodes=1:2", shared, f"--rdzv-endpoint=localhost:{port}", *flags,
                          "--local-addr=127.0.0.1", "--rdzv-conf=last_call_timeout=0.1", FAKE_WORKER, HELLO,
                          "--hang", environment=self.hold(what))
        workers = self.wait_for_workers(node, 1)
        os.mkfifo(self.fifo)
        server.signal(signal.SIGKILL)
        server.wait()
        self.wait_until_held(node)
        self.wait_for_text(node, r"serving the rendezvous at \S+:\d")
        self.assertEqual(node.workers(), workers)
        return node, port

    # It has to look its endpoint's name up again.
    def test_a_name_server_that_is_silent_at_a_takeover(self):
        node, port = self.takes_over_while_held("getaddrinfo:localhost")
        self.assertIn(f"serving the rendezvous at 127.0.0.1:{port}", node.err())
        self.terminate(node)

    # A network file system writes back what it holds.
    def test_a_log_that_cannot_be_closed(self):
        run = self.start(self.logs(), "--tee=3", "--max-restarts=1", *self.fails_once(),
                         environment=self.hold("close:attempt_0/0/stdout.log"))
        self.replaces_its_worker_and_obeys(run)
        self.assertTrue(os.path.exists(self.fifo + ".held"))

    def test_a_schedulers_command_whose_disk_hangs(self):
        programs = self.path("programs")
        os.mkdir(programs)
        os.symlink("/bin/true", os.path.join(programs, "squeue"))
        run = self.start(self.logs(), "--stop-before=5m", "--max-restarts=1", *self.fails_once(), environment={
            **self.hold("program:/squeue"), "PATH": programs + ":" + self.environment["PATH"],
            "SLURM_JOB_ID": "7", "SLURM_JOB_NUM_NODES": "1", "SLURM_JOB_NODELIST": "n00",
            "SLURMD_NODENAME": "n00"})
        self.wait_until_held(run)
        self.replaces_its_worker_and_obeys(run, (75, 143))  # Of Slurm; it has hardly begun.

    # ddprun itself, which takes the stacks of hung workers.
    def test_the_programs_own_disk_hangs(self):
        run = self.start("--hang-timeout=1s", FAKE_WORKER, HELLO, "--notify=STEP=3", "--hang",
                         environment=self.hold("program:/proc/self/exe"))
        self.wait_until_held(run)
        self.assertEqual(run.wait(), 124, run.all())
        self.assertEqual(self.mark.living(), [])

    # The guard removes it once the agent could not.
    def test_a_temporary_directory_that_cannot_be_removed(self):
        run = self.start(FAKE_WORKER, HELLO, "--hang", environment=self.hold("openat:tmp/ddprun_run-"))
        self.wait_for_workers(run, 1)
        self.run_directory_stays = True
        run.signal(signal.SIGTERM)
        self.wait_until_held(run)
        self.assertEqual(run.wait(), 143, run.all())
        self.assertEqual(self.mark.living(), [])
        [left] = os.listdir(self.path("tmp"))
        self.assertIn(f"/{left}' is left behind: removing it takes too long (is its file system responding?)", run.err())

    def answers_while_it_reports(self):
        """A node that hosts the rendezvous cannot write how its run failed."""
        self.endpoint = self.free_endpoint()
        server = self.node(0, "--exit=4", hold=self.hold("open:/failure.json"))
        other = self.node(1, "--hang")
        self.wait_until_held(server, other)
        answered = self.status(self.endpoint) is not None
        # The limit is kDiskLimit of launcher/end/run_failure.cc, and no lease.
        in_time = answered and "takes longer than 1.0 s" not in server.err()
        self.assertEqual(other.wait(), 4, server.all() + other.all())
        server.signal(signal.SIGTERM)
        self.assertEqual(server.wait(), 4, server.all())
        self.let_go()
        self.assertRegex(server.err(), r"the run failed: [^\n]*\n(.*\n)*.* takes longer than 1.0 s [^\n]*\n"
                                       r"[^\n]*logs are in [^\n]*\n=+\n(.*\n)*[^\n]*Root Cause(.*\n)*=+\n")
        for path in (self.fifo, self.fifo + ".held"):
            os.remove(path)
        os.mkfifo(self.fifo)
        return in_time

    # It answers others meanwhile. The machine may stand still for that second, but not each time.
    def test_how_the_run_failed_cannot_be_written(self):
        self.assertTrue(any(self.answers_while_it_reports() for _ in range(5)))

    # A started operation goes with the agent, and it with its guard.
    def test_the_guard_is_killed_while_a_program_hangs(self):
        run = self.start("--nproc-per-node=2", FAKE_WORKER, HELLO, "--hang",
                         environment=self.hold("execve:LOCAL_RANK=1"))
        self.run_directory_stays = True
        self.wait_until_held(run)
        run.signal(signal.SIGKILL)
        run.wait()
        self.assert_gone(10)
