"""Keeps what was loaded ahead out of a worker's sight until the program imports it (docs/recovery.md).

In the preload process each import is noted, with the modules that it loads and the changes that it makes. Then all of it is
taken back, and workers are forked. When a worker imports one of these modules, it gets the module, the modules that
this one needs, and their changes, in the order of loading. A module that needs the first module of a tree (torch, of
`--preload=torch`) brings back this whole tree and all trees before it.

  parked                                | put back
  --------------------------------------|-------------------------------------------------------------
  modules                               | into sys.modules, in their order
  names that were put into older modules| with the submodule that they name, else with the tree
  variables                             | but those that differ from worker to worker
  sys.path, sys.meta_path, warning      | the entries that were put first, put last or removed
  filters, logging's list of handlers   |
  loggers                               | below the parents that the program has made meanwhile
  picklers (copyreg), exit handlers     | with the module that registered them
  settings of the process (_settings)   | where the program has not set them meanwhile

Generators of random numbers are drawn anew in each worker.

Compared when a module comes back that is not of the standard library:

  variables (but those that differ from worker to worker), sys.path, sys.meta_path,               | as at the worker's start
  sys.path_hooks, builtins.__import__, the directory                                              |
  modules, loggers and patched functions of the tree; the class of loggers                        | not the program's own
  settings of the process that the tree changes                                                   | as before its import
  the order of trees                                                                              | as they were loaded

A module is not loaded ahead if a fork would lose what it does, or would give the same to all workers (left_out); nor is any that
imports it. To know these, each import statement is noted too.

Where they differ, the worker executes its program anew, cold, unless the program has had an effect: it has written
something, has or had a child, has another thread or descriptor, or may have read its input. Then it says so, once, and
continues with what was loaded ahead. Either way the preload process forks no more workers.
"""

import builtins
import os
import sys

import _frozen_importlib as _machinery
import _imp
import _warnings

_ABSENT = object()
_MODULE, _FUNCTION = type(sys), type(lambda: 0)
_LISTS = ("sys.path", "sys.meta_path", "filters", "handlers")
_OURS = {("sitecustomize", None), ("atexit", "register"), ("importlib._bootstrap", "_find_and_load"),
         ("importlib._bootstrap", "_new_module"), ("builtins", "__import__")}  # Names that this module changes; None: all.
_CYTHON = ("cython_runtime", "_cython_")  # All Cython modules share these: the first one makes them.
_ALIASES = {"_frozen_importlib": "importlib._bootstrap", "_frozen_importlib_external": "importlib._bootstrap_external",
            "__main__": "__mp_main__"}  # Modules that are always there, and whose package may come later.


def _changed(old, new):
    """How a list became another one: (put first, put last, removed)."""
    first = 0
    while True:
        front, rest = new[:first], new[first:]
        kept = [one for one in old if one in rest and one not in front]
        if rest[:len(kept)] == kept:
            return front, rest[len(kept):], [one for one in old if one not in kept]
        first += 1


def _change(into, front, back, removed):
    moved = front + back + removed
    into[:] = front + [one for one in into if one not in moved] + back


def _first_finders():
    """Up to the one that looks in sys.path: those behind it are asked only for what it has not found."""
    paths = sys.modules["_frozen_importlib_external"].PathFinder
    return sys.meta_path[:sys.meta_path.index(paths) + 1] if paths in sys.meta_path else list(sys.meta_path)


def _is_standard(name):
    top = name.partition(".")[0]
    return top in sys.stdlib_module_names or top.startswith("_sysconfigdata") or top == "__mp_main__"


def _settings(find):
    """What an import may set of the whole process and no module holds: name -> (function that tells it, function that sets it)."""
    import _locale
    import _signal
    import gc
    import resource

    def umask():
        now = os.umask(0o77)
        os.umask(now)
        return now

    def root_logger():
        logging = find("logging")
        if not hasattr(logging, "root"):
            return _ABSENT
        root = logging.root
        return (root.level, root.disabled, root.manager.disable, root.handlers[:], root.filters[:],
                logging._levelToName.copy(), logging._nameToLevel.copy())

    def set_root_logger(state):
        logging = find("logging")
        root = logging.root
        root.level, root.disabled, root.manager.disable, root.handlers[:], root.filters[:], names, levels = state
        for into, content in ((logging._levelToName, names), (logging._nameToLevel, levels)):
            into.clear()
            into.update(content)
        root.manager._clear_cache()

    def handler(number):
        found = _signal.getsignal(number)
        return _ABSENT if found is None else found  # C's own.

    def contexts():
        return getattr(find("multiprocessing.context"), "_default_context", None)
    return {
        "the recursion limit": (sys.getrecursionlimit, sys.setrecursionlimit),
        "the flags of dlopen": (sys.getdlopenflags, sys.setdlopenflags),
        "whether garbage is collected": (gc.isenabled, lambda enabled: gc.enable() if enabled else gc.disable()),
        "the collector's thresholds": (gc.get_threshold, lambda thresholds: gc.set_threshold(*thresholds)),
        "the collector's callbacks": (gc.callbacks.copy, lambda callbacks: gc.callbacks.__setitem__(slice(None), callbacks)),
        "the umask": (umask, os.umask),
        "its CPUs": (lambda: os.sched_getaffinity(0), lambda cpus: os.sched_setaffinity(0, cpus)),
        "the locale": (lambda: _locale.setlocale(_locale.LC_ALL, None), lambda to: _locale.setlocale(_locale.LC_ALL, to)),
        "the root logger": (root_logger, set_root_logger),
        "multiprocessing's start method": (lambda: getattr(contexts(), "_actual_context", _ABSENT),
                                           lambda method: setattr(contexts(), "_actual_context", method)),
        **{"the handler of signal %d" % number: (lambda number=number: handler(number),
                                                 lambda value, number=number: _signal.signal(number, value))
           for number in _signal.valid_signals() - {_signal.SIGKILL, _signal.SIGSTOP}},
        **{"the resource limit %d" % number: (lambda number=number: resource.getrlimit(number),
                                              lambda limits, number=number: resource.setrlimit(number, limits))
           for number in {value for name, value in vars(resource).items() if name.startswith("RLIMIT_")}}}


class Trees:
    """In the preload process: notes what imports do (begin ... park). In a worker: puts it back (start)."""

    def __init__(self, watch):
        self.base, self.watch, self.logging = set(sys.modules), watch, None
        import atexit
        import gc
        import time
        self.atexit, self.gc, self.time = atexit, gc, time
        self.pid, self.own, self.calls, self.said = None, set(), {}, False  # Of a worker.
        self.begun = []      # (module, the one that asked for it, number of effects before), in their order.
        self.before = {}     # First module of a tree -> changes of variables by what was left out before it.
        self.roots = []      # The first module of each tree.
        self.whole = []      # For each: the modules of all trees up to it.
        self.number = -1     # Of the tree that is being loaded.
        self.tree = {}       # Module -> number of its tree; -1: ddprun's own, or of the standard library.
        self.needs = {}      # Module -> modules that come back with it: all that was imported while it was executed.
        self.uses = {}       # Module -> modules that it has imported, also in its functions and later.
        self.claims = {}     # Module -> names that it has put into sys.modules.
        self.effects = []    # (module, kind, change), in order.
        self.spaces = {_ALIASES.get(name, name): (vars(module), dict(vars(module)))
                       for name, module in sys.modules.items() if isinstance(module, _MODULE)}
        self.stack, self.modules = [None], sys.modules
        self.original, self.register, self.statement = _machinery._find_and_load, atexit.register, builtins.__import__
        self.parked, self.settings = {}, _settings(self.find)
        self.first = self.last = self._look()
        # Modules that lie together in memory: a worker writes to each, and so copies few pages.
        self.stock, self.new = [_MODULE("") for _ in range(4096)], _machinery._new_module
        _machinery._find_and_load, atexit.register, _machinery._new_module = self._load, self._at_exit, self._new
        builtins.__import__ = self._import

    def begin(self, names):
        """The next changes are those of imports. `names`: variables that workers have of their own."""
        self.watch.begin(names, self.stack)
        self.first = self.last = self._look()

    def forget(self):
        builtins.__import__ = self.statement
        _machinery._find_and_load, self.atexit.register = self.original, self.register
        _machinery._new_module, self.stock = self.new, []

    # While it loads.

    def _new(self, name):
        if not self.stock:
            return self.new(name)
        module = self.stock.pop()
        module.__init__(name)
        return module

    def _lists(self):
        logging, warnings = self.modules.get("logging", self.logging), self.modules.get("warnings")
        return (sys.path, sys.meta_path, getattr(warnings, "filters", _warnings.filters),
                getattr(logging, "_handlerList", []))

    def _look(self):
        logging = self.modules.get("logging")
        loggers = logging.root.manager.loggerDict if hasattr(logging, "root") else {}
        picklers = getattr(self.modules.get("copyreg"), "dispatch_table", {})
        return {"environment": os.environ._data.copy(), "loggers": dict(loggers), "picklers": dict(picklers),
                "settings": {name: tell() for name, (tell, _) in self.settings.items()},
                **{kind: list(now) for kind, now in zip(_LISTS, self._lists())}}

    def _note(self):
        """Changes since the last look are the doing of the module that is executed now."""
        before, self.last = self.last, self._look()
        for kind, now in self.last.items():
            was = before[kind]
            if now == was or self.stack[-1] is None:
                continue
            if kind == "settings":
                self.effects += [(self.stack[-1], "setting", (name, was[name], value)) for name, value in now.items()
                                 if value != was[name] and _ABSENT not in (value, was[name])]
                continue
            change = _changed(was, now) if kind in _LISTS else {
                name: now.get(name) for name in {**was, **now} if was.get(name) is not now.get(name)}
            self.effects.append((self.stack[-1], kind, change))
        self.watch.look(self.stack[-1])

    def _import(self, name, globals=None, locals=None, fromlist=(), level=0):
        found = self.statement(name, globals, locals, fromlist, level)
        importer = globals.get("__name__") if type(globals) is dict else None
        if importer is not None and importer in self.uses:
            if level:
                package = globals.get("__package__") or importer
                name = package.rsplit(".", level - 1)[0] + ("." + name if name else "")
            names = [name, *(name + "." + one for one in fromlist or ())]
            self.uses[importer].update(names)
            self.needs.setdefault(self.stack[-1], set()).update(names)
        return found

    def _at_exit(self, function, *args, **kwargs):
        owner = sys._getframe(1).f_globals.get("__name__")
        if owner in self.uses:  # Else of a module that every program has, which remembers that it has done so.
            self.effects.append((owner, "exit", (function, args, kwargs)))
        return self.register(function, *args, **kwargs)

    def _load(self, name, import_):
        self.needs.setdefault(self.stack[-1], set()).add(name)
        if self.modules.get(name) is not None:
            return self.original(name, import_)
        self._note()
        self._claim(self.stack[-1])
        if self.watch.begins():
            self.begun.append((name, self.stack[-1], len(self.effects)))
            if self.stack == [None] and not _is_standard(name):  # The standard library may be imported in any order.
                self.number = len(self.roots)
                self.roots.append(name)
        self.uses.setdefault(name, set())
        self.stack.append(name)
        try:
            return self.original(name, import_)
        finally:
            self._note()
            self.stack.pop()
            if name in self.modules:
                self._claim(name)
                self._loaded(name)
            else:  # Its changes before it failed are then its importer's doing.
                self.needs.setdefault(self.stack[-1], set()).update(self.needs.pop(name, ()))
                self.effects = [(self.stack[-1] if owner == name else owner, *what) for owner, *what in self.effects]
            if self.stack == [None]:
                self._note_names(name, self.spaces)
                self.number = -1

    def _claim(self, owner):
        """Names that are new in sys.modules, which a module has put there itself, or its own."""
        for other in reversed(self.modules):  # Python puts a module last once it is executed.
            if other in self.base or other in self.tree or other in self.stack:
                break
            self.tree[other] = self.number
            self.claims.setdefault(owner, []).append(other)

    def _loaded(self, name):
        made = [name] + self.claims.pop(name, [])
        for other in made:
            needs = self.needs.setdefault(other, set())
            needs.update(made)
            needs.add(other.rpartition(".")[0])
            if other in _ALIASES.values() or not isinstance(self.modules[other], _MODULE):
                continue
            space = vars(self.modules[other])
            self.spaces[other] = space, dict(space)
            for value in self.spaces[other][1].values():
                kind = type(value)  # Nothing is asked of other objects: they may answer by importing.
                needed = None
                if kind is _MODULE:
                    needed = vars(value).get("__name__")
                elif kind is _FUNCTION or kind is type:
                    needed = value.__module__
                elif kind is dict and "DDPRUN_PRELOAD_HOOK" in value:
                    self.watch.did.setdefault(other, "copies the environment")
                if needed not in _ALIASES.values():
                    needs.add(needed)
        if "." not in name:  # A package changes its own modules once they are executed.
            self._note_names(name, [one for one in self.spaces if one.startswith(name + ".")])
        self.watch.loaded(name, self.modules[name])

    def left_out(self):
        """What may not be loaded ahead: module -> why; the number of modules that import one of these; and what is left:
        (first module of a tree, changes of variables by what is left out before it), in order."""
        reasons, users = self.watch.reasons(), {}
        for graph in (self.needs, self.uses):
            for one, others in graph.items():
                for other in others:
                    users.setdefault(other, set()).add(one)
        out, todo = {None, *reasons}, list(reasons)  # None: the program, and whatever has no name.
        while todo:
            more = users.get(todo.pop(), set()) - out - self.base
            out |= more
            todo += more
        left = []
        for name, asked, before in self.begun:
            if name in self.modules and name not in out and asked in out and not _is_standard(name):
                changes = [self.before.get(name, {})] + [change for owner, kind, change in self.effects[:before]
                                                         if kind == "environment" and owner in out]
                left.append((name, {key: value for change in changes for key, value in change.items()}))
        return reasons, len(out) - 1 - len(reasons), left

    def load(self, name, before):
        self.before[name] = before
        for key, value in before.items():
            self._set_variable(key, value)
        import importlib
        importlib.import_module(name)

    def _note_names(self, root, names):
        """Names that have changed in modules since they were executed."""
        for name in list(names):
            space, before = self.spaces[name]
            now = dict(space)
            self.spaces[name] = space, now
            if now.keys() == before.keys() and all(now[key] is value for key, value in before.items()):
                continue
            for key in {**before, **now}:
                old, new = before.get(key, _ABSENT), now.get(key, _ABSENT)
                if old is not new and key != "__warningregistry__" and not {(name, None), (name, key)} & _OURS:
                    child = name + "." + key
                    owner = child if child in self.tree and self.modules.get(child) is new else root
                    self.effects.append((owner, "name", (space, key, old, new)))

    def _needed(self, names, until=None):
        """Parked modules that these need, and the last tree among them. Looks no further than the first module of
        the tree `until`: a module needs no later trees."""
        wanted, todo, last = set(), list(names), -1
        while todo and (last < 0 or last != until):
            one = todo.pop()
            if one in self.parked and one not in wanted:
                wanted.add(one)
                todo.extend(self.needs.get(one, ()))
                last = max(last, self.numbers.get(one, -1))
        return wanted, last

    def _visible(self):
        """The changes that a program may see undone. A change to a module that comes back only with the module that
        made it, or later, is none of these."""
        of, back, visible = {id(space): name for name, (space, _) in self.spaces.items()}, {}, set()
        for owner, kind, change in self.effects:
            name = of.get(id(change[0])) if kind == "name" else None
            if name in self.parked and name not in back and name not in _ALIASES.values():
                wanted, last = self._needed([name], self.tree.get(name, -1))
                back[name] = wanted if last < 0 else set(self.whole[last])
            if kind == "name" and owner not in back.get(name, ()):
                visible.add((id(change[0]), change[1]))
        return [effect for effect in self.effects
                if effect[1] != "name" or (id(effect[2][0]), effect[2][1]) in visible]

    # Once it is loaded, before the first worker is forked.

    def park(self, plain):
        """`plain`: of a variable's value, without what brought the hook."""
        self.forget()
        for space, _ in self.spaces.values():
            for key in [key for key, value in space.items() if type(value) is type(self._at_exit) and value == self._at_exit]:
                space[key] = self.register
        # Names and changes are copied: so they lie together in memory, too.
        names = {name: (name + ".")[:-1] for name in self.modules if name not in self.base}
        self.parked = {names[name]: self.modules[name] for name in names}
        self.numbers = {root: number for number, root in enumerate(self.roots)}
        self.behind = [self._needed([root])[0].intersection(self.roots) for root in self.roots]
        for number in range(len(self.roots)):  # Each tree with all before it.
            whole, _ = self._needed([one for one in self.parked if 0 <= self.tree.get(one, -1) <= number])
            self.whole.append([one for one in self.parked if one in whole])
        self.effects = [(names.get(owner, owner), kind, tuple(list(change)) if type(change) is tuple else change)
                        for owner, kind, change in self._visible()]
        self.effects = [(owner, kind, (change[0], (change[1] + ".")[:-1], *change[2:]) if kind == "name" else change)
                        for owner, kind, change in self.effects]
        self.logging = self.modules.get("logging")
        self.picklers = getattr(self.modules.get("copyreg"), "dispatch_table", {})
        for one in self.picklers.keys() - self.first["picklers"].keys():
            del self.picklers[one]
        for owner, kind, change in reversed(self.effects):
            if kind == "environment":
                change.update({name: plain(value) for name, value in change.items()})
            elif kind == "name":
                self._set_name(*change[:2], change[2])
            elif kind == "setting":
                self.settings[change[0]][1](change[1])
            elif kind == "exit":
                self.atexit.unregister(change[0])
        for kind, now in zip(_LISTS, self._lists()):
            now[:] = self.first[kind]
        _warnings._filters_mutated()
        if self.logging is not None:
            loggers = self.logging.root.manager.loggerDict
            for name in loggers.keys() - self.first["loggers"].keys():
                del loggers[name]
            self.get_logger = self.logging.Manager.getLogger
            self.logging.Manager.getLogger = self._getter()
        for name in self.parked:
            del self.modules[name]
        self.spaces.clear()  # Here and not in a worker, which would copy each page that it has. Modules are freed at a worker's end.
        _machinery._find_and_load = self._finder()

    def find(self, name):
        return self.parked.get(name, self.modules.get(name))

    def _finder(self):
        parked, modules, original, back = self.parked, self.modules, self.original, self._back

        def _find_and_load(name, import_):
            if name in parked and name not in modules:
                back(name)
                if modules.get(name) is not None:
                    return modules[name]
            return original(name, import_)
        return _find_and_load

    def _getter(self):
        """A logger that is still away is wanted: by its package, if that is back, which has a list of its loggers."""
        away = {name: one for _, kind, change in self.effects if kind == "loggers" for name, one in change.items()}
        get_logger, add, modules, Logger = self.get_logger, self._add_loggers, self.modules, self.logging.Logger

        def getLogger(manager, name):
            if name in away and name.partition(".")[0] in modules:
                if not isinstance(manager.loggerDict.get(name), Logger):
                    add({name: away[name]})
            return get_logger(manager, name)
        return getLogger

    # In a worker.

    def start(self, environment, own, path, disagree, before):
        """`own`: variables that differ from worker to worker. `path`: what Python is about to put first into
        sys.path. `before`: module -> what to call when it comes back."""
        self.given, self.own, self.disagree, self.calls = environment, own, disagree, before
        self.pid, self.directory = os.getpid(), os.getcwd()
        for _, draw in self.watch.generators.values():
            draw()
        self.around = self._around()
        self.around["sys.path"].insert(0, path)
        self.traces = self._traces()

    def _around(self):
        return {"environment": {name: value for name, value in os.environ._data.items() if name not in self.own},
                "sys.path": list(sys.path), "sys.meta_path": _first_finders(),
                "sys.path_hooks": list(sys.path_hooks), "builtins.__import__": builtins.__import__,
                "the working directory": os.getcwd()}

    def _traces(self):
        """Counts of what others can see of the worker. None: that cannot be known."""
        try:
            with open("/proc/self/io", "rb") as file:
                written = file.read().split(b"syscw:")[1].split()[0]
            with open("/proc/self/stat", "rb") as file:
                words = file.read().rpartition(b")")[2].split()
            with open("/proc/thread-self/children", "rb") as file:
                children = file.read()
            read = os.lseek(0, 0, os.SEEK_CUR) if not os.isatty(0) else 0
        except (OSError, IndexError):  # Standard input is a pipe, say.
            return None
        return written, words[8], words[17], children, read, os.listdir("/proc/self/fd")

    def _with(self, name):
        """The modules that come back with this one, in order, and earlier trees among them that it does not need."""
        last = self.numbers.get(name, -1)
        if last < 0:  # Looked up only where the name is not enough: a worker copies each page that a look touches.
            wanted, last = self._needed([name], self.tree.get(name, -1))
            if last < 0:
                return [one for one in self.parked if one in wanted], []
        whole = [one for one in self.whole[last] if one in self.parked]
        early = [root for root in self.roots[:last] if root in self.parked and root not in self.behind[last]]
        if early:  # An earlier tree that this one does not need may stay away if it has changed nothing.
            wanted, _ = self._needed([one for one in whole if self.tree.get(one, -1) == last])
            others = {one for one in whole if one not in wanted and not _is_standard(one)}
            if not any(effect[0] in others for effect in self.effects):
                return [one for one in whole if one in wanted], []
        return whole, early

    def _back(self, name):
        _imp.acquire_lock()
        try:
            if name not in self.parked:
                return
            wanted, early = self._with(name)
            owners = set(wanted)
            effects = [effect for effect in self.effects if effect[0] in owners]
            if self.pid is not None and not all(map(_is_standard, wanted)):
                before = [changes for one, changes in self.before.items() if one in owners]
                why = self._difference(owners, effects, {key: value for one in before for key, value in one.items()})
                if early or why:
                    self._differs("imports %s before %s" % (name, early[0]) if early else
                                  "changes %s before it imports %s" % (why, name))
            for _, kind, change in effects:
                self._redo(kind, change)
            _warnings._filters_mutated()
            if "logging" in owners:
                old = self.logging._startTime
                self.logging._startTime = self.time.time() if isinstance(old, float) else self.time.time_ns()
            for one in wanted:  # Last: another thread that finds them continues at once.
                if not (one.startswith(_CYTHON) and one in self.modules):
                    self.modules[one] = self.parked[one]
                del self.parked[one]
            self.around = self._around()
            if not self.parked:
                _machinery._find_and_load = self.original
                if self.logging is not None:
                    self.logging.Manager.getLogger = self.get_logger
        finally:
            _imp.release_lock()
        for one in owners & self.calls.keys():
            self.calls[one]()
            self.around = self._around()

    def _difference(self, wanted, effects, before):
        now = self._around()
        for variable in {**self.around["environment"], **now["environment"]}:
            value = now["environment"].get(variable)
            if self.around["environment"].get(variable) != value and before.get(variable, _ABSENT) != value:
                return "the variable " + os.fsdecode(variable)
        for kind in now:
            if now[kind] != self.around[kind] and kind != "environment":
                return kind
        for one in self.modules:
            if one in wanted and not one.startswith(_CYTHON):
                return "sys.modules[%r]" % one
        set_before = {}
        for _, kind, change in effects:
            if kind == "setting" and self.settings[change[0]][0]() != set_before.setdefault(change[0], change[1]):
                return change[0]
            if kind == "name" and (change[2] is _ABSENT or callable(change[2])):  # Else a cache: filled by any call.
                if not any(change[0].get(change[1], _ABSENT) is one for one in change[2:]):
                    return "%s.%s" % (change[0].get("__name__"), change[1])
            if kind == "loggers":
                made = self.logging.root.manager.loggerDict
                for logger, one in change.items():
                    there = made.get(logger)
                    if isinstance(one, self.logging.Logger) and isinstance(there, self.logging.Logger) and there is not one:
                        return "the logger " + logger
                if self.logging.getLoggerClass() is not self.logging.Logger:
                    return "logging's class of loggers"
        return None

    def _differs(self, why):
        if self.said:
            return
        self.said = True
        text = "the program " + why
        if os.getpid() == self.pid:  # Not a child of the worker.
            self.disagree(text)
            traces = self._traces()
            if traces is not None and traces == self.traces:
                try:
                    os.chdir(self.directory)
                    os.execvpe(sys.orig_argv[0], sys.orig_argv, self.given)
                except OSError:
                    pass  # It continues, and says so.
        said = "ddprun: warning: %s. It was loaded ahead without that. Set --preload=none to load it after that.\n" % text
        os.write(2, said.encode("utf-8", "replace"))

    def _redo(self, kind, change):
        if kind in _LISTS:
            _change(self._lists()[_LISTS.index(kind)], *change)
        elif kind == "environment":
            for name, value in change.items():
                self._set_variable(name, value)
        elif kind == "loggers":
            self._add_loggers(change)
        elif kind == "picklers":
            self.picklers.update(change)
        elif kind == "setting" and self.settings[change[0]][0]() == change[1]:
            self.settings[change[0]][1](change[2])
        elif kind == "name" and change[0].get(change[1], _ABSENT) is change[2]:
            self._set_name(change[0], change[1], change[3])
        elif kind == "exit":
            self.register(change[0], *change[1], **change[2])

    def _set_variable(self, name, value):
        if value is None:
            os.environb.pop(name, None)
        else:
            os.environb[name] = value

    def _set_name(self, space, key, value):
        if value is _ABSENT:
            space.pop(key, None)
        else:
            space[key] = value

    def _add_loggers(self, loggers):
        manager = self.logging.root.manager
        for name, logger in loggers.items():
            if isinstance(logger, self.logging.Logger):  # Placeholders are made as parents are looked for.
                there = manager.loggerDict.get(name)
                manager.loggerDict[name] = logger
                if isinstance(there, self.logging.PlaceHolder):
                    manager._fixupChildren(there, logger)
                manager._fixupParents(logger)
                logger._cache.clear()
