"""Tells ddprun's agent how far a worker is that tells no step itself: how many collectives torch has begun.

ddprun.pth imports this at each start of an interpreter, and so does a template of workers
(docs/recovery.md). It acts in workers of worlds of two or more that load torch.distributed, and there
it is one thread that looks at torch's own counters once a second (some 50 us) and sends a datagram when
they have changed (COLLECTIVES, docs/writing-a-worker.md). It touches neither tensors nor groups, starts
nothing in the worker's children, and ends before the interpreter does. DDPRUN_WATCH=0 turns it off.
"""

import os
import sys

_EACH = 1.0  # Seconds.


def _status(module):
    """The state of torch's process groups, as its recorders tell it without their entries."""
    import json
    torch = sys.modules["torch"]
    tellers = [getattr(module, "_dump_fr_trace_json", None)]
    cuda = getattr(torch, "cuda", None)
    if cuda is not None and cuda.is_initialized():
        tellers.append(getattr(module, "_dump_nccl_trace_json", None))
    for tell in tellers:
        if tell is not None:
            yield from json.loads(tell(includeCollectives=False)).get("pg_status", {}).values()


def _look(module):
    """How many collectives were begun, and whether one of them has not ended."""
    begun, waits = 0, False
    for group in _status(module):
        enqueued = int(group.get("last_enqueued_collective", -1))
        begun += max(0, enqueued)
        waits |= enqueued > int(group.get("last_completed_collective", -1))
    return begun, waits


def _watch(address, stop):
    import socket
    told = (0, False)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as agent:
        while not stop.wait(_EACH):
            module = sys.modules.get("torch._C._distributed_c10d")
            if module is None:
                continue
            seen = _look(module)
            if seen == told:
                continue
            try:
                agent.sendto(b"COLLECTIVES=%d\nIN_COLLECTIVE=%d" % seen, socket.MSG_DONTWAIT, address)
                told = seen
            except OSError:
                pass  # A full or vanished agent must not disturb training.


def _watch_quietly(address, stop):
    try:
        _watch(address, stop)
    except Exception:
        pass  # Another torch than those that this knows: no say, and no harm.


def _start(address):
    import atexit
    import threading
    os.environ["DDPRUN_WATCHED"] = address  # Its children are not the worker.
    stop = threading.Event()
    thread = threading.Thread(target=_watch_quietly, args=(address, stop), name="ddprun-watch", daemon=True)

    def end():
        stop.set()
        thread.join(1)
    atexit.register(end)
    thread.start()


class _OnceTorchIsThere:
    """Finds no module, but sees that torch.distributed is looked for. It stays where it is: who removes
    a finder while it is asked makes Python pass over the next one."""

    def __init__(self, address):
        self.address, self.pid = address, os.getpid()

    def find_spec(self, name, path=None, target=None):
        if name == "torch.distributed" and self.pid == os.getpid():
            self.pid = 0
            _start(self.address)
        return None


def begin():
    address = os.environ.get("DDPRUN_NOTIFY_SOCKET")
    if (not address or os.environ.get("WORLD_SIZE", "1") == "1" or os.environ.get("DDPRUN_WATCH") == "0"
            or os.environ.get("DDPRUN_WATCHED") == address):
        return
    if "torch.distributed" in sys.modules:
        _start(address)
    else:
        sys.meta_path.insert(0, _OnceTorchIsThere(address))
