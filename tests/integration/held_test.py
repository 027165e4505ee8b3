"""Nothing that a worker leaves behind keeps the agent from its work."""

import os
import sys

from ddprun_runs import DdprunTest, read_text

# In its first generation it leaves FIFOs without writers and readers where the agent looks
# for its files, and fails; then it waits.
LEAVES_FIFOS = """
import os, signal, sys
own = os.path.dirname(os.environ["TORCHELASTIC_ERROR_FILE"])
if os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
    for name in ("error.json", "stderr.log", "stacks.txt"):
        if os.path.exists(os.path.join(own, name)):
            os.remove(os.path.join(own, name))
        os.mkfifo(os.path.join(own, name))
    if "--next" in sys.argv:
        after = own.replace("attempt_0", "attempt_1")
        os.makedirs(after)
        os.mkfifo(os.path.join(after, "stdout.log"))
    sys.exit(3)
open(os.environ["READY"], "w").write("ready")
signal.pause()
"""
RECORDS = """
import os, sys
open(os.environ["TORCHELASTIC_ERROR_FILE"], "w").write('{"message": "boom"}')
sys.exit(3)
"""


class Held(DdprunTest):
    def leaves_fifos(self, *arguments):
        logs = self.path("logs")
        return self.start("--standalone", "--max-restarts=1", f"--log-dir={logs}", "-r", "3",
                          sys.executable, "-c", LEAVES_FIFOS, *arguments,
                          environment={"READY": self.path("ready"),
                                       "TORCHELASTIC_ERROR_FILE": self.path("error.json")})

    def test_fifos_where_a_dead_workers_files_were_hold_up_nothing(self):
        run = self.leaves_fifos()
        self.wait_for(lambda: read_text(self.path("ready")), run, what="the worker was replaced")
        self.terminate(run)

    def test_a_fifo_for_a_log_is_refused(self):
        run = self.leaves_fifos("--next")
        self.assertNotEqual(run.wait(), 0, run.all())
        self.assertRegex(run.err(), "cannot open '[^']*/attempt_1/0/stdout.log': it is not an ordinary file")

    def test_a_fifo_as_the_parents_error_file_is_not_waited_for(self):
        os.mkfifo(self.path("fifo"))
        run = self.run_ddprun("--standalone", sys.executable, "-c", RECORDS, expect=3,
                              environment={"TORCHELASTIC_ERROR_FILE": self.path("fifo")})
        self.assertIn("FAILED", run.err())
