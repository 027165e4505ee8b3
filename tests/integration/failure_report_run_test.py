"""What a failed run says last, and the error files that workers leave."""

import json
import os
import re
import signal
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))

from ddprun_runs import DDPRUN, FAKE_WORKER, HELLO, DdprunTest, eventually, read_text  # noqa: E402

TWO = "--nproc-per-node=2"
# What @record writes; the worker then fails like any other.
RECORD = """
import json, os, sys
with open(os.environ["TORCHELASTIC_ERROR_FILE"], "w") as file:
    file.write(%r)
sys.exit(7)
"""
CALLSTACK = "Traceback (most recent call last):\n  File x\nValueError: boom\n"
NESTED = json.dumps({"message": {"message": "ValueError: boom", "extraInfo": {
    "py_callstack": CALLSTACK, "timestamp": "1795263336"}}})


class Report(DdprunTest):
    def test_it_has_torchruns_shape_and_is_the_last_thing_said(self):
        run = self.run_ddprun(TWO, FAKE_WORKER, f"--touch={self.path('ready.%r')}", "--on-rank=1",
                              f"--wait-file={self.path('ready.0')}", "--print-err=no such file",
                              "--exit=3", "--always", "--hang", expect=3)
        self.assertRegex(
            run.err(),
            r"(?s)={60}\n\S*fake_worker FAILED\n-{60}\nFailures:\n\[1\]:\n  time      : \d{4}-.*"
            r"  rank      : 0 \(local_rank: 0\)\n  exitcode  : -15 \(pid: \d+\)  \(SIGTERM\)\n.*"
            r"-{60}\nRoot Cause \(first observed failure\):\n\[0\]:\n  time      : \d{4}-[^\n]*\n"
            r"  host      : \S+\n  rank      : 1 \(local_rank: 1\)\n  exitcode  : 3 \(pid: \d+\)\n"
            r"  error_file: <N/A>\n  traceback : [^\n]*\n-{60}\n"
            r"last lines of rank 1 on stderr:\n  no such file\nrestarts  : 0 of 0 used [^\n]*\n"
            r"={60}\n$")

    def test_a_good_run_and_a_stopped_one_have_none(self):
        self.assertNotIn("FAILED", self.run_ddprun(FAKE_WORKER).err())

    def test_equal_siblings_are_folded(self):
        run = self.run_ddprun("--nproc-per-node=5", FAKE_WORKER, f"--touch={self.path('ready.%r')}",
                              "--on-rank=2",
                              *[f"--wait-file={self.path('ready')}.{r}" for r in range(5)],
                              "--exit=1", "--always", "--hang", expect=1)
        self.assertIn("  and 3 more like it: ranks 1, 3-4\n", run.err())

    def test_failure_json_is_beside_the_logs(self):
        logs = self.path("logs")
        run = self.run_ddprun(f"--log-dir={logs}", "-r", "3", FAKE_WORKER, "--print-err=why",
                              "--signal=11", expect=139)
        (name,) = os.listdir(logs)
        with open(os.path.join(logs, name, "failure.json")) as file:
            told = json.load(file)
        self.assertEqual(told["exit_code"], 139)
        self.assertEqual(told["root_cause"]["exitcode"], -11)
        self.assertEqual(told["last_lines"], ["why"])
        self.assertEqual(read_text(told["log"]), "why\n")
        self.assertIn(f"log       : {told['log']}\n", run.err())
        self.assertRegex(run.err(), "hint      : .*core")

    def test_the_hint_for_bad_arguments(self):
        self.assertTrue(eventually(lambda: re.search(  # Of one that ended within a second.
            "hint      : .*arguments", self.run_ddprun(FAKE_WORKER, "--no-such", expect=2).err())))


class ErrorFiles(DdprunTest):
    def record(self, text):
        path = self.path("fails.py")
        with open(path, "w") as file:
            file.write(RECORD % text)
        return path

    def test_records_traceback_is_in_the_report(self):
        logs = self.path("logs")
        run = self.run_ddprun(f"--log-dir={logs}", self.record(NESTED), expect=7)
        self.assertIn("  traceback : Traceback (most recent call last):\n    File x\n"
                      "  ValueError: boom\n", run.err())
        self.assertRegex(run.err(), rf"  error_file: {logs}/\S+/attempt_0/0/error.json\n")

    def test_the_flat_form_too(self):
        run = self.run_ddprun(self.record('{"message": "out of luck", "timestamp": 3}'), expect=7)
        self.assertIn("  traceback : out of luck\n", run.err())

    def test_a_broken_file_costs_nothing(self):
        for text in ("{", "[]", '{"message": 3}', "\\udcff"):
            with self.subTest(text):
                run = self.run_ddprun(self.record(text), expect=7)
                self.assertIn("Root Cause", run.err())

    def test_it_is_copied_to_the_agents_own_with_the_code(self):
        own = self.path("own.json")
        self.run_ddprun(self.record(NESTED), expect=7, environment={"TORCHELASTIC_ERROR_FILE": own})
        with open(own) as file:
            message = json.load(file)["message"]
        self.assertEqual((message["errorCode"], message["message"]), (7, "ValueError: boom"))

    def test_a_full_disk_leaves_the_agents_own_as_it_was(self):
        own = self.path("own.json")
        with open(own, "w") as file:
            file.write("before")
        limited = ["sh", "-c", "trap '' XFSZ; ulimit -S -f 2; exec \"$@\"", "sh"]
        free = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)\n"
        text = json.dumps({"message": {"message": "boom", "extraInfo": {"py_callstack": "x" * 8000}}})
        run = subprocess.run([*limited, DDPRUN, sys.executable, "-c", free + RECORD % text], cwd=self.directory,
                             env={**self.environment, "TORCHELASTIC_ERROR_FILE": own}, timeout=60,
                             stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False)
        self.assertEqual(run.returncode, 7, run.stderr)
        self.assertIn(f"cannot write '{own}': File too large", run.stderr)
        self.assertEqual(read_text(own), "before")
        self.assertFalse(os.path.exists(own + ".part"))

    def test_dev_null_disables_all_files(self):
        run = self.run_ddprun("--log-dir=/dev/null", "-r", "1", "--no-python", "sh", "-c",
                              'echo hidden; echo "[$TORCHELASTIC_ERROR_FILE]" >&2')
        self.assertEqual((run.out(), run.err()), ("", "[]\n"))


# Rank 1 records an error, is still there while its peer ends because of it, and is then stopped.
LINGERS = """
import json, os, select, signal, sys, time
own = os.environ["TORCHELASTIC_ERROR_FILE"]
peers = own.replace("/0.error.json", "/1.error.json")
if os.environ["RANK"] == "1":
    with open(own + ".part", "w") as file:
        json.dump({"message": {"message": "ValueError: boom", "extraInfo": {
            "py_callstack": "Traceback", "timestamp": str(int(time.time()) + int(sys.argv[1]))}}}, file)
    os.rename(own + ".part", own)
    signal.pause()
while not os.path.exists(peers):
    select.select([], [], [], 0.001)
os._exit(3)  # In the same moment.
"""
# Rank 0 fails without a word; rank 1 records what it thinks of being stopped.
PROTESTS = """
import json, os, signal, sys, time
def protest(*_):
    with open(os.environ["TORCHELASTIC_ERROR_FILE"], "w") as file:
        json.dump({"message": "stopped", "timestamp": int(time.time())}, file)
    sys.exit(1)
signal.signal(signal.SIGTERM, protest)
pipe = open(sys.argv[1], "r" if os.environ["RANK"] == "0" else "w")  # Until both are there.
if os.environ["RANK"] == "0":
    sys.exit(3)
signal.pause()
"""


class GivenUp(DdprunTest):
    """--give-up-code: for a scheduler's rules, which cannot tell 137 from a pod that was killed."""

    def test_what_must_not_be_tried_again_has_the_code_that_was_asked_for(self):
        for actions in (["--exit=3"], ["--signal=9"], ["--notify=READY=1", "--exit=76"]):
            with self.subTest(actions):
                run = self.run_ddprun("--give-up-code=93", FAKE_WORKER, *actions, expect=93)
                self.assertIn("the run failed: rank 0", run.err())

    def test_a_stop_and_a_bad_command_line_keep_theirs(self):
        run = self.start("--give-up-code=93", FAKE_WORKER, HELLO, "--hang")
        self.wait_for_workers(run, 1)
        run.signal(signal.SIGTERM)
        self.assertEqual(run.wait(), 143, run.all())
        self.run_ddprun("--give-up-code=93", "no-such-program", expect=2)
        for taken in ("0", "75", "143", "256", "x"):
            run = self.run_ddprun(f"--give-up-code={taken}", FAKE_WORKER, expect=2)
            self.assertIn("--give-up-code must be", run.err())


class EarliestError(DdprunTest):
    def fail(self, program, *args, expect):
        with open(self.path("fails.py"), "w") as file:
            file.write(program)
        run = self.run_ddprun(TWO, self.path("fails.py"), *args, expect=expect)
        return run.err().split("Root Cause (first observed failure):\n")[1]

    def test_who_recorded_its_error_first_is_the_root_cause(self):
        own = self.path("own.json")
        self.environment["TORCHELASTIC_ERROR_FILE"] = own
        root = self.fail(LINGERS, "0", expect=1)
        self.assertIn("  rank      : 1 ", root)
        self.assertRegex(root, r"  exitcode  : <N/A> \(pid: \d+\)  \(ddprun stopped it after its error\)\n")
        self.assertNotIn("SIGTERM", root)
        with open(own) as file:
            message = json.load(file)["message"]
        self.assertEqual((message["message"], message.get("errorCode")), ("ValueError: boom", None))

    def test_a_time_that_cannot_be_does_not_count(self):
        for offset in ("3600", "-3600"):
            with self.subTest(offset):
                self.assertIn("  rank      : 0 ", self.fail(LINGERS, offset, expect=3))

    def test_an_error_that_the_stop_brought_about_is_not_the_root_cause(self):
        os.mkfifo(self.path("both"))
        self.assertIn("  rank      : 0 ", self.fail(PROTESTS, self.path("both"), expect=3))


# Rank 1, on the second node, fails once both are there; the other waits for its end.
ONE_FAILS = """
import os, signal, sys
pipe = open(sys.argv[1], "r" if os.environ["RANK"] == "1" else "w")  # Until both are there.
if os.environ["RANK"] == "0":
    signal.pause()
""" + RECORD


class OtherNodes(DdprunTest):
    def fail_on_the_second(self, text, *flags):
        os.mkfifo(self.path("both"))
        with open(self.path("fails.py"), "w") as file:
            file.write(ONE_FAILS % text)
        endpoint = self.free_endpoint()
        runs = [self.start("--nnodes=2", f"--node-rank={node}", f"--rdzv-endpoint={endpoint}", *flags,
                           self.path("fails.py"), self.path("both"),
                           environment={"TORCHELASTIC_ERROR_FILE": self.path(f"own{node}.json")})
                for node in (0, 1)]
        for run in runs:
            self.assertEqual(run.wait(), 7, "\n".join(r.all() for r in runs))
        return runs

    @staticmethod
    def root_of(run):
        return run.err().split("Root Cause (first observed failure):\n")[1].split("-" * 60)[0]

    def test_every_nodes_report_tells_the_same_of_the_root_cause(self):
        logs = self.path("logs")
        first, second = self.fail_on_the_second(NESTED, f"--log-dir={logs}")
        root = self.root_of(second)
        self.assertRegex(root, r"  time      : \d{4}-\d\d-\d\d_\d\d:\d\d:\d\d\n  host      : \S+\n"
                               r"  rank      : 1 \(local_rank: 0\)\n  exitcode  : 7 ")
        self.assertRegex(root, rf"  error_file: {logs}/\S+/attempt_0/0/error.json\n")
        self.assertIn("    File x\n  ValueError: boom\n", root)
        self.assertEqual(self.root_of(first), root)

    def test_every_nodes_own_error_file_has_it(self):
        self.fail_on_the_second(NESTED)
        for node in (0, 1):
            with open(self.path(f"own{node}.json")) as file:
                message = json.load(file)["message"]
            self.assertEqual((message["message"], message["extraInfo"]["py_callstack"],
                              message["errorCode"]), ("ValueError: boom", CALLSTACK, 7))
            self.assertRegex(message["extraInfo"]["timestamp"], r"^\d{10}$")

    def test_a_novel_of_a_traceback_is_cut_at_its_beginning(self):
        told = json.loads(NESTED)
        told["message"]["extraInfo"]["py_callstack"] = "line\n" * 100_000 + "the cause"
        first, second = self.fail_on_the_second(json.dumps(told))
        self.assertRegex(self.root_of(first), r"  traceback : \.\.\..*\n(  line\n){1000,2000}  the cause\n")
        self.assertEqual(self.root_of(first), self.root_of(second))


if __name__ == "__main__":
    unittest.main(verbosity=2)
