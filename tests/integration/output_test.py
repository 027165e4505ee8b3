"""Where the workers' lines go: prefixes, filters, temporary logs, a flood, a full disk."""

import json
import os
import re
import shutil
import subprocess
import unittest

from ddprun_runs import DDPRUN, FAKE_WORKER, HELLO, DdprunTest, read_text

TWO = "--nproc-per-node=2"


class Output(DdprunTest):
    def attempt(self, *names):
        (name,) = os.listdir(self.path("logs"))
        return self.path("logs", name, "attempt_0", *names)

    def test_the_prefix_template(self):
        template = "<${role_name} ${local_rank} ${rank}>"
        for arguments, environment in (
                ([f"--log-line-prefix-template={template}"], {}),
                ([], {"TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE": template})):
            run = self.run_ddprun(TWO, "--role=r", f"--log-dir={self.path('logs')}", "-t", "1",
                                  *arguments, FAKE_WORKER, "--print=x", "--print-err=bare",
                                  environment=environment)
            self.assertEqual(sorted(run.out().splitlines()), ["<r 0 0>x", "<r 1 1>x"])
            self.assertEqual(run.err(), "bare\nbare\n", "a stream that is not teed has no prefix")

    def test_a_log_directory_alone_keeps_all_output_and_changes_none(self):
        printing = [FAKE_WORKER, "--print=I am %r", "--print-err=to err"]
        for i, (workers, flags) in enumerate(((1, []), (2, []), (2, ["--local-ranks-filter=1"]))):
            with self.subTest(workers=workers, flags=flags):
                flags = [f"--nproc-per-node={workers}", *flags]
                bare = self.run_ddprun(*flags, *printing)
                logs = self.path(f"logs{i}")
                kept = self.run_ddprun(*flags, f"--log-dir={logs}", *printing)
                for stream in ("out", "err"):
                    lines = [sorted(getattr(run, stream)().splitlines()) for run in (bare, kept)]
                    self.assertEqual(*lines)
                (name,) = os.listdir(logs)
                for rank in map(str, range(workers)):
                    self.assertEqual(read_text(os.path.join(logs, name, "attempt_0", rank, "stdout.log")),
                                     f"I am {rank}\n")
                    self.assertEqual(read_text(os.path.join(logs, name, "attempt_0", rank, "stderr.log")), "to err\n")
        for flag in ("-r", "-t"):
            self.run_ddprun(f"--log-dir={self.path('logs')}", flag, "0", *printing)
            self.assertFalse(os.path.exists(self.attempt("0", "stdout.log")))
            shutil.rmtree(self.path("logs"))

    def test_local_ranks_filter(self):
        run = self.run_ddprun(TWO, f"--log-dir={self.path('logs')}", "-t", "3",
                              "--local-ranks-filter=1", FAKE_WORKER, "--print=I am %r", "--print-err=to err")
        self.assertEqual(run.out(), "[default1]:I am 1\n")
        self.assertEqual(run.err(), "[default1]:to err\n")
        self.assertEqual(read_text(self.attempt("0", "stdout.log")), "I am 0\n")
        run = self.run_ddprun(TWO, "--local-ranks-filter=0", FAKE_WORKER, "--print=I am %r")
        self.assertEqual(run.out(), "I am 0\n")
        self.run_ddprun("--local-ranks-filter=x", FAKE_WORKER, expect=2)

    def test_equal_lines_are_said_once(self):
        run = self.run_ddprun("--nproc-per-node=4", "--merge-output", f"--log-dir={self.path('logs')}", "-t", "1",
                              FAKE_WORKER, "--print=loading", "--print=I am %r", "--print-err=careful")
        self.assertEqual(sorted(run.out().splitlines()),
                         ["[4 ranks] loading"] + [f"[rank {rank}] I am {rank}" for rank in range(4)])
        self.assertIn("[4 ranks] careful\n", run.err())
        self.assertEqual(read_text(self.attempt("3", "stdout.log")), "loading\nI am 3\n")

    # A long list that a program prints, or its base64 image.
    def test_a_line_of_many_pieces_is_one_line(self):
        longest = "x" * 300_000
        text = self.write("text", longest + "\nend\n")
        run = self.run_ddprun(TWO, FAKE_WORKER, "--on-rank=1", f"--print-file={text}")
        self.assertEqual(run.out(), longest + "\nend\n")

    # Rank 1's line comes when half of rank 0's is there.
    def test_anothers_line_ends_a_long_one(self):
        half = "x" * 100_000
        text, go = self.write("text", half), [self.path(f"go{i}") for i in range(3)]
        run = self.start(
            TWO, FAKE_WORKER, "--on-rank=0", f"--print-file={text}", f"--wait-file={go[1]}", "--always", "--on-rank=1",
            f"--wait-file={go[0]}", "--print=short", f"--touch={go[1]}", "--always", "--on-rank=0", f"--wait-file={go[2]}",
            f"--print-file={text}")
        for shown, name in (("x", go[0]), ("short\n", go[2])):
            self.wait_for(lambda shown=shown: shown in run.out(), run)
            open(name, "w").close()
        self.assertEqual(run.wait(), 0, run.all())
        self.assertIn("\nshort\n", run.out())
        self.assertEqual(run.out().replace("\n", "").replace("short", ""), 2 * half)
        self.assertTrue(run.out().endswith("x\n"))

    def test_own_lines_for_programs(self):
        run = self.run_ddprun(TWO, "--log-format=json", "--max-restarts=1", FAKE_WORKER, "--print=x",
                              "--print-err=\x1b[31mred \xff", "--on-rank=1", "--exit=3", expect=3,
                              environment={"CLICOLOR_FORCE": "1"})
        self.assertEqual(set(run.out().splitlines()), {"x"})
        own = [line for line in run.err().splitlines() if not line.startswith("\x1b")]
        lines = [json.loads(line) for line in own]
        for line in lines:
            self.assertEqual(list(line), ["unix_time", "level", "who", "text"])
        self.assertEqual({line["who"] for line in lines}, {"ddprun"})
        self.assertIn("warning", {line["level"] for line in lines})
        report = [line for line in lines if "Root Cause" in line["text"]]
        self.assertEqual(len(report), 1, run.err())
        self.assertIn("exitcode", report[0]["text"])
        refused = self.run_ddprun("--log-format=json", "no-such-program", expect=2)
        self.assertIn("no-such-program", json.loads(refused.err())["text"])
        self.run_ddprun("--log-format=xml", FAKE_WORKER, expect=2)

    def test_quiet_says_what_is_wrong_and_nothing_else(self):
        run = self.run_ddprun(TWO, "-q", "--max-restarts=1", FAKE_WORKER, "--print=x", "--on-restart=0",
                              "--on-rank=1", "--exit=3")
        self.assertEqual(set(run.out().splitlines()), {"x"})
        lines = run.err().splitlines()
        self.assertTrue(lines and all("restarting all workers" in line for line in lines), run.err())
        run = self.run_ddprun(TWO, "-q", FAKE_WORKER, "--print=x")
        self.assertEqual(run.err(), "")
        self.run_ddprun("-q", "-v", FAKE_WORKER, expect=2)

    # Each line is read before the program may print the next one, whatever starts the interpreter.
    def test_lines_of_any_python_come_as_they_are_printed(self):
        self.environment.pop("PYTHONUNBUFFERED", None)
        self.write("w.py", "import os, select, sys\n"
                           "for n in range(2):\n"
                           "    print('line', n)\n"
                           "    while not os.path.exists(f'{sys.argv[1]}.{n}'):\n"
                           "        select.select([], [], [], 0.002)\n")
        self.write("run.sh", '#!/bin/sh\npython3 "$@"\n', 0o755)
        two = ["--nproc-per-node=2"]
        for number, (command, flags) in enumerate((
                (["python3"], two), (["python3"], ["--nproc-per-node=1"]),
                (["python3"], ["--nproc-per-node=1", "--tee=3", f"--log-dir={self.path('logs')}"]),
                (["env", "python3"], two), (["bash", self.path("run.sh")], two), ([self.path("run.sh")], two))):
            with self.subTest(command=command, flags=flags):
                go = self.path(f"go{number}")
                run = self.start(*flags, "--no-python", *command, self.path("w.py"), go)
                for n in range(2):
                    self.wait_for(lambda run=run, n=n: f"line {n}" in run.out(), run, what="a line")
                    open(f"{go}.{n}", "w").close()
                self.assertEqual(run.wait(), 0, run.all())

    def test_buffers_that_the_user_asks_for_stay(self):
        run = self.run_ddprun("--no-python", "sh", "-c", 'echo "<$PYTHONUNBUFFERED>"',
                              environment={"PYTHONUNBUFFERED": ""})
        self.assertIn("<>", run.out())

    def test_files_without_a_place_get_one(self):
        run = self.run_ddprun("-r", "1", FAKE_WORKER, "--print=kept")
        directory = re.search(r"log directory set to: (\S+)", run.err()).group(1)
        self.assertRegex(directory, rf"^{self.path('tmp')}/torchelastic_\w+/run-\w+_\w+$")
        self.assertEqual(read_text(os.path.join(directory, "attempt_0", "0", "stdout.log")), "kept\n")
        shutil.rmtree(os.path.dirname(directory))

    def test_no_place_stays_where_nothing_was_started(self):
        with self.subTest("a signal while others are waited for"):
            run = self.start("--nnodes=2", "--node-rank=0", f"--rdzv-endpoint={self.free_endpoint()}", "-t", "3",
                             FAKE_WORKER)
            self.wait_for_text(run, "log directory set to")
            self.wait_for_text(run, "serving the rendezvous")
            self.terminate(run)
        with self.subTest("a setting that cannot be used"):
            run = self.run_ddprun("--nnodes=2", "--node-rank=0", "-t", "3",
                                  f"--token-file={self.path('nothing')}", FAKE_WORKER, expect=2)
            self.assertIn("log directory set to", run.err())
        self.assertEqual([name for name in os.listdir(self.path("tmp")) if name.startswith("torchelastic")], [])

    @unittest.skipIf("ASAN_OPTIONS" in os.environ, "a sanitizer keeps what was freed")
    def test_a_flood_does_not_grow_the_agent(self):
        run = self.start(f"--log-dir={self.path('logs')}", "-t", "1", FAKE_WORKER, "--spew=200", HELLO,
                         "--hang")
        path = self.attempt_when_there(run)
        self.wait_for(lambda: os.path.exists(path) and os.path.getsize(path) > 200 << 20, run, limit=60)
        peak = int(re.search(r"VmHWM:\s+(\d+) kB", read_text(f"/proc/{run.agent()}/status")).group(1))
        self.assertLess(peak, 60_000, "kB")
        self.terminate(run)

    def attempt_when_there(self, run):
        self.wait_for(lambda: os.path.isdir(self.path("logs")) and os.listdir(self.path("logs")), run)
        return self.attempt("0", "stdout.log")

    def test_a_closed_standard_input_is_empty(self):
        """No descriptor that a library opens at its start takes the number, and goes to the worker."""
        shown = self.path("shown")
        self.ask("-c", 'exec "$0" sh -c "readlink /proc/self/fd/0 >$1" <&-', DDPRUN, shown, executable="/bin/sh")
        self.assertEqual(read_text(shown), "/dev/null\n")

    def test_a_full_disk_stops_no_worker(self):
        with open("/dev/full", "w") as full:
            process = subprocess.Popen(
                [DDPRUN, TWO, FAKE_WORKER, "--spew=2", f"--touch={self.path('done.%r')}"],
                env=self.environment, cwd=self.directory, stdin=subprocess.DEVNULL, stdout=full,
                stderr=subprocess.PIPE, text=True)
            _, err = process.communicate(timeout=30)
        self.assertEqual(process.returncode, 0, err)
        self.assertIn("No space left on device; ddprun drops it", err)
        self.assertEqual(err.count("\n"), 1, "said once")
        self.assertTrue(all(os.path.exists(self.path(f"done.{r}")) for r in (0, 1)))
