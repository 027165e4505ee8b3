# Makes this interpreter a template of workers (docs/recovery.md, --preload): loads what was asked
# for inside its own start-up and waits there. A worker, forked here, takes this module back and goes
# on to the script, as if nothing had been in between. Anything unforeseen ends the template, never
# runs the script.


def _own_files(program):
    """Files whose change makes what was loaded stale, with their size and time: all but those of
    the interpreter and of installed packages."""
    import os
    import sys
    import sysconfig
    installed = tuple({os.path.join(sysconfig.get_path(name), "")
                       for name in ("stdlib", "platstdlib", "purelib", "platlib")})
    names = {getattr(module, "__file__", None) for module in list(sys.modules.values())}
    if program[0] == "file":
        names.add(program[1])
    found = {}
    for name in names:
        if isinstance(name, str) and os.path.isabs(name) and not name.startswith(installed):
            found[name] = _stamp(name)
        elif isinstance(name, str) and not os.path.isabs(name):
            found[os.path.abspath(name)] = _stamp(os.path.abspath(name))
    return found


def _stamp(name):
    import os
    try:
        status = os.stat(name)
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino


class _Watch:
    """Notes after which import a thread appeared."""

    def __init__(self):
        self.background = None
        self.since = {}  # Thread -> (import that was asked for, module that was loaded last).
        self.wanted = self.last = None
        self.look(None)

    def look(self, wanted):
        """A thread that is new appeared since the last look; the next import is `wanted`."""
        import os
        for thread in os.listdir("/proc/self/task"):
            self.since.setdefault(int(thread), (self.wanted, self.last))
        self.wanted = self.last = wanted

    def lost_by_a_fork(self, preload):
        """For people: the threads beside the main one; "": there are none."""
        import os
        import sys
        self.look(None)
        own = {}
        if "threading" in sys.modules:
            own = {thread.native_id: thread.name for thread in sys.modules["threading"].enumerate()}
        found = {}
        for thread in map(int, os.listdir("/proc/self/task")):
            if thread == os.getpid():
                continue
            try:
                with open("/proc/self/task/%d/comm" % thread) as file:
                    name = file.read().strip()
            except OSError:  # It has just ended.
                continue
            wanted, last = self.since.get(thread, (None, None))
            name += " '%s'" % own[thread] if thread in own else ""
            place = "import %s" % wanted if wanted else "Python's start-up"
            place += ", after %s" % last if last != wanted and last in sys.modules else ""
            found.setdefault("%s (%s)" % (name, place), wanted)
        culprits = list(dict.fromkeys(wanted for wanted in found.values() if wanted))
        if not found:
            return ""
        text = "a fork would lose threads: " + ", ".join(found)
        advice = "; to leave out: --preload=%s" % ",".join(
            [name for name in preload.split(",") if name not in culprits] +
            ["-" + name for name in culprits if name not in preload.split(",")] or ["none"])
        return text[:max(60, 229 - len(advice))] + advice if culprits else text

    def begins(self, name):
        """The next thread is the doing of this module."""
        self.look(self.wanted)
        self.last = name
        if self.background is not None:
            self.background.rest()


class _Background:
    """Loads at low priority and without output. If memory runs out, the kernel ends this process first."""

    def __init__(self):
        import os
        import time
        self.sleep = time.sleep
        self.saved = [os.dup(1), os.dup(2)]
        silent = os.open("/dev/null", os.O_WRONLY)
        for target in (1, 2):
            os.dup2(silent, target)
        os.close(silent)
        with open("/proc/self/oom_score_adj") as file:
            self.oom = file.read()
        for score in ("1000", self.oom, "1000"):  # Workers go back to it: where that is denied, nothing is loaded ahead.
            _write("/proc/self/oom_score_adj", score)
        self.idle = self._may_leave_idle()
        if self.idle:
            os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
        self.ran, self.waited = self._times()

    def _may_leave_idle(self):
        """Only with privileges may a process leave the idle class again. A child tries it."""
        import os
        child = os.fork()
        if child == 0:
            try:
                os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
                os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
            except OSError:
                os._exit(1)
            os._exit(0)
        return os.waitpid(child, 0)[1] == 0

    def _times(self):
        """Nanoseconds that this process ran, and waited for a CPU."""
        with open("/proc/self/schedstat") as file:
            return [int(word) for word in file.read().split()[:2]]

    def rest(self):
        """Where it is not in the idle class: if it had to wait for a CPU it rests, for 32 times as long as it ran, so
        that it takes 3% of one CPU."""
        if self.idle:
            return
        ran, waited = self._times()
        if ran - self.ran > 1_000_000:
            if waited - self.waited > (ran - self.ran) / 10:
                self.sleep(32 * (ran - self.ran) / 1e9)
            self.ran, self.waited = ran, waited

    def end(self):
        import os
        for target, saved in zip((1, 2), self.saved):
            os.dup2(saved, target)
            os.close(saved)
        if self.idle:
            os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))


def _write(name, text):
    with open(name, "w") as file:
        file.write(text)


def _draw_anew(multiprocessing, threading):
    """What each process of its own draws at its start."""
    import os
    if multiprocessing is not None:
        multiprocessing.current_process().authkey = os.urandom(32)
    if hasattr(threading, "main_thread") and hasattr(threading.main_thread(), "_set_native_id"):
        threading.main_thread()._set_native_id()


def _changes(hook):
    """What start-up has made of the environment that the interpreter was given: name -> value, or
    None where it was removed."""
    import os
    with open("/proc/self/environ", "rb") as file:
        given = dict(entry.split(b"=", 1) for entry in file.read().split(b"\0") if b"=" in entry)
    now = dict(os.environb)
    entry = os.fsencode(hook["entry"])
    changed = {}
    for name in given.keys() | now.keys():
        if given.get(name) != now.get(name) and not name.startswith(b"DDPRUN_TEMPLATE"):
            value = now.get(name)
            changed[name] = value and value.replace(entry + b":", b"").replace(entry, b"")
    return given, changed


def _take(environment, given, changed):
    """Makes it the worker's environment, in every place where Python keeps one. Returns it as it was
    given, and the names that differ from worker to worker."""
    import os
    import posix
    entries = dict(entry.split(b"=", 1) for entry in environment)
    whole = dict(entries)
    own = {name for name in given.keys() | entries.keys() if given.get(name) != entries.get(name)}
    for name, value in changed.items():
        if name in given or name not in entries:
            entries[name] = value
    entries = {name: value for name, value in entries.items() if value is not None}
    for name in whole.keys() - entries.keys():
        os.unsetenv(name)
    for name, value in entries.items():
        if whole.get(name) != value:
            os.putenv(name, value)
    for place in (posix.environ, os.environ._data):
        place.clear()
        place.update(entries)
    return whole, own | _GPUS


_GPUS = {b"CUDA_VISIBLE_DEVICES", b"HIP_VISIBLE_DEVICES", b"ROCR_VISIBLE_DEVICES"}


def _load(hook, preload, trees):
    """What was asked for."""
    import os
    import sys
    where = os.getcwd()
    sys.path.insert(0, hook["path"])
    if hook["background"]:
        trees.watch.background = _Background()
    remark = preload(hook["preload"], (hook["kind"], hook["program"]), trees)
    if hook["background"]:
        trees.watch.background.end()
    if os.getcwd() != where:
        raise RuntimeError("an import changes the working directory")
    return remark


def _wait_for_a_worker(library, socket, hook, trees, remark):
    """Returns in a worker alone: its environment."""
    import ctypes
    import os
    import sys
    api = ctypes.pythonapi
    files = _own_files((hook["kind"], hook["program"]))
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()
    api.PyOS_BeforeFork()
    library.ddprun_template_rehearse()
    api.PyOS_AfterFork_Parent()
    lost = trees.watch.lost_by_a_fork(hook["preload"])
    if lost:
        library.ddprun_template_refuse(socket, lost.encode("utf-8", "replace")[:230])
        os._exit(0)
    trees.park()
    trees.gc.collect()
    trees.gc.freeze()
    if library.ddprun_template_ready(socket, remark.encode("utf-8", "replace")[:230]) != 0:
        os._exit(0)
    while library.ddprun_template_wait(socket) != 0 and not library.ddprun_template_retired(socket):
        for name, stamp in files.items():
            if _stamp(name) != stamp:
                raise RuntimeError("%s has changed since it was loaded" % name)
        api.PyOS_BeforeFork()
        if library.ddprun_template_fork(socket) == 0:
            begun = library.ddprun_template_begin()  # First: the next worker waits for it.
            api.PyOS_AfterFork_Child()
            return begun
        api.PyOS_AfterFork_Parent()
    os._exit(0)


def _become_worker(begun, library, hook, trees, watch, given, changed):
    import os
    environment = []
    while begun[len(environment)]:
        environment.append(begun[len(environment)])
    os.close(hook["module"])
    if trees.watch.background is not None:
        _write("/proc/self/oom_score_adj", trees.watch.background.oom)
    whole, own = _take(environment, given, changed)
    _draw_anew(trees.find("multiprocessing.process"), trees.find("threading"))
    trees.atexit.register(trees.gc.unfreeze)  # What is frozen has finalizers too.

    def disagree(why):
        library.ddprun_template_retire(why.encode("utf-8", "replace"))
    late = "torch.distributed" in trees.parked
    if not late:
        watch.begin()
    trees.start(whole, own, hook["path"], disagree, {"torch.distributed": watch.begin} if late else {})


def _serve(hook, watch, preload, trees):
    """Returns in a worker alone."""
    import ctypes
    import json
    import os
    import sys
    socket = -1
    library = ctypes.PyDLL("/proc/self/fd/%d" % hook["library"])
    os.close(hook["library"])
    library.ddprun_template_begin.restype = ctypes.POINTER(ctypes.c_char_p)
    try:
        socket = library.ddprun_template_open()
        if hook["probe"]:
            library.ddprun_template_ready(socket, b"")
            os._exit(0)
        if sys.implementation.name != "cpython" or not (3, 10) <= sys.version_info[:2] <= (3, 13):
            raise RuntimeError("--preload knows CPython 3.10 to 3.13")
        if _command_line() != [os.fsencode(word) for word in hook["arguments"]]:
            raise RuntimeError("the interpreter was started with other arguments")
        library.ddprun_template_rename()
        # Who executes the interpreter anew from here on, or starts another one, finds this.
        os.environ["DDPRUN_TEMPLATE_HOOK"] = json.dumps({**hook, "taken": os.getpid()})
        given, changed = _changes(hook)
        remark = _load(hook, preload, trees)
        begun = _wait_for_a_worker(library, socket, hook, trees, remark)
    except BaseException as error:
        text = "%s: %s" % (type(error).__name__, error)
        library.ddprun_template_refuse(socket, text.encode("utf-8", "replace")[:230])
        os._exit(0)
    _become_worker(begun, library, hook, trees, watch, given, changed)


def _command_line():
    with open("/proc/self/cmdline", "rb") as words:
        return words.read().split(b"\0")[1:-1]


def _wait_here():
    import os
    import sys
    try:
        space = {}  # Not imported: its frames are to look like those of Python's own imports.
        exec(compile(__loader__.get_source("_ddprun_trees"), "<frozen importlib._bootstrap>", "exec"), space)
        trees = space["Trees"](_Watch())
        import json
        hook = json.loads(os.environ["DDPRUN_TEMPLATE_HOOK"])
        entry = hook["entry"]
        import _ddprun_imports
        import _ddprun_watch
        for name in {"_ddprun_imports", "_ddprun_watch"} - trees.base:
            del sys.modules[name]
        sys.path[:] = [place for place in sys.path if place != entry]
        sys.path_importer_cache.pop(entry, None)
        if "taken" not in hook and os.getppid() == hook["agent"]:
            trees.begin()
            _serve(hook, _ddprun_watch, _ddprun_imports.preload, trees)
            return
        trees.forget()
        # The template itself, executed anew, or its program, begun by another process: never to run
        # without a rank. Anything else goes on as without us.
        tail = [os.fsencode(word) for word in hook["tail"]]
        if hook.get("taken") == os.getpid() or _command_line()[-len(tail):] == tail:
            os._exit(1)
        del os.environ["DDPRUN_TEMPLATE_HOOK"]
        os.environ.pop("DDPRUN_TEMPLATE", None)
        if hook["pythonpath"] is None:
            os.environ.pop("PYTHONPATH", None)
        else:
            os.environ["PYTHONPATH"] = hook["pythonpath"]
    except BaseException:
        import traceback
        traceback.print_exc()
        os._exit(1)


def _give_back():
    """This module's name belongs to the user's own, or to nobody."""
    import sys
    # Not from importlib.machinery: the program would find that loaded.
    spec = sys.modules["_frozen_importlib_external"].PathFinder.find_spec("sitecustomize")
    if spec is None or spec.loader is None:
        raise ImportError("No module named 'sitecustomize'", name="sitecustomize")
    module = sys.modules["sitecustomize"]
    for name in [name for name in vars(module) if not name.startswith("__")]:
        delattr(module, name)
    module.__spec__, module.__loader__ = spec, spec.loader
    module.__file__, module.__cached__, module.__doc__ = spec.origin, spec.cached, None
    module.__package__ = spec.parent
    if spec.submodule_search_locations is not None:
        module.__path__ = spec.submodule_search_locations
    spec.loader.exec_module(module)


_wait_here()
_give_back()
