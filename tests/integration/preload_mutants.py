"""Each line of the preload hook that parks or compares something is needed: without it preload_equal_test.py fails.

The hook lies in ddprun as text. A mutant is a copy of ddprun with one line changed, to the same length.
"""

import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
DDPRUN = os.environ["DDPRUN"]
MUTANTS = {
    "modules stay": ("            del self.modules[name]\n        self.effects", "            pass\n        self.effects"),
    "names stay": ("self._set_name(*change[:2], change[2])", "pass"),
    "variables do not come back": ("if name not in self.own and value is not None:", "if False:"),
    "sys.path is not parked": ("return (sys.path, sys.meta_path,", "return ([], sys.meta_path,"),
    "sys.meta_path is not parked": ("return (sys.path, sys.meta_path,", "return (sys.path, [],"),
    "filters are not parked": ('getattr(warnings, "filters", _warnings.filters),', "[],"),
    "handlers are not parked": ('getattr(logging, "_handlerList", [])', "[]"),
    "loggers stay": ("del loggers[name]", "pass"),
    "loggers get no parents": ("manager._fixupParents(logger)", "pass"),
    "loggers get no children": ("manager._fixupChildren(there, logger)", "pass"),
    "picklers stay": ("del self.picklers[one]", "pass"),
    "exit handlers stay": ("self.atexit.unregister(change[0])", "pass"),
    "a seed does not come back": ("change[0](change[1])", "pass"),
    "parts of a tree come back": ("self.whole[last] if one in self.parked]\n        early", "wanted if one in self.parked]\n        early"),
    "the environment is not compared": ('if self.around["environment"].get(variable) != now["environment"].get(variable):', "if False:"),
    "sys.path is not compared": ('for kind in ("sys.path", "sys.meta_path", "directory"):', 'for kind in ("sys.meta_path", "directory"):'),
    "sys.meta_path is not compared": ('for kind in ("sys.path", "sys.meta_path", "directory"):', 'for kind in ("sys.path", "directory"):'),
    "the directory is not compared": ('for kind in ("sys.path", "sys.meta_path", "directory"):', 'for kind in ("sys.path", "sys.meta_path"):'),
    "modules are not compared": ('return "sys.modules[%r]" % one', "break"),
    "names are not compared": ('return "%s.%s" % (change[0].get("__name__"), change[1])', "break"),
    "loggers are not compared": ('return "the logger " + logger', "break"),
    "the class of loggers is not compared": ('return "logging\'s class of loggers"', "break"),
    "the order is not compared": ("if early or why:", "if why:"),
    "what was written does not count": ("return written, words[8],", "return 0, words[8],"),
    "a child that has ended does not count": ("return written, words[8],", "return written, 0,"),
    "a thread does not count": ("words[17], children,", "0, children,"),
    "a child does not count": ("words[17], children,", "words[17], 0,"),
    "what was read does not count": ("children, read, os.listdir", "children, 0, os.listdir"),
    "a descriptor does not count": ('read, os.listdir("/proc/self/fd")', "read, 0"),
    "a difference is not passed on": ("self.disagree(text)", "pass"),
}


def main():
    with open(DDPRUN, "rb") as file:
        whole = file.read()
    survived = []
    for name, (text, other) in MUTANTS.items():
        if sys.argv[1:] and name not in sys.argv[1:]:
            continue
        text, other = text.encode(), other.encode()
        assert whole.count(text) == 1 and len(other) <= len(text), f"{name}: {whole.count(text)} times in ddprun"
        first, line, rest = other.partition(b"\n")
        with tempfile.TemporaryDirectory() as folder:
            mutant = os.path.join(folder, "ddprun")
            with open(mutant, "wb") as file:
                file.write(whole.replace(text, first + b" " * (len(text) - len(other)) + line + rest))
            os.chmod(mutant, 0o755)
            done = subprocess.run([sys.executable, os.path.join(HERE, "preload_equal_test.py"), "-f"], check=False,
                                  env={**os.environ, "DDPRUN": mutant}, capture_output=True, text=True)
        print(f"{name}: {'found' if done.returncode else 'SURVIVED'}", flush=True)
        survived += [] if done.returncode else [name]
    return len(survived)


if __name__ == "__main__":
    sys.exit(main())
