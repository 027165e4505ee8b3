"""Without a flag: a preload process is made once the workers have loaded torch, where they may be started again."""

import json
import os
import re
import signal
import sys

from ddprun_runs import DdprunTest, children_of, command_of, read_text

TWO = "--nproc-per-node=2"
# A torch of a few lines: it has a library of that name in its memory, and is loud.
TORCH = """
import ctypes, os, sys
PID = os.getpid()
with open(os.path.join(os.path.dirname(__file__), "libtorch_cpu.so"), "rb") as library:
    ctypes.CDLL(None).mmap(None, ctypes.c_size_t(1), 1, 2, library.fileno(), ctypes.c_long(0))  # To read, private.
print("torch is here")
"""
SAY = """
import json, os, signal, sys
{before}
import torch
import torch._dynamo
with open(sys.argv[1], "a") as file:
    file.write(json.dumps({{"pid": os.getpid(), "loaded": torch.PID, "class": os.sched_getscheduler(0),
                           "oom": open("/proc/self/oom_score_adj").read(), "rank": os.environ["RANK"],
                           "shown": open("/proc/self/cmdline").read(),
                           "start": os.environ["TORCHELASTIC_RESTART_COUNT"]}}) + "\\n")
if os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
    signal.pause()
"""


class PreloadAuto(DdprunTest):
    def setUp(self):
        super().setUp()
        self.run_id = os.path.basename(self.directory)  # Another run of this test may be there beside it.
        self.environment["PYTHON_EXEC"] = sys.executable
        self.write("torch/__init__.py", TORCH)
        self.write("torch/_dynamo.py", "")
        self.write("torch/libtorch_cpu.so", "x")
        self.write("say.py", SAY.format(before=""))

    def said(self, start):
        whole = read_text(self.path("said")).rpartition("\n")[0]  # The last line may be half written.
        return [told for told in map(json.loads, whole.splitlines()) if told["start"] == start]

    def say(self, *flags):
        run = self.start(TWO, f"--rdzv-id={self.run_id}", *flags, self.path("say.py"), self.path("said"))
        self.wait_for(lambda: len(self.said("0")) == 2, run)
        return run

    def preloaded(self):
        told = self.status()
        return "".join(fact["value"] for fact in told["nodes"][0]["facts"] if fact["name"] == "preload") if told else ""

    def restart(self, run):
        os.kill(self.said("0")[1]["pid"], signal.SIGKILL)
        self.assertEqual(run.wait(), 0, run.err())
        return self.said("1")

    def test_a_restart_is_a_fork(self):
        harmless = "import warnings\nwarnings.filterwarnings('ignore')\nX: int = 1\nY = [X, 'y']\ndef f():\n    return print('never')"
        self.write("say.py", SAY.format(before=harmless))
        self.write("torch/_dynamo.py", "import os\nwith open(os.path.join(os.path.dirname(__file__), 'classes'), 'a') as file:\n"
                   "    file.write('%d\\n' % os.sched_getscheduler(0))\n")
        run = self.say("--max-restarts=1")
        self.wait_for(lambda: "has loaded torch,torch._dynamo" in self.preloaded(), run)
        shown = [command_of(pid) for pid in children_of(run.agent())]
        self.assertEqual(sorted("say.py" in command for command in shown), [False, True, True])
        # With autogroup the kernel shares CPUs among sessions first, whatever the class of their processes.
        autogroup = read_text("/proc/sys/kernel/sched_autogroup_enabled").strip() not in ("", "0")
        if autogroup or os.geteuid() == 0:
            classes = [os.SCHED_OTHER, os.SCHED_OTHER, os.SCHED_OTHER if autogroup else os.SCHED_IDLE]
            self.assertEqual(read_text(self.path("torch", "classes")), "".join(f"{one}\n" for one in classes))
        first, second = self.said("0"), self.restart(run)
        self.assertEqual({told["shown"] for told in second}, {told["shown"] for told in first})
        self.assertEqual(len(second), 2)
        self.assertEqual(len({told["loaded"] for told in second}), 1)
        self.assertFalse({told["loaded"] for told in second} & {told["pid"] for told in first + second})
        for told in second:  # Nothing is left of how it was loaded.
            self.assertEqual((told["class"], told["oom"]), (os.SCHED_OTHER, first[0]["oom"]))
        self.assertEqual(run.all().count("torch is here"), 2, "it was printed by those that were not forked")
        self.assertNotRegex(re.sub("(?m)^.*(recovered|restarting).*$", "", run.err()), "cold|preload")

    def test_there_is_none_where_workers_are_not_started_again(self):
        run = self.say()
        self.wait_for(lambda: "workers are not started again (--max-restarts" in self.preloaded(), run)
        run.signal(signal.SIGTERM)
        run.wait()

    def test_there_is_none_on_request(self):
        run = self.say("--preload=none", "--max-restarts=1")
        self.wait_for(self.status, run)
        self.assertEqual(self.preloaded(), "")
        self.assertEqual({told["pid"] == told["loaded"] for told in self.restart(run)}, {True})

    def test_the_program_may_do_without_torch(self):
        self.write("say.py", SAY.format(before="import types; torch = types.SimpleNamespace(PID=0)").replace(
            "import torch\nimport torch._dynamo\n", ""))
        run = self.say("--max-restarts=1")
        self.wait_for(lambda: "not all workers have loaded torch" in self.preloaded(), run)
        self.restart(run)

    def test_a_module_that_cannot_be_loaded_ahead_is_loaded_once(self):
        self.write("torch/_dynamo.py", "import os, threading\n"
                   "with open(os.path.join(os.path.dirname(__file__), 'loads'), 'a') as file:\n    file.write('x')\n"
                   "threading.Thread(target=threading.Event().wait, daemon=True).start()\n")
        run = self.say("--max-restarts=1")
        self.wait_for(lambda: "has loaded" in self.preloaded(), run)
        self.assertIn("without torch._dynamo (starts a thread)", self.preloaded())
        self.assertEqual({told["pid"] == told["loaded"] for told in self.restart(run)}, {False})
        self.assertEqual(len(read_text(self.path("torch", "loads"))), 5, "twice by two workers, and once ahead to see that")
        self.assertNotIn("thread", run.err())

    def test_the_reason_why_a_restart_was_no_fork_is_in_the_status_alone(self):
        """A change before the import: the worker executes its program anew, and the preload process ends."""
        self.write("sets.py", "import os\nos.environ['OMP_NUM_THREADS'] = '7'\n")
        self.write("say.py", SAY.format(before="import sets").replace('== "0"', 'in "012"'))
        run = self.say("--max-restarts=2")
        self.wait_for(lambda: "has loaded torch" in self.preloaded(), run)
        for start in ("0", "1"):
            os.kill(self.said(start)[0]["pid"], signal.SIGKILL)
            self.wait_for(lambda after=str(int(start) + 1): len(self.said(after)) == 2, run)
        self.assertEqual({told["pid"] == told["loaded"] for told in self.said("1") + self.said("2")}, {True})
        self.wait_for(lambda: "changes the variable OMP_NUM_THREADS before it imports torch" in self.preloaded(), run)
        run.signal(signal.SIGTERM)
        run.wait()
        self.assertNotIn("OMP_NUM_THREADS before", run.err())

    def test_a_program_that_does_anything_before_it_imports_torch_starts_from_its_file(self):
        """A directory is an effect that does not show, so it would be executed anew, and fail."""
        self.write("say.py", SAY.format(
            before="os.mkdir(sys.argv[1] + os.environ['TORCHELASTIC_RESTART_COUNT'] + os.environ['RANK'])\n"
                   "os.environ['OMP_NUM_THREADS'] = '7'"))
        run = self.say("--max-restarts=1")
        self.wait_for(lambda: re.search(r"^not used: .*say\.py:3 comes before `import torch` \(line \d\)$", self.preloaded()), run)
        self.assertEqual({told["pid"] == told["loaded"] for told in self.restart(run)}, {True})
        self.assertNotIn("loaded ahead", run.err())

    def test_a_slow_interpreter_delays_no_restart(self):
        """It is asked whether it loads the hook, and does not answer: only a shell that is called Python is there."""
        self.environment["PYTHON_EXEC"] = self.write(
            "python3", f'#!/bin/sh\ncase "$*" in *-c*) : >"{self.path("asked")}"; exec sleep 1000;; esac\n'
            f'exec {sys.executable} "$@"\n')
        os.chmod(self.path("python3"), 0o755)
        run = self.say("--max-restarts=1")
        self.wait_for(lambda: os.path.exists(self.path("asked")), run)
        self.wait_for(lambda: "the interpreter starts slowly" in self.preloaded(), run)
        self.restart(run)
        self.assertLess(int(re.search(r"run again after (\d+) ms", run.err())[1]), 5000)

    def test_one_that_is_killed_is_made_again(self):
        def preload_process():
            return [pid for pid in children_of(run.agent()) if command_of(pid).startswith("ddprun: preload")]
        run = self.say("--max-restarts=1")
        self.wait_for(lambda: "has loaded torch" in self.preloaded(), run)
        [first] = preload_process()
        os.kill(first, signal.SIGKILL)
        self.wait_for(lambda: set(preload_process()) - {first}, run)
        self.restart(run)
