"""Each line of the preload hook that parks or compares something is needed: without it preload_equal_test.py fails.

The hook lies in ddprun as text. A mutant is a copy of ddprun with one line changed, to the same length.

    preload_mutants.py [NAME... | --texts]      --texts: only whether each line is there, once
"""

import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
RUNNER = os.path.join(HERE, "..", "support", "run.py")
DDPRUN = os.environ["DDPRUN"]
MUTANTS = {
    "modules stay": ("del self.modules[name]\n        self.spaces", "pass\n        self.spaces"),
    "names stay": ("self._set_name(*change[:2], change[2])", "pass"),
    "variables do not come back": ("for name, value in change.items():\n                self._set", "for name, value in ():\n                self._set"),
    "sys.path is not parked": ("return (sys.path, sys.meta_path,", "return ([], sys.meta_path,"),
    "sys.meta_path is not parked": ("return (sys.path, sys.meta_path,", "return (sys.path, [],"),
    "filters are not parked": ('getattr(warnings, "filters", _warnings.filters),', "[],"),
    "handlers are not parked": ('getattr(logging, "_handlerList", [])', "[]"),
    "loggers stay": ("del loggers[name]", "pass"),
    "loggers get no parents": ("manager._fixupParents(logger)", "pass"),
    "loggers get no children": ("manager._fixupChildren(there, logger)", "pass"),
    "picklers stay": ("del self.picklers[one]", "pass"),
    "exit handlers stay": ("self.atexit.unregister(change[0])", "pass"),
    "parts of a tree come back": ("self.whole[last] if one in self.parked]\n        early", "wanted if one in self.parked]\n        early"),
    "the environment is not compared": ("before.get(variable, _ABSENT) != value:", "False:"),
    "sys.path is not compared": ('kind != "environment":', 'kind[4:] != "path":'),
    "sys.meta_path is not compared": ('kind != "environment":', '"meta" not in kind:'),
    "sys.path_hooks are not compared": ('kind != "environment":', '"hook" not in kind:'),
    "builtins.__import__ is not compared": ('kind != "environment":', '"__" not in kind:'),
    "the directory is not compared": ('kind != "environment":', '" " not in kind:'),
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
    "settings are not looked at": ("if value != was[name] and", "if False and"),
    "settings stay": ("self.settings[change[0]][1](change[1])", "pass"),
    "settings do not come back": ("self.settings[change[0]][1](change[2])", "pass"),
    "settings are not compared": ("return change[0]\n", "pass\n"),
    "what fails has done nothing": ("self.stack[-1] if owner == name else owner, *what", "owner, *what"),
    "an exit handler is its function's": ('sys._getframe(1).f_globals.get("__name__")', "function.__module__"),
    "modules are not freed": ("self.spaces.clear()", "pass"),
    "modules that are not imported are freed": ("api.Py_IncRef(ctypes.py_object(trees.parked))", "pass"),
    "text is read": ('with open(name, "rb") as file:\n        return file.read()', 'with open(name) as f:\n        return f.read()'),
    "a difference is not passed on": ("self.disagree(text)", "pass"),
}
# Of the watch: preload_test.py finds these.
WATCH_MUTANTS = {
    "setting RANK does not count": ('watch.did.setdefault(stack[-1], "sets " + os.fsdecode(name))', "pass"),
    "copies are not seen": ('self.watch.did.setdefault(other, "copies the environment")', "pass"),
    "locks are not seen": ('if hasattr(one, "_semlock")', "if False"),
    "what was loaded before is not needed": ("self.needs.setdefault(self.stack[-1], set()).update(names)", "pass"),
    "reading RANK does not count": ('watch.did.setdefault(stack[-1], "reads " + os.fsdecode(name))', "pass"),
    "threads are not seen": ('found = {("starts a thread", int(one)) for one in os.listdir("/proc/self/task")}', "found = set()"),
    "open files are not seen": ('found.update(("keeps a file open", one) for one in _open_files())', "pass"),
    "children are not seen": ('found.update(("leaves a child", one) for one in _children())', "pass"),
    "directories are not seen": ('found.add(("changes the directory", os.getcwd()))', "pass"),
    "draws are not seen": ("if state != self.states[name]:", "if False:"),
    "importers are not left out": ("more = users.get(todo.pop(), set()) - out - self.base", "more, _ = set(), todo.pop()"),
    "import statements are not noted": ("if importer is not None and importer in self.uses:", "if False:"),
    "own modules are loaded": ("if not where.startswith(self.places) or where.startswith(self.installed)", "if True"),
    "what was left out has set no variables": ("for key, value in before.items():\n", "for key, value in ():\n"),
    "the first try leaves files open": ("os.set_inheritable(file, file in kept)", "pass"),
    "the second try is not silent": ("with _Silence() if again or hook", "with _Silence() if hook"),
}


def main():
    with open(DDPRUN, "rb") as file:
        whole = file.read()
    mutants = {name: (text.encode(), other.encode()) for name, (text, other) in {**MUTANTS, **WATCH_MUTANTS}.items()}
    for name, (text, other) in mutants.items():
        assert whole.count(text) == 1 and len(other) <= len(text), f"{name}: {whole.count(text)} times in ddprun"
    if sys.argv[1:] == ["--texts"]:
        return 0
    survived = []
    for name, (text, other) in mutants.items():
        if sys.argv[1:] and name not in sys.argv[1:]:
            continue
        first, line, rest = other.partition(b"\n")
        with tempfile.TemporaryDirectory() as folder:
            mutant = os.path.join(folder, "ddprun")
            with open(mutant, "wb") as file:
                file.write(whole.replace(text, first + b" " * (len(text) - len(other)) + line + rest))
            os.chmod(mutant, 0o755)
            test = "preload_test.py" if name in WATCH_MUTANTS else "preload_equal_test.py"
            done = subprocess.run([sys.executable, RUNNER, os.path.join(HERE, test), "-f"], check=False,
                                  env={**os.environ, "DDPRUN": mutant}, capture_output=True, text=True)
        print(f"{name}: {'found' if done.returncode else 'SURVIVED'}", flush=True)
        survived += [] if done.returncode else [name]
    return len(survived)


if __name__ == "__main__":
    sys.exit(main())
