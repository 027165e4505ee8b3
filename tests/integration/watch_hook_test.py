"""The hook that ddprun puts into a Python worker that it starts from its file: a hang is seen with nothing installed, and
the program sees nothing of it. tests/torch/hang_torch_test.py has the same verdict of the real torch."""

import ast
import glob
import os
import shutil
import sys

from ddprun_runs import DdprunTest, read_text, workers_below
from process_state import RUNS_OWN

SEEN = """
import os, posix, subprocess, sys, zipimport
def environ(text): return text.split(b"\\0")
def finders(): return [getattr(one, "__qualname__", type(one).__qualname__) for one in sys.meta_path]
def look():
    return {"path": list(sys.path), "modules": list(sys.modules), "finders": finders(),
            "variables": list(os.environ.items()), "given": list(posix.environ.items()),
            "shown": environ(open("/proc/self/environ", "rb").read()), "caches": sorted(sys.path_importer_cache),
            "archives": sorted(zipimport._zip_directory_cache), "hooks": len(sys.path_hooks),
            "descriptors": sorted(os.listdir("/proc/self/fd")), "tasks": len(os.listdir("/proc/self/task")),
            "arguments": [sys.argv, getattr(sys, "orig_argv", None), repr(sys.flags)]}
"""
PROGRAM = """
import seen
import importlib._bootstrap, os, subprocess, sys
found = seen.look()
for name in ("sitecustomize", "usercustomize"):
    module = sys.modules.get(name)
    found[name] = module and [sorted(vars(module)), module.__file__, module.__spec__.origin, getattr(module, "FOUND", None)]
found["child"] = seen.environ(subprocess.run(["env", "-0"], stdout=subprocess.PIPE).stdout)
child = subprocess.run([sys.executable, "-c", "import seen; print(seen.look())"], stdout=subprocess.PIPE)
found["child Python"] = eval(child.stdout)
def failing():
    try:
        import not_there
    except ImportError:
        import traceback
        return traceback.format_exc()
found["traceback"] = failing()
reader, writer = os.pipe()
if os.fork() == 0:
    import torch.distributed
    os.write(writer, b"%d" % len(os.listdir("/proc/self/task")))
    os._exit(0)
found["threads of a child"] = os.read(reader, 9)
os.close(reader), os.close(writer), os.wait()
hooked = "start" in importlib._bootstrap._find_and_load.__code__.co_freevars
import torch.distributed
found["finders with torch"] = seen.finders()
found["modules with torch"] = [name for name in sys.modules if "ddprun" in name]
with open("found", "w") as file:
    file.write(repr((hooked, importlib._bootstrap._find_and_load.__name__, found)))
"""
CUSTOM = "import os, sys\nFOUND = [list(sys.path), sorted(os.environ), 'seen' in sys.modules]\n"
# Rank 2 begins five collectives, and the others wait for it in the sixth.
TORCH = {
    "torch/__init__.py": "", "torch/version.py": "__version__ = '2.9.0'\n", "torch/_C/__init__.py": "",
    "torch/distributed/__init__.py": "import torch.version, torch._C._distributed_c10d\n",
    "torch/_C/_distributed_c10d.py": "import json\nbegun = ended = 0\ndef _dump_fr_trace_json(includeCollectives=True):\n"
    "    return json.dumps({'pg_status': {'0': {'last_enqueued_collective': begun, 'last_completed_collective': ended}}})\n",
}
HANGS = """
import os, signal
import torch.distributed
counter = torch._C._distributed_c10d
counter.ended = 5
counter.begun = 5 if os.environ["RANK"] == "2" else 6
signal.pause()
"""

# Until somebody opens the fifo, the main thread stands where no signal wakes it, as if it waited for a disk.
WAITS = """
import ctypes
import torch.distributed
libc = ctypes.CDLL(None)
actions = ctypes.create_string_buffer(256)
libc.posix_spawn_file_actions_init(actions)
libc.posix_spawn_file_actions_addopen(actions, 0, b"fifo", 0, 0)
libc.posix_spawn(None, b"/bin/true", actions, None, (ctypes.c_char_p * 2)(b"true", None), None)
"""

# Ends once a thread of another file than Python's own runs beside it.
THREADS = """
import signal, sys, torch.distributed
def files(frame):
    return [frame.f_code.co_filename, *files(frame.f_back)] if frame else []
others = []
while not others:
    signal.sigtimedwait([], 0.01)
    others = [file for frame in sys._current_frames().values() for file in files(frame)
              if file != __file__ and not file.endswith("threading.py")]
print(others[0])
"""
# A program that waits for a signal or for its threads does so without the watch.
ALONE = """
import os, signal, threading, torch.distributed
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
os.kill(os.getpid(), signal.SIGUSR1)
print(signal.sigwait({signal.SIGUSR1}) == signal.SIGUSR1, len(threading.enumerate()), len(os.listdir("/proc/self/task")))
"""


class WatchHook(DdprunTest):
    def setUp(self):
        super().setUp()
        for name, text in {**TORCH, "seen.py": SEEN, "hangs.py": HANGS, "program.py": PROGRAM}.items():
            self.write(name, text)
        self.environment.update(PYTHON_EXEC=os.environ.get("TEST_PYTHON", sys.executable), PYTHONDONTWRITEBYTECODE="1")
        self.environment.pop("PYTHONPATH", None)

    def found(self, *words, flags=(), **environment):
        """(whether the watch waits for torch, what the program saw)"""
        run = self.run_ddprun(*flags, *words, environment=environment)
        self.assertNotIn("sitecustomize", run.err())
        hooked, name, found = ast.literal_eval(read_text(self.path("found")))
        os.unlink(self.path("found"))
        self.assertEqual(name, "_find_and_load")
        return hooked, self.without_own(found)

    def without_own(self, value):
        """Without what differs from run to run."""
        if isinstance(value, dict):
            return {name: self.without_own(one) for name, one in value.items()}
        if isinstance(value, bytes) and value.partition(b"=")[0].decode() in RUNS_OWN:
            return value.partition(b"=")[0]
        if isinstance(value, tuple) and value and os.fsdecode(value[0]) in RUNS_OWN:
            return value[0]
        return [self.without_own(one) for one in value] if isinstance(value, list) else value

    def assert_unseen(self, *words, hooked=True, **environment):
        with_it, found = self.found(*words, flags=("--hang-timeout=60",), **environment)
        without, expected = self.found(*words, flags=("--hang-timeout=0",), **environment)
        self.assertEqual((with_it, without), (hooked, False))
        for name in expected:
            self.assertEqual(found[name], expected[name], name)
        return found

    def test_the_program_sees_nothing_of_it(self):
        for environment in ({}, {"PYTHONPATH": ""}, {"PYTHONPATH": f"{self.directory}:/mine"}):
            with self.subTest(environment):
                found = self.assert_unseen("program.py", **environment)
                self.assertNotIn("/proc/self/fd", repr(found))
                self.assertEqual(found["threads of a child"], b"1")

    def test_under_each_python_of_this_machine(self):
        pyenv = os.environ.get("PYENV_ROOT") or os.path.expanduser("~/.pyenv")
        found = [path for minor in range(8, 14) for path in [
            f"/usr/bin/python3.{minor}", *glob.glob(f"{glob.escape(pyenv)}/versions/3.{minor}.*/bin/python3")]]
        for path in filter(os.path.exists, found):
            with self.subTest(path):
                self.assert_unseen("program.py", PYTHON_EXEC=path)

    def test_modules_of_the_users_own_run_at_the_start(self):
        for name in ("sitecustomize.py", "usercustomize.py"):
            self.write("own/" + name, CUSTOM)
        found = self.assert_unseen("program.py", PYTHONPATH=self.path("own"))
        self.assertEqual(found["sitecustomize"][1], self.path("own/sitecustomize.py"))

    def test_where_it_would_not_be_loaded_nothing_changes(self):
        python = self.environment["PYTHON_EXEC"]
        self.assert_unseen("-m", "program")
        for option in ("-I", "-E", "-S"):
            path = f"import sys; sys.path.insert(0, {self.directory!r}); import program"
            self.assert_unseen("--no-python", python, option, "-c", path, hooked=False)
        shell = self.write("worker.sh", f"exec {python} program.py\n")
        self.assert_unseen("--no-python", "sh", shell, hooked=False)
        self.assertFalse(self.found("program.py", flags=("--hang-timeout=60",), DDPRUN_WATCH="0")[0])

    def test_a_program_that_reports_nothing_is_judged_with_nothing_installed(self):
        run = self.run_ddprun("--nproc-per-node=3", "--hang-timeout=3", "--preload=none", "hangs.py", expect=124, limit=60)
        self.assertRegex(run.err(), r"rank 2 \(.*\) hung: no collective begun for 3\.0 s \(its peers are at collective 6, it is "
                                    r"after collective 5; counts may be 1 s old\)")

    def test_a_worker_that_waits_for_a_disk_tells_where_it_stands(self):
        os.mkfifo(self.path("fifo"))
        run = self.start("--hang-timeout=60", "--preload=none", self.write("waits.py", WAITS))
        self.wait_for(lambda: any("D (disk" in read_text(f"/proc/{pid}/status") for pid in workers_below(run.process.pid)), run)
        (worker,) = workers_below(run.process.pid)
        self.assertRegex(self.ask("stacks", str(worker)).out(), r"(?s)reported by itself:.*<module> \(\S+waits.py:8\).*state D")
        with open(self.path("fifo"), "w"):
            self.all_end([run])

    def test_its_frames_say_whose_they_are(self):
        run = self.run_ddprun("--hang-timeout=60", self.write("threads.py", THREADS))
        self.assertEqual(run.out(), "<ddprun watch>\n")

    def test_its_thread_takes_no_signal_and_is_not_in_the_programs_list(self):
        for preload in ("none", "torch"):
            run = self.run_ddprun("--hang-timeout=60", f"--preload={preload}", self.write("alone.py", ALONE))
            self.assertEqual(run.out(), "True 1 2\n")

    def test_a_launcher_that_was_copied_does_it_too(self):
        alone = shutil.copy(os.environ["DDPRUN"], self.path("ddprun"))
        self.ask("--hang-timeout=60", "program.py", executable=alone)
        self.assertTrue(ast.literal_eval(read_text(self.path("found")))[0])
