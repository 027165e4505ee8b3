"""The state of a Python process, in parts that can be compared with those of another one. Imports nothing that is not
there."""

import os
import sys

RUNS_OWN = {"DDPRUN_NOTIFY_SOCKET", "MASTER_PORT", "TORCHELASTIC_RUN_ID", "TORCHELASTIC_ERROR_FILE",
            "TORCHELASTIC_TIMER_FILE", "DDPRUN_TERM", "DDPRUN_WORLD_ID", "DDPRUN_TEST_MARK", "NOTIFY_SOCKET",
            "DDPRUN_LIFE_LOCK"}


def name_of(value):
    return getattr(value, "__qualname__", None) or type(value).__qualname__


def loggers():
    logging = sys.modules.get("logging")
    if logging is None:
        return {}
    found = {}
    for name, one in [("", logging.root), *logging.root.manager.loggerDict.items()]:
        parent = getattr(one, "parent", None)
        found[name] = [name_of(type(one))] if parent is None and name else [
            name_of(type(one)), one.level, one.disabled, one.propagate, parent.name if parent else None,
            one.getEffectiveLevel(), [name_of(type(handler)) for handler in one.handlers]]
    found["handlers"] = [name_of(type(one())) for one in logging._handlerList]
    return found


def filters():
    import _warnings
    warnings = sys.modules.get("warnings")
    return [[kind, message and (message if isinstance(message, str) else message.pattern), category.__name__,
             module and (module if isinstance(module, str) else module.pattern), line]
            for kind, message, category, module, line in getattr(warnings, "filters", _warnings.filters)]


def namespaces():
    """Names in each module. State that a call leaves in a module is there once it was called."""
    return {name: sorted(key for key in vars(module) if key != "__warningregistry__")
            for name, module in sys.modules.items() if isinstance(module, type(sys)) and name != "__main__"}


def threads():
    return len(os.listdir("/proc/self/task"))


def registered():
    """Of each table that imports add to, its keys."""
    copyreg = sys.modules.get("copyreg")
    reduction = sys.modules.get("multiprocessing.reduction")
    return {"copyreg": sorted(map(name_of, getattr(copyreg, "dispatch_table", ()))),
            "reducers": sorted(map(name_of, reduction.ForkingPickler._extra_reducers)) if reduction else []}


def settings():
    """Of the process, beside its modules. Modules that are imported for it are then there."""
    import gc
    import locale
    import logging
    import multiprocessing
    import resource
    import signal
    umask = os.umask(0)
    os.umask(umask)
    return {"signals": [str(signal.getsignal(number)) for number in sorted(signal.valid_signals())], "umask": umask,
            "limits": [resource.getrlimit(number) for number in range(16)], "recursion": sys.getrecursionlimit(),
            "dlopen": sys.getdlopenflags(), "collector": [gc.isenabled(), gc.get_threshold(), len(gc.callbacks)],
            "CPUs": sorted(os.sched_getaffinity(0)), "locale": locale.setlocale(locale.LC_ALL),
            "method": multiprocessing.get_start_method(allow_none=True), "level": logging.getLevelName(5),
            "root": [logging.root.level, logging.root.manager.disable, len(logging.root.handlers)]}


def state():
    return {
        "environment": {name: "" if name in RUNS_OWN else value for name, value in os.environ.items()},
        "modules": sorted(sys.modules), "namespaces": namespaces(), "sys.path": list(sys.path),
        "sys.meta_path": [name_of(finder) for finder in sys.meta_path], "filters": filters(), "loggers": loggers(),
        "threads": threads(), "descriptors": len(os.listdir("/proc/self/fd")),
        "directory": os.getcwd(), "hooks": [name_of(hook) for hook in (sys.excepthook, sys.displayhook)],
        "path hooks": len(sys.path_hooks), "registered": registered(), "argv": sys.argv, "flags": repr(sys.flags),
        "original": sys.orig_argv,
    }
