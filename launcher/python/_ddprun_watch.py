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
_POINT_TO_POINT = ("send", "recv", "isend", "irecv", "batch_isend_irecv")  # NCCL counts none of these.
_begun = False  # An interpreter may find ddprun.pth twice.


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
            yield from json.loads(tell(includeCollectives=False)).get("pg_status", {}).items()


def _operations():
    """What the groups themselves count: Gloo's sends and receives too, at once."""
    module = sys.modules.get("torch.distributed.distributed_c10d")
    world = getattr(module, "_world", None)
    count = 0
    for group in list(getattr(world, "pg_map", ())):
        try:
            count += group._get_sequence_number_for_group()
        except RuntimeError:
            pass  # A group whose backend counts nothing.
    return count


def _look(module):
    """How many collectives were begun, how many of these in the group of all ranks, the first one, and whether
    one of them has not ended."""
    begun, of_all, open_ones = 0, 0, False
    for name, group in _status(module):
        enqueued = int(group.get("last_enqueued_collective", -1))
        begun += max(0, enqueued)
        of_all += max(0, enqueued) if name == "0" else 0
        open_ones |= enqueued > int(group.get("last_completed_collective", -1))
    return max(begun, _operations()), of_all, open_ones


def _place():
    """Where the main thread stands, and whether that is in a send or receive."""
    frame = sys._current_frames().get(_main_thread())
    at = frame and (frame.f_code, frame.f_lasti)
    while frame is not None:
        if frame.f_code.co_name in _POINT_TO_POINT and frame.f_code.co_filename.endswith("distributed_c10d.py"):
            return at, True
        frame = frame.f_back
    return at, False


def _main_thread():
    import threading
    return threading.main_thread().ident


def _watch(address, stop):
    import socket
    told, before = (0, 0, False), None
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as agent:
        while not stop.wait(_EACH):
            module = sys.modules.get("torch._C._distributed_c10d")
            if module is None:
                continue
            begun, of_all, open_ones = _look(module)
            place, sends = _place()
            # Who moves on while a collective of its own is under way does not wait for it.
            seen = (0, 0, False) if sends else (begun, of_all, open_ones and place == before)
            before = place
            if seen == told:
                continue
            try:
                agent.sendto(b"COLLECTIVES=%d\nWORLD_COLLECTIVES=%d\nIN_COLLECTIVE=%d" % seen,
                             socket.MSG_DONTWAIT, address)
                told = seen
            except OSError:
                continue  # A full or vanished agent must not disturb training.
            if sends:
                return  # From here on its collectives say too little of it.


def _watch_quietly(address, stop):
    try:
        _watch(address, stop)
    except Exception:
        pass  # Another torch than those that this knows: no say, and no harm.


def _start(address):
    import atexit
    import threading
    os.environ["DDPRUN_WATCHED"] = f"{os.getpid()} {address}"  # Its children are not the worker.
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
    global _begun
    address = os.environ.get("DDPRUN_NOTIFY_SOCKET")
    pid, _, watched = os.environ.get("DDPRUN_WATCHED", "").partition(" ")
    if (_begun or not address or os.environ.get("WORLD_SIZE", "1") == "1" or os.environ.get("DDPRUN_WATCH") == "0"
            or (watched == address and pid != str(os.getpid()))):
        return
    _begun = True
    if "torch.distributed" in sys.modules:
        _start(address)
    else:
        sys.meta_path.insert(0, _OnceTorchIsThere(address))
