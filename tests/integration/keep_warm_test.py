"""--keep-warm: the preload process outlives the run, and the next run's launch begins in it."""

import json
import os
import resource
import select
import signal
import socket
import subprocess
import sys

from ddprun_runs import DDPRUN, DdprunTest, eventually, read_text
from preload_auto_test import TORCH

SAY = """
import json, os, signal, sys
import torch
with open(sys.argv[1], "a") as file:
    file.write(json.dumps({{"pid": os.getpid(), "loaded": torch.PID, "words": sys.argv[2:], "tag": {tag!r},
                           "original": sys.orig_argv[-len(sys.argv):], "shown": open("/proc/self/cmdline").read(),
                           "parent": open("/proc/%d/cmdline" % os.getppid()).read(), "session": os.getsid(0),
                           "oom": open("/proc/self/oom_score_adj").read(), "mask": str(signal.pthread_sigmask(0, [])),
                           "ignored": [n for n in range(1, 32) if signal.getsignal(n) == signal.SIG_IGN],
                           "files": sorted(os.listdir("/proc/self/fd")), "home": os.environ.get("HOME")}}) + "\\n")
if "wait" in sys.argv:
    signal.signal(signal.SIGTERM, lambda *_: os._exit(7))
    while True:
        signal.pause()
if os.environ["RANK"] == "1" and "fail" in sys.argv:
    while open(sys.argv[1]).read().count("\\n") % 2:  # A failure ends the other worker at once.
        os.sched_yield()
    sys.exit(5)
"""


class KeepWarm(DdprunTest):
    def setUp(self):
        super().setUp()
        self.environment["PYTHON_EXEC"] = sys.executable
        self.write("torch/__init__.py", "import decimal, os\nPID = os.getpid()\n")
        self.write("say.py", SAY.format(tag="first"))
        self.addCleanup(self.mark.kill)  # Before it is looked at what is left.

    def begin(self, *words, flags=(), **how):
        return self.start("--nproc-per-node=2", "--preload=torch", "--keep-warm=60s", *flags, self.path("say.py"),
                          self.path("said"), *words, **how)

    def said(self, count, run):
        def read():
            whole = read_text(self.path("said")).rpartition("\n")[0].splitlines()
            return len(whole) >= count and [json.loads(line) for line in whole[-2:]]
        return self.wait_for(read, run, what=f"{count} workers")

    def first(self):
        """The lines of a run's workers, and the process that is kept."""
        run = self.begin("1")
        self.assertEqual(run.wait(), 0, run.all())
        told = self.said(2, run)
        [kept] = self.wait_for(lambda: self.mark.living("ddprun: preload process"), run)
        self.assertEqual({one["loaded"] for one in told}, {kept}, run.all())
        return told, kept

    def kept(self, *flags):
        return subprocess.run([DDPRUN, "preload", *flags], env=self.environment, capture_output=True, text=True, check=True).stdout

    def is_used(self, again, expect=0, **how):
        """Another run; whether its workers are forks of what the first one has kept."""
        run = self.begin("2", **how)
        self.assertEqual(run.wait(), expect, run.all())
        told = self.said(4, run)
        self.assertEqual({again} <= {one["loaded"] for one in told}, {one["loaded"] for one in told} == {again})
        return {one["loaded"] for one in told} == {again}, run, told

    def test_the_next_run_is_forked_from_it(self):
        told, kept = self.first()
        self.assertRegex(self.kept(), f"^pid {kept}, for another (60|5[0-9.]+) s: .*say.py\n  in {self.directory}\n  has loaded torch\n$")
        used, run, again = self.is_used(kept)
        self.assertTrue(used, run.all())
        for one, other in zip(told, again):
            self.assertEqual(other["words"], ["2"])
            self.assertEqual(other["original"][-1], "2")
            self.assertEqual(other["shown"].replace("\x002\x00", "\x001\x00"), one["shown"])
            self.assertIn("ddprun", other["parent"])
            self.assertEqual(other["session"], other["pid"])
            for name in ("oom", "mask", "ignored", "files", "home"):
                self.assertEqual(other[name], one[name], name)
        # Its own preload process is kept again, by this one name.
        [now] = self.wait_for(lambda: self.mark.living("ddprun: preload process"), run)
        self.assertNotEqual(now, kept)
        self.assertEqual(len(self.sockets()), 1)
        self.assertIn(f"ended:\npid {now}", self.kept("--stop"))
        self.assert_gone(10)
        self.assertEqual((self.kept(), self.sockets()), ("no preload process is kept (--keep-warm)\n", []))

    def sockets(self):
        return [name for name in os.listdir(self.path("run", "ddprun")) if name.startswith("preload-")]

    def test_the_script_may_change_and_the_exit_code_is_that_of_the_run(self):
        _, kept = self.first()
        self.write("say.py", SAY.format(tag="second"))
        run = self.begin("fail")
        self.assertEqual(run.wait(), 5, run.all())
        told = self.said(4, run)
        self.assertEqual([(one["tag"], one["loaded"]) for one in told], 2 * [("second", kept)])

    def test_without_a_list_the_script_is_read_again(self):
        self.write("torch/__init__.py", TORCH)
        self.write("torch/_dynamo.py", "")
        self.write("torch/libtorch_cpu.so", "x")
        auto = ("--nproc-per-node=2", "--keep-warm=60s")
        run = self.start(*auto, self.path("say.py"), self.path("said"), "wait")
        self.said(2, run)
        self.wait_for(lambda: "has loaded torch,torch._dynamo" in str(self.status()), run)
        self.terminate(run)
        for line, expected in (("X = 1", True), ("print('before')", False)):
            kept = self.mark.living("ddprun: preload process")
            self.wait_for(lambda: "pid" in self.kept(), run)
            self.write("say.py", SAY.format(tag="edited").replace("import torch", line + "\nimport torch"))
            os.unlink(self.path("said"))
            run = self.ask(*auto, self.path("say.py"), self.path("said"))
            self.assertEqual({one["loaded"] for one in self.said(2, run)} == set(kept), expected, run.all())
        self.assertIn("comes before `import torch`", run.err())

    def test_one_that_still_loads_is_not_kept(self):
        self.write("torch/__init__.py", TORCH)
        self.write("torch/_dynamo.py", "import os, signal\n'RANK' in os.environ or signal.sigtimedwait([], 60)\n")
        self.write("torch/libtorch_cpu.so", "x")
        run = self.start("--nproc-per-node=2", "--keep-warm=60s", self.path("say.py"), self.path("said"), "wait")
        self.said(2, run)
        self.wait_for(lambda: self.mark.living("ddprun: preload process"), run)
        self.terminate(run)
        self.assert_gone(5)
        self.assertEqual(self.sockets(), [])

    def test_runs_that_end_together_keep_one(self):
        runs = [self.begin(str(number)) for number in range(3)]
        self.all_end(runs)
        self.wait_for(lambda: len(self.mark.living("ddprun: preload process")) == 1, *runs)
        self.wait_for(lambda: self.kept().startswith("pid"), *runs)
        self.assertEqual(len(self.sockets()), 1)

    def test_a_guard_that_stands_still_ends_no_other_run(self):
        run = self.begin("wait")
        told = self.said(2, run)
        run.signal(signal.SIGSTOP)
        for one in told:
            os.kill(one["pid"], signal.SIGTERM)
        [kept] = {one["loaded"] for one in told}
        self.wait_for(lambda: self.sockets(), run)
        used, other, _ = self.is_used(kept)
        self.assertFalse(used, other.all())
        run.signal(signal.SIGCONT)
        self.assertEqual(run.wait(), 7, run.all())

    def test_a_configuration_that_can_be_read_once_is_read_once(self):
        _, kept = self.first()
        os.mkfifo(self.path("fifo"))
        run = self.begin("2", flags=("--config=" + self.path("fifo"),))
        with open(self.path("fifo"), "w") as file:
            file.write("prefix = \"rank\"\n")
        self.assertEqual(run.wait(), 0, run.all())
        self.assertNotIn(kept, {one["loaded"] for one in self.said(4, run)})

    def test_nothing_of_the_run_is_held(self):
        _, kept = self.first()
        self.wait_for(lambda: os.getsid(kept) == kept)
        self.assertEqual({os.readlink(f"/proc/{kept}/fd/{number}") for number in range(3)}, {"/dev/null"})
        self.wait_for(lambda: self.kept())  # It does nothing else any more.

        def held():
            try:
                return [os.readlink(f"/proc/{kept}/fd/{number}") for number in os.listdir(f"/proc/{kept}/fd")]
            except FileNotFoundError:
                return ["it has just closed one"]
        self.wait_for(lambda: sum(one.startswith("socket:") for one in held()) == 1)  # The connection of that is closed.
        self.assertEqual([one for one in held() if one.startswith("pipe:") or one.startswith(self.directory)], [])
        self.assertEqual(read_text(f"/proc/{kept}/oom_score_adj").strip(), "1000")

    def test_another_one_is_made_where_something_differs(self):
        def changed():
            self.write("torch/__init__.py", "import decimal, os\nPID = os.getpid()\nX = 1\n")

        def hidden():
            self.write("decimal.py", "")

        def few():
            resource.setrlimit(resource.RLIMIT_NOFILE, (1000, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
        limit = resource.getrlimit(resource.RLIMIT_NOFILE)
        for what, change, how, why in (
                ("a file", changed, {}, "torch/__init__.py has changed since it was loaded"),
                ("a name", hidden, {}, "decimal beside the program would hide what was loaded"),
                ("a variable", None, {"environment": {"LR": "2"}}, "its variable LR differs from this run's"),
                ("limits", few, {}, "Max open files .*1000")):
            with self.subTest(what):
                _, kept = self.first()
                try:
                    change and change()
                    used, run, _ = self.is_used(kept, **how)
                finally:
                    resource.setrlimit(resource.RLIMIT_NOFILE, limit)
                self.assertFalse(used, run.all())
                self.assertRegex(run.err(), "not using the kept preload process: .*" + why)
                os.path.exists(self.path("decimal.py")) and os.unlink(self.path("decimal.py"))
                os.unlink(self.path("said"))
                self.kept("--stop")

    def test_signals_and_the_end_of_ddprun_are_those_of_the_run(self):
        for number, code in ((signal.SIGTERM, 143), (signal.SIGKILL, 137)):
            with self.subTest(number):
                _, kept = self.first()
                run = self.begin("wait")
                told = self.said(4, run)
                self.assertEqual({one["loaded"] for one in told}, {kept})
                run.signal(number)
                self.assertEqual(run.wait(), code, run.all())
                self.assertTrue(eventually(lambda: not self.mark.living("say.py")), "workers live on")
                os.unlink(self.path("said"))
                # Of the run whose end was just heard it may be kept a moment later.
                self.assertTrue(eventually(lambda: (self.kept("--stop"), not self.mark.living())[1]), self.mark.living())

    def test_a_guard_that_is_killed_takes_the_run_with_it(self):
        _, _ = self.first()
        run = self.begin("wait")
        self.said(4, run)
        [guard] = [pid for pid in self.mark.living("--keep-warm") if os.getsid(pid) == pid != run.process.pid]
        os.kill(guard, signal.SIGKILL)
        self.assertEqual(run.wait(), 137, run.all())
        self.assertIn("the guard of this run was killed", run.err())
        self.assert_gone(10)

    def test_a_process_that_does_not_answer_is_left_alone(self):
        _, kept = self.first()
        os.kill(kept, signal.SIGSTOP)
        reader, writer = os.pipe()
        with open(reader) as out:
            used, run, told = self.is_used(kept, out=writer)
            os.close(writer)
            self.assertTrue(select.select([out], [], [], 10)[0], "it holds the launch's stdout")
            self.assertEqual(out.read(), "")
        self.assertFalse(used, run.all())
        os.kill(kept, signal.SIGCONT)  # Its connection is closed, and another one has its name.
        self.wait_for(lambda: kept not in self.mark.living(), run)
        self.assertEqual(len(self.said(4, run)), len(told), "it has started no run")
        os.kill(self.mark.living("ddprun: preload process")[0], signal.SIGKILL)  # The next run finds a name alone.
        self.assertFalse(self.is_used(kept)[0])

    def test_it_ends_when_it_was_not_asked_or_has_no_name(self):
        run = self.begin("1", flags=("--keep-warm=300ms",))
        self.assertEqual(run.wait(), 0, run.all())
        self.assert_gone(10)
        self.assertEqual(self.sockets(), [])

    def test_there_are_two_at_most(self):
        for name in ("a", "b", "c"):
            self.write(f"{name}.py", "import torch\n")
            self.run = self.start("--preload=torch", "--keep-warm=60s", self.path(f"{name}.py"))
            self.assertEqual(self.run.wait(), 0, self.run.all())
        self.wait_for(lambda: len(self.mark.living("ddprun: preload process")) == 2, self.run)
        listed = self.wait_for(lambda: "loading" not in (told := self.kept()) and told, self.run)
        self.assertEqual((listed.count("a.py"), listed.count("b.py"), listed.count("c.py")), (0, 1, 1), listed)

    def test_whoever_connects_without_a_request_changes_nothing(self):
        _, kept = self.first()
        [name] = self.sockets()
        clients = []
        for message in (None, b"", b"x", 12 * b"\xff", (1).to_bytes(4, "little")):
            client = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            clients.append(client)
            client.connect(self.path("run", "ddprun", name))
            if message is not None:
                client.send(message)
        with open(os.devnull) as nothing:  # A launch whose text is empty, and one that is cut.
            for size in (0, 3):
                client = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
                clients.append(client)
                client.connect(self.path("run", "ddprun", name))
                text = os.memfd_create("text")
                os.write(text, size * b"x")
                socket.send_fds(client, [(1).to_bytes(4, "little")], [nothing.fileno()] * 3 + [text])
                os.close(text)
        self.wait_for(lambda: f"pid {kept}" in self.kept(), what="an answer")
        for client in clients:
            client.close()
        used, run, _ = self.is_used(kept)
        self.assertTrue(used, run.all())

    def test_a_variable_of_its_name_is_no_launch(self):
        run = self.ask("--nproc-per-node=1", "--no-python", "true", environment={"DDPRUN_KEPT": "x 3 4 5"})
        self.assertNotIn("KEPT", run.err())
