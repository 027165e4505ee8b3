# Makes this interpreter a template of workers (docs/recovery.md, --preload): loads what was asked
# for inside its own start-up and waits there. A worker, forked here, takes this module back and goes
# on to the script, as if nothing had been in between. Anything unforeseen ends the template, never
# runs the script.


def _imports_of(source, name):
    """The absolute imports at the top level of a script, in order: (module, names taken from it)."""
    import ast
    for node in ast.parse(source, name).body:
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, ()
        elif isinstance(node, ast.ImportFrom) and not node.level and node.module != "__future__":
            yield node.module, tuple(alias.name for alias in node.names)


# What a library loads only once it is used, found by comparing sys.modules before and after a step
# of DistributedDataParallel.
_LATE = {"torch": ("torch._dynamo",)}


def _preload(wanted, program):
    import importlib
    import importlib.util
    import sys
    for name in wanted.split(","):
        if name != "imports":
            importlib.import_module(name)
            continue
        kind, text = program
        if kind == "module":
            spec = importlib.util.find_spec(text)
            if spec is not None and spec.submodule_search_locations is not None:
                spec = importlib.util.find_spec(text + ".__main__")
            if spec is None or spec.origin is None:
                raise ImportError("no module '%s' to take imports from" % text)
            kind, text = "file", spec.origin
        if kind == "file":
            import tokenize
            with tokenize.open(text) as script:
                source = script.read()
        else:
            source = text
        for module, parts in _imports_of(source, text if kind == "file" else "<string>"):
            loaded = importlib.import_module(module)
            for part in parts:
                if part != "*" and not hasattr(loaded, part):
                    importlib.import_module(module + "." + part)
        for library, late in _LATE.items():
            if library in sys.modules:
                for module in late:
                    importlib.import_module(module)


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


def _seed_anew():
    """What each process of its own draws at its start, or at the first use in it."""
    import os
    import sys
    if "torch" in sys.modules:
        sys.modules["torch"].default_generator.seed()
    if "numpy.random" in sys.modules:
        sys.modules["numpy.random"].seed()
    if "random" in sys.modules:
        sys.modules["random"].seed()
    if "multiprocessing.process" in sys.modules:
        process = sys.modules["multiprocessing.process"].current_process()
        process.authkey = os.urandom(32)
    if "threading" in sys.modules:
        main = sys.modules["threading"].main_thread()
        if hasattr(main, "_set_native_id"):
            main._set_native_id()


def _take(environment):
    """The worker's environment, in every place where Python keeps one."""
    import os
    import posix
    entries = dict(entry.split(b"=", 1) for entry in environment)
    posix.environ.clear()
    posix.environ.update(entries)
    os.environ.clear()
    os.environ.update({os.fsdecode(name): os.fsdecode(value) for name, value in entries.items()})


def _load_and_wait(library, socket, program, wanted):
    """Returns in a worker alone."""
    import ctypes
    import gc
    import os
    import sys
    api = ctypes.pythonapi
    _preload(wanted, program)
    files = _own_files(program)
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()
    gc.collect()
    gc.freeze()
    api.PyOS_BeforeFork()
    library.ddprun_template_rehearse()
    api.PyOS_AfterFork_Parent()
    if library.ddprun_template_ready(socket) != 0:
        os._exit(0)
    while library.ddprun_template_wait(socket) != 0:
        for name, stamp in files.items():
            if _stamp(name) != stamp:
                raise RuntimeError("%s has changed since it was loaded" % name)
        api.PyOS_BeforeFork()
        if library.ddprun_template_fork(socket) == 0:
            api.PyOS_AfterFork_Child()
            return
        api.PyOS_AfterFork_Parent()
    os._exit(0)


def _become_worker(library):
    import atexit
    import gc
    begun = library.ddprun_template_begin()
    environment = []
    while begun[len(environment)]:
        environment.append(begun[len(environment)])
    _take(environment)
    _seed_anew()
    atexit.register(gc.unfreeze)  # What is frozen has finalizers too.


def _serve(hook):
    """Returns in a worker alone."""
    import ctypes
    import os
    import sys
    socket = -1
    library = ctypes.PyDLL("/proc/self/fd/%d" % hook["library"])
    os.close(hook["library"])
    library.ddprun_template_begin.restype = ctypes.POINTER(ctypes.c_char_p)
    try:
        socket = library.ddprun_template_open()
        with open("/proc/self/cmdline", "rb") as words:
            if words.read().split(b"\0")[1:-1] != [os.fsencode(word) for word in hook["arguments"]]:
                raise RuntimeError("the interpreter was started with other arguments")
        sys.path.insert(0, hook["path"])
        _load_and_wait(library, socket, (hook["kind"], hook["program"]), hook["preload"])
    except BaseException as error:
        text = "%s: %s" % (type(error).__name__, error)
        library.ddprun_template_refuse(socket, text.encode("utf-8", "replace")[:230])
        os._exit(0)
    _become_worker(library)
    if hook["path"] in sys.path:
        sys.path.remove(hook["path"])


def _wait_here():
    import os
    import sys
    description = os.environ.pop("DDPRUN_TEMPLATE_HOOK", None)
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry) != here]
    sys.path_importer_cache.pop(here, None)
    if description is None:
        return
    try:
        import json
        hook = json.loads(description)
        if hook["pythonpath"] is None:
            os.environ.pop("PYTHONPATH", None)
        else:
            os.environ["PYTHONPATH"] = hook["pythonpath"]
        _serve(hook)
    except BaseException:
        import traceback
        traceback.print_exc()
        os._exit(1)


def _give_back():
    """This module's name belongs to the user's own, or to nobody."""
    import sys
    from importlib.machinery import PathFinder
    spec = PathFinder.find_spec("sitecustomize")
    if spec is None or spec.loader is None:
        raise ImportError("No module named 'sitecustomize'", name="sitecustomize")
    module = sys.modules["sitecustomize"]
    for name in [name for name in vars(module) if not name.startswith("__")]:
        delattr(module, name)
    module.__spec__, module.__loader__ = spec, spec.loader
    module.__file__, module.__cached__, module.__doc__ = spec.origin, spec.cached, None
    spec.loader.exec_module(module)


_wait_here()
_give_back()
