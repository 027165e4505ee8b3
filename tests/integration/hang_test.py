"""Hung workers: the blamed rank, the end of the run, and the stacks it leaves."""

import glob
import json
import os
import resource
import tarfile

from ddprun_runs import FAKE_WORKER, HELLO, DdprunTest, read_text

# Rank 1 stops at step 5, the others at 8.
LAG = ("--notify=READY=1", "--on-rank=1", "--steps=5", "--hang", "--always", "--steps=8", "--hang")


class Hangs(DdprunTest):
    def setUp(self):
        super().setUp()
        self.logs = self.path("logs")

    def of_the_run(self, *names):
        (run,) = os.listdir(self.logs)
        return os.path.join(self.logs, run, *names)

    def failure(self):
        return json.loads(read_text(self.of_the_run("failure.json")))

    def hung(self, *arguments, flags=(), environment=None):
        return self.run_ddprun("--nproc-per-node=2", "--hang-timeout=2s",
                               f"--log-dir={self.logs}", *flags, FAKE_WORKER, *arguments,
                               expect=124, environment=environment, limit=60)

    def keep(self, expect):
        return self.ask("stacks", "--keep", "--rank=1", expect=expect)

    def test_a_start_that_takes_too_long_is_a_hang(self):
        program = self.write("w.sh", "read never < fifo\n")
        os.mkfifo(self.path("fifo"))
        run = self.run_ddprun("--nproc-per-node=2", "--start-timeout=1s", "--progress-from=auto",
                              f"--log-dir={self.logs}", "sh", program, expect=124, limit=60)
        self.assertRegex(run.err(), r"the workers hang: no step and no collective within 1\.0 s of its start "
                                    r"\(--start-timeout; all 2 ranks alike\)")
        self.assertIn("stacks of rank 0 ", read_text(self.failure()["root_cause"]["stacks"]))

    def test_the_rank_that_lags_is_blamed_and_its_stacks_are_kept(self):
        run = self.hung(*LAG, flags=("--redirects=2",))
        self.assertRegex(run.err(), r"the run failed: rank 1 \(local rank 1, pid \d+, host \S+\) "
                                    r"hung: no step for 2.0 s \(its peers are at step 8, it is at "
                                    r"step 5\); no restarts are allowed")
        told = self.failure()
        self.assertEqual((told["exit_code"], told["hang"]["rank"]), (124, 1))
        self.assertEqual(told["root_cause"]["exitcode"], -9)
        stacks = read_text(told["root_cause"]["stacks"])
        self.assertIn(f"  stacks    : {told['root_cause']['stacks']}\n", run.err())
        self.assertRegex(stacks, r"== stacks of rank 1 \(pid \d+\)\n-- process \d+:\n(.*\n)*?thread \d+ "
                                 r"\(fake_worker\): state S")
        # Every rank's, and in its log; beside them all else that is known.
        bundle = os.path.dirname(told["root_cause"]["stacks"])
        self.assertEqual(os.path.basename(bundle), "evidence-1")
        for rank in (0, 1):
            self.assertIn(f"stacks of rank {rank} ", read_text(os.path.join(bundle, f"rank-{rank}.stacks.txt")))
            self.assertIn(f"stacks of rank {rank} ",
                          read_text(os.path.join(bundle, "..", "attempt_0", str(rank), "stderr.log")))
        verdict = read_text(os.path.join(bundle, "verdict.txt")).splitlines()
        self.assertRegex(verdict[0], r"^rank 1 \(local rank 1, host \S+\) hung: no step for 2\.0 s")
        self.assertRegex(verdict[1], r"^the run failed: rank 1 ")
        (node,) = [name for name in os.listdir(bundle) if name.startswith("node-")]
        self.assertRegex(read_text(os.path.join(bundle, node)), r"rank 1 \(pid \d+\): State:")
        kinds = [json.loads(line)["kind"] for line in read_text(os.path.join(bundle, "events.jsonl")).splitlines()]
        self.assertEqual(kinds, ["formed", "started", "hung"])
        self.assertIn("evidence of the hang (stacks, torch's flight recorder, last lines) is in " + bundle, run.err())
        packed = self.path("packed.tar.gz")
        self.ask("report", f"--file={packed}", self.of_the_run())
        with tarfile.open(packed) as archive:
            names = [member.name.partition("/")[2] for member in archive]
        for wanted in ("verdict.txt", "state.json", "events.jsonl", "rank-0.stacks.txt", "rank-1.stacks.txt"):
            self.assertIn("evidence-1/" + wanted, names)

    def test_a_python_without_anything_prints_where_it_stands(self):
        self.write("hangs.py", "import os, signal, socket\n"
                               "s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)\n"
                               "s.sendto(b'STEP=1', os.environ['DDPRUN_NOTIFY_SOCKET'])\n"
                               "def stands_here():\n    signal.pause()\nstands_here()\n")
        soft, hard = resource.getrlimit(resource.RLIMIT_CORE)
        resource.setrlimit(resource.RLIMIT_CORE, (hard, hard))  # Its memory is none of that.
        self.addCleanup(resource.setrlimit, resource.RLIMIT_CORE, (soft, hard))
        run = self.run_ddprun("--nproc-per-node=2", "--preload=none", "--hang-timeout=1s", f"--log-dir={self.logs}",
                              self.path("hangs.py"), expect=124, limit=60,
                              environment={"PATH": "/usr/bin:/bin", "PYTHON_EXEC": "/usr/bin/python3"})
        bundle = self.of_the_run("evidence-1")
        for rank in (0, 1):
            self.assertIn("in stands_here", read_text(os.path.join(bundle, f"rank-{rank}.lines.txt")))
        self.assertIn("is in " + bundle, run.err())
        self.assertIn("\n  stands at : hangs.py:5 in stands_here\n", run.err())
        self.assertEqual(glob.glob(self.path("core*")) + glob.glob("core*"), [])

    def test_stacks_that_cannot_be_written_lose_nothing_else(self):
        held = self.start("-c", "exec sleep 1000", executable="/bin/sh")
        os.mkdir(self.path("taken"))
        open(self.path("also"), "w").close()
        asked = self.ask("stacks", "--into", self.path("taken"), "--also", self.path("also"), str(held.process.pid), expect=1)
        self.assertIn("taken", asked.err())
        self.assertRegex(read_text(self.path("also")), r"state [RS]")  # It may not sleep yet.
        held.signal(9)
        held.wait()

    def test_on_hang_observe_tells_and_touches_nothing(self):
        run = self.start("--nproc-per-node=2", "--hang-timeout=1s", "--on-hang=observe",
                         f"--log-dir={self.logs}", FAKE_WORKER, *LAG)
        self.wait_for(lambda: "the run continues (--on-hang=observe" in run.err(), run)
        self.assertRegex(run.err(), r"rank 1 \(local rank 1, host \S+\) hung: no step for 1\.0 s")
        self.assertIsNone(run.process.poll())
        verdict = self.of_the_run("evidence-1", "verdict.txt")
        self.wait_for(lambda: os.path.exists(verdict), run)
        bundle = os.path.dirname(verdict)
        self.wait_for(lambda: "is in " + bundle in run.err(), run)
        self.assertEqual(glob.glob(os.path.join(bundle, "node-*")), [os.path.join(bundle, f"node-{os.uname()[1]}.txt")])
        for rank in (0, 1):
            self.assertIn("state S", read_text(os.path.join(bundle, f"rank-{rank}.stacks.txt")))
        self.assertIsNone(run.process.poll())
        self.assertEqual(self.keep(0).out(), f"kept in {bundle}: rank 1\n")
        # Its stacks alone cannot be written; then nothing can, as on a full disk.
        stacks = os.path.join(bundle, "rank-1.stacks.txt")
        os.remove(stacks)
        os.mkdir(stacks)
        kept = self.keep(1)
        self.assertEqual(kept.out(), "")
        self.assertIn(f"rank 1: some of its evidence was not kept: cannot write '{stacks}'", kept.err())
        os.rmdir(stacks)
        before = resource.prlimit(run.agent(), resource.RLIMIT_FSIZE)
        resource.prlimit(run.agent(), resource.RLIMIT_FSIZE, (0, before[1]))
        kept = self.keep(1)
        self.assertEqual(kept.out(), "")
        self.assertRegex(kept.err(), r"rank 1: some of its evidence was not kept: .*File too large")
        resource.prlimit(run.agent(), resource.RLIMIT_FSIZE, before)
        self.assertIsNone(run.process.poll())
        self.terminate(run)
        self.assertEqual(run.err().count("the run continues"), 1)

    def test_a_dump_that_torch_made_before_it_ended_a_worker_is_in_the_bundle(self):
        self.write("watchdog.sh", '#!/bin/sh\necho a pickle > "${DDPRUN_NOTIFY_SOCKET%/*}/fr_$RANK"\nexit 3\n', 0o700)
        self.run_ddprun("--no-python", f"--log-dir={self.logs}", self.path("watchdog.sh"), expect=3)
        self.assertEqual(read_text(self.of_the_run("evidence-1", "rank_0")), "a pickle\n")
        self.assertEqual([left for left in os.listdir(self.of_the_run()) if "notify" in left], [])

    def test_it_uses_a_restart_and_the_workers_start_again(self):
        run = self.run_ddprun("--nproc-per-node=2", "--hang-timeout=2s", "--max-restarts=1",
                              FAKE_WORKER, HELLO, "--on-restart=1", "--exit=0", "--always", *LAG,
                              limit=60)
        self.assertEqual(run.generations(), [1, 2])
        self.assertRegex(run.err(), r"restarting all workers \(1 of 1\): rank 1 \(.*\) hung: no step")
        # No files were asked for, so the one to look at is shown, line by line.
        self.assertRegex(run.err(), r"\n== stacks of rank 1 \(pid \d+\)\n-- process \d+:\n(-- gdb:|thread \d+ )")
        self.assertNotIn("\\n", run.err())

    def test_gdbs_names_are_demangled_here(self):
        """gdb demangles the names of all libraries before it begins, which takes it seconds with torch."""
        self.write(self.path("bin", "gdb"), "#!/bin/sh\necho \"$@\"\n"
                   "echo '#0  0x01 in _ZN5torch3RunEi () from libtorch.so'\necho '#1  0x02 in main () at _Z.cc:3'\n", 0o755)
        held = self.start("-c", "exec sleep 1000", executable="/bin/sh")
        told = self.ask("stacks", str(held.process.pid), environment={
            "PATH": self.path("bin") + ":" + os.environ["PATH"]}).out()
        self.assertRegex(told, r"(?m)^-nx .*set demangle-style none .*\n#0  0x01 in torch::Run\(int\) \(\) from libtorch\.so\n"
                               r"#1  0x02 in main \(\) at _Z\.cc:3\n-- the kernel's view:\nthread ")
        held.signal(9)
        held.wait()

    def test_a_tool_that_floods_or_is_slow_is_not_waited_for(self):
        for body, words in (("exec yes a frame of $$", r"prints more than 256 KiB: stopped"),
                            ("echo a frame of $$; exec sleep 1000",
                             r"-- gdb:\na frame of \d+\n\(gdb took too long: stopped\)\n"
                             r"-- the kernel's view:\nthread \d+ "),
                            ("echo $$ >&2; exec >&- 2>&-; exec sleep 1000", r"-- gdb:\n\d+\n")):
            with self.subTest(body):
                self.write(self.path("bin", "gdb"), "#!/bin/sh\n" + body + "\n", 0o755)
                held = self.start("-c", "exec sleep 1000", executable="/bin/sh")
                asked = self.ask("stacks", "--limit=1s", str(held.process.pid), environment={
                    "PATH": self.path("bin") + ":" + os.environ["PATH"]}, limit=60)
                self.assertRegex(asked.out(), words)
                held.signal(9)
                held.wait()
