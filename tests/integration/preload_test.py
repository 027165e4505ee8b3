"""--preload: Python workers are forked from a preload process, and nothing else about them is different."""

import json
import os
import re
import signal
import sys
import tempfile

from ddprun_runs import DdprunTest, read_text

TWO = "--nproc-per-node=2"
SAY = """
import json, os, random, sys
import told
def say(what):
    with open(sys.argv[1], "a") as file:
        file.write(json.dumps(what) + "\\n")
say({"rank": os.environ["RANK"], "pid": os.getpid(), "parent": os.getppid(), "session": os.getsid(0),
     "loaded": told.PID, "random": random.random(), "argv": sys.argv, "path": sys.path,
     "environment": dict(os.environ), "shown": open("/proc/self/environ").read().split(chr(0))[:-1]})
"""
# Ways to end, and what Python says of itself there.
ENDS = {
    "abort": "import os; os.abort()",
    "atexit": "import atexit, threading, warnings; atexit.register(print, 'bye'); warnings.warn('w'); print('hi')\n"
              "threading.Thread(target=lambda: print('t')).start()",
    "bad output": "print('\\udcff')",
    "chained": "try:\n  1/0\nexcept Exception as e:\n  raise RuntimeError('x') from e",
    "code": "import sys; sys.exit(3)",
    "text": "import sys; sys.exit('some text')",
    "interrupt": "raise KeyboardInterrupt",
    "stack": "import traceback; traceback.print_stack()",
    "syntax": "def (",
    "names": "import signal, sys; print(__name__, __file__, __spec__, sys.argv, sys.orig_argv, sys.flags, "
             "sys.path, sorted(vars()), sys.modules['__main__'].__doc__)\n"
             "print([str(signal.getsignal(n)) for n in (2, 13, 15)], signal.pthread_sigmask(signal.SIG_BLOCK, []))\n"
             "print([(s.name, s.encoding, s.errors, s.line_buffering) for s in (sys.stdin, sys.stdout, sys.stderr)])",
    "process": "import multiprocessing as m\nif __name__ == '__main__':\n"
               "  p = m.get_context('spawn').Process(target=print, args=('child',)); p.start(); p.join()",
}


class Preload(DdprunTest):
    def setUp(self):
        super().setUp()
        self.environment["PYTHON_EXEC"] = sys.executable
        self.write("told.py", "import os\nPID = os.getpid()\nopen(os.path.join(os.path.dirname(__file__),"
                              " 'loads'), 'a').write(f'{PID}\\n')\n")
        self.write("say.py", SAY)

    def said(self):
        whole = read_text(self.path("said")).rpartition("\n")[0]  # The last line may be half written.
        return [json.loads(line) for line in whole.splitlines()]

    def loads(self):
        return len(read_text(self.path("loads")).split())

    def say(self, *flags, expect=0, **more):
        return self.run_ddprun(TWO, *flags, self.path("say.py"), self.path("said"), expect=expect, **more)

    def test_workers_are_forked_and_are_as_others_are(self):
        self.write("slow.py", "import signal\nsignal.sigtimedwait([], 1.5)\n")  # Longer than is silent.
        run = self.say("--preload=slow,told")
        self.assertIn("preloading slow,told (once for each node; restarts find it done)\n", run.err())
        self.assertNotIn("takes longer than usual", run.err())
        told = self.said()
        self.assertEqual(sorted(w["rank"] for w in told), ["0", "1"])
        self.assertEqual(self.loads(), 1, "loaded by the preload process alone")
        for worker in told:
            self.assertNotEqual(worker["loaded"], worker["pid"])
            self.assertEqual(worker["session"], worker["pid"])
            self.assertEqual(sorted(worker["shown"]),
                             sorted(f"{k}={v}" for k, v in worker["environment"].items()))
            self.assertFalse([name for name in worker["environment"] if name.startswith("DDPRUN_PRELOAD_")])
        self.assertEqual(len({w["parent"] for w in told}), 1)
        self.assertEqual(len({w["random"] for w in told}), 2, "each has numbers of its own")
        os.unlink(self.path("said"))
        self.say("--preload=none")
        cold = {w["rank"]: w for w in self.said()}
        self.assertEqual(self.loads(), 3)
        for worker in told:
            other = cold[worker["rank"]]
            self.assertEqual(worker["environment"].keys(), other["environment"].keys())
            for same in ("argv", "path"):
                self.assertEqual(worker[same], other[same])

    def test_ends_are_as_without(self):
        for name, text in ENDS.items():
            with self.subTest(name):
                self.write("end.py", text + "\n")
                outcomes = []
                for preload in ("none", "told"):
                    run = self.start("--nproc-per-node=1", f"--preload={preload}", self.path("end.py"))
                    code = run.wait()
                    own = re.sub(r"(?m)^ddprun \| .*\n", "", re.split(r"={20,}", run.err())[0])
                    outcomes.append((code, run.out(), re.sub(r"pid \d+|0x[0-9a-f]+", "number", own)))
                self.assertEqual(outcomes[0], outcomes[1])
        self.assertEqual(self.loads(), len(ENDS))

    def test_every_way_to_name_a_program(self):
        self.write("mod.py", SAY)
        where = {"PYTHONPATH": self.directory}
        for arguments in (("-m", "mod"), ("--run-path", self.path("say.py"))):
            with self.subTest(arguments[0]):
                self.run_ddprun(TWO, "--preload=told", *arguments, self.path("said"), environment=where)
                self.assertEqual(self.loads(), 1)
                for worker in self.said():
                    self.assertEqual(worker["environment"]["PYTHONPATH"], self.directory)
                for name in ("said", "loads"):
                    os.unlink(self.path(name))

    def test_a_module_that_a_fork_would_lose_or_share_is_left_out_with_all_that_import_it(self):
        """All of it is found in one try, and named with its reason; the rest is loaded ahead."""
        bad = {
            "reads": ("import os\nX = os.environ.get('LOCAL_RANK')\n", "reads LOCAL_RANK"),
            "sets": ("import os\nos.environ.setdefault('MASTER_ADDR', 'x')\n", "reads MASTER_ADDR"),
            "thread": ("import threading\nthreading.Thread(target=threading.Event().wait, daemon=True).start()\n", "starts a thread"),
            "opens": ("import os\nFILE = open(os.devnull)\n", "keeps a file open"),
            "child": ("import subprocess\nCHILD = subprocess.Popen(['sleep', '100'])\n", "leaves a child"),
            "seeds": ("import random\nrandom.seed(4)\n", "draws random numbers"),
            "draws": ("import random\nX = random.random()\n", "draws random numbers"),
            "copies": ("import os\nCOPY = os.environ.copy()\n", "copies the environment"),
            "writes": ("import os\nos.environ['MASTER_PORT'] = '1'\n", "sets MASTER_PORT"),
            "locks": ("import multiprocessing\nLOCK = multiprocessing.Lock()\n", "makes a lock that workers would share"),
            "moves": ("import os\nos.chdir('/')\n", "changes the directory"),
        }
        users = {"first": "import reads\n", "second": "try:\n  from first import reads\nexcept ImportError:\n  pass\n",
                 "third": "def call():\n  import second\ncall()\n", "package/__init__": "",
                 "package/part": "import os\nfrom third import call\n"}
        good = {"good": "import os\nPID = os.getpid()\n", "package/other": "import good\n",
                "closes": "import os\nopen(os.devnull).close()\n", "speaks": "print('once')\n",
                "waits": "import subprocess, threading\nsubprocess.run(['true'])\n"
                         "one = threading.Thread(target=int)\none.start()\none.join()\n"}
        os.mkdir(self.path("package"))
        for name, text in {**{name: text for name, (text, _) in bad.items()}, **users, **good}.items():
            self.write(f"{name}.py", text)
        names = [name.replace("/", ".").replace(".__init__", "") for name in [*bad, *users, *good]]
        self.write("all.py", "import os, sys\nimport good\nprint(good.PID == os.getpid(), os.environ['RANK'])\n"
                             f"import {', '.join(names)}\nprint(reads.X, os.environ['RANK'])\nchild.CHILD.kill()\n")
        run = self.run_forked(f"--preload={','.join(names)}", self.path("all.py"))
        self.assertEqual(sorted(run.out().splitlines()),
                         sorted(["once"] + [f"{word} {rank}" for rank in "01" for word in ("False", rank)]))
        [said] = re.findall("has loaded .* without (.*)", run.err())
        self.assertEqual(dict(re.findall(r"(\w+) \((.*?)\)", said)), {name: why for name, (_, why) in bad.items()})
        self.assertRegex(said, r" and 4 that import them \[preload-without\]$")
        self.assertEqual(self.mark.living(), [])

    def test_all_imports_of_the_module_level_are_loaded_but_the_programs_own_modules(self):
        """Own modules are read: what they import is loaded."""
        lib = self.path("venv", "site-packages")  # Installed modules are not the program's own, wherever they lie.
        os.makedirs(os.path.join(lib, "pack"))
        os.symlink(lib, self.path("lib"))
        for name in ("one", "two", "three", "four", "five", "six", "pack/__init__", "pack/inner", "typing_only", "absent_in_function"):
            self.write(f"lib/{name}.py", "import os\nPID = os.getpid()\n")
        self.write("lib/two.py", "import xml.etree.ElementTree, os\nPID = os.getpid()\n")
        self.write("lib/seven.py", "import xml.etree.ElementTree\n")
        self.write("lib/fails.py", "1 / 0\n")
        self.write("lib/ends.py", "import sys\nsys.exit('start it with torchrun')\n")
        self.write("mine/__init__.py", "from . import deep\n")
        self.write("mine/deep.py", "import os, five\nfrom .more import six\nPID = os.getpid()\n")
        self.write("mine/more.py", "import six\n")
        self.write("mine/bad.py", "def (\n")
        self.write("all.py", """
import os, sys, typing, xml
X = 1
if X > 1:
    import seven
import one
try:
    import two, not_there
except ImportError:
    pass
if typing.TYPE_CHECKING:
    import typing_only
else:
    from three import PID
def f():
    import absent_in_function
for _ in range(1):
    import four
try:
    import fails
except ZeroDivisionError:
    pass
try:
    import ends
except SystemExit:
    pass
try:
    from mine import bad
except SyntaxError:
    import __main__
from pack import inner
from mine import deep
names = ("one", "two", "three", "four", "five", "six", "pack", "pack.inner")
f()
if __name__ == "__main__":
    xml.etree.ElementTree  # It is there since another module has loaded it.
    print([name for name in names if sys.modules[name].PID == os.getpid()], deep.PID == os.getpid(),
          sys.modules["absent_in_function"].PID == os.getpid(), "typing_only" in sys.modules)
""")
        for more, own in (("", True), (",mine", False)):
            with self.subTest(more):
                run = self.run_forked("--preload=imports" + more, self.path("all.py"), environment={"PYTHONPATH": lib})
                self.assertEqual(run.out().splitlines(), [f"[] {own} True False"] * 2, run.all())
                self.assertIn("without fails (raises ZeroDivisionError), ends (raises SystemExit)", run.err())

    def test_a_variable_that_was_set_by_a_module_left_out_is_there_for_the_rest(self):
        lib = self.enterContext(tempfile.TemporaryDirectory())
        os.symlink(lib, self.path("lib"))
        self.write("lib/sets.py", "import os\nX = os.environ.get('RANK')\nos.environ['SET'] = 'yes'\n")
        self.write("lib/finds.py", "import os\nFOUND, PID = os.environ.get('SET'), os.getpid()\n")
        warm, cold = self.warm_and_cold("import sets, finds, os\nprint(finds.FOUND, os.environ['SET'], sets.X)\n"
                                        "if os.environ['TORCHELASTIC_RUN_ID'] != 'cold': print(finds.PID == os.getpid())\n",
                                        environment={"PYTHONPATH": lib})
        self.assertEqual([line for line in warm if line not in ("True", "False")], [line for line in cold if line not in ("True", "False")])
        self.assertEqual([warm.count("False"), cold.count("False")], [2, 0])

    def test_an_allocator_starts_no_thread_in_the_preload_process_alone(self):
        """As pyarrow, whose jemalloc reads the variable once."""
        self.write("arrow.py", """
import os, threading
NAME = "JE_ARROW_MALLOC_CONF"
FOUND = os.environ.get(NAME, "")
def stay():
    with open("/proc/thread-self/comm", "w") as file:
        file.write("jemalloc_bg_thd")
    ready.set()
    threading.Event().wait()
if "background_thread:false" not in FOUND:
    ready = threading.Event()
    threading.Thread(target=stay, daemon=True).start()
    ready.wait()
""")
        shows = "import arrow, os\nprint(os.environ.get(arrow.NAME))\n"
        for given in (None, "dirty_decay_ms:0", "background_thread:false"):
            with self.subTest(given):
                warm, cold = self.warm_and_cold(shows, "arrow", environment={"JE_ARROW_MALLOC_CONF": given} if given else None)
                self.assertEqual(warm, cold)
                self.assertEqual(warm, [str(given)] * 2)
        self.write("both.py", shows)
        run = self.run_ddprun(TWO, "--preload=arrow", self.path("both.py"),
                              environment={"JE_ARROW_MALLOC_CONF": "background_thread:true"})
        self.assertIn("--preload not used: the preload process cannot be used: nothing can be loaded ahead: arrow (starts a thread)", run.err())

    def test_a_restart_is_forked_too_and_a_changed_file_is_loaded_anew(self):
        self.write("again.py", SAY + """
count = int(os.environ["TORCHELASTIC_RESTART_COUNT"])
if count == 1:
    with open(told.__file__, "a") as file:
        file.write("PID = -1\\n")
sys.exit(3 if count < 3 else 0)
""")
        run = self.run_ddprun("--nproc-per-node=1", "--max-restarts=3", "--preload=told",
                              self.path("again.py"), self.path("said"))
        told = self.said()
        self.assertEqual([w["loaded"] == -1 for w in told], [False, False, True, True], run.all())
        self.assertIn("--preload not used: the preload process: RuntimeError", run.err())
        self.assertIn("told.py has changed since it was loaded", run.err())
        self.assertEqual(self.loads(), 3, "the preload process, the cold one, the next preload process")

    def test_a_program_that_cannot_be_forked_starts_cold_and_says_why(self):
        for name, text, why in (
                ("raises", "raise OSError('no')", r"OSError: no"),
                ("exits", "import sys; sys.exit(3)", r"SystemExit: 3"),
                ("dies", "import os; os._exit(1)", r"it ended while it was loaded"),
                ("threads", "import threading\nthreading.Thread(target=threading.Event().wait, "
                            "daemon=True, name='poller').start()",
                 r"nothing can be loaded ahead: threads \(starts a thread\)"),
                ("missing", None, r"ModuleNotFoundError: No module named 'missing'")):
            with self.subTest(name):
                if text:
                    self.write(f"{name}.py", text + "\n")
                run = self.say(f"--preload={name}")
                self.assertEqual(len(re.findall("--preload not used", run.err())), 1, run.all())
                self.assertRegex(run.err(), why)
                self.assertEqual(len(self.said()), 2)
                os.unlink(self.path("said"))

    def run_forked(self, *arguments, **more):
        """On a busy machine a fork may take longer than is waited for: once more."""
        for _ in range(3):
            run = self.run_ddprun(TWO, *arguments, **more)
            if "did not answer within" not in run.err():
                return run
        return self.skipTest("the preload process was late, and workers started cold")

    def warm_and_cold(self, text, preload="imports", environment=None):
        """The output of two workers of a program, forked from a preload process and started from its
        file."""
        self.write("both.py", text)
        runs = [self.run_forked(f"--preload={how}", self.path("both.py"), environment=environment) for how in (preload, "none")]
        self.assertNotIn("cold", runs[0].err())
        return [sorted(run.out().splitlines()) for run in runs]

    def test_the_preload_process_never_runs_the_script(self):
        self.write("ranked.py", "import os\nopen(os.path.join(os.path.dirname(__file__), 'ranks'), 'a').write("
                                "os.environ.get('RANK', 'none') + '\\n')\n")
        self.write("again.py", "import os, sys\nif 'RANK' not in os.environ:\n"
                               "    os.execv(sys.executable, [sys.executable] + sys.orig_argv[1:])\n")
        self.write("child.py", "import os, subprocess, sys\nif b'\\0RANK=' not in open('/proc/self/environ', 'rb').read():\n"
                               "    subprocess.call([sys.executable] + sys.orig_argv[1:], close_fds=False)\n")
        os.mkdir(self.path("a:b"))
        wrapper = self.path("python3")
        with open(wrapper, "w") as file:
            file.write(f'#!/bin/sh\nunset PYTHONPATH\nexec {sys.executable} "$@"\n')
        os.chmod(wrapper, 0o755)
        for name, preload, environment, warm in (
                ("a colon", "told", {"TMPDIR": self.path("a:b")}, True),
                ("executed anew", "again", {}, False),
                ("started again", "child", {}, True),
                ("a wrapper", "told", {"PYTHON_EXEC": wrapper}, False)):
            with self.subTest(name):
                run = self.run_ddprun(TWO, f"--preload={preload}", self.path("ranked.py"), environment=environment)
                self.assertEqual(sorted(read_text(self.path("ranks")).split()), ["0", "1"], run.all())
                self.assertEqual("--preload not used" not in run.err(), warm, run.all())
                os.unlink(self.path("ranks"))

    def test_options_in_the_way(self):
        run = self.run_ddprun("--preload=told", "--no-python", sys.executable, "-I", "-c", "pass")
        self.assertIn("ignoring --preload: --preload cannot go with Python's option -I", run.err())
        run = self.run_ddprun("--preload=told", "--no-python", "/bin/true")
        self.assertIn("'/bin/true' is not Python", run.err())
        for bad in ("a b", "a,", "1a", "a..b", "a/b", "-a", "a,-b", "imports,-"):
            run = self.run_ddprun(f"--preload={bad}", self.path("say.py"), expect=2)
            self.assertIn("--preload takes auto, none, Python modules", run.err())

    def test_arguments_may_differ_from_worker_to_worker(self):
        self.say("--preload=told", "--pass-local-rank")
        self.assertEqual(self.loads(), 1)
        for rank in "01":  # Each wrote into the file that its first argument names.
            [worker] = map(json.loads, read_text(self.path("--local-rank=" + rank)).splitlines())
            self.assertEqual(worker["argv"], [self.path("say.py"), "--local-rank=" + rank, self.path("said")])
