# The first module that a worker's Python loads, and a preload process's: python_hook.h. It takes back all that has led
# to it, and then the user's own sitecustomize is imported. In a preload process _ddprun_preload.py waits before that.
# In a worker that is started from its file, the watch begins once torch.distributed is imported.
import os
import sys


def _before_torch(start):
    """Calls it, in this process alone, before torch.distributed is loaded. A finder would be seen in sys.meta_path.
    Returns the function that imports modules from here on."""
    machinery, pid = sys.modules["_frozen_importlib"], os.getpid()
    load = machinery._find_and_load

    def _find_and_load(name, import_):
        if name == "torch.distributed" and pid == os.getpid():
            machinery._find_and_load = load
            start()
        return load(name, import_)
    # Tracebacks and warnings leave its frames out, as those of Python's own imports.
    _find_and_load.__code__ = _find_and_load.__code__.replace(co_filename="<frozen importlib._bootstrap>")
    machinery._find_and_load = _find_and_load
    return _find_and_load


def _forget(entry):
    """Paths and variables are then as without the hook."""
    sys.path_importer_cache.pop(entry, None)
    sys.modules["zipimport"]._zip_directory_cache.pop(entry, None)
    try:  # It removes the variable from C's environment and from /proc/self/environ, and makes no module.
        sys.modules["_imp"].create_dynamic(type(__spec__)("ddprun_hidden", None, origin=entry))
    except (ImportError, SystemError):
        pass
    os.close(int(entry.rpartition("/")[2]))
    ours, variables = os.fsencode(entry), os.environb
    if not variables.get(b"PYTHONPATH", b"").startswith(ours):
        return
    with open("/proc/self/environ", "rb") as file:
        own = [one[11:] for one in file.read().split(b"\0") if one.startswith(b"PYTHONPATH=")]
    if own and not own[-1].startswith(ours):
        variables[b"PYTHONPATH"] = own[-1]
        given = sorted(variables._data.items())  # As ddprun gives them.
        variables._data.clear()
        variables._data.update(given)
    else:
        del variables[b"PYTHONPATH"]


if "DDPRUN_PRELOAD_HOOK" in os.environ:
    exec(compile(__loader__.get_source("_ddprun_preload"), __file__, "exec"))
else:
    sys.path[:] = [place for place in sys.path if place != __loader__.archive]
    try:
        text = __loader__.get_source("_ddprun_watch") + "start()\n"
        _forget(__loader__.archive)
        _before_torch(lambda: exec(compile(text, "<ddprun watch>", "exec"), {"__name__": "_ddprun_watch"}))
    except Exception:
        pass
itself = sys.modules.pop("sitecustomize")
try:
    import sitecustomize
finally:  # Python takes it out again where there is no other one.
    sys.modules.setdefault("sitecustomize", itself)
