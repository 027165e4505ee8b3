"""Signals where nothing is ordinary: before the rendezvous, below a wrapper, timers that run out."""

import os
import shutil
import signal
import sys

from ddprun_runs import FAKE_WORKER, HELLO, DdprunTest, eventually, held_calls

TIMER = """
import json, os, signal, sys
with open(os.environ["TORCHELASTIC_TIMER_FILE"], "w") as file:
    def say(pid, expires, number=int(signal.SIGKILL), scope="step"):
        file.write(json.dumps({"version": 1, "pid": pid, "scope_id": scope,
                               "expiration_time": expires, "signal": number}) + "\\n")
        file.flush()
    file.write("no json\\n")
    say(int(sys.argv[1]), 1, scope="of another process")
    say(int(sys.argv[1]), 2, scope="of another process")
    say(os.getpid(), 4e9)
    say(os.getpid(), 1)
    signal.pause()
"""

# A process below it asks to be killed, and is: only then its end of the pipe is closed.
CHILDS_TIMER = """
import json, os, signal, sys
kind, held = sys.argv[1:]
if os.fork() == 0:
    if kind == "session":
        os.setsid()
    if kind == "orphan" and os.fork() != 0:
        os._exit(0)
    pipe = open(held, "w")
    with open(os.environ["TORCHELASTIC_TIMER_FILE"], "w") as file:
        file.write(json.dumps({"version": 1, "pid": os.getpid(), "scope_id": "load",
                               "expiration_time": 1, "signal": int(signal.SIGKILL)}) + "\\n")
    signal.pause()
open(held).read()
"""

# Saves, when asked to end, until the test says so. Once it has said so, a later life has nothing to do.
SAVES = """
import os, signal, sys
go, fails = sys.argv[1:]
rank = os.environ["RANK"]
def wait_for(path):
    while not os.path.exists(path):
        signal.sigtimedwait([], 0.01)
def save(*_):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    print("saving", rank, flush=True)
    wait_for(go)
    print("saved", rank, flush=True)
    os._exit(0)
if os.path.exists(go):
    print("again", rank, flush=True)
    os._exit(0)
if rank == fails:
    wait_for(go + ".ready")
    os._exit(3)
signal.signal(signal.SIGTERM, save)
print("ready", rank, flush=True)
open(go + ".ready", "w").close()
while True: signal.pause()
"""
# The same with a thread that waits for the signal.
WAITS = SAVES.replace("signal.signal(signal.SIGTERM, save)", """
import threading
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
threading.Thread(target=lambda: (signal.sigwait({signal.SIGTERM}), save())).start()
""").replace("    signal.signal(signal.SIGTERM, signal.SIG_IGN)\n", "")

# They end of TERM at once, and with the code of what they have started.
WRAPPERS = {
    "a shell": ("sh", "-c", '"$@"; exit $?', "sh"),
    "shells": ("sh", "-c", 'sh -c \'"$@"; exit $?\' sh "$@"; exit $?', "sh"),
    "a Python": (sys.executable, "-c", "import subprocess, sys; sys.exit(subprocess.call(sys.argv[1:]))"),
}

# Passes TERM on and ends. It has started so many others before that ddprun looks at the program later.
PASSES_ON = ("sh", "-c", """
i=0; while [ $i -lt 200 ]; do sleep 1000 & i=$((i + 1)); done
pass_on() { kill $!; exit 1; }
trap pass_on TERM
"$@" & wait $!; exit $?
""", "sh")

# As a DataLoader's processes: one from before the worker had its handlers, and one that has them too.
CHILDREN = """
import os, signal
worker = os.getpid()
def fork():
    child = os.fork()
    while child == 0:
        signal.pause()
    return child
def note(number, _):
    print(signal.Signals(number).name, "worker" if os.getpid() == worker else "child", flush=True)
def end(*_):
    print(*(signal.Signals(os.WTERMSIG(os.waitpid(child, 0)[1])).name for child in children), flush=True)
    os._exit(0)
children = [fork()]
signal.signal(signal.SIGUSR1, note)
signal.signal(signal.SIGUSR2, note)
children.append(fork())
signal.signal(signal.SIGTERM, end)
print("ready", flush=True)
while True: signal.pause()
"""


class Signals(DdprunTest):
    def test_before_the_rendezvous_is_complete(self):
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
            with self.subTest(number.name):
                run = self.start("--nnodes=2", f"--rdzv-endpoint={self.free_endpoint()}", FAKE_WORKER)
                self.wait_for_text(run, "waiting for nodes: 1 of 2")
                run.signal(number)
                self.assertEqual(run.wait(10), 128 + number, run.all())
                self.assertNotIn("Traceback", run.err())

    def start_set_up(self):
        """A launch whose set-up never ends: the disk of its token does not answer."""
        token, fifo = self.private_file("the-token", "sesame-sesame-sesame"), self.path("fifo")
        if not os.path.exists(fifo):
            os.mkfifo(fifo)
        if os.path.exists(fifo + ".held"):
            os.unlink(fifo + ".held")
        run = self.start("--nnodes=2", f"--rdzv-endpoint={self.free_endpoint()}", f"--token-file={token}", FAKE_WORKER,
                         environment=held_calls("open:the-token", fifo))
        # Past the run directory that its guard knows of by then.
        self.wait_for(lambda: os.path.exists(fifo + ".held"), run, what="an agent that waits for its token")
        return run

    def test_while_the_agent_is_being_set_up(self):
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
            with self.subTest(number.name):
                run = self.start_set_up()
                run.signal(number)
                self.assertEqual(run.wait(10), 128 + number, run.all())

    def test_an_agent_that_is_being_set_up_does_not_outlive_its_guard(self):
        run = self.start_set_up()
        run.signal(signal.SIGKILL)
        run.wait(10)
        self.assertTrue(eventually(lambda: not self.mark.living()), self.mark.living())
        for left in os.listdir(self.path("tmp")):  # Of both at once, no process is left to tidy up.
            shutil.rmtree(self.path("tmp", left))

    def test_a_program_that_does_not_catch_the_request_to_save_is_named(self):
        up, name = self.path("up"), os.uname().nodename
        step = {"SLURM_JOB_ID": "7", "SLURM_STEP_ID": "0", "SLURM_STEP_NUM_NODES": "1", "SLURM_STEP_NUM_TASKS": "1",
                "SLURM_NODEID": "0", "SLURM_PROCID": "0", "SLURM_LOCALID": "0", "SLURM_STEP_NODELIST": name,
                "SLURM_STEP_TASKS_PER_NODE": "1", "SLURMD_NODENAME": name}
        for program, told in ((f"touch {up}$RANK; exec sleep 1000", True),
                              (f"trap 'exit 1' USR1; touch {up}$RANK; while :; do sleep 0.01; done", False)):
            run = self.start("--verbose", "--nproc-per-node=2", "bash", "-c", program, environment=step)
            self.wait_for(lambda: all(os.path.exists(f"{up}{rank}") for rank in (0, 1)), run)
            self.wait_for_text(run, "started ranks 0 to 1")  # Before that it gives the start up.
            run.signal(signal.SIGUSR1)
            self.assertEqual(run.wait(), 138, run.all())
            self.assertEqual("ranks 0-1 were ended by SIGUSR1, which the program does not catch" in run.err(), told,
                             run.all())
            for rank in (0, 1):
                os.remove(f"{up}{rank}")

    def test_usr1_never_ends_ddprun(self):
        run = self.start(FAKE_WORKER, HELLO, "--hang")
        self.wait_for_workers(run, 1)
        os.kill(run.agent(), signal.SIGUSR1)  # To the agent itself: nothing at all.
        os.kill(run.agent(), signal.SIGUSR2)
        self.assertIsNone(run.process.poll())
        self.terminate(run)

    def test_usr1_and_usr2_reach_the_worker_and_none_of_its_children(self):
        run = self.start(self.write("children.py", CHILDREN))
        self.wait_for(lambda: "ready" in run.out(), run, what="a worker with children")
        for name in ("SIGUSR1", "SIGUSR2"):
            run.signal(signal.Signals[name])
            self.wait_for(lambda name=name: f"{name} worker" in run.out(), run, what=name)
        self.terminate(run)
        self.assertEqual(run.out(), "ready\nSIGUSR1 worker\nSIGUSR2 worker\nSIGTERM SIGTERM\n", run.all())


class BelowAWrapper(DdprunTest):
    def start_saving(self, wrapper, *flags, fails="none", program=SAVES):
        for left in ("go", "go.ready"):
            if os.path.exists(self.path(left)):
                os.unlink(self.path(left))
        return self.start(*flags, "--no-python", *wrapper, sys.executable, self.write("saves.py", program), self.go, fails)

    def lets_save(self, run, *ranks):
        for rank in ranks:
            self.wait_for_text(run, rf"waiting for 1 process that rank {rank} left behind: python\S* \(--shutdown-timeout\)")
        open(self.go, "w").close()

    def wait_until_ready(self, run, count):
        self.wait_for(lambda: run.out().count("ready") == count, run, what="workers")

    def saved_before_the_next_start(self, run):
        self.assertRegex(run.out(), r"(?s)saving 0\n.*saved 0\n.*again 0\n", run.all())

    def test_a_program_saves_when_ddprun_is_asked_to_end(self):
        for name, wrapper in WRAPPERS.items():
            with self.subTest(name):
                run = self.start_saving(wrapper, "--nproc-per-node=2")
                self.wait_until_ready(run, 2)
                run.signal(signal.SIGTERM)
                self.lets_save(run, 0, 1)
                self.assertEqual(run.wait(), 143, run.all())
                for rank in (0, 1):
                    self.assertIn(f"saved {rank}\n", run.out(), run.all())
                self.assertNotRegex(run.err(), "ended .*: python")

    def saves_when_asked(self, wrapper, program=SAVES):
        run = self.start_saving(wrapper, program=program)
        self.wait_until_ready(run, 1)
        run.signal(signal.SIGTERM)
        self.lets_save(run, 0)
        self.assertEqual(run.wait(), 143, run.all())
        self.assertIn("saved 0\n", run.out(), run.all())

    def test_a_program_that_waits_for_the_signal_saves(self):
        self.saves_when_asked(WRAPPERS["a shell"], WAITS)

    # Its handler is no longer installed when the wrapper has passed the signal on.
    def test_a_program_saves_below_a_wrapper_that_passes_the_signal_on(self):
        self.saves_when_asked(PASSES_ON)

    def test_a_program_saves_after_a_peer_has_failed(self):
        for name, wrapper in WRAPPERS.items():
            with self.subTest(name):
                run = self.start_saving(wrapper, "--nproc-per-node=2", "--max-restarts=1", "--shutdown-timeout=60", fails="1")
                self.lets_save(run, 0)
                self.assertEqual(run.wait(), 0, run.all())
                self.saved_before_the_next_start(run)

    def test_a_program_saves_when_a_node_joins(self):
        flags = ("--nnodes=1:2", f"--rdzv-id={self.run_id}", f"--rdzv-endpoint={self.endpoint}")
        first = self.start_saving(WRAPPERS["a shell"], *flags)
        self.wait_until_ready(first, 1)
        second = self.start(*first.process.args[1:])
        self.lets_save(first, 0)
        self.all_end([first, second])
        self.saved_before_the_next_start(first)

    def test_one_whose_time_is_over_is_ended_and_named(self):
        run = self.start_saving(WRAPPERS["a shell"])
        self.wait_until_ready(run, 1)
        run.signal(signal.SIGTERM)
        self.wait_for_text(run, "waiting for 1 process that rank 0 left behind")

        def is_killed():  # A signal within 0.25 s is the same request.
            run.signal(signal.SIGTERM)
            return "got SIGTERM again" in run.err()
        self.wait_for(is_killed, run)
        self.assertEqual(run.wait(), 143, run.all())
        self.assertIn("ended 1 process that rank 0 left behind: python", run.err())
        self.assertNotIn("saved", run.out())

    # A shell's background job ignores INT: it does not save, and would hold up the end.
    def test_one_that_ignores_the_signal_is_ended_at_once(self):
        run = self.start("--shutdown-timeout=600", "--no-python", "sh", "-c",
                         "(trap '' INT; echo ready; exec sleep 1000) & wait")
        self.wait_until_ready(run, 1)
        run.signal(signal.SIGINT)
        self.assertEqual(run.wait(), 130, run.all())
        self.assertRegex(run.err(), r"ended 1 process that rank 0 left behind: (sleep|sh)\n")  # Before its exec or after.


class Timers(DdprunTest):
    def test_one_that_runs_out_kills_its_worker_and_no_other(self):
        path = self.write("timer.py", TIMER)
        # The other process that it tries to have killed is this test.
        run = self.run_ddprun("-v", path, str(os.getpid()), expect=137,
                              environment={"TORCHELASTIC_ENABLE_FILE_TIMER": "1"})
        self.assertRegex(run.err(), r"watchdog timer 'step' of the worker of local rank 0 "
                                    r"\(pid \d+\) expired: sending it SIGKILL")
        self.assertRegex(run.err(), r"the run failed: rank 0 .*killed by signal 9 \(SIGKILL\)")
        self.assertIn("ignoring on the timer FIFO", run.err())
        self.assertIn("traceback : watchdog timer 'step' expired; ddprun killed the worker\n", run.err())
        self.assertNotIn("hint      :", run.err())
        refused = f"ignoring watchdog timer 'of another process', which expired: process {os.getpid()} was not started"
        self.assertEqual(run.err().count(refused), 1, run.err())

    def test_a_childs_timer_counts(self):
        path, held = self.path("timer.py"), self.path("held")
        self.write(path, CHILDS_TIMER)
        for kind in ("child", "session", "orphan"):
            with self.subTest(kind):
                if os.path.exists(held):
                    os.unlink(held)
                os.mkfifo(held)
                run = self.run_ddprun(path, kind, held, environment={"TORCHELASTIC_ENABLE_FILE_TIMER": "1"})
                self.assertRegex(run.err(), r"watchdog timer 'load' of a child of the worker of local rank 0 "
                                    r"\(pid \d+\) expired: sending it SIGKILL")

    def test_a_preset_path_is_used(self):
        path = self.path("fifo")
        run = self.run_ddprun("--no-python", "sh", "-c", 'test -p "$TORCHELASTIC_TIMER_FILE" && '
                              'echo "$TORCHELASTIC_TIMER_FILE"', environment={
                                  "TORCHELASTIC_ENABLE_FILE_TIMER": "1", "TORCHELASTIC_TIMER_FILE": path})
        self.assertEqual(run.out(), path + "\n")
        self.assertFalse(os.path.exists(path))
