"""Steps that a worker writes to a page of memory: they are known as datagrams would make them, and in their order."""

import os
import re
import shutil
import sys
import textwrap
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))

from ddprun_asks import Asks
from ddprun_runs import DDPRUN
from networks import namespaces_work

PACKAGE = os.path.abspath(os.path.join(HERE, "..", "..", "launcher", "python"))
# Steps until its page is read, and then a step of its own for each of `then`.
BEGIN = """
import os, select, signal, sys
import ddprun
from ddprun import _page
rank, restarts = int(os.environ["RANK"]), int(os.environ["TORCHELASTIC_RESTART_COUNT"])
reached = 0
def go_to(last):
    global reached
    for reached in range(reached + 1, last + 1):
        ddprun.step(reached)
ddprun.ready()
while _page.page is None or not _page.page.write(reached, 0):
    go_to(reached + 1)
    select.select([], [], [], 0.01)  # Until the agent has taken it.
"""


class StepPages(Asks):
    def setUp(self):
        super().setUp()
        self.environment.update(PYTHONPATH=PACKAGE, PYTHON_EXEC=sys.executable)

    def worker(self, text):
        return self.write("worker.py", BEGIN + textwrap.dedent(text))

    def ranks(self):
        told = self.status()  # None: it begins.
        return told["nodes"][0].get("ranks", {}) if told else {}

    def test_the_last_of_many_steps_is_known(self):
        run = self.start("--nproc-per-node=2", self.worker("""
            go_to(10_000 + rank)
            print("told", rank, flush=True)
            signal.pause()
            """))
        self.wait_for(lambda: run.out().count("told") == 2, run)
        self.wait_for(lambda: self.ranks().get("step") == [10_000, 10_001], run)

    # Else three worlds that come no further than the last one would be a crash loop: 76.
    def test_the_step_before_a_death_is_known(self):
        self.run_ddprun("--max-restarts=3", "--crash-loop-limit=2", self.worker("""
            go_to(1_000 + restarts)
            os.kill(os.getpid(), signal.SIGKILL)
            """), expect=137)

    def test_a_phase_after_the_last_step_has_its_time(self):
        run = self.start("--nproc-per-node=2", "--hang-timeout=1s", self.worker("""
            while rank == 1 and not os.path.exists("stands"):
                select.select([], [], [], 0.01)
            os.kill(os.getppid(), signal.SIGSTOP)
            go_to(2_000 + rank)
            if rank == 0:
                ddprun.phase("save", within=3600)
            os.kill(os.getppid(), signal.SIGCONT)
            open("stands", "w").close()
            signal.pause()
            """))
        ranks = self.wait_for(lambda: (r := self.ranks()) and r.get("state", [None])[-1] == "late" and r, run)
        self.assertEqual((ranks["step"], ranks["state"]), ([2_000, 2_001], ["running", "late"]))

    @unittest.skipUnless(namespaces_work(), "needs root and network namespaces")
    def test_steps_do_not_overtake_what_waits_in_a_long_queue(self):
        queue = 'ip link set lo up && echo 512 > /proc/sys/net/unix/max_dgram_qlen && exec "$@"'
        self.ask("--net", "sh", "-c", queue, "sh", DDPRUN, "--nproc-per-node=1", "--hang-timeout=1s",
                 self.worker("""
            os.kill(os.getppid(), signal.SIGSTOP)
            for reached in range(reached + 1, reached + 200):
                ddprun.step(reached, within=3600)
            go_to(reached + 1)  # From here on --hang-timeout counts again.
            os.kill(os.getppid(), signal.SIGCONT)
            signal.pause()
            """), executable=shutil.which("unshare"), expect=124)

    def test_a_page_of_another_process_takes_its_place(self):
        run = self.start("--nproc-per-node=1", self.worker("""
            import subprocess
            if len(sys.argv) == 1:
                go_to(3_000)
                subprocess.run([sys.executable, __file__, "child"], check=True)
                reached = 4_990
                while True:  # By datagrams again.
                    go_to(reached + 1)
                    select.select([], [], [], 0.01)
            go_to(4_000)
            """))
        self.wait_for(lambda: self.ranks().get("step", [0])[0] >= 5_000, run)

    def test_a_forked_worker_has_its_page(self):
        run = self.run_ddprun("-v", "--preload=ddprun", "--nproc-per-node=2", self.worker("go_to(1_000)"))
        self.assertNotIn("--preload not used", run.err())

    def test_a_file_that_is_no_page_is_refused_and_steps_continue(self):
        run = self.start("--nproc-per-node=1", self.worker("""
            import tempfile
            from ddprun._notify import send
            with tempfile.TemporaryFile() as file:
                file.truncate(4096)
                send("STEP_PAGE=0", descriptor=file.fileno())
            go_to(3_000)
            print("told", flush=True)
            signal.pause()
            """))
        self.wait_for(lambda: "told" in run.out(), run)
        self.wait_for(lambda: self.ranks().get("step") == [3_000], run)
        self.assertEqual(re.findall("cannot use the step page of the worker of local rank 0.*", run.err()),
                         ["cannot use the step page of the worker of local rank 0, so it sends its steps as datagrams: "
                          "it is not a memfd that is sealed against shrinking and growing"])
