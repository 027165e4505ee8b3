"""The last lines of a failed run, and the error files that workers leave."""

import json
import os
import subprocess
import sys

from ddprun_runs import DDPRUN, FAKE_WORKER, DdprunTest, read_text

TWO = "--nproc-per-node=2"
# The file that @record writes; the worker then fails like any other.
RECORD = """
import json, os, sys
with open(os.environ["TORCHELASTIC_ERROR_FILE"], "w") as file:
    file.write(%r)
sys.exit(7)
"""
CALLSTACK = "Traceback (most recent call last):\n  File x\nValueError: boom\n"
NESTED = json.dumps({"message": {"message": "ValueError: boom", "extraInfo": {
    "py_callstack": CALLSTACK, "timestamp": "1795263336"}}})


# Rank 1 has nothing to do any more, and then rank 0 fails without it.
LEAVES_EARLY = """
import os, signal, sys
if os.environ["RANK"] == "1":
    with open("pid.part", "w") as file:
        file.write(str(os.getpid()))
    os.rename("pid.part", "pid")
    sys.exit(0)
while not os.path.exists("pid") or os.path.exists("/proc/" + open("pid").read()):
    signal.sigtimedwait([], 0.01)
sys.exit("RuntimeError: gloo: Connection closed by peer")
"""


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

    def test_a_rank_that_ended_before_its_peers_is_the_probable_cause(self):
        run = self.run_ddprun(TWO, self.write("early.py", LEAVES_EARLY), expect=1)
        self.assertRegex(run.err(), "\nhint      : rank 1 had ended with exit code 0 before, which is the probable cause")

    def test_failure_json_is_beside_the_logs(self):
        logs = self.path("logs")
        run = self.run_ddprun(f"--log-dir={logs}", "-r", "3", FAKE_WORKER, "--print-err=why",
                              "--signal=11", expect=139)
        (name,) = os.listdir(logs)
        told = json.loads(read_text(os.path.join(logs, name, "failure.json")))
        self.assertEqual(told["exit_code"], 139)
        self.assertEqual(told["root_cause"]["exitcode"], -11)
        self.assertEqual(told["last_lines"], ["why"])
        self.assertEqual(read_text(told["log"]), "why\n")
        self.assertIn(f"log       : {told['log']}\n", run.err())
        self.assertRegex(run.err(), "hint      : .*core")


class ErrorFiles(DdprunTest):
    def test_a_full_disk_leaves_the_agents_own_as_it_was(self):
        own = self.write("own.json", "before")
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
        self.write("fails.py", ONE_FAILS % text)
        runs = [self.start("--nnodes=2", f"--node-rank={node}", f"--rdzv-endpoint={self.endpoint}", *flags,
                           self.path("fails.py"), self.path("both"),
                           environment={"TORCHELASTIC_ERROR_FILE": self.path(f"own{node}.json")})
                for node in (0, 1)]
        self.all_end(runs, 7)
        return runs

    @staticmethod
    def root_of(run):
        return run.err().split("Root Cause (first observed failure):\n")[1].split("-" * 60)[0]

    def test_every_nodes_report_and_error_file_tell_the_same_of_the_root_cause(self):
        logs = self.path("logs")
        first, second = self.fail_on_the_second(NESTED, f"--log-dir={logs}")
        root = self.root_of(second)
        self.assertRegex(root, r"  time      : \d{4}-\d\d-\d\d_\d\d:\d\d:\d\d\n  host      : \S+\n"
                               r"  rank      : 1 \(local_rank: 0\)\n  exitcode  : 7 ")
        self.assertRegex(root, rf"  error_file: {logs}/\S+/attempt_0/0/error.json\n")
        self.assertIn("    File x\n  ValueError: boom\n", root)
        self.assertEqual(self.root_of(first), root)
        for node in (0, 1):
            message = json.loads(read_text(self.path(f"own{node}.json")))["message"]
            self.assertEqual((message["message"], message["extraInfo"]["py_callstack"],
                              message["errorCode"]), ("ValueError: boom", CALLSTACK, 7))
            self.assertRegex(message["extraInfo"]["timestamp"], r"^\d{10}$")
