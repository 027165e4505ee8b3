"""The files of a run in its directory, for any end and any disk, and `ddprun report` of it."""

import glob
import json
import os
import signal
import subprocess
import tarfile
import unittest

from ddprun_runs import (
    DDPRUN, FAKE_WORKER, HELLO, HOLD_CALLS, LIMIT, DdprunTest, held_calls, read_text)

STEPS = ("--notify=READY=1\nPHASE=train", "--step-ms=10", "--steps=100000")
UNTIL = "until it can be written"
SECRET = "a token that nobody guesses"


class Evidence(DdprunTest):
    def launch(self, *arguments, flags=(), **more):
        return self.start(f"--log-dir={self.path('logs')}", f"--rdzv-id={self.run_id}", *flags,
                          FAKE_WORKER, HELLO, *arguments, **more)

    def run_directory(self):
        (name,) = os.listdir(self.path("logs"))
        return self.path("logs", name)

    def report_page(self):
        return os.path.join(self.run_directory(), "report.html")

    def wait_for_step(self, run, step=1):
        self.wait_for(lambda: (told := self.status()) and told["step"] >= step, run, what=f"step {step}")

    def report(self, *arguments, expect=0, cwd=None):
        done = subprocess.run([DDPRUN, "report", *arguments], env=self.environment, capture_output=True,
                              text=True, timeout=LIMIT, cwd=cwd or self.here())
        self.assertEqual(done.returncode, expect, done.stdout + done.stderr)
        return done

    def here(self):
        os.makedirs(self.path("here"), exist_ok=True)
        return self.path("here")

    def packed(self, archive):
        with tarfile.open(archive) as tar:
            return {member.name.split("/", 1)[1]: tar.extractfile(member).read() for member in tar}


class AtItsEnd(Evidence):

    # How it ended is unknown; its events up to then are there.
    def test_a_run_whose_agent_was_killed(self):
        run = self.launch(*STEPS)
        self.wait_for_step(run)
        os.kill(run.agent(), signal.SIGKILL)
        self.assertEqual(run.wait(), 137, run.all())
        self.assertFalse(os.path.exists(self.report_page()))
        self.report(self.run_directory())
        inside = self.packed(self.path("here", f"ddprun-report-{self.run_id}.tar.gz"))
        self.assertIn(b"formed generation 1", inside["events.jsonl"])
        self.assertIn(b"No server of the run answered", inside["MANIFEST"])

    # Only a request to end makes the failures that follow its consequence.
    def test_of_a_worker_that_fails_after_a_signal_was_passed_on(self):
        run = self.launch(f"--touch={self.path('ready')}", "--hang")
        self.wait_for(lambda: os.path.exists(self.path("ready")), run)
        run.signal(signal.SIGUSR1)
        self.assertEqual(run.wait(), 128 + signal.SIGUSR1, run.all())
        (facts,) = glob.glob(os.path.join(self.run_directory(), "evidence-1", "node-*.txt"))
        self.assertIn(f"\nlogs: {self.run_directory()}/attempt_0\n", read_text(facts))

    @unittest.skipUnless(HOLD_CALLS, "no hold_calls.so")
    def test_a_disk_that_hangs_holds_nothing_up(self):
        os.mkfifo(self.path("fifo"))
        run = self.launch(*STEPS, environment=held_calls("open:report.html", self.path("fifo")))
        self.wait_for_workers(run, 1)
        self.terminate(run)
        self.assertEqual(run.err().count(UNTIL), 1, run.err())
        self.assertRegex(run.err(), f"report.html' takes longer than .*{UNTIL}")
        self.assertFalse(os.path.exists(self.report_page()))
        self.assertIn("ended", read_text(os.path.join(self.run_directory(), "events.jsonl")))

    def test_a_start_that_used_no_restart_has_the_number_of_its_generation(self):
        flags = ("--nnodes=1:2", f"--rdzv-endpoint={self.endpoint}", "--rdzv-conf=last_call_timeout=0")
        first = self.launch("--hang", flags=flags)
        self.wait_for_workers(first, 1)
        second = self.start(*flags, f"--rdzv-id={self.run_id}", FAKE_WORKER, "--hang")
        self.wait_for(lambda: "attempt_0.2" in os.listdir(self.run_directory()), first)
        self.terminate(second)
        self.terminate(first)


class Packed(Evidence):
    def test_of_a_run_that_is_over(self):
        run = self.launch("--print=hello", "--print-err=oh", flags=("-r", "3", "--nproc-per-node=2"))
        self.assertEqual(run.wait(), 0, run.all())
        for name in ("token", "page", "key.pem"):
            self.write(os.path.join(self.run_directory(), name), SECRET)
        os.mkfifo(os.path.join(self.run_directory(), "attempt_0", "0", "stacks.txt"))
        os.symlink(self.path("logs"), os.path.join(self.run_directory(), "attempt_1"))
        told = self.report(self.run_directory()).stdout
        archive = self.path("here", f"ddprun-report-{self.run_id}.tar.gz")
        self.assertIn(os.path.basename(archive), told)
        inside = self.packed(archive)
        for name in ("report.html", "events.jsonl", "attempt_0/1/stdout.log"):
            self.assertIn(name, inside)
        self.assertIn(b"hello", inside["attempt_0/1/stdout.log"])
        self.assertIn(b"key.pem: not one of ddprun's files", inside["MANIFEST"])
        self.assertIn(b"attempt_0/0/stacks.txt: not an ordinary file", inside["MANIFEST"])
        self.assertFalse(any(SECRET.encode() in bytes_ for bytes_ in inside.values()))
        # A file that is there already stays, unless it is named.
        before = os.stat(archive).st_ino
        self.assertIn("exists already", self.report(self.run_directory(), expect=1).stderr)
        self.assertEqual(os.stat(archive).st_ino, before)
        told = json.loads(self.report(self.run_directory(), f"--file={archive}", "-o", "json").stdout)
        self.assertEqual((told["file"], told["files"]), (archive, len(inside) - 1))  # Beside its MANIFEST.
        self.assertNotEqual(os.stat(archive).st_ino, before)
        self.assertEqual(os.listdir(self.path("here")), [os.path.basename(archive)])

    def test_of_the_run_that_is_running_here(self):
        run = self.start("--nnodes=1:2", f"--rdzv-endpoint={self.free_endpoint()}", f"--rdzv-id={self.run_id}",
                         "--rdzv-conf=last_call_timeout=0", f"--log-dir={self.path('logs')}", "-r", "3",
                         FAKE_WORKER, HELLO, *STEPS, environment={"DDPRUN_TOKEN": SECRET})
        self.wait_for_step(run)
        self.assertIn(SECRET, read_text(os.path.join(self.run_directory(), "token")))
        self.report()
        inside = self.packed(self.path("here", f"ddprun-report-{self.run_id}.tar.gz"))
        self.assertEqual(json.loads(inside["status.json"])["phase"], "running")
        self.assertIn(b"training: step", inside["report.html"])
        self.assertIn("attempt_0/0/stdout.log", inside)
        self.assertFalse(any(SECRET.encode() in bytes_ for bytes_ in inside.values()))
        self.terminate(run)
        self.assertIn("ddprun report DIR", self.report(expect=69).stderr)

    # All of them change under the archive's hands.
    def test_files_that_grow_meanwhile(self):
        run = self.launch("--print-raw=" + "x" * 4000, "--spew=64", "--hang", flags=("-r", "3", "--nproc-per-node=2"))
        self.wait_for(lambda: glob.glob(self.path("logs", "*", "attempt_0", "*", "stdout.log")), run)
        for i in range(5):
            self.report(self.run_directory(), f"--file={i}.tar.gz")
            for bytes_ in self.packed(self.path("here", f"{i}.tar.gz")).values():
                self.assertLessEqual(len(bytes_), 16 << 20)
        self.terminate(run)
