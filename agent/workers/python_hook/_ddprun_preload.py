# Part of sitecustomize.py. Makes this interpreter a preload process of workers (docs/recovery.md, --preload): loads
# the given modules inside its own start-up and waits there. A worker, forked here, takes this module back and continues
# with the script, as if nothing had been in between. Anything unforeseen ends the preload process, never runs the script.

import os
import sys

def _own_files(program, installed):
    """Files whose change makes what was loaded stale, with their size and time: all but those of
    the interpreter and of installed packages."""
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


class _Unchanged:
    """The state that another run must find unchanged (--keep-warm): each file that was loaded, the directories of packages, and
    which names beside the program would hide what was loaded."""

    def __init__(self, program, beside):
        names = {getattr(module, "__file__", None) for module in list(sys.modules.values())}
        names.update(os.fsdecode(line.split(None, 5)[5]) for line in _read("/proc/self/maps").splitlines() if b"/" in line)
        names.update(sys.path)
        names -= {program[1], beside, ""}
        self.stamps = {name: _stamp(name) for name in names if isinstance(name, str) and os.path.isabs(name)}
        self.loaded = {name.partition(".")[0] for name in sys.modules}
        self.program, self.beside = program, beside
        self.hides, self.script = self._hides(), _stamp(program[1])

    def _hides(self):
        try:
            return {name.partition(".")[0] for name in os.listdir(self.beside or ".")} & self.loaded
        except OSError:
            return set()

    def why_not(self, why_not_before_torch):
        """For people; "": all of it is as it was. The function looks at the script of a background load, if that was edited."""
        for name, stamp in self.stamps.items():
            if _stamp(name) != stamp:
                return "%s has changed since it was loaded" % name
        if self._hides() != self.hides:
            return "%s beside the program would hide what was loaded" % ", ".join(sorted(self._hides() ^ self.hides))
        edited = self.program[0] == "module" or _stamp(self.program[1]) != self.script
        return why_not_before_torch() if edited else ""


def _stamp(name):
    try:
        status = os.stat(name)
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino


class _Watch:
    """Notes which module does what a fork would lose, or what workers must not have in common.

    A thread, an open file, a child or a directory counts only if it is still there at the end.
    """

    def __init__(self):
        self.background = None
        self.doer = {}        # (why, thread, file, child or directory) that has appeared -> the module that was executed then.
        self.did = {}         # Module -> why, of what leaves nothing behind.
        self.generators = {}  # Module -> (function that tells its generator's state, function that draws a new one).
        self.states = {}
        self.last = self.seen = None

    def begin(self, names, stack):
        """`names`: variables that workers have of their own, and this process has not. `stack`: whose last module is executed."""
        watch = self

        class Variables(dict):
            def __missing__(self, name):
                if name in names:
                    watch.did.setdefault(stack[-1], "reads " + os.fsdecode(name))
                raise KeyError(name)

            def __setitem__(self, name, value):
                if name in names:
                    watch.did.setdefault(stack[-1], "sets " + os.fsdecode(name))
                super().__setitem__(name, value)
        self.plain = os.environ._data
        os.environ._data = os.environb._data = Variables(self.plain)
        for name, module in list(sys.modules.items()):
            self.loaded(name, module)
        self.first = self.last = self._state()

    def begins(self):
        """Another module is about to be executed. False: nothing is watched yet."""
        if self.background is not None:
            self.background.rest()
        return self.last is not None

    def loaded(self, name, module):
        """It may bring a generator of random numbers."""
        if name == "random" and hasattr(module, "getstate"):
            self.generators[name] = module.getstate, module.seed
        elif name == "numpy.random" and hasattr(module, "get_state"):
            self.generators[name] = lambda: [one if type(one) in (int, float, str) else one.tobytes()
                                             for one in module.get_state()], module.seed
        elif name == "torch" and hasattr(module, "default_generator"):
            torch = module.default_generator

            def state():
                import ctypes
                numbers = torch.get_state()
                return ctypes.string_at(numbers.data_ptr(), numbers.numel())
            self.generators[name] = state, torch.seed
        if name in self.generators:
            self.states[name] = self.generators[name][0]()

    def _state(self):
        """All of it. Listing takes time, so it is done only where a number has changed."""
        locks = getattr(sys.modules.get("multiprocessing.util"), "_afterfork_registry", {})
        numbers = (os.stat("/proc/self/task").st_nlink, os.stat("/proc/self/fd").st_size or os.listdir("/proc/self/fd"),
                   _has_child(), os.getcwd(), len(locks))
        if numbers == self.seen:
            return self.last
        self.seen = numbers
        found = {("starts a thread", int(one)) for one in os.listdir("/proc/self/task")}
        found.update(("keeps a file open", one) for one in _open_files())
        found.update(("leaves a child", one) for one in _children())
        found.update(("makes a lock that workers would share", number) for (number, *_), one in list(locks.items())
                     if hasattr(one, "_semlock"))
        found.add(("changes the directory", os.getcwd()))
        return found

    def look(self, doer):
        """Changes since the last look are the doing of this module."""
        if self.last is None:
            return
        before, self.last = self.last, self._state()
        for one in self.last - before - self.first:
            self.doer[one] = doer
        for name, (tell, _) in self.generators.items():
            state = tell()
            if state != self.states[name]:
                self.states[name] = state
                self.did.setdefault(doer, "draws random numbers")

    def reasons(self):
        """Module -> why it may not be loaded ahead."""
        import time
        for _ in range(20):  # A thread that was joined may still be on its way out.
            self.seen = None
            self.look(None)
            if not any(one[0] == "starts a thread" for one in self.last - self.first):
                break
            time.sleep(0.005)
        left = {self.doer.get(one): one[0] for one in sorted(self.last - self.first, key=str)}
        return {doer: why for doer, why in {**left, **self.did}.items() if doer is not None}

    def end(self):
        self.plain.clear()
        self.plain.update(os.environ._data)
        os.environ._data = os.environb._data = self.plain


def _has_child():
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def _children():
    found = []
    for thread in os.listdir("/proc/self/task"):
        try:
            found += map(int, _read("/proc/self/task/%s/children" % thread).split())
        except OSError:  # It has just ended, or this kernel does not tell.
            pass
    return found


def _open_files():
    found = set()
    for name in os.listdir("/proc/self/fd"):
        try:
            status = os.fstat(int(name))
            found.add((int(name), status.st_dev, status.st_ino))
        except OSError:  # The list's own.
            pass
    return found


class _Refused(Exception):
    """Says to people why workers cannot be forked."""


class _Background:
    """Loads at low priority. If memory runs out, the kernel ends this process first."""

    def __init__(self):
        import time
        self.sleep = time.sleep
        self.oom = _read("/proc/self/oom_score_adj")
        for score in (b"1000", self.oom, b"1000"):  # Workers go back to it: where that is denied, nothing is loaded ahead.
            _write("/proc/self/oom_score_adj", score)
        self.idle = not self._counts_by_session() and self._may_leave_idle()
        if self.idle:
            os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
        self.ran, self.waited = self._times()

    def _counts_by_session(self):
        """The kernel shares CPUs among sessions first, and workers have sessions of their own. Then the idle class
        takes as much as a worker does."""
        try:
            return _read("/proc/sys/kernel/sched_autogroup_enabled").strip() != b"0"
        except OSError:
            return False

    def _may_leave_idle(self):
        """Only with privileges may a process leave the idle class again. A child tries it."""
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
        return [int(word) for word in _read("/proc/self/schedstat").split()[:2]]

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
        if self.idle:
            os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))


class _Silence:
    """Output meanwhile is dropped."""

    def __enter__(self):
        self.saved = [os.dup(1), os.dup(2)]
        nowhere = os.open("/dev/null", os.O_WRONLY)
        for target in (1, 2):
            os.dup2(nowhere, target)
        os.close(nowhere)

    def __exit__(self, *error):
        _flush()
        for target, saved in zip((1, 2), self.saved):
            os.dup2(saved, target)
            os.close(saved)


def _flush():
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()


def _read(name):
    """Bytes: text may need an encoding that has to be imported, and an import may wait for this."""
    with open(name, "rb") as file:
        return file.read()


def _write(name, content):
    with open(name, "wb") as file:
        file.write(content)


def _draw_anew(multiprocessing, threading):
    """Draws the values that each process of its own draws at its start."""
    if multiprocessing is not None:
        multiprocessing.current_process().authkey = os.urandom(32)
    if hasattr(threading, "main_thread") and hasattr(threading.main_thread(), "_set_native_id"):
        threading.main_thread()._set_native_id()


def _given():
    """The environment that this process was started with."""
    return dict(entry.split(b"=", 1) for entry in _read("/proc/self/environ").split(b"\0") if b"=" in entry)


def _changes(hook):
    """The changes that start-up has made to the environment that the interpreter was given: name -> value, or
    None where it was removed."""
    given = _given()
    now = dict(os.environb)
    changed = {}
    for name in given.keys() | now.keys():
        if given.get(name) != now.get(name) and not name.startswith(b"DDPRUN_PRELOAD_"):
            changed[name] = _without_hook(now.get(name), hook)
    return given, changed


def _without_hook(value, hook):
    entry = os.fsencode(hook["entry"])
    return value and value.replace(entry + b":", b"").replace(entry, b"")


def _take(environment, given, changed):
    """Makes it the worker's environment, in every place where Python keeps one. Returns it as it was
    given, and the names that differ from worker to worker."""
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


def _load(hook, imports, library, trees):
    """What was asked for, or in another try what was left. Returns a remark for people."""
    import contextlib
    import ctypes
    sys.path.insert(0, hook["path"])
    program = hook["kind"], hook["program"]
    if hook["background"]:
        trees.watch.background = _Background()
        before = imports.what_comes_before_torch(program)
        if before:
            raise _Refused(before)
    failed = {}
    again = "left" in hook  # All of it has been printed once.
    with _Silence() if again or hook["background"] else contextlib.nullcontext():
        if again:
            for name, before in hook["left"]:
                trees.load(name, {os.fsencode(key): value and os.fsencode(value) for key, value in before.items()})
        else:
            failed = imports.preload(hook["preload"], program, hook["path"])
    ctypes.pythonapi.PyOS_BeforeFork()
    library.ddprun_preload_rehearse()  # Some libraries end their threads at a fork, and start them again.
    ctypes.pythonapi.PyOS_AfterFork_Parent()
    reasons, users, left = trees.left_out()
    left = [[name, {os.fsdecode(key): value and os.fsdecode(value) for key, value in before.items()}] for name, before in left]
    if trees.watch.background is not None:
        trees.watch.background.end()
    trees.watch.end()
    if "remark" not in hook:
        hook["remark"] = _remark({**failed, **reasons}, users)
    if not reasons:
        return hook["remark"]
    if not left or left == hook.get("left"):
        raise _Refused("nothing can be loaded ahead: " + _remark(reasons, users))
    return _try_again({**hook, "left": left}, trees.watch)


def _remark(reasons, users):
    also = " and %d that import %s" % (users, "it" if len(reasons) == 1 else "them") if users else ""
    text = ", ".join("%s (%s)" % one for one in reasons.items())
    return (text if len(text + also) < 900 else text[:897 - len(also)] + "...") + also


def _try_again(hook, watch):
    """Executes the interpreter anew, to load less. Threads, files and memory of the first try go with its image."""
    import json
    import signal
    for child in _children():
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    kept = {one[0] for what, one in watch.first if what == "keeps a file open"}
    for file, _, _ in _open_files():
        os.set_inheritable(file, file in kept)
    os.chdir(next(place for what, place in watch.first if what == "changes the directory"))
    if watch.background is not None:
        _write("/proc/self/oom_score_adj", watch.background.oom)
    os.execvpe(sys.orig_argv[0], sys.orig_argv, {**_given(), b"DDPRUN_PRELOAD_HOOK": json.dumps(hook).encode()})


def _wait_for_a_worker(library, socket, hook, trees, imports, remark):
    """Returns in a worker alone: its environment."""
    import ctypes
    api = ctypes.pythonapi
    program = hook["kind"], hook["program"]
    files = _own_files(program, imports.installed())
    unchanged = _Unchanged(program, hook["path"]) if hook["keep"] else None
    _flush()
    trees.park(lambda value: _without_hook(value, hook))
    api.Py_IncRef(ctypes.py_object(trees.parked))  # A module that no worker imports is not freed at its end either.
    trees.gc.collect()
    trees.gc.freeze()
    if library.ddprun_preload_ready(socket, remark.encode("utf-8", "replace")[:1000]) != 0:
        os._exit(0)
    while True:
        word = library.ddprun_preload_wait(socket)
        if word == 0 or library.ddprun_preload_retired(socket):
            os._exit(0)
        if word == 2:
            socket = _stay(library, socket, hook, trees, imports, remark, unchanged)
            files.pop(hook["program"], None)  # A script that was edited is read anew by each worker.
            continue
        for name, stamp in files.items():
            if _stamp(name) != stamp:
                raise RuntimeError("%s has changed since it was loaded" % name)
        api.PyOS_BeforeFork()
        if library.ddprun_preload_fork(socket) == 0:
            begun = library.ddprun_preload_begin()  # First: the next worker waits for it.
            api.PyOS_AfterFork_Child()
            return begun
        api.PyOS_AfterFork_Parent()


def _stay(library, socket, hook, trees, imports, remark, unchanged):
    """Waits for the next run (--keep-warm), whose preload process it is then. Returns the socket to its agent."""
    if trees.watch.background is not None:
        _write("/proc/self/oom_score_adj", trees.watch.background.oom)

    def before_torch():
        """In a child, since it needs modules that are parked."""
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                sys.modules.update(trees.parked)
                os.write(write, (imports.what_comes_before_torch(unchanged.program) or "").encode())
                os._exit(0)
            finally:
                os._exit(1)
        os.close(write)
        with open(read, "rb") as file:
            why = file.read().decode("utf-8", "replace")
        return why or (os.waitpid(child, 0)[1] and "%s cannot be read" % unchanged.program[1]) or ""
    text = remark.encode("utf-8", "replace")[:1000]
    socket = library.ddprun_preload_keep(socket, text)
    why = unchanged.why_not(before_torch if hook["background"] else str)
    if why:
        library.ddprun_preload_refuse(socket, why.encode("utf-8", "replace")[:1000])
        os._exit(0)
    library.ddprun_preload_ready(socket, text)
    return socket


def _take_arguments(words):
    """The worker's command line may be another one than the preload process's, behind the name of the program."""
    if words:
        shared = len(sys.orig_argv) - (len(sys.argv) - 1)
        sys.argv[1:] = words[shared:]
        sys.orig_argv[1:] = words[1:]


def _become_worker(begun, words, library, hook, trees, watch, given, changed):
    environment = []
    while begun[len(environment)]:
        environment.append(begun[len(environment)])
    os.close(hook["file"])
    if trees.watch.background is not None:
        _write("/proc/self/oom_score_adj", trees.watch.background.oom)
    whole, own = _take(environment, given, changed)
    _take_arguments(words())
    _draw_anew(trees.find("multiprocessing.process"), trees.find("threading"))
    trees.atexit.register(trees.gc.unfreeze)  # Frozen objects have finalizers too.

    def disagree(why):
        library.ddprun_preload_retire(why.encode("utf-8", "replace"))
    late, pid = "torch.distributed" in trees.parked, os.getpid()

    def start():
        if pid == os.getpid():  # Not in a child of the worker.
            watch.start()
    if not late:
        trees.original = _before_torch(start)  # It stays when the last module is back.
    trees.start(whole, own, hook["path"], disagree, {"torch.distributed": start} if late else {})


def _serve(hook, watch, imports, trees):
    """Returns in a worker alone."""
    import ctypes
    import json
    socket = -1
    library = ctypes.PyDLL(hook["entry"])
    library.ddprun_preload_begin.restype = ctypes.POINTER(ctypes.c_char_p)
    library.ddprun_preload_arguments.restype = ctypes.c_void_p

    def words():
        size = ctypes.c_size_t()
        begin = library.ddprun_preload_arguments(ctypes.byref(size))
        return [os.fsdecode(word) for word in ctypes.string_at(begin, size.value).split(b"\0")[:-1]] if size.value else []
    try:
        socket = library.ddprun_preload_open()
        if hook["probe"]:
            library.ddprun_preload_ready(socket, b"")
            os._exit(0)
        if sys.implementation.name != "cpython" or not (3, 10) <= sys.version_info[:2] <= (3, 13):
            raise RuntimeError("--preload knows CPython 3.10 to 3.13")
        if _command_line() != [os.fsencode(word) for word in hook["arguments"]]:
            raise RuntimeError("the interpreter was started with other arguments")
        library.ddprun_preload_rename()
        # An interpreter that is executed anew from here on, or started by an import, finds this.
        os.environ["DDPRUN_PRELOAD_HOOK"] = json.dumps({**hook, "taken": os.getpid()})
        given, changed = _changes(hook)
        trees.begin({os.fsencode(name) for name in hook["workers"]})
        remark = _load(hook, imports, library, trees)
        begun = _wait_for_a_worker(library, socket, hook, trees, imports, remark)
    except BaseException as error:
        text = "%s" % error if type(error) is _Refused else "%s: %s" % (type(error).__name__, error)
        library.ddprun_preload_refuse(socket, text.encode("utf-8", "replace")[:1000])
        os._exit(0)
    _become_worker(begun, words, library, hook, trees, watch, given, changed)


def _command_line():
    return _read("/proc/self/cmdline").split(b"\0")[1:-1]


def _wait_here():
    try:
        space = {}  # Not imported: its frames are to look like those of Python's own imports.
        exec(compile(__loader__.get_source("_ddprun_trees"), "<frozen importlib._bootstrap>", "exec"), space)
        trees = space["Trees"](_Watch())
        import json
        hook = json.loads(os.environ["DDPRUN_PRELOAD_HOOK"])
        entry = hook["entry"]
        import _ddprun_imports
        import _ddprun_watch
        for name in {"_ddprun_imports", "_ddprun_watch"} - trees.base:
            del sys.modules[name]
        sys.path[:] = [place for place in sys.path if place != entry]
        sys.path_importer_cache.pop(entry, None)
        if "taken" not in hook and os.getppid() == hook["agent"]:
            _serve(hook, _ddprun_watch, _ddprun_imports, trees)
            return
        trees.forget()
        # The preload process itself, executed anew, or its program, begun by another process: never to run
        # without a rank. Anything else continues as without us.
        tail = [os.fsencode(word) for word in hook["tail"]]
        if hook.get("taken") == os.getpid() or _command_line()[-len(tail):] == tail:
            os._exit(1)
        del os.environ["DDPRUN_PRELOAD_HOOK"]
        os.environ.pop("DDPRUN_PRELOAD_SOCKET", None)
        if hook["pythonpath"] is None:
            os.environ.pop("PYTHONPATH", None)
        else:
            os.environ["PYTHONPATH"] = hook["pythonpath"]
    except BaseException:
        import traceback
        traceback.print_exc()
        os._exit(1)


_wait_here()
