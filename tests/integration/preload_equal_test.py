"""Modules loaded ahead (--preload) are not seen in a worker before the program imports them, and are then as in a cold
start.

`tree` does at its import all that imports do beside making a module; `leaf` is what it needs; `late` is a second tree.
tests/torch/preload_equal_torch_test.py does the same with torch.
"""

import re
import sys

from preload_equal import EqualTest  # noqa: E402

TREE = """
import atexit, copyreg, json, leaf, logging, os, sys, warnings
FOUND = {"environment": os.environ.get("SET"), "path": list(sys.path), "directory": os.getcwd(),
         "finders": [type(one).__name__ for one in sys.meta_path], "threads": os.environ.get("OMP_NUM_THREADS"),
         "mark": getattr(json, "tree_mark", None), "stub": getattr(sys.modules.get("tree.stub"), "mark", None)}
os.environ["TREE_SET"] = "yes"
os.environ.pop("TREE_GONE", None)
warnings.filterwarnings("ignore", message="of the tree")
warnings.simplefilter("default", DeprecationWarning, append=True)
log = logging.getLogger("tree.inner.log")
log.addHandler(logging.StreamHandler())
atexit.register(lambda: sys.modules["__main__"].report("the tree ends"))
class Finder:
    def find_spec(self, name, path=None, target=None):
        return None
sys.meta_path.append(Finder())
sys.path.append("/of-the-tree")
sys.path.insert(0, "/before-all")
json.tree_mark = "patched"
sys.modules["tree_alias"] = sys.modules[__name__]
sys.modules.setdefault("cython_runtime", type(sys)("cython_runtime"))
class Pickled:
    pass
copyreg.pickle(Pickled, lambda one: (Pickled, ()))
from tree import inner, stub
class Thing:
    pass
"""
FILES = {
    "tree/__init__.py": TREE,
    "tree/inner.py": "import tree\n",
    "tree/stub.py": "mark = 'real'\n",
    "leaf.py": "import fractions, os, warnings\nSET = os.environ.get('SET')\nwarnings.filterwarnings('ignore', message='of the leaf')\n"
               "os.environ['LEAF_SET'] = 'yes'\n",
    "late.py": "import json, logging, os\njson.late_mark = 1\nlogging.getLogger('late')\nos.environ['LATE'] = os.environ.get('TREE_SET', '')\n",
    "fails.py": "import json\n1 / 0\n",
}
END = "show(found=tree.FOUND)\n"
PROGRAMS = {
    "imports both": "show()\nimport tree\n" + END + "import late\nshow()\n",
    "imports nothing": "show()\n",
    "imports what the tree needs": "import json, logging\nshow()\nimport leaf\nshow()\nimport tree\n" + END,
    "imports a submodule": "from tree.inner import tree as tree\n" + END,
    "by importlib": "import importlib\ntree = importlib.import_module('tree')\n" + END,
    "sets its GPU": "import os\nos.environ['CUDA_VISIBLE_DEVICES'] = os.environ['LOCAL_RANK']\nimport tree\n" + END,
    "configures logging": "import logging.config\nlogging.config.dictConfig({'version': 1, 'root': {'level': 'DEBUG'}})\nimport tree\n" + END,
    "makes a parent logger": "import logging\nlogging.getLogger('tree').setLevel('ERROR')\nimport tree\n" + END,
    "makes a child logger": "import logging\nlogging.getLogger('tree.inner.log.more')\nimport tree\n" + END,
    "adds a finder at the end": "import sys\nclass Own:\n  def find_spec(self, *words): return None\nsys.meta_path.append(Own())\nimport tree\nshow()\n",
    "has loaded what Cython shares": "import sys, types\nx = sys.modules['cython_runtime'] = types.ModuleType('cython_runtime')\nimport tree\n"
                                     "show(same=sys.modules['cython_runtime'] is x)\n",
    "sets filters": "import warnings\nwarnings.simplefilter('error')\nimport tree\n" + END,
    "sets filters for a while": "import warnings\nwith warnings.catch_warnings():\n  warnings.simplefilter('error')\n  import tree\n  show()\n" + END,
    "prints first": "print('words')\nimport tree\n" + END,
    "seeds": "import random\nrandom.seed(3)\nx = random.random()\nimport leaf\nshow(x=x, draw=random.random())\nimport tree\n" + END,
    "reloads": "import importlib, tree\nimportlib.reload(tree)\n" + END,
    "pickles": "import pickle, tree\nshow(data=pickle.dumps([tree.Thing(), tree.Finder]))\n",
    "forks": "import multiprocessing\nm = multiprocessing.get_context('fork')\nq = m.SimpleQueue()\ndef child():\n"
             "  import tree\n  q.put(sorted(tree.FOUND.items()))\np = m.Process(target=child); p.start()\nx = q.get(); p.join()\nimport tree\nshow(child=x)\n",
    "spawns": "import multiprocessing\nm = multiprocessing.get_context('spawn')\np = m.Process(target=print); p.start(); p.join()\n"
              "x = p.exitcode\nimport tree\nshow(child=x)\n",
    "starts a Python": "import subprocess, sys\nx = subprocess.run([sys.executable, '-c', 'import sys; print(sorted(sys.modules), sys.path)'],"
                       " capture_output=True, text=True).stdout\nimport tree\nshow(child=x)\n",
    "imports in a thread": "import threading\ndef go():\n  import tree\nt = [threading.Thread(target=go) for _ in range(4)]\n"
                           "for one in t: one.start()\nfor one in t: one.join()\nwhile process_state.threads() > 1: pass\n"
                           "import tree\n" + END,
    "an import fails": "import tree\nimport fails\n",
    "traces": "import sys\nseen = set()\ndef trace(frame, event, what):\n  seen.add(frame.f_code.co_filename)\nsys.settrace(trace)\n"
              "import leaf\nsys.settrace(None)\nshow(ours=[one for one in seen if 'proc' in one or 'ddprun_trees' in one])\n",
}
ANEW = {
    "imports the second first": "import late\nshow()\nimport tree\n" + END,
    "sets a variable": "import os\nos.environ['SET'] = 'by the program'\nimport tree\n" + END,
    "sets a variable, then what the tree needs": "import os\nos.environ['SET'] = 'x'\nimport leaf\nshow(found=leaf.SET)\nimport tree\n" + END,
    "sets OMP_NUM_THREADS": "import os\nos.environ['OMP_NUM_THREADS'] = '3'\nimport tree\n" + END,
    "removes a variable": "import os\ndel os.environ['DDPRUN_WATCH']\nimport tree\n" + END,
    "changes sys.path": "import sys\nsys.path.insert(0, '/first')\nimport tree\n" + END,
    "changes the directory": "import os\nos.chdir('/')\nimport tree\n" + END,
    "adds a finder": "import sys\nclass Own:\n  def find_spec(self, *words): return None\nsys.meta_path.insert(0, Own())\nimport tree\n" + END,
    "adds a hook for paths": "import sys\ndef hook(path): raise ImportError\nsys.path_hooks.insert(0, hook)\nimport tree\nsys.path_hooks.remove(hook)\n" + END,
    "imports by its own function": "import builtins\nreal, seen = builtins.__import__, []\ndef own(name, *words):\n  seen.append(name)\n"
                                   "  return real(name, *words)\nbuiltins.__import__ = own\nimport tree\nbuiltins.__import__ = real\nshow(seen=sorted(set(seen)))\n",
    "patches what the tree patches": "import json\njson.tree_mark = 'of the program'\nimport tree\n" + END,
    "puts in a stub": "import sys, types\nsys.modules['tree.stub'] = stub = types.ModuleType('tree.stub')\nstub.mark = 'stub'\nimport tree\n" + END,
    "hides a module": "import sys\nsys.modules['leaf'] = None\ntry:\n  import tree\nexcept ImportError as e:\n  shown.append({'error': str(e)})\nshow()\n",
    "makes the tree's logger": "import logging\nlogging.getLogger('tree.inner.log').setLevel('ERROR')\nimport tree\n" + END,
    "sets the class of loggers": "import logging\nclass Own(logging.Logger): pass\nlogging.setLoggerClass(Own)\nimport tree\n" + END,
}
# After any of these a program must not be executed again.
EFFECTS = {
    "has written": "print('once', flush=True)\n",
    "has had a child": "import subprocess\nsubprocess.run(['true'])\n",
    "has a child": "import subprocess\nchild = subprocess.Popen(['sleep', '100'])\n",
    "has a thread": "import threading\nend = threading.Event()\nthreading.Thread(target=end.wait).start()\n",
    "has a file open": "file = open(os.devnull)\n",
    "has read from its input": "file = os.open(__file__, os.O_RDONLY)\nos.read(file, 9)\nos.dup2(file, 0)\nos.close(file)\n",
}
DIFFERS = "os.environ['SET'] = 'x'\nimport tree\nglobals().get('child') and child.kill()\nglobals().get('end') and end.set()\n"
# Settings of the process that imports change, and traces that they leave in ways of their own.
SETS = """
import atexit, functools, gc, locale, logging, multiprocessing, os, resource, signal, sys
FOUND = [int(os.environ["NUMBER"]), os.environ.get("LOADED"), os.environ.get("CUDA_VISIBLE_DEVICES")]
signal.signal(signal.SIGUSR1, signal.SIG_IGN)
sys.setrecursionlimit(7000)
sys.setdlopenflags(sys.getdlopenflags() | os.RTLD_GLOBAL)
gc.disable()
gc.set_threshold(9, 8, 7)
gc.callbacks.append(print)
gc.callbacks.remove(print)
gc.callbacks.append(int)
os.umask(0o7)
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
locale.setlocale(locale.LC_ALL, "C")
multiprocessing.set_start_method("spawn")
logging.basicConfig(level=logging.INFO)
logging.addLevelName(5, "FIVE")
logging.disable(4)
os.environ["CUDA_VISIBLE_DEVICES"] = ""
atexit.register(functools.partial(print, end=""))
atexit.register(int)
gc.callbacks.clear()
import ready
"""
LEAVES = {
    "sets.py": SETS, "ready.py": "import locale\nlocale.setlocale(locale.LC_ALL, 'C')\nwith open(__file__) as text:\n  TEXT = text.read()\n",
    "tries.py": "try:\n  import breaks\nexcept ImportError:\n  import os\n  FOUND = os.environ.get('BROKEN')\n",
    "breaks.py": "import json, os, sys\nos.environ['BROKEN'] = 'yes'\njson.broken = 1\nsys.path.append('/broken')\nimport colorsys, not_there\n",
    "holds.py": "import os\nclass Held:\n  def __del__(self, write=os.write):\n    write(1, b'freed\\n')\nHELD = Held()\n",
}
BEFORE = "import atexit\nx = atexit._ncallbacks()\nshow(before=process_state.settings())\n"
LEAVING = {
    "sets": BEFORE + "import sets\nshow(after=process_state.settings(), exits=atexit._ncallbacks() - x, found=sets.FOUND)\n",
    "goes without": BEFORE,
    "has something freed at its end": "import holds\n",
    "tries": "import sets, tries, json\nshow(found=tries.FOUND, broken=json.broken)\n",
}
LEAVING_ANEW = {
    "sets a limit first": "import sys\nsys.setrecursionlimit(9999)\nimport sets\nshow(after=process_state.settings())\n",
    "sets a start method first": "import multiprocessing\nmultiprocessing.set_start_method('fork')\ntry:\n  import sets\n"
                                 "except RuntimeError as e:\n  show(after=process_state.settings(), error=str(e))\n",
    "configures the root logger first": "import logging\nlogging.basicConfig(level=40)\nimport sets\nshow(after=process_state.settings())\n",
}
AGAIN = """
import os, sys
os.environ["SET"] = "x"
import tree
sys.exit(3 if os.environ["TORCHELASTIC_RESTART_COUNT"] != "2" else 0)
"""


class PreloadEqual(EqualTest):
    def setUp(self):
        super().setUp()
        for name, text in FILES.items():
            self.write(name, text)
        self.environment.update(TREE_GONE="1")

    def test_programs_are_as_from_their_file(self):
        self.assert_equal_programs(PROGRAMS, ANEW, "tree,late")

    def test_the_traces_of_imports_come_with_them(self):
        for name, text in LEAVES.items():
            self.write(name, text)
        self.environment.update(NUMBER="3", CUDA_VISIBLE_DEVICES="0,1")
        run = self.assert_equal_programs(LEAVING, LEAVING_ANEW, "holds,sets,tries")
        self.assertEqual(run.out().count("freed"), 1)

    def test_after_an_effect_a_worker_continues_and_says_how_it_differs(self):
        found, run = self.run_all({name: text + DIFFERS for name, text in EFFECTS.items()}, "tree,late")
        for name in EFFECTS:
            with self.subTest(name):
                self.assertIn({"forked": True}, found[name], run.all())
        said = re.findall(r"warning: the program changes the variable SET before it imports tree\. It was .*", run.err())
        self.assertEqual(len(said), len(EFFECTS), run.all())
        self.assertEqual(len(re.findall("once", run.out())), 1)

    def test_workers_of_a_program_that_differs_are_forked_once(self):
        self.write("again.py", AGAIN)
        run = self.run_ddprun("--max-restarts=2", "--preload=tree", self.path("again.py"),
                              environment={"PYTHON_EXEC": sys.executable})
        said = re.findall("not used: .*", run.err())
        if "did not answer within" not in run.err():
            self.assertEqual(said, ["not used: the program changes the variable SET before it imports tree. Restarts will be slower [preload-not-used]"])
