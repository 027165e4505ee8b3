"""State that a worker leaves behind when it ends: shared memory, and processes."""

import os
import re
import signal
import sys

from ddprun_runs import DdprunTest, read_text

# Makes a segment named after its rank, with a helper process that has it open too, and ends as its attempt is to
# end once both ranks are so far.
SEGMENTS = r"""
import multiprocessing, os, select, signal, sys
from multiprocessing import resource_tracker, shared_memory

def hold(name, there):
    segment = shared_memory.SharedMemory(name=name)
    there.put(name)
    signal.pause()

if __name__ == "__main__":
    prefix, method, *ends = sys.argv[1:]
    rank, attempt = os.environ["RANK"], int(os.environ["TORCHELASTIC_RESTART_COUNT"])
    name = f"{prefix}_{rank}"
    segment = shared_memory.SharedMemory(name=name, create=True, size=1 << 20)
    if method != "none":
        processes = multiprocessing.get_context(method)
        there = processes.Queue()
        processes.Process(target=hold, args=(name, there), daemon=True).start()
        assert there.get() == name
    os.write(1, f"ready {attempt} {rank} {resource_tracker._resource_tracker._pid}\n".encode())
    open(f"{sys.argv[0]}.{attempt}.{rank}", "w").close()
    while not os.path.exists(f"{sys.argv[0]}.{attempt}.{1 - int(rank)}"):
        select.select([], [], [], 0.002)
    end = ends[min(attempt, len(ends) - 1)]
    if end == "kill" and rank == "0":
        os.killpg(0, signal.SIGKILL) if method == "group" else os.kill(os.getpid(), signal.SIGKILL)
    if end in ("kill", "wait"):
        signal.pause()
    if end == "exit":
        sys.exit()
    os._exit(int(end))
"""


class SharedMemory(DdprunTest):
    def setUp(self):
        super().setUp()
        self.write("w.py", SEGMENTS)
        self.prefix = f"t{self.mark.value[:10]}"
        self.addCleanup(self.remove_segments)

    def segments(self):
        return [name for name in os.listdir("/dev/shm") if self.prefix in name]

    def remove_segments(self):
        for name in self.segments():
            os.unlink(os.path.join("/dev/shm", name))

    def command(self, *arguments, flags=()):
        return ["--nproc-per-node=2", *flags, "--no-python", sys.executable, self.path("w.py"),
                self.prefix, *arguments]

    def check(self, *arguments, flags=(), expect=0):
        for name in os.listdir(self.directory):
            if name.startswith("w.py."):
                os.unlink(self.path(name))
        run = self.run_ddprun(*self.command(*arguments, flags=flags), expect=expect)
        self.assertEqual(self.segments(), [], run.all())
        return run

    def test_a_run_that_ends_well(self):
        for method in ("none", "fork", "spawn", "forkserver"):
            with self.subTest(method):
                self.check(method, "0" if method == "none" else "exit")

    def test_a_worker_that_fails_or_is_killed(self):
        self.run_directory_stays = True  # A Python that is killed leaves its forkserver's sockets.
        for method in ("none", "fork", "spawn", "forkserver"):
            with self.subTest(method):
                self.check(method, "3", expect=3)
                self.check(method, "kill", expect=137)

    # Under the same names: those of the attempt before are gone by then.
    def test_every_restart(self):
        for redirects in ([], ["--redirects=3", f"--log-dir={self.path('logs')}"]):
            self.check("fork", "kill", "5", "kill", "0",
                       flags=["--max-restarts=3", "--crash-loop-limit=9", *redirects])

    def test_signals_that_python_does_not_ignore(self):
        for number in (signal.SIGHUP, signal.SIGQUIT, signal.SIGINT, signal.SIGTERM):
            with self.subTest(number):
                run = self.start(*self.command("fork", "wait"))
                self.wait_for(lambda run=run: run.out().count("ready") == 2, run, what="workers")
                run.signal(number)
                run.wait()
                self.assertEqual(self.segments(), [], run.all())

    # USR1 often asks for a checkpoint: a worker that lives on needs its tracker.
    def test_a_forwarded_signal_spares_a_process_that_tidies_up(self):
        run = self.start(*self.command("none", "wait"))
        self.wait_for(lambda: run.out().count("ready") == 2, run, what="workers")
        trackers = {line.split()[3] for line in run.out().splitlines()}
        self.assertEqual(len(trackers), 2)
        # One that has just begun needs longer on a busy machine than ddprun waits for it.
        self.wait_for(lambda: all(map(self.ignores_term, trackers)), run, what="trackers that have begun")
        run.signal(signal.SIGUSR1)
        run.wait()
        self.wait_for(lambda: not self.segments(), run, what="no segment")

    def ignores_term(self, pid):
        ignored = int(re.search(r"SigIgn:\s*(\w+)", read_text(f"/proc/{pid}/status"))[1], 16)
        return ignored >> (signal.SIGTERM - 1) & 1

    def test_whoever_of_ddprun_is_killed(self):
        for victim in ("agent", "guard"):
            with self.subTest(victim):
                self.run_directory_stays = True
                run = self.start(*self.command("fork", "wait"))
                self.wait_for(lambda run=run: run.out().count("ready") == 2, run, what="workers")
                os.kill(run.agent() if victim == "agent" else run.process.pid, signal.SIGKILL)
                run.wait()
                self.wait_for(lambda: not self.segments(), run, what="no segment")
                self.wait_for(lambda: not self.mark.living(), run, what="no process")

    # One that never ends, whatever it is called, is not waited for.
    def test_a_process_that_never_ends_holds_up_nothing_for_long(self):
        run = self.run_ddprun("--nproc-per-node=1", "--no-python", "sh", "-c",
                              "sh -c 'kill -STOP $$; : resource_tracker import main' & exit 0")
        self.assertEqual(self.mark.living(), [], run.all())

    def test_a_node_check(self):
        open(self.path("w.py.0.1"), "w").close()
        check = f"RANK=0 TORCHELASTIC_RESTART_COUNT=0 {sys.executable} {self.path('w.py')} {self.prefix} fork exit"
        run = self.run_ddprun("--nproc-per-node=1", f"--node-check={check}", "true")
        self.assertEqual(self.segments(), [], run.all())


# A worker that starts something in the background, which writes a file once it is asked to, and ends.
UPLOAD = """
import os, subprocess, sys
script = 'read told <"$1"; echo "$told" >"$2"'
subprocess.Popen(["bash", "-c", script, "bash", *sys.argv[1:3]], start_new_session=sys.argv[3] == "setsid")
sys.exit(int(sys.argv[4]))
"""


FORKSERVER = """
import multiprocessing
if __name__ == "__main__":
    with multiprocessing.get_context("forkserver").Pool(2) as pool:
        assert pool.map(abs, [-1, -2]) == [1, 2]
"""


# Says so once its first thread has ended.
THREAD = """
import ctypes, os, sys, threading
def go():
    while ") Z " not in open("/proc/self/stat").read():
        os.sched_yield()
    with open(sys.argv[1], "w") as file:
        file.write("there\\n")
    threading.Event().wait()
threading.Thread(target=go).start()
ctypes.CDLL(None).pthread_exit(None)
"""


class Processes(DdprunTest):
    def command(self, session, code, *flags):
        self.write("w.py", UPLOAD)
        if not os.path.exists(self.path("go")):
            os.mkfifo(self.path("go"))
        return [*flags, "--no-python", sys.executable, self.path("w.py"), self.path("go"), self.path("out"),
                session, str(code)]

    def test_a_process_that_was_ended_is_named(self):
        for session in ("own", "setsid"):
            with self.subTest(session):
                run = self.run_ddprun(*self.command(session, 0, "--nproc-per-node=2"))
                for rank in (0, 1):
                    self.assertIn(f"ended 1 process that rank {rank} left behind: bash (--linger=DURATION "
                                  "lets it finish) [left-behind]\n", run.err())
                self.assertEqual(self.run_ddprun("-q", "true").err(), "")

    # Its forkserver ends by itself as the worker has.
    def test_a_helper_that_ends_by_itself_is_not_named(self):
        script = self.write("w.py", FORKSERVER)
        for flags in ((), ("--nproc-per-node=2",)):
            run = self.run_ddprun("-q", *flags, script)
            self.assertEqual(run.err(), "")

    # It has no command line, as a process in execve, which is looked at again.
    def test_a_process_whose_first_thread_has_ended_is_ended(self):
        os.mkfifo(self.path("there"))
        run = self.run_ddprun("--no-python", "sh", "-c", f'{sys.executable} "$0" "$1" & read word <"$1"',
                              self.write("thread.py", THREAD), self.path("there"))
        self.assertRegex(run.err(), "ended 1 process that rank 0 left behind: python")

    def test_with_linger_it_may_finish(self):
        for session in ("own", "setsid"):
            for code in (0, 3):
                with self.subTest(session=session, code=code):
                    run = self.start(*self.command(session, code, "--linger=60"))
                    self.wait_for_text(run, r"waiting up to 1 min.* for 1 process that rank 0 left behind: bash")
                    self.write("go", f"saved {session} {code}\n")
                    self.assertEqual(run.wait(), code, run.all())
                    self.assertEqual(read_text(self.path("out")), f"saved {session} {code}\n", run.all())

    def test_linger_ends(self):
        run = self.run_ddprun(*self.command("own", 0, "--linger=0.2"))
        self.assertRegex(run.err(), "waiting up to .*\n.*ended 1 process that rank 0 left behind: bash\n")

    def test_a_signal_ends_a_process_that_lingers(self):
        run = self.start(*self.command("own", 0, "--linger=600"))
        self.wait_for_text(run, "waiting up to")
        self.terminate(run, 0)
        self.assertEqual(self.mark.living(), [], run.all())
